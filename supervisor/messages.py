"""Task messages: what the worker of an attempt receives, derived from the stored state of its run.

Pure. As of the version at which the attempt was dispatched, so the same attempt always has the same bytes.
"""

from typing import Literal

import msgspec

from projections.canonical import State, TaskState, group_tasks
from schemas.codec import MESSAGE_LIMIT, encode
from schemas.goals import GOAL_LIMIT
from schemas.grants import Grant, both
from schemas.inputs import Question
from schemas.playbooks import PLANNING
from schemas.steps import PlanStep, Voice
from schemas.taint import Labels, joined
from schemas.tasks import Answered, Item, ReadFact, Receipt, Task, Undo
from schemas.usage import Limits
from supervisor.briefings import BRIEFING_BYTES, ContractAt, planning
from supervisor.candidates import claimed_with, conflicting, voices_on
from supervisor.documents import Work

ENVELOPE = 3_072
"""Bytes of a task message or a child's goal beside what it carries, at most."""


def task_message(work: Work, name: str, span: str, contract_at: ContractAt) -> Task:
    """The self-contained message of the attempt of task `name` that is in flight."""
    state, task = work.state, work.state.tasks[name]
    return Task(
        log=state.log,
        run=state.run,
        task=name,
        attempt=task.attempt,
        specialist=task.specialist,
        contract=task.contract,
        items=_briefed(work, task, contract_at),
        facts=_facts(work, task, task.read_version),
        read_version=task.read_version,
        wait_ms=task.wait_ms,
        work_ms=task.work_ms,
        span=span,
        kind=_kind(work.step, task),
        budget=Limits() if work.step.undo else reserved_for(task),
        answers=_answers(state, name),
        effects=_receipts(state, work.step, name),
        grant=granted(work),
        taint=tainted(work, task, task.read_version),
    )


def granted(work: Work) -> Grant | None:
    """What of their tools those who do the step may call: what the run and the step both grant."""
    return both(work.state.grant, work.step.grant)


def tainted(work: Work, task: TaskState, at: int) -> Labels:
    """The labels of what an attempt carries: of the claims that differ; or of all that its step sees, and of a plan
    that was refused."""
    if task.index < 0:
        return joined(work.taint(at), task.refused.taint if task.refused else ())
    names = group_tasks(task.step, work.state.steps[task.step], task.group)
    return claimed_with(work.state, names, work.key(task.index))


def _kind(step: PlanStep, task: TaskState) -> Literal["work", "bid", "reconcile", "undo"]:
    if step.undo:
        return "undo"
    return "reconcile" if task.index >= 0 else "bid" if step.bid else "work"


def carried(work: Work, name: str) -> int:
    """The bytes that an attempt of task `name` would carry if it were given out now. Raises BadExpression."""
    task, now = work.state.tasks[name], work.state.version
    parts = (_items(work, task, now), _facts(work, task, now), _answers(work.state, name), granted(work))
    return sum(len(encode(part)) for part in parts)


def carried_at_most(step: PlanStep) -> int:
    """The bytes that an attempt may carry: a task, or the goal of a child run."""
    return (GOAL_LIMIT if step.team else MESSAGE_LIMIT) - ENVELOPE - (BRIEFING_BYTES if step.plans else 0)


def _items(work: Work, task: TaskState, at: int) -> tuple[Item, ...]:
    if work.step.undo:
        return (_undo(work),)
    return (_case(work, task),) if task.index >= 0 else work.items(work.state.steps[task.step], task.group, at)


def _briefed(work: Work, task: TaskState, contract_at: ContractAt) -> tuple[Item, ...]:
    """The items; of a task that is to propose a plan with what it may be made of."""
    items = _items(work, task, task.read_version)
    if work.step.plans is None:
        return items
    told = {PLANNING: planning(work.step, work.state, task, contract_at)}
    return tuple(Item(item.key, item.input | told) for item in items)


def _facts(work: Work, task: TaskState, at: int) -> dict[str, ReadFact]:
    return {} if task.index >= 0 else work.read_facts(at)


def _case(work: Work, task: TaskState) -> Item:
    """The one item of a task that reconciles: just the values that differ."""
    names = group_tasks(task.step, work.state.steps[task.step], task.group)
    candidates, _ = voices_on(work, work.state, names, task.index)
    key = work.key(task.index)
    return Item(key, {"key": key, "values": conflicting(candidates)})


def _undo(work: Work) -> Item:
    """The one item of a task that undoes an effect."""
    effect = work.state.effects[work.step.undo]
    asked = Undo(work.step.undo, effect.round, effect.tool, effect.arguments)
    return Item(work.key(0), msgspec.to_builtins(asked))


def _receipts(state: State, step: PlanStep, name: str) -> tuple[Receipt, ...]:
    """What was known of the effects of a task, and of the one that it undoes, when it was dispatched."""
    at = state.tasks[name].read_version
    return tuple(
        Receipt(key, one.round, one.done, one.result)
        for key, effect in state.effects.items()
        if effect.task == name or key == step.undo
        for one in effect.outcomes
        if one.version <= at
    )


def reserved_for(task: TaskState) -> Limits:
    """What the attempt in flight may use."""
    return next((one.limits for one in task.open if one.attempt == task.attempt), Limits())


def _answers(state: State, name: str) -> tuple[Answered, ...]:
    """What people said to what earlier attempts of the task asked, in the order of asking. A value is one for whoever
    has the task now; an approval is for who asked, by the contract that it had then."""
    now = Voice(state.tasks[name].specialist, state.tasks[name].contract)
    return tuple(
        Answered(
            gate.ask,
            gate.action,
            Question(ask=gate.ask, schema=gate.schema, action=gate.action).digest,
            gate.by,
            gate.value,
        )
        for gate in state.gates.values()
        if gate.task == name and gate.approved and (gate.schema is not None or now in gate.voices)
    )
