"""Holding a log against the heads that a notary signed of it, message by message."""

from collections.abc import AsyncGenerator

from msgspec import Struct

from blackboard.log import Message
from projections.notary import Segment
from projections.witness import WitnessSpoilt
from schemas.heads import LEAF_BYTES, RunHead, Signed
from schemas.subjects import Subjects


class SignedUpto(Struct, frozen=True):
    """The newest head of the witnesses: its number, up to where it goes, and when it was signed."""

    number: int
    seq: int
    at_ms: int
    log: str


class Comparison:
    """What is read of the log is compared with the heads as they come. `whole`: every message is read, so the chain
    over all of them is compared too. `run`: only that one is read."""

    def __init__(self, heads: AsyncGenerator[Signed, None], subjects: Subjects, log: str, run: str = "") -> None:
        self._heads, self._subjects, self._log, self._run = heads, subjects, log, run
        self._signed: Signed | None = None
        self._leaves = b""
        self._segment = Segment(subjects, log)
        self._spoilt = self._ended = False
        self.last: SignedUpto | None = None
        self.problems: list[tuple[int, str]] = []
        """(sequence, what is wrong) of heads, not of messages."""
        self.lost: dict[str, RunHead] = {}
        """How far runs were signed to be, where the message that took them there did not come."""

    async def fits(self, message: Message) -> bool:
        """Whether the message is what was signed at its place; so is what lies above all heads."""
        await self._move(message.seq)
        if self._signed is None:
            return True
        whole = self._segment.add(message)
        at = (message.seq - self._signed.head.after - 1) * LEAF_BYTES
        if whole[:LEAF_BYTES] == self._leaves[at : at + LEAF_BYTES]:
            return True
        self._spoilt = True
        return False

    def passes_over(self) -> None:
        """A message is missing here."""
        self._spoilt = True

    async def finish(self) -> None:
        """Look at what is left of the heads."""
        while not self._ended:
            await self._next()

    async def _move(self, seq: int) -> None:
        while not self._ended and (self._signed is None or self._signed.head.seq < seq):
            await self._next()

    async def _next(self) -> None:
        self._close_segment()
        try:
            signed = await anext(self._heads, None)
        except WitnessSpoilt as spoilt:
            self.problems.append((self.last.seq + 1 if self.last else 1, str(spoilt)))
            signed = None
        self._signed, self._ended = signed, signed is None
        if signed is None:
            return
        head = signed.head
        self.last = SignedUpto(head.number, head.seq, head.at_ms, head.log)
        if head.log != self._log:
            problem = f"the log was created anew: its id is {self._log}, and the notary signed log {head.log}"
            self.problems.append((1, problem))
            self._signed, self._ended = None, True
            await self._drain()
            return
        self._leaves = head.leaf_bytes()
        self._segment = Segment(self._subjects, self._log, head.after, self._segment.link)
        self._spoilt = False

    async def _drain(self) -> None:
        try:
            async for signed in self._heads:
                self.last = SignedUpto(signed.head.number, signed.head.seq, signed.head.at_ms, signed.head.log)
        except WitnessSpoilt as spoilt:
            self.problems.append((1, str(spoilt)))

    def _close_segment(self) -> None:
        if self._signed is None:
            return
        head, segment = self._signed.head, self._segment
        for run, there in head.runs.items():
            found = segment.runs.get(run)
            if self._run in ("", run) and (found is None or found.seq < there.seq):
                self.lost[run] = there
        whole = not self._run and not self._spoilt and segment.seq == head.seq
        if whole and segment.link.hex() != head.digest:
            self.problems.append((head.seq, f"the digest of the log up to there is not that of head {head.number}"))
        segment.link = bytes.fromhex(head.digest)
