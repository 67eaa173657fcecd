"""Attempts: giving a task to a specialist, and what follows when the attempt ends.

Pure.
"""

from schemas import events as e
from schemas.codec import encode
from schemas.steps import Voice
from schemas.usage import Usage
from supervisor.draft import Draft
from supervisor.policy import DEPTH_LIMIT, allowance, child_run, tried_again
from supervisor.settle import settle


def dispatch(draft: Draft, name: str, voice: Voice) -> None:
    task = draft.state.tasks[name]
    step = draft.state.step(task.step)
    allowed = allowance(step, draft.state.steps[step.id], task, voice, draft.view)
    attempt, child = task.attempt + 1, ""
    if step.team:
        parent = draft.state.parent
        if parent and parent.depth >= DEPTH_LIMIT:
            draft.end("FAILED", "BUDGET_EXCEEDED", f"child runs are {DEPTH_LIMIT} deep at most")
            return
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
    )


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
    )
    settle(draft, task)


def failed(
    draft: Draft, name: str, code: e.StopCode, message: str, execution: str = "", usage: Usage | None = None
) -> None:
    """An attempt ended with a code: the task is tried again, or ends with it."""
    task, used = draft.state.tasks[name], usage or Usage()
    step = draft.state.step(task.step)
    voice = Voice(task.specialist, task.contract)
    attempts = allowance(step, draft.state.steps[task.step], task, voice, draft.view).attempts
    if tried_again(code, task, attempts):
        draft.emit(
            e.AttemptFailed,
            task=name,
            attempt=task.attempt,
            code=code,
            message=message,
            execution=execution,
            usage=used,
        )
        dispatch(draft, name, voice)
        return
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
    )
    settle(draft, task)
