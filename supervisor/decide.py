"""The decision: what one input means for one run.

Pure: no clock, random, I/O, model, set or hash order; time is the larger of the run's time and the input's timestamp.
`decide(state, input, view) -> events`: the same three give the same events on every machine, so supervisors that are
killed, paused or doubled write the same history. The words and limits are those of docs/protocol.md.

Read it from the top: `decide` matches the input, each case ends in `advance`, which takes the run as far as it goes.
"""

from msgspec import Struct

from projections.canonical import State, TaskState, booking, group_span
from schemas import events as e
from schemas.catalogue import View
from schemas.codec import INPUT_EVENTS_LIMIT, VALUE_LIMIT, encode, unstorable
from schemas.expressions import BadExpression
from schemas.goals import Goal
from schemas.inputs import (
    Approve,
    Cancel,
    CapabilityCame,
    ChildEnded,
    Deny,
    Ended,
    Input,
    ParentEnded,
    Progress,
    Started,
    TimerDue,
    ToolCalled,
    Unreadable,
    Wake,
)
from schemas.plans import plan_steps
from schemas.playbooks import Playbook
from schemas.validation import violation
from supervisor import gates
from supervisor.advance import advance
from supervisor.attempts import dispatch, failed, succeeded
from supervisor.draft import Draft
from supervisor.policy import WAITS_LIMIT, awaited, child_code, oversized, substitute, voices

RULES = 2
"""The version of these rules. Raise it with every change that decides a recorded input differently."""
KNOWN_RULES = frozenset({2})
"""The versions that this release can decide by. Runs that older ones decided can be decided again while theirs are
among them: keep what they did under its version, or give it up here, in the open."""
SUPERVISOR = "_supervisor"
"""The client name under which child runs are asked for."""


class Rejected(Struct, frozen=True):
    """The input belongs to no run; it is recorded in `_board` with this reason."""

    reason: str


class NewerRules(Exception):
    """The run is decided by rules that this release does not have; leave it alone."""


def decide(state: State, cause: Input, view: View, rules: int | None = None) -> list[e.Event] | Rejected:
    """The events that `cause` brings about in the run of `state`; none when the run does not await it.

    `view` is the catalogue below the input, `rules` the version of the rules to decide by (None: RULES). Raises
    NewerRules.
    """
    rules = RULES if rules is None else rules
    match cause.body:
        case Unreadable(reason):
            return Rejected(reason)
        case Goal() if not state.goal:
            return _open(state, cause, cause.body, view, rules)
    if not state.goal:
        return Rejected("no goal came before it")
    if state.rules > rules:
        raise NewerRules(f"run {state.run} is decided by rules {state.rules}, this supervisor has {rules}")
    draft = Draft(state, cause, view)
    if state.rules < rules:
        draft.emit(e.RulesChanged, rules=rules)
    before = len(draft.events)
    try:
        _handle(draft, cause)
    except BadExpression as error:
        draft.fail("INVALID_INPUT", str(error))
    return _within_limits(draft, state, cause, rules) if len(draft.events) > before else []


def decide_board(board: State, cause: Input, view: View, reason: str) -> list[e.Event]:
    """The events of `_board` about an input that was rejected."""
    draft = Draft(board, cause, view)
    draft.rejected(cause.address.author, cause.subject, reason)
    return draft.events


def _handle(draft: Draft, cause: Input) -> None:
    author = cause.address.author
    match cause.body:
        case Goal():
            if cause.sha256 != draft.state.goal:
                draft.late(author, "the run has another goal already")
        case Ended() as end:
            _end_of_task(draft, author, end)
        case Started() as started:
            _start_of_task(draft, author, started)
        case Progress() | ToolCalled():
            pass
        case Cancel(reason=reason):
            _cancel(draft, author, reason)
        case Approve() | Deny() as said:
            if gates.answer(draft, author, said):
                advance(draft)
        case TimerDue() | CapabilityCame() | ChildEnded() | ParentEnded() as wake if not draft.state.end:
            _wake(draft, wake)


def _wake(draft: Draft, wake: Wake) -> None:
    match wake:
        case TimerDue(timer=timer, armed=armed):
            _timer_due(draft, timer, armed)
        case CapabilityCame():
            advance(draft)
        case ChildEnded() as child:
            _end_of_child(draft, child)
        case ParentEnded(parent=parent):
            if draft.state.parent and draft.state.parent.run == parent:
                draft.end("CANCELLED", reason=f"the run {parent} that asked for it has ended")


def _cancel(draft: Draft, person: str, reason: str) -> None:
    if draft.state.end:
        draft.late(person, "the run has ended")
    else:
        draft.end("CANCELLED", reason=f"{person}: {reason}" if reason else person)


def _within_limits(draft: Draft, state: State, cause: Input, rules: int) -> list[e.Event]:
    """The events of the draft, or the typed end of a run that outgrew its limits."""
    size = sum(len(encode(event)) for event in draft.events)
    if size > INPUT_EVENTS_LIMIT:
        reason = f"one input would bring about {size} bytes of events; the limit is {INPUT_EVENTS_LIMIT}"
    elif large := oversized(draft.state):
        reason = f"the state would have {large} bytes"
    else:
        return draft.events
    ended = Draft(state, cause, draft.view)
    if state.goal and state.rules < rules:
        ended.emit(e.RulesChanged, rules=rules)
    if isinstance(end := cause.body, Ended):
        ended.late(cause.address.author, reason, end.task, end.execution[:64], end.usage)
    ended.end("FAILED", "BUDGET_EXCEEDED", reason)
    return ended.events


# --- goals ------------------------------------------------------------------------------------------------------------


def _open(state: State, cause: Input, goal: Goal, view: View, rules: int) -> list[e.Event] | Rejected:
    if goal.parent and cause.address.author != SUPERVISOR:
        return Rejected("parent: only the supervisor asks for child runs")
    draft = Draft(state, cause, view)
    seq, playbook = view.playbook(goal.team) or (0, None)
    draft.emit(
        e.RunOpened,
        rules=rules,
        publisher=cause.address.author,
        team=goal.team,
        playbook=seq,
        input=goal.input,
        approve=goal.approve,
        parent=goal.parent and e.Parent(goal.parent.run, goal.parent.task, goal.parent.depth),
    )
    if (size := len(encode(draft.events[0]))) > INPUT_EVENTS_LIMIT:
        return Rejected(f"input: has {size} bytes when written out; the limit is {INPUT_EVENTS_LIMIT}")
    problem = f"team: no playbook {goal.team!r} on this board" if playbook is None else ""
    if playbook and (breach := violation(playbook.input, goal.input)):
        problem = f"input: {breach}"
    if problem or playbook is None:
        if not goal.parent:
            return Rejected(problem)
        draft.fail("INVALID_INPUT", problem)  # its parent waits for the end of the run
        return draft.events
    return _plan(draft, cause, playbook)


def _plan(draft: Draft, cause: Input, playbook: Playbook) -> list[e.Event]:
    opened = draft.state
    draft.emit(
        e.PlanCommitted,
        steps=plan_steps(playbook),
        returns=playbook.returns,
        result=playbook.result,
        parallel=playbook.parallel,
    )
    try:
        advance(draft)
    except BadExpression as error:
        draft.fail("INVALID_INPUT", str(error))
    events = _within_limits(draft, opened, cause, draft.state.rules)
    return events if events is draft.events else [draft.events[0], *events]


# --- observations -----------------------------------------------------------------------------------------------------


def _addressed(draft: Draft, author: str, task: str, attempt: int) -> TaskState | str:
    """The task that an observation speaks of, or why it may not."""
    state = draft.state.tasks.get(task)
    if draft.state.end:
        return "the run has ended"
    if state is None:
        return f"the run has no task {task[:64]!r}"
    if author != state.specialist:
        return f"the task is not with {author}"
    if state.status != "dispatched" or attempt != state.attempt:
        return f"attempt {attempt} of {task} has ended, or was never made"
    return state


def _start_of_task(draft: Draft, author: str, started: Started) -> None:
    task = _addressed(draft, author, started.task, started.attempt)
    if isinstance(task, TaskState) and not task.started and not task.child:
        draft.emit(e.TaskStarted, task=started.task, attempt=started.attempt, execution=started.execution[:64])


def _end_of_task(draft: Draft, author: str, end: Ended) -> None:
    known = draft.state.tasks.get(end.task)
    execution = end.execution[:64]
    if known and booking(author, execution) in known.executions:
        return
    task = _addressed(draft, author, end.task, end.attempt)
    if isinstance(task, str):
        if known and author in {known.specialist, *known.tried}:
            draft.late(author, task, end.task, execution, end.usage)
        else:  # who never had the task has used nothing for it, whatever it says
            draft.late(author, task)
        return
    if task.child:
        draft.late(author, "the task is with a child run", end.task, execution, end.usage)
        return
    code, message = end.code, end.message
    if not code and (problem := _breach(draft, task, end)):
        code, message = "INVALID_OUTPUT", problem
    if code:
        failed(draft, end.task, code, message[:1000], execution, end.usage)
    else:
        succeeded(draft, end.task, execution, end.claims, end.silences, end.usage)
    advance(draft)


def _breach(draft: Draft, task: TaskState, end: Ended) -> str:
    """How an end breaks the contract: its keys are not those of the task, a value is too large or out of schema."""
    work = draft.work(draft.state.step(task.step))
    keys = [work.key(index) for index in group_span(draft.state.steps[task.step], task.group)]
    named = [claim.key for claim in end.claims] + [silence.key for silence in end.silences]
    if sorted(named) != sorted(keys):
        odd = next((key for key in named if key not in keys or named.count(key) > 1), None)
        if odd is None:
            return f"says nothing about {min(key for key in keys if key not in named)!r}"
        return f"names {odd[:200]!r} twice, or the task does not"
    contract = draft.view.contract_at(task.contract)
    for claim in end.claims:
        if reason := unstorable(claim.value):
            return f"the value of {claim.key!r}: {reason}"
        if len(encode(claim.value)) > VALUE_LIMIT:
            return f"the value of {claim.key!r} is over {VALUE_LIMIT} bytes; store it with context.blob()"
        if contract and (problem := violation(contract.output, claim.value)):
            return f"the value of {claim.key!r}: {problem}"
    return ""


# --- wakes ------------------------------------------------------------------------------------------------------------


def _timer_due(draft: Draft, name: str, armed: int) -> None:
    timer = draft.state.timers.get(name)
    if timer is None or timer.armed != armed:
        return
    kind, _, subject = name.partition(".")
    if kind == "gate":
        draft.fail("POLICY_BLOCKED", f"nobody approved {subject!r} within {timer.delay_ms} ms")
        return
    if kind == "await":
        step = draft.state.step(subject)
        if voices(step, draft.view):  # the contract came first, only the wake about it comes later
            advance(draft)
            return
        draft.end("FAILED", "STUCK", f"nobody offered {awaited(step)!r} within {step.await_ms} ms")
        return
    task = draft.state.tasks[subject]
    if task.started or task.child or task.waits + 1 >= WAITS_LIMIT:
        limit = (
            f"{task.work_ms} ms of work" if task.started or task.child else f"{timer.delay_ms} ms, {WAITS_LIMIT} times"
        )
        reason = "not ended" if task.started or task.child else "not begun"
        failed(draft, subject, "TIMEOUT", f"{reason} within {limit}")
    else:
        message = f"nobody began it within {timer.delay_ms} ms"
        draft.emit(e.AttemptFailed, task=subject, attempt=task.attempt, code="TIMEOUT", message=message, lost=False)
        step = draft.state.step(task.step)
        dispatch(draft, subject, substitute(step, draft.state.tasks[subject], draft.view))
    advance(draft)


def _end_of_child(draft: Draft, child: ChildEnded) -> None:
    task = draft.state.tasks.get(child.task)
    if task is None or task.status != "dispatched" or task.child != child.child:
        return
    if child.end in {"DONE", "DEGRADED"}:
        work = draft.work(draft.state.step(task.step))
        keys = [work.key(index) for index in group_span(draft.state.steps[task.step], task.group)]
        claims = tuple(e.Claim(key, child.result) for key in keys)
        lacking = f"child run {child.child} is DEGRADED: {child.reason}"[:1000] if child.end == "DEGRADED" else ""
        succeeded(draft, child.task, child.child, claims, (), child.usage, lacking)
    else:
        code = child_code(child.end, child.code)
        message = f"child run {child.child} ended {child.end} {child.code}: {child.reason}"
        failed(draft, child.task, code, message[:1000], child.child, child.usage)
    advance(draft)
