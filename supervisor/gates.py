"""Gates: a step asks a person before it acts, and the answer is bound to exactly that action.

Pure. The request carries the digest of run, step and action; an answer must cite it. What was approved is compared once
more when the step begins. The gate is named after its step.
"""

from typing import Any

from projections.canonical import Gate
from schemas import events as e
from schemas.codec import VALUE_LIMIT, digest, encode
from schemas.expressions import BadExpression
from schemas.inputs import Approve, Deny
from schemas.steps import GatePlan, PlanStep
from supervisor.documents import Work
from supervisor.draft import Draft


def passes(draft: Draft, step: PlanStep, work: Work) -> bool:
    """Whether the step may begin. Opens its gate when it has one that was not opened yet.

    Raises BadExpression where the action cannot be derived, or is too large to be shown.
    """
    if step.gate is None:
        return True
    action = [{"key": work.key(index), "input": work.input(index)} for index in range(len(work))]
    cited = _digest(draft, step.id, action)
    gate = draft.state.gates.get(step.id)
    if gate is None:
        gate = _open(draft, step.id, step.gate, action, cited)
    if gate.open:
        return False
    if gate.digest != cited:
        draft.fail("POLICY_BLOCKED", f"the action of {step.id!r} is not the one that {gate.by} approved")
        return False
    return gate.approved


def _open(draft: Draft, name: str, plan: GatePlan, action: list[dict[str, Any]], cited: str) -> Gate:
    if (size := len(encode(action))) > VALUE_LIMIT:
        raise BadExpression(f"the action of step {name!r} has {size} bytes, too large to be shown to a person")
    draft.emit(e.GateOpened, gate=name, ask=plan.ask, action=action, digest=cited, delay_ms=plan.expires_ms)
    if draft.state.approve:
        draft.emit(e.GateAnswered, gate=name, by=draft.state.publisher, approved=True, in_advance=True)
    return draft.state.gates[name]


def _digest(draft: Draft, name: str, action: list[dict[str, Any]]) -> str:
    return digest({"log": draft.state.log, "run": draft.state.run, "step": name, "action": action})


def answer(draft: Draft, person: str, said: Approve | Deny) -> bool:
    """Take a person's answer; whether the gate is now answered. A refused answer is recorded with the reason."""
    if refusal := _refusal(draft, said):
        draft.late(person, refusal)
        return False
    approved = isinstance(said, Approve)
    reason = "" if isinstance(said, Approve) else said.reason[:1000]
    draft.emit(e.GateAnswered, gate=said.gate, by=person, approved=approved, reason=reason)
    if not approved:
        draft.fail("POLICY_BLOCKED", f"{person} denied {said.gate!r}" + (f": {reason}" if reason else ""))
    return True


def _refusal(draft: Draft, said: Approve | Deny) -> str:
    gate = draft.state.gates.get(said.gate)
    if draft.state.end:
        return "the run has ended"
    if gate is None:
        return f"the run has no gate {said.gate[:64]!r}"
    if not gate.open:
        return f"gate {said.gate!r} was {'approved' if gate.approved else 'denied'} by {gate.by} already"
    return "" if said.digest == gate.digest else f"the digest is not that of what gate {said.gate!r} asks for"
