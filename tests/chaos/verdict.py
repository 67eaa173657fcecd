"""Whether a disturbed run is what it would have been: the comparison, and copies of a history in which it must fail.

Pure. What is compared was read from the log and from what workers said; nothing here asks a board.
"""

import random
from collections import Counter
from collections.abc import Callable, Hashable, Iterable, Iterator
from functools import reduce

from msgspec import Struct
from msgspec.structs import replace

from projections.canonical import State, initial
from projections.evolve import evolve
from projections.history import outcome_digest, state_digest
from schemas import events as e
from schemas.contracts import EXECUTIONS_LIMIT
from schemas.inputs import Ended


class Begun(Struct, frozen=True):
    """An execution that a worker began. `queue` counts how often the queue had been lost: the limit of executions is
    that of one queue, as a new one knows nothing of the deliveries before it."""

    task: str
    attempt: int
    queue: int


class History(Struct, frozen=True):
    """One run: its events, and with their authors the ends that lie on the log. `stored` are the executions whose end a
    worker knows to be stored, `begun` the executions that one began, `held` is the digest of the state that the last
    supervisor held."""

    log: str
    run: str
    events: tuple[e.Event, ...]
    ends: tuple[tuple[str, Ended], ...]
    stored: frozenset[str]
    begun: tuple[Begun, ...]
    held: str

    def state(self) -> State:
        """As rebuilt from the events alone."""
        return reduce(evolve, self.events, initial(self.log, self.run))


class Verdict(Struct, frozen=True):
    """`over` names what went beyond a limit: executions, tasks in flight, the time of an attempt, which is ample."""

    outcome_equal: bool
    state_equal: bool
    lost: tuple[str, ...]
    doubled: tuple[str, ...]
    over: tuple[str, ...]

    @property
    def good(self) -> bool:
        return self.outcome_equal and self.state_equal and not (self.lost or self.doubled or self.over)


def judge(history: History, outcome: str, parallel: int) -> Verdict:
    """`outcome` is the digest of the undisturbed run."""
    state = history.state()
    return Verdict(
        outcome_equal=outcome_digest(state) == outcome,
        state_equal=state_digest(state) == history.held,
        lost=tuple(_lost(history, state)),
        doubled=tuple(_doubled(history)),
        over=tuple(_over(history, parallel)),
    )


def _lost(history: History, state: State) -> Iterator[str]:
    """Tasks without an end, ends that were accepted and do not lie on the log, and the reverse."""
    accepted = [event for event in history.events if isinstance(event, e.TaskEnded | e.AttemptFailed)]
    over = {event.task for event in accepted if isinstance(event, e.TaskEnded)}
    yield from (f"{task}: never ended" for task in state.tasks if task not in over)
    said = {(end.task, end.attempt, end.execution): (author, end) for author, end in history.ends}
    for event in accepted:
        if not event.execution:
            continue  # its time was over, which is another matter: see _over
        author, end = said.get((event.task, event.attempt, event.execution), ("", None))
        if end is None:
            yield f"{event.task}, attempt {event.attempt}: accepted, and not on the log ({event.code or 'a value'})"
        elif isinstance(event, e.TaskEnded) and (author, end.claims) != (event.specialist, event.claims):
            yield f"{event.task}, attempt {event.attempt}: accepted is something else than {author} said"
    yield from (f"{end.task}: execution {end.execution} unanswered" for end in unanswered(history))
    on_the_log = {end.execution for _, end in history.ends}
    yield from (f"execution {one}: stored, as its worker knows, and not there" for one in history.stored - on_the_log)


def unanswered(history: History) -> list[Ended]:
    """The ends on the log that were neither accepted nor recorded as late."""
    answers = (event for event in history.events if isinstance(event, e.TaskEnded | e.AttemptFailed | e.InputLate))
    known = {event.execution for event in answers}
    return [end for _, end in history.ends if end.execution not in known]


def _doubled(history: History) -> Iterator[str]:
    """What was accepted, committed or booked more than once."""
    accepted = [event for event in history.events if isinstance(event, e.TaskEnded | e.AttemptFailed)]
    facts = (event.key for event in history.events if isinstance(event, e.FactCommitted | e.FactMissing))
    yield from _twice("attempt", ((event.task, event.attempt) for event in accepted))
    yield from _twice("task", (event.task for event in accepted if isinstance(event, e.TaskEnded)))
    yield from _twice("execution", (event.execution for event in [*accepted, *_late(history)] if event.execution))
    yield from _twice("key", facts)


def _late(history: History) -> list[e.InputLate]:
    return [event for event in history.events if isinstance(event, e.InputLate)]


def _twice(what: str, names: Iterable[Hashable]) -> Iterator[str]:
    return (f"{what} {name}: {count} times" for name, count in Counter(names).items() if count > 1)


def _over(history: History, parallel: int) -> Iterator[str]:
    for event in history.events:
        if isinstance(event, e.TaskEnded | e.AttemptFailed) and not event.execution:
            yield f"{event.task}, attempt {event.attempt}: {event.code} {event.message}"
    for one, count in Counter(history.begun).items():
        if count > EXECUTIONS_LIMIT:
            yield f"{one.task}, attempt {one.attempt}: {count} executions, {EXECUTIONS_LIMIT} at most"
    if (most := most_in_flight(history)) > parallel:
        yield f"{most} tasks in flight, {parallel} at most"


def most_in_flight(history: History) -> int:
    most, state = 0, initial(history.log, history.run)
    for event in history.events:
        state = evolve(state, event)
        most = max(most, state.in_flight)
    return most


# --- the comparison must be able to say no ----------------------------------------------------------------------------


def _other_value(history: History, chance: random.Random) -> History:
    """One committed value is another one."""
    facts = [place for place, event in enumerate(history.events) if isinstance(event, e.FactCommitted)]
    place = chance.choice(facts)
    event = history.events[place]
    assert isinstance(event, e.FactCommitted)
    return _with_event(history, place, replace(event, value=event.value + 1))


def _other_claim(history: History, chance: random.Random) -> History:
    """One accepted value is another one than its specialist said."""
    claimed = [place for place, event in enumerate(history.events) if isinstance(event, e.TaskEnded) and event.claims]
    place = chance.choice(claimed)
    event = history.events[place]
    assert isinstance(event, e.TaskEnded)
    claims = tuple(replace(claim, value=claim.value + 1) for claim in event.claims)
    return _with_event(history, place, replace(event, claims=claims))


def _with_event(history: History, place: int, event: e.Event) -> History:
    return replace(history, events=(*history.events[:place], event, *history.events[place + 1 :]))


def _end_gone(history: History, chance: random.Random) -> History:
    """One end that was accepted is not on the log any more."""
    accepted = chance.choice([event.execution for event in history.events if isinstance(event, e.TaskEnded)])
    return replace(history, ends=tuple(one for one in history.ends if one[1].execution != accepted))


def _end_unanswered(history: History, chance: random.Random) -> History:
    """One end more lies on the log, which nothing was made of."""
    author, end = chance.choice(history.ends)
    return replace(history, ends=(*history.ends, (author, replace(end, execution="unanswered"))))


def _accepted_twice(history: History, chance: random.Random) -> History:
    """One end is accepted once more."""
    event = chance.choice([event for event in history.events if isinstance(event, e.TaskEnded)])
    return replace(history, events=(*history.events, event))


CORRUPTIONS: dict[str, tuple[Callable[[History, random.Random], History], Callable[[Verdict], bool]]] = {
    "a fact's value": (_other_value, lambda verdict: not verdict.outcome_equal and not verdict.state_equal),
    "an accepted claim": (_other_claim, lambda verdict: bool(verdict.lost)),
    "an end gone": (_end_gone, lambda verdict: bool(verdict.lost)),
    "an end unanswered": (_end_unanswered, lambda verdict: bool(verdict.lost)),
    "an end twice": (_accepted_twice, lambda verdict: bool(verdict.doubled)),
}
"""What is changed in a copy of the history, and whether a verdict has seen it."""


def unseen(history: History, outcome: str, parallel: int, seed: int) -> list[str]:
    """The corruptions that the comparison does not see; there should be none."""
    chance = random.Random(seed)
    return [
        name
        for name, (corrupt, is_seen) in CORRUPTIONS.items()
        if not is_seen(judge(corrupt(history, chance), outcome, parallel))
    ]
