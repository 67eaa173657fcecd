"""Appends: observations a second of one specialist, against bare publishes onto a stream of the same kind."""

import asyncio
import time
from collections.abc import Awaitable, Callable
from contextlib import AsyncExitStack
from functools import partial

import msgspec
import nats
from msgspec import Struct

from benchmarks.floor import STREAMS, Floor
from benchmarks.sides import HOW
from blackboard.board import open_board
from blackboard.client import Client
from schemas.inputs import Progress

WINDOW = 256
"""Observations under way at the same time."""
BOARD = "bench-appends"
OBSERVATION = Progress(task="part-1", attempt=1, execution="0123456789abcdef", message="x" * 150)


class Rates(Struct, frozen=True):
    """Observations a second, round by round: with a window, and one at a time."""

    windowed: list[float]
    alone: list[float]


async def measure(url: str, rounds: int, seconds: float) -> dict[str, Rates]:
    """`ours` is `Client.observe` on a board that nobody supervises; `singles` is a bare publish and its acknowledgement
    for each observation; `batches` gathers them into atomic batches by hand."""
    async with AsyncExitStack() as stack:
        board = await stack.enter_async_context(open_board(url, BOARD, "bench", create=True))
        client = Client(board, "adder")
        tasks = await stack.enter_async_context(asyncio.TaskGroup())
        floors = [await _floor(stack, url, f"{how}-appends", start, tasks) for how, start in HOW.items()]
        body = msgspec.to_builtins(OBSERVATION)

        async def ours() -> object:
            return await client.observe("run", OBSERVATION)

        appends: dict[str, Callable[[], Awaitable[object]]] = {"ours": ours}
        for how, floor in zip(HOW, floors, strict=True):
            appends[how] = partial(floor.append, "in.end", "run", body)
        found = {side: Rates([], []) for side in appends}
        for _ in range(rounds):
            for side, append in appends.items():
                found[side].windowed.append(await _rate(append, WINDOW, seconds))
                found[side].alone.append(await _rate(append, 1, seconds))
    return found


async def _floor(stack: AsyncExitStack, url: str, name: str, batch_from: int, tasks: asyncio.TaskGroup) -> Floor:
    nc = await nats.connect(url)
    stack.push_async_callback(nc.close)
    create = "STREAM.CREATE.%"
    await nc.request(f"$JS.API.{create}".replace("%", name), STREAMS[create].replace("%", name).encode())
    floor = Floor(nc, name, batch_from, tasks)
    await nc.subscribe(f"{floor.inbox}.*", cb=floor.on_answer)
    return floor


async def _rate(append: Callable[[], Awaitable[object]], at_once: int, seconds: float) -> float:
    count = 0
    began = time.perf_counter()
    ending = began + seconds

    async def author() -> None:
        nonlocal count
        while time.perf_counter() < ending:
            await append()
            count += 1

    await asyncio.gather(*(author() for _ in range(at_once)))
    return count / (time.perf_counter() - began)
