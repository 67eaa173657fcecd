"""The log on JetStream, and how a board is made and opened there.

Appending stands in `jetstream_append`, reading in `jetstream_read`; the queue and the blobs have modules of their own.
Source: the promises in `log`.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import NamedTuple

from blackboard.credentials import Credentials
from blackboard.jetstream_append import BATCH_FROM, Appender
from blackboard.jetstream_blobs import JetStreamBlobs
from blackboard.jetstream_direct import DirectReader, last_messages
from blackboard.jetstream_queue import JetStreamQueue
from blackboard.jetstream_read import HEARTBEAT_S, Reader
from blackboard.jetstream_streams import NoBoard, make_blobs, make_log, read_log_id
from blackboard.log import Append, Conflict, Handler, LogDamaged, LogError, Message, NotPermitted, Stored
from blackboard.nats_announcements import NatsAnnouncements
from blackboard.nats_connection import Connection, connect
from schemas.subjects import Subjects


class JetStreamLog:
    """One board's log over one connection.

    `log_id` is what `attach` read. An identity that may only append (a specialist's) need not know it.
    `batch_from`: the number of messages from which `append` uses an atomic batch; it depends on the server's
    durability. `deadline_s`: after that long without any result, LogUnavailable (None: what the connection has patience
    for). `direct`: read by direct gets, as whoever may make no consumer has to (None: as the identity of the connection
    has to).
    """

    def __init__(
        self,
        connection: Connection,
        subjects: Subjects,
        *,
        log_id: str | None = None,
        batch_from: int = BATCH_FROM,
        ack_timeout_s: float = 2.0,
        deadline_s: float | None = None,
        heartbeat_s: float = HEARTBEAT_S,
        direct: bool | None = None,
    ) -> None:
        self._connection, self._subjects, self._id = connection, subjects, log_id
        self._stream = subjects.log_stream
        self._direct = connection.in_agents if direct is None else direct
        self._captured = tuple(pattern.removesuffix(">") for pattern in subjects.log)
        self._deadline_s = deadline_s = connection.patience_s if deadline_s is None else deadline_s
        self._heartbeat_s = heartbeat_s
        self._appender = Appender(
            connection, self._stream, batch_from=batch_from, ack_timeout_s=ack_timeout_s, deadline_s=deadline_s
        )

    @property
    def id(self) -> str:
        if self._id is None:
            who, url = self._connection.who, self._connection.url
            raise NotPermitted(f"{who} may append to the log at {url}, and not read it")
        return self._id

    async def current_id(self) -> str:
        return await read_log_id(self._connection, self._subjects, self._deadline_s)

    async def append(self, *appends: Append) -> list[Stored | Conflict]:
        for item in appends:
            if not item.subject.startswith(self._captured):
                raise LogError(f"{item.subject!r} is not a subject of this log")
        return await self._appender.append(appends)

    async def head(self) -> int:
        return await self._appender.waves.gets.head()

    async def get(self, seq: int) -> Message | None:
        return await self._appender.waves.gets.get({"seq": seq}) if seq > 0 else None

    async def last(self, subject: str) -> Message | None:
        if self._direct and self._id is None and not _is_pattern(subject):
            return await self._appender.waves.gets.last_of(subject)  # all that a specialist's identity may read
        newest = {"last_by_subj": subject}
        if (message := await self._appender.waves.gets.get(newest)) is not None:
            return message
        first = await self._appender.waves.gets.next_message(subject, 0)
        if first is None:
            return None
        if (message := await self._appender.waves.gets.get(newest)) is not None:
            return message  # it came between our questions
        # So the server answers when the last message is damaged: as if there were none at all.
        raise LogDamaged(first.seq + 1, f"at or above that, the last message on {subject!r} is lost")

    async def read(self, subject: str, after: int = 0) -> AsyncIterator[Message]:
        newest = await self.last(subject)
        while newest is not None and after < newest.seq:
            message = await self._appender.waves.gets.next_message(subject, after)
            if message is None or message.seq > newest.seq:
                return
            after = message.seq
            yield message

    async def scan(
        self, subjects: Sequence[str] = (), after: int = 0, upto: int | None = None
    ) -> AsyncIterator[Sequence[Message]]:
        head = await self.head()
        end = head if upto is None else min(upto, head)
        if after >= end:
            return
        reader = self._reader(subjects, after, self._deadline_s)
        try:
            await reader.open()
            while reader.position < end and reader.pending:
                messages = await reader.next()
                found = [message for message in messages if message.seq <= end]
                if found:
                    yield found
                if not messages:
                    break  # the server says that there is nothing more
        finally:
            await reader.close()
        if reader.position < end:
            async for message in self._rest(subjects, reader.position, end):
                yield [message]

    async def _rest(self, subjects: Sequence[str], after: int, end: int) -> AsyncIterator[Message]:
        """What a consumer did not give: on a cluster it may run where the last messages have not come yet. Asked of
        the leader one by one; there is seldom anything."""
        while after < end:
            if subjects:
                asked = [self._appender.waves.gets.next_message(one, after) for one in subjects]
                found = [one for one in await asyncio.gather(*asked) if one is not None and one.seq <= end]
            elif (next_one := await self.get(after + 1)) is None:
                raise LogDamaged(after + 1, "the log does not give the message back")
            else:
                found = [next_one]
            if not found:
                return
            message = min(found, key=lambda one: one.seq)
            after = message.seq
            yield message

    async def last_per_subject(self, subject: str) -> AsyncIterator[Message]:
        if self._direct:
            async for message in last_messages(self._connection, self._stream, subject):
                yield message
            return
        reader = Reader(self._connection, self._stream, [subject], 0, last_only=True, heartbeat_s=self._heartbeat_s)
        try:
            await reader.open()
            while reader.pending:
                messages = await reader.next()
                for message in messages:
                    yield message
                if not messages:
                    break
        finally:
            await reader.close()
        # On a cluster the consumer may run where the last messages have not come yet. The leader has them.
        async for message in self.read(subject, after=reader.position):
            yield message

    async def subscribe(
        self, handler: Handler, subjects: Sequence[str] = (), after: int = 0
    ) -> "JetStreamSubscription":
        reader = self._reader(subjects, after)
        try:
            await reader.open()
        except BaseException:
            await reader.close()
            raise
        return JetStreamSubscription(reader, handler)

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        self._connection.on_reconnect(callback)

    def _reader(self, subjects: Sequence[str], after: int, patience_s: float | None = None) -> Reader | DirectReader:
        if self._direct:
            of_runs = [subject for subject in subjects if ".fact." in subject]
            hints = of_runs if of_runs and ">" not in "".join(of_runs) else [self._subjects.fact("*")]
            return DirectReader(self._connection, self._stream, subjects, after, hints=hints, patience_s=patience_s)
        return Reader(self._connection, self._stream, subjects, after, heartbeat_s=self._heartbeat_s)


def _is_pattern(subject: str) -> bool:
    return "*" in subject or ">" in subject


class JetStreamSubscription:
    """A running read; see `log.Subscription`."""

    def __init__(self, reader: Reader | DirectReader, handler: Handler) -> None:
        self._reader, self._handler = reader, handler
        self._closed = False
        self._task = asyncio.create_task(self._run())

    async def _run(self) -> None:
        try:
            while not self._closed:
                messages = await self._reader.next()
                if messages:
                    await self._handler(messages)
        finally:
            await self._reader.close()

    async def close(self) -> None:
        self._closed = True
        if asyncio.current_task() is not self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def wait(self) -> None:
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (failure := self._task.exception()):
            raise failure


class Ports(NamedTuple):
    """Everything that one board offers over one connection."""

    log: JetStreamLog
    queue: JetStreamQueue
    blobs: JetStreamBlobs
    announcements: NatsAnnouncements


CLUSTER_REPLICAS = 3


async def create_board(connection: Connection, subjects: Subjects, *, replicas: int | None = None) -> Ports:
    """Make the board's log, task queue and blob store where they do not exist, and attach to it. Idempotent.

    `replicas`: on how many servers each of them lies [default: 3 on a cluster, else 1]. Raises NoBoard when this
    identity may not make one, StreamMismatch when something of that name exists and is not what a board needs,
    LogUnavailable, LogError.
    """
    replicas = replicas or (CLUSTER_REPLICAS if connection.in_cluster else 1)
    try:
        log_id = await make_log(connection, subjects, replicas)
    except NotPermitted as refused:
        try:
            await read_log_id(connection, subjects)
        except NoBoard:
            raise NoBoard(
                f"there is no board {subjects.board!r} at {connection.url}, and {connection.who} may not make one: "
                "its administrator does, with `blackboard create --creds admin.creds`"
            ) from refused
        raise  # it is there, or this identity cannot know
    await make_blobs(connection, subjects, replicas)
    ports = _ports(connection, subjects, log_id)
    await ports.queue.ensure([])
    return ports


async def attach(connection: Connection, subjects: Subjects) -> Ports:
    """Attach to a board that exists. A specialist's identity appends to the log, and may not know its id.
    Raises NoBoard, StreamMismatch, LogUnavailable, LogError."""
    try:
        log_id = await read_log_id(connection, subjects)
    except NotPermitted:
        if not connection.in_agents:
            raise
        log_id = None
    return _ports(connection, subjects, log_id)


@asynccontextmanager
async def open_board(
    url: str,
    subjects: Subjects,
    name: str = "blackboard",
    create: bool = False,
    credentials: Credentials | None = None,
    *,
    ca: str = "",
    replicas: int | None = None,
) -> AsyncIterator[Ports]:
    """A connection of its own, attached to the board, which `create` makes where it does not exist. Raises what
    `connect`, `create_board` and `attach` raise."""
    connection = await connect(url, name, credentials=credentials, ca=ca)
    try:
        yield await (create_board(connection, subjects, replicas=replicas) if create else attach(connection, subjects))
    finally:
        await connection.close()


def _ports(connection: Connection, subjects: Subjects, log_id: str | None) -> Ports:
    return Ports(
        JetStreamLog(connection, subjects, log_id=log_id),
        JetStreamQueue(connection, subjects),
        JetStreamBlobs(connection, subjects),
        NatsAnnouncements(connection, subjects),
    )
