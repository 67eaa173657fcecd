"""The notary: reads the log, signs at intervals how far it goes, and leaves that with witnesses.

It goes on from its last head, which the witnesses hold and nothing else does, and signs nothing that contradicts it. It
appends nothing to the board.
"""

import asyncio
import logging
from collections.abc import Callable, Sequence

from nacl.signing import SigningKey

from blackboard.board import Board
from blackboard.log import LogDamaged, LogError, LogUnavailable
from projections.notary import Segment, Succession, leaf, public_of, sign
from projections.witness import Witness, WitnessUnavailable, agreed
from schemas.heads import HEAD_MESSAGES, LEAF_BYTES, Signed

log = logging.getLogger(__name__)


class Contradiction(LogError):
    """The log is not what was signed of it. `seq` is the first sequence that is known to be wrong."""

    def __init__(self, seq: int, problem: str) -> None:
        super().__init__(f"{problem}; nothing more is signed: see `blackboard verify --witness ... --key ...`")
        self.seq = seq


class Notary:
    """One log, one key, some witnesses. `clock_ms`: milliseconds since 1970, written into each head."""

    def __init__(
        self, board: Board, key: SigningKey, witnesses: Sequence[Witness], clock_ms: Callable[[], int]
    ) -> None:
        self._board, self._key, self._witnesses, self._clock_ms = board, key, list(witnesses), clock_ms
        self._succession = Succession(public_of(key))
        self._behind: list[Witness] = []
        self._untold: Signed | None = None

    @property
    def seq(self) -> int:
        """Up to where the log is signed."""
        return self._succession.seq

    @property
    def behind(self) -> list[str]:
        """The witnesses that lack what another holds."""
        return [witness.name for witness in self._behind]

    async def begin(self) -> None:
        """Read what the witnesses hold, and bring those that hold less up to it. All must answer, so that no two heads
        are signed with one number. Raises WitnessSpoilt, LogUnavailable, LogError."""
        for witness in self._witnesses:
            await witness.claim()
        async for _ in agreed(self._witnesses, self._succession, _bring):
            pass

    async def run(self, stop: asyncio.Event, every_s: float, on_signed: Callable[[Signed], None]) -> None:
        """Sign what is new every `every_s` seconds until `stop`, and a last time then; a log or a witness that is away
        is waited for. Raises Contradiction, LogDamaged, WitnessSpoilt."""
        while True:
            last = stop.is_set()
            try:
                for signed in await self.turn():
                    on_signed(signed)
            except LogUnavailable as error:
                log.warning("waiting: %s", error)
            if last:
                return
            try:
                async with asyncio.timeout(every_s):
                    await stop.wait()
            except TimeoutError:
                continue

    async def turn(self) -> list[Signed]:
        """Sign what is new, in as many heads as it takes; none where nothing is. Raises Contradiction, LogDamaged,
        WitnessUnavailable when no witness takes a head, LogError."""
        await self._mend()
        await self._require_what_was_signed()
        end, told = await self._board.log.head(), list[Signed]()
        while self._untold or self.seq < end:
            signed = self._untold or await self._next(min(end, self.seq + HEAD_MESSAGES))
            self._untold = signed  # whoever has it already: the same head goes to all
            await self._tell(signed)
            self._succession.follow(signed)
            self._untold = None
            told.append(signed)
        return told

    async def _next(self, upto: int) -> Signed:
        last = self._succession.last
        link = bytes.fromhex(last.head.digest) if last else b""
        segment = Segment(self._board.subjects, self._board.log.id, self.seq, link)
        async for messages in self._board.log.scan(after=self.seq, upto=upto):
            for message in messages:
                if message.seq != segment.seq + 1:
                    raise LogDamaged(segment.seq + 1, "the log does not give the message back")
                segment.add(message)
        if segment.seq != upto:
            raise LogDamaged(segment.seq + 1, "the log does not give the message back")
        return sign(segment.head(self._succession.number + 1, last.sha256 if last else "", self._clock_ms()), self._key)

    async def _require_what_was_signed(self) -> None:
        """Raise Contradiction where the log is another one, is shorter than what was signed, or has other messages at
        its beginning and where the last head ends. Between these `verify` looks."""
        last, board = self._succession.last, self._board
        now = await board.log.current_id()
        if now != (signed_id := last.head.log if last else board.log.id):
            raise Contradiction(1, f"the log was created anew: its id is {now}, and log {signed_id} was signed")
        if last is None:
            return
        end = await board.log.head()
        if end < self.seq:
            raise Contradiction(end + 1, f"the log ends at sequence {end}, and was signed up to {self.seq}: it was cut")
        for seq, signed_leaf in ((1, self._succession.first_leaf), (self.seq, last.head.leaf_bytes()[-LEAF_BYTES:])):
            if await self._leaf(seq) != signed_leaf:
                raise Contradiction(seq, f"the message at sequence {seq} is not the one that was signed")

    async def _leaf(self, seq: int) -> bytes:
        try:
            async for messages in self._board.log.scan(after=seq - 1, upto=seq):
                return leaf(messages[0])[:LEAF_BYTES]
        except LogDamaged:
            pass
        return b""

    async def _tell(self, signed: Signed) -> None:
        """Leave a head with every witness that lacks nothing; one that does not take it lacks it from now on. Raises
        what the last one said when none takes it."""
        asked = [one for one in self._witnesses if one not in self._behind]
        failed: list[Witness] = []
        refusal = WitnessUnavailable("no witness is up to date")
        for witness in asked:
            try:
                await witness.append(signed.head.number, signed.line)
            except LogUnavailable as error:
                log.warning("%s lacks head %d: %s", witness.name, signed.head.number, error)
                failed.append(witness)
                refusal = WitnessUnavailable(str(error))
        if len(failed) == len(asked):
            raise refusal
        self._behind += failed

    async def _mend(self) -> None:
        """Bring each witness that lacks heads up to one that does not. Raises WitnessSpoilt, LogError."""
        whole = next((one for one in self._witnesses if one not in self._behind), None)
        for witness in list(self._behind):
            if whole is None:
                return
            try:
                await witness.claim()
                async for _ in agreed([whole, witness], Succession(self._succession.public), _bring):
                    pass
                self._behind.remove(witness)
            except LogUnavailable as error:
                log.warning("%s still lacks heads: %s", witness.name, error)


async def _bring(witness: Witness, signed: Signed) -> None:
    await witness.append(signed.head.number, signed.line)
