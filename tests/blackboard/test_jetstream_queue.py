"""What a killed server does to the task queue, which lives in its memory, and to those who work with it."""

import asyncio
import os
import signal
from pathlib import Path

import pytest

from blackboard.jetstream import create_board
from blackboard.jetstream_queue import JetStreamQueue
from blackboard.jetstream_streams import StreamMismatch
from blackboard.nats_connection import connect
from blackboard.queue import Entry, QueueGone, QueueUnavailable, TaskKey
from blackboard.server import EmbeddedServer
from schemas.subjects import Subjects
from tests.blackboard.proxy import Proxy
from tests.conftest import TestBoard

PATIENCE_S = 20
KEY = TaskKey("reader", "run", "task", 1)


async def test_a_killed_server_takes_the_queue_along(tmp_path: Path, subjects: Subjects) -> None:
    with EmbeddedServer(tmp_path) as server:
        connection = await connect(server.url, "worker")
        queue = (await create_board(connection, subjects)).queue
        await queue.ensure(["reader"])
        await queue.put([Entry(KEY, b"data")])
        back = asyncio.Event()
        connection.on_reconnect(back.set)
        waiting = asyncio.create_task(queue.pull("other", PATIENCE_S))
        held = await queue.pull("reader", PATIENCE_S)
        assert held is not None
        with pytest.raises(QueueGone):
            await waiting
        waiting = asyncio.create_task(queue.pull("reader", PATIENCE_S))
        await asyncio.sleep(0.05)
        os.kill(server.pid, signal.SIGKILL)
        with pytest.raises(QueueUnavailable):
            await asyncio.wait_for(waiting, PATIENCE_S / 2)
        server.restart()
        await asyncio.wait_for(back.wait(), PATIENCE_S)
        with pytest.raises(QueueGone):
            await queue.pull("reader", PATIENCE_S)
        await queue.ensure(["reader"])
        await queue.put([Entry(KEY, b"data")])
        again = await queue.pull("reader", PATIENCE_S)
        assert again is not None
        await held.ack()
        assert await queue.keys() == {KEY}, "the ack of a task of the lost queue is no ack of this one"
        await again.ack()
        assert await queue.keys() == set()
        await connection.close()


async def test_without_a_connection_the_queue_is_unavailable(server: EmbeddedServer, subjects: Subjects) -> None:
    async with Proxy(int(server.url.rpartition(":")[2])) as proxy:
        connection = await connect(proxy.url, "cut")
        queue = JetStreamQueue(connection, subjects, deadline_s=0.3)
        await queue.ensure(["reader"])
        delivery = None
        await queue.put([Entry(KEY, b"data")])
        delivery = await queue.pull("reader", PATIENCE_S)
    assert delivery is not None
    for ask in (queue.pull("reader", 0.1), queue.put([Entry(KEY, b"x")]), queue.keys(), queue.remove([KEY])):
        with pytest.raises(QueueUnavailable):
            await ask
    await queue.cancel(KEY)
    await delivery.ack()
    await connection.close()


async def test_a_cancelled_pull_gives_its_task_back(board: TestBoard) -> None:
    await board.queue.ensure(["reader"])
    started = asyncio.get_running_loop().time()
    waiting = asyncio.create_task(board.queue.pull("reader", PATIENCE_S))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await board.queue.put([Entry(KEY, b"data")])
    await asyncio.wait([waiting])
    delivery = await board.queue.pull("reader", PATIENCE_S)
    assert delivery is not None
    assert asyncio.get_running_loop().time() - started < 4, "not only when the time of a worker is up"


async def test_a_stream_that_is_no_queue_is_refused(board: TestBoard) -> None:
    stream = board.subjects.task_stream
    await board.connection.api(f"STREAM.DELETE.{stream}")
    config = {"name": stream, "subjects": [board.subjects.tasks], "storage": "memory", "retention": "limits"}
    await board.connection.api(f"STREAM.CREATE.{stream}", config)
    with pytest.raises(StreamMismatch, match=rf"stream {stream} .*retention is limits and must be workqueue"):
        await board.queue.ensure(["reader"])
