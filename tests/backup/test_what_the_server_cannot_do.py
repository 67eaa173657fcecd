"""A damaged log, a full disk at either end, a smaller cluster: a sentence, and nothing left behind."""

import os
import sys
from pathlib import Path

import pytest

from blackboard.board import open_board
from blackboard.server import EmbeddedServer
from tests.backup.conftest import BLOB, SUBJECTS, Copy, NewServer, files_in, fill, streams_at
from tests.durability.command import command
from tests.end_to_end.support import _run

STREAMS = Path("data/jetstream/$G/streams")


@pytest.mark.parametrize(
    ("stream", "holding"),
    [
        ("BOARD_main", b"goal.ann.r7"),
        ("BOARD_main", b"goal.ann.r299"),
        ("BOARD_main", b"goal.ann.r0"),
        (SUBJECTS.blob_stream, BLOB[150_000:150_100]),
    ],
    ids=["in the middle", "the last", "the first", "a blob"],
)
async def test_a_damaged_board_is_not_copied(
    new_server: NewServer, tmp_path: Path, stream: str, holding: bytes
) -> None:
    """Its copy would take the place of a good one, and could not be restored."""
    with EmbeddedServer(tmp_path / "damaged") as server:
        async with open_board(server.url, create=True) as board:
            await fill(board, 300)
            await board.blobs.put(BLOB, "ann")
    block = tmp_path / "damaged" / STREAMS / stream / "msgs" / "1.blk"
    stored = block.read_bytes()
    at = stored.index(holding) + len(holding) + 20
    block.write_bytes(stored[:at] + bytes([stored[at] ^ 1]) + stored[at + 1 :])
    server = new_server(name="damaged")
    told = await command("backup", str(tmp_path / "copy"), "--nats", server.url)
    assert (told.code, "no backup" in told.err, "damaged" in told.err, told.err.count("\n")) == (1, True, True, 1), told
    assert files_in(tmp_path) == []


async def test_no_room_for_the_file(copy: Copy, source: EmbeddedServer, tmp_path: Path) -> None:
    script = "import resource, sys; resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000)); import signal; "
    script += "signal.signal(signal.SIGXFSZ, signal.SIG_IGN); from blackboard.cli import cli; cli(sys.argv[1:])"
    path = str(tmp_path / "other")
    told = await _run([sys.executable, "-c", script, "backup", path, "--nats", source.url], None, 30, {})
    assert told.code == 1
    assert told.err == f"blackboard: no backup: {path} cannot be written: File too large\n"
    assert files_in(tmp_path) == ["copy"]


async def test_no_place_for_the_file(copy: Copy, source: EmbeddedServer, tmp_path: Path) -> None:
    path = tmp_path / "nowhere" / "other"
    told = await command("backup", str(path), "--nats", source.url)
    assert told.code == 1
    assert told.err == f"blackboard: no backup: {path} cannot be written: No such file or directory\n"
    os.mkfifo(tmp_path / "pipe")
    told = await command("backup", str(tmp_path / "pipe"), "--force", "--nats", source.url)
    assert (told.code, "is no file that could be replaced" in told.err) == (1, True), told
    assert (tmp_path / "pipe").is_fifo()


async def test_no_room_on_the_server(copy: Copy, new_server: NewServer, tmp_path: Path) -> None:
    server = new_server(f'jetstream {{ store_dir: "{tmp_path}/full/data", max_file_store: 200K }}', "full")
    told = await command("restore", str(copy.path), "--nats", server.url)
    assert (told.code, told.err.count("\n"), "Traceback" in told.err) == (1, 1, False), told
    assert "resources" in told.err or "storage" in told.err, told
    assert await streams_at(server.url) == set()


async def test_more_copies_than_there_are_servers(copy: Copy, target: EmbeddedServer) -> None:
    told = await command("restore", str(copy.path), "--replicas", "3", "--nats", target.url)
    assert (told.code, "replicas" in told.err, told.err.count("\n")) == (1, True, 1), told
    assert await streams_at(target.url) == set()
