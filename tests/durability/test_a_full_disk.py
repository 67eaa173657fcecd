"""The server has no room left, by its account's limit or on its disk: who publishes is told, supervisors and workers
wait, nothing acknowledged is lost, and all go on when there is room again. Only a server whose disk refused a write
must be started again."""

import os
import resource
import signal
from pathlib import Path

import pytest

from blackboard.board import Board, open_board
from blackboard.client import Client
from blackboard.jetstream_streams import task_config
from blackboard.log import Append, LogFull, LogUnavailable, Stored
from blackboard.queue import Entry, QueueUnavailable, TaskKey
from blackboard.server import EmbeddedServer
from projections.canonical import State
from projections.history import outcome_digest
from schemas.subjects import Subjects
from tests.durability.command import command
from tests.end_to_end import teams
from tests.end_to_end.conftest import start
from tests.end_to_end.support import Start, digests, ended, history_of, offered, past_the_client, run_until, until
from tests.plugins.figures import Figures

__all__ = ["start"]

NUMBERS = list(range(40))
INPUT = {"numbers": NUMBERS, "pause_s": 0.2}
WITHIN_S = 60.0
STREAMS = Path("data/jetstream")
LIMIT = (
    "accounts {{ A {{ jetstream: {{ max_file: {file}, max_mem: {memory} }}, users: [{{ user: a, password: a }}] }} }}"
)
LIMITED = LIMIT.format(file="1G", memory="1G") + "\nno_auth_user: a"


class Account:
    """Its limit is lowered to nothing, and raised again, while the server runs."""

    settings = LIMITED

    @staticmethod
    def fill(server: EmbeddedServer, what: str = "max_file") -> None:
        _reload(server, f"{what}: 1G", f"{what}: 1000")

    @staticmethod
    def empty(server: EmbeddedServer, what: str = "max_file") -> None:
        _reload(server, f"{what}: 1000", f"{what}: 1G")


def _reload(server: EmbeddedServer, old: str, new: str) -> None:
    config = server.directory / "server.conf"
    text = config.read_text()
    assert old in text
    config.write_text(text.replace(old, new))
    os.kill(server.pid, signal.SIGHUP)


class Disk:
    """No file of the server may grow much, so that a write stops half-way; then any may. The server takes no writes
    again before it is started again."""

    settings = ""

    @staticmethod
    def fill(server: EmbeddedServer) -> None:
        largest = max(path.stat().st_size for path in (server.directory / STREAMS).rglob("*.blk"))
        resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (largest + 20_000, resource.RLIM_INFINITY))

    @staticmethod
    def empty(server: EmbeddedServer) -> None:
        os.kill(server.pid, signal.SIGKILL)
        server.restart()


def half_done(state: State) -> bool:
    return 10 <= state.steps["square"].ended < len(NUMBERS) if state.steps else False


async def append_until_refused(board: Board, acknowledged: list[tuple[int, Append]]) -> LogUnavailable:
    """Append small messages until the log takes no more."""
    while True:
        one = Append(board.subjects.goal("filler", f"f{len(acknowledged)}"), os.urandom(500))
        try:
            (outcome,) = await board.log.append(one)
        except LogUnavailable as refused:
            return refused
        assert isinstance(outcome, Stored)
        acknowledged.append((outcome.seq, one))
        assert len(acknowledged) < 2000


@pytest.mark.parametrize("place", [Account, Disk])
async def test_all_wait_and_go_on(
    place: type[Account] | type[Disk], start: Start, tmp_path: Path, figures: Figures
) -> None:
    with EmbeddedServer(tmp_path / "server", place.settings) as server:
        here = ["--nats", server.url]
        programs = [start("supervise", *here), start("attach", teams.write(tmp_path, "squares", teams.SQUARES), *here)]
        async with open_board(server.url, create=True) as board:
            await offered(board, "squares", "squarer", "adder")
            client = Client(board, "ann")
            await client.publish("squares", INPUT | {"pause_s": 0}, "undisturbed")
            undisturbed = outcome_digest(await ended(board, "undisturbed"))
            await client.publish("squares", INPUT, "disturbed")
            await run_until(board, "disturbed", half_done)

            place.fill(server)
            acknowledged: list[tuple[int, Append]] = []
            refused = await append_until_refused(board, acknowledged)
            assert isinstance(refused, LogFull) == (place is Account), refused
            told = await command("publish", "squares", "--input", '{"numbers": [1]}', "--run", "late", *here)
            assert (told.code, told.err.count("\n"), "Traceback" in told.err) == (69, 1, False), told
            await programs[1].says("is away")
            assert [program.code for program in programs] == [None, None]
            before = digests((await history_of(board, "disturbed"))[0])

            place.empty(server)
            state = await ended(board, "disturbed", WITHIN_S)
            assert (state.end, outcome_digest(state)) == ("DONE", undisturbed)
            assert before[0] < state.version
            for seq, one in acknowledged:
                message = await board.log.get(seq)
                assert message is not None
                assert (message.subject, message.data) == (one.subject, one.data)
            await client.publish("squares", INPUT | {"pause_s": 0}, "after")
            assert outcome_digest(await ended(board, "after", WITHIN_S)) == undisturbed
        assert [program.code for program in programs] == [None, None]
    figures.say(f"no room by {place.__name__.lower()}: {len(acknowledged)} acknowledged meanwhile, 0 lost, run ended")


async def test_a_task_that_finds_no_room_is_not_taken_for_one_that_is_there(tmp_path: Path) -> None:
    tried: list[TaskKey] = []
    with EmbeddedServer(tmp_path / "server", LIMITED) as server:
        async with open_board(server.url, create=True) as board:

            async def finds_room() -> bool:
                tried.append(TaskKey("w", "r", f"t{len(tried)}", 1))
                try:
                    await board.queue.put([Entry(tried[-1], b"x" * 2000)])
                except QueueUnavailable:
                    return False
                return True

            async def finds_none() -> bool:
                return not await finds_room()

            assert await finds_room()
            Account.fill(server, "max_mem")
            await until(finds_none, "the limit to hold")
            assert await board.queue.keys() == {*tried[:-1]}
            Account.empty(server, "max_mem")
            await until(finds_room, "room")


async def test_nor_is_one_that_the_stream_does_not_store(server: EmbeddedServer, subjects: Subjects) -> None:
    """The server has one number for both, and says in words which it is."""
    key = TaskKey("w", "r", "t", 1)
    async with open_board(server.url, subjects.board, create=True) as board:
        async with past_the_client(server.url) as connection:
            config = task_config(subjects) | {"max_bytes": 1000}
            wanted = {name: value for name, value in config.items() if value is not None}
            await connection.api(f"STREAM.UPDATE.{subjects.task_stream}", wanted)
        with pytest.raises(QueueUnavailable, match="maximum bytes"):
            await board.queue.put([Entry(key, b"x" * 2000)])
        await board.queue.put([Entry(key, b"x")])
        await board.queue.put([Entry(key, b"x")])
        assert await board.queue.keys() == {key}
