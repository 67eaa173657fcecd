"""A bench for tools of servers; a board on a real server, with small teams at work, for the board as a server."""

import pytest

from tests.gates.conftest import pat, shared, start, there
from tests.specialists.bench import Bench

__all__ = ["bench", "pat", "shared", "start", "there"]


@pytest.fixture
def bench() -> Bench:
    return Bench()
