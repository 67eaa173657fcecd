"""Status: what people want to know of a run, as plain values, from its state alone.

Pure. Durations are milliseconds, times milliseconds since 1970 by the run's own clock.
"""

from typing import Any

import msgspec

from projections.canonical import LATE_LIMIT, Fact, State
from projections.history import Folded, outcome_digest, state_digest
from schemas.codec import canonical
from schemas.steps import PlanStep

NEEDS_INPUT = "NEEDS_INPUT"
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


def waits(state: State) -> list[str]:
    """What the run waits for: people at gates, and what nobody offers, one sentence a step; empty when it has ended."""
    if state.end:
        return []
    asked = [
        f"gate {name} waits for a person: {gate.ask or 'may it begin?'} `blackboard approve {state.run}`"
        for name, gate in state.open_gates.items()
    ]
    waiting = [step for step in state.plan if state.steps[step.id].awaiting]
    return asked + [f"step {step.id} waits for {_whom(step, state.steps[step.id].awaiting)}" for step in waiting]


def gates(state: State) -> dict[str, Any]:
    """Each gate of the run: what was asked, the digest of the exact action, and who answered what."""
    return {
        name: {
            "open": name in state.open_gates,
            "ask": gate.ask,
            "digest": gate.digest,
            "by": gate.by,
            "approved": gate.approved,
            "in_advance": gate.in_advance,
        }
        for name, gate in state.gates.items()
    }


def awaited(state: State) -> list[str]:
    """The capabilities (or teams) that nobody offers and that steps wait for, in the order of the plan."""
    return [] if state.end else [step.awaiting for step in state.steps.values() if step.awaiting]


def _whom(step: PlanStep, awaiting: str) -> str:
    if step.team:
        return f"the playbook of team {awaiting}"
    capability, _, specialist = awaiting.partition("@")
    return f"{specialist} to offer {capability}" if specialist else f"a specialist that offers {capability}"


def conflicts(state: State) -> int:
    """Facts of which somebody claimed another value."""
    return sum(map(_disputed, state.facts.values()))


def _disputed(fact: Fact) -> bool:
    return any(loser.reason and canonical(loser.value) != canonical(fact.value) for loser in fact.losers)


def muted(state: State) -> list[str]:
    """Authors whose late inputs are passed over by now."""
    return sorted(author for author, count in state.late.items() if count > LATE_LIMIT)


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
        "awaits": now.awaiting if not state.end else "",
        "skipped": now.skipped,
    }


def in_flight(state: State) -> list[dict[str, Any]]:
    """The tasks that somebody has now; none once the run has ended."""
    if state.end:
        return []
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
        if task.status == "dispatched"
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
        "tasks": {"total": len(state.tasks), "ended": ended, "in_flight": state.in_flight},
        "facts": len(state.facts),
        "missing": len(state.missing),
        "waits": waits(state),
    }


def ending(state: State) -> dict[str, Any]:
    """How a run ended; empty values while it goes on."""
    return {"end": state.end, "code": state.code, "reason": state.reason, "result": state.result}


def digests(folded: Folded) -> dict[str, str]:
    return {"head": folded.h, "state": state_digest(folded.state), "outcome": outcome_digest(folded.state)}


def status(folded: Folded) -> dict[str, Any]:
    """Everything that `show` tells of a run."""
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
        "gates": gates(state),
        "timers": timers(state),
        "facts": sorted(state.facts),
        "missing": {
            key: {"step": item.step, "code": item.code, "message": item.message}
            for key, item in sorted(state.missing.items())
        },
        "conflicts": conflicts(state),
        "late": dict(sorted(state.late.items())),
        "muted": muted(state),
        "usage": {
            "input_tokens": state.usage.input_tokens,
            "output_tokens": state.usage.output_tokens,
            "tool_calls": state.usage.tool_calls,
        },
        **ending(state),
        "digests": digests(folded),
    }
