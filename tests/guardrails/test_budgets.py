"""Budgets of one run: what is reserved, what an end settles, what waits, and how exhaustion explains itself."""

from typing import Any

import pytest

from projections.canonical import Reservation
from schemas.usage import Amount, Limits
from tests.plugins.figures import Figures
from tests.supervisor.scenario import (
    Due,
    Said,
    Scenario,
    cancel,
    ended,
    event,
    failed,
    given,
    goal,
    offer,
    started,
    step,
    teach,
)


def run(
    *steps: dict[str, Any],
    tokens: int | None = 100,
    own: int | None = None,
    said: tuple[Said | Due, ...] = (),
    **more: Any,
) -> Scenario:
    """`w` offers `work` and may use `own` tokens an attempt; the run has `tokens`."""
    contract = {} if own is None else {"budget": {"tokens": own}}
    limits = {} if tokens is None else {"budget": {"tokens": tokens}}
    return given(offer("w", "work", **contract), teach(*(steps or (step("a"),)), **limits, **more), goal(), *said)


def used(tokens: int) -> dict[str, int]:
    return {"input_tokens": tokens - tokens // 3, "output_tokens": tokens // 3}


def books(scenario: Scenario) -> tuple[int, int, int]:
    """(charged, reserved, overrun) tokens."""
    state = scenario.state
    return state.charged.tokens, state.reserved.tokens, state.overrun.tokens


# --- what is reserved -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("playbook", "wanted", "budget"),
    [
        ({}, {}, {}),
        ({"tokens": 5}, {}, {"tokens": 5}),
        ({}, {"tokens": 5}, {"tokens": 5}),
        ({"tokens": 5}, {"tokens": 9}, {"tokens": 5}),
        ({"tokens": 9}, {"tokens": 5}, {"tokens": 5}),
        ({"tokens": 9, "tool_calls": 1}, {"tokens": 0, "micro_usd": 3}, {"tokens": 0, "tool_calls": 1, "micro_usd": 3}),
    ],
)
def test_of_goal_and_playbook_the_lower_limit_holds(
    playbook: dict[str, int], wanted: dict[str, int], budget: dict[str, int]
) -> None:
    scenario = given(offer("w", "work"), teach(step("a"), budget=playbook)).when(goal(budget=wanted))
    assert scenario.state.budget == Limits(**budget)


@pytest.mark.parametrize(
    ("own", "steps", "reserve"),
    [
        ({"tokens": 7}, {}, {"tokens": 7, "tool_calls": 4}),
        ({"tokens": 7}, {"tokens": 8}, {"tokens": 8, "tool_calls": 4}),
        ({"tokens": 7}, {"tool_calls": 2}, {"tokens": 7, "tool_calls": 2}),
        ({}, {}, {"tokens": 9, "tool_calls": 4}),
        ({"micro_usd": 1_000}, {}, {"tokens": 9, "tool_calls": 4, "micro_usd": 1_000}),
    ],
    ids=["contract", "step before contract", "both", "neither: all of it", "not limited by the run"],
)
def test_an_attempt_reserves_what_it_may_use(
    own: dict[str, int], steps: dict[str, int], reserve: dict[str, int]
) -> None:
    budget = {"tokens": 9, "tool_calls": 4}
    scenario = given(offer("w", "work", budget=own), teach(step("a", budget=steps), budget=budget))
    scenario.when(goal())
    assert scenario.state.tasks["a"].open == (Reservation(1, "w", Limits(**reserve)),)
    assert scenario.tasks_in_flight()[0].budget == Limits(**reserve)
    set_aside = {name: value for name, value in reserve.items() if name in budget}
    assert scenario.state.reserved == Amount(**set_aside)


def test_attempt_without_a_limit_reserves_all_the_rest_and_the_others_wait() -> None:
    scenario = run(step("a"), step("b"))
    assert [task.task for task in scenario.tasks_in_flight()] == ["a"]
    assert books(scenario) == (0, 100, 0)
    scenario.when(ended("a", {"a": 1}, usage=used(30))).then(
        event("task_ended"), event("fact_committed"), event("task_dispatched", task="b", reserve={"tokens": 70})
    )
    assert books(scenario) == (30, 70, 0)


def test_two_side_by_side_where_each_has_a_limit() -> None:
    scenario = run(step("a"), step("b"), step("c"), own=40)
    assert [task.task for task in scenario.tasks_in_flight()] == ["a", "b"]
    assert books(scenario) == (0, 80, 0)
    scenario.when(ended("b", {"b": 1}, usage=used(39)))
    assert [task.task for task in scenario.tasks_in_flight()] == ["a"], "21 are left"
    scenario.when(ended("a", {"a": 1}, usage=used(3))).then(
        event("task_ended"), event("fact_committed"), event("task_dispatched", task="c")
    )
    assert books(scenario) == (42, 40, 0)


def test_what_waits_for_room_in_the_budget_has_its_turn_before_what_is_planned() -> None:
    """`a` fails and cannot be tried again at once; `c`, which was never given out, does not overtake it."""
    scenario = run(step("a"), step("b"), step("c"), own=40)
    scenario.when(failed("a", "TOOL_DOWN", usage=used(30))).then(
        event("attempt_failed"),
        event("task_delayed", delay_ms=0, reason="30 of 100 tokens left (30 used, 40 reserved), 40 needed"),
    )
    assert scenario.state.ready == ("a",)
    scenario.when(ended("b", {"b": 1}, usage=used(1))).then(
        event("task_ended"), event("fact_committed"), event("task_dispatched", task="a", attempt=2)
    )
    assert scenario.state.ready == ()


# --- zero and never ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("own", "goes"), [(None, False), (0, True), (1, False)])
def test_budget_of_zero_lets_only_those_begin_that_use_nothing(own: int | None, goes: bool) -> None:
    scenario = run(tokens=0, own=own)
    assert bool(scenario.state.in_flight) is goes
    if not goes:
        assert (scenario.state.end, scenario.state.code) == ("FAILED", "BUDGET_EXCEEDED")
        wanted = "1 or more" if own is None else "1"
        assert scenario.state.reason.endswith(f"w: 0 of 0 tokens left (0 used, 0 reserved), {wanted} needed")


@pytest.mark.parametrize(
    ("dimension", "word"),
    [("tokens", "tokens"), ("tool_calls", "calls of tools"), ("micro_usd", "millionths of a dollar")],
)
def test_what_can_never_be_paid_ends_the_run_and_says_what_was_there(dimension: str, word: str) -> None:
    contract = offer("w", "work", budget={dimension: 50})
    scenario = given(contract, teach(step("a"), budget={dimension: 49})).when(goal())
    reason = f"49 of 49 {word} left (0 used, 0 reserved), 50 needed"
    scenario.then(
        event("run_opened"),
        event("plan_committed"),
        event("step_expanded"),
        event("task_ended", task="a", attempt=1, code="BUDGET_EXCEEDED", message=reason),
        event("fact_missing", code="BUDGET_EXCEEDED"),
        event("run_ended", end="FAILED", code="BUDGET_EXCEEDED", reason=f"no value for a: w: {reason}"),
    )


def test_exhausted_where_steps_may_be_missed_is_degraded_and_says_which_and_why() -> None:
    steps = [step(name, missing="allow") for name in "abc"]
    scenario = run(
        *steps, own=40, returns={"a": "facts.a", "c": "facts.c"}, said=(ended("a", {"a": 1}, usage=used(40)),)
    )
    assert books(scenario) == (40, 40, 0)
    scenario.when(ended("b", {"b": 1}, usage=used(40)))
    assert (scenario.state.end, scenario.state.result) == ("DEGRADED", {"a": 1, "c": None})
    assert scenario.state.reason == "without c (BUDGET_EXCEEDED)"
    assert scenario.state.missing["c"].message == "w: 20 of 100 tokens left (80 used, 0 reserved), 40 needed"


def test_what_comes_after_a_task_that_could_never_be_given_out_goes_on() -> None:
    """It began with no further input any more: the run was STUCK, though the playbook allows it to go on without."""
    offers = [offer("v", "big", budget={"tokens": 50}), offer("w", "work", budget={"tokens": 5})]
    steps = [step("a", "big", missing="allow"), step("b", needs=["a"])]
    scenario = given(*offers, teach(*steps, budget={"tokens": 10}), goal())
    assert [task.task for task in scenario.tasks_in_flight()] == ["b"]
    assert scenario.when(ended("b", {"b": 1})).state.reason == "without a (BUDGET_EXCEEDED)"


def test_what_takes_the_place_of_a_step_that_could_never_be_paid_begins() -> None:
    offers = [offer("v", "big", budget={"tokens": 50}), offer("w", "work", budget={"tokens": 5})]
    replans = [{"step": "a", "steps": [step("cheap")]}]
    scenario = given(*offers, teach(step("a", "big"), replans=replans, budget={"tokens": 10}), goal())
    assert [task.task for task in scenario.tasks_in_flight()] == ["cheap"]
    assert scenario.when(ended("cheap", {"cheap": 1})).state.end == "DONE"


def test_voices_that_could_not_be_paid_are_missed_and_the_others_count() -> None:
    offers = [offer(name, "work", budget={"tokens": own}) for name, own in (("u", 10), ("v", 99), ("w", 10))]
    steps = [step("a", specialist="all", missing="allow")]
    scenario = given(*offers, teach(*steps, returns={"a": "facts.a"}, budget={"tokens": 30}), goal())
    scenario.say(ended("a-0", {"a": 1}, by="u"), ended("a-2", {"a": 1}, by="w"))
    assert (scenario.state.end, scenario.state.result) == ("DEGRADED", {"a": 1})
    assert scenario.state.reason == "without v on a (BUDGET_EXCEEDED)"


# --- what an end settles ----------------------------------------------------------------------------------------------


def test_time_out_keeps_all_of_it_until_the_late_end() -> None:
    scenario = run(step("a", attempts=3), own=40, said=(started("a"), Due("task.a")))
    assert books(scenario) == (0, 80, 0)
    scenario.when(ended("a", {"a": 1}, usage=used(10))).then(event("input_late", attempt=1, usage=used(10)))
    assert books(scenario) == (10, 40, 0)
    scenario.when(ended("a", {"a": 2}, 2, usage=used(5)))
    assert (scenario.state.facts["a"].value, books(scenario)) == (2, (15, 0, 0))


def test_without_a_late_end_it_is_charged_to_the_end() -> None:
    """The third attempt can never be paid: what the two before it hold may never come back."""
    scenario = run(step("a", attempts=3), own=40, said=(started("a"), Due("task.a"), started("a", 2)))
    scenario.when(Due("task.a"))
    reason = (
        "attempt 2 by w was not heard of and keeps its share: 20 of 100 tokens left (0 used, 80 reserved), 40 needed"
    )
    assert (scenario.state.end, scenario.state.code) == ("FAILED_RETRYABLE", "TIMEOUT")
    assert scenario.state.reason == f"no value for a: w: {reason}"


@pytest.mark.parametrize(("others", "code"), [(60, "TIMEOUT"), (80, "BUDGET_EXCEEDED")])
def test_silence_is_the_reason_only_where_what_it_keeps_would_be_enough(others: int, code: str) -> None:
    """`x`, who takes `b` over, needs 25; the attempt of `w`, of which nobody heard, keeps 20."""
    offers = [offer("v", "other"), offer("w", "work", budget={"tokens": 20}), offer("x", "more", budget={"tokens": 25})]
    steps = [step("a", "other"), step("b", needs=["a"], attempts=1, fallback=["x"])]
    scenario = given(
        *offers, teach(*steps, budget={"tokens": 100}), goal(), ended("a", {"a": 1}, by="v", usage=used(others))
    )
    scenario.say(started("b"), Due("task.b"))
    assert scenario.state.code == code


def test_late_end_after_the_end_of_the_run_is_booked() -> None:
    scenario = run(step("a", attempts=1), own=40, said=(started("a"), Due("task.a")))
    assert (scenario.state.end, books(scenario)) == ("FAILED_RETRYABLE", (0, 40, 0))
    scenario.when(ended("a", {"a": 1}, usage=used(50))).then(event("input_late", reason="the run has ended"))
    assert books(scenario) == (40, 0, 10)
    assert scenario.state.end == "FAILED_RETRYABLE"


def test_end_of_who_had_it_before_settles_its_own_reservation_alone() -> None:
    offers = [offer("v", "work", budget={"tokens": 30}), offer("w", "work", budget={"tokens": 50})]
    scenario = given(*offers, teach(step("a"), budget={"tokens": 100}), goal(), Due("task.a"))
    assert (scenario.state.tasks["a"].specialist, books(scenario)) == ("w", (0, 80, 0))
    scenario.when(ended("a", {"a": "v"}, 2, by="v", usage=used(20), execution="wrong attempt"))
    assert books(scenario) == (20, 80, 0), "it is charged to what is left"
    scenario.when(ended("a", {"a": "v"}, 1, by="v", usage=used(20)))
    assert books(scenario) == (40, 50, 0)
    scenario.when(ended("a", {"a": "w"}, 2, usage=used(50)))
    assert (scenario.state.end, books(scenario)) == ("DONE", (90, 0, 0))


def test_second_execution_is_charged_to_what_is_left_and_beyond_that_it_is_overrun() -> None:
    scenario = run(step("a"), step("b"), own=45, said=(ended("a", {"a": 1}, usage=used(45)),))
    assert books(scenario) == (45, 45, 0)
    again = ended("a", {"a": 1}, execution="again", usage=used(30))
    scenario.say(again)
    assert books(scenario) == (55, 45, 20)
    scenario.when(again).then()
    assert books(scenario) == (55, 45, 20)


def test_redelivered_and_foreign_ends_book_nothing() -> None:
    said = ended("a", {"a": 1}, usage=used(40))
    scenario = run(step("a"), step("b"), own=40, said=(said, said))
    assert books(scenario) == (40, 40, 0)
    scenario.say(ended("b", {"b": 1}, by="eve", usage=used(99)), ended("x", {"x": 1}, usage=used(99)))
    assert books(scenario) == (40, 40, 0)


@pytest.mark.parametrize("execution", ["", "x" * 65], ids=["none", "longer than what is remembered"])
def test_execution_that_could_be_taken_for_another_is_no_end_at_all(execution: str) -> None:
    """Of an empty one nothing was booked, or all of it again with every repetition; of two long ones with one
    beginning the second was passed over, and the attempt timed out."""
    scenario = run(own=40).when(ended("a", {"a": 1}, usage=used(7), execution=execution))
    scenario.then(event("input_rejected", author="w", reason="does not fit the form of ended at $.execution"))
    assert books(scenario) == (0, 40, 0)


def test_author_who_is_muted_still_gives_back_what_is_reserved(figures: Figures) -> None:
    """After a hundred late ends of one author reservations were never released, and what came next was not paid."""
    count = 150
    each = step("a", for_each="input.n", fact="v.k{item}", missing="allow", tasks=count, attempts=1)
    steps = [each, step("c", "other"), step("d", needs=["a", "c"])]
    offers = [offer("v", "other", budget={"tokens": 1}), offer("w", "work", budget={"tokens": 2})]
    taught = teach(*steps, parallel=count + 1, breaker=0, budget={"tokens": 2 * count + 1})
    scenario = given(*offers, taught, goal({"n": list(range(count))}))
    for item in range(count):
        scenario.say(started(f"a-{item}"), Due(f"task.a-{item}"))
    assert books(scenario) == (0, 2 * count + 1, 0)
    settling = [ended(f"a-{item}", {f"v.k{item}": 1}, usage=used(1)) for item in range(count)]
    for said in settling[:120]:
        scenario.when(said).then(event("input_late", usage={"input_tokens": 1}))
    for number in range(100):
        scenario.when(ended("a-0", {}, execution=f"again {number}")).then(event("input_late"))
    scenario.when(ended("a-0", {}, execution="again and again")).then(event("author_muted", author="w"))
    for said in settling[120:]:
        scenario.when(said).then(event("input_late", usage={"input_tokens": 1}))
    assert books(scenario) == (count, 1, 0)
    figures.say(f"late ends of one author that settle a reservation: {count}, booked: {scenario.state.charged.tokens}")
    scenario.when(ended("c", {"c": 1}, by="v")).then(
        event("task_ended"), event("fact_committed"), event("step_expanded"), event("task_dispatched", task="d")
    )


@pytest.mark.parametrize("tokens", [None, 10_000])
def test_all_that_was_in_flight_when_a_run_was_cancelled_is_booked(tokens: int | None, figures: Figures) -> None:
    """Workers say what they have used; of one author only the first hundred were heard, and the rest cost nothing."""
    count = 150
    each = step("a", for_each="input.n", fact="v.k{item}", tasks=count)
    limits = {} if tokens is None else {"budget": {"tokens": tokens}}
    contract = offer("w", "work", **({} if tokens is None else {"budget": {"tokens": 60}}))
    scenario = given(contract, teach(each, parallel=count, **limits), goal({"n": list(range(count))}), cancel())
    for item in range(count):
        said = ended(f"a-{item}", {f"v.k{item}": 1}, usage=used(30))
        scenario.when(said).then(event("input_late", reason="the run has ended"))
        scenario.when(said).then()
    assert books(scenario) == (30 * count, 0, 0)
    assert not any(task.open for task in scenario.state.tasks.values())
    figures.say(f"cancelled with {count} in flight, budget {tokens}: {scenario.state.charged.tokens} tokens booked")


# --- overrun ----------------------------------------------------------------------------------------------------------


def test_overrun_ends_dispatching_and_what_is_in_flight_still_counts() -> None:
    steps = [step("a"), step("b"), step("c", missing="allow")]
    scenario = run(*steps, own=30, parallel=2, returns={"b": "facts.b"})
    scenario.when(ended("a", {"a": 1}, usage=used(31))).then(
        event("task_ended", task="a", usage=used(31)),
        event("fact_committed", key="a"),
        event("task_ended", task="c", code="BUDGET_EXCEEDED", message="more was used than was reserved: 1 tokens"),
        event("fact_missing", key="c"),
    )
    assert books(scenario) == (30, 30, 1)
    scenario.when(ended("b", {"b": 2}, usage=used(30)))
    assert (scenario.state.end, scenario.state.result) == ("DEGRADED", {"b": 2})


def test_overrun_is_an_end_also_where_the_run_has_no_budget() -> None:
    """The contract promised it: what a specialist may use holds in every run."""
    scenario = run(step("a"), step("b", needs=["a"]), tokens=None, own=30, said=(ended("a", {"a": 1}, usage=used(50)),))
    assert (scenario.state.end, scenario.state.code, books(scenario)) == ("FAILED", "BUDGET_EXCEEDED", (30, 0, 20))
    assert scenario.state.reason == "no value for b: w: more was used than was reserved: 20 tokens"


def test_every_dimension_has_its_own_overrun() -> None:
    limits = {"tokens": 5, "tool_calls": 5, "micro_usd": 5}
    scenario = given(offer("w", "work", budget=limits), teach(step("a"), step("b", needs=["a"]), budget=limits), goal())
    scenario.say(ended("a", {"a": 1}, usage={"input_tokens": 4, "tool_calls": 7, "micro_usd": 6}))
    assert scenario.state.charged == Amount(4, 5, 5)
    assert scenario.state.overrun == Amount(0, 2, 1)
    assert scenario.state.reason.endswith("was reserved: 2 calls of tools, 1 millionths of a dollar")


def test_retry_after_an_overrun_is_not_given_out() -> None:
    run(own=30, said=(failed("a", "TOOL_DOWN", usage=used(31)),)).then(
        event("attempt_failed", code="TOOL_DOWN"),
        event("task_ended", attempt=2, code="BUDGET_EXCEEDED"),
        event("fact_missing"),
        event("run_ended", code="BUDGET_EXCEEDED"),
    )


@pytest.mark.parametrize("count", [2, 40])
def test_limits_beyond_what_numbers_hold_are_not_added_up(count: int) -> None:
    """Sums stop at 2^53; what was taken out of such a sum made it negative."""
    steps = [step(f"s{number}") for number in range(count)]
    scenario = given(offer("w", "work", budget={"tokens": 2**53}), teach(*steps, parallel=count), goal())
    for number in range(count):
        scenario.say(ended(f"s{number}", {f"s{number}": 1}, usage=used(1)))
    assert (scenario.state.end, books(scenario)) == ("DONE", (count, 0, 0))


# --- many at once -----------------------------------------------------------------------------------------------------


def go_on(scenario: Scenario) -> int:
    """Let what goes on with the next input go on; how often that was."""
    times = 0
    while not scenario.state.end and (timers := [name for name in scenario.state.timers if name.startswith("retry.")]):
        scenario.say(Due(timers[0]))
        times += 1
    return times


@pytest.mark.parametrize("count", [300, 1_500])
def test_many_tasks_that_can_never_be_paid_end_over_several_inputs(count: int, figures: Figures) -> None:
    """One input would bring about more than it may: the run failed with that reason instead of being DEGRADED."""
    each = step("a", for_each="input.n", fact="v.k{item}", missing="allow", tasks=count)
    contract = offer("w", "work", budget={"tokens": 50})
    scenario = given(contract, teach(each, returns={"n": "length(missing)"}, budget={"tokens": 100}))
    scenario.when(goal({"n": list(range(count))}))
    scenario.say(ended("a-0", {"v.k0": 1}, usage=used(50)), ended("a-1", {"v.k1": 1}, usage=used(50)))
    times = go_on(scenario)
    assert (scenario.state.end, scenario.state.result) == ("DEGRADED", {"n": count - 2})
    assert scenario.state.missing["v.k2"].message == "w: 0 of 100 tokens left (100 used, 0 reserved), 50 needed"
    figures.say(f"exhausted with {count - 2} tasks left: DEGRADED after {times + 1} inputs")
