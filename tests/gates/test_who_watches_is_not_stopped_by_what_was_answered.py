"""Who follows a run from its beginning sees it wait for people again; only one that waits now is a reason to stop."""

import asyncio
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

from blackboard.board import Board
from blackboard.client import Client
from blackboard.options import BoardOptions
from blackboard.server import EmbeddedServer
from projections.cli_watch import watch_run
from projections.history import Folded
from projections.mcp_server import BoardTools
from projections.rebuild import rebuild
from tests.end_to_end.support import run_until


async def event_by_event(board: Board, run: str, on_event: Callable[..., None] | None = None) -> AsyncIterator[Folded]:
    """As it comes to one who reads fast, and the log slowly."""
    for version in range(1, (await rebuild(board, run)).state.version + 1):
        yield await rebuild(board, run, version)


@pytest.fixture(autouse=True)
def _slowly(monkeypatch: pytest.MonkeyPatch) -> None:
    for module in ("cli_watch", "mcp_server"):
        monkeypatch.setattr(f"projections.{module}.follow", event_by_event)


class Heard:
    """What a tool needs of the request that it serves."""

    async def report_progress(self, *_: Any, **__: Any) -> None:
        await asyncio.sleep(0)


async def test_answered_question_is_none(pat: Client, server: EmbeddedServer) -> None:
    options = BoardOptions(server.url, pat.board.subjects.board, "pat", as_json=True)

    async def followed() -> tuple[int, str]:
        """How `watch --no-input` and the tool `wait` end."""
        code = await watch_run(options, run, True)
        return code, (await BoardTools(pat.board, "pat").wait(run, Heard()))["phase"]  # type: ignore[arg-type]

    run = await pat.publish("choice", {})
    gate = (await run_until(pat.board, run, lambda state: state.open_gates)).state.open_gates["colour"]
    assert await followed() == (7, "NEEDS_INPUT")
    await Client(pat.board, "ann").answer(run, "colour", gate.digest, "red")
    await run_until(pat.board, run, lambda state: state.end)
    assert await followed() == (0, "DONE")
