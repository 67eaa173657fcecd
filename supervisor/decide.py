"""The decision: what one input means for one run.

Pure: no clock, random, I/O, model, set or hash order; time is the larger of the run's time and the input's timestamp.
`decide(state, input, view) -> events`: the same three give the same events on every machine, so supervisors that are
killed, paused or doubled write the same history. The words and limits are those of docs/protocol.md.

Read it from the top: `decide` matches the input, each case ends in `advance`, which takes the run as far as it goes.
"""

from msgspec import UNSET, Struct
from msgspec.structs import replace

from projections.canonical import State, TaskState, booking
from schemas import events as e
from schemas.catalogue import View
from schemas.codec import INPUT_EVENTS_LIMIT, STATE_LIMIT
from schemas.expressions import BadExpression
from schemas.goals import Goal
from schemas.inputs import (
    Answer,
    Approve,
    Cancel,
    CapabilityCame,
    ChildEnded,
    Deny,
    EffectIntended,
    EffectReceipt,
    Ended,
    Input,
    ModelCalled,
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
from schemas.subjects import SUPERVISOR
from schemas.taint import joined
from schemas.usage import Limits, Usage
from schemas.validation import violation
from supervisor import intents, loops, questions, undoing
from supervisor.advance import advance
from supervisor.attempts import failed, give_or_wait, handed_on, never_begun, stale, succeeded
from supervisor.breaches import breach, keys_of
from supervisor.draft import Draft
from supervisor.policy import WAITS_LIMIT, child_code, chosen, least, oversized, refused
from supervisor.settle import to_ask_again

RULES = 3
"""The version of these rules. Raise it with every change that decides a recorded input differently."""
KNOWN_RULES = frozenset({2, 3})
"""The versions that this release can decide by. Runs that older ones decided can be decided again while theirs are
among them: keep what they did under its version, or give it up here, in the open."""


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
        undoing.go_on(draft)
    except BadExpression as error:
        _book(draft, cause, str(error))
        if (ending := draft.state.ending) and state.ending:
            draft.end_at_once(ending.end, ending.code, f"{ending.reason}; nothing more is undone: {error}")
        else:
            draft.fail("INVALID_INPUT", str(error))
            undoing.go_on(draft)
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
        case ToolCalled() as called:
            _tool_called(draft, author, called)
        case Progress() | ModelCalled():
            pass
        case EffectIntended() | EffectReceipt() as said:
            intents.heard(draft, author, said)
        case Cancel(reason=reason):
            _cancel(draft, author, reason)
        case Approve() | Deny() | Answer() as answer:
            if questions.answered(draft, author, answer):
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
    if draft.state.over:
        draft.late(person, "the run has ended" if draft.state.end else "the run is ending already")
    else:
        draft.end("CANCELLED", reason=f"{person}: {reason}" if reason else person)


def _within_limits(draft: Draft, state: State, cause: Input, rules: int) -> list[e.Event]:
    """The events of the draft, or the typed end of a run that outgrew its limits."""
    size = draft.size
    if state.end:  # what comes after the end is late, and of that an author has only so much
        return draft.events
    if size > INPUT_EVENTS_LIMIT:
        reason = f"one input would bring about {size} bytes of events; the limit is {INPUT_EVENTS_LIMIT}"
    elif large := oversized(draft.state, grown=draft.state.version - state.version, size=size):
        reason = f"the state would have {large} bytes; the limit is {STATE_LIMIT}"
    else:
        return draft.events
    ended = Draft(state, cause, draft.view)
    if state.goal and state.rules < rules:
        ended.emit(e.RulesChanged, rules=rules)
    _book(ended, cause, reason)
    if state.ending:
        ended.end_at_once(
            state.ending.end, state.ending.code, f"{state.ending.reason}; nothing more is undone: {reason}"
        )
    else:
        ended.end("FAILED", "BUDGET_EXCEEDED", reason)
        undoing.go_on(ended)
    return ended.events


def _book(draft: Draft, cause: Input, reason: str) -> None:
    """Book what an end reports, though the run ends before it can take it."""
    end, author = cause.body, cause.address.author
    if isinstance(end, EffectIntended):
        intents.heard(draft, author, replace(end, arguments=None))
    elif isinstance(end, EffectReceipt):
        intents.heard(draft, author, replace(end, result=None))
    elif isinstance(end, Ended):
        task = draft.state.tasks.get(end.task)
        if task is None or booking(author, end.execution[:64]) not in task.executions:
            draft.late(author, reason, end)
    elif isinstance(end, ChildEnded) and (task := _awaits(draft, end)):
        if not any(isinstance(event, e.ShareKept) for event in draft.events):
            _keep_share(draft, end, task)
        draft.child_late(task, end, reason)


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
        grant=goal.grant.grant() if goal.grant else UNSET,
        taint=joined(goal.taint or ()) or UNSET,
    )
    if draft.size > INPUT_EVENTS_LIMIT:
        return Rejected(f"input: has {draft.size} bytes when written out; the limit is {INPUT_EVENTS_LIMIT}")
    problem = f"team: no playbook {goal.team!r} on this board" if playbook is None else ""
    if playbook and (breach := violation(playbook.input, goal.input)):
        problem = f"input: {breach}"
    if problem or playbook is None:
        if not goal.parent:
            return Rejected(problem)
        draft.fail("INVALID_INPUT", problem)  # its parent waits for the end of the run
        return draft.events
    return _plan(draft, cause, goal, playbook)


def _plan(draft: Draft, cause: Input, goal: Goal, playbook: Playbook) -> list[e.Event]:
    opened = draft.state
    draft.emit(
        e.PlanCommitted,
        steps=plan_steps(playbook),
        returns=playbook.returns,
        result=playbook.result,
        parallel=playbook.parallel,
        budget=least(playbook.budget.limits(), goal.budget.limits()),
        deadline_ms=_deadline_ms(playbook, goal),
        breaker=playbook.breaker,
        repeats=playbook.repeats,
        on_loop=playbook.on_loop,
    )
    try:
        advance(draft)
    except BadExpression as error:
        draft.fail("INVALID_INPUT", str(error))
    events = _within_limits(draft, opened, cause, draft.state.rules)
    return events if events is draft.events else [draft.events[0], *events]


def _deadline_ms(playbook: Playbook, goal: Goal) -> int:
    """The smaller one; 0 where neither sets one."""
    limits_s = [limit_s for limit_s in (playbook.deadline_s, goal.deadline_s) if limit_s is not None]
    return max(1, round(1000 * min(limits_s))) if limits_s else 0


# --- observations -----------------------------------------------------------------------------------------------------


def _addressed(draft: Draft, author: str, task: str, attempt: int) -> TaskState | str:
    """The task that an observation speaks of, or why it may not."""
    state = draft.state.tasks.get(task)
    if draft.state.end:
        return "the run has ended"
    if state is not None and draft.over(draft.state.step(state.step)):
        return "the run is ending"
    if state is None:
        return f"the run has no task {task[:64]!r}"
    if author != state.specialist:
        return f"the task is not with {author}"
    if state.status != "dispatched" or attempt != state.attempt:
        return f"attempt {attempt} of {task} has ended, or was never made"
    return state


def _start_of_task(draft: Draft, author: str, started: Started) -> None:
    task = _addressed(draft, author, started.task, started.attempt)
    if isinstance(task, TaskState) and not task.started and not task.child and not draft.state.step(task.step).bid:
        draft.emit(e.TaskStarted, task=started.task, attempt=started.attempt, execution=started.execution[:64])


def _end_of_task(draft: Draft, author: str, end: Ended) -> None:
    known = draft.state.tasks.get(end.task)
    execution = end.execution[:64]
    if known and booking(author, execution) in known.executions:
        return
    task = _addressed(draft, author, end.task, end.attempt)
    if isinstance(task, str):
        draft.late(author, task, end)
        if known and author == known.specialist and end.attempt == known.attempt:
            _hear_out(draft, end.task, known)
        return
    if task.child:
        draft.late(author, "the task is with a child run", end)
        return
    code, message = end.code, end.message[:1000]
    if problem := breach(draft, task, end):
        code, message = problem
    match code:
        case "":
            _result(draft, end.task, end.execution[:64], end.claims, end.silences, end.usage)
        case "NEEDS_INPUT" | "EFFECT_UNKNOWN":
            questions.asked(draft, task, end)
        case "HANDED_OFF":
            handed_on(draft, end.task, end.to, message, execution, end.usage)
        case _:
            failed(draft, end.task, code, message, execution, end.usage)
    advance(draft)


def _hear_out(draft: Draft, name: str, task: TaskState) -> None:
    if undoing.awaits(draft.state, name, task):
        undoing.heard_out(draft, name, "the run is ending")


def _result(
    draft: Draft,
    name: str,
    execution: str,
    claims: tuple[e.Claim, ...],
    silences: tuple[e.Silence, ...],
    usage: Usage,
    lacking: str = "",
) -> None:
    task = draft.state.tasks[name]
    if keys := to_ask_again(draft, draft.state.step(task.step), task):
        stale(draft, name, keys, execution, usage)
    else:
        succeeded(draft, name, execution, claims, silences, usage, lacking)


def _tool_called(draft: Draft, author: str, called: ToolCalled) -> None:
    task = _addressed(draft, author, called.task, called.attempt)
    if isinstance(task, TaskState) and not task.child:
        loops.tool_failed(draft, task, called)


# --- wakes ------------------------------------------------------------------------------------------------------------


def _timer_due(draft: Draft, name: str, armed: int) -> None:
    timer = draft.state.timers.get(name)
    if timer is None or timer.armed != armed:
        return
    kind, _, subject = name.partition(".")
    match kind:
        case "run":
            draft.end("FAILED_RETRYABLE", "TIMEOUT", f"the run has not ended within {timer.delay_ms} ms")
        case "gate":
            questions.expired(draft, subject, timer.delay_ms)
        case "await":
            step, awaiting = draft.state.step(subject), draft.state.steps[subject].awaiting
            who = chosen(draft.work(step), draft.state, draft.view)
            if not who.voices and not who.nobody:  # else the contract came first, only the wake about it comes later
                others = refused(step, draft.view)
                reason = f"nobody offered {awaiting!r} within {step.await_ms} ms{': ' if others else ''}{others}"
                draft.end("FAILED", "STUCK", reason)
        case "retry":
            give_or_wait(draft, subject)
        case _:
            _task_timed_out(draft, subject, timer.delay_ms)
    advance(draft)


def _task_timed_out(draft: Draft, name: str, delay_ms: int) -> None:
    task = draft.state.tasks[name]
    if undoing.awaits(draft.state, name, task):
        undoing.heard_out(draft, name, f"not heard of within {delay_ms} ms, and the run is ending")
    elif task.started or task.child:
        failed(draft, name, "TIMEOUT", f"not ended within {task.work_ms} ms of work")
    elif draft.state.step(task.step).bid:
        failed(draft, name, "TIMEOUT", f"no bid within {delay_ms} ms")
    elif task.waits + 1 >= WAITS_LIMIT:
        failed(draft, name, "TIMEOUT", f"not begun within {delay_ms} ms, {WAITS_LIMIT} times")
    else:
        never_begun(draft, name, delay_ms)


def _awaits(draft: Draft, child: ChildEnded) -> TaskState | None:
    """The task that waits for the end of this child run."""
    task = draft.state.tasks.get(child.task)
    return task if task and task.status == "dispatched" and task.child == child.child else None


def _keep_share(draft: Draft, child: ChildEnded, task: TaskState) -> None:
    """What attempts of the child run may still use, nobody else gets."""
    if child.held != Limits() and draft.state.budget != Limits():
        draft.emit(e.ShareKept, task=child.task, attempt=task.attempt, held=child.held)


def _end_of_child(draft: Draft, child: ChildEnded) -> None:
    task = _awaits(draft, child)
    if task is None:
        return
    _keep_share(draft, child, task)
    if child.end in {"DONE", "DEGRADED"}:
        claims = tuple(e.Claim(key, child.result, taint=child.taint or ()) for key in keys_of(draft, task))
        lacking = f"child run {child.child} is DEGRADED: {child.reason}"[:1000] if child.end == "DEGRADED" else ""
        _result(draft, child.task, child.child, claims, (), child.usage, lacking)
    else:
        code = child_code(child.end, child.code)
        message = f"child run {child.child} ended {child.end} {child.code}: {child.reason}"
        failed(draft, child.task, code, message[:1000], child.child, child.usage)
    advance(draft)
