"""Evolving by what happens to tasks: dispatched, started, failed, delayed, dropped, ended.

Pure. The other half of `evolve`; what each end does to the budget stands in `bookings`.
"""

from msgspec.structs import replace

from projections.bookings import kept, released, reservation, set_aside, settled
from projections.canonical import (
    Breaker,
    Briefing,
    Refused,
    Reservation,
    State,
    StepState,
    TaskState,
    Timer,
    booking,
)
from projections.folding import Next, counted, repeated, with_step, without
from schemas import events as e
from schemas.contracts import RETRIED
from schemas.plan_events import PlanAsked, PlanRefused
from schemas.usage import Limits, Usage


def task_dispatched(state: State, event: e.TaskDispatched, new: Next) -> State:
    task = state.tasks[event.task]
    own = event.specialist == task.specialist or not _is_open(state, task.specialist)
    dispatched = replace(
        task,
        status="dispatched",
        attempt=event.attempt,
        specialist=event.specialist,
        contract=event.contract,
        lost=task.lost if own else 0,
        waits=task.waits if own else 0,
        read_version=event.read_version,
        wait_ms=event.wait_ms,
        work_ms=event.work_ms,
        child=event.child,
        started=False,
        tried=_tried(task, event.specialist),
        open=(*task.open, Reservation(event.attempt, event.specialist, event.reserve)),
    )
    timer = Timer(event.wait_ms + event.work_ms, event.at, state.version + 1)
    return replace(
        state,
        **new,
        steps=_given_out(state, task),
        tasks=state.tasks | {event.task: dispatched},
        timers=without(state.timers, f"retry.{event.task}") | {f"task.{event.task}": timer},
        in_flight=state.in_flight + 1,
        ready=_not_ready(state, event.task),
        reserved=state.reserved + set_aside(state.budget, event.reserve),
    )


def _tried(task: TaskState, specialist: str) -> tuple[str, ...]:
    """Who had the task before: also whom it is taken from without a word, because the run gives it nothing more."""
    return task.tried if task.specialist == specialist or not task.attempt else _with(task.tried, task.specialist)


def _with(tried: tuple[str, ...], specialist: str) -> tuple[str, ...]:
    return tried if specialist in tried else (*tried, specialist)


def _is_open(state: State, specialist: str) -> bool:
    return (known := state.breakers.get(specialist)) is not None and known.open


def task_started(state: State, event: e.TaskStarted, new: Next) -> State:
    task = state.tasks[event.task]
    timer = Timer(task.work_ms, event.at, state.version + 1)
    return replace(
        state,
        **new,
        tasks=state.tasks | {event.task: replace(task, started=True)},
        timers=state.timers | {f"task.{event.task}": timer},
    )


def attempt_failed(state: State, event: e.AttemptFailed, new: Next) -> State:
    task, changes = _settled_usage(state, event.task, event.attempt, event.execution, event.usage)
    handed_on, begun = bool(event.to), task.started or bool(event.execution)
    never_begun = event.code == "TIMEOUT" and not event.lost
    failed = replace(
        task,
        status="planned",
        specialist=event.to or task.specialist,
        contract=event.contract if handed_on else task.contract,
        lost=0 if handed_on else task.lost + event.lost,
        waits=0 if handed_on or begun else task.waits + never_begun,
        hops=task.hops + (event.code == "HANDED_OFF"),
        fallbacks=task.fallbacks + (handed_on and event.code != "HANDED_OFF"),
        tried=_with(task.tried, task.specialist) if handed_on or never_begun else task.tried,
    )
    return replace(
        state,
        **new | changes,
        tasks=state.tasks | {event.task: failed},
        timers=without(state.timers, f"task.{event.task}"),
        in_flight=state.in_flight - (task.status == "dispatched"),
        breakers=_counted(state, task, event.code, begun) if event.lost else state.breakers,
        repeats=repeated(state, event.outcome),
    )


def attempt_stale(state: State, event: e.AttemptStale, new: Next) -> State:
    """Also of a task that had ended, while the others of its group had not."""
    before = state.tasks[event.task]
    task, changes = _settled_usage(state, event.task, event.attempt, event.execution, event.usage)
    again = replace(task, status="planned", waits=0, stale=task.stale + 1, ended=0, claims=(), silences=())
    steps = state.steps
    if before.status == "ended":
        steps = with_step(state, task.step, ended=steps[task.step].ended - 1)
    return replace(
        state,
        **new | changes,
        steps=steps,
        tasks=state.tasks | {event.task: again},
        timers=without(state.timers, f"task.{event.task}"),
        in_flight=state.in_flight - (before.status == "dispatched"),
        breakers=_counted(state, before, "", begun=True),
    )


def plan_asked(state: State, event: PlanAsked, new: Next) -> State:
    briefing = Briefing(event.contracts, event.left_out, event.budget)
    return replace(state, **new, tasks=state.tasks | {event.task: replace(state.tasks[event.task], briefing=briefing)})


def plan_refused(state: State, event: PlanRefused, new: Next) -> State:
    """The claim of the last one stays with the task, until the fact says why there is none."""
    task = state.tasks[event.task]
    claim = next(iter(task.claims), None)
    value, taint = (claim.value, claim.taint) if claim else (None, ())
    task = replace(task, refused=Refused(value, event.reasons, event.number, taint))
    steps = state.steps
    if event.again:
        task = replace(task, status="planned", waits=0, ended=0, claims=(), silences=())
        steps = with_step(state, task.step, ended=steps[task.step].ended - 1)
    return replace(state, **new, steps=steps, tasks=state.tasks | {event.task: task})


def task_delayed(state: State, event: e.TaskDelayed, new: Next) -> State:
    timers = without(state.timers, f"retry.{event.task}")
    if not event.delay_ms:
        return replace(state, **new, timers=timers, ready=(*_not_ready(state, event.task), event.task))
    timer = Timer(event.delay_ms, event.at, state.version + 1)
    timers = timers | {f"retry.{event.task}": timer}
    return replace(state, **new, timers=timers, ready=_not_ready(state, event.task))


def task_dropped(state: State, event: e.TaskDropped, new: Next) -> State:
    task = state.tasks[event.task]
    dropped = replace(task, status="ended", message=event.reason, ended=state.version + 1)
    return replace(state, **new, **_over(state, event.task, task), tasks=state.tasks | {event.task: dropped})


def task_ended(state: State, event: e.TaskEnded, new: Next) -> State:
    before = state.tasks[event.task]
    task, changes = _settled_usage(state, event.task, event.attempt, event.execution, event.usage)
    ended = replace(
        task,
        status="ended",
        code=event.code,
        message=event.message,
        claims=event.claims,
        silences=event.silences,
        ended=state.version + 1,
    )
    return replace(
        state,
        **new | changes | _over(state, event.task, before),
        tasks=state.tasks | {event.task: ended},
        claimed=state.claimed + event.size,
        breakers=_counted(state, before, event.code, before.started or bool(event.execution)),
        repeats=repeated(state, event.outcome),
    )


def _over(state: State, name: str, task: TaskState) -> Next:
    """What changes when a task has ended, in flight or not."""
    timers = without(without(state.timers, f"task.{name}"), f"retry.{name}")
    for gate in [gate for gate, one in state.gates.items() if one.task == name and one.open]:
        timers = without(timers, f"gate.{gate}")
    steps = _given_out(state, task)
    if task.index < 0:
        steps = steps | {task.step: replace(steps[task.step], ended=steps[task.step].ended + 1)}
    return {
        "steps": steps,
        "timers": timers,
        "in_flight": state.in_flight - (task.status == "dispatched"),
        "ready": _not_ready(state, name),
    }


def conflict_found(state: State, event: e.ConflictFound, new: Next) -> State:
    step = state.steps[event.step]
    task = TaskState(
        step=event.step,
        group=event.index // step.per_task,
        specialist=event.specialist,
        contract=event.contract,
        index=event.index,
    )
    return replace(state, **new, tasks=state.tasks | {event.task: task})


def input_late(state: State, event: e.InputLate, new: Next) -> State:
    """One that settles a reservation is awaited, though late: it does not count towards muting its author."""
    known = state.tasks.get(event.task)
    awaited = known is not None and reservation(known, event.attempt, event.author) is not None
    task, changes = settled(state, known, event.attempt, event.author, event.usage)
    if task and event.execution:
        task = replace(task, executions=_booked(task, event.author, event.execution))
    tasks = state.tasks if task is None or task is known else state.tasks | {event.task: task}
    late = state.late if awaited else counted(state, event.author)
    return replace(state, **new | changes, tasks=tasks, late=late)


def share_kept(state: State, event: e.ShareKept, new: Next) -> State:
    return replace(state, **new, tasks=state.tasks | {event.task: kept(state.tasks[event.task], event.held)})


def _given_out(state: State, task: TaskState) -> dict[str, StepState]:
    """The steps, with one more task that is given out, or will not be, where it is the first time for this one."""
    if task.attempt or task.index >= 0:
        return state.steps
    return with_step(state, task.step, dispatched=state.steps[task.step].dispatched + 1)


def _settled_usage(state: State, name: str, attempt: int, execution: str, usage: Usage) -> tuple[TaskState, Next]:
    """The task with its execution booked, and what that does to the budget: nothing while no execution has ended. Of an
    attempt that goes by in silence and has no limit, nothing has to be kept."""
    task = state.tasks[name]
    if not execution:
        opened = reservation(task, attempt, task.specialist)
        return (released(task, opened) if opened and opened.limits == Limits() else task), {}
    booked = replace(task, executions=_booked(task, task.specialist, execution))
    after, changes = settled(state, booked, attempt, task.specialist, usage)
    return after or booked, changes


def _not_ready(state: State, name: str) -> tuple[str, ...]:
    return tuple(one for one in state.ready if one != name) if name in state.ready else state.ready


def _counted(state: State, task: TaskState, code: str, begun: bool) -> dict[str, Breaker]:
    """Failures in a row of the specialist that had the task; of attempts that it began, where the run counts them."""
    known = state.breakers.get(task.specialist)
    if not state.breaker or not begun or task.child or task.status != "dispatched" or (known and known.open):
        return state.breakers
    if code in RETRIED:
        return state.breakers | {task.specialist: Breaker((known.failures if known else 0) + 1)}
    if known and not code:
        return {name: breaker for name, breaker in state.breakers.items() if name != task.specialist}
    return state.breakers


def _booked(task: TaskState, specialist: str, execution: str) -> tuple[str, ...]:
    return (*task.executions, booking(specialist, execution)) if execution else task.executions
