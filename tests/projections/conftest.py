"""A board on a real server with a run of each kind, and the verbs called against it."""

import asyncio
from contextlib import aclosing
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result

from blackboard.board import Board, open_board
from blackboard.client import Client
from blackboard.log import Append
from blackboard.server import EmbeddedServer
from projections import cli
from projections.live import follow
from projections.status import waits
from schemas.events import Silence
from schemas.goals import Goal
from tests.projections.called import Blackboard, Call
from tests.projections.world import answer, ended, serving, teach

BOARD = "cli-projections"


def stubborn(specialist: str, item: dict[str, Any]) -> Any:
    return Silence("", "TOOL_DOWN", "no answer") if item.get("name") == "down" else answer(specialist, item)


async def populate(url: str) -> None:
    """Runs with each kind of end, one that waits, one whose goal was rejected."""
    async with open_board(url, BOARD, create=True) as board:
        await teach(board)
        client = Client(board, "me")
        async with serving(board, answering=stubborn):
            await client.publish("survey", {"names": ["x", "y"]}, "done")
            await ended(board, "done")
            await client.publish("survey", {"names": ["down"]}, "failed")
            await ended(board, "failed")
            await board.log.append(Append(board.subjects.goal("me", "rejected"), b'{"team": "survey"}'))
            await client.withdraw("adder")
            await client.publish("survey", {"names": ["x"]}, "cancelled")
            await client.cancel("cancelled", "no patience")
            await ended(board, "cancelled")
            await client.publish("survey", {"names": ["x"]}, "waits")
            await until_waiting(board, "waits")
        goal = Goal(team="survey", input={"names": []}).model_dump_json(exclude_none=True).encode()
        await board.log.append(Append(board.subjects.goal("me", "unheard"), goal))


async def until_waiting(board: Board, run: str) -> None:
    async with aclosing(follow(board, run)) as going:
        async for folded in going:
            if waits(folded.state):
                return


@pytest.fixture(scope="session")
def url(server: EmbeddedServer) -> str:
    asyncio.run(populate(server.url))
    return server.url


@pytest.fixture
def blackboard(url: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Blackboard:
    """Calls a verb in a folder of its own, with the board in the environment."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("BLACKBOARD_NATS", url)
    monkeypatch.setenv("BLACKBOARD_BOARD", BOARD)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))

    def call(verb: str, *arguments: str) -> Call:
        result: Result = CliRunner().invoke(getattr(cli, verb), list(arguments))
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Call(result.exit_code, result.stdout, result.stderr)

    return call
