"""Attempts: giving a task to a specialist, and what follows when the attempt ends.

Pure. Every attempt is given out by `give`, which reserves what it may use; so nothing gets past the budget, the breaker
or the question whether a run that repeats itself may go on.
"""

from projections.canonical import TaskState
from schemas import events as e
from schemas.codec import encode
from schemas.steps import PlanStep, Voice
from schemas.usage import Usage
from supervisor import loops
from supervisor.budget import afford
from supervisor.draft import Draft
from supervisor.policy import (
    DEPTH_LIMIT,
    allowance,
    backoff_ms,
    child_run,
    fallback,
    handed_to,
    is_open,
    substitute,
    tried_again,
)
from supervisor.settle import settle


def give(draft: Draft, name: str, voice: Voice | None = None) -> bool:
    """Give the next attempt of a task to `voice` (None: who has it); False when it has to wait for room or for an
    answer. A task that can never be given out ends here."""
    if draft.state.end or loops.is_asking(draft):
        return False
    task = draft.state.tasks[name]
    step = draft.state.step(task.step)
    voice = voice or Voice(task.specialist, task.contract)
    if is_open(draft.state, voice.specialist):
        other = substitute(step, task, draft.state, draft.view) or fallback(task, draft.state, draft.view)
        if other is None:
            _give_up(draft, name, "TOOL_DOWN", f"the breaker of {voice.specialist} is open")
            return True
        voice = other
    allowed = allowance(step, draft.state.steps[step.id], task, voice, draft.view)
    verdict = afford(draft.state, allowed.limits)
    if verdict.when == "never":
        _give_up(draft, name, "BUDGET_EXCEEDED", verdict.reason)
    if verdict.when != "now":
        return verdict.when == "never"
    attempt, child = task.attempt + 1, ""
    if step.team:
        parent = draft.state.parent
        if parent and parent.depth >= DEPTH_LIMIT:
            draft.end("FAILED", "BUDGET_EXCEEDED", f"child runs are {DEPTH_LIMIT} deep at most")
            return True
        child = child_run(draft.state.run, name, attempt)
    draft.emit(
        e.TaskDispatched,
        task=name,
        attempt=attempt,
        specialist=voice.specialist,
        contract=voice.contract,
        read_version=draft.state.version,
        wait_ms=allowed.wait_ms,
        work_ms=allowed.work_ms,
        child=child,
        reserve=verdict.reserve,
    )
    return True


def give_or_wait(draft: Draft, name: str, voice: Voice | None = None) -> None:
    """As `give`; a task that has to wait goes on in its turn."""
    if draft.state.end:
        return
    room = draft.state.in_flight < draft.state.parallel
    if not (room and give(draft, name, voice)) and name not in draft.state.ready:
        draft.emit(e.TaskDelayed, task=name, delay_ms=0, reason="room")


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
    outcome = loops.outcome_of(draft, name, loops.result(claims))
    draft.emit(
        e.TaskEnded,
        task=name,
        attempt=task.attempt,
        specialist=task.specialist,
        message=lacking,
        execution=execution,
        claims=claims,
        silences=(said := tuple(e.Silence(silence.key, silence.code, silence.message[:1000]) for silence in silences)),
        size=len(encode(claims)) + len(encode(said)) + len(lacking.encode()),
        usage=usage,
        outcome=outcome,
    )
    loops.check(draft, name, outcome, f"{task.specialist} came to the same result")
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
    other = None if again or code == "POLICY_BLOCKED" else fallback(task, draft.state, draft.view)
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
        _again(draft, name, 0 if at_once else backoff_ms(draft.state, name, voice, draft.view))
        return
    outcome = loops.outcome_of(draft, name, code)
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
    loops.check(draft, name, outcome, f"{task.specialist} ended with {code}")
    settle(draft, name)


def _again(draft: Draft, name: str, delay_ms: int) -> None:
    if delay_ms:
        draft.emit(e.TaskDelayed, task=name, delay_ms=delay_ms, reason="backoff")
    else:
        give_or_wait(draft, name)


def _watch_breaker(draft: Draft, task: TaskState, code: str) -> None:
    known = draft.state.breakers.get(task.specialist)
    if known and not known.open and draft.state.breaker and known.failures >= draft.state.breaker:
        draft.emit(e.BreakerOpened, specialist=task.specialist, failures=known.failures, code=code)


def never_begun(draft: Draft, name: str, delay_ms: int) -> None:
    """Nobody began an attempt in time: somebody else gets it, or the same specialist again; no attempt is lost."""
    task = draft.state.tasks[name]
    step = draft.state.step(task.step)
    other = substitute(step, task, draft.state, draft.view)
    next_one = None if other else fallback(task, draft.state, draft.view)
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
    give_or_wait(draft, name, other)


def handed_on(draft: Draft, name: str, to: str, message: str, execution: str, usage: Usage) -> None:
    """An attempt ended because the task is somebody else's."""
    task = draft.state.tasks[name]
    step = draft.state.step(task.step)
    if problem := _handing(draft, step, task, to):
        failed(draft, name, *problem, execution, usage)
        return
    voice = handed_to(step, task, to, draft.view)
    if voice is None:
        failed(
            draft, name, "TOOL_DOWN", f"nobody who may do it offers {to!r}, to which it was handed", execution, usage
        )
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
    loops.check(draft, name, outcome, f"{task.specialist} handed it to {to}")
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
