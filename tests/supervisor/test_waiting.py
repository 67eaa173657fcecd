"""Waits, work and timers: who is given a task that nobody begins, and what `started` changes."""

import pytest

from tests.supervisor.scenario import (
    Due,
    came,
    ended,
    event,
    failed,
    given,
    goal,
    offer,
    run_with,
    started,
    step,
    teach,
)


def test_attempt_has_its_wait_and_its_work() -> None:
    given(offer("w", "work", deadline_s=7), teach(step("a", wait_s=4)), goal())
    scenario = given(offer("w", "work", deadline_s=7), teach(step("a", wait_s=4)))
    scenario.when(goal()).then(
        event("run_opened"),
        event("plan_committed"),
        event("step_expanded"),
        event("task_dispatched", wait_ms=4_000, work_ms=7_000),
    )
    assert scenario.state.timers["task.a"].delay_ms == 11_000


def test_step_says_otherwise_than_the_contract_about_work() -> None:
    scenario = given(offer("w", "work", deadline_s=7), teach(step("a", wait_s=4, deadline_s=0.5)), goal())
    assert scenario.state.timers["task.a"].delay_ms == 4_500


def test_started_arms_the_timer_again_with_the_work_alone() -> None:
    scenario = run_with().later(5_000).when(started("a")).then(event("task_started", task="a", attempt=1))
    timer = scenario.state.timers["task.a"]
    assert (timer.delay_ms, timer.armed, timer.at) == (30_000, 5, 1_005_000)


def test_timer_that_was_armed_before_started_means_nothing() -> None:
    scenario = run_with()
    armed = scenario.state.timers["task.a"].armed
    scenario.say(started("a")).when(Due("task.a", armed)).then()


def test_started_and_not_ended_loses_an_attempt() -> None:
    run_with(started("a")).when(Due("task.a")).then(
        event("attempt_failed", attempt=1, code="TIMEOUT", lost=True, message="not ended within 30000 ms of work"),
        event("task_dispatched", attempt=2),
    )


def test_next_attempt_has_its_own_timer_and_is_not_started() -> None:
    scenario = run_with(started("a")).when(Due("task.a"))
    assert not scenario.state.tasks["a"].started
    assert scenario.state.timers["task.a"].armed == scenario.state.version


def test_never_started_goes_to_the_next_specialist_and_loses_nothing() -> None:
    scenario = given(offer("u", "work"), offer("v", "work"), offer("w", "work"), teach(step("a")), goal())
    for number, (now, then) in enumerate((("u", "v"), ("v", "w")), 1):
        assert scenario.state.tasks["a"].specialist == now
        scenario.when(Due("task.a")).then(
            event("attempt_failed", attempt=number, code="TIMEOUT", lost=False),
            event("task_dispatched", attempt=number + 1, specialist=then),
        )
    assert (scenario.state.tasks["a"].lost, scenario.state.tasks["a"].waits) == (0, 2)


def test_fallback_takes_the_contract_of_the_substitute() -> None:
    scenario = given(offer("v", "work", deadline_s=1), offer("w", "work", deadline_s=2), teach(step("a")), goal())
    scenario.when(Due("task.a")).then(
        event("attempt_failed"), event("task_dispatched", specialist="w", contract=2, work_ms=2_000)
    )


def test_nobody_else_means_the_same_again() -> None:
    run_with().when(Due("task.a")).then(event("attempt_failed", lost=False), event("task_dispatched", specialist="w"))


@pytest.mark.parametrize("named", ["v", "all"])
def test_named_specialists_are_not_replaced(named: str) -> None:
    scenario = given(offer("v", "work"), offer("w", "work"), teach(step("a", specialist=named)), goal())
    task = "a" if named == "v" else "a-0"
    scenario.when(Due(f"task.{task}")).then(event("attempt_failed"), event("task_dispatched", specialist="v"))


def test_withdrawn_specialist_is_no_substitute() -> None:
    scenario = given(offer("v", "work"), offer("w", "work"), teach(step("a")), goal(), offer("w"))
    scenario.when(Due("task.a")).then(event("attempt_failed"), event("task_dispatched", specialist="v"))


def test_never_started_three_times_counts_as_failures() -> None:
    scenario = run_with(Due("task.a"), Due("task.a"))
    for lost in (1, 2):
        scenario.when(Due("task.a")).then(event("attempt_failed", lost=True, code="TIMEOUT"), event("task_dispatched"))
        assert scenario.state.tasks["a"].lost == lost
    scenario.when(Due("task.a")).then(
        event("task_ended", code="TIMEOUT", message="not begun within 90000 ms, 3 times"),
        event("fact_missing"),
        event("run_ended", end="FAILED_RETRYABLE", code="TIMEOUT"),
    )


def test_end_of_who_was_replaced_is_late_and_its_usage_counts() -> None:
    scenario = given(offer("v", "work"), offer("w", "work"), teach(step("a")), goal(), Due("task.a"))
    scenario.when(ended("a", {"a": 1}, by="v", usage={"input_tokens": 5})).then(
        event("input_late", author="v", task="a", usage={"input_tokens": 5}, reason="the task is not with v")
    )
    assert scenario.state.usage.input_tokens == 5


def test_end_that_comes_before_the_timer_wins_and_after_it_loses() -> None:
    scenario = run_with(steps=[step("a", attempts=1), step("b")])
    armed = scenario.say(started("a")).state.timers["task.a"].armed
    scenario.say(ended("a", {"a": 1})).when(Due("task.a", armed)).then()
    late = run_with(started("a"), Due("task.a"), steps=[step("a"), step("b")])
    late.when(ended("a", {"a": 1})).then(event("input_late", reason="attempt 1 of a has ended, or was never made"))
    assert "a" not in late.state.facts


def test_group_has_the_work_of_each_of_its_items() -> None:
    steps = [step("a", for_each="input.n", fact="v.k{item}", tasks=2, wait_s=1)]
    scenario = given(offer("w", "work", deadline_s=3), teach(*steps), goal({"n": [1, 2, 3]}))
    assert [scenario.state.timers[f"task.a-{index}"].delay_ms for index in (0, 1)] == [7_000, 4_000]


def test_capability_awaited_then_came() -> None:
    scenario = given(teach(step("a", await_s=5)))
    scenario.when(goal()).then(
        event("run_opened"),
        event("plan_committed"),
        event("capability_awaited", step="a", capability="work", delay_ms=5_000),
    )
    scenario.say(offer("w", "work")).when(came("work")).then(event("step_expanded"), event("task_dispatched"))
    assert set(scenario.state.timers) == {"task.a"}


def test_capability_that_another_input_finds_first_needs_no_wake() -> None:
    scenario = given(offer("w", "work"), teach(step("a"), step("b", "rare")), goal(), offer("v", "rare"))
    scenario.when(ended("a", {"a": 1})).then(
        event("task_ended"), event("fact_committed"), event("step_expanded", step="b"), event("task_dispatched")
    )
    scenario.when(came("rare")).then()


def test_awaited_once_however_often_the_run_goes_on() -> None:
    given(offer("w", "work"), teach(step("a"), step("b", "rare")), goal()).when(failed("a", "INTERNAL")).then(
        event("attempt_failed"), event("task_dispatched")
    )


def test_contract_before_the_timer_wins_although_the_wake_about_it_comes_later() -> None:
    given(teach(step("a")), goal(), offer("w", "work")).when(Due("await.a")).then(
        event("step_expanded"), event("task_dispatched", specialist="w")
    )


def test_contract_for_somebody_else_does_not_help_a_step_that_names_its_specialist() -> None:
    scenario = given(offer("v", "work"), teach(step("a", specialist="w")), goal())
    assert scenario.state.steps["a"].awaiting == "work@w"
    scenario.when(came("work@w")).then()
    scenario.say(offer("w", "work")).when(came("work@w")).then(
        event("step_expanded"), event("task_dispatched", specialist="w")
    )


def test_withdrawn_contract_offers_nothing() -> None:
    scenario = given(offer("w", "work"), offer("w"), teach(step("a")), goal())
    assert scenario.state.steps["a"].awaiting == "work"


def test_team_is_awaited_like_a_capability() -> None:
    scenario = given(teach(step("a", team="u")), goal())
    assert scenario.state.steps["a"].awaiting == "u"
    scenario.say(teach(step("x"), team="u")).when(came("u")).then(
        event("step_expanded"), event("task_dispatched", specialist="u")
    )
