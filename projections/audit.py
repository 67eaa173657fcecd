"""Auditing: whether a stored history is what was written, and whether it follows from the inputs that it cites.

Pure. Checked at each event: it can be read, versions are dense, the chain goes on, causes rise, and the input that is
cited lies on a subject of this run and of the author whom the event names, and has the bytes that were decided about.
Where the supervisor left the digest of its state with a message, the folded state must have the same. At each event the
budget of the run must be kept.

What lies on the subject of a run and is no fact message of it is no part of its history: it is passed over, and named.

A chain is checked where the next message continues it, so bytes that were changed in the very last message show only in
that digest, or in who else cites the run's `head`.
"""

from collections.abc import Callable, Iterable, Iterator

from msgspec import Struct

from blackboard.log import Message
from projections.bookings import DIMENSIONS
from projections.canonical import State
from projections.history import BrokenHistory, Each, Folded, fold, outcome_digest, passed_over, state_digest, unwritten
from schemas.codec import (
    FactMessage,
    NotAFactMessage,
    UnknownEvent,
    chain_next,
    chain_start,
    decode_event,
    facts_of,
    sha256,
)
from schemas.events import (
    AttemptFailed,
    AttemptStale,
    Cause,
    Event,
    GateAnswered,
    InputLate,
    InputRejected,
    RunOpened,
    TaskEnded,
    ToolFailed,
)
from schemas.events_of_effects import EffectIntended
from schemas.subjects import BOARD_RUN, INPUT_FAMILIES, BadName, Subjects
from schemas.usage import Amount, Limits, amount

_Reporting = AttemptFailed | AttemptStale | TaskEnded
STATE_HEADER = "state"
"""The header with the digest of the state that the supervisor held after the message."""


class Violation(BrokenHistory):
    """The first event of a history that is wrong: `version` of `run`, in the message at sequence `seq` of the log.
    `cause`: the sequence of the input that is not what the event cites; 0 where something else is wrong."""

    exit_code = 1

    def __init__(self, run: str, version: int, problem: str, seq: int, cause: int = 0) -> None:
        super().__init__(run, version, problem)
        self.seq, self.cause = seq, cause

    def __str__(self) -> str:
        return f"run {self.run}, event {self.version}, in the message at sequence {self.seq}: {self.problem}"


class Recorded(Struct, frozen=True):
    """One event of a history: its number, and the sequence of the message that holds it."""

    version: int
    seq: int
    event: Event


class Cited(Struct, frozen=True):
    """What an auditor has to know of an input: where it was appended, and the digest of its bytes."""

    subject: str
    sha256: str


class Audited(Struct, frozen=True):
    """A history without a violation: `inputs` were found as cited, and the state was compared with `states` digests
    that supervisors left. `head`, `state` and `outcome` are the digests at `version`."""

    run: str
    version: int
    messages: int
    inputs: int
    states: int
    head: str
    state: str
    outcome: str


Find = Callable[[int], Cited | None]
"""The input at a sequence, or None where the log has no message."""


def cited(message: Message) -> Cited:
    return Cited(message.subject, sha256(message.data))


def take(folded: Folded, message: Message, upto: int | None = None, each: Each | None = None) -> Folded:
    """The run with the events of one more message of the log, up to version `upto`; what is no fact message of the run
    is passed over. Raises Violation."""
    run, expected = folded.state.run, folded.state.version + 1
    try:
        facts = facts_of(message.data, folded.state.log, run)
    except NotAFactMessage:
        return passed_over(folded, message.seq)
    try:
        return fold(folded, facts, message.seq, upto, each)
    except BrokenHistory as broken:
        raise Violation(run, broken.version, broken.problem, message.seq) from None
    except UnknownEvent as error:
        raise Violation(run, expected + _readable(facts), str(error), message.seq) from None


def _readable(facts: FactMessage) -> int:
    """How many events of a message can be read before the first that cannot."""
    for count, raw in enumerate(facts.events):
        try:
            decode_event(memoryview(raw))
        except UnknownEvent:
            return count
    return len(facts.events)


def garbage(folded: Folded, message: Message) -> Violation | None:
    """What is to be said of a message on the subject of a run that readers pass over; None of any other."""
    try:
        facts_of(message.data, folded.state.log, folded.state.run)
    except NotAFactMessage as error:
        problem = f"not a fact message of this run, and passed over: {error}"
        return Violation(folded.state.run, folded.state.version + 1, problem, message.seq)
    return None


def recorded(message: Message, log: str, run: str) -> Iterator[Recorded]:
    """The events of a fact message of `run`, with their numbers; none of what is no such message. Raises
    UnknownEvent."""
    try:
        facts = facts_of(message.data, log, run)
    except NotAFactMessage:
        return
    for number, raw in enumerate(facts.events):
        yield Recorded(facts.first + number, message.seq, decode_event(memoryview(raw)))


def causes(message: Message, log: str, run: str) -> Iterator[int]:
    """The sequences that a fact message of `run` cites, as far as it can be read."""
    try:
        for item in recorded(message, log, run):
            yield item.event.cause.seq
    except UnknownEvent:
        return


class Ledger:
    """Holds the budget of one run against its events, at every version: what is charged and reserved stays within the
    limits, and all that specialists reported is charged, or overrun."""

    def __init__(self) -> None:
        self._reported = Amount()
        self._charged, self._reserved, self._overrun = Amount(), Amount(), Amount()

    def see(self, state: State, event: Event) -> None:
        """The run after one more event. Raises BrokenHistory where its budget is not kept."""
        charged, reserved, overrun = state.charged, state.reserved, state.overrun
        if isinstance(event, InputLate) or (isinstance(event, _Reporting) and event.execution):
            self._reported += amount(event.usage)  # without an execution nobody said anything
        elif charged is self._charged and reserved is self._reserved and overrun is self._overrun:
            return
        self._charged, self._reserved, self._overrun = charged, reserved, overrun
        if self._reported == charged + overrun and _within(state.budget, charged, reserved):
            return
        raise BrokenHistory(state.run, state.version, f"the budget is not kept: {self._problem(state)}")

    def _problem(self, state: State) -> str:
        found = []
        for name in DIMENSIONS:
            limit, reported = getattr(state.budget, name), getattr(self._reported, name)
            charged, reserved, overrun = (getattr(one, name) for one in (state.charged, state.reserved, state.overrun))
            if limit is not None and charged + reserved > limit:
                found.append(f"{name}: {charged} charged and {reserved} reserved, the limit is {limit}")
            if reported != charged + overrun or reserved < 0:
                amounts = f"{reported} reported, {charged} charged, {overrun} overrun, {reserved} reserved"
                found.append(f"{name}: {amounts}")
        return "; ".join(found)


def _within(budget: Limits, charged: Amount, reserved: Amount) -> bool:
    if min(reserved.tokens, reserved.tool_calls, reserved.micro_usd) < 0:
        return False
    return (
        (budget.tokens is None or charged.tokens + reserved.tokens <= budget.tokens)
        and (budget.tool_calls is None or charged.tool_calls + reserved.tool_calls <= budget.tool_calls)
        and (budget.micro_usd is None or charged.micro_usd + reserved.micro_usd <= budget.micro_usd)
    )


class Auditor:
    """Audits one run, message by message, in order of the log. `folded` is the run so far, `passed` the first message
    that was passed over."""

    def __init__(self, log: str, run: str, subjects: Subjects) -> None:
        self.folded = unwritten(log, run)
        self._subjects = subjects
        self.passed: Violation | None = None
        self.inputs = self.states = self._messages = 0
        self._checked = 0
        self._ledger = Ledger()

    def add(self, message: Message, find: Find) -> None:
        """One more message of the run; `find` is asked for each input that it cites. Raises Violation at the first
        event that is wrong."""
        violation: Violation | None = None
        try:
            self.folded = take(self.folded, message, each=self._ledger.see)
        except Violation as found:
            violation = found
        if violation is None and self.folded.passed:
            self.passed = self.passed or garbage(self.folded, message)
            return
        self._check_causes(message, find, violation.version if violation else None)
        if violation:
            raise violation
        self._check_state(message)
        self._messages += 1

    def result(self) -> Audited | Violation:
        """What the run is worth; where a message of its subject was passed over, the first such."""
        if self.passed:
            return self.passed
        state = self.folded.state
        return Audited(
            run=state.run,
            version=state.version,
            messages=self._messages,
            inputs=self.inputs,
            states=self.states,
            head=self.folded.h,
            state=state_digest(state),
            outcome=outcome_digest(state),
        )

    def _check_causes(self, message: Message, find: Find, below: int | None) -> None:
        """Of the events numbered below `below` (None: all): what comes after a violation is not looked at."""
        try:
            for item in recorded(message, self.folded.state.log, self.folded.state.run):
                if below is not None and item.version >= below:
                    return
                cause = item.event.cause
                if cause.seq != self._checked:
                    if problem := self._wrong_with(cause, find):
                        raise Violation(self.folded.state.run, item.version, problem, message.seq, cause.seq)
                    self._checked = cause.seq
                    self.inputs += 1
                if problem := self._wrong_author(item.event, find(cause.seq)):
                    raise Violation(self.folded.state.run, item.version, problem, message.seq, cause.seq)
        except UnknownEvent:
            return

    def _wrong_with(self, cause: Cause, find: Find) -> str | None:
        there = find(cause.seq)
        if there is None:
            return f"cites the input at sequence {cause.seq}, where the log has no message"
        if there.sha256 != cause.sha256:
            return f"cites the input at sequence {cause.seq} by another digest than that of the bytes stored there"
        if self.folded.state.run != BOARD_RUN and not self._is_input(there.subject):
            return f"cites the message at sequence {cause.seq}, which is no input of this run but {there.subject}"
        return None

    def _wrong_author(self, event: Event, there: Cited | None) -> str | None:
        """Whether an event names another author than the subject of what it cites, for which the broker vouches."""
        named = _author(event)
        address = self._subjects.address(there.subject) if there and named else None
        if address is None or address.author in ("", named):
            return None
        return (
            f"says that {named} said it, and what it cites at sequence {event.cause.seq} was said by {address.author}"
        )

    def _is_input(self, subject: str) -> bool:
        try:
            address = self._subjects.parse(subject)
        except BadName:
            return False
        return address.family in INPUT_FAMILIES and address.run == self.folded.state.run

    def _check_state(self, message: Message) -> None:
        held = (message.headers or {}).get(STATE_HEADER)
        if held is None:
            return
        state = self.folded.state
        if held != state_digest(state):
            problem = "the supervisor that wrote it held another state than its events add up to"
            raise Violation(state.run, state.version, problem, message.seq)
        self.states += 1


class Chains:
    """Holds dense versions and the chain of every run of a log against its fact messages, as they come, without folding
    them: what a copy of the log is worth. It passes over what is no fact message of its run."""

    def __init__(self, log: str, subjects: Subjects) -> None:
        self._log, self._subjects = log, subjects
        self._reached: dict[str, tuple[int, str]] = {}

    def add(self, message: Message) -> None:
        """Raises Violation at the first event that does not continue what came before it."""
        address = self._subjects.address(message.subject)
        if address is None or address.family != "fact":
            return
        run = address.run
        version, h = self._reached.get(run) or (0, chain_start(self._log, run))
        try:
            facts = facts_of(message.data, self._log, run)
        except NotAFactMessage:
            return
        if facts.first != version + 1:
            problem = f"missing; the next message begins at {facts.first}"
            raise Violation(run, version + 1, problem, message.seq)
        if facts.prev != h:
            problem = "the chain does not continue what is stored before it"
            raise Violation(run, facts.first, problem, message.seq)
        for stored in facts.events:
            h = chain_next(h, memoryview(stored))
        self._reached[run] = version + len(facts.events), h


def _author(event: Event) -> str:
    """Who said what an event cites, as far as the event names them."""
    match event:
        case RunOpened(publisher=name) | InputLate(author=name) | InputRejected(author=name):
            return name
        case GateAnswered(by=name, in_advance=False):
            return name
        case EffectIntended(specialist=name) | ToolFailed(specialist=name):
            return name
        case TaskEnded(specialist=name, execution=execution) if execution:
            return name
    return ""


def audit(log: str, run: str, subjects: Subjects, facts: Iterable[Message], find: Find) -> Audited | Violation:
    """What the fact messages of `run`, in order, are worth: a summary, or the first violation."""
    auditor = Auditor(log, run, subjects)
    try:
        for message in facts:
            auditor.add(message, find)
    except Violation as violation:
        return auditor.passed or violation
    return auditor.result()
