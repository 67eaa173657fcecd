"""What grows without end in a run that never comes to one is bounded, and the bound is an end with a reason."""

from typing import Any

import pytest

from projections.evolve import evolve
from projections.folding import owned, released
from projections.history import Folded
from schemas import events as e
from schemas.codec import INPUT_EVENTS_LIMIT, STATE_LIMIT, encode
from schemas.inputs import Input
from supervisor.attempts import FULL
from supervisor.decide import decide
from supervisor.policy import LOOK_BYTES, LOOK_EVERY
from tests.plugins.figures import Figures
from tests.supervisor.scenario import (
    Due,
    Said,
    Scenario,
    check_state,
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

BETWEEN_LOOKS = LOOK_EVERY * LOOK_BYTES
"""Bytes that a state may grow by between two looks at its size, at most."""


class Long(Scenario):
    """A scenario of many thousand inputs: each is decided once, and what holds of every state is checked at the end."""

    def _decide(self, cause: Input) -> list[e.Event]:
        run = cause.address.run
        folded = self._run(run)
        decided = decide(folded.state, cause, self.catalogue.below(cause.seq))
        assert isinstance(decided, list)
        state = owned(folded.state)
        for one in decided:
            state = evolve(state, one)
        self.folded[run] = Folded(released(state), folded.h, cause.seq)
        self.inputs.clear()
        return decided


def fan(count: int, by: str = "w", contract: dict[str, Any] | None = None, **fields: Any) -> Long:
    each = step("a", for_each="input.n", fact="v.k{item}", tasks=count, missing="allow", **fields)
    taught = teach(each, parallel=500, breaker=0)
    return Long(offer(by, "work", **contract or {}), taught, goal({"n": list(range(count))}))


def outgrown(scenario: Scenario) -> str:
    """The run has ended because of its state, which is as large as it may be."""
    state = scenario.state
    assert (state.end, state.code) == ("FAILED", "BUDGET_EXCEEDED"), (state.end, state.reason)
    assert state.reason.startswith("the state would have ")
    assert state.reason.endswith(f" bytes; the limit is {STATE_LIMIT}")
    size = len(encode(state))
    assert STATE_LIMIT * 0.9 < size <= STATE_LIMIT + BETWEEN_LOOKS
    check_state(state)
    return f"{size} bytes"


# --- what is remembered of attempts -----------------------------------------------------------------------------------


def test_attempts_that_never_end_and_keep_what_was_reserved(figures: Figures) -> None:
    """Two hundred tasks, each tried a hundred times by somebody of whom nothing is ever heard again. The size of the
    state was looked at only where tasks and values could make it large."""
    limits = {"tokens": 2**50, "tool_calls": 2**50, "micro_usd": 2**50}
    scenario = fan(200, by="w" * 64, contract={"budget": limits, "attempts": 100})
    while not scenario.state.end:
        for name in list(scenario.state.timers):
            if not scenario.state.end:
                scenario.say(Due(name))
    size = outgrown(scenario)
    opened = sum(len(task.open) for task in scenario.state.tasks.values())
    figures.say(f"attempts that never end: {opened} reservations, then the run ends with {size}")
    assert opened > 3_000


def test_attempts_without_a_limit_leave_nothing_behind(figures: Figures) -> None:
    """What reserves nothing waits for nothing: forty tasks use up a hundred attempts each."""
    scenario = fan(40, contract={"attempts": 100})
    inputs = 0
    while not scenario.state.end:
        for name in list(scenario.state.timers):
            scenario.say(Due(name))
            inputs += 1
    assert scenario.state.end == "DEGRADED"
    assert {task.attempt for task in scenario.state.tasks.values()} == {102}
    assert len(encode(scenario.state)) < 40_000
    figures.say(f"4080 attempts that time out and reserved nothing: a state of {len(encode(scenario.state))} bytes")


def test_ends_of_failed_attempts_are_remembered_up_to_the_limit(figures: Figures) -> None:
    """They have to be: each would be booked again by a repetition of its message."""
    by = "w" * 64
    scenario = fan(100, by=by, contract={"attempts": 100})
    ends = 0
    for attempt in range(1, 101):
        for number in range(100):
            said = failed(f"a-{number}", "TOOL_DOWN", attempt, by=by, execution=f"{attempt:064x}")
            if not scenario.state.end:
                scenario.say(said)
                ends += 1
    figures.say(f"failed attempts: {ends} ends, then the run ends with {outgrown(scenario)}")


def test_small_questions_without_end(figures: Figures) -> None:
    """Twenty a task, of which none is large; gates were not counted."""
    scenario = fan(100)
    asked = 0
    for number in range(100):
        for attempt in range(1, 21):
            if scenario.state.end:
                break
            action = {"path": "x" * 1_000, "n": asked}
            scenario.say(
                ended(f"a-{number}", None, attempt, code="NEEDS_INPUT", question={"ask": "?", "action": action})
            )
            gate = f"a-{number}.{attempt}"
            if scenario.state.end:
                break
            digest = scenario.state.gates[gate].digest
            scenario.say(Said("signal", "ann", {"type": "approve", "gate": gate, "digest": digest}))
            asked += 1
    figures.say(f"questions of 1 KB: {asked} answered, then the run ends with {outgrown(scenario)}")


def test_facts_that_nobody_claims() -> None:
    """Each step copies a fact of 60 KB, when a small task has ended; only what tasks say was counted."""
    steps = [step("first")]
    for number in range(30):
        before = f"copy{number - 1}" if number else "first"
        steps.append(step(f"tick{number}", needs=[before]))
        steps.append({"id": f"copy{number}", "value": "facts.first", "needs": ["first", f"tick{number}"]})
    scenario = given(offer("w", "work"), teach(*steps), goal(), ended("first", {"first": "x" * 60_000}))
    for number in range(30):
        if not scenario.state.end:
            scenario.say(ended(f"tick{number}", {f"tick{number}": 1}))
    outgrown(scenario)


# --- after the end ----------------------------------------------------------------------------------------------------


def test_late_ends_of_a_run_at_its_limit_do_not_end_it_again() -> None:
    """A run that was DONE became FAILED BUDGET_EXCEEDED, with a second end in its history."""
    each = step("a", for_each="input.n", fact="v.k{item}", tasks=16)
    scenario = given(offer("w", "work"), teach(each), goal({"n": list(range(16))}))
    for number in range(15):
        scenario.say(ended(f"a-{number}", {f"v.k{number}": "x" * 64_000}))
    room = STATE_LIMIT - len(encode(scenario.state))
    scenario.say(ended("a-15", {"v.k15": "x" * (room - 800)}))
    assert scenario.state.end == "DONE"
    before = scenario.state.version
    for late in range(20):
        scenario.when(ended(f"a-{late % 16}", {}, execution=f"{late:064x}")).then(event("input_late"))
    assert (scenario.state.end, scenario.state.version) == ("DONE", before + 20)
    assert STATE_LIMIT < len(encode(scenario.state)) < STATE_LIMIT + BETWEEN_LOOKS


# --- one input --------------------------------------------------------------------------------------------------------


def test_five_hundred_in_flight_with_the_longest_names(figures: Figures) -> None:
    """What one input may bring about does not hold them all: the rest follows with the next one."""
    name, by = "s" * 59, "w" * 64
    each = step(name, for_each="input.n", fact="v.k{item}", tasks=600)
    most = 2**52
    limits = {"tokens": most, "tool_calls": most, "micro_usd": most}
    taught = teach(each, parallel=500, budget={"tokens": 2**53})
    scenario = given(offer(by, "work", budget=limits | {"tokens": 10}), taught).when(goal({"n": list(range(600))}))
    first = scenario.state.in_flight
    size = sum(len(encode(one)) for one in scenario.last)
    assert FULL < size < INPUT_EVENTS_LIMIT
    assert 200 < first < 500
    while scenario.state.in_flight < 500:
        (timer,) = [one for one in scenario.state.timers if one.startswith("retry.")]
        assert scenario.state.timers[timer].delay_ms == 1
        scenario.when(Due(timer))
    figures.say(f"tasks of the longest names given out by one input: {first}, in {size} bytes")


def test_goal_that_is_large_goes_on_with_the_next_input() -> None:
    scenario = given(offer("w", "work"), teach(step("a")))
    scenario.when(goal({"x": "y" * 200_000})).then(
        event("run_opened"),
        event("plan_committed"),
        event("step_expanded"),
        event("task_delayed", task="a", delay_ms=1, reason=f"one input brings {FULL} bytes about at most"),
    )
    scenario.when(Due("retry.a")).then(event("task_dispatched", task="a", attempt=1))
    assert scenario.say(ended("a", {"a": 1})).state.end == "DONE"


def test_what_had_its_turn_goes_on_with_the_next_input_and_waits_once() -> None:
    """`c` waits for room in the budget when an end brings so much about that nothing more is given out: it waits for
    that, and no longer for its turn."""
    both = step("a", for_each="input.n", fact="v.k{item}", tasks=1)
    contract = offer("w", "work", budget={"tokens": 40})
    scenario = given(contract, teach(both, step("c"), budget={"tokens": 100}), goal({"n": [1, 2]}))
    scenario.say(failed("c", "TOOL_DOWN", usage={"input_tokens": 30}))
    assert scenario.state.ready == ("c",)
    scenario.when(ended("a", {"v.k1": "x" * 50_000, "v.k2": "y" * 50_000})).then(
        event("task_ended"),
        event("fact_committed"),
        event("fact_committed"),
        event("task_delayed", task="c", delay_ms=1),
    )
    assert (scenario.state.ready, list(scenario.state.timers)) == ((), ["retry.c"])
    scenario.when(Due("retry.c")).then(event("task_dispatched", task="c"))


@pytest.mark.parametrize("end", ["cancelled", "given out"])
def test_what_goes_on_with_the_next_input_can_be_overtaken(end: str) -> None:
    """Another input comes before the timer: it goes on with that."""
    scenario = given(offer("w", "work"), teach(step("a"), step("b", "rare")))
    scenario.say(goal({"x": "y" * 200_000}))
    if end == "cancelled":
        scenario.say(Said("signal", "ann", {"type": "cancel"}))
        assert (scenario.state.end, scenario.state.timers) == ("CANCELLED", {})
        return
    armed = scenario.state.timers["retry.a"].armed
    scenario.say(offer("v", "rare")).when(Said("wake", "", {"type": "capability_came", "capability": "rare"}))
    assert scenario.state.tasks["a"].status == "dispatched"
    scenario.when(Due("retry.a", armed)).then()
    assert "retry.a" not in scenario.state.timers


def test_started_again_and_again_changes_nothing() -> None:
    scenario = given(offer("w", "work"), teach(step("a")), goal(), started("a"))
    version = scenario.state.version
    for number in range(50):
        scenario.say(started("a", execution=str(number)))
    assert scenario.state.version == version
