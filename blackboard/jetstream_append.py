"""Appending: everything that one process appends goes out in waves, one after the other.

While a wave is under way its followers gather, so the more there is to do the larger the next one is. With
`sync_interval: always` each message on its own costs an fsync, and an atomic batch of any size a few, as it is staged
on disk first. So a small wave goes as pipelined single messages, and a large one as a batch; the number from which a
batch is cheaper is measured.
Source: the promises of `append` in `log`; the measurement is `BATCH_FROM`'s.
"""

import asyncio
from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from blackboard import jetstream_wire as wire
from blackboard.jetstream_wave import Outcome, Waves
from blackboard.log import Append, Conflict, LogError, Stored, TooLarge
from blackboard.nats_connection import Connection

BATCH_FROM = 24
"""Measured with `sync_interval: always`: at 16 messages single ones are ahead, at 24 both take as long, at 100 a batch
is three times as fast."""
WAVE_LIMIT = 1000
"""The server takes no more messages in one batch."""
WAVE_BYTES = 8 * 1024 * 1024
HEADER_ROOM_BYTES = 512
"""What the headers of the protocol may add to a message."""


class _Call:
    """One call of `append` and what is known about its messages."""

    def __init__(self, count: int) -> None:
        loop = asyncio.get_running_loop()
        self.outcomes: list[Outcome | None] = [None] * count
        self.left = count
        self.since = loop.time()
        self.done: asyncio.Future[None] = loop.create_future()

    def settle(self, number: int, outcome: Outcome) -> None:
        self.outcomes[number] = outcome
        self.left -= 1
        if not self.left and not self.done.done():
            self.done.set_result(None)

    def fail(self, error: BaseException) -> None:
        if not self.done.done():
            self.done.set_exception(error)


class _Waiting(NamedTuple):
    item: Append
    call: _Call
    number: int


class Appender:
    """Appends to one stream. `batch_from` is the number of messages from which a wave goes as an atomic batch; for the
    times see `Waves`."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        *,
        batch_from: int = BATCH_FROM,
        ack_timeout_s: float = 2.0,
        deadline_s: float = 5.0,
    ) -> None:
        self._connection = connection
        self._batch_from = max(batch_from, 2)
        self.waves = Waves(connection, stream, ack_timeout_s, deadline_s)
        self._waiting: deque[_Waiting] = deque()
        self._running: asyncio.Task[None] | None = None

    async def append(self, appends: Sequence[Append]) -> list[Stored | Conflict]:
        """See `Log.append`."""
        for item in appends:
            self._check(item)
        if not appends:
            return []
        call = _Call(len(appends))
        self._waiting.extend(_Waiting(item, call, number) for number, item in enumerate(appends))
        if self._running is None or self._running.done():
            self._running = asyncio.create_task(self._run())
        await call.done
        outcomes: list[Stored | Conflict] = []
        for outcome in call.outcomes:
            if isinstance(outcome, LogError):
                raise outcome
            assert outcome is not None
            outcomes.append(outcome)
        return outcomes

    def _check(self, item: Append) -> None:
        size = len(item.data)
        for name, value in (item.headers or {}).items():
            if name.startswith(wire.SERVER_HEADERS):
                raise LogError(f"header {name!r} speaks to the server and may not be set")
            size += len(name) + len(value.encode()) + 4
        limit = self._connection.max_payload - HEADER_ROOM_BYTES
        if size > limit:
            raise TooLarge(f"{item.subject}: {size} bytes with headers; the log takes {limit}")

    async def _run(self) -> None:
        """Send wave after wave until nothing waits."""
        while self._waiting:
            wave = self._next_wave()
            try:
                outcomes = await self._send([one.item for one in wave], min(one.call.since for one in wave))
                for one, outcome in zip(wave, outcomes, strict=True):
                    one.call.settle(one.number, outcome)
            except BaseException as error:  # nobody else would tell the callers
                for one in wave:
                    one.call.fail(error)
                if not isinstance(error, Exception):
                    raise

    def _next_wave(self) -> list[_Waiting]:
        """What waits, in order, up to the limits, and up to a second message with an expected sequence for the same
        subject: in one batch it would be refused, and all with it."""
        wave: list[_Waiting] = []
        subjects: set[str] = set()
        size = 0
        while self._waiting and len(wave) < WAVE_LIMIT and size < WAVE_BYTES:
            item = self._waiting[0].item
            if item.expected is not None and item.subject in subjects:
                break
            subjects.add(item.subject)
            size += len(item.data)
            wave.append(self._waiting.popleft())
        return wave

    async def _send(self, appends: Sequence[Append], since: float) -> Sequence[Outcome]:
        together = len(appends) >= self._batch_from and not any(one.among for one in appends)
        stored = await self.waves.batch(appends) if together else None
        return stored if stored is not None else await self.waves.singles(appends, since)
