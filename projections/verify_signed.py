"""Holding a log against the heads that a notary signed of it, message by message."""

from collections.abc import Callable, Sequence

from msgspec import Struct

from blackboard.board import Board
from blackboard.log import Message
from projections.notary import Segment, Succession
from projections.verify_findings import Place
from projections.witness import Witness, WitnessSpoilt, agreed
from schemas.heads import LEAF_BYTES, Head, Signed
from schemas.subjects import Subjects


class SignedUpto(Struct, frozen=True):
    """The newest head of the witnesses: its number, up to where it goes, and when it was signed."""

    number: int
    seq: int
    at_ms: int
    log: str


class _Covered:
    """What one head says of each message."""

    def __init__(self, head: Head, subjects: Subjects) -> None:
        self.head = head
        self._leaves, self._numbers = head.leaf_bytes(), head.subject_numbers()
        self._facts = {facts.seq: facts for facts in head.facts}
        addresses = [subjects.address(subject) for subject in head.subjects]
        self._runs = [address.run if address else "" for address in addresses]

    def leaf(self, seq: int) -> bytes:
        at = (seq - self.head.after - 1) * LEAF_BYTES
        return self._leaves[at : at + LEAF_BYTES]

    def place(self, seq: int) -> Place:
        number, facts = self._numbers[seq - self.head.after - 1], self._facts.get(seq)
        first, last = (facts.first, facts.last) if facts else (0, 0)
        return Place(seq, self.head.subjects[number], self._runs[number], first, last)


class Comparison:
    """What is read of the log, up to sequence `head`, is compared with the heads of the witnesses as they come: each
    message, and where all are read the chain over them too. `run`: only that one is read. Called with rising sequences.
    `on_missing` is told of what was signed and did not come."""

    def __init__(
        self,
        board: Board,
        run: str,
        head: int,
        witnesses: Sequence[Witness],
        key: str,
        on_missing: Callable[[Place], None],
    ) -> None:
        self._heads = agreed(witnesses, Succession(key), doubtful=self._doubt)
        self._board, self._run, self._on_missing = board, run, on_missing
        self._head = self._newest = head
        self._covered: _Covered | None = None
        self._segment = Segment(board.subjects, board.log.id)
        self._position = 0
        self._ended = self._foreign = self._spoilt = False
        self.last: SignedUpto | None = None
        self.problems: list[tuple[int, str]] = []
        """(sequence, what is wrong) of heads, not of messages."""

    async def fits(self, message: Message) -> Place | None:
        """What was signed in the place of the message; None where it is that, or lies above all heads."""
        await self._go_to(message.seq)
        self._position = message.seq
        if self._covered is None:
            return None
        self._spoilt = self._spoilt or message.seq != self._segment.seq + 1
        whole = self._segment.add(message)
        if whole[:LEAF_BYTES] == self._covered.leaf(message.seq):
            return None
        self._spoilt = True
        return self._covered.place(message.seq)

    async def pass_over(self, upto: int) -> int:
        """Nothing came between the last message and `upto`; up to where that was signed."""
        await self._go_to(upto + 1)
        return min(upto, self.last.seq) if self.last and not self._foreign else 0

    async def finish(self) -> None:
        """Look at what is left of the heads."""
        while not self._ended:
            await self._next()
        if self.last is None and self._head and not self.problems:
            self.problems.append((1, "no witness holds a head of this board: nothing was compared"))

    async def _go_to(self, seq: int) -> None:
        while not self._ended and (self._covered is None or self._covered.head.seq < seq):
            await self._next()
        if self._covered:
            self._miss(self._covered, seq - 1)

    def _miss(self, covered: _Covered, upto: int) -> None:
        """Nothing came between the position and `upto`. What was appended, and signed, since reading began does not
        count."""
        for seq in range(max(self._position, covered.head.after) + 1, upto + 1):
            place = covered.place(seq)
            if self._run in ("", place.run) and not self._head < seq <= self._newest:
                self._on_missing(place)
        self._position = max(self._position, upto)

    async def _next(self) -> None:
        if self._covered:
            self._close(self._covered)
        try:
            signed = await anext(self._heads, None)
        except WitnessSpoilt as spoilt:
            self._doubt(spoilt)
            signed = None
        self._covered = None
        if signed is None:
            self._ended = True
            return
        self.last = _upto(signed)
        log_id, subjects = self._board.log.id, self._board.subjects
        if signed.head.log != log_id:
            problem = f"the log was created anew: its id is {log_id}, and the notary signed log {signed.head.log}"
            self.problems.append((1, problem))
            self._ended = self._foreign = True
            await self._drain()
            return
        if signed.head.seq > self._newest:
            self._newest = await self._board.log.head()
        self._covered = _Covered(signed.head, subjects)
        self._segment = Segment(subjects, log_id, signed.head.after, self._segment.link)
        self._spoilt = False

    def _close(self, covered: _Covered) -> None:
        self._miss(covered, covered.head.seq)
        whole = not self._run and not self._spoilt and self._segment.seq == covered.head.seq
        if whole and self._segment.link.hex() != covered.head.digest:
            problem = f"the digest of the log up to there is not that of head {covered.head.number}"
            self.problems.append((covered.head.seq, problem))
        self._segment.link = bytes.fromhex(covered.head.digest)

    async def _drain(self) -> None:
        try:
            async for signed in self._heads:
                self.last = _upto(signed)
        except WitnessSpoilt as spoilt:
            self._doubt(spoilt)

    def _doubt(self, spoilt: WitnessSpoilt) -> None:
        self.problems.append((self.last.seq + 1 if self.last else 1, str(spoilt)))


def _upto(signed: Signed) -> SignedUpto:
    return SignedUpto(signed.head.number, signed.head.seq, signed.head.at_ms, signed.head.log)
