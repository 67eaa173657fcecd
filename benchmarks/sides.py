"""The two sides of the comparison, each with a coordinator and a worker as processes of their own, over one server.

Both take a goal from this process and give its result back to it, read from the log, where it is stored.
"""

import asyncio
import json
import subprocess
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import AsyncExitStack, ExitStack, asynccontextmanager
from pathlib import Path
from typing import Protocol

import nats
from msgspec import Struct
from nats.aio.msg import Msg

from benchmarks.floor import STREAMS, Floor
from benchmarks.trivial_team import SLOTS, TEAM
from blackboard.board import open_board
from blackboard.client import BadInput, Client
from blackboard.jetstream_append import BATCH_FROM
from blackboard.log import Message
from blackboard.nats_connection import Connection, connect
from blackboard.server import die_with_parent
from schemas.subjects import Subjects

ROOT = Path(__file__).parents[1]
NUMBERS = list(range(1, 9))
PATIENCE_S = 60.0
HOW = {"singles": 0, "batches": BATCH_FROM}
"""The two ways in which the floor appends, with the number of messages from which it uses a batch."""


class Stored(Struct, frozen=True):
    """What a side has stored: messages and bytes of its log, and tasks that went through its queue."""

    messages: int
    bytes: int
    tasks: int


class Side(Protocol):
    name: str
    pids: dict[str, int]
    """By role."""

    async def goal(self, run: str) -> float:
        """Publish a goal and return when its result is there; seconds that publishing took."""
        ...

    async def stored(self) -> Stored: ...


class Ours:
    """`blackboard supervise` and `blackboard attach`; goals through `Client.publish`, results from the facts."""

    name = "ours"
    BOARD = "bench"

    def __init__(self, client: Client, connection: Connection) -> None:
        self._client, self._connection = client, connection
        self._ended: dict[str, asyncio.Future[bytes]] = {}
        self.pids: dict[str, int] = {}

    async def goal(self, run: str) -> float:
        loop = asyncio.get_running_loop()
        ended = self._ended[run] = loop.create_future()
        began = loop.time()
        await self._client.publish(TEAM.name, {"numbers": NUMBERS}, run)
        published_s = loop.time() - began
        data = await asyncio.wait_for(ended, PATIENCE_S)
        assert b'"end":"DONE"' in data, data
        assert b'"result":{"total":%d}' % sum(NUMBERS) in data, data
        return published_s

    async def on_facts(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if b'"type":"run_ended"' in message.data:
                ended = self._ended.pop(message.subject.rpartition(".")[2], None)
                if ended and not ended.done():
                    ended.set_result(message.data)

    async def ready(self) -> None:
        """Return when supervisor and worker are there and have done one run."""
        while True:
            try:
                await self.goal("warm-up")
                return
            except BadInput:  # the team is not on the board yet
                await asyncio.sleep(0.05)

    async def stored(self) -> Stored:
        subjects = Subjects(self.BOARD)
        return await _stored(self._connection, subjects.log_stream, subjects.task_stream)


class ByHand:
    """The floor, in one of its two ways to append."""

    def __init__(self, floor: Floor, connection: Connection) -> None:
        self._floor, self._connection = floor, connection
        self.name = floor.name
        self._results: dict[str, asyncio.Future[int]] = {}
        self.pids: dict[str, int] = {}

    async def goal(self, run: str) -> float:
        loop = asyncio.get_running_loop()
        result = self._results[run] = loop.create_future()
        began = loop.time()
        await self._floor.append("in.goal", run, {"numbers": NUMBERS}, 0)
        published_s = loop.time() - began
        total = await asyncio.wait_for(result, PATIENCE_S)
        assert total == sum(NUMBERS), total
        return published_s

    async def on_result(self, message: Msg) -> None:
        self._results.pop(message.subject.rpartition(".")[2]).set_result(json.loads(message.data)["total"])

    async def stored(self) -> Stored:
        return await _stored(self._connection, self._floor.name, f"{self._floor.name}-task")


@asynccontextmanager
async def ours(url: str, directory: Path, profile: Path | None = None) -> AsyncIterator[Ours]:
    """`profile`: the folder where supervisor and worker leave their profiles, by role, when they end."""

    def blackboard(role: str) -> list[str]:
        return ["-m", "benchmarks.profiled", str(profile / role)] if profile else ["-m", "blackboard.cli"]

    common = ["--nats", url, "--board", Ours.BOARD]
    async with AsyncExitStack() as stack:
        board = await stack.enter_async_context(open_board(url, Ours.BOARD, "bench", create=True))
        side = Ours(Client(board, "bench"), await _connection(stack, url))
        commands = {
            "supervisor": [*blackboard("supervisor"), "supervise", *common],
            "worker": [*blackboard("worker"), "attach", "benchmarks.trivial_team", *common],
        }
        side.pids = stack.enter_context(_processes(commands, directory))
        subscription = await board.log.subscribe(side.on_facts, [board.subjects.every("fact")])
        stack.push_async_callback(subscription.close)
        await side.ready()
        yield side


@asynccontextmanager
async def by_hand(url: str, directory: Path, name: str) -> AsyncIterator[ByHand]:
    """`name`: how it appends, out of HOW."""
    batch_from = HOW[name]
    async with AsyncExitStack() as stack:
        connection, nc = await _connection(stack, url), await nats.connect(url)
        stack.push_async_callback(nc.close)
        for verb, body in STREAMS.items():
            await connection.api(verb.replace("%", name), json.loads(body.replace("%", name)))
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        floor = Floor(nc, name, batch_from, tasks)
        await nc.subscribe(f"{floor.inbox}.*", cb=floor.on_answer)
        side = ByHand(floor, connection)
        arguments = [url, name, str(batch_from), str(SLOTS)]
        commands = {role: ["-m", "benchmarks.floor", role, *arguments] for role in ("coordinator", "worker")}
        side.pids = stack.enter_context(_processes(commands, directory))
        await floor.read("result.*", side.on_result)
        await side.goal("warm-up")
        yield side


async def _connection(stack: AsyncExitStack, url: str) -> Connection:
    connection = await connect(url, "bench")
    stack.push_async_callback(connection.close)
    return connection


async def _stored(connection: Connection, log: str, queue: str) -> Stored:
    state = (await connection.api(f"STREAM.INFO.{log}"))["state"]
    tasks = (await connection.api(f"STREAM.INFO.{queue}"))["state"]
    return Stored(state["messages"], state["bytes"], tasks["last_seq"])


class _processes:
    """Python processes by role, ended in reverse order; what they print lies in `directory`."""

    def __init__(self, commands: dict[str, list[str]], directory: Path) -> None:
        self._commands, self._directory = commands, directory
        self._stack = ExitStack()

    def __enter__(self) -> dict[str, int]:
        return {role: self._start(role, command).pid for role, command in self._commands.items()}

    def _start(self, role: str, command: list[str]) -> "subprocess.Popen[bytes]":
        output = self._stack.enter_context((self._directory / f"{role}.log").open("ab"))
        process = subprocess.Popen(
            [sys.executable, *command],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            preexec_fn=die_with_parent(),  # noqa: PLW1509 - it makes one system call
        )
        self._stack.callback(process.wait)
        self._stack.callback(process.terminate)
        return process

    def __exit__(self, *_: object) -> None:
        self._stack.close()
