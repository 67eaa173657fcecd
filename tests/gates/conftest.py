"""Boards and processes as for end-to-end tests, and the licences team with one small environment."""

from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path

import pytest

from blackboard.board import Board
from blackboard.client import Client
from projections.canonical import Gate
from tests.end_to_end.conftest import shared, start, there
from tests.end_to_end.environments import make_environment
from tests.end_to_end.support import Start, offered, run_until
from tests.gates.desk import Person, at_work

__all__ = ["ann", "asked", "audit", "bob", "carol", "environment", "pat", "shared", "start", "there"]

REPORT = ("sbom.cdx.json", "licences.md")


@pytest.fixture
def environment(tmp_path: Path) -> str:
    return str(make_environment(tmp_path / "environment", 6))


Audit = Callable[..., Awaitable[tuple[str, Gate]]]
"""Publishes an audit that writes into `out`, and waits until it asks: the run, and its gate."""


@pytest.fixture
async def audit(shared: Board, there: list[str], start: Start, environment: str) -> Audit:
    """With a supervisor and the team at work."""
    start("supervise", *there)
    start("attach", "licences", *there)
    await offered(shared, "licences", "licence-writer")

    async def publish(run: str, out: Path, **input: object) -> tuple[str, Gate]:
        await Client(shared, "pat").publish("licences", {"path": environment, "out": str(out), **input}, run)
        return run, await asked(shared, run)

    return publish


async def asked(board: Board, run: str) -> Gate:
    """The gate of the run, once it waits for a person."""
    folded = await run_until(board, run, lambda state: state.end or state.phase == "NEEDS_INPUT")
    assert not folded.state.end, folded.state.reason
    return folded.state.gates["write"]


@pytest.fixture
async def pat(shared: Board) -> AsyncIterator[Client]:
    """Publishes for the teams of `desk`, whose runs go on while the test does."""
    async with at_work(shared) as client:
        yield client


@pytest.fixture
def ann(there: list[str]) -> Person:
    return Person("ann", there)


@pytest.fixture
def bob(there: list[str]) -> Person:
    return Person("bob", there)


@pytest.fixture
def carol(there: list[str]) -> Person:
    return Person("carol", there)
