"""Neither a board nor a file that exists is replaced by accident."""

from pathlib import Path

import pytest

from blackboard.board import open_board
from blackboard.jetstream_streams import log_config
from blackboard.server import EmbeddedServer
from tests.backup.conftest import SUBJECTS, Copy, files_in, fill, streams_at
from tests.durability.command import command
from tests.end_to_end.support import messages_on, past_the_client


async def test_a_board_stays_as_it_is(copy: Copy, target: EmbeddedServer) -> None:
    async with open_board(target.url, create=True) as board:
        await fill(board, 3)
        before = board.log.id, await messages_on(board)
        told = await command("restore", str(copy.path), "--nats", target.url)
        assert (told.code, "board 'main' exists" in told.err, told.err.count("\n")) == (1, True, 1), told
        assert (await board.log.current_id(), await messages_on(board)) == before


@pytest.mark.parametrize("stream", SUBJECTS.kept)
async def test_nor_is_a_part_of_one(copy: Copy, target: EmbeddedServer, stream: str) -> None:
    config = log_config(SUBJECTS) | {"name": stream, "subjects": ["elsewhere"]}
    async with past_the_client(target.url) as connection:
        await connection.api(f"STREAM.CREATE.{stream}", {name: value for name, value in config.items() if value})
        told = await command("restore", str(copy.path), "--nats", target.url)
        assert (told.code, stream in told.err) == (1, True), told
        assert (await connection.api(f"STREAM.INFO.{stream}"))["config"]["subjects"] == ["elsewhere"]
    assert await streams_at(target.url) == {stream}


async def test_a_file_stays_as_it_is(copy: Copy, source: EmbeddedServer) -> None:
    before = copy.path.read_bytes()
    told = await command("backup", str(copy.path), "--nats", source.url)
    assert (told.code, "--force" in told.err) == (1, True), told
    assert copy.path.read_bytes() == before
    told = await command("backup", str(copy.path), "--force", "--json", "--nats", source.url)
    assert (told.code, told.record["log"]) == (0, copy.log), told


async def test_no_board_gives_no_file(target: EmbeddedServer, tmp_path: Path) -> None:
    told = await command("backup", str(tmp_path / "copy"), "--nats", target.url)
    assert (told.code, "BOARD_main does not exist" in told.err) == (69, True), told
    assert files_in(tmp_path) == []
