"""Going on: how far a run goes without another input. Steps become tasks, tasks are given out, the result ends the run.

Pure.
"""

from collections import Counter

from projections.canonical import State, task_id
from schemas import events as e
from schemas.codec import VALUE_LIMIT, encode
from schemas.expressions import BadExpression, produce, truth
from schemas.playbooks import TASKS_LIMIT
from schemas.steps import PlanStep
from schemas.validation import violation
from supervisor import gates
from supervisor.attempts import give
from supervisor.documents import Work, document
from supervisor.draft import Draft
from supervisor.facts import decided, holder_of, lack
from supervisor.loops import is_asking
from supervisor.messages import carried_at_most
from supervisor.policy import awaited, chosen
from supervisor.reasons import for_want_of_facts, missing, nobody_chosen, nothing_computed, skipped

DEADLINE = "run.deadline"
"""The timer of the run as a whole."""
ITEMS_LIMIT = 1_000
"""Items of one task: the facts of more would not fit into what one input may bring about."""


def advance(draft: Draft) -> None:
    """Take the run as far as it goes without another input: expand, dispatch, finish.

    Raises BadExpression where the playbook asks for what the run does not have, PolicyMissing.
    """
    if draft.state.over:
        return
    gates.renew(draft)
    if is_asking(draft):
        return
    going = True
    while going:
        _begin_ready(draft)
        gates.renew(draft)
        going = _dispatch_waiting(draft)
    if not draft.state.over and all(step.over for step in draft.state.steps.values()):
        _finish(draft)
    if not draft.state.over and not draft.state.in_flight and not _is_waiting(draft.state):
        draft.end("FAILED", "STUCK", "no task is in flight and no timer is set")


def _decided(state: State) -> int:
    """Keys that are decided, with a value or without."""
    return len(state.facts) + len(state.missing) + state.replaced


def _begin_ready(draft: Draft) -> None:
    tried: set[str] = set()
    while not draft.state.over and (step := _next_ready(draft, tried)):
        tried.add(step.id)
        _expand(draft, step)


def _is_waiting(state: State) -> bool:
    """Whether something but the deadline of the run is awaited."""
    return any(name != DEADLINE for name in state.timers)


def _next_ready(draft: Draft, tried: set[str]) -> PlanStep | None:
    """The next step that can begin now, in the order of the plan; one that asks a person waits for the answer and for
    nothing else. A step that becomes a fact at once may make ready what stands before it."""
    steps, asking = draft.state.steps, draft.state.open_gates
    for step in draft.state.plan:
        begun = steps[step.id].over or steps[step.id].items >= 0
        if begun or step.id in tried or step.id in asking:
            continue
        if all(steps[need].over for need in step.needs):
            return step
    return None


def _expand(draft: Draft, step: PlanStep) -> None:
    """A step whose needs are decided becomes tasks or facts, is skipped, or waits: for somebody who offers what it asks
    for, or for a person. One whose expressions cannot be evaluated ends the run."""
    try:
        work = draft.work(step)
        if step.when and not truth(work.holds()):
            draft.emit(e.StepSkipped, step=step.id, reason=skipped(draft.state, step))
        elif problem := _too_much(step, work):
            draft.end("FAILED", "BUDGET_EXCEEDED", problem)
        elif problem := _taken(draft, step, work):
            draft.fail("INVALID_INPUT", problem)
        else:
            _begin(draft, step, work)
    except BadExpression as error:
        draft.fail(*for_want_of_facts(draft.state, step, "INVALID_INPUT", str(error)))


def _begin(draft: Draft, step: PlanStep, work: Work) -> None:
    if step.question:
        gates.ask(draft, step, work)
        return
    if step.value:
        _compute(draft, step, work)
        return
    who = chosen(work, draft.state, draft.view)
    if who.nobody:
        reason = nobody_chosen(draft.state, step)
        _without_tasks(draft, step, work)
        for index in range(len(work)):
            if not draft.state.over:
                lack(draft, step, work.key(index), *reason)
        return
    if not who.voices and len(work) and not gates.approved(draft, step):
        if not draft.state.steps[step.id].awaiting:
            draft.emit(e.CapabilityAwaited, step=step.id, capability=_awaited(step, work), delay_ms=step.await_ms)
        return
    doing = gates.passes(draft, step, work, who)
    if doing is None:
        return
    if len(draft.state.tasks) + (tasks := _groups(step, work) * len(doing.voices)) > TASKS_LIMIT:
        draft.end("FAILED", "BUDGET_EXCEEDED", f"step {step.id!r} needs {tasks} tasks; a run has {TASKS_LIMIT} at most")
        return
    draft.emit(
        e.StepExpanded,
        step=step.id,
        items=len(work),
        per_task=_per_task(step, work),
        voices=doing.voices,
        fallback=doing.fallback,
    )
    if size := _too_large(draft, step, work):
        draft.end("FAILED", "BUDGET_EXCEEDED", f"a task of step {step.id!r} would have {size} bytes of input and facts")


def _awaited(step: PlanStep, work: Work) -> str:
    """What a step waits for; of those whom a route names the first choice."""
    return f"{step.capability}@{work.route()[0]}" if step.route else awaited(step)


def _per_task(step: PlanStep, work: Work) -> int:
    return 1 if step.team else max(1, -(-len(work) // step.tasks))


def _groups(step: PlanStep, work: Work) -> int:
    return -(-len(work) // _per_task(step, work))


def _too_much(step: PlanStep, work: Work) -> str:
    """Why a step has more items than a run can have, else an empty text."""
    per_task = len(work) if step.value else _per_task(step, work)
    if per_task > ITEMS_LIMIT:
        return f"a task of step {step.id!r} has {per_task} items, {ITEMS_LIMIT} at most"
    return ""


def _taken(draft: Draft, step: PlanStep, work: Work) -> str:
    """Why the keys of a step cannot be its own, else an empty text."""
    keys, state = work.keys(), draft.state
    taken = sorted(key for key in keys if holder_of(state, key))
    if taken and not step.replaces:
        return f"step {step.id!r} names the key {taken[0]!r}, which another step has decided"
    if len(set(keys)) < len(keys):
        twice = min(key for key, count in Counter(keys).items() if count > 1)
        return f"step {step.id!r} names a key twice: {twice!r}"
    return ""


def _compute(draft: Draft, step: PlanStep, work: Work) -> None:
    """A step that is an expression is decided at once. One that cannot be evaluated, as it may be where facts are
    missing, has no value."""
    _without_tasks(draft, step, work)
    for index, key in enumerate(work.keys()):
        if draft.state.over:
            return
        try:
            value = work.value(index)
        except BadExpression as error:
            lack(draft, step, key, *for_want_of_facts(draft.state, step, "INVALID_INPUT", str(error)))
            continue
        if value is None:
            lack(draft, step, key, *nothing_computed(draft.state, step))
        else:
            decided(draft, step, key, value, "", "value", work.taint())


def answered(draft: Draft, gate: str) -> None:
    """The answer of a person becomes the fact of the step that asked; a denial is no value."""
    step, said = draft.state.step(gate), draft.state.gates[gate]
    work = draft.work(step)
    _without_tasks(draft, step, work)
    if said.approved:
        decided(draft, step, work.key(0), said.value, said.by, "answer")
    else:
        lack(draft, step, work.key(0), "POLICY_BLOCKED", f"{said.by} did not answer")


def unanswered(draft: Draft, gate: str, reason: str) -> None:
    """Nobody answered a step in time."""
    step = draft.state.step(gate)
    work = draft.work(step)
    _without_tasks(draft, step, work)
    lack(draft, step, work.key(0), "POLICY_BLOCKED", reason)


def _without_tasks(draft: Draft, step: PlanStep, work: Work) -> None:
    draft.emit(e.StepExpanded, step=step.id, items=len(work), per_task=max(1, len(work)), voices=())


def _too_large(draft: Draft, step: PlanStep, work: Work) -> int:
    """The bytes of the first task message that is over its limit, else 0. Raises BadExpression: what cannot be
    evaluated must show now, and not when the task is put into the queue."""
    state = draft.state.steps[step.id]
    facts = len(encode(work.read_facts()))
    for group in range(-(-state.items // state.per_task)):
        size = facts + len(encode(work.items(state, group)))
        if size > carried_at_most(step):
            return size
    return 0


def _dispatch_waiting(draft: Draft) -> bool:
    """Give out what waits; whether a key was decided by that, because its task can never be given out, so that other
    steps may begin."""
    before = _decided(draft.state)
    _give_in_turn(draft)
    return _decided(draft.state) > before


def _give_in_turn(draft: Draft) -> None:
    """First what had a turn already, then what is planned, in the order of the plan, while the run has less than
    `parallel` in flight and its budget allows the next one."""
    for name in draft.state.ready:
        if not _has_room(draft) or not give(draft, name):
            return
    for step in draft.state.plan:
        while _has_room(draft) and (state := draft.state.steps[step.id]).dispatched < state.tasks:
            if not give(draft, task_id(step.id, state, state.dispatched)):
                return


def _has_room(draft: Draft) -> bool:
    return not draft.state.over and draft.state.in_flight < draft.state.parallel


def _finish(draft: Draft) -> None:
    """All steps are over: the result, if it satisfies its schema, ends the run."""
    state = draft.state
    scope = document(state)
    try:
        result = {name: produce(expression, scope) for name, expression in state.returns.items()}
    except BadExpression as error:
        draft.fail(*for_want_of_facts(state, None, "INVALID_INPUT", str(error)))
        return
    if problem := violation(state.result_schema, result):
        broken = f"the result breaks its schema: {problem}"
        draft.fail(*for_want_of_facts(state, None, "INVALID_OUTPUT", broken))
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
    bids = {step.id for step in state.plan if step.bid}
    revised = {name for name, step in state.steps.items() if step.revised}
    voices_gone = [
        f"{voice.by} on {key} ({voice.code})"
        for key, fact in sorted(state.facts.items())
        for voice in fact.declined
        if voice.code not in silent[fact.step] and fact.step not in revised and fact.step not in bids
    ]
    children = [
        f"{name} ({task.message})"
        for name, task in sorted(state.tasks.items())
        if task.child and task.message and not task.code
    ]
    unknown = [f"knowing whether {one.tool} of {one.task} was done" for one in state.effects.values() if one.unknown]
    gone = [f"{key} ({one.code})" for key, one in missing(state).items()]
    return gone + voices_gone + children + unknown
