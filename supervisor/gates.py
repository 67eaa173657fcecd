"""Gates: the run asks a person, and the answer is bound to exactly what was asked.

Pure. Four ask: a step before it acts, a step that is a question, a specialist in the middle of its task, and a run that
repeats itself. The request carries the digest of log, run, gate, action and of who will do it; an answer must cite it.
What was approved is compared once more when the step begins and with each attempt that is given out.
"""

from typing import Any

from projections.canonical import Gate, TaskState, group_span
from schemas import events as e
from schemas.codec import VALUE_LIMIT, canonical, digest, encode, unstorable
from schemas.expressions import BadExpression
from schemas.inputs import Answer, Approve, Deny
from schemas.steps import GatePlan, PlanStep, Voice
from schemas.validation import violation
from supervisor.documents import Work
from supervisor.draft import Draft
from supervisor.policy import Chosen


def passes(draft: Draft, step: PlanStep, work: Work, who: Chosen) -> Chosen | None:
    """Who does the step and who takes over, once it may begin: `who`, or those that were approved, by the contracts
    that they had then. Opens its gate when it has one that was not opened yet, and once more when who was approved is
    gone.

    Raises BadExpression where the action cannot be derived, or is too large to be shown.
    """
    if step.gate is None or not len(work):
        return who
    gate, action = draft.state.gates.get(step.id), _action(work)
    if gate is None or (gate.approved and not _are_there(draft, step, gate)):
        gate = _open(draft, step.id, step.gate, action, _doers(draft, who))
    if gate.open or not gate.approved:
        return None
    if gate.digest != _digest(draft, step.id, gate.ask, gate.schema, action, gate.voices):
        if not gate.in_advance:
            draft.fail("POLICY_BLOCKED", f"the action of {step.id!r} is not the one that {gate.by} approved")
            return None
        gate = _open(draft, step.id, step.gate, action, gate.voices)
    begins = _beginning(step, gate)
    return Chosen(begins, tuple(voice.specialist for voice in gate.voices[len(begins) :]))


def approved(draft: Draft, step: PlanStep) -> bool:
    """Whether the step was approved, and who was approved to do it is there."""
    gate = draft.state.gates.get(step.id)
    return step.gate is not None and gate is not None and gate.approved and _are_there(draft, step, gate)


def _doers(draft: Draft, who: Chosen) -> tuple[Voice, ...]:
    """All who may do it, each by the contract that is in force: the voices, then who takes over."""
    there = ((name, draft.view.contract(name)) for name in who.fallback)
    return (*who.voices, *(Voice(name, found[0]) for name, found in there if found))


def _beginning(step: PlanStep, gate: Gate) -> tuple[Voice, ...]:
    """The voices of the step among those that were approved; the others take over."""
    return gate.voices if step.specialist == "all" else gate.voices[:1]


def _are_there(draft: Draft, step: PlanStep, gate: Gate) -> bool:
    offering = {name for name, _, _ in draft.view.offering(step.capability)}
    return bool(step.team) or all(voice.specialist in offering for voice in _beginning(step, gate))


def strays(draft: Draft, step: PlanStep, task: TaskState, voice: Voice) -> str:
    """How an attempt of a task that `voice` would be given now is not what was approved for its step; empty where it
    is, and where nothing has to be approved. A task that reconciles only compares what was claimed. Who approved in
    advance approved whatever it would be: the gate then says what it is by now."""
    gate = draft.state.gates.get(step.id)
    if step.gate is None or gate is None or task.index >= 0:
        return ""
    if voice not in gate.voices:
        return f"nobody approved that {voice.specialist} does {step.id!r} by the contract that it has"
    state = draft.state.steps[step.id]
    span = group_span(state, task.group)
    items, before = draft.work(step).items(state, task.group, draft.state.version), gate.action
    if canonical(items) == canonical(before[span.start : span.stop]):
        return ""
    if not gate.in_advance:
        return f"the action of {step.id!r} is not the one that {gate.by} approved"
    now = [{"key": item.key, "input": item.input} for item in items]
    _open(draft, step.id, step.gate, [*before[: span.start], *now, *before[span.stop :]], gate.voices)
    return ""


def ask(draft: Draft, step: PlanStep, work: Work) -> None:
    """Open the gate of a step that is a question, once. Raises BadExpression."""
    assert step.question is not None
    if step.id not in draft.state.gates:
        _open(draft, step.id, step.question, _action(work), ())


def renew(draft: Draft) -> None:
    """Ask anew where the action that an open gate asks for is another one by now: answers to the earlier question are
    answers to something else. Raises BadExpression."""
    if not draft.state.replaced:
        return
    for name, gate in draft.state.open_gates.items():
        if gate.task or name not in draft.state.steps:
            continue
        step = draft.state.step(name)
        plan, action = step.gate or step.question, _action(draft.work(step))
        if plan and gate.digest != _digest(draft, name, gate.ask, gate.schema, action, gate.voices):
            _open(draft, name, plan, action, gate.voices)


def _action(work: Work) -> list[dict[str, Any]]:
    return [{"key": work.key(index), "input": work.input(index)} for index in range(len(work))]


def _open(draft: Draft, name: str, plan: GatePlan, action: list[dict[str, Any]], voices: tuple[Voice, ...]) -> Gate:
    if (size := len(encode(action))) > VALUE_LIMIT:
        raise BadExpression(f"the action of step {name!r} has {size} bytes, too large to be shown to a person")
    return open_gate(draft, name, plan, action, voices=voices)


def open_gate(
    draft: Draft, name: str, plan: GatePlan, action: Any, task: str = "", voices: tuple[Voice, ...] = ()
) -> Gate:
    """Ask; the approval of an action may have been given in advance, with the goal, by who may give it. Whether a run
    that repeats itself may go on is no action."""
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
    publisher, of_the_run = draft.state.publisher, bool(task) or name in draft.state.steps
    if draft.state.approve and of_the_run and plan.schema is None and (not plan.who or publisher in plan.who):
        draft.emit(e.GateAnswered, gate=name, by=publisher, approved=True, in_advance=True)
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
