"""A board that is restored on another server has the same history, and goes on with it."""

from pathlib import Path

from blackboard.board import Board, open_board
from blackboard.client import Client
from blackboard.server import EmbeddedServer
from tests.backup.conftest import BLOB, streams_at
from tests.end_to_end.support import all_digests, call, ended, messages_on, past_the_client, run_until
from tests.projections.scripted import Scripted, at_work, done

TEAMS = [
    {
        "team": "chosen",
        "steps": [
            {"id": "colour", "question": {"ask": "which colour?", "answer": {"enum": ["red", "green"]}}},
            {"id": "paint", "capability": "paint", "needs": ["colour"], "input": {"colour": "facts.colour"}},
        ],
        "returns": {"paint": "facts.paint"},
    },
    {"team": "plain", "steps": [{"id": "paint", "capability": "paint"}], "returns": {"paint": "facts.paint"}},
]
PAINTER = Scripted(lambda task: [done(task, {"painted": task.items[0].key})], {"offers": ["paint"]})
AWAY = Scripted(None, {"offers": ["paint"]})


async def answer(board: Board, run: str, value: str) -> None:

    gate = (await run_until(board, run, lambda state: state.phase == "NEEDS_INPUT")).state.gates["colour"]
    await Client(board, "ann").answer(run, "colour", gate.digest, value)


async def test_what_was_done_is_there_and_what_was_open_goes_on(
    source: EmbeddedServer, target: EmbeddedServer, tmp_path: Path
) -> None:
    file = tmp_path / "copy"
    async with open_board(source.url, create=True) as board:
        async with at_work(board, {"painter": PAINTER}, TEAMS) as client:
            await client.publish("plain", {}, "over")
            await ended(board, "over")
            await client.publish("chosen", {}, "asked")
            await run_until(board, "asked", lambda state: state.phase == "NEEDS_INPUT")
        async with at_work(board, {"painter": AWAY}, []) as client:
            await client.publish("plain", {}, "dispatched")
            await run_until(board, "dispatched", lambda state: state.tasks)
            blob = await board.blobs.put(BLOB, "ann")
            told = await call("backup", str(file), "--json", "--nats", source.url)  # while a supervisor is at work
        assert told.code == 0, told.err
        before, log_id, messages = await all_digests(board), board.log.id, await messages_on(board)
    source.stop()

    restored = await call("restore", str(file), "--json", "--nats", target.url)
    assert restored.code == 0, restored.err
    same = ("file", "board", "log", "last", "bytes", "sha256")
    assert {name: restored.json[name] for name in same} == {name: told.json[name] for name in same}
    async with open_board(target.url) as board:
        assert (board.log.id, await all_digests(board)) == (log_id, before)
        assert await messages_on(board) == messages
        assert await board.blobs.get(blob) == BLOB
        checked = await call("rebuild", "--all", "--check", "--nats", target.url)
        assert checked.code == 0, checked.err

    async with open_board(target.url, create=True) as board, at_work(board, {"painter": PAINTER}, TEAMS) as client:
        assert (await ended(board, "dispatched")).result == {"paint": {"painted": "paint"}}
        await answer(board, "asked", "red")
        assert (await ended(board, "asked")).end == "DONE"
        await client.publish("plain", {}, "new")
        assert (await ended(board, "new")).end == "DONE"
        after = await all_digests(board)
    assert {run: after[run] for run in ("over",)} == {run: before[run] for run in ("over",)}
    assert after["new"][3] == before["over"][3]


async def test_tasks_of_an_earlier_board_are_gone(
    source: EmbeddedServer, target: EmbeddedServer, tmp_path: Path
) -> None:
    """Only the log was lost there; what its queue holds belongs to runs that may not be in the copy."""
    async with open_board(source.url, create=True):
        assert (await call("backup", str(tmp_path / "copy"), "--nats", source.url)).code == 0
    async with open_board(target.url, create=True) as board, at_work(board, {"painter": AWAY}, TEAMS) as client:
        await client.publish("plain", {}, "lost")
        await run_until(board, "lost", lambda state: state.tasks)
        assert len(await board.queue.keys()) == 1

    async with past_the_client(target.url) as connection:
        for stream in board.subjects.kept:
            await connection.api(f"STREAM.DELETE.{stream}")
    told = await call("restore", str(tmp_path / "copy"), "--nats", target.url)
    assert told.code == 0, told.err
    assert await streams_at(target.url) == set(board.subjects.kept)


async def test_the_server_of_the_folder_is_run_for_it(tmp_path: Path) -> None:
    """The copied one is from before servers asked who is there; the new one asks."""
    old, new = tmp_path / "old", tmp_path / "new"
    new.mkdir()
    with EmbeddedServer(old / ".blackboard") as server:
        async with open_board(server.url, create=True) as board:
            log_id = board.log.id
    told = await call("backup", "copy", "--here", cwd=old)
    assert told.code == 0, told.err
    assert (await call("restore", "../old/copy", cwd=new)).code == 69
    told = await call("restore", "../old/copy", "--here", cwd=new)
    assert told.code == 0, told.err
    told = await call("backup", "copy", "--here", "--json", cwd=new)
    assert (told.code, told.json["log"]) == (0, log_id), told
    assert (await call("backup", "copy", "--here", cwd=tmp_path)).code == 69
    assert not (tmp_path / ".blackboard").exists()
