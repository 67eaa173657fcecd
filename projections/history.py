"""Histories: folding stored fact messages into a run, trusting nothing, and the digests that compare runs.

Pure. What is folded is checked on the way: log, run, dense versions, chain and rising causes.
"""

from collections.abc import Callable, Iterator

from msgspec import Struct
from msgspec.structs import replace

from projections.canonical import State, as_first_rules, initial
from projections.evolve import evolve
from projections.folding import is_owned, owned, released
from schemas import events as e
from schemas.codec import FactMessage, canonical, chain_link, chain_start, decode_event, digest


class BrokenHistory(Exception):
    """A stored history is not what was written; `version` is the first event that is wrong."""

    def __init__(self, run: str, version: int, problem: str) -> None:
        super().__init__(f"run {run}, event {version}: {problem}")
        self.run, self.version, self.problem = run, version, problem


class Folded(Struct, frozen=True):
    """A run as folded from its fact messages: state, chain `h` after its last event, and `cursor`, the sequence of the
    last input that brought an event about, `opened` that of the first. `seq` is where its last message lies on the
    log. `passed`: the message there was passed over, since it is no fact message of the run."""

    state: State
    h: str
    cursor: int = 0
    seq: int = 0
    opened: int = 0
    passed: bool = False

    @property
    def before(self) -> State:
        """The run before its first event."""
        return initial(self.state.log, self.state.run)


def unwritten(log: str, run: str) -> Folded:
    """A run without events."""
    return Folded(initial(log, run), chain_start(log, run))


def alone(folded: Folded) -> Folded:
    """The run to begin a long fold with, of which only the latest step is looked at; `kept` ends it."""
    return replace(folded, state=owned(folded.state))


def kept(folded: Folded) -> Folded:
    """The run at the end of a fold that began with `alone`."""
    return replace(folded, state=released(folded.state))


def passed_over(folded: Folded, seq: int) -> Folded:
    """The run behind a message at `seq` that is no fact message of it: all that changes is where the next one comes."""
    return replace(folded, seq=seq, passed=True)


Each = Callable[[State, e.Event], None]
"""Called with the run after an event, and the event. The state belongs to the fold: it is not to be kept."""


def fold(folded: Folded, message: FactMessage, seq: int, upto: int | None = None, each: Each | None = None) -> Folded:
    """The run with the events of one more message, up to version `upto`. Raises BrokenHistory at the first event that
    does not continue what is there: log, run, dense versions, chain, rising causes, no cause split over messages.
    What is no fact message of the run does not come here: see `facts_of` of the codec."""
    state, cursor, opened = folded.state, folded.cursor, folded.opened
    if (message.log, message.run) != (state.log, state.run):
        raise BrokenHistory(state.run, message.first, "belongs to another run or log")
    if message.first != state.version + 1:
        raise BrokenHistory(state.run, state.version + 1, f"missing; the next message begins at {message.first}")
    if message.prev != folded.h:
        raise BrokenHistory(state.run, message.first, "the chain does not continue what is stored before it")
    shared, link = not is_owned(state), bytes.fromhex(folded.h)
    state = owned(state) if shared else state
    for place, (stored, event) in enumerate(decoded(message)):
        if upto is not None and state.version >= upto:
            break
        version = state.version + 1
        if event.cause.seq < cursor + (place == 0) or event.cause.seq >= seq:
            raise BrokenHistory(state.run, version, f"caused by sequence {event.cause.seq}, out of order")
        try:
            state = evolve(state, event)
        except (LookupError, StopIteration):
            raise BrokenHistory(state.run, version, "speaks of what the run does not have") from None
        if each:
            each(state, event)
        link, cursor, opened = chain_link(link, stored), event.cause.seq, opened or event.cause.seq
    return Folded(released(state) if shared else state, link.hex(), cursor, seq, opened)


def decoded(message: FactMessage) -> Iterator[tuple[memoryview, e.Event]]:
    """(stored bytes, event) of each event of a message."""
    for raw in message.events:
        stored = memoryview(raw)
        yield stored, decode_event(stored)


def state_digest(state: State) -> str:
    return digest(as_first_rules(state) if state.rules == 1 else state)


def outcome_digest(state: State) -> str:
    """Equal for two runs of the same goal on the same input, however they were disturbed, while their policies ignore
    the order of arrival: end, result, and for each key its value, policy, losing values and what is missing."""
    facts = {
        key: [fact.value, fact.policy, sorted((loser.value for loser in fact.losers), key=canonical)]
        for key, fact in state.facts.items()
    }
    missing = {key: item.code for key, item in state.missing.items() if key not in facts}
    return digest([state.end, state.code, state.result, facts, missing])
