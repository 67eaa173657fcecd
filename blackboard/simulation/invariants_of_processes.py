"""How processes behave towards each other: what a supervisor does follows from facts that are stored, and a worker
takes a task out of the queue when its end is.

Worked out from the order in which things came onto the log, and from what was noted at the queue.
"""

from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping

from blackboard.simulation.parts import Broken, Happened, History
from schemas import events as e
from schemas import events_of_effects as f
from schemas.goals import Goal
from schemas.inputs import ChildEnded, Ended, TimerDue
from schemas.subjects import SUPERVISOR, Subjects, matches

Histories = Mapping[str, History]
Attempt = tuple[str, str, str, int]
"""(specialist, run, task, attempt)"""
NOT_ITS_OWN = "another goal came first"
"""What a parent is told of a run under the name of its child that somebody else asked for."""
NEVER = 2**63


class _Attempts:
    """When, by the log, each attempt was given out, said to have ended, and was over for its run."""

    def __init__(self, runs: Histories) -> None:
        self.made: dict[Attempt, int] = {}
        self.said: dict[Attempt, int] = {}
        self._over: dict[tuple[str, str], list[tuple[int, int]]] = defaultdict(list)
        self._run_over: dict[str, int] = {}
        for run, history in runs.items():
            for seq, event in zip(history.stored, history.events, strict=True):
                self._see(run, seq, event)
            for seq, (author, body) in history.inputs.items():
                if isinstance(body, Ended):
                    self.said.setdefault((author, run, body.task, body.attempt), seq)

    def _see(self, run: str, seq: int, event: e.Event) -> None:
        match event:
            case e.TaskDispatched(task=task, attempt=attempt, specialist=specialist):
                self.made[specialist, run, task, attempt] = seq
            case e.AttemptFailed(task=task) | e.AttemptStale(task=task) | e.TaskEnded(task=task):
                self._over[run, task].append((event.attempt, seq))
            case e.TaskDropped(task=task):
                self._over[run, task].append((NEVER, seq))
            case f.RunEnding(waits=waits):
                for task in waits:
                    self._over[run, task].append((NEVER, seq))
            case e.RunEnded():
                self._run_over[run] = seq

    def over(self, attempt: Attempt) -> int:
        """The sequence from which on the run awaits nothing of the attempt."""
        _, run, task, number = attempt
        ends = [seq for ended, seq in self._over[run, task] if ended >= number]
        return min([*ends, self._run_over.get(run, NEVER)])


def conduct(happened: Happened, runs: Histories) -> Iterator[Broken]:
    attempts = _Attempts(runs)
    yield from _enqueued(happened, attempts)
    yield from _acknowledged(happened, attempts)
    yield from _executed(happened, runs)
    yield from _effects(runs)
    yield from _floors(happened, runs)
    if happened.plan.punctual:
        yield from _punctual(runs)


def _enqueued(happened: Happened, attempts: _Attempts) -> Iterator[Broken]:
    """What is enqueued was given out by a stored fact; by an only supervisor nothing whose end lay on the log when it
    last looked at the queue. With several, one may go on with what it began before the others did the rest."""
    honest = {staff.specialist.name for staff in happened.plan.staff if not staff.lies}
    for key, head, looked in happened.enqueued:
        attempt = (key.specialist, key.run, key.task, key.attempt)
        if attempts.made.get(attempt, NEVER) > head:
            yield Broken("facts come first, then effects", f"{_named(attempt)} is in the queue before its fact")
        alone = happened.plan.supervisors == 1 and key.specialist in honest
        if alone and attempts.said.get(attempt, NEVER) <= looked:
            yield Broken("what has ended is not enqueued again", _named(attempt))


def _acknowledged(happened: Happened, attempts: _Attempts) -> Iterator[Broken]:
    for key, head in happened.acknowledged:
        attempt = (key.specialist, key.run, key.task, key.attempt)
        if min(attempts.said.get(attempt, NEVER), attempts.over(attempt)) > head:
            yield Broken("a task is acknowledged when its end is stored", _named(attempt))


def _named(attempt: Attempt) -> str:
    specialist, run, task, number = attempt
    return f"attempt {number} of {task} of run {run}, which is with {specialist}"


def _executed(happened: Happened, runs: Histories) -> Iterator[Broken]:
    """Who does not lie tells of executions that it made, of each the same whenever it tells; where nothing goes wrong
    an attempt is executed once."""
    begun = {(call.specialist, call.run, call.task, call.attempt, call.execution) for call in happened.calls}
    honest = {staff.specialist.name for staff in happened.plan.staff if not staff.lies}
    told: dict[str, Ended] = {}
    for run, history in runs.items():
        for author, body in history.inputs.values():
            if isinstance(body, Ended) and author in honest:
                execution = (author, run, body.task, body.attempt, body.execution)
                if execution not in begun or told.setdefault(body.execution, body) != body:
                    what = f"{body.execution} of {_named(execution[:4])}"
                    yield Broken("the end of an execution is told as it was", what)
    if happened.undisturbed:
        for attempt, times in Counter(execution[:4] for execution in begun).items():
            if times > 1:
                yield Broken("undisturbed, an attempt is executed once", f"{_named(attempt)}: {times} times")


def _effects(runs: Histories) -> Iterator[Broken]:
    """Goals of child runs and wakes follow from facts that lie before them on the log."""
    asked = {
        event.child: seq
        for history in runs.values()
        for seq, event in zip(history.stored, history.events, strict=True)
        if isinstance(event, e.TaskDispatched) and event.child
    }
    for run, history in runs.items():
        for seq, (author, body) in history.inputs.items():
            match body:
                case Goal() if author == SUPERVISOR:
                    early = asked.get(run, NEVER) > seq
                case TimerDue(armed=armed):
                    early = armed > len(history.stored) or history.stored[armed - 1] > seq
                case ChildEnded(child=child, reason=reason) if reason != NOT_ITS_OWN:
                    early = child not in runs or not _ended_before(runs[child], seq)
                case _:
                    early = False
            if early:
                yield Broken("facts come first, then effects", f"run {run}: {type(body).__name__} at {seq}")


def _ended_before(child: History, seq: int) -> bool:
    ended = zip(child.stored, child.events, strict=True)
    return any(stored < seq for stored, event in ended if isinstance(event, e.RunEnded))


def _floors(happened: Happened, runs: Histories) -> Iterator[Broken]:
    """At or below the floor of a message every input is decided and stored before it."""
    least: dict[int, int] = {}
    for history in runs.values():
        for seq, event in zip(history.stored, history.events, strict=True):
            least[seq] = min(least.get(seq, NEVER), event.cause.seq)
    undecided = NEVER
    facts = Subjects().every("fact")
    for message in reversed(happened.messages):
        if not matches(facts, message.subject):
            continue
        undecided = min(undecided, least.get(message.seq, NEVER))
        floor = int((message.headers or {}).get("floor", "0"))
        if floor >= undecided:
            what = f"the message at {message.seq} says {floor}, and input {undecided} is stored no earlier"
            yield Broken("a floor is not above what is decided", what)


def _punctual(runs: Histories) -> Iterator[Broken]:
    for run, history in runs.items():
        for event in history.events:
            match event:
                case e.AttemptFailed(code="TIMEOUT", execution="") | e.TaskEnded(code="TIMEOUT", execution=""):
                    yield Broken("where there is time, nothing times out", f"run {run}: {event.task}: {event.message}")
