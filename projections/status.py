"""Status: what people want to know of a run, as plain values, from its state alone.

Pure. Durations are milliseconds, times milliseconds since 1970 by the run's own clock.
"""

from collections.abc import Sequence
from typing import Any, Literal

import msgspec
from msgspec.structs import asdict

from projections.audit import Recorded
from projections.canonical import LATE_LIMIT, Fact, Gate, State, late_name, loop_gate
from projections.history import Folded, outcome_digest, state_digest
from schemas import events as e
from schemas.codec import canonical
from schemas.plan_events import PlanExtended, PlanRefused
from schemas.plans import BIDS
from schemas.steps import PlanStep
from schemas.usage import Amount

NEEDS_INPUT = "NEEDS_INPUT"
RETRY = "retry."
"""How the name of a timer begins that lets a task go on."""
EXIT_CODES = {
    "DONE": 0,
    "DEGRADED": 3,
    "FAILED": 4,
    "FAILED_RETRYABLE": 4,
    "POLICY_BLOCKED": 5,
    "CANCELLED": 6,
    NEEDS_INPUT: 7,
}
"""The exit code of a command that waits for a run, by how the run ended; NEEDS_INPUT is not an end."""


_LOOP = loop_gate(0).removesuffix("0")
Kind = Literal["approve", "answer", "loop"]
"""What is asked of a person: the approval of an action, a value, or whether to go on in spite of a loop."""


def kind(name: str, gate: Gate) -> Kind:
    if gate.schema is not None:
        return "answer"
    return "loop" if name.startswith(_LOOP) else "approve"


def answering(run: str, name: str, gate: Gate) -> str:
    """The words of the command with which a person answers."""
    if gate.schema is None:
        return f"approve {run} --gate {name}"
    return f"answer {run} --gate {name} VALUE"


def answered(state: State, name: str) -> str:
    """What became of a gate, in words."""
    gate = state.gates[name]
    if gate.open:
        return "open" if name in state.open_gates else "never answered"
    if gate.schema is not None and gate.approved:
        return f"answered by {gate.by}"
    return f"{'approved' if gate.approved else 'denied'}{' in advance' if gate.in_advance else ''} by {gate.by}"


def may_answer(gate: Gate, person: str) -> bool:
    return not gate.who or person in gate.who


def waits(state: State) -> list[str]:
    """What the run waits for: people at gates, and what nobody offers, one sentence a step; empty when it has ended."""
    if state.end:
        return []
    if state.ending:
        asked = [_asks(state.run, name, gate) for name, gate in state.open_gates.items()]
        return [*asked, f"the run will end {state.ending.end} once its effects are undone: {state.ending.reason}"]
    asked = [_asks(state.run, name, gate) for name, gate in state.open_gates.items()]
    waiting = [step for step in state.plan if state.steps[step.id].awaiting]
    return asked + [f"step {step.id} waits for {_whom(step, state.steps[step.id].awaiting)}" for step in waiting]


def _asks(run: str, name: str, gate: Gate) -> str:
    whom = " or ".join(gate.who) or "a person"
    verb = "approve" if gate.schema is None else "answer"
    return f"gate {name} waits for {whom}: {question(gate)} `blackboard {verb} {run}`"


def question(gate: Gate) -> str:
    """What is asked, in words."""
    return gate.ask or ("may it begin?" if gate.schema is None else "which value?")


def gates(state: State) -> dict[str, Any]:
    """Each gate of the run: what was asked of whom, the digest of the exact action, and who answered what. `value` is
    that of a question that was answered."""
    return {
        name: {
            "open": name in state.open_gates,
            "kind": kind(name, gate),
            "ask": gate.ask,
            "action": gate.action,
            "task": gate.task,
            "who": list(gate.who),
            "voices": [asdict(voice) for voice in gate.voices],
            "schema": gate.schema,
            "digest": gate.digest,
            "by": gate.by,
            "approved": gate.approved,
            "in_advance": gate.in_advance,
            "value": gate.value,
        }
        for name, gate in state.gates.items()
    }


def waiting_for(state: State) -> list[str]:
    """The same as `waits` in a word each: gates, with the people that they are for, and capabilities (or teams)."""
    whom = {name: f" ({' or '.join(gate.who)})" if gate.who else "" for name, gate in state.open_gates.items()}
    return [*(f"gate {name}{people}" for name, people in whom.items()), *awaited(state)]


def awaited(state: State) -> list[str]:
    """The capabilities (or teams) that nobody offers and that steps wait for, in the order of the plan."""
    return [] if state.over else [step.awaiting for step in state.steps.values() if step.awaiting]


def _whom(step: PlanStep, awaiting: str) -> str:
    if step.team:
        return f"the playbook of team {awaiting}"
    capability, _, specialist = awaiting.partition("@")
    return f"{specialist} to offer {capability}" if specialist else f"a specialist that offers {capability}"


def conflicts(state: State) -> int:
    """Facts of which somebody claimed another value."""
    return sum(map(_disputed, state.facts.values()))


MADE_OF_ALL = frozenset({"union", "concat", BIDS})
"""Policies with which no claim loses against another."""


def _disputed(fact: Fact) -> bool:
    return fact.policy not in MADE_OF_ALL and any(
        loser.reason and canonical(loser.value) != canonical(fact.value) for loser in fact.losers
    )


def muted(state: State) -> list[str]:
    """Authors whose late inputs are passed over by now."""
    return sorted(author for author, count in state.late.items() if count > LATE_LIMIT)


def is_muted(state: State, author: str) -> bool:
    """Whether what this author says late, or out of place, is passed over by now."""
    return state.late.get(late_name(state, author), 0) > LATE_LIMIT


def budget(state: State) -> dict[str, dict[str, int | None]]:
    """For each of tokens, calls of tools and millionths of a US dollar: the limit (None: there is none), what was
    charged, what is set aside for attempts in flight, and what was used beyond what was set aside."""
    return {
        name: {
            "limit": getattr(state.budget, name),
            "charged": getattr(state.charged, name),
            "reserved": getattr(state.reserved, name),
            "overrun": getattr(state.overrun, name),
        }
        for name in Amount.__struct_fields__
    }


def ready(state: State) -> list[str]:
    """The tasks that wait for room among those in flight, or in the budget."""
    if state.over:
        return []
    new = [name for name, task in state.tasks.items() if task.status == "planned" and not task.attempt]
    return [*state.ready, *(name for name in new if name not in state.ready)]


def delayed(state: State) -> list[dict[str, Any]]:
    """The tasks that go on later, and when, by the run's own clock."""
    return [
        {"task": name.removeprefix(RETRY), "until_ms": timer.at + timer.delay_ms}
        for name, timer in state.timers.items()
        if name.startswith(RETRY)
    ]


def breakers(state: State) -> dict[str, dict[str, Any]]:
    """Specialists that failed in a row; an open one is given nothing more."""
    return {name: {"failures": one.failures, "open": one.open} for name, one in sorted(state.breakers.items())}


def stale(state: State) -> dict[str, list[str]]:
    """Facts that rest on older values, each with the keys of which it does not know the newest."""
    return {key: list(fact.stale) for key, fact in sorted(state.facts.items()) if fact.stale}


def taint(state: State) -> dict[str, list[str]]:
    """Facts that may rest on content from outside, each with the labels of where that came from."""
    return {key: list(fact.taint) for key, fact in sorted(state.facts.items()) if fact.taint}


def revisions(events: Sequence[Recorded]) -> list[dict[str, Any]]:
    """How the plan was changed while the run went on."""
    return [
        {
            "number": event.number,
            "version": item.version,
            "instead_of": event.instead_of,
            "steps": [step.id for step in event.steps],
            "reason": event.reason,
        }
        for item in events
        if isinstance(event := item.event, e.PlanRevised)
    ]


def plans(events: Sequence[Recorded]) -> list[dict[str, Any]]:
    """The plans that were proposed: the steps of those that were committed, the reasons against the others."""
    return [
        {
            "step": event.step,
            "by": event.by,
            "version": item.version,
            "steps": [step.id for step in event.steps] if isinstance(event, PlanExtended) else [],
            "refused": list(event.reasons) if isinstance(event, PlanRefused) else [],
        }
        for item in events
        if isinstance(event := item.event, PlanExtended | PlanRefused)
    ]


def loops(events: Sequence[Recorded]) -> list[dict[str, Any]]:
    """What came again and again."""
    return [
        {"what": event.what, "times": event.times, "task": event.task, "version": item.version}
        for item in events
        if isinstance(event := item.event, e.LoopFound)
    ]


def steps(state: State) -> list[dict[str, Any]]:
    """Each step with its counts. `items` is None before the step was expanded."""
    return [_step(step, state) for step in state.plan]


def _step(step: PlanStep, state: State) -> dict[str, Any]:
    now = state.steps[step.id]
    return {
        "step": step.id,
        "status": now.status,
        "by": step.team or step.capability,
        "voices": [voice.specialist for voice in now.voices],
        "items": now.items if now.items >= 0 else None,
        "settled": now.settled,
        "tasks": now.tasks,
        "dispatched": now.dispatched,
        "ended": now.ended,
        "awaits": now.awaiting if not state.over else "",
        "skipped": now.skipped,
    }


def in_flight(state: State) -> list[dict[str, Any]]:
    """The tasks that somebody has now; none once the run has ended."""
    if state.end:
        return []
    undone = {step.id for step in state.plan if step.undo}
    return [
        {
            "task": name,
            "step": task.step,
            "with": task.specialist,
            "attempt": task.attempt,
            "started": task.started,
            "child": task.child,
        }
        for name, task in state.tasks.items()
        if task.status == "dispatched" and (state.ending is None or task.step in undone or name in state.ending.waits)
    ]


def effects(state: State) -> list[dict[str, Any]]:
    """What the run did to the world, or was about to: each effect with how often it was begun and what is known of
    it. `done` is None where nobody knows."""
    return [
        {
            "key": key,
            "task": effect.task,
            "with": effect.specialist,
            "tool": effect.tool,
            "arguments": effect.arguments,
            "round": effect.round,
            "done": None if effect.unknown else effect.done is not None,
            "times": effect.times,
            "source": effect.done.source if effect.done else "",
            "undo": effect.undo,
            "undoes": effect.undoes,
            "undone": effect.undone,
        }
        for key, effect in state.effects.items()
    ]


def timers(state: State) -> list[dict[str, Any]]:
    return [
        {"timer": name, "delay_ms": timer.delay_ms, "armed_at_ms": timer.at, "armed_by": timer.armed}
        for name, timer in state.timers.items()
    ]


def progress(state: State) -> dict[str, Any]:
    """What changes while a run goes on; small enough to be sent with each change."""
    ended = sum(task.status == "ended" for task in state.tasks.values())
    return {
        "run": state.run,
        "phase": state.phase,
        "version": state.version,
        "steps": {name: f"{step.settled}/{max(step.items, 0)}" for name, step in state.steps.items()},
        "tasks": {
            "total": len(state.tasks),
            "ended": ended,
            "in_flight": state.in_flight,
            "delayed": len(delayed(state)),
            "ready": len(ready(state)),
        },
        "facts": len(state.facts),
        "missing": len(state.missing),
        "waits": waits(state),
    }


def ending(state: State) -> dict[str, Any]:
    """How a run ended; empty values while it goes on."""
    return {"end": state.end, "code": state.code, "reason": state.reason, "result": state.result}


def digests(folded: Folded) -> dict[str, str]:
    return {"head": folded.h, "state": state_digest(folded.state), "outcome": outcome_digest(folded.state)}


def status(folded: Folded, events: Sequence[Recorded]) -> dict[str, Any]:
    """Everything that `show` tells of a run with these events."""
    state = folded.state
    return {
        **progress(state),
        "log": state.log,
        "team": state.team,
        "publisher": state.publisher,
        "playbook": state.playbook,
        "rules": state.rules,
        "parent": msgspec.to_builtins(state.parent),
        "opened_ms": state.opened,
        "now_ms": state.now,
        "cursor": folded.cursor,
        "input": state.input,
        "steps": steps(state),
        "in_flight": in_flight(state),
        "delayed": delayed(state),
        "ready": ready(state),
        "gates": gates(state),
        "effects": effects(state),
        "breakers": breakers(state),
        "revisions": revisions(events),
        "plans": plans(events),
        "loops": loops(events),
        "timers": timers(state),
        "facts": sorted(state.facts),
        "missing": {
            key: {"step": item.step, "code": item.code, "message": item.message}
            for key, item in sorted(state.missing.items())
        },
        "conflicts": conflicts(state),
        "stale": stale(state),
        "taint": taint(state),
        "late": dict(sorted(state.late.items())),
        "muted": muted(state),
        "usage": asdict(state.usage),
        "budget": budget(state),
        **ending(state),
        "digests": digests(folded),
    }
