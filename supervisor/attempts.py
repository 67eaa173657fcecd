"""Attempts: giving a task to a specialist, and what follows when the attempt ends.

Pure. Every attempt is given out by `give`, which reserves what it may use; so nothing gets past the budget, the breaker
or the question whether a run that repeats itself may go on.
"""

from msgspec.structs import replace

from projections.bookings import set_aside
from projections.canonical import TaskState
from schemas import events as e
from schemas.codec import INPUT_EVENTS_LIMIT, encode
from schemas.plan_events import PlanAsked
from schemas.steps import PlanStep, Voice
from schemas.usage import Amount, Limits, Usage
from supervisor import loops
from supervisor.admission import refusal
from supervisor.breaches import silence_by
from supervisor.briefings import budget_for, told_of
from supervisor.budget import afford, for_bid
from supervisor.draft import Draft
from supervisor.policy import (
    DEPTH_LIMIT,
    Allowance,
    allowance,
    backoff_ms,
    broken,
    child_run,
    fallback,
    handed_to,
    is_open,
    passed_over,
    substitute,
    tried_again,
)
from supervisor.settle import settle

FULL = INPUT_EVENTS_LIMIT * 3 // 4
"""Bytes of events after which an input gives nothing more out, and no task up: that goes on with the next one."""


def give(draft: Draft, name: str) -> bool:
    """Give the next attempt of a task out; False when it has to wait. A task that can never be given out ends here."""
    return not draft.over(draft.step_of(name)) and not _held_back(draft, name)


def give_or_wait(draft: Draft, name: str) -> None:
    """As `give`, where there is room in `parallel`; a task that has to wait goes on in its turn."""
    if draft.over(draft.step_of(name)):
        return
    armed = draft.state.timers.get(f"retry.{name}")
    waiting = "" if draft.state.in_flight < draft.state.parallel else f"{draft.state.in_flight} tasks are in flight"
    waiting = waiting or _held_back(draft, name)
    if waiting and name not in draft.state.ready and draft.state.timers.get(f"retry.{name}") == armed:
        draft.emit(e.TaskDelayed, task=name, delay_ms=0, reason=waiting)


def _held_back(draft: Draft, name: str) -> str:
    """Give the next attempt of a task out, or say why it has to wait."""
    if loops.is_asking(draft):
        return "a person is asked whether the run may go on"
    if draft.size > FULL:
        draft.emit(e.TaskDelayed, task=name, delay_ms=1, reason=f"one input brings {FULL} bytes about at most")
        return "it goes on after the next input"
    task = draft.state.tasks[name]
    step = draft.state.step(task.step)
    if step.undo:
        _dispatch_undo(draft, step, name, task)
        return ""
    voice = _whose(draft, step, task)
    if isinstance(voice, str):
        _give_up(draft, name, "TOOL_DOWN", voice)
        return ""
    if problem := refusal(draft, step, name, voice):
        _give_up(draft, name, *problem)
        return ""
    allowed = allowance(step, draft.state.steps[step.id], task, voice, draft.view)
    verdict = afford(draft.state, for_bid(draft.state, step.budget) if step.bid else allowed.limits)
    if verdict.when == "never":
        _give_up(draft, name, *_unpaid(draft, task, allowed.limits, verdict.reason))
    elif verdict.when == "now":
        _dispatch(draft, name, voice, allowed, verdict.reserve)
    return verdict.reason if verdict.when == "later" else ""


def _dispatch_undo(draft: Draft, step: PlanStep, name: str, task: TaskState) -> None:
    """What is undone is undone by whom it was done, whatever the run has left: what that uses is booked as overrun."""
    voice = Voice(task.specialist, task.contract)
    allowed = allowance(step, draft.state.steps[step.id], task, voice, draft.view)
    _dispatch(draft, name, voice, allowed, for_bid(draft.state, Limits()))


def _unpaid(draft: Draft, task: TaskState, wanted: Limits, reason: str) -> tuple[e.StopCode, str]:
    """Why there is no other attempt, where the budget does not allow it. What an attempt keeps that nobody answered is
    missing because of the silence, not because it was used up: with the same budget another run may do it."""
    kept = sum((set_aside(draft.state.budget, one.limits) for one in task.open), Amount())
    if afford(replace(draft.state, reserved=draft.state.reserved - kept), wanted).when == "never":
        return "BUDGET_EXCEEDED", reason
    unheard = task.open[-1]
    return (
        "TIMEOUT",
        f"attempt {unheard.attempt} by {unheard.specialist} was not heard of and keeps its share: {reason}",
    )


def _whose(draft: Draft, step: PlanStep, task: TaskState) -> Voice | str:
    """Who gets the next attempt: who has the task, unless nobody began it there and somebody else may, or the run gives
    it nothing more; or why nobody does."""
    own = Voice(task.specialist, task.contract)
    if step.team:
        return own
    if is_open(draft.state, own.specialist):
        other = substitute(step, task, draft.state, draft.view) or fallback(step, task, draft.state, draft.view)
        return other or _joined(broken(draft.state, own.specialist), _nobody_else(draft, step, task))
    silent = task.waits and own.specialist in task.tried
    return (substitute(step, task, draft.state, draft.view) if silent else None) or own


def _nobody_else(draft: Draft, step: PlanStep, task: TaskState) -> str:
    """Why none of those whom the step names, and who have not had the task, takes over."""
    named = () if task.index >= 0 else draft.state.steps[step.id].fallback
    others = [name for name in named if name != task.specialist and name not in task.tried]
    found = [f"{name} {passed_over(step, task, name, draft.state, draft.view)}" for name in others]
    return f"nobody takes over: {', '.join(found)}"[:500] if found else ""


def _joined(*texts: str) -> str:
    return "; ".join(filter(None, texts))[:1000]


def _dispatch(draft: Draft, name: str, voice: Voice, allowed: Allowance, reserve: Limits) -> None:
    task, parent = draft.state.tasks[name], draft.state.parent
    is_child = bool((step := draft.state.step(task.step)).team)
    if is_child and parent and parent.depth >= DEPTH_LIMIT:
        draft.end("FAILED", "BUDGET_EXCEEDED", f"child runs are {DEPTH_LIMIT} deep at most")
        return
    attempt = task.attempt + 1
    if step.plans:
        contracts, more = told_of(step, draft.state, draft.view)
        budget = budget_for(draft.state, step, allowed.limits)
        draft.emit(PlanAsked, task=name, contracts=contracts, left_out=more, budget=budget)
    draft.emit(
        e.TaskDispatched,
        task=name,
        attempt=attempt,
        specialist=voice.specialist,
        contract=voice.contract,
        read_version=draft.state.version,
        wait_ms=allowed.wait_ms,
        work_ms=allowed.work_ms,
        child=child_run(draft.state.run, name, attempt) if is_child else "",
        reserve=reserve,
    )


def _give_up(draft: Draft, name: str, code: e.StopCode, message: str) -> None:
    """A task ends without another attempt."""
    task = draft.state.tasks[name]
    draft.emit(
        e.TaskEnded,
        task=name,
        attempt=task.attempt + 1,
        specialist=task.specialist,
        code=code,
        message=message,
        size=len(encode(message)),
    )
    settle(draft, name)


def blocked(draft: Draft, name: str, message: str) -> None:
    """A task that waits for a person ends, because of the answer or for want of one."""
    _give_up(draft, name, "POLICY_BLOCKED", message[:1000])


# --- results ----------------------------------------------------------------------------------------------------------


def succeeded(
    draft: Draft,
    name: str,
    execution: str,
    claims: tuple[e.Claim, ...],
    silences: tuple[e.Silence, ...],
    usage: Usage,
    lacking: str = "",
) -> None:
    """An attempt ended with a result; `lacking` is what a child run did without."""
    task = draft.state.tasks[name]
    outcome = loops.outcome_of(draft, name, claims)
    draft.emit(
        e.TaskEnded,
        task=name,
        attempt=task.attempt,
        specialist=task.specialist,
        message=lacking,
        execution=execution,
        claims=claims,
        silences=(said := tuple(silence_by(draft, task, silence) for silence in silences)),
        size=len(encode(claims)) + len(encode(said)) + len(lacking.encode()),
        usage=usage,
        outcome=outcome,
    )
    if outcome:
        loops.check(draft, name, outcome, f"{task.specialist} came to the same result", loops.result(claims))
    settle(draft, name)


def stale(draft: Draft, name: str, keys: list[str], execution: str, usage: Usage) -> None:
    """An attempt ended with a result that rests on facts of which there are newer versions: ask again."""
    attempt = draft.state.tasks[name].attempt
    draft.emit(e.AttemptStale, task=name, attempt=attempt, keys=tuple(keys), execution=execution, usage=usage)
    give_or_wait(draft, name)


# --- failures ---------------------------------------------------------------------------------------------------------


def failed(
    draft: Draft, name: str, code: e.StopCode, message: str, execution: str = "", usage: Usage | None = None
) -> None:
    """An attempt ended with a code: the task is tried again, goes to somebody else, or ends with it."""
    task, used = draft.state.tasks[name], usage or Usage()
    step = draft.state.step(task.step)
    voice = Voice(task.specialist, task.contract)
    attempts = allowance(step, draft.state.steps[task.step], task, voice, draft.view).attempts
    again = tried_again(code, task, attempts)
    other = None if again or code == "POLICY_BLOCKED" else fallback(step, task, draft.state, draft.view)
    if again or other:
        draft.emit(
            e.AttemptFailed,
            task=name,
            attempt=task.attempt,
            code=code,
            message=message,
            execution=execution,
            usage=used,
            to=other.specialist if other else "",
            contract=other.contract if other else 0,
        )
        _watch_breaker(draft, task, code)
        at_once = other is not None or is_open(draft.state, task.specialist)
        delay_ms = 0 if at_once else backoff_ms(draft.state, name, voice, draft.view)
        if delay_ms:
            reason = f"attempt {task.lost + 2} of {attempts}, after {code}"
            draft.emit(e.TaskDelayed, task=name, delay_ms=delay_ms, reason=reason)
        else:
            give_or_wait(draft, name)
        return
    outcome = loops.outcome_of(draft, name, code)
    if code != "POLICY_BLOCKED":
        message = _joined(message, _nobody_else(draft, step, task))
    draft.emit(
        e.TaskEnded,
        task=name,
        attempt=task.attempt,
        specialist=task.specialist,
        code=code,
        message=message,
        execution=execution,
        size=len(encode(message)),
        usage=used,
        outcome=outcome,
    )
    _watch_breaker(draft, task, code)
    loops.check(draft, name, outcome, f"{task.specialist} ended with {code}", message)
    settle(draft, name)


def _watch_breaker(draft: Draft, task: TaskState, code: str) -> None:
    known = draft.state.breakers.get(task.specialist)
    if known and not known.open and draft.state.breaker and known.failures >= draft.state.breaker:
        draft.emit(e.BreakerOpened, specialist=task.specialist, failures=known.failures, code=code)


def never_begun(draft: Draft, name: str, delay_ms: int) -> None:
    """Nobody began an attempt in time: somebody else gets it, or the same specialist again; no attempt is lost."""
    task = draft.state.tasks[name]
    step = draft.state.step(task.step)
    other = substitute(step, task, draft.state, draft.view)
    next_one = None if other else fallback(step, task, draft.state, draft.view)
    draft.emit(
        e.AttemptFailed,
        task=name,
        attempt=task.attempt,
        code="TIMEOUT",
        message=f"nobody began it within {delay_ms} ms",
        lost=False,
        to=next_one.specialist if next_one else "",
        contract=next_one.contract if next_one else 0,
    )
    give_or_wait(draft, name)


def handed_on(draft: Draft, name: str, to: str, message: str, execution: str, usage: Usage) -> None:
    """An attempt ended because the task is somebody else's."""
    task = draft.state.tasks[name]
    step = draft.state.step(task.step)
    if problem := _handing(draft, step, task, to):
        failed(draft, name, *problem, execution, usage)
        return
    voice = handed_to(step, task, to, draft.state, draft.view)
    if not isinstance(voice, Voice):
        failed(draft, name, *voice, execution, usage)
        return
    outcome = loops.outcome_of(draft, name, f"HANDED_OFF {to}")
    draft.emit(
        e.AttemptFailed,
        task=name,
        attempt=task.attempt,
        code="HANDED_OFF",
        message=message,
        lost=False,
        execution=execution,
        usage=usage,
        to=voice.specialist,
        contract=voice.contract,
        outcome=outcome,
    )
    loops.check(draft, name, outcome, f"{task.specialist} handed it to {to}", message)
    give_or_wait(draft, name)


def _handing(draft: Draft, step: PlanStep, task: TaskState, to: str) -> tuple[e.StopCode, str] | None:
    """Why the task may not be handed to `to`."""
    contract = draft.view.contract_at(task.contract)
    if contract and contract.authority == "observe":
        return "POLICY_BLOCKED", f"{task.specialist} has the authority to observe, not to hand a task on"
    if to not in step.hand_to or task.index >= 0:
        return "POLICY_BLOCKED", f"step {step.id!r} does not let a task be handed to {to[:64]!r}"
    if task.hops >= step.handoffs:
        return "BUDGET_EXCEEDED", f"it was handed on {task.hops} times; {step.handoffs} at most"
    return None
