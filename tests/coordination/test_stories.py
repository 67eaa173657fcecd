"""Each story ends well; said twice it is the same run; cut anywhere, cancelled and told the rest, nothing changes."""

from collections.abc import Iterator
from typing import Any

import pytest
from msgspec.structs import replace

from projections.canonical import State
from schemas import events as e
from schemas.codec import encode
from schemas.inputs import ToolCalled
from schemas.usage import Usage
from specialists.context import LocalContext
from specialists.specialist import Stop, specialist, tool
from supervisor import effects
from tests.coordination.asking import answer, approve, tool_called
from tests.coordination.stories import STORIES, Line, places, play, played
from tests.plugins.figures import Figures
from tests.supervisor.scenario import (
    Due,
    Said,
    Scenario,
    came,
    cancel,
    ended,
    failed,
    given,
    goal,
    offer,
    started,
    step,
    teach,
)

CANCELS = 1_000
each_story = pytest.mark.parametrize("name", STORIES)


@each_story
def test_ends_well(name: str) -> None:
    state = played(name).state
    assert state.end == ("DONE" if name != "an open call" else "FAILED"), state.reason


@each_story
def test_everything_said_twice_is_the_same_run(name: str) -> None:
    """Each message comes once more, right after itself and once more at the end: at most it is recorded as late."""
    once = played(name).state
    twice = Scenario()
    for line in STORIES[name]:
        said = line(twice) if callable(line) else line
        said = twice.wake(said) if isinstance(said, Due) else said
        twice.say(said)
        before = twice.state
        if said.family not in {"contract", "playbook"}:
            twice.say(said)
            late_only(before, twice.state)
    state = twice.state
    assert outcome(state) == outcome(once)
    assert (state.usage, [*state.gates.values()]) == (once.usage, [*once.gates.values()])


def outcome(state: State) -> Any:
    facts = {key: (fact.value, fact.by, fact.task, fact.stale) for key, fact in state.facts.items()}
    return state.end, state.code, state.result, facts, {key: one.code for key, one in state.missing.items()}


def late_only(before: State, after: State) -> None:
    """Between the two states nothing but late inputs was recorded."""
    assert (after.facts, after.missing, after.gates, after.timers, after.steps) == (
        before.facts,
        before.missing,
        before.gates,
        before.timers,
        before.steps,
    )
    assert (after.end, after.code, after.reason, after.result) == (
        before.end,
        before.code,
        before.reason,
        before.result,
    )
    assert effects.in_flight(after) == effects.in_flight(before)
    assert {name: task.status for name, task in after.tasks.items()} == {
        name: task.status for name, task in before.tasks.items()
    }


def anything_late(before: State, rest: list[Line], scenario: Scenario) -> Iterator[Said]:
    """What may still come about a run that was cancelled in this state: from workers, people and timers."""
    for name, task in before.tasks.items():
        for by in dict.fromkeys((task.specialist, *task.tried, "eve")):
            keys = {name: 1, "b.k0": 1}
            yield ended(name, keys, task.attempt, by, usage={"input_tokens": 3}, execution=f"late/{name}/{by}")
            yield failed(name, "NEEDS_INPUT", task.attempt, by, question={"ask": "?"}, execution=f"asks/{name}/{by}")
            yield started(name, task.attempt, by)
        yield tool_called(name, by=task.specialist)
        if task.child:
            body = {
                "task": name,
                "child": task.child,
                "end": "DONE",
                "code": "",
                "reason": "",
                "version": 9,
                "h": "0" * 64,
            }
            yield Said("wake", "", {"type": "child_ended", **body, "result": {"c": 1}, "usage": {}})
    for name, gate in before.gates.items():
        yield approve(gate.digest, name)
        yield answer(gate.digest, name, 3)
    for name, timer in before.timers.items():
        yield scenario.wake(Due(name, timer.armed))
    yield came("work")
    yield cancel("bob")
    yield goal({"other": 1})
    yield from (line for line in rest if isinstance(line, Said) and line.family not in {"contract", "playbook"})


@pytest.mark.timeout(240)
def test_a_thousand_cancels_and_nothing_that_comes_late_changes_the_run(figures: Figures) -> None:
    """Cancel and timeout leak: a task is a lease; after a cancel or its expiry what comes is recorded and never
    committed. Each story is cut after each of its lines, with what is late in so many orders."""
    cut = list(places())
    cancels = said = used = 0
    for number in range(CANCELS):
        name, upto = cut[number % len(cut)]
        scenario = played(name, upto)
        before = scenario.state
        rest = list(anything_late(before, STORIES[name][upto:], scenario))
        shift = number // len(cut) * 5 % max(1, len(rest))
        scenario.say(cancel())
        cancelled = scenario.state
        assert (cancelled.end, cancelled.timers, effects.in_flight(cancelled)) == ("CANCELLED", {}, set())
        assert (cancelled.facts, cancelled.missing, cancelled.open_gates) == (before.facts, before.missing, {})
        for one in [*rest[shift:], *rest[:shift]]:
            scenario.say(one)
            assert all(isinstance(event, e.InputLate | e.AuthorMuted) for event in scenario.last), scenario.last
        late_only(cancelled, scenario.state)
        assert _used(scenario.state) >= _used(cancelled)
        cancels, said, used = cancels + 1, said + len(rest), used + _used(scenario.state) - _used(cancelled)
    assert (cancels, len(cut) >= 60, used > CANCELS) == (CANCELS, True, True)
    figures.say(f"coordination: {cancels} cancels at {len(cut)} places, {said} late messages, no run changed")


def _used(state: State) -> int:
    usage: Usage = state.usage
    return usage.input_tokens


def test_child_run_of_a_cancelled_run_is_told() -> None:
    scenario = play(Scenario(), STORIES["a child run"][:5])
    (child,) = effects.children(scenario.state)
    scenario.say(cancel())
    wake = effects.wake_for_child(scenario.state, scenario.of(child))
    assert wake is not None
    scenario.say(Said("wake", "", wake, child))
    assert scenario.of(child).end == "CANCELLED"


async def test_worker_numbers_the_calls_of_an_execution() -> None:
    """So an append that is repeated, because nobody knew whether it was stored, is one call, and two calls are two."""

    @tool
    async def down(n: int) -> None:
        raise RuntimeError("no")

    @specialist("w", offers="work", tools=[down])
    async def one(item: dict[str, Any]) -> int:
        """Does nothing."""
        return len(item)

    context = LocalContext(one)
    for n in (1, 1, 2):
        with pytest.raises(Stop):
            await context.tool("down", n=n)
    called = [told for told in context.observations if isinstance(told, ToolCalled)]
    assert [(told.call, told.code) for told in called] == [(1, "TOOL_DOWN"), (2, "TOOL_DOWN"), (3, "TOOL_DOWN")]
    said = [Said("obs", "w", encode(replace(told, task="a"))) for told in called]
    scenario = given(offer("w", "work"), teach(step("a"), repeats=1), goal())
    scenario.say(said[0], said[0], said[0])
    assert (scenario.state.end, scenario.state.loops) == ("", 0)
    scenario.say(said[1])
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "LOOP")
