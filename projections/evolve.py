"""Evolving: the state of a run with one more event.

Pure: no clock, random, I/O or set order. `evolve(state, event) -> state` never changes the state it is given, so one
may be kept, compared and evolved twice; the exception is an `owned` one, which belongs to its fold. Rules are in
`supervisor.decide`; this file only remembers.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from projections.canonical import (
    Fact,
    Gate,
    Missing,
    State,
    StepState,
    TaskState,
    Timer,
    booking,
    late_name,
    task_id,
)
from schemas import events as e


def evolve(state: State, event: e.Event) -> State:
    return _EVOLVE[type(event)](state, event, {"version": state.version + 1, "now": event.at})


class _Owned(dict[str, Any]):
    """A mapping of a state that one fold has for itself: `|` changes it instead of copying it."""

    def __or__(self, other: Any) -> "_Owned":  # type: ignore[override]
        self.update(other)
        return self


_GROWING = ("steps", "tasks", "facts", "missing", "gates", "timers", "late")


def owned(state: State) -> State:
    """A copy of `state` for one fold alone: evolving it changes its mappings in place, so only the latest state of the
    fold may be looked at, and `released` gives one to keep."""
    return replace(state, **{name: _Owned(getattr(state, name)) for name in _GROWING})


def is_owned(state: State) -> bool:
    return isinstance(state.facts, _Owned)


def released(state: State) -> State:
    """The latest state of a fold of an `owned` one, as one that never changes."""
    return replace(state, **{name: dict(getattr(state, name)) for name in _GROWING})


Next = dict[str, Any]
"""The fields that change, beginning with version and time."""


def _run_opened(state: State, event: e.RunOpened, new: Next) -> State:
    return replace(
        state,
        **new,
        rules=event.rules,
        goal=event.cause.sha256,
        publisher=event.publisher,
        team=event.team,
        playbook=event.playbook,
        opened=event.at,
        input=event.input,
        approve=event.approve,
        parent=event.parent,
    )


def _plan_committed(state: State, event: e.PlanCommitted, new: Next) -> State:
    return replace(
        state,
        **new,
        plan=event.steps,
        returns=event.returns,
        result_schema=event.result,
        parallel=event.parallel,
        steps={step.id: StepState() for step in event.steps},
    )


def _gate_opened(state: State, event: e.GateOpened, new: Next) -> State:
    gate = Gate(event.ask, event.action, event.digest)
    timer = Timer(event.delay_ms, event.at, state.version + 1)
    return replace(
        state,
        **new,
        steps=_with_step(state, event.gate, awaiting=""),
        gates=state.gates | {event.gate: gate},
        timers=_without(state.timers, f"await.{event.gate}") | {f"gate.{event.gate}": timer},
    )


def _gate_answered(state: State, event: e.GateAnswered, new: Next) -> State:
    gate = replace(state.gates[event.gate], by=event.by, approved=event.approved, in_advance=event.in_advance)
    timers = _without(state.timers, f"gate.{event.gate}")
    return replace(state, **new, gates=state.gates | {event.gate: gate}, timers=timers)


def _capability_awaited(state: State, event: e.CapabilityAwaited, new: Next) -> State:
    timer = Timer(event.delay_ms, event.at, state.version + 1)
    return replace(
        state,
        **new,
        steps=_with_step(state, event.step, awaiting=event.capability),
        timers=state.timers | {f"await.{event.step}": timer},
    )


def _step_expanded(state: State, event: e.StepExpanded, new: Next) -> State:
    groups = -(-event.items // event.per_task)
    step = StepState(items=event.items, per_task=event.per_task, voices=event.voices, tasks=groups * len(event.voices))
    planned = {
        task_id(event.step, step, group * len(event.voices) + index): TaskState(
            step=event.step, group=group, specialist=voice.specialist, contract=voice.contract
        )
        for group in range(groups)
        for index, voice in enumerate(event.voices)
    }
    return replace(
        state,
        **new,
        steps=state.steps | {event.step: step},
        tasks=state.tasks | planned,
        timers=_without(state.timers, f"await.{event.step}"),
    )


def _step_skipped(state: State, event: e.StepSkipped, new: Next) -> State:
    timers = _without(state.timers, f"await.{event.step}")
    return replace(state, **new, steps=_with_step(state, event.step, skipped=event.reason, awaiting=""), timers=timers)


def _task_dispatched(state: State, event: e.TaskDispatched, new: Next) -> State:
    task = state.tasks[event.task]
    steps = state.steps
    if task.attempt == 0:
        steps = _with_step(state, task.step, dispatched=steps[task.step].dispatched + 1)
    dispatched = replace(
        task,
        status="dispatched",
        attempt=event.attempt,
        specialist=event.specialist,
        contract=event.contract,
        read_version=event.read_version,
        wait_ms=event.wait_ms,
        work_ms=event.work_ms,
        child=event.child,
        started=False,
    )
    timer = Timer(event.wait_ms + event.work_ms, event.at, state.version + 1)
    return replace(
        state,
        **new,
        steps=steps,
        tasks=state.tasks | {event.task: dispatched},
        timers=state.timers | {f"task.{event.task}": timer},
        in_flight=state.in_flight + 1,
    )


def _task_started(state: State, event: e.TaskStarted, new: Next) -> State:
    task = state.tasks[event.task]
    timer = Timer(task.work_ms, event.at, state.version + 1)
    return replace(
        state,
        **new,
        tasks=state.tasks | {event.task: replace(task, started=True)},
        timers=state.timers | {f"task.{event.task}": timer},
    )


def _attempt_failed(state: State, event: e.AttemptFailed, new: Next) -> State:
    task = state.tasks[event.task]
    failed = replace(
        task,
        status="planned",
        lost=task.lost + event.lost,
        waits=task.waits + (not event.lost),
        tried=task.tried if event.lost else (*task.tried, task.specialist),
        executions=_booked(task, task.specialist, event.execution),
    )
    return replace(
        state,
        **new,
        tasks=state.tasks | {event.task: failed},
        timers=_without(state.timers, f"task.{event.task}"),
        in_flight=state.in_flight - 1,
        usage=state.usage + event.usage,
    )


def _task_ended(state: State, event: e.TaskEnded, new: Next) -> State:
    task = state.tasks[event.task]
    ended = replace(
        task,
        status="ended",
        code=event.code,
        message=event.message,
        claims=event.claims,
        silences=event.silences,
        executions=_booked(task, event.specialist, event.execution),
    )
    return replace(
        state,
        **new,
        steps=_with_step(state, task.step, ended=state.steps[task.step].ended + 1),
        tasks=state.tasks | {event.task: ended},
        timers=_without(state.timers, f"task.{event.task}"),
        in_flight=state.in_flight - (task.status == "dispatched"),
        usage=state.usage + event.usage,
        claimed=state.claimed + event.size,
    )


def _fact_committed(state: State, event: e.FactCommitted, new: Next) -> State:
    fact = Fact(
        value=event.value,
        version=state.version + 1,
        step=event.step,
        task=event.task,
        by=event.by,
        policy=event.policy,
        losers=event.losers,
        declined=event.declined,
    )
    return replace(state, **new, facts=state.facts | {event.key: fact}, **_settled(state, event))


def _fact_missing(state: State, event: e.FactMissing, new: Next) -> State:
    missing = Missing(event.step, event.code, event.message, event.losers, event.declined)
    return replace(state, **new, missing=state.missing | {event.key: missing}, **_settled(state, event))


def _settled(state: State, event: e.FactCommitted | e.FactMissing) -> Next:
    """The step counts the key, and its claims live in the fact from now on, not in the tasks."""
    tasks = state.tasks
    changed: dict[str, TaskState] = {}
    named = [loser.task for loser in event.losers] + [voice.task for voice in event.declined]
    for name in [event.task, *named] if isinstance(event, e.FactCommitted) else named:
        if (task := tasks.get(name)) and (task.claims or task.silences):
            changed[name] = replace(
                task,
                claims=tuple(claim for claim in task.claims if claim.key != event.key),
                silences=tuple(silence for silence in task.silences if silence.key != event.key),
            )
    steps = state.steps
    if event.step in steps:
        steps = _with_step(state, event.step, settled=steps[event.step].settled + 1)
    return {"steps": steps, "tasks": tasks | changed if changed else tasks}


def _input_late(state: State, event: e.InputLate, new: Next) -> State:
    tasks = state.tasks
    if event.execution and event.task in tasks:
        task = tasks[event.task]
        tasks = tasks | {event.task: replace(task, executions=_booked(task, event.author, event.execution))}
    usage = state.usage + event.usage
    return replace(state, **new, tasks=tasks, late=_counted(state, event.author), usage=usage)


def _input_rejected(state: State, event: e.InputRejected, new: Next) -> State:
    return replace(state, **new, late=_counted(state, event.author))


def _author_muted(state: State, event: e.AuthorMuted, new: Next) -> State:
    return replace(state, **new, late=_counted(state, event.author))


def _rules_changed(state: State, event: e.RulesChanged, new: Next) -> State:
    return replace(state, **new, rules=event.rules)


def _run_ended(state: State, event: e.RunEnded, new: Next) -> State:
    return replace(
        state, **new, end=event.end, code=event.code, reason=event.reason, result=event.result, timers={}, in_flight=0
    )


def _with_step(state: State, name: str, **changes: Any) -> dict[str, StepState]:
    return state.steps | {name: replace(state.steps[name], **changes)}


def _without(timers: dict[str, Timer], name: str) -> dict[str, Timer]:
    if name not in timers:
        return timers
    left = timers if isinstance(timers, _Owned) else dict(timers)
    del left[name]
    return left


def _booked(task: TaskState, specialist: str, execution: str) -> tuple[str, ...]:
    return (*task.executions, booking(specialist, execution)) if execution else task.executions


def _counted(state: State, author: str) -> dict[str, int]:
    name = late_name(state, author)
    return state.late | {name: state.late.get(name, 0) + 1}


_EVOLVE: dict[type[e.Event], Callable[[State, Any, Next], State]] = {
    e.RunOpened: _run_opened,
    e.PlanCommitted: _plan_committed,
    e.GateOpened: _gate_opened,
    e.GateAnswered: _gate_answered,
    e.CapabilityAwaited: _capability_awaited,
    e.StepExpanded: _step_expanded,
    e.StepSkipped: _step_skipped,
    e.TaskDispatched: _task_dispatched,
    e.TaskStarted: _task_started,
    e.AttemptFailed: _attempt_failed,
    e.TaskEnded: _task_ended,
    e.FactCommitted: _fact_committed,
    e.FactMissing: _fact_missing,
    e.InputLate: _input_late,
    e.InputRejected: _input_rejected,
    e.AuthorMuted: _author_muted,
    e.RulesChanged: _rules_changed,
    e.RunEnded: _run_ended,
}
