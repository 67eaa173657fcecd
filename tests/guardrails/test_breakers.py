"""Breakers: a specialist that fails again and again gets nothing more in this run."""

from typing import Any

import pytest

from projections.canonical import Breaker
from tests.supervisor.scenario import (
    Due,
    Said,
    Scenario,
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


def fan(*said: Said | Due, names: str = "vw", breaker: int = 3, **fields: Any) -> Scenario:
    """Ten items, two in flight; `v` is asked first."""
    more = {name: fields.pop(name) for name in ("parallel",) if name in fields}
    each = step("a", for_each="input.n", fact="v.k{item}", **{"missing": "allow"} | fields)
    offers = [offer(name, "work", attempts=1) for name in names]
    taught = teach(each, breaker=breaker, **{"parallel": 2} | more)
    return given(*offers, offer("x", "other"), taught, goal({"n": list(range(10))}), *said)


def down(*numbers: int, by: str = "v", code: str = "TOOL_DOWN") -> list[Said]:
    return [failed(f"a-{number}", code, by=by) for number in numbers]


def test_opens_at_the_threshold_and_others_of_the_capability_do_the_rest() -> None:
    scenario = fan(*down(0, 1))
    assert scenario.state.breakers == {"v": Breaker(2)}
    scenario.when(*down(2)).then(
        event("task_ended", task="a-2", code="TOOL_DOWN"),
        event("breaker_opened", specialist="v", failures=3, code="TOOL_DOWN"),
        event("fact_missing"),
        event("task_dispatched", task="a-4", specialist="w", attempt=1),
    )
    assert scenario.state.breakers == {"v": Breaker(3, open=True)}
    for number in range(4, 10):
        scenario.say(ended(f"a-{number}", {f"v.k{number}": 1}))
    assert scenario.say(ended("a-3", {"v.k3": 1}, by="v")).state.end == "DEGRADED"
    assert scenario.state.reason == "without v.k0 (TOOL_DOWN), v.k1 (TOOL_DOWN), v.k2 (TOOL_DOWN)"
    assert len(scenario.state.facts) == 7


def test_success_begins_the_count_again() -> None:
    scenario = fan(*down(0, 1), ended("a-2", {"v.k2": 1}, by="v"))
    assert scenario.state.breakers == {}
    scenario.say(*down(3, 4))
    assert scenario.state.breakers == {"v": Breaker(2)}


@pytest.mark.parametrize("code", ["LOW_CONFIDENCE", "INVALID_INPUT", "BUDGET_EXCEEDED"])
def test_answers_that_are_no_failures_neither_count_nor_reset(code: str) -> None:
    scenario = fan(*down(0, 1), *down(2, code=code))
    assert scenario.state.breakers == {"v": Breaker(2)}


def test_result_that_rests_on_old_facts_resets_too_for_the_work_was_done() -> None:
    renewing = step("m", "other", fact="n", needs=["n"], replaces=True)
    steps = [step("n"), renewing, step("a", needs=["n"], reads=["n"], stale="again")]
    scenario = given(offer("v", "work"), offer("x", "other"), teach(*steps, breaker=2), goal())
    scenario.say(ended("n", {"n": 1}, by="v"), failed("a", "TOOL_DOWN", by="v"), ended("m", {"n": 2}, by="x"))
    assert scenario.state.breakers == {"v": Breaker(1)}
    scenario.when(ended("a", {"a": 1}, 2, by="v")).then(event("attempt_stale"), event("task_dispatched", attempt=3))
    assert scenario.state.breakers == {}


def test_retries_count_and_the_task_itself_goes_on_with_another() -> None:
    """`v` has three attempts at one task; the second failure opens its breaker, and `w` gets all of its own."""
    scenario = given(offer("v", "work"), offer("w", "work"), teach(step("a"), breaker=2), goal())
    scenario.say(failed("a", "TOOL_DOWN", by="v"))
    scenario.when(failed("a", "INTERNAL", 2, by="v")).then(
        event("attempt_failed", code="INTERNAL"),
        event("breaker_opened", specialist="v", failures=2, code="INTERNAL"),
        event("task_dispatched", specialist="w", attempt=3),
    )
    task = scenario.state.tasks["a"]
    assert (task.lost, task.tried) == (0, ("v",))
    scenario.say(failed("a", "INVALID_OUTPUT", 3))
    assert (scenario.state.tasks["a"].attempt, scenario.state.tasks["a"].lost) == (4, 1)


def test_task_that_waits_for_its_next_attempt_goes_to_another_without_a_lost_attempt() -> None:
    offers = [offer("v", "work", backoff_s=5, attempts=2), offer("w", "work", attempts=2)]
    steps = [step("a"), step("b", specialist="v", missing="allow", attempts=1)]
    scenario = given(*offers, teach(*steps, breaker=2), goal(), failed("a", "TOOL_DOWN", by="v"))
    scenario.say(failed("b", "TOOL_DOWN", by="v"))
    scenario.when(Due("retry.a")).then(event("task_dispatched", task="a", specialist="w", attempt=2))
    scenario.when(failed("a", "TOOL_DOWN", 2)).then(event("attempt_failed", lost=True), event("task_dispatched"))


def test_fallback_where_nobody_else_offers_it() -> None:
    scenario = fan(*down(0, 1, 2), names="v", fallback=["x"], parallel=4)
    assert [(task.task, task.specialist) for task in scenario.tasks_in_flight()] == [
        ("a-0", "x"),
        ("a-1", "x"),
        ("a-2", "x"),
        ("a-3", "v"),
    ]
    scenario.when(ended("a-0", {"v.k0": 1}, 2, by="x")).then(
        event("task_ended"), event("fact_committed"), event("task_dispatched", task="a-4", specialist="x", attempt=1)
    )


def test_nobody_else_ends_the_tasks_at_once_and_says_why() -> None:
    scenario = fan(*down(0, 1, 2), names="v", fallback=["z"])
    scenario.say(ended("a-3", {"v.k3": 1}, by="v"))
    assert scenario.state.end == "DEGRADED"
    reason = "v: failed 3 times in a row and gets nothing more in this run; nobody takes over: z is not attached"
    for number in range(4, 10):
        missing = scenario.state.missing[f"v.k{number}"]
        assert (missing.code, missing.message) == ("TOOL_DOWN", reason)
    ends = [task.attempt for task in scenario.state.tasks.values()]
    assert ends == [1, 1, 1, 1, 0, 0, 0, 0, 0, 0]


def test_where_nothing_may_be_missed_the_run_can_be_asked_again() -> None:
    steps = [step("a", attempts=1, missing="allow"), step("b", needs=["a"])]
    scenario = given(offer("v", "work"), teach(*steps, breaker=1), goal(), failed("a", "TOOL_DOWN", by="v"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED_RETRYABLE", "TOOL_DOWN")
    assert scenario.state.reason == "no value for b: v: failed 1 times in a row and gets nothing more in this run"


@pytest.mark.parametrize("breaker", [0, 1_000])
def test_zero_never_opens(breaker: int) -> None:
    scenario = fan(*down(*range(9)), names="v", breaker=breaker)
    assert [task.task for task in scenario.tasks_in_flight()] == ["a-9"]
    assert scenario.state.breakers == ({} if breaker == 0 else {"v": Breaker(9)})


def test_what_is_in_flight_when_it_opens_still_counts() -> None:
    scenario = fan(*down(0), breaker=1)
    assert scenario.state.breakers["v"].open
    scenario.when(ended("a-1", {"v.k1": 1}, by="v")).then(
        event("task_ended"), event("fact_committed", by="v"), event("task_dispatched", specialist="w")
    )
    assert scenario.state.breakers["v"].open, "it does not close again in this run"


def test_what_fails_in_flight_after_it_opened_goes_to_another() -> None:
    scenario = given(
        offer("v", "work"),
        offer("w", "work"),
        teach(step("a", attempts=1, missing="allow"), step("b"), breaker=1),
        goal(),
    )
    scenario.say(failed("a", "TOOL_DOWN", by="v"))
    scenario.when(failed("b", "TOOL_DOWN", by="v")).then(
        event("attempt_failed", task="b"), event("task_dispatched", task="b", specialist="w")
    )
    assert scenario.state.breakers["v"] == Breaker(1, open=True)


def test_attempts_that_nobody_began_do_not_count() -> None:
    """Neither those that go to somebody else, nor the third in a row, which is lost."""
    steps = [step("a", attempts=1, missing="allow"), step("b", needs=["a"])]
    scenario = given(offer("v", "work"), teach(*steps, breaker=1), goal(), Due("task.a"), Due("task.a"), Due("task.a"))
    assert (scenario.state.tasks["a"].code, scenario.state.breakers) == ("TIMEOUT", {})
    assert [task.task for task in scenario.tasks_in_flight()] == ["b"]


def test_begun_and_not_ended_counts() -> None:
    scenario = fan(started("a-0", by="v"), Due("task.a-0"), breaker=1)
    assert scenario.state.breakers == {"v": Breaker(1, open=True)}


def test_steps_that_begin_afterwards_ask_others_first() -> None:
    steps = [step("a", attempts=1, missing="allow"), step("b", needs=["a"])]
    offers = [offer("v", "work"), offer("w", "work")]
    scenario = given(*offers, teach(*steps, breaker=1), goal())
    scenario.when(failed("a", "TOOL_DOWN", by="v"))
    assert [voice.specialist for voice in scenario.state.steps["b"].voices] == ["w"]


def test_voice_whose_breaker_is_open_is_missed_and_the_others_decide() -> None:
    steps = [
        step("a", specialist="v", attempts=1, missing="allow"),
        step("b", specialist="all", needs=["a"], missing="allow"),
    ]
    offers = [offer("v", "work"), offer("w", "work")]
    scenario = given(*offers, teach(*steps, breaker=1), goal(), failed("a", "TOOL_DOWN", by="v"))
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["w"]
    scenario.say(ended("b-0" if scenario.state.tasks["b-0"].specialist == "w" else "b-1", {"b": 1}))
    assert scenario.state.reason == "without a (TOOL_DOWN), v on b (TOOL_DOWN)"


def test_runs_have_breakers_of_their_own() -> None:
    scenario = fan(*down(0), breaker=1)
    scenario.say(goal({"n": [1]}, run="r2"))
    assert scenario.of("r2").breakers == {}
    assert [task.specialist for task in scenario.tasks_in_flight("r2")] == ["v"]


def test_child_runs_that_fail_open_no_breaker() -> None:
    steps = [step("a", team="u", attempts=3, missing="allow")]
    scenario = given(offer("w", "work"), teach(step("x"), team="u"), teach(*steps, breaker=1), goal())
    child = scenario.state.tasks["a"].child
    wake = {"type": "child_ended", "task": "a", "child": child, "end": "FAILED_RETRYABLE", "code": "TOOL_DOWN"}
    wake |= {"reason": "", "result": None, "usage": {}, "version": 1, "h": ""}
    scenario.say(Said("wake", "", wake))
    assert (scenario.state.breakers, scenario.state.tasks["a"].attempt) == ({}, 2)
