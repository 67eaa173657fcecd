"""Verifying a log from its first message to its head: nothing is missing, every run is what was written and follows
from inputs that are there, and, where a notary has signed it, every message is the one that was signed.

Memory is bounded: inputs are remembered up to a number (what is cited later is asked for), runs up to a number of
bytes (what goes on later is read again), findings up to LIMIT (the rest is counted).
"""

from collections import OrderedDict
from collections.abc import AsyncGenerator, AsyncIterator, Callable

from msgspec import Struct
from msgspec.structs import replace

from blackboard.board import Board, floor_of
from blackboard.log import LogDamaged, Message
from projections.audit import Auditor, Cited, Violation, causes, cited
from projections.rebuild import fetch_cited
from projections.verify_signed import Comparison, SignedUpto
from schemas.codec import NotAFactMessage, decode_facts
from schemas.heads import Signed

LIMIT = 100
"""Findings that are kept."""
INPUTS_KEPT = 50_000
RUNS_KEPT_BYTES = 32_000_000
"""Bytes of the fact messages of the runs in memory."""
MISSING, CHANGED = "missing", "changed"


class Finding(Struct, frozen=True, kw_only=True):
    """Something that is wrong: at sequence `seq` of the log, and up to `upto` where it is more than one message. `run`
    and `version` name the event that it is about, where it is known to be about one."""

    problem: str
    seq: int
    upto: int = 0
    run: str = ""
    version: int = 0
    what: str = ""

    def covers(self, seq: int) -> bool:
        return self.seq <= seq <= max(self.seq, self.upto)


class Verdict(Struct, frozen=True, kw_only=True):
    """What was read, up to sequence `head`, and what is wrong with it: `findings` in order, and `more` of the kind.
    `ignored` messages lie on subjects that name no author and run, which readers pass over. `signed`: how far the
    witnesses' heads go; None without witnesses."""

    log: str
    run: str
    head: int
    messages: int
    runs: int
    events: int
    inputs: int
    states: int
    ignored: int
    signed: SignedUpto | None
    findings: tuple[Finding, ...]
    more: int

    @property
    def good(self) -> bool:
        return not self.findings


OnProgress = Callable[[int, int], None]
"""Told of the sequence that was reached, and of the last one."""


async def verify(
    board: Board,
    run: str = "",
    heads: AsyncGenerator[Signed, None] | None = None,
    on_progress: OnProgress | None = None,
) -> Verdict:
    """Walk the whole log, or what belongs to one `run`, as it is at the call. `heads`: what the witnesses agree on.
    Raises LogUnavailable, LogError."""
    comparison = Comparison(heads, board.subjects, board.log.id, run) if heads else None
    return await _Walk(board, run, comparison, on_progress).verdict()


class _Auditors:
    """The runs that are being audited. Those that were not heard of for longest are forgotten, and read again."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._kept: OrderedDict[str, tuple[Auditor, int]] = OrderedDict()
        self._bytes, self._forgot = 0, False

    async def of(self, run: str, seq: int) -> Auditor:
        """The run as it was before `seq`. Raises Violation."""
        if run in self._kept:
            return self._kept[run][0]
        if not self._forgot:
            return Auditor(self._board.log.id, run, self._board.subjects)
        return await self._read(run, seq)

    def keep(self, run: str, auditor: Auditor, more_bytes: int) -> None:
        _, before = self._kept.pop(run, (auditor, 0))
        self._kept[run] = (auditor, before + more_bytes)
        self._bytes += more_bytes
        while self._bytes > RUNS_KEPT_BYTES and len(self._kept) > 1:
            _, (_, size) = self._kept.popitem(last=False)
            self._bytes -= size
            self._forgot = True

    async def _read(self, run: str, seq: int) -> Auditor:
        auditor, inputs = Auditor(self._board.log.id, run, self._board.subjects), dict[int, Cited]()
        size, fact = 0, self._board.subjects.fact(run)
        async for messages in self._board.log.scan(self._board.subjects.of_run(run), upto=seq - 1):
            for message in messages:
                if message.subject != fact:
                    inputs[message.seq] = cited(message)
                    continue
                await fetch_cited(self._board, message, inputs)
                auditor.add(message, inputs.get)
                size += len(message.data)
        self.keep(run, auditor, size)
        return auditor


class _Findings:
    """What is wrong, as it comes to light."""

    def __init__(self) -> None:
        self.listed: list[Finding] = []
        self.more = 0

    def add(self, finding: Finding) -> None:
        if len(self.listed) < LIMIT:
            self.listed.append(finding)
        else:
            self.more += 1

    def about(self, seq: int, run: str, version: int) -> bool:
        """Say which event it is that a finding at `seq` is about, unless that is known; whether there is one."""
        for at, finding in enumerate(self.listed):
            if finding.covers(seq):
                if not finding.version:
                    self.listed[at] = replace(finding, run=run, version=version)
                return True
        return False

    def between(self, after: int, before: int) -> list[Finding]:
        """Lost messages that lie there."""
        return [
            one for one in self.listed if one.what == MISSING and after < one.seq and max(one.seq, one.upto) < before
        ]

    def of_run(self, run: str) -> bool:
        return any(one.run == run and one.version for one in self.listed)


class _Walk:
    def __init__(self, board: Board, run: str, comparison: Comparison | None, on_progress: OnProgress | None) -> None:
        self._board, self._run, self._comparison, self._on_progress = board, run, comparison, on_progress
        self._auditors, self._inputs = _Auditors(board), dict[int, Cited]()
        self._found = _Findings()
        self._broken: set[str] = set()
        self._messages = self._runs = self._events = self._ignored = self._cited = self._states = 0
        self._head = 0

    async def verdict(self) -> Verdict:
        self._head = await self._board.log.head()
        async for message in self._read():
            self._messages += 1
            await self._message(message)
        if self._run:
            await self._require_end()
        if self._comparison:
            await self._compare_ends(self._comparison)
        return Verdict(
            log=self._board.log.id,
            run=self._run,
            head=self._head,
            messages=self._messages,
            runs=self._runs,
            events=self._events,
            inputs=self._cited,
            states=self._states,
            ignored=self._ignored,
            signed=self._comparison.last if self._comparison else None,
            findings=tuple(sorted(self._found.listed, key=lambda one: (one.seq, one.run))),
            more=self._found.more,
        )

    # -- reading --

    async def _read(self) -> AsyncIterator[Message]:
        """Every message up to the head; of those that are missing a finding each time."""
        subjects = self._board.subjects
        chosen = subjects.of_run(self._run) if self._run else subjects.log
        position = 0
        async for messages in self._board.log.scan(chosen, upto=self._head):
            for message in messages:
                async for other in self._between(position, message.seq):
                    yield other
                yield message
                position = message.seq
            self._forget(floor_of(messages[-1]))
            if self._on_progress:
                self._on_progress(position, self._head)
        async for other in self._between(position, self._head + 1):
            yield other

    async def _between(self, position: int, seq: int) -> AsyncIterator[Message]:
        """What the log has between the two, on subjects that it should not have."""
        if self._run:
            return
        while position + 1 < seq:
            there = await self._board.log.get(position + 1)
            if there is None:
                self._miss(position + 1, seq - 1)
                return
            yield there
            position += 1

    def _miss(self, first: int, last: int) -> None:
        many = f"sequences {first} to {last} are missing" if last > first else "the message is missing"
        problem = f"{many}: the log does not give back what was stored there"
        self._found.add(Finding(problem=problem, seq=first, upto=last, what=MISSING))
        if self._comparison:
            self._comparison.passes_over()

    async def _require_end(self) -> None:
        """Of one run: whether the log keeps back its last fact message."""
        try:
            await self._board.log.last(self._board.subjects.fact(self._run))
        except LogDamaged as damaged:
            version = (await self._auditors.of(self._run, self._head + 1)).folded.state.version + 1
            problem = "lost: the log keeps it back, at that place or later"
            self._found.add(Finding(problem=problem, seq=damaged.seq, run=self._run, version=version))

    def _forget(self, floor: int) -> None:
        if floor:
            self._inputs = {seq: there for seq, there in self._inputs.items() if seq > floor}
        for seq in list(self._inputs)[: max(0, len(self._inputs) - INPUTS_KEPT)]:
            del self._inputs[seq]

    # -- looking --

    async def _message(self, message: Message) -> None:
        address = self._board.subjects.address(message.subject)
        fits = self._comparison is None or await self._comparison.fits(message)
        run = address.run if address else ""
        if not fits:
            problem = "the message is not the one that the notary signed there"
            self._found.add(Finding(problem=problem, seq=message.seq, run=run, what=CHANGED))
        if address is None:
            self._no_address(message)
        elif address.family == "fact":
            await self._fact(run, message)
        else:
            self._inputs[message.seq] = cited(message)

    def _no_address(self, message: Message) -> None:
        families = [self._board.subjects.every(family)[:-1] for family in ("fact", "wake")]
        if message.subject.startswith(tuple(families)):
            problem = f"{message.subject!r} names no run, and only a supervisor may write there"
            self._found.add(Finding(problem=problem, seq=message.seq))
        else:
            self._ignored += 1
        self._inputs[message.seq] = cited(message)

    async def _fact(self, run: str, message: Message) -> None:
        first, count = _numbers(message)
        self._events += count
        self._runs += first == 1
        if run not in self._broken:
            await self._audit(run, message)
        self._found.about(message.seq, run, first)
        if self._found.listed:
            self._name_causes(run, message, first)

    async def _audit(self, run: str, message: Message) -> None:
        before = 0
        try:
            auditor = await self._auditors.of(run, message.seq)
            before, inputs, states = auditor.folded.seq, auditor.inputs, auditor.states
            await fetch_cited(self._board, message, self._inputs)
            try:
                auditor.add(message, self._inputs.get)
            finally:
                self._cited += auditor.inputs - inputs
                self._states += auditor.states - states
            self._auditors.keep(run, auditor, len(message.data))
        except Violation as violation:
            self._broken.add(run)
            self._violated(violation, before)

    def _violated(self, violation: Violation, before: int) -> None:
        """A violation that follows from a finding says which event that finding is about."""
        run, version = violation.run, violation.version
        if violation.cause and self._found.about(violation.cause, run, version):
            return
        if self._found.about(violation.seq, run, version) or self._found.of_run(run):
            return
        lost = self._found.between(before, violation.seq)
        if len(lost) == 1 and not lost[0].version:
            self._found.about(lost[0].seq, run, version)
            return
        self._found.add(Finding(problem=violation.problem, seq=violation.seq, run=run, version=version))

    def _name_causes(self, run: str, message: Message, first: int) -> None:
        for number, seq in enumerate(causes(message)):
            self._found.about(seq, run, first + number)

    # -- what was signed --

    async def _compare_ends(self, comparison: Comparison) -> None:
        await comparison.finish()
        for seq, problem in comparison.problems:
            self._found.add(Finding(problem=problem, seq=seq))
        last = comparison.last
        if last is None or last.log != self._board.log.id:
            return
        upto = last.seq if self._head >= last.seq or await self._board.log.head() < last.seq else self._head
        if self._head < upto:
            problem = f"the log ends at sequence {self._head}, and was signed up to {upto}: its end was cut off"
            self._found.add(Finding(problem=problem, seq=self._head + 1, upto=upto, what=MISSING))
        for run, there in comparison.lost.items():
            if there.seq <= upto:  # what lies above was appended, and signed, while the log was being read
                await self._lost_end(run, there.version, there.seq)

    async def _lost_end(self, run: str, version: int, seq: int) -> None:
        """A run was signed up to `version`, by a message that did not come."""
        try:
            now = (await self._auditors.of(run, self._head + 1)).folded.state.version
        except Violation:
            return  # named already
        if now >= version:
            return
        if not any(one.run == run for one in self._found.listed) and self._found.about(seq, run, now + 1):
            return
        problem = f"lost: the run was signed up to event {version}, in the message at sequence {seq}"
        self._found.add(Finding(problem=problem, seq=seq, run=run, version=now + 1))


def _numbers(message: Message) -> tuple[int, int]:
    """The number of the first event of a fact message, and how many there are; 0 where it is none."""
    try:
        facts = decode_facts(message.data)
    except NotAFactMessage:
        return 0, 0
    return facts.first, len(facts.events)
