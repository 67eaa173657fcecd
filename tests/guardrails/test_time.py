"""Time: attempts come back after a delay that grows and that everybody derives alike; runs have a deadline."""

from itertools import pairwise
from typing import Any

import pytest

from projections.canonical import State
from supervisor.effects import in_flight
from supervisor.timers import Timers
from tests.plugins.figures import Figures
from tests.supervisor.scenario import (
    Due,
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


def failing(*steps: dict[str, Any], run: str = "r1", backoff_s: float = 1, max_s: float = 10, **more: Any) -> Scenario:
    contract = offer("w", "work", backoff_s=backoff_s, backoff_max_s=max_s, attempts=100)
    return given(contract, teach(*(steps or (step("a"),)), breaker=0, **more), goal(run=run))


def delays(scenario: Scenario, count: int, run: str = "r1", task: str = "a") -> list[int]:
    """Let the task fail so many times; the delays that follow, in milliseconds."""
    found = []
    for attempt in range(1, count + 1):
        scenario.say(failed(task, "TOOL_DOWN", attempt, run=run))
        found.append(scenario.of(run).timers[f"retry.{task}"].delay_ms)
        scenario.say(Due(f"retry.{task}", run=run))
    return found


# --- back-off ---------------------------------------------------------------------------------------------------------


def test_delay_is_doubled_with_each_attempt_up_to_a_limit_and_between_half_and_all_of_it(figures: Figures) -> None:
    found = delays(failing(), 12)
    whole = [min(1_000 * 2**number, 10_000) for number in range(12)]
    assert all(most // 2 <= delay_ms < most for delay_ms, most in zip(found, whole, strict=True)), found
    assert len(set(found[4:])) == len(found[4:]), "jitter, also at the limit"
    figures.say(f"delays of 1 s, doubled, 10 s at most, in ms: {', '.join(map(str, found[:6]))} …")


def test_delay_is_the_same_for_whoever_decides_and_another_for_each_task_and_run() -> None:
    assert delays(failing(), 5) == delays(failing(), 5)
    assert delays(failing(), 5) != delays(failing(run="r2"), 5, run="r2")
    side_by_side = failing(step("a"), step("b"))
    assert delays(side_by_side, 3, task="a") != delays(side_by_side, 3, task="b")


def test_tasks_that_fail_together_do_not_come_back_together(figures: Figures) -> None:
    count = 300
    each = step("a", for_each="input.n", fact="v.k{item}", tasks=count)
    scenario = given(
        offer("w", "work", backoff_s=2), teach(each, parallel=count, breaker=0), goal({"n": list(range(count))})
    )
    for number in range(count):
        scenario.say(failed(f"a-{number}", "TOOL_DOWN"))
    found = [timer.delay_ms for name, timer in scenario.state.timers.items() if name.startswith("retry.")]
    tenths = [sum(1_000 + 100 * tenth <= delay_ms < 1_100 + 100 * tenth for delay_ms in found) for tenth in range(10)]
    assert (len(found), sum(tenths)) == (count, count)
    assert min(tenths) > 15
    assert max(tenths) < 45
    figures.say(f"{count} retries of one moment fall into tenths of a second: {tenths}")


@pytest.mark.parametrize(
    ("contract", "fields", "least", "most"),
    [
        ({"backoff_s": 4}, {}, 2_000, 4_000),
        ({"backoff_s": 4}, {"backoff_s": 8}, 4_000, 8_000),
        ({"backoff_s": 4, "backoff_max_s": 1}, {}, 500, 1_000),
        ({"backoff_s": 4, "backoff_max_s": 1}, {"backoff_s": 90}, 45_000, 90_000),
        ({"backoff_s": 3_600, "backoff_max_s": 86_400}, {}, 1_800_000, 3_600_000),
    ],
    ids=["contract", "step before contract", "limit below", "a step's own limit is not below its first", "an hour"],
)
def test_first_delay(contract: dict[str, Any], fields: dict[str, Any], least: int, most: int) -> None:
    scenario = given(offer("w", "work", **contract), teach(step("a", **fields)), goal(), failed("a", "TOOL_DOWN"))
    assert least <= scenario.state.timers["retry.a"].delay_ms < most


@pytest.mark.parametrize(("contract", "fields"), [({"backoff_s": 0}, {}), ({"backoff_s": 5}, {"backoff_s": 0})])
def test_no_delay_is_at_once(contract: dict[str, Any], fields: dict[str, Any]) -> None:
    scenario = given(offer("w", "work", **contract), teach(step("a", **fields)), goal())
    scenario.when(failed("a", "TOOL_DOWN")).then(event("attempt_failed"), event("task_dispatched", attempt=2))


def test_reason_of_a_delay_names_attempt_and_code() -> None:
    scenario = given(offer("w", "work", backoff_s=1), teach(step("a", attempts=4)), goal())
    scenario.when(failed("a", "INTERNAL")).then(
        event("attempt_failed"), event("task_delayed", task="a", reason="attempt 2 of 4, after INTERNAL")
    )


def test_who_takes_over_begins_at_once_and_with_the_first_delay() -> None:
    slow = {"backoff_s": 1, "backoff_max_s": 1_000, "attempts": 3}
    scenario = given(offer("v", "work", **slow), offer("w", "other", **slow), teach(step("a", fallback=["w"])), goal())
    for attempt in (1, 2):
        scenario.say(failed("a", "TOOL_DOWN", attempt, by="v"), Due("retry.a"))
    scenario.when(failed("a", "TOOL_DOWN", 3, by="v")).then(
        event("attempt_failed", to="w"), event("task_dispatched", specialist="w", attempt=4)
    )
    scenario.say(failed("a", "TOOL_DOWN", 4))
    assert 500 <= scenario.state.timers["retry.a"].delay_ms < 1_000


# --- due --------------------------------------------------------------------------------------------------------------


def test_timer_that_is_due_twice_gives_one_attempt() -> None:
    scenario = failing()
    scenario.say(failed("a", "TOOL_DOWN"))
    armed = scenario.state.timers["retry.a"].armed
    scenario.when(Due("retry.a", armed)).then(event("task_dispatched", attempt=2))
    scenario.when(Due("retry.a", armed)).then()
    scenario.say(failed("a", "TOOL_DOWN", 2)).when(Due("retry.a", armed)).then()
    assert scenario.state.in_flight == 0


def test_delay_survives_a_takeover() -> None:
    """It is in the state: the rest of it counts for whoever comes next."""
    clock_s = 5_000.0
    scenario = failing(backoff_s=100, max_s=1_000)
    scenario.later(1_000).say(failed("a", "TOOL_DOWN"))
    delay_ms = scenario.state.timers["retry.a"].delay_ms
    first, second = Timers(lambda: clock_s), Timers(lambda: clock_s)
    first.see(scenario.state)
    second.see(scenario.state, taken_over_at_ms=scenario.state.now + 30_000, grace_s=2.0)
    assert first.next_s() == pytest.approx(delay_ms / 1000)
    assert second.next_s() == pytest.approx(delay_ms / 1000 - 30 + 2)
    clock_s += delay_ms
    (wake,) = second.take_due()
    scenario.when(Due(wake[1], wake[2])).then(event("task_dispatched", attempt=2))


def test_parallel_is_never_exceeded_by_retries_that_come_due() -> None:
    """Five fail, five others take their place; all five delays are over at once, while nothing has room."""
    each = step("a", for_each="input.n", fact="v.k{item}")
    scenario = failing(each, parallel=5)
    scenario = given(*_catalogue(each, parallel=5), goal({"n": list(range(10))}))
    for number in range(5):
        scenario.say(failed(f"a-{number}", "TOOL_DOWN"))
    assert _flying(scenario.state) == [5, 6, 7, 8, 9]
    for number in range(5):
        scenario.when(Due(f"retry.a-{number}")).then(
            event("task_delayed", task=f"a-{number}", delay_ms=0, reason="5 tasks are in flight")
        )
        assert f"retry.a-{number}" not in scenario.state.timers
    assert scenario.state.ready == tuple(f"a-{number}" for number in range(5))
    for number in range(5, 10):
        scenario.when(ended(f"a-{number}", {f"v.k{number}": 1}))
        assert len(_flying(scenario.state)) == 5
    assert (_flying(scenario.state), scenario.state.ready) == ([0, 1, 2, 3, 4], ())


def _catalogue(*steps: dict[str, Any], **more: Any) -> tuple[Any, ...]:
    return offer("w", "work", backoff_s=1, attempts=100), teach(*steps, breaker=0, **more)


def _flying(state: State) -> list[int]:
    return sorted(int(key.task.rpartition("-")[2]) for key in in_flight(state))


def test_retry_that_is_due_while_the_budget_has_no_room_waits_in_its_turn() -> None:
    contract = offer("w", "work", backoff_s=1, budget={"tokens": 50})
    scenario = given(contract, teach(step("a"), step("b"), step("c"), budget={"tokens": 120}), goal())
    scenario.say(failed("a", "TOOL_DOWN", usage={"input_tokens": 20}))
    assert [task.task for task in scenario.tasks_in_flight()] == ["b", "c"]
    scenario.when(Due("retry.a")).then(
        event("task_delayed", delay_ms=0, reason="0 of 120 tokens left (20 used, 100 reserved), 50 needed")
    )
    scenario.when(ended("b", {"b": 1})).then(
        event("task_ended"), event("fact_committed"), event("task_dispatched", task="a", attempt=2)
    )


# --- ends while delayed -----------------------------------------------------------------------------------------------


def test_cancel_while_delayed_ends_it() -> None:
    scenario = failing()
    scenario.say(failed("a", "TOOL_DOWN"))
    armed = scenario.state.timers["retry.a"].armed
    scenario.when(cancel()).then(event("run_ended", end="CANCELLED"))
    scenario.when(Due("retry.a", armed)).then()


def test_deadline_of_the_run_while_delayed_ends_it() -> None:
    scenario = failing(backoff_s=60, max_s=60, deadline_s=5)
    scenario.say(failed("a", "TOOL_DOWN"))
    reason = "the run has not ended within 5000 ms"
    scenario.when(Due("run.deadline")).then(event("run_ended", end="FAILED_RETRYABLE", code="TIMEOUT", reason=reason))
    assert scenario.state.timers == {}


@pytest.mark.parametrize("waiting", ["gate", "capability", "flight"])
def test_deadline_of_the_run_ends_it_whatever_it_waits_for(waiting: str) -> None:
    steps = {"gate": step("a", gate={}), "capability": step("a", "rare"), "flight": step("a")}
    scenario = given(offer("w", "work"), teach(steps[waiting], deadline_s=5), goal())
    assert len(scenario.state.timers) == 2
    scenario.when(Due("run.deadline")).then(event("run_ended", code="TIMEOUT"))


@pytest.mark.parametrize(
    ("playbook", "wanted", "deadline_ms"),
    [
        (None, None, 0),
        (9, None, 9_000),
        (None, 9, 9_000),
        (9, 4, 4_000),
        (4, 9, 4_000),
        (0.0001, None, 1),
        (None, 0.0004, 1),
    ],
)
def test_of_playbook_and_goal_the_earlier_deadline_holds(
    playbook: float | None, wanted: float | None, deadline_ms: int
) -> None:
    """Less than a millisecond is not no deadline at all."""
    scenario = given(offer("w", "work"), teach(step("a"), deadline_s=playbook), goal(deadline_s=wanted))
    timer = scenario.state.timers.get("run.deadline")
    assert (timer.delay_ms if timer else 0) == deadline_ms


def test_deadline_counts_from_the_goal_whatever_happens_meanwhile() -> None:
    scenario = failing(deadline_s=5)
    timer = scenario.state.timers["run.deadline"]
    scenario.later(3_000).say(started("a"), failed("a", "TOOL_DOWN"), Due("retry.a"))
    assert scenario.state.timers["run.deadline"] == timer


def test_deadline_alone_keeps_no_run_going() -> None:
    scenario = given(offer("w", "work"), teach(step("a", when="input.x"), deadline_s=5)).when(goal())
    assert scenario.state.end == "DONE"


def test_tasks_have_a_deadline_for_each_item() -> None:
    each = step("a", for_each="input.n", fact="v.k{item}", tasks=1, deadline_s=2, wait_s=3)
    scenario = given(offer("w", "work"), teach(each)).when(goal({"n": [1, 2, 3]}))
    assert scenario.state.timers["task.a"].delay_ms == 3_000 + 3 * 2_000
    scenario.say(started("a"))
    assert scenario.state.timers["task.a"].delay_ms == 6_000


def test_a_long_history_of_failures_stays_at_the_limit() -> None:
    found = delays(failing(backoff_s=0.002, max_s=86_400), 40)
    assert all(later >= earlier // 2 for earlier, later in pairwise(found))
    assert 43_200_000 <= max(found) < 86_400_000
