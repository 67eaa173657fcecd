"""Intents and receipts: what workers say of effects becomes part of the history, whenever it comes.

Pure. Who has the right to do an effect the log itself has decided, by the first message on the subject of its key; what
is recorded here says what is known of it. So an intent or a receipt is never too late: what was done was done.
"""

from projections.canonical import Effect, TaskState
from schemas import events as e
from schemas import events_of_effects as f
from schemas.codec import encode, sha256, unstorable
from schemas.contracts import EffectGrant
from schemas.effects import ARGUMENTS_LIMIT, EFFECTS_LIMIT, asked_about
from schemas.inputs import EffectIntended, EffectReceipt, Ended
from supervisor.attempts import give_or_wait
from supervisor.draft import Draft


def heard(draft: Draft, author: str, said: EffectIntended | EffectReceipt) -> None:
    """Record what a worker says of an effect."""
    if isinstance(said, EffectIntended):
        _intended(draft, author, said)
    else:
        _receipt(draft, author, said)


def _intended(draft: Draft, author: str, intent: EffectIntended) -> None:
    """Record that an execution has the right to do an effect."""
    task, known = draft.state.tasks.get(intent.task), draft.state.effects.get(intent.key)
    if task is None or author not in {task.specialist, *task.tried}:
        draft.late(author, f"the task of the effect {intent.tool} is not with {author}")
        return
    if known and (known.task != intent.task or intent.round <= known.round):
        return
    if not known and len(draft.state.effects) >= EFFECTS_LIMIT:
        draft.late(author, f"a run keeps {EFFECTS_LIMIT} effects, this one is not among them: {intent.tool}")
        return
    grant = _granted(draft, task.contract, intent.tool)
    draft.emit(
        f.EffectIntended,
        task=intent.task,
        attempt=intent.attempt,
        specialist=author,
        contract=task.contract,
        execution=intent.execution,
        tool=intent.tool,
        key=intent.key,
        round=intent.round,
        arguments=_kept(intent.arguments),
        undo=grant.undo or "" if grant else "",
        undoes=draft.state.step(task.step).undo,
    )


def _granted(draft: Draft, contract: int, tool: str) -> EffectGrant | None:
    """What a contract says of a tool that changes the world."""
    found = draft.view.contract_at(contract)
    return next((one.effect for one in found.tools if one.tool == tool), None) if found else None


def _kept(value: object) -> object:
    """A value as the history holds it; of one that it cannot hold, its digest."""
    data = encode(value)
    return {"sha256": sha256(data), "size": len(data)} if len(data) > ARGUMENTS_LIMIT or unstorable(value) else value


def _receipt(draft: Draft, author: str, said: EffectReceipt) -> None:
    """Record whether an effect was done. A person who is asked about it need not answer any more."""
    task, effect = draft.state.tasks.get(said.task), draft.state.effects.get(said.key)
    if task is None or effect is None or not _is_about(draft, task, said, effect):
        draft.late(author, f"a receipt of {said.tool}, of which the run knows no such effect")
        return
    if author not in {effect.specialist, task.specialist, *task.tried}:
        draft.late(author, f"the task of the effect {said.tool} is not with {author}")
        return
    if said.round > effect.round or any((one.round, one.done) == (said.round, said.done) for one in effect.outcomes):
        return
    draft.emit(
        f.EffectReceipt,
        task=effect.task,
        specialist=author,
        execution=said.execution,
        tool=effect.tool,
        key=said.key,
        round=said.round,
        done=said.done,
        source=said.source,
        result=_kept(said.result),
        message=said.message[:1000],
    )
    _answer(draft, author, said)


def _is_about(draft: Draft, task: TaskState, said: EffectReceipt, effect: Effect) -> bool:
    """A task that undoes an effect may find out whether it was done at all."""
    return said.task == effect.task or draft.state.step(task.step).undo == said.key


def _answer(draft: Draft, author: str, said: EffectReceipt) -> None:
    """What people are asked about just this effect is answered by its receipt."""
    for name, gate in draft.state.open_gates.items():
        if gate.task and asked_about(gate.action) == (said.key, said.round):
            value = {"done": said.done, "result": _kept(said.result)}
            reason = "the receipt of the effect came"
            draft.emit(e.GateAnswered, gate=name, by=author, approved=True, reason=reason, value=value)
            give_or_wait(draft, gate.task)


def is_known_by_now(draft: Draft, task: TaskState, end: Ended) -> bool:
    """Whether the receipt of the effect that an attempt does not know of has come since the attempt was given out."""
    asked = asked_about(end.question.action) if end.question else None
    effect = draft.state.effects.get(asked.key) if asked else None
    if asked is None or effect is None:
        return False
    return any(one.version > task.read_version and (one.done or one.round == asked.round) for one in effect.outcomes)
