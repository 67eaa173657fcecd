"""A copy of a board in a file: its log and its blobs, as the server's own snapshots.

The task queue is not in it, for it follows from the log. The server sends a snapshot in numbered chunks and goes on
when we acknowledge them, so memory stays flat. The file appears under its name when it is whole and synced, or not.
Source: NATS documentation, JetStream API reference, sections Snapshots and Restores.
"""

import asyncio
import contextlib
import os
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, NamedTuple

import msgspec
from nats.aio.msg import Msg

from blackboard import jetstream_wire as wire
from blackboard.backup_file import BackupWriter, Beginning, Header
from blackboard.jetstream_read import Reader
from blackboard.jetstream_streams import NoBoard, log_id_of
from blackboard.log import LogDamaged, LogError, LogUnavailable
from blackboard.nats_connection import Connection
from blackboard.nats_errors import ApiError, Disconnected
from schemas.subjects import Subjects

CHUNK_BYTES = 128 * 1024
WINDOW_BYTES = 1024 * 1024
"""Under way at most, unacknowledged."""
ANSWER_TIMEOUT_S = 30.0
PATIENCE_S = 15.0
"""Without a chunk. The server itself gives up after 5 s without an acknowledgement, and says so."""

LOOK_S = 0.2

Tell = Callable[[str, int, int], object]
"""Hears of a stream's name, the bytes that were copied of it, and how many there are (compressed: fewer)."""


class BackupFailed(LogError):
    """The copy was not made, and there is no file; the text says why."""


class Copied(NamedTuple):
    """What is in a file that was written."""

    header: Header
    messages: int
    bytes: int
    sha256: str


async def back_up(
    connection: Connection, subjects: Subjects, path: Path, *, replace: bool = False, tell: Tell = lambda *_: None
) -> Copied:
    """Copy the board into the file at `path`, which `replace` replaces where it exists. Raises NoBoard, BackupFailed
    (where something is damaged, too), LogUnavailable, OSError; then there is no new file."""
    with _whole_or_nothing(path, replace) as file:
        return await _copy(connection, subjects, file, tell)


async def _copy(connection: Connection, subjects: Subjects, file: BinaryIO, tell: Tell) -> Copied:
    log, *others = subjects.kept
    async with _snapshot(connection, log) as snapshot:
        said = await _begin(connection, snapshot)
        state = said["state"]
        log_id = log_id_of(subjects, said["config"])
        header = Header(board=subjects.board, log=log_id, last=state["last_seq"], streams=subjects.kept)
        writer = BackupWriter(file, header)
        await _write(writer, snapshot, said, tell)
    await _check_readable(connection, log, state, dense=True)  # from a log nothing is ever removed
    for stream in others:
        async with _snapshot(connection, stream) as snapshot:
            said = await _begin(connection, snapshot)
            await _write(writer, snapshot, said, tell)
        await _check_readable(connection, stream, said["state"], dense=False)
    trailer = writer.close()
    return Copied(header, state["messages"], writer.bytes, trailer.sha256)


async def _begin(connection: Connection, snapshot: "_Snapshot") -> dict[str, Any]:
    try:
        return await snapshot.begin()
    except ApiError as error:
        if error.err_code == wire.NO_STREAM:
            raise NoBoard(f"no backup: stream {snapshot.stream} does not exist at {connection.url}") from None
        raise BackupFailed(f"no backup: the server makes no copy of {snapshot.stream}: {error.description}") from None


async def _write(writer: BackupWriter, snapshot: "_Snapshot", said: dict[str, Any], tell: Tell) -> None:
    writer.begin(Beginning(snapshot.stream, said["config"], said["state"]))
    await snapshot.copy(writer, lambda done: tell(snapshot.stream, done, said["state"]["bytes"]))
    writer.end()


async def _check_readable(connection: Connection, stream: str, state: Mapping[str, Any], dense: bool) -> None:
    """Raise unless the server gives every message back that it counts: it copies without a word what is left where it
    finds one damaged. A `dense` stream lacks no sequence."""
    last, found = state["last_seq"], 0
    reader = Reader(connection, stream, () if dense else [">"], headers_only=True)
    try:
        async with asyncio.timeout(PATIENCE_S) as limit:
            await reader.open()
            while reader.position < last:
                messages = await reader.next()
                found += sum(one.seq <= last for one in messages)
                if messages:
                    limit.reschedule(asyncio.get_running_loop().time() + PATIENCE_S)
                elif found >= state["messages"]:
                    break
                else:
                    await asyncio.sleep(LOOK_S)  # on a cluster it may not be there yet
    except TimeoutError:
        pass
    except LogDamaged as damaged:
        raise BackupFailed(f"no backup: {damaged}; keep the ones that you have") from damaged
    finally:
        await reader.close()
    if found != state["messages"] or (dense and found != last):
        raise BackupFailed(
            f"no backup: {stream} gives {found} messages back and should have {last if dense else state['messages']}: "
            "it is damaged, so keep the backups that you have"
        )


@contextlib.contextmanager
def _whole_or_nothing(path: Path, replace: bool) -> Iterator[BinaryIO]:
    """A file that takes the place of `path` when all was written to disk, and is gone otherwise."""
    if not replace and path.exists():
        raise FileExistsError(f"{path} exists: choose another name, or replace it with --force")
    if path.exists() and not path.is_file():
        raise BackupFailed(f"no backup: {path} is no file that could be replaced: choose another name")
    try:
        handle, name = tempfile.mkstemp(prefix=f".{path.name}.", suffix=".partial", dir=path.parent)
    except OSError as error:
        raise BackupFailed(f"no backup: {path} cannot be written: {error.strerror}") from error
    try:
        with os.fdopen(handle, "wb") as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        os.replace(name, path)
    except BaseException as error:
        os.unlink(name)
        if isinstance(error, OSError) and error.strerror:
            raise BackupFailed(f"no backup: {path} cannot be written: {error.strerror}") from error
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)


class _Snapshot:
    """One stream's snapshot, as it comes."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection, self.stream = connection, stream
        self.inbox = connection.client.new_inbox()
        self._chunks: asyncio.Queue[Msg | LogError] = asyncio.Queue()  # bounded by what we leave unacknowledged
        self._lost: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._guard, _ = connection.answers.expect(self.inbox, self._lost)  # fails it when the connection is lost
        self._lost.add_done_callback(self._on_lost)

    async def begin(self) -> dict[str, Any]:
        """Ask for it, once: a second request would send a second snapshot. Returns what the stream is."""
        wanted = {
            "deliver_subject": self.inbox,
            "no_consumers": True,
            "jsck": True,
            "chunk_size": CHUNK_BYTES,
            "window_size": WINDOW_BYTES,
        }
        subject = f"$JS.API.STREAM.SNAPSHOT.{self.stream}"
        message = await self._connection.request(subject, msgspec.json.encode(wanted), ANSWER_TIMEOUT_S)
        answer: dict[str, Any] = msgspec.json.decode(message.data)
        if "error" in answer:
            raise ApiError(subject, answer["error"])
        return answer

    async def copy(self, writer: BackupWriter, tell: Callable[[int], object]) -> None:
        """Write all chunks. The reply subject of each names its size and number; the last has none."""
        number = size = 0
        while True:
            message = await self._next()
            if not message.data:
                break
            number += 1
            if message.reply and message.reply.split(".")[-2:] != [str(len(message.data)), str(number)]:
                raise BackupFailed(f"no backup: chunk {number} of {self.stream} was lost on its way: try again")
            writer.add(message.data)
            size += len(message.data)
            tell(size)
            if message.reply:
                await self._go_on(message.reply)
        headers = message.headers or {}
        status = headers.get("Status", "")
        if status != "204" and (status or number > 1):  # it says nothing where all was in one chunk
            why = headers.get("Description") or status or "it ended without a word"
            raise BackupFailed(f"no backup: the server gave up the copy of {self.stream}: {why}")

    async def _go_on(self, reply: str) -> None:
        try:
            await self._connection.publish(reply)
        except Disconnected as lost:
            raise LogUnavailable(f"no backup: {lost}") from None

    async def _next(self) -> Msg:
        try:
            message = await asyncio.wait_for(self._chunks.get(), PATIENCE_S)
        except TimeoutError:
            raise LogUnavailable(f"no backup: nothing comes of {self.stream} for {PATIENCE_S:g} s") from None
        if isinstance(message, LogError):
            raise message
        return message

    async def on_chunk(self, message: Msg) -> None:
        self._chunks.put_nowait(message)

    def _on_lost(self, lost: "asyncio.Future[Msg]") -> None:
        if not lost.cancelled() and (why := lost.exception()):
            self._chunks.put_nowait(LogUnavailable(f"no backup: {why}"))

    def forget(self) -> None:
        self._connection.answers.forget(self._guard)
        self._lost.cancel()


@contextlib.asynccontextmanager
async def _snapshot(connection: Connection, stream: str) -> Any:
    snapshot = _Snapshot(connection, stream)
    listener = await connection.listen(snapshot.inbox, snapshot.on_chunk)
    try:
        yield snapshot
    finally:
        snapshot.forget()
        await listener.close()
