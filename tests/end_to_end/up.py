"""What tests of `blackboard up` look at: its server, its processes."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from blackboard.access import Access
from blackboard.board import Board, open_board
from schemas.access import Role
from tests.end_to_end.support import Program, children_of

SERVER = re.compile(r"server +pid (\d+) +(nats://\S+)")
OPERATOR = ".blackboard/access"


async def server_of(up: Program) -> str:
    """The URL of its server, once a supervisor serves there."""
    await up.says("took over")
    found = SERVER.search(up.said)
    assert found is not None, up.said
    return found[2]


@asynccontextmanager
async def board_of(up: Program) -> AsyncIterator[Board]:
    """Its board, with all rights, once a supervisor serves there."""
    url, access = await server_of(up), Access.load(up.cwd / OPERATOR)
    async with open_board(url, credentials=access.credentials([Role.ADMIN], ["test"])) as board:
        yield board


def process(up: Program, mark: str) -> int:
    """The pid of the one child of `up` whose command line has `mark`."""
    found = {pid: command for pid, command in children_of(up.pid).items() if mark in command}
    assert len(found) == 1, (mark, children_of(up.pid))
    return next(iter(found))
