"""Gates: the run asks a person, and the answer is bound to exactly what was asked.

Pure. Three ask: a step before it acts, a step that is a question, and a specialist in the middle of its task. The
request carries the digest of log, run, gate, action and of who will do it; an answer must cite it. What was approved is
compared once more when the step begins.
"""

from typing import Any

from projections.canonical import Gate
from schemas import events as e
from schemas.codec import VALUE_LIMIT, digest, encode, unstorable
from schemas.expressions import BadExpression
from schemas.inputs import Answer, Approve, Deny
from schemas.steps import GatePlan, PlanStep, Voice
from schemas.validation import violation
from supervisor.documents import Work
from supervisor.draft import Draft


def passes(draft: Draft, step: PlanStep, work: Work, voices: tuple[Voice, ...]) -> tuple[Voice, ...] | None:
    """Who does the step, once it may begin: `voices`, or those that were approved. Opens its gate when it has one that
    was not opened yet.

    Raises BadExpression where the action cannot be derived, or is too large to be shown.
    """
    if step.gate is None:
        return voices
    action = [{"key": work.key(index), "input": work.input(index)} for index in range(len(work))]
    gate = draft.state.gates.get(step.id)
    if gate is None:
        gate = _open(draft, step.id, step.gate, action, voices)
    if gate.open or not gate.approved:
        return None
    if gate.digest != _digest(draft, step.id, gate.ask, gate.schema, action, gate.voices):
        draft.fail("POLICY_BLOCKED", f"the action of {step.id!r} is not the one that {gate.by} approved")
        return None
    return gate.voices


def ask(draft: Draft, step: PlanStep, work: Work) -> None:
    """Open the gate of a step that is a question, once. Raises BadExpression."""
    assert step.question is not None
    if step.id not in draft.state.gates:
        action = [{"key": work.key(0), "input": work.input(0)}]
        _open(draft, step.id, step.question, action, ())


def _open(draft: Draft, name: str, plan: GatePlan, action: list[dict[str, Any]], voices: tuple[Voice, ...]) -> Gate:
    if (size := len(encode(action))) > VALUE_LIMIT:
        raise BadExpression(f"the action of step {name!r} has {size} bytes, too large to be shown to a person")
    return open_gate(draft, name, plan, action, voices=voices)


def open_gate(
    draft: Draft, name: str, plan: GatePlan, action: Any, task: str = "", voices: tuple[Voice, ...] = ()
) -> Gate:
    """Ask; what only needs an approval may have it in advance, with the goal."""
    draft.emit(
        e.GateOpened,
        gate=name,
        ask=plan.ask,
        action=action,
        digest=_digest(draft, name, plan.ask, plan.schema, action, voices),
        delay_ms=plan.expires_ms,
        task=task,
        schema=plan.schema,
        who=plan.who,
        voices=voices,
    )
    if draft.state.approve and plan.schema is None:
        draft.emit(e.GateAnswered, gate=name, by=draft.state.publisher, approved=True, in_advance=True)
    return draft.state.gates[name]


def _digest(
    draft: Draft, name: str, ask: str, schema: dict[str, Any] | None, action: Any, voices: tuple[Voice, ...]
) -> str:
    by = [[voice.specialist, voice.contract] for voice in voices]
    said = {"gate": name, "ask": ask, "schema": schema, "action": action, "by": by}
    return digest({"log": draft.state.log, "run": draft.state.run} | said)


def answer(draft: Draft, person: str, said: Approve | Deny | Answer) -> Gate | None:
    """Take a person's answer; the gate, when it is answered by it. A refused answer is recorded with the reason."""
    if refusal := _refusal(draft, person, said):
        draft.late(person, refusal)
        return None
    reason = said.reason[:1000] if isinstance(said, Deny) else ""
    value = said.value if isinstance(said, Answer) else None
    approved = not isinstance(said, Deny)
    draft.emit(e.GateAnswered, gate=said.gate, by=person, approved=approved, reason=reason, value=value)
    return draft.state.gates[said.gate]


def _refusal(draft: Draft, person: str, said: Approve | Deny | Answer) -> str:
    gate = draft.state.gates.get(said.gate)
    if draft.state.end:
        return "the run has ended"
    if gate is None:
        return f"the run has no gate {said.gate[:64]!r}"
    if not gate.open:
        return f"gate {said.gate!r} was {'approved' if gate.approved else 'denied'} by {gate.by} already"
    if said.gate not in draft.state.open_gates:
        return f"gate {said.gate!r} asks for what is over"
    if gate.who and person not in gate.who:
        return f"gate {said.gate!r} asks {', '.join(gate.who)}, not {person}"
    if said.digest != gate.digest:
        return f"the digest is not that of what gate {said.gate!r} asks for"
    return _unfit(gate, said)


def _unfit(gate: Gate, said: Approve | Deny | Answer) -> str:
    """Why an answer is none to what the gate asks."""
    if isinstance(said, Deny):
        return ""
    if isinstance(said, Approve):
        return "" if gate.schema is None else f"gate {said.gate!r} asks for a value, not for an approval"
    if gate.schema is None:
        return f"gate {said.gate!r} asks for an approval, not for a value"
    if reason := unstorable(said.value):
        return f"the value: {reason}"
    if len(encode(said.value)) > VALUE_LIMIT:
        return f"the value is over {VALUE_LIMIT} bytes"
    problem = violation(gate.schema, said.value)
    return f"the value: {problem}" if problem else ""
