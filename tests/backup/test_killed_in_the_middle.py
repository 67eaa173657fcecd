"""Whatever is killed in the middle of a backup or of a restore: nothing is left that looks whole, and it can be done
again."""

import asyncio
import os
import signal
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path

import pytest

from blackboard.backup_file import BackupFile
from blackboard.board import open_board
from blackboard.jetstream_backup import back_up
from blackboard.jetstream_restore import restore
from blackboard.jetstream_streams import StreamMismatch
from blackboard.log import LogError, LogUnavailable
from blackboard.nats_connection import Connection, connect
from blackboard.server import EmbeddedServer
from tests.backup.conftest import BLOB, SUBJECTS, Copy, files_in, fill, streams_at
from tests.end_to_end.support import messages_on

COUNT, SIZE = 4_000, 4_000
"""Messages and their bytes; a copy is longer than what the server sends without being asked to go on, and what lies on
the way."""


@pytest.fixture
async def large(source: EmbeddedServer, tmp_path: Path) -> Copy:
    async with open_board(source.url, create=True) as board, copying(source.url) as connection:
        await fill(board, COUNT, SIZE)
        blob = await board.blobs.put(BLOB, "ann")
        await back_up(connection, SUBJECTS, tmp_path / "copy")
        return Copy(tmp_path / "copy", board.log.id, COUNT, blob)


@asynccontextmanager
async def copying(url: str) -> AsyncIterator[Connection]:
    connection = await connect(url, "copying")
    try:
        yield connection
    finally:
        await connection.close()


def checked(path: Path) -> BackupFile:
    file = BackupFile(path)
    file.check()
    return file


def killing(pid: int, stream: str, chunks: int) -> Callable[[str, int, int], None]:
    """Kills the process when that many chunks of the stream have passed, once."""
    seen = 0

    def tell(what: str, _done: int, _total: int) -> None:
        nonlocal seen
        seen += what == stream
        if seen == chunks:
            seen += 1
            os.kill(pid, signal.SIGKILL)

    return tell


async def require_same(url: str, copy: Copy) -> None:
    async with open_board(url) as board:
        messages = await messages_on(board)
        assert (board.log.id, len(messages), messages[-1].seq) == (copy.log, copy.messages, copy.messages)
        assert await board.blobs.get(copy.blob) == BLOB


@pytest.mark.parametrize("chunks", [1, 5])
async def test_the_server_in_a_backup(large: Copy, source: EmbeddedServer, tmp_path: Path, chunks: int) -> None:
    before = files_in(tmp_path)
    async with copying(source.url) as connection:
        with pytest.raises(LogUnavailable, match="no backup"):
            await back_up(connection, SUBJECTS, tmp_path / "other", tell=killing(source.pid, "BOARD_main", chunks))
        assert files_in(tmp_path) == before
    source.restart()
    async with copying(source.url) as connection:
        await back_up(connection, SUBJECTS, tmp_path / "other")
    assert checked(tmp_path / "other").header == checked(large.path).header


@pytest.mark.parametrize(("stream", "chunks"), [("BOARD_main", 20), ("BOARD_main", 90), (SUBJECTS.kept[1], 1)])
async def test_the_server_in_a_restore(large: Copy, target: EmbeddedServer, stream: str, chunks: int) -> None:
    async with copying(target.url) as connection:
        with pytest.raises(LogError, match="next restore removes it"):
            await restore(connection, checked(large.path), tell=killing(target.pid, stream, chunks))
        target.restart()
        await require_no_board(target.url)
        await restore(connection, checked(large.path))
    await require_same(target.url, large)


async def require_no_board(url: str) -> None:
    """Nobody can work on it, whether it is to be made or not."""
    for create in (False, True):
        with pytest.raises(LogError):
            async with open_board(url, create=create):
                pass


KILLED = """
import asyncio, os, signal, sys
from pathlib import Path
from tests.backup.test_killed_in_the_middle import SUBJECTS, back_up, checked, copying, killing, restore

async def main(what, url, path, stream, chunks):
    async with copying(url) as connection:
        tell = killing(os.getpid(), stream, int(chunks))
        if what == "back_up":
            await back_up(connection, SUBJECTS, Path(path), tell=tell)
        else:
            await restore(connection, checked(path), tell=tell)

asyncio.run(main(*sys.argv[1:]))
"""


async def killed_itself(what: str, url: str, path: Path, stream: str, chunks: int) -> None:
    process = await asyncio.create_subprocess_exec(
        sys.executable, "-c", KILLED, what, url, str(path), stream, str(chunks), cwd=Path(__file__).parents[2]
    )
    assert await process.wait() == -signal.SIGKILL


async def test_the_command_in_a_backup(large: Copy, source: EmbeddedServer, tmp_path: Path) -> None:
    await killed_itself("back_up", source.url, tmp_path / "other", "BOARD_main", 20)
    assert "other" not in files_in(tmp_path)
    async with copying(source.url) as connection:
        await back_up(connection, SUBJECTS, tmp_path / "other")
    assert checked(tmp_path / "other").header == checked(large.path).header


@pytest.mark.parametrize(("stream", "chunks"), [("BOARD_main", 20), (SUBJECTS.kept[1], 1)])
async def test_the_command_in_a_restore(large: Copy, target: EmbeddedServer, stream: str, chunks: int) -> None:
    """Done again at once, while the server still waits for the rest of the first one."""
    await killed_itself("restore", target.url, large.path, stream, chunks)
    assert await streams_at(target.url) != set()
    await require_no_board(target.url)
    async with copying(target.url) as connection:
        await restore(connection, checked(large.path))
    await require_same(target.url, large)


async def test_interrupted_it_removes_what_it_made(large: Copy, target: EmbeddedServer) -> None:
    async with copying(target.url) as connection:
        begun = asyncio.Event()

        def tell(stream: str, _done: int, _total: int) -> None:
            if stream == "BOARD_main":
                begun.set()

        restoring = asyncio.create_task(restore(connection, checked(large.path), tell=tell))
        await begun.wait()
        restoring.cancel()
        await asyncio.wait([restoring])
        assert restoring.cancelled()
        assert await streams_at(target.url) == set()
        await restore(connection, checked(large.path))
    await require_same(target.url, large)


async def test_what_is_half_restored_says_what_it_is(large: Copy, target: EmbeddedServer) -> None:
    await killed_itself("restore", target.url, large.path, "BOARD_main", 20)
    with pytest.raises(StreamMismatch, match="restore of it was not completed"):
        async with open_board(target.url, create=True):
            pass
