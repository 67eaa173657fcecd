"""Going on: how far a run goes without another input. Steps become tasks, tasks are given out, the result ends the run.

Pure.
"""

from collections import Counter

from projections.canonical import State, task_id
from schemas import events as e
from schemas.codec import MESSAGE_LIMIT, VALUE_LIMIT, encode
from schemas.expressions import BadExpression, produce, truth
from schemas.goals import GOAL_LIMIT
from schemas.playbooks import TASKS_LIMIT
from schemas.steps import PlanStep, Voice
from schemas.validation import violation
from supervisor.attempts import dispatch
from supervisor.documents import Work, document
from supervisor.draft import Draft
from supervisor.gates import passes
from supervisor.policy import awaited, voices

ITEMS_LIMIT = 1_000
"""Items of one task: the facts of more would not fit into what one input may bring about."""
ENVELOPE = 1_024
"""Bytes of a task message or a child's goal beside its input and facts, at most."""


def advance(draft: Draft) -> None:
    """Take the run as far as it goes without another input: expand, dispatch, finish.

    Raises BadExpression where the playbook asks for what the run does not have.
    """
    if draft.state.end:
        return
    for step in draft.state.plan:
        if not draft.state.end and _ready(draft, step):
            _expand(draft, step)
    _dispatch_planned(draft)
    if not draft.state.end and all(step.over for step in draft.state.steps.values()):
        _finish(draft)
    if not draft.state.end and not draft.state.in_flight and not draft.state.timers:
        draft.end("FAILED", "STUCK", "no task is in flight and no timer is set")


def _ready(draft: Draft, step: PlanStep) -> bool:
    """Whether the step can begin now; one that asks a person waits for the answer and for nothing else."""
    steps = draft.state.steps
    begun = steps[step.id].over or steps[step.id].items >= 0
    return not begun and step.id not in draft.state.open_gates and all(steps[need].over for need in step.needs)


def _expand(draft: Draft, step: PlanStep) -> None:
    """A step whose needs are decided becomes tasks, is skipped, or waits for somebody who offers what it asks for."""
    work = draft.work(step)
    if step.when and not truth(work.holds()):
        draft.emit(e.StepSkipped, step=step.id, reason=f"{step.when} is not true")
        return
    taking_part = voices(step, draft.view)
    if not taking_part and len(work):
        if not draft.state.steps[step.id].awaiting:
            draft.emit(e.CapabilityAwaited, step=step.id, capability=awaited(step), delay_ms=step.await_ms)
        return
    keys = work.keys()
    if doubled := sorted(key for key in keys if key in draft.state.facts or key in draft.state.missing):
        raise BadExpression(f"step {step.id!r} names the key {doubled[0]!r}, which another step has decided")
    if len(set(keys)) < len(keys):
        twice = min(key for key, count in Counter(keys).items() if count > 1)
        raise BadExpression(f"step {step.id!r} names a key twice: {twice!r}")
    per_task = 1 if step.team else max(1, -(-len(work) // step.tasks))
    tasks = -(-len(work) // per_task) * len(taking_part)
    if per_task > ITEMS_LIMIT:
        draft.end(
            "FAILED", "BUDGET_EXCEEDED", f"a task of step {step.id!r} has {per_task} items, {ITEMS_LIMIT} at most"
        )
        return
    if len(draft.state.tasks) + tasks > TASKS_LIMIT:
        draft.end("FAILED", "BUDGET_EXCEEDED", f"step {step.id!r} needs {tasks} tasks; a run has {TASKS_LIMIT} at most")
        return
    if not passes(draft, step, work):
        return
    draft.emit(e.StepExpanded, step=step.id, items=len(work), per_task=per_task, voices=tuple(taking_part))
    if size := _too_large(draft, step, work):
        draft.end("FAILED", "BUDGET_EXCEEDED", f"a task of step {step.id!r} would have {size} bytes of input and facts")


def _too_large(draft: Draft, step: PlanStep, work: Work) -> int:
    """The bytes of the first task message that is over its limit, else 0. Raises BadExpression: what cannot be
    evaluated must show now, and not when the task is put into the queue."""
    limit = (GOAL_LIMIT if step.team else MESSAGE_LIMIT) - ENVELOPE
    state = draft.state.steps[step.id]
    facts = len(encode(work.read_facts()))
    for group in range(-(-state.items // state.per_task)):
        size = facts + len(encode(work.items(state, group)))
        if size > limit:
            return size
    return 0


def _dispatch_planned(draft: Draft) -> None:
    """Give out planned tasks, in the order of the plan, while the run has less than `parallel` in flight."""
    for step in draft.state.plan:
        state = draft.state.steps[step.id]
        for index in range(state.dispatched, max(state.tasks, 0)):
            if draft.state.end or draft.state.in_flight >= draft.state.parallel:
                return
            name = task_id(step.id, state, index)
            task = draft.state.tasks[name]
            dispatch(draft, name, Voice(task.specialist, task.contract))


def _finish(draft: Draft) -> None:
    """All steps are over: the result, if it satisfies its schema, ends the run."""
    state = draft.state
    scope = document(state)
    result = {name: produce(expression, scope) for name, expression in state.returns.items()}
    if problem := violation(state.result_schema, result):
        draft.end("FAILED", "INVALID_OUTPUT", f"the result breaks its schema: {problem}")
    elif len(encode(result)) > VALUE_LIMIT:
        draft.end("FAILED", "BUDGET_EXCEEDED", f"the result is over {VALUE_LIMIT} bytes; return a blob")
    elif lacking := _lacking(state):
        draft.end(
            "DEGRADED", reason=f"without {', '.join(lacking[:5])}" + (" …" if len(lacking) > 5 else ""), result=result
        )
    else:
        draft.end("DONE", result=result)


def _lacking(state: State) -> list[str]:
    """What a degraded result lacks: keys without a value, voices that failed, by key, and what child runs lack."""
    silent = {step.id: step.silent for step in state.plan}
    voices_gone = [
        f"{voice.by} on {key} ({voice.code})"
        for key, fact in sorted(state.facts.items())
        for voice in fact.declined
        if voice.code not in silent[fact.step]
    ]
    children = [
        f"{name} ({task.message})" for name, task in sorted(state.tasks.items()) if task.message and not task.code
    ]
    return [f"{key} ({missing.code})" for key, missing in sorted(state.missing.items())] + voices_gone + children
