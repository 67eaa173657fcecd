"""What holds for each run: which ends were accepted, what was booked, and what its state is at every version.

Written from docs/protocol.md and not from the supervisor's code, so that the two can differ.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from blackboard.simulation.parts import Broken, History
from schemas import events as e
from schemas import events_of_effects as f
from schemas.inputs import ChildEnded, Ended
from schemas.usage import Amount, Limits, Usage, amount

LATE_LIMIT = 100
"""Late inputs of an author that a run records; what is used after that is booked to nobody, unless it was awaited."""
DIMENSIONS = ("tokens", "tool_calls", "micro_usd")
AFTER_THE_END = (e.InputLate, e.AuthorMuted, e.RulesChanged, f.EffectIntended, f.EffectReceipt)

EndOfAttempt = e.AttemptFailed | e.AttemptStale | e.TaskEnded


# --- states -----------------------------------------------------------------------------------------------------------


def state_at_each_event(state: Any) -> Iterator[Broken]:
    """Of the budget no more is charged and reserved than there is; what was reported is what was charged and what went
    beyond it; no more is in flight than the playbook lets."""
    where = f"run {state.run} at version {state.version}"
    for name in DIMENSIONS:
        limit, charged, reserved = (getattr(one, name) for one in (state.budget, state.charged, state.reserved))
        if limit is not None and charged + reserved > limit:
            yield Broken("charged and reserved are within the budget", f"{where}: {charged} + {reserved} > {limit}")
        if reserved < 0:
            yield Broken("charged and reserved are within the budget", f"{where}: {reserved} {name} are reserved")
    if amount(state.usage) != state.charged + state.overrun:
        sums = f"{state.charged} + {state.overrun}"
        yield Broken("what was reported is charged or overrun", f"{where}: {state.usage} is not {sums}")
    if state.plan and state.in_flight > state.parallel:
        yield Broken("no more is in flight than may be", f"{where}: {state.in_flight} over {state.parallel}")


def state_at_rest(state: Any) -> Iterator[Broken]:
    """After all that an input brings about: a run that goes on waits for something, one that has ended for nothing;
    what is in flight and reserved is what its tasks say."""
    where = f"run {state.run} at version {state.version}"
    dispatched = [task for task in state.tasks.values() if task.status == "dispatched"]
    if state.end:
        if state.timers:
            yield Broken("what has ended waits for nothing", f"{where}: {', '.join(state.timers)}")
    elif state.goal:
        if state.in_flight != len(dispatched):
            yield Broken("what is in flight is counted", f"{where}: {state.in_flight}, tasks say {len(dispatched)}")
        if not state.in_flight and not any(name != "run.deadline" for name in state.timers):
            yield Broken("a run that goes on waits for something", where)
    reserved = sum((_set_aside(state, one.limits) for task in state.tasks.values() for one in task.open), Amount())
    if reserved != state.reserved:
        yield Broken("what is reserved is what attempts hold", f"{where}: {state.reserved}, attempts {reserved}")


def _set_aside(state: Any, limits: Limits) -> Amount:
    """What a reservation takes up of the budget: nothing where the run has none."""
    return Amount(*(getattr(limits, n) or 0 if getattr(state.budget, n) is not None else 0 for n in DIMENSIONS))


# --- ends -------------------------------------------------------------------------------------------------------------


class _Attempt(NamedTuple):
    number: int
    specialist: str
    child: str
    ended: bool


def attempts_end_once(run: str, history: History) -> Iterator[Broken]:
    """No attempt is accepted twice, and what is accepted is the end of the attempt that was dispatched, from whom it
    was dispatched to."""
    attempts: dict[str, _Attempt] = {}
    for event in history.events:
        match event:
            case e.TaskDispatched(task=task, attempt=number):
                known = attempts.get(task)
                if known and not known.ended:
                    yield Broken("one attempt at a time", f"run {run}: {task} is dispatched again in mid-attempt")
                attempts[task] = _Attempt(number, event.specialist, event.child, ended=False)
            case e.AttemptFailed(task=task) | e.AttemptStale(task=task) | e.TaskEnded(task=task):
                known = attempts.get(task)
                if known and not known.ended and event.attempt == known.number:
                    attempts[task] = known._replace(ended=True)
                    if problem := _wrong_end(history, known, event):
                        yield Broken("ends are those that were awaited", f"run {run}: {task}: {problem}")
                elif known and known.ended and isinstance(event, e.AttemptStale) and not event.execution:
                    pass  # facts have changed since: it is asked again before its group is settled
                elif not isinstance(event, e.TaskEnded) or not event.code or event.execution:
                    yield Broken("no attempt is accepted twice", f"run {run}: {task}, attempt {event.attempt}")
            case e.TaskDropped(task=task) if task in attempts:
                attempts[task] = attempts[task]._replace(ended=True)


def facts_are_claimed(run: str, history: History) -> Iterator[Broken]:
    """Facts come from accepted ends alone, and nothing is decided after the end of the run."""
    accepted: dict[str, e.TaskEnded] = {}
    ended_by: set[int] = set()
    over = False
    for event in history.events:
        if over and not isinstance(event, AFTER_THE_END):
            yield Broken("nothing follows the end", f"run {run}: {type(event).__name__} after it has ended")
        match event:
            case e.TaskEnded(task=task):
                accepted[task] = event
                ended_by.add(event.cause.seq)
            case e.FactCommitted():
                if problem := _wrong_fact(history, accepted, ended_by, event):
                    yield Broken("facts are claims of accepted ends", f"run {run}: {event.key}: {problem}")
            case e.RunEnded():
                over = True


def _wrong_end(history: History, attempt: _Attempt, event: EndOfAttempt) -> str:
    """Why an attempt may not end by this event, by what is said of the input that it cites."""
    author, body = history.inputs.get(event.cause.seq, ("", None))
    if isinstance(body, Ended) and (body.task, body.attempt) == (event.task, event.attempt):
        if author != attempt.specialist or attempt.child:
            return f"ended by {author}, it was with {attempt.specialist or attempt.child}"
        if isinstance(event, e.TaskEnded) and not event.code and event.claims != body.claims:
            return "other claims than in the observation"
        if event.usage != body.usage:
            return f"usage {event.usage}, the observation says {body.usage}"
        return ""
    if event.execution and not attempt.child:
        return f"names execution {event.execution}, and cites no end of this attempt"
    if isinstance(event, e.TaskEnded) and event.claims and not attempt.child:
        return "holds claims, and cites no end of this attempt"
    return ""


def _wrong_fact(history: History, accepted: dict[str, e.TaskEnded], ended_by: set[int], fact: e.FactCommitted) -> str:
    """Why a fact may not be: its value, or that of a loser, was claimed by nobody whose end was accepted."""
    _, body = history.inputs.get(fact.cause.seq, ("", None))
    if isinstance(body, Ended) and fact.cause.seq not in ended_by and fact.task:
        return f"its cause, input {fact.cause.seq}, ended no task"
    claims = [(loser.task, loser.value) for loser in fact.losers]
    for task, value in [(fact.task, fact.value), *claims] if fact.task else claims:
        end = accepted.get(task)
        if end is None or end.code or not any(one.key == fact.key and one.value == value for one in end.claims):
            return f"no accepted end of {task} claims {str(value)[:100]}"
    return ""


# --- usage ------------------------------------------------------------------------------------------------------------


def booked_usage(run: str, history: History) -> Iterator[Broken]:
    """What the run has booked is what distinct executions have reported, once each."""
    expected = sum(_booked(history), Usage())
    usage = history.folded.state.usage
    if usage != expected:
        yield Broken("usage is counted once an execution", f"run {run}: {usage}, executions reported {expected}")


class _Had:
    """Who has had a task, by the events of a run."""

    def __init__(self) -> None:
        self.now: dict[str, str] = {}
        self.before: dict[str, set[str]] = {}
        self._made: set[str] = set()

    def by(self, task: str, specialist: str) -> bool:
        return self.now.get(task) == specialist or specialist in self.before.get(task, ())

    def add(self, event: e.Event) -> None:
        match event:
            case e.StepExpanded(step=step, voices=voices):
                count = -(-event.items // event.per_task) * len(voices)
                for number in range(count):
                    self.now[step if count == 1 else f"{step}-{number}"] = voices[number % len(voices)].specialist
            case e.ConflictFound(task=task, specialist=specialist):
                self.now[task] = specialist
            case e.TaskDispatched(task=task, specialist=specialist):
                if task in self._made and self.now[task] != specialist:
                    self._left(task)
                self.now[task] = specialist
                self._made.add(task)
            case e.AttemptFailed(task=task, to=to):
                if to or (event.code == "TIMEOUT" and not event.lost):
                    self._left(task)
                self.now[task] = to or self.now[task]

    def _left(self, task: str) -> None:
        self.before.setdefault(task, set()).add(self.now[task])


def _booked(history: History) -> Iterator[Usage]:
    """The usage of each execution that counts: of whoever had the task, once, while its author is not muted; and of
    each child run that was awaited, once."""
    had, late = _Had(), dict[str, int]()
    seen: set[tuple[str, str, str]] = set()
    children: set[str] = set()
    recorded = {event.cause.seq for event in history.events if isinstance(event, EndOfAttempt | e.InputLate)}
    events = [(event.cause.seq, 1, number, event) for number, event in enumerate(history.events)]
    ends = [(seq, 0, 0, body) for seq, (_, body) in history.inputs.items() if isinstance(body, Ended | ChildEnded)]
    for seq, _, _, item in sorted([*events, *ends], key=lambda one: one[:3]):
        match item:
            case Ended() as end:
                author = history.inputs[seq][0]
                name = (end.task, author, end.execution[:64])
                counted = seq in recorded or late.get(author, 0) < LATE_LIMIT
                if name not in seen and counted and had.by(end.task, author):
                    seen.add(name)
                    yield end.usage
            case ChildEnded(child=child, usage=usage) if child in children and seq in recorded:
                children.discard(child)
                yield usage
            case e.InputLate(author=author):
                late[author] = late.get(author, 0) + 1
            case e.TaskDispatched(child=child):
                had.add(item)
                children |= {child} - {""}
            case e.Event():
                had.add(item)
