"""Scripted specialists are specialists: on a nats-server they work as in a simulation."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from dataclasses import replace

import pytest

from blackboard.board import Board
from blackboard.client import Client
from blackboard.testing import Fails, ScriptedSpecialist
from projections.live import follow
from projections.rebuild import history
from schemas.events import InputLate
from specialists.worker import Worker
from supervisor.service import Supervisor
from tests.conftest import TestBoard
from tests.simulator.team import GOAL, PLAYBOOK, READER, SUMMER, calm

READER_NOW = replace(
    READER, delay_s=(0.0, 0.05), answers=(Fails("TOOL_DOWN"), lambda item: item["x"] ** 2), backoff_s=0
)


@asynccontextmanager
async def working(board: Board, *workers: Worker) -> AsyncIterator[Client]:
    stop = asyncio.Event()
    running = [asyncio.create_task(one.run(stop)) for one in (Supervisor(board), *workers)]
    client = Client(board, "ann")
    await client.teach(PLAYBOOK)
    try:
        yield client
    finally:
        stop.set()
        await asyncio.gather(*running)


async def ended(board: Board, run: str):
    async with asyncio.timeout(30):
        async with aclosing(follow(board, run)) as following:
            async for _ in following:
                pass
    return await history(board, run)


async def test_same_result_as_simulated(board: TestBoard) -> None:
    real = Board(board.subjects, board.log, board.queue, board.blobs)
    async with working(real, Worker(real, [READER_NOW.specialist, SUMMER.specialist], drain_s=1)) as client:
        await client.publish("t", GOAL, "r1")
        folded, _ = await ended(real, "r1")
    simulated = calm(READER_NOW).run().run()
    assert (folded.state.end, folded.state.result) == ("DONE", {"total": 30})
    assert (simulated.end, simulated.result) == ("DONE", {"total": 30})
    assert folded.state.usage == simulated.usage
    assert folded.state.usage.input_tokens == 2 * 4 * 5 + 2


async def test_liar_is_found_out(board: TestBoard) -> None:
    real = Board(board.subjects, board.log, board.queue, board.blobs)
    liar = replace(READER_NOW, answers=1, lies=("repeat", "again", "attempt", "garbage"))
    lying = Worker(liar.board_of_a_liar(real), [liar.specialist], drain_s=1)
    async with working(real, lying, Worker(real, [SUMMER.specialist], drain_s=1)) as client:
        runs = [await client.publish("t", GOAL) for _ in range(5)]
        found = [await ended(real, run) for run in runs]
    assert {folded.state.end for folded, _ in found} == {"DONE"}
    assert all(folded.state.result == {"total": 4} for folded, _ in found)
    late = [item.event for _, items in found for item in items if isinstance(item.event, InputLate)]
    assert {event.author for event in late} == {"reader"}


def test_unknown_lie_is_refused() -> None:
    with pytest.raises(ValueError, match="'fib' is no lie; choose of keys, "):
        ScriptedSpecialist("reader", "read", 1, lies=("fib",))
