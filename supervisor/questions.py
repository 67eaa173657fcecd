"""Questions: what follows when a specialist asks, when a person answers, and when nobody does.

Pure. How a request and its answer are bound to each other stands in `gates`.
"""

from projections.canonical import TaskState
from schemas import events as e
from schemas.effects import asked_about
from schemas.inputs import Answer, Approve, Deny, Ended
from schemas.steps import GatePlan, Voice
from supervisor import gates, intents
from supervisor.advance import answered as step_answered
from supervisor.advance import unanswered as step_unanswered
from supervisor.attempts import blocked, failed, give_or_wait
from supervisor.draft import Draft

QUESTIONS_LIMIT = 20
"""Questions that one task may ask people."""
GATE_MS = 366 * 86_400_000
"""The longest time for an answer."""
NO_QUESTION: tuple[e.StopCode, str] = ("INVALID_OUTPUT", "it asks nothing")


def asked(draft: Draft, task: TaskState, end: Ended) -> None:
    """A specialist asks people in the middle of its task, which goes on when they have answered; or when a receipt says
    what it does not know of an effect."""
    question, problem = end.question, _unasked(draft, task, end)
    if question is None or problem:
        failed(draft, end.task, *(problem or NO_QUESTION), end.execution[:64], end.usage)
        return
    draft.emit(
        e.AttemptFailed,
        task=end.task,
        attempt=task.attempt,
        code="EFFECT_UNKNOWN" if end.code == "EFFECT_UNKNOWN" else "NEEDS_INPUT",
        message=question.ask[:1000],
        lost=False,
        execution=end.execution[:64],
        usage=end.usage,
    )
    if end.code == "EFFECT_UNKNOWN" and intents.is_known_by_now(draft, task, end):
        give_or_wait(draft, end.task)
        return
    gate = gates.open_gate(
        draft,
        f"{end.task}.{task.attempt}",
        GatePlan(question.ask, min(max(question.expires_ms, 1), GATE_MS), schema=question.schema),
        question.action,
        task=end.task,
        voices=(Voice(task.specialist, task.contract),),
    )
    if not gate.open:
        give_or_wait(draft, end.task)


def _unasked(draft: Draft, task: TaskState, end: Ended) -> tuple[e.StopCode, str] | None:
    """Why a task may not ask."""
    if end.code == "EFFECT_UNKNOWN" and (end.question is None or asked_about(end.question.action) is None):
        return "INVALID_OUTPUT", "it does not say which effect it does not know of"
    if draft.state.step(task.step).bid:
        return "LOW_CONFIDENCE", "it asks a person before it bids, and a call does not wait that long"
    asked = sum(gate.task == end.task for gate in draft.state.gates.values())
    return ("BUDGET_EXCEEDED", f"it asked {asked} times; that is the most") if asked >= QUESTIONS_LIMIT else None


def answered(draft: Draft, person: str, said: Approve | Deny | Answer) -> bool:
    """Take what a person says, with what follows for the task, step or run that asked; whether it was an answer."""
    gate = gates.answer(draft, person, said)
    if gate is None:
        return False
    reason = f": {said.reason[:1000]}" if isinstance(said, Deny) and said.reason else ""
    denied = "" if gate.approved else f"{person} denied {said.gate!r}{reason}"
    if gate.task:
        if denied:
            blocked(draft, gate.task, denied)
        else:
            give_or_wait(draft, gate.task)
    elif said.gate in draft.state.steps and draft.state.step(said.gate).question:
        step_answered(draft, said.gate)
    elif denied:
        draft.fail("POLICY_BLOCKED", denied)
    return True


def expired(draft: Draft, name: str, delay_ms: int) -> None:
    """Nobody answered in time."""
    gate = draft.state.gates[name]
    reason = f"nobody {'approved' if gate.schema is None else 'answered'} {name!r} within {delay_ms} ms"
    if gate.task:
        blocked(draft, gate.task, reason)
    elif name in draft.state.steps and draft.state.step(name).question:
        step_unanswered(draft, name, reason)
    else:
        draft.fail("POLICY_BLOCKED", reason)
