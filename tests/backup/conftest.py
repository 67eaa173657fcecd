"""Servers of one test, and a board with a history on one of them."""

import hashlib
import itertools
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import NamedTuple

import pytest

from blackboard.blobs import Blobs
from blackboard.board import Board, open_board
from blackboard.jetstream_backup import back_up
from blackboard.log import Append
from blackboard.server import EmbeddedServer
from schemas.subjects import Subjects
from tests.end_to_end.support import past_the_client

SUBJECTS = Subjects()

NewServer = Callable[..., EmbeddedServer]
"""The fixture `new_server`: starts an empty server, with more settings for its configuration."""


@pytest.fixture
def new_server(tmp_path: Path) -> Iterator[NewServer]:
    numbers = itertools.count(1)
    with ExitStack() as running:

        def start(settings: str = "", name: str = "") -> EmbeddedServer:
            return running.enter_context(EmbeddedServer(tmp_path / (name or f"server-{next(numbers)}"), settings))

        yield start


@pytest.fixture
def source(new_server: NewServer) -> EmbeddedServer:
    """The server that is copied from."""
    return new_server()


def unsynced(folder: Path) -> str:
    """Settings of a server that does not wait for the disk after each message, as it does when it is restored to."""
    return f'jetstream {{ store_dir: "{folder}/data", sync_interval: 10s }}'


@pytest.fixture
def target(new_server: NewServer, tmp_path: Path) -> EmbeddedServer:
    """The server that is copied to."""
    return new_server(unsynced(tmp_path / "target"), "target")


async def fill(board: Board, count: int, size: int = 200) -> None:
    """Append `count` messages of `size` bytes."""
    for start in range(0, count, 500):
        goals = [
            Append(board.subjects.goal("ann", f"r{number}"), noise(number, size))
            for number in range(start, min(start + 500, count))
        ]
        await board.log.append(*goals)


def noise(number: int, size: int) -> bytes:
    """Bytes that cannot be compressed, the same for the same number."""
    return hashlib.shake_128(str(number).encode()).digest(size)


class Copy(NamedTuple):
    """A small board in a file."""

    path: Path
    log: str
    messages: int
    blob: str


BLOB = noise(1, 300_000)


@pytest.fixture
async def copy(source: EmbeddedServer, tmp_path: Path) -> Copy:
    """Of a board with 300 messages and a blob."""
    async with open_board(source.url, create=True) as board, past_the_client(source.url) as connection:
        await fill(board, 300)
        blob = await put(board.blobs, BLOB)
        await back_up(connection, SUBJECTS, tmp_path / "copy")
        return Copy(tmp_path / "copy", board.log.id, 300, blob)


async def put(blobs: Blobs, data: bytes) -> str:
    return await blobs.put(data, "ann")


async def streams_at(url: str) -> set[str]:
    """The names of all streams there."""
    async with past_the_client(url) as connection:
        return set((await connection.api("STREAM.NAMES"))["streams"] or [])


def files_in(folder: Path) -> list[str]:
    return sorted(one.name for one in folder.iterdir() if one.is_file())
