"""Provenance: why a fact is what it is, or why a key has no value.

Pure. From the events of a run: what was claimed, by whom, in which attempt, on the strength of which input, and what
the policy made of it.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct

from projections.audit import Recorded
from projections.canonical import State
from schemas import events as e
from schemas.steps import Merge


class UnknownKey(LookupError):
    """The run has decided nothing under that key. `suggestions` are keys that come near it."""

    exit_code = 1

    def __init__(self, message: str, suggestions: Sequence[str]) -> None:
        super().__init__(message)
        self.suggestions = tuple(suggestions)

    def __str__(self) -> str:
        return str(self.args[0])


class Voice(Struct, frozen=True):
    """One specialist's part in a decision. `claimed` tells whether there is a `value`; otherwise `code` and `message`
    say why not. `reason` is why the value lost; empty for the winner, and where the values are equal. `said` is the
    input that ended the task (an observation, or a wake for a child run or a timer), `read_version` the version of the
    run whose facts the task saw."""

    specialist: str
    task: str
    attempt: int
    execution: str
    read_version: int
    said: e.Cause | None
    claimed: bool
    value: Any = None
    confidence: float | None = None
    reason: str = ""
    code: str = ""
    message: str = ""


class Provenance(Struct, frozen=True):
    """How a key was decided: by event `version` of the run, at `at` (milliseconds since 1970), because of the input
    `cause`. Without a `winner` the key has no value, and `code` and `message` say why."""

    run: str
    key: str
    step: str
    version: int
    at: int
    cause: e.Cause
    policy: str
    order: tuple[str, ...]
    value: Any
    winner: Voice | None
    losers: tuple[Voice, ...]
    declined: tuple[Voice, ...]
    code: str = ""
    message: str = ""


class _Task(Struct):
    """What the events up to the decision say of one task."""

    specialist: str = ""
    read_version: int = 0
    end: e.TaskEnded | None = None


def why(state: State, events: Sequence[Recorded], key: str) -> Provenance:
    """Raises UnknownKey."""
    tasks: dict[str, _Task] = {}
    for item in events:
        event = item.event
        if isinstance(event, e.TaskDispatched):
            tasks[event.task] = _Task(event.specialist, event.read_version)
        elif isinstance(event, e.TaskEnded):
            tasks.setdefault(event.task, _Task(event.specialist)).end = event
        elif isinstance(event, e.FactCommitted | e.FactMissing) and event.key == key:
            return _explained(state, item.version, event, tasks)
    raise _unknown(state, key)


def _explained(
    state: State, version: int, event: e.FactCommitted | e.FactMissing, tasks: dict[str, _Task]
) -> Provenance:
    merge = next((step.merge for step in state.plan if step.id == event.step), Merge())
    losers = tuple(_claim(tasks, loser.task, loser.by, event.key, loser.value, loser.reason) for loser in event.losers)
    declined = tuple(_silence(tasks, voice) for voice in event.declined)
    committed = event if isinstance(event, e.FactCommitted) else None
    return Provenance(
        run=state.run,
        key=event.key,
        step=event.step,
        version=version,
        at=event.at,
        cause=event.cause,
        policy=committed.policy if committed else merge.policy,
        order=merge.order,
        value=committed.value if committed else None,
        winner=_claim(tasks, committed.task, committed.by, event.key, committed.value) if committed else None,
        losers=losers,
        declined=declined,
        code=event.code if isinstance(event, e.FactMissing) else "",
        message=event.message if isinstance(event, e.FactMissing) else "",
    )


def _claim(tasks: dict[str, _Task], name: str, by: str, key: str, value: Any, reason: str = "") -> Voice:
    task = tasks.get(name, _Task())
    claims = task.end.claims if task.end else ()
    confidence = next((claim.confidence for claim in claims if claim.key == key and claim.value == value), None)
    return _voice(task, name, by, claimed=True, value=value, confidence=confidence, reason=reason)


def _silence(tasks: dict[str, _Task], voice: e.Declined) -> Voice:
    task = tasks.get(voice.task, _Task())
    return _voice(task, voice.task, voice.by, claimed=False, code=voice.code, message=voice.message)


def _voice(task: _Task, name: str, by: str, **more: Any) -> Voice:
    end = task.end
    return Voice(
        specialist=by,
        task=name,
        attempt=end.attempt if end else 0,
        execution=end.execution if end else "",
        read_version=task.read_version,
        said=end.cause if end else None,
        **more,
    )


def _unknown(state: State, key: str) -> UnknownKey:
    known = sorted([*state.facts, *state.missing])
    pending = next((s.id for s in state.plan if s.fact == key and not state.steps[s.id].over), None)
    if pending and not state.end:
        return UnknownKey(f"step {pending} of run {state.run} has not decided {key!r} yet", ())
    below = [name for name in known if name.startswith(f"{key}.")]
    near = below[:5] or get_close_matches(key, known, n=5, cutoff=0.5)
    hint = f"did you mean {', '.join(near)}?" if near else _all(known)
    return UnknownKey(f"run {state.run} has no fact {key!r}; {hint}", near)


def _all(known: list[str]) -> str:
    if not known:
        return "it has decided none"
    more = f" and {len(known) - 10} more" if len(known) > 10 else ""
    return f"it has {', '.join(known[:10])}{more}"
