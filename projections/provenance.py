"""Provenance: why a fact is what it is, or why a key has no value.

Pure. From the events of a run: what was claimed, by whom, in which attempt, on the strength of which input, and what
the policy made of it.
"""

from collections.abc import Sequence
from difflib import get_close_matches
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from projections.audit import Recorded
from projections.canonical import State
from schemas import events as e
from schemas.plan_events import PlanRefused
from schemas.steps import Merge, PlanStep
from schemas.taint import Labels

ANSWER, EXPRESSION = "answer", "value"
"""The policies of facts that nobody claimed: a person's answer, the value of an expression."""
ACCEPTED = "the last proposal that its critique accepted"
"""In place of the expression that a step of propose and critique has."""


class UnknownKey(LookupError):
    """The run has decided nothing under that key. `suggestions` are keys that come near it."""

    exit_code = 1

    def __init__(self, message: str, suggestions: Sequence[str]) -> None:
        super().__init__(message)
        self.suggestions = tuple(suggestions)

    def __str__(self) -> str:
        return str(self.args[0])


class Attempt(Struct, frozen=True):
    """An attempt of a task before the last one: how event `version` ended it. `to` got the task next; `behind` are the
    keys of facts that had changed meanwhile, so that the task was given out again. So it is where a plan was `refused`,
    for these reasons; `value` is that plan."""

    attempt: int
    specialist: str
    version: int
    code: str = ""
    message: str = ""
    to: str = ""
    behind: tuple[str, ...] = ()
    refused: tuple[str, ...] = ()
    value: Any = None


class Voice(Struct, frozen=True):
    """One specialist's part in a decision. `claimed` tells whether there is a `value`; otherwise `code` and `message`
    say why not. `reason` is why the value lost; empty for the winner, and where the values are equal. `said` is the
    input that ended the task (an observation, or a wake for a child run or a timer), `read_version` the version of the
    run whose facts the task saw (0: the task was not given out once more). `before` are its earlier attempts, `child`
    is the run that did the task."""

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
    before: tuple[Attempt, ...] = ()
    child: str = ""


class Conflict(Struct, frozen=True):
    """Claims differed, and `specialist` was asked to reconcile them, in `task`, by event `version`."""

    version: int
    specialist: str
    task: str


class Answered(Struct, frozen=True):
    """A person's answer to what a gate asked: event `version`, on the strength of the signal `said`."""

    gate: str
    by: str
    version: int
    digest: str
    said: e.Cause


class DoneTo(Struct, frozen=True):
    """What the task whose claim won did to the world: begun by event `version`; `done` is None where nobody knows."""

    tool: str
    key: str
    arguments: Any
    version: int
    round: int
    done: bool | None
    source: str
    undone: bool


class Provenance(Struct, frozen=True, kw_only=True):
    """How a key was decided: by event `version` of the run, at `at` (milliseconds since 1970), because of the input
    `cause`. `code` and `message` say why a key has no value; they are empty where it has one.

    Without a `winner` a value was made of several claims, the losers, or of facts by an `expression`, or it is an
    `answer`. `stale` are keys of newer facts that the claim does not know of, `replaces` is the version of the value
    before, `taint` the labels of content from outside that the value may rest on. `bids` tells how an open call was
    decided, and `granted` to whom; `others` are what else was decided about the key, in order. `effects` are those of
    the task whose claim won.
    """

    run: str
    key: str
    step: str
    version: int
    at: int
    cause: e.Cause
    policy: str
    policy_version: int
    order: tuple[str, ...]
    merge: Merge
    value: Any
    winner: Voice | None
    losers: tuple[Voice, ...]
    declined: tuple[Voice, ...]
    code: str = ""
    message: str = ""
    expression: str = ""
    answer: Answered | None = None
    conflict: Conflict | None = None
    stale: tuple[str, ...] = ()
    replaces: int = 0
    taint: Labels = ()
    bids: "Provenance | None" = None
    granted: str = ""
    others: "tuple[Provenance, ...]" = ()
    effects: tuple[DoneTo, ...] = ()


_Decision = e.FactCommitted | e.FactMissing


class _Task(Struct):
    """What the events up to the decision say of one task. `given` are specialist and read version by attempt."""

    given: dict[int, tuple[str, int]]
    before: list[Attempt]
    end: e.TaskEnded | None = None


class _Read(Struct):
    """What the events so far say of all that decisions rest on."""

    state: State
    tasks: dict[str, _Task] = {}
    gates: dict[str, e.GateOpened] = {}
    answers: dict[str, Answered] = {}
    conflicts: dict[str, Conflict] = {}
    granted: dict[str, str] = {}

    def hear(self, item: Recorded) -> None:
        match item.event:
            case e.TaskDispatched() as given:
                self._task(given.task).given[given.attempt] = (given.specialist, given.read_version)
            case e.AttemptFailed() as failed:
                self._before(failed, item.version, code=failed.code, message=failed.message, to=failed.to)
            case e.AttemptStale() as behind:
                self._before(behind, item.version, behind=behind.keys)
            case PlanRefused(again=True) as refused:
                end = self._task(refused.task).end
                value = next((claim.value for claim in end.claims), None) if end else None
                self._before(refused, item.version, refused=refused.reasons, value=value)
            case e.TaskEnded() as end:
                self._task(end.task).end = end
            case e.GateOpened() as opened:
                self.gates[opened.gate] = opened
            case e.GateAnswered(gate=gate) as said:
                cited = self.gates[gate].digest if gate in self.gates else ""
                self.answers[gate] = Answered(gate, said.by, item.version, cited, said.cause)
            case e.ConflictFound(key=key, specialist=specialist, task=task):
                self.conflicts[key] = Conflict(item.version, specialist, task)
            case e.StepExpanded(step=step, voices=voices) if voices:
                self.granted[step] = voices[0].specialist

    def _task(self, name: str) -> _Task:
        return self.tasks.setdefault(name, _Task({}, []))

    def _before(self, event: e.AttemptFailed | e.AttemptStale | PlanRefused, version: int, **more: Any) -> None:
        task = self._task(event.task)
        specialist, _ = task.given.get(event.attempt, ("", 0))
        task.before.append(Attempt(event.attempt, specialist, version, **more))


def why(state: State, events: Sequence[Recorded], key: str) -> Provenance:
    """The value of a key as it is, or why it has none. Raises UnknownKey."""
    decisions = [item for item in events if isinstance(item.event, _Decision) and item.event.key == key]
    if not decisions:
        raise _unknown(state, key)
    committed = [item for item in decisions if isinstance(item.event, e.FactCommitted)]
    current = (committed or decisions)[-1]
    call = _call_of(state, current.event)
    read, found, bids = _Read(state), dict[int, Provenance](), None
    for item in events:
        read.hear(item)
        if isinstance(item.event, _Decision) and item.event.key == key:
            found[item.version] = _explained(read, item.version, item.event)
        elif isinstance(item.event, _Decision) and call and item.event.key == call.fact:
            bids = _explained(read, item.version, item.event)
    explained = found.pop(current.version)
    granted = read.granted.get(explained.step, "") if bids else ""
    effects = _effects(state, explained.winner.task) if explained.winner else ()
    return replace(explained, bids=bids, granted=granted, others=tuple(found.values()), effects=effects)


def _effects(state: State, task: str) -> tuple[DoneTo, ...]:
    return tuple(
        DoneTo(
            tool=one.tool,
            key=key,
            arguments=one.arguments,
            version=one.intended,
            round=one.round,
            done=None if one.unknown else one.done is not None,
            source=one.done.source if one.done else "",
            undone=one.undone,
        )
        for key, one in state.effects.items()
        if one.task == task
    )


def _call_of(state: State, decided: e.Event) -> PlanStep | None:
    """The step that collected the bids by which the step that decided was granted."""
    step = next((step for step in state.plan if step.id == getattr(decided, "step", "")), None)
    if step is None or not step.route:
        return None
    return next((one for one in state.plan if one.bid and one.origin == (step.origin or step.id)), None)


def _explained(read: _Read, version: int, event: _Decision) -> Provenance:
    step = next((step for step in read.state.plan if step.id == event.step), None)
    merge = step.merge if step else Merge()
    shared: dict[str, Any] = {
        "run": read.state.run,
        "key": event.key,
        "step": event.step,
        "version": version,
        "at": event.at,
        "cause": event.cause,
        "order": merge.order,
        "merge": merge,
        "losers": tuple(_claim(read, one.task, one.by, event.key, one.value, one.reason) for one in event.losers),
        "declined": tuple(_silence(read, voice) for voice in event.declined),
        "conflict": read.conflicts.get(event.key),
    }
    if isinstance(event, e.FactMissing):
        return Provenance(
            policy=_sort(step) or merge.policy,
            policy_version=merge.version,
            value=None,
            winner=None,
            expression=_expression(read, step),
            code=event.code,
            message=event.message,
            **shared,
        )
    return Provenance(
        policy=event.policy,
        policy_version=event.policy_version,
        value=event.value,
        winner=_claim(read, event.task, event.by, event.key, event.value) if event.task else None,
        expression=_expression(read, step) if event.policy == EXPRESSION else "",
        answer=read.answers.get(event.step) if event.policy == ANSWER else None,
        stale=event.stale,
        replaces=event.replaces,
        taint=event.taint or (),
        **shared,
    )


def _sort(step: PlanStep | None) -> str:
    """How a step that nobody has tasks for decides; empty for all others."""
    return "" if step is None else EXPRESSION if step.value else ANSWER if step.question else ""


def _expression(read: _Read, step: PlanStep | None) -> str:
    if step is None or not step.value:
        return ""
    return ACCEPTED if any(one.origin == step.id for one in read.state.plan) else step.value


def _claim(read: _Read, name: str, by: str, key: str, value: Any, reason: str = "") -> Voice:
    task = read.tasks.get(name)
    claims = task.end.claims if task and task.end else ()
    confidence = next((claim.confidence for claim in claims if claim.key == key and claim.value == value), None)
    return _voice(read, name, by, claimed=True, value=value, confidence=confidence, reason=reason)


def _silence(read: _Read, voice: e.Declined) -> Voice:
    return _voice(read, voice.task, voice.by, claimed=False, code=voice.code, message=voice.message)


def _voice(read: _Read, name: str, by: str, **more: Any) -> Voice:
    task = read.tasks.get(name)
    child = read.state.tasks[name].child if name in read.state.tasks else ""
    end = task.end if task else None
    attempt = end.attempt if end else max(task.given, default=0) if task else 0
    _, read_version = task.given.get(attempt, ("", 0)) if task else ("", 0)
    return Voice(
        specialist=by,
        task=name,
        attempt=attempt,
        execution=end.execution if end else "",
        read_version=read_version,
        said=end.cause if end else None,
        before=tuple(task.before) if task else (),
        child=child,
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
