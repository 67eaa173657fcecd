"""How an identity reads the log that may make no consumer: whoever chooses where a consumer delivers can have the
server write anywhere in the account of the log.

What comes next is asked of the leader, so that neither a follower that lags nor a lost message looks like the end; what
follows that comes in batches by direct gets. Nothing pushes to such an identity but core NATS: what it hears there on
fact subjects says only that it is worth asking again.
Source: NATS architecture decision record 31 (direct gets).
"""

import asyncio
import secrets
from collections import deque
from collections.abc import AsyncIterator, Sequence
from typing import Any

import msgspec
from nats.aio.msg import Msg

from blackboard import jetstream_wire as wire
from blackboard.jetstream_streams import subjects_of
from blackboard.log import LogDamaged, LogUnavailable, Message
from blackboard.nats_connection import Connection, Listener
from blackboard.nats_errors import ApiError, status_of

BATCH = 500
"""Messages asked for at once."""
BATCH_BYTES = 4 * 1024 * 1024
SUBJECTS = 500
"""Subjects whose last message is asked for at once; the server takes 1024, in a request that identities may send."""
SILENCE_S = 2.0
"""After so long without the next message of a batch it is taken for ended; what lacks is asked for again."""
POLL_S = 1.0
SOON_S = 0.005
"""The first pause after a hint; a message is heard before it is stored."""
RETRY_S = 0.2


class Gets:
    """Gets of one connection from one stream: single ones of the leader, and direct ones, whose answer is a series of
    messages. `deadline_s`: how long the leader has to answer (None: what the connection has patience for)."""

    def __init__(self, connection: Connection, stream: str, deadline_s: float | None = None) -> None:
        self._connection, self._stream, self._deadline_s = connection, stream, deadline_s
        self._inbox = connection.client.new_inbox()
        self._listener: Listener | None = None
        self._series: dict[str, asyncio.Queue[Msg]] = {}

    async def find(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """The leader's answer of STREAM.MSG.GET, or None when there is no such message."""
        try:
            return await self._connection.api(f"STREAM.MSG.GET.{self._stream}", body, self._deadline_s)
        except ApiError as error:
            if error.err_code == wire.NOT_FOUND:
                return None
            raise

    async def get(self, body: dict[str, Any]) -> Message | None:
        """The message that the leader has there."""
        answer = await self.find(body)
        return wire.stored(answer) if answer else None

    async def next_message(self, subject: str, after: int) -> Message | None:
        """The first message on `subject` above `after`, asked of the leader; None when there is none yet."""
        return await self.get({"seq": after + 1, "next_by_subj": subject})

    async def head(self) -> int:
        """The last sequence of the stream, of the leader."""
        answer = await self._connection.api(f"STREAM.INFO.{self._stream}", None, self._deadline_s)
        return int(answer["state"]["last_seq"])

    async def last_of(self, subject: str) -> Message | None:
        """The last message on one subject without wildcards, whose name alone is asked for. On a cluster it may be
        behind."""
        found = [message async for message in self.ask({}, f".{subject}")]
        return found[0] if found else None

    async def ask(self, body: dict[str, Any], subject: str = "") -> AsyncIterator[Message]:
        """The messages that answer, as far as they come. Raises LogUnavailable, NotPermitted."""
        if self._listener is None:
            self._listener = await self._connection.listen(f"{self._inbox}.*", self._on_message)
        token = secrets.token_hex(8)
        answers = self._series[token] = asyncio.Queue()
        asked = self._connection.api_subject(f"DIRECT.GET.{self._stream}{subject}")
        guard, failed = self._connection.answers.expect(asked)
        try:
            payload = msgspec.json.encode(body) if body else b""
            await self._connection.publish(asked, payload, f"{self._inbox}.{token}")
            while raw := await _first(answers, failed):
                if not wire.is_stored(raw):
                    if status_of(raw) == "503":
                        raise LogUnavailable("the stream has no leader, or does not exist")
                    return
                yield wire.direct(raw)
                if not body:
                    return
        finally:
            self._connection.answers.forget(guard)
            del self._series[token]

    async def _on_message(self, message: Msg) -> None:
        if answers := self._series.get(message.subject.rpartition(".")[2]):
            answers.put_nowait(message)

    async def close(self) -> None:
        if self._listener is not None:
            await self._listener.close()
            self._listener = None


async def _first(answers: "asyncio.Queue[Msg]", failed: "asyncio.Future[Msg]") -> Msg | None:
    """The next answer; None after a silence. Raises what `failed` holds: refused, or disconnected."""
    if not answers.empty():
        return answers.get_nowait()
    coming = asyncio.ensure_future(answers.get())
    try:
        await asyncio.wait([coming, failed], timeout=SILENCE_S, return_when=asyncio.FIRST_COMPLETED)
        if coming.done():
            return coming.result()
        if failed.done():
            message = failed.result()
            raise LogUnavailable(f"no answer but {status_of(message)}")
        return None
    finally:
        coming.cancel()


class _Series:
    """The messages on one pattern, read ahead."""

    def __init__(self, pattern: str, after: int) -> None:
        self.pattern, self.after = pattern, after
        self.ahead: deque[Message] = deque()
        self.dry = False

    async def fill(self, gets: Gets) -> None:
        """Read ahead, unless something is there. Dry when the leader has nothing more."""
        if self.ahead:
            return
        found = await gets.next_message(self.pattern, self.after)
        self.dry = found is None
        if found is None:
            return
        self.ahead.append(found)
        self.after = found.seq
        body = {"seq": found.seq + 1, "batch": BATCH, "max_bytes": BATCH_BYTES, "next_by_subj": self.pattern}
        async for message in gets.ask(body):
            if message.seq <= self.after:
                return
            self.ahead.append(message)
            self.after = message.seq


class DirectReader:
    """Reads `subjects` (none: all) of a stream above sequence `after`, without end; the same surface as `Reader`.
    `hints` are subjects on which core NATS tells that there may be something. `patience_s`: how long the leader may be
    away (None: for ever). One task at a time may read."""

    def __init__(
        self,
        connection: Connection,
        stream: str,
        subjects: Sequence[str] = (),
        after: int = 0,
        *,
        hints: Sequence[str] = (),
        patience_s: float | None = None,
    ) -> None:
        self.position = after
        """The sequence of the last message handed over, or where reading began."""
        self.pending = 1
        """More than 0 unless the leader has nothing more."""
        self.idle = False
        """Whether the leader has said, since the last message, that it has nothing more."""
        self._connection, self._gets = connection, Gets(connection, stream, patience_s)
        self._patience_s = patience_s
        self._all = not subjects
        self._series = [_Series(pattern, after) for pattern in (subjects or [">"])]
        self._hints, self._listeners = hints, list[Listener]()
        self._something = asyncio.Event()
        self._pause_s = SOON_S
        self._forget_reconnect = connection.on_reconnect(self._something.set)

    async def open(self) -> None:
        """Listen for hints, where that is permitted. Raises Disconnected."""

        async def hear(_: Msg) -> None:
            self._pause_s = SOON_S
            self._something.set()

        for hint in self._hints:
            self._listeners.append(await self._connection.listen(hint, hear, lambda _: None))

    async def next(self) -> list[Message]:
        """The next messages; none when there are no more at the moment. Raises LogDamaged, NotPermitted, or LogError
        when the stream is gone; LogUnavailable when it was away for `patience_s`."""
        if self.idle:
            await self._wait()
        loop = asyncio.get_running_loop()
        began_s = loop.time()
        while True:
            try:
                messages = await self._take()
                break
            except LogUnavailable:  # a single question was patient itself, unless there is no connection at all
                tired = self._patience_s is not None and loop.time() - began_s > self._patience_s / 2
                if tired or self._connection.is_closed:
                    raise
                await asyncio.sleep(RETRY_S)
        self.idle = not messages
        self.pending = 0 if self.idle else 1
        if messages:
            self.position, self._pause_s = messages[-1].seq, SOON_S
        return messages

    async def _wait(self) -> None:
        self._something.clear()
        try:
            await asyncio.wait_for(self._something.wait(), self._pause_s)
        except TimeoutError:
            self._pause_s = min(self._pause_s * 2, POLL_S)
        else:
            await asyncio.sleep(SOON_S)

    async def _take(self) -> list[Message]:
        """In order, what is certain: a message is, once every other series has one above it or is at its end."""
        await asyncio.gather(*(one.fill(self._gets) for one in self._series))
        if self._all:
            return await self._without_gaps()
        taken: list[Message] = []
        while full := [one for one in self._series if one.ahead]:
            first = min(full, key=lambda one: one.ahead[0].seq)
            message = first.ahead.popleft()
            if message.seq > (taken[-1].seq if taken else self.position):  # patterns may overlap
                taken.append(message)
            if not first.ahead:
                break  # what follows it is not known
        # A series that was at its end when it was asked may have more by now, below what another one has.
        if taken and any(one.dry for one in self._series):
            return await self._caught_up(taken)
        return taken

    async def _caught_up(self, taken: list[Message]) -> list[Message]:
        """Only what lies below the first message that a series had no notice of when it said that it was at its end."""
        dry = [one for one in self._series if one.dry]
        late = await asyncio.gather(*(self._gets.next_message(one.pattern, one.after) for one in dry))
        first = min((message.seq for message in late if message), default=None)
        if first is None:
            return taken
        kept = [message for message in taken if message.seq < first]
        position = kept[-1].seq if kept else self.position
        self._series = [_Series(one.pattern, position) for one in self._series]  # what follows is read again
        return kept or await self._take()

    async def _without_gaps(self) -> list[Message]:
        (series,) = self._series
        taken: list[Message] = []
        position = self.position
        while series.ahead and series.ahead[0].seq == position + 1:
            taken.append(series.ahead.popleft())
            position += 1
        if series.ahead:
            series.ahead.clear()
            series.after = position
        if not taken and await self._gets.head() > position and not await self._there(position + 1):
            raise LogDamaged(position + 1, "the log does not give the message back")
        return taken

    async def _there(self, seq: int) -> bool:
        found = await self._gets.next_message(">", seq - 1)
        return found is not None and found.seq == seq

    async def close(self) -> None:
        self._forget_reconnect()
        self._forget_reconnect = lambda: None
        for listener in self._listeners:
            await listener.close()
        self._listeners = []
        await self._gets.close()


async def last_messages(connection: Connection, stream: str, pattern: str) -> AsyncIterator[Message]:
    """The last message of each subject that matches, in order of sequence."""
    gets = Gets(connection, stream)
    try:
        head, subjects, found = await gets.head(), await subjects_of(connection.api, stream, pattern), list[Message]()
        for start in range(0, len(subjects), SUBJECTS):
            body = {"multi_last": subjects[start : start + SUBJECTS], "up_to_seq": head, "batch": SUBJECTS}
            asked = set(body["multi_last"])  # type: ignore[call-overload]
            async for message in gets.ask(body):
                asked.discard(message.subject)
                found.append(message)
            for subject in asked:  # a follower that lags has not got them yet
                if newest := await gets.get({"last_by_subj": subject}):
                    found.append(newest)
        for message in sorted(found, key=lambda one: one.seq):
            yield message
    finally:
        await gets.close()
