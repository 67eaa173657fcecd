"""Comparing what is decided today with what was recorded: every event of every run, in the order of the inputs.

Pure. Each input is decided again from the state that the events before it lead to, by the version of the rules that the
record says decided it, and what comes out is compared with what stands there, field by field. How events were cut into
messages does not matter. The chain is checked on the way, so a record that was changed is no record.

A run's first difference is its verdict: what follows from another event is no further finding.
"""

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence
from typing import Any

import msgspec
from msgspec import UNSET, Struct, UnsetType

from blackboard.log import Message
from projections.history import BrokenHistory, Folded, decoded, fold, unwritten
from schemas import events as e
from schemas.catalogue import Catalogue
from schemas.codec import NotAFactMessage, UnknownEvent, encode, facts_of
from schemas.inputs import Input, Unreadable
from schemas.subjects import BOARD_RUN, Subjects
from supervisor.answer import answer, read_message
from supervisor.decide import KNOWN_RULES
from supervisor.merge import Policy, PolicyMissing
from supervisor.replay import taken_further


class Equal(Struct, frozen=True):
    """Deciding again gives what was recorded, up to `version` and `head`. `inputs` brought it about, by rules of the
    versions `rules`; `waiting` are still to be decided for the first time."""

    run: str
    version: int
    head: str
    rules: tuple[int, ...]
    inputs: int
    waiting: int = 0


class Difference(Struct, frozen=True):
    """One field of an event; `recorded` or `decided` is not set where only the other has it."""

    field: str
    recorded: Any | UnsetType = UNSET
    decided: Any | UnsetType = UNSET


class Divergence(Struct, frozen=True):
    """Event `version`, about the input at `seq`, is another one today. None: there is no such event."""

    run: str
    version: int
    seq: int
    recorded: e.Event | None
    decided: e.Event | None

    @property
    def fields(self) -> list[Difference]:
        """Where the two differ; empty where one is None."""
        if self.recorded is None or self.decided is None:
            return []
        return list(_differences("", msgspec.to_builtins(self.recorded), msgspec.to_builtins(self.decided)))


class NotDecidable(Struct, frozen=True):
    """Event `version` cannot be decided again, for this reason; the events before it are equal."""

    run: str
    version: int
    reason: str


Verdict = Equal | Divergence | NotDecidable


def _differences(path: str, recorded: Any, decided: Any) -> Iterator[Difference]:
    """Fields by path, as in `losers[0].value`."""
    if isinstance(recorded, dict) and isinstance(decided, dict):
        for name in dict.fromkeys([*recorded, *decided]):
            inside = f"{path}.{name}" if path else name
            yield from _differences(inside, recorded.get(name, UNSET), decided.get(name, UNSET))
    elif isinstance(recorded, list | tuple) and isinstance(decided, list | tuple):
        for index in range(max(len(recorded), len(decided))):
            here = [side[index] if index < len(side) else UNSET for side in (recorded, decided)]
            yield from _differences(f"{path}[{index}]", *here)
    elif UNSET in (recorded, decided) or encode(recorded) != encode(decided):
        yield Difference(path, recorded, decided)


class _Run:
    """One run: as it is `recorded` so far, and as it was decided `again`. `ahead` are the recorded events that were not
    compared yet."""

    def __init__(self, log_id: str, run: str) -> None:
        self.recorded = self.again = unwritten(log_id, run)
        self.ahead: deque[e.Event] = deque()
        self.rules: list[int] = []
        self.inputs = self.waiting = 0
        self.judged = False

    def record(self, message: Message) -> bool:
        """Whether it is a fact message of the run; else it is passed over. Raises BrokenHistory, UnknownEvent."""
        try:
            facts = facts_of(message.data, self.recorded.state.log, self.recorded.state.run)
        except NotAFactMessage:
            return False
        self.recorded = fold(self.recorded, facts, message.seq)
        self.ahead += (event for _, event in decoded(facts))
        return True

    def rules_for(self, cause: Input) -> int | None:
        """The version of the rules that decided `cause`, as far as the record says; None: of a run without a goal."""
        match self.ahead[0] if self.ahead else None:
            case e.RunOpened(rules=rules, cause=e.Cause(seq=cause.seq)):
                return rules
            case e.RulesChanged(rules=rules, cause=e.Cause(seq=cause.seq)):
                return rules
        return self.again.state.rules or None

    def compare(self, cause: Input, events: Sequence[e.Event]) -> Divergence | None:
        """Take the run further by what was decided about `cause`, or say where that is not what was recorded."""
        version = self.again.state.version
        stored = [encode(event) for event in events]
        while self.ahead and self.ahead[0].cause.seq <= cause.seq:
            recorded = self.ahead.popleft()
            index, version = version - self.again.state.version, version + 1
            event = events[index] if index < len(events) else None
            if event is None or encode(recorded) != stored[index]:
                return Divergence(self.recorded.state.run, version, cause.seq, recorded, event)
        if (index := version - self.again.state.version) < len(events):
            return Divergence(self.recorded.state.run, version + 1, cause.seq, None, events[index])
        if events:
            self.inputs += 1
            self.again = taken_further(self.again, cause, events, stored)
            if self.again.state.rules not in (0, *self.rules[-1:]):
                self.rules.append(self.again.state.rules)
        return None

    def verdict(self) -> Verdict:
        run, version = self.recorded.state.run, self.again.state.version
        if self.ahead:
            event = self.ahead[0]
            return Divergence(run, version + 1, event.cause.seq, event, None)
        return Equal(run, version, self.recorded.h, tuple(self.rules), self.inputs, self.waiting)


class Comparison:
    """Decides the inputs of a log again while its messages come in, in their order.

    `only`: of the log are read the catalogue and the messages of this run, and of it alone a verdict is given. `known`:
    the versions of the rules that can be decided by. `last`: where the last message of each run lies; its verdict comes
    as soon as all up to there was decided, and what is known of it is forgotten. Without, verdicts of equality come
    last. `policies`: the installed merge policies.
    """

    def __init__(
        self,
        log_id: str,
        subjects: Subjects,
        *,
        only: str = "",
        known: Collection[int] = KNOWN_RULES,
        last: Mapping[str, int] | None = None,
        policies: Mapping[tuple[str, int], Policy] | None = None,
    ) -> None:
        self._log_id, self._subjects, self._only, self._known = log_id, subjects, only, known
        self._catalogue = Catalogue(policies)
        self._runs: dict[str, _Run] = {}
        self._pending: deque[Input] = deque()
        self._floor = 0
        self._last = last or {}
        self._ending = deque(sorted((seq, run) for run, seq in self._last.items() if run != BOARD_RUN))
        self._unread: dict[str, int] = {}
        """By run: up to which input it is recorded for certain, where something was passed over since. That may have
        been a fact message; if so, it is written again behind what others decided."""

    def add(self, messages: Sequence[Message], floor: int = 0) -> Iterator[Verdict]:
        """The next messages, all of what is decided about inputs at or below `floor` being among those so far."""
        for message in messages:
            yield from self._read(message)
        self._floor = max(self._floor, floor)
        whole = min([self._floor, *self._unread.values()])
        while self._pending and self._pending[0].seq <= whole:
            yield from self._decide(self._pending.popleft())
        while self._ending and self._ending[0][0] <= whole:
            yield from self._end(self._ending.popleft()[1])

    def finish(self) -> Iterator[Verdict]:
        """What is left when there are no more messages. An input beyond the record of its run is not decided yet."""
        while self._pending:
            yield from self._decide(self._pending.popleft())
        for run in list(self._runs):
            yield from self._end(run)

    def _read(self, message: Message) -> Iterator[Verdict]:
        address = self._subjects.address(message.subject)
        if address is None or address.family != "fact":
            if cause := read_message(message, self._subjects, self._catalogue):
                self._pending.append(cause)
            return
        run = self._run(address.run)
        if run.judged:
            return
        self._unread.pop(address.run, None)
        try:
            if not run.record(message) and message.seq < self._last.get(address.run, 0):
                self._unread[address.run] = run.recorded.cursor
        except BrokenHistory as broken:
            yield from self._judge(run, NotDecidable(address.run, broken.version, f"not as written: {broken.problem}"))
        except UnknownEvent as error:
            version = run.recorded.state.version + 1
            yield from self._judge(run, NotDecidable(address.run, version, f"cannot be read: {error}"))

    def _run(self, run: str) -> _Run:
        return self._runs.setdefault(run, _Run(self._log_id, run))

    def _decide(self, cause: Input) -> Iterator[Verdict]:
        named, board = self._run(cause.address.run), self._run(BOARD_RUN)
        opened = named.recorded.opened
        if named.judged and opened and cause.seq >= opened and not isinstance(cause.body, Unreadable):
            return  # what such a run makes of it is not known any more; `_board` has no part in it
        rules, version = named.rules_for(cause), named.again.state.version + 1
        if rules is not None and rules not in self._known and not named.judged:
            reason = f"rules {rules} decided it, and this release knows {', '.join(map(str, sorted(self._known)))}"
            yield from self._judge(named, NotDecidable(cause.address.run, version, reason))
            return
        try:
            home, events = answer(named.again, board.again, cause, self._catalogue.below(cause.seq), rules)
        except PolicyMissing as missing:
            yield from self._judge(named, NotDecidable(cause.address.run, version, str(missing)))
            return
        except Exception as defect:  # a rule that fails today is a finding about this run, not the end of the others
            reason = f"the input at sequence {cause.seq} raises {type(defect).__name__}: {defect}"
            yield from self._judge(named, NotDecidable(cause.address.run, version, reason))
            return
        yield from self._compare(cause, home, events, (named, board) if named is not board else (board,))

    def _compare(
        self, cause: Input, home: Folded, events: Sequence[e.Event], runs: Sequence[_Run]
    ) -> Iterator[Verdict]:
        for run in runs:
            mine = run.again.state.run == home.state.run
            if cause.seq > self._floor and cause.seq > run.recorded.cursor:
                run.waiting += bool(mine and events)
            elif not run.judged and (divergence := run.compare(cause, events if mine else [])):
                yield from self._judge(run, divergence)

    def _judge(self, run: _Run, verdict: Verdict) -> Iterator[Verdict]:
        run.judged = True
        run.ahead.clear()
        if self._only in ("", verdict.run):
            yield verdict

    def _end(self, name: str) -> Iterator[Verdict]:
        """The verdict about a run of which nothing more comes; about one without events there is none."""
        run = self._runs.pop(name, None)
        if run and not run.judged and run.recorded.state.version:
            yield from self._judge(run, run.verdict())


def compare(
    log_id: str,
    messages: Sequence[Message],
    *,
    board: str = "main",
    only: str = "",
    known: Collection[int] = KNOWN_RULES,
    floor: int = 0,
    policies: Mapping[tuple[str, int], Policy] | None = None,
) -> dict[str, Verdict]:
    """The verdict about each run of which `messages`, a whole log in its order, hold events, or about `only` one. All
    inputs at or below `floor` were decided; beyond, what no event of a run comes after may not have been."""
    comparison = Comparison(log_id, Subjects(board), only=only, known=known, policies=policies)
    verdicts = [*comparison.add(messages, floor), *comparison.finish()]
    return {verdict.run: verdict for verdict in verdicts}
