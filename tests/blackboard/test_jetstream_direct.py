"""Reading by direct gets: what anybody may have written as headers is no word of the server's, and a follower that lags
is not the end."""

import asyncio
import hashlib
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest

from blackboard.jetstream import JetStreamLog, create_board
from blackboard.jetstream_direct import BATCH
from blackboard.log import Append, LogUnavailable, Message
from blackboard.nats_connection import connect
from blackboard.server import EmbeddedServer
from schemas.subjects import Subjects
from tests.conftest import TestBoard

HEADERS = {
    "a status": b"NATS/1.0\r\nStatus: 503\r\n\r\n",
    "a status in the first line": b"NATS/1.0 204 EOB\r\n\r\n",
    "no end of the line": b"NATS/1.0",
    "no end of the headers": b"NATS/1.0\r\nX: y",
    "another place": b"NATS/1.0\r\nNats-Sequence: 77\r\nNats-Subject: bb.x.goal.a.b\r\n\r\n",
}

Raw = Callable[[str, bytes, bytes], "asyncio.Future[None]"]


@pytest.fixture
async def raw(server: EmbeddedServer) -> AsyncIterator[Raw]:
    """Publishes bytes that no client would send as headers."""
    reader, writer = await asyncio.open_connection("127.0.0.1", int(server.url.rpartition(":")[2]))
    await reader.readline()
    writer.write(b'CONNECT {"verbose": false, "headers": true}\r\n')

    async def publish(subject: str, headers: bytes, data: bytes) -> None:
        total = len(headers) + len(data)
        writer.write(f"HPUB {subject} {len(headers)} {total}\r\n".encode() + headers + data + b"\r\nPING\r\n")
        while not (line := await reader.readline()).startswith(b"PONG"):
            assert not line.startswith(b"-ERR"), line

    yield publish
    writer.close()
    await writer.wait_closed()


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
@pytest.mark.parametrize("data", [b"", b"data"])
async def test_headers_that_anybody_wrote_end_nothing(board: TestBoard, raw: Raw, headers: bytes, data: bytes) -> None:
    subjects = board.subjects
    log = JetStreamLog(board.connection, subjects, log_id=board.log.id, direct=True)
    for number in range(3):
        await log.append(Append(subjects.goal("ann", f"before-{number}"), b"{}"))
        await raw(subjects.goal("zed", f"forged-{number}"), headers, data)
        await log.append(Append(subjects.goal("ann", f"after-{number}"), b"{}"))
    for asked in ([], [subjects.every("goal")], [subjects.goal("ann", "*"), subjects.goal("zed", "*")]):
        read = [message async for batch in log.scan(asked) for message in batch]
        assert [message.seq for message in read] == list(range(1, 10))
        assert {message.subject for message in read if message.seq % 3 == 2} == {
            subjects.goal("zed", f"forged-{number}") for number in range(3)
        }
    last: list[Message] = [message async for message in log.last_per_subject(subjects.every("goal"))]
    assert [message.seq for message in last] == list(range(1, 10))


@pytest.mark.parametrize("headers", HEADERS.values(), ids=HEADERS)
async def test_headers_that_anybody_wrote_hide_no_blob(board: TestBoard, raw: Raw, headers: bytes) -> None:
    digest = hashlib.sha256(b"right").hexdigest()
    for author in ("aaa", "zzz"):
        await raw(board.subjects.blob(author, digest, 0), headers, b"")
    assert await board.blobs.put(b"right", "mmm") == digest
    assert await board.blobs.get(digest) == b"right"


async def test_many_subjects_are_read_in_pages(board: TestBoard) -> None:
    log = JetStreamLog(board.connection, board.subjects, log_id=board.log.id, direct=True)
    await log.append(*(Append(board.subjects.goal("ann", f"{'r' * 50}-{number}"), b"{}") for number in range(1_200)))
    last = [message.seq async for message in log.last_per_subject(board.subjects.every("goal"))]
    assert last == list(range(1, 1_201))


async def test_a_scan_gives_up_when_the_server_stays_away(tmp_path: Path) -> None:
    """Who reads to the end waits as long as whoever asks one thing, and not for ever."""
    with EmbeddedServer(tmp_path) as server:
        connection, subjects = await connect(server.url), Subjects()
        await create_board(connection, subjects)
        log = JetStreamLog(connection, subjects, direct=True, deadline_s=1)
        await log.append(*(Append(subjects.goal("ann", f"run-{number}"), b"{}") for number in range(2 * BATCH)))
        read: list[Message] = []

        async def read_all() -> None:
            async for messages in log.scan():
                read.extend(messages)
                server.stop()

        with pytest.raises(LogUnavailable):
            await asyncio.wait_for(read_all(), 20)
        assert 0 < len(read) < 2 * BATCH
        await connection.close()
