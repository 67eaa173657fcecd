"""A connection whose server has just died is closed as any other: nothing is raised, and nothing is left of it."""

import asyncio
import contextlib
import os
import signal
from pathlib import Path

import pytest

from blackboard.log import LogError
from blackboard.nats_connection import connect
from blackboard.server import EmbeddedServer


@pytest.mark.parametrize("messages", [1, 2, 4])
async def test_it_is_closed_with_something_left_to_say(tmp_path: Path, messages: int) -> None:
    with EmbeddedServer(tmp_path) as server:
        for _ in range(4):
            connection = await connect(server.url, "closing")
            closed = asyncio.Event()
            connection.on_close(closed.set)
            await connection.publish("somewhere", bytes(500_000))
            os.kill(server.pid, signal.SIGKILL)
            os.waitid(os.P_PID, server.pid, os.WEXITED | os.WNOWAIT)  # noqa: ASYNC222 - it was killed just now
            with contextlib.suppress(LogError):
                for _ in range(messages):
                    await connection.publish("somewhere", bytes(200_000))
            await connection.close()
            assert closed.is_set()
            assert connection.is_closed
            server.restart()
