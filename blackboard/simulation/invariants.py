"""What holds after every simulated run, whatever went wrong: worked out anew from the log, not from what the supervisor
believes."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from blackboard.simulation.parts import Folded, Happened, Parts
from schemas import events as e
from schemas.codec import decode_event, decode_facts
from schemas.inputs import ChildEnded, Ended, read_input
from schemas.subjects import BOARD_RUN, Subjects
from schemas.usage import Usage

BATCHES = (1, 7, 500)
LATE_LIMIT = 100
"""Late inputs of an author that a run records; what is used after that is booked to nobody."""


class Broken(NamedTuple):
    """An invariant that does not hold: which one, and how."""

    invariant: str
    problem: str


class History(NamedTuple):
    """One run as the log has it: its events, and its inputs by sequence as (author, body). `differs`: messages whose
    writer held another state than they add up to."""

    folded: Folded
    events: list[e.Event]
    inputs: dict[int, tuple[str, Any]]
    differs: list[int]


Histories = Mapping[str, History]


def histories(happened: Happened, parts: Parts) -> dict[str, History]:
    """Every run that the log names, `_board` among them. Raises what `fold` raises where versions are not dense, causes
    do not rise or the chain breaks."""
    subjects, found = Subjects(), dict[str, History]()
    for message in happened.messages:
        address = subjects.address(message.subject)
        if address is None or not address.run:
            continue
        run = address.run
        known = found.get(run) or History(parts.unwritten(happened.log_id, run), [], {}, [])
        if address.family == "fact":
            facts = decode_facts(message.data)
            known.events.extend(decode_event(memoryview(raw)) for raw in facts.events)
            known = known._replace(folded=parts.fold(known.folded, facts, message.seq))
            said = (message.headers or {}).get("state")
            if said and said != parts.state_digest(known.folded.state):
                known.differs.append(message.seq)
        else:
            read = read_input(message.seq, message.subject, address, message.time_ms, message.data)
            known.inputs[message.seq] = address.author, read.body
        found[run] = known
    return found


def examined(happened: Happened, parts: Parts, batches: Sequence[int] = BATCHES) -> tuple[Histories, Broken | None]:
    """The runs, and the first invariant that does not hold, the most telling one. `batches`: in which the log is
    decided again."""
    try:
        runs: Histories = histories(happened, parts)
    except Exception as error:
        return {}, Broken("histories fold", f"{type(error).__name__}: {error}")
    return runs, next(_broken(happened, runs, parts, batches), None)


def _broken(happened: Happened, runs: Histories, parts: Parts, batches: Sequence[int]) -> Iterator[Broken]:
    for problem in happened.problems:
        yield Broken("processes live", problem)
    for run, history in runs.items():
        if run != BOARD_RUN:
            yield from _attempts(run, history)
            yield from _usage(run, history)
    yield from _held(happened, runs, parts)
    if happened.hung:
        yield Broken("runs end", happened.hung)
    else:
        yield from _redecided(happened, runs, parts, batches)


# --- one history ------------------------------------------------------------------------------------------------------


class _Attempt(NamedTuple):
    number: int
    specialist: str
    child: str
    ended: bool


def _attempts(run: str, history: History) -> Iterator[Broken]:
    """No attempt is accepted twice, what is accepted is the end of the attempt that was dispatched, from whom it was
    dispatched to, and facts come from accepted ends alone."""
    attempts: dict[str, _Attempt] = {}
    accepted: dict[str, e.TaskEnded] = {}
    over = False
    for event in history.events:
        if over and not isinstance(event, e.InputLate | e.AuthorMuted | e.RulesChanged):
            yield Broken("nothing follows the end", f"run {run}: {type(event).__name__} after it has ended")
        match event:
            case e.TaskDispatched(task=task, attempt=number, specialist=specialist, child=child):
                known = attempts.get(task)
                if known and not known.ended:
                    yield Broken("one attempt at a time", f"run {run}: {task} is dispatched again in mid-attempt")
                attempts[task] = _Attempt(number, specialist, child, False)
            case e.AttemptFailed(task=task) | e.TaskEnded(task=task):
                known = attempts.get(task)
                if known is None or known.ended or event.attempt != known.number:
                    yield Broken("no attempt is accepted twice", f"run {run}: {task}, attempt {event.attempt}")
                    continue
                attempts[task] = known._replace(ended=True)
                if problem := _wrong_end(history, known, event):
                    yield Broken("ends are those that were awaited", f"run {run}: {task}: {problem}")
                if isinstance(event, e.TaskEnded):
                    accepted[task] = event
            case e.FactCommitted(key=key, task=task, value=value):
                end = accepted.get(task)
                if end is None or end.code or not any(one.key == key and one.value == value for one in end.claims):
                    yield Broken("facts are claims of accepted ends", f"run {run}: {key} from {task}")
            case e.RunEnded():
                over = True


def _wrong_end(history: History, attempt: _Attempt, event: e.AttemptFailed | e.TaskEnded) -> str:
    """Why an attempt may not end by this event; what is said of the input that it cites."""
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


def _usage(run: str, history: History) -> Iterator[Broken]:
    """What the run has booked is what distinct executions have reported, once each."""
    expected = sum((usage for usage in _booked(history)), Usage())
    state = history.folded.state
    if state.usage != expected:
        yield Broken("usage is counted once an execution", f"run {run}: {state.usage}, executions reported {expected}")


def _booked(history: History) -> Iterator[Usage]:
    """The usage of each execution that counts: of whoever had the task, once, while its author is not muted; and of
    each child run that was awaited, once."""
    voices: dict[str, set[str]] = {}
    late: dict[str, int] = {}
    seen: set[tuple[str, str, str]] = set()
    children: set[str] = set()
    timeline = sorted([*((event.cause.seq, 1, event) for event in history.events), *_reports(history)], key=_by_seq)
    for seq, _, item in timeline:
        match item:
            case e.StepExpanded(voices=taking_part, step=step):
                _expanded(voices, item, step, [voice.specialist for voice in taking_part])
            case e.TaskDispatched(task=task, specialist=specialist, child=child):
                voices.setdefault(task, set()).add(specialist)
                children |= {child} - {""}
            case e.InputLate(author=author):
                late[author] = late.get(author, 0) + 1
            case Ended() as end:
                author, name = history.inputs[seq][0], (end.task, history.inputs[seq][0], end.execution[:64])
                muted = late.get(author, 0) >= LATE_LIMIT and not _counts(history, seq)
                if name not in seen and author in voices.get(end.task, ()) and not muted:
                    seen.add(name)
                    yield end.usage
            case ChildEnded(child=child, usage=usage) if child in children and _counts(history, seq):
                children.discard(child)
                yield usage


def _by_seq(item: tuple[int, int, Any]) -> tuple[int, int]:
    return item[0], item[1]


def _reports(history: History) -> Iterator[tuple[int, int, Any]]:
    for seq, (_, body) in history.inputs.items():
        if isinstance(body, Ended | ChildEnded):
            yield seq, 0, body


def _expanded(voices: dict[str, set[str]], event: e.StepExpanded, step: str, specialists: list[str]) -> None:
    """The tasks of a step, each with the one who will have it: `<step>-<group * voices + voice>`."""
    count = -(-event.items // event.per_task) * len(specialists)
    for number in range(count):
        task = step if count == 1 else f"{step}-{number}"
        voices.setdefault(task, set()).add(specialists[number % len(specialists)])


def _counts(history: History, seq: int) -> bool:
    """Whether the input at `seq` brought about the end of an attempt."""
    return any(event.cause.seq == seq and isinstance(event, e.AttemptFailed | e.TaskEnded) for event in history.events)


# --- all of them ------------------------------------------------------------------------------------------------------


def _held(happened: Happened, runs: Histories, parts: Parts) -> Iterator[Broken]:
    """What supervisors hold in memory is what the log adds up to."""
    for held in happened.held:
        run = held.state.run
        stored = runs[run].folded if run in runs else None
        if stored is None or stored.h != held.h or parts.state_digest(stored.state) != parts.state_digest(held.state):
            yield Broken("folding gives the live state", f"run {run} at version {held.state.version}")
    for run, history in runs.items():
        for seq in history.differs:
            yield Broken("folding gives the live state", f"run {run} in the message at sequence {seq}")


def _redecided(happened: Happened, runs: Histories, parts: Parts, batches: Sequence[int]) -> Iterator[Broken]:
    """The inputs bring about the same chains, whoever decides them, in batches of any size."""
    stored = {run: history.folded.h for run, history in runs.items() if history.events}
    for batch in batches:
        again = {run: one.h for run, one in parts.redecide(happened.log_id, happened.messages, batch).items()}
        if again != stored:
            other = sorted(run for run in {*again, *stored} if again.get(run) != stored.get(run))
            yield Broken("decided again, it is the same", f"in batches of {batch}: {', '.join(other)}")
