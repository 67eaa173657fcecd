"""Verifying a log from its first message to its head: nothing is missing, every run is what was written and follows
from inputs that are there, and, where a notary has signed it, every message is the one that was signed.

Memory is bounded: inputs are remembered up to a number (what is cited later is asked for), runs up to a number of
bytes (what goes on later is read again), findings up to a number (the rest is counted).
"""

from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Sequence

from msgspec import Struct

from blackboard.board import Board, floor_of
from blackboard.log import LogDamaged, Message
from projections.audit import Auditor, Cited, Violation, causes, cited, garbage
from projections.rebuild import fetch_cited
from projections.verify_findings import Finding, Findings
from projections.verify_signed import Comparison, SignedUpto
from projections.witness import Witness
from schemas.codec import NotAFactMessage, facts_of

INPUTS_KEPT = 50_000
RUNS_KEPT_BYTES = 32_000_000
"""Bytes of the fact messages of the runs in memory."""


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
    witnesses: Sequence[Witness] = (),
    key: str = "",
    on_progress: OnProgress | None = None,
) -> Verdict:
    """Walk the whole log, or what belongs to one `run`, as it is at the call; compare with what `witnesses` hold of the
    notary whose public key is `key`. Raises LogUnavailable, LogError."""
    walk = _Walk(board, run, await board.log.head(), on_progress)
    return await walk.verdict(witnesses, key)


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


class _Walk:
    def __init__(self, board: Board, run: str, head: int, on_progress: OnProgress | None) -> None:
        self._board, self._run, self._head, self._on_progress = board, run, head, on_progress
        self._auditors, self._inputs = _Auditors(board), dict[int, Cited]()
        self._found = Findings(head)
        self._comparison: Comparison | None = None
        self._broken: set[str] = set()
        self._messages = self._runs = self._events = self._ignored = self._cited = self._states = 0

    async def verdict(self, witnesses: Sequence[Witness], key: str) -> Verdict:
        if witnesses:
            self._comparison = Comparison(self._board, self._run, self._head, witnesses, key, self._found.lost)
        async for message in self._read():
            self._messages += 1
            await self._message(message)
        if self._run:
            await self._require_end()
        if self._comparison:
            await self._comparison.finish()
            for seq, problem in self._comparison.problems:
                self._found.add(Finding(problem=problem, seq=seq))
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
            findings=self._found.in_order(),
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
                await self._miss(position + 1, seq - 1)
                return
            yield there
            position += 1

    async def _miss(self, first: int, last: int) -> None:
        signed = await self._comparison.pass_over(last) if self._comparison else 0
        if signed < last:
            self._found.gap(max(first, signed + 1), last)

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
        run = address.run if address else ""
        if self._comparison and (signed := await self._comparison.fits(message)):
            self._found.changed(signed, message.subject)
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
        first, count = _numbers(message, self._board.log.id, run)
        self._events += count
        self._runs += first == 1
        if run not in self._broken:
            await self._audit(run, message)
        self._found.about(message.seq, run, first)
        for number, seq in enumerate(causes(message, self._board.log.id, run) if self._found.listed else ()):
            self._found.about(seq, run, first + number)

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
            if auditor.folded.passed and (found := garbage(auditor.folded, message)):
                self._found.passed_over(found)
            self._auditors.keep(run, auditor, len(message.data))
        except Violation as violation:
            self._broken.add(run)
            self._found.violated(violation, before)


def _numbers(message: Message, log: str, run: str) -> tuple[int, int]:
    """The number of the first event of a fact message of `run`, and how many there are; 0 where it is none."""
    try:
        facts = facts_of(message.data, log, run)
    except NotAFactMessage:
        return 0, 0
    return facts.first, len(facts.events)
