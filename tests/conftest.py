"""What tests of all folders share: one server for the whole run, and a fresh board on it for each test."""

import itertools
from collections.abc import AsyncIterator, Iterator
from typing import NamedTuple

import pytest

from blackboard.jetstream import JetStreamLog, create_board
from blackboard.jetstream_blobs import JetStreamBlobs
from blackboard.jetstream_queue import JetStreamQueue
from blackboard.nats_announcements import NatsAnnouncements
from blackboard.nats_connection import Connection, connect
from blackboard.server import EmbeddedServer
from schemas.subjects import Subjects

_numbers = itertools.count(1)


class TestBoard(NamedTuple):
    """A board of one test, over one connection."""

    __test__ = False

    connection: Connection
    subjects: Subjects
    log: JetStreamLog
    queue: JetStreamQueue
    blobs: JetStreamBlobs
    announcements: NatsAnnouncements


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server that runs while the tests run."""
    with EmbeddedServer(tmp_path_factory.mktemp("server")) as running:
        yield running


@pytest.fixture
def subjects() -> Subjects:
    """The subjects of a board that no other test uses."""
    return Subjects(f"test-{next(_numbers)}")


@pytest.fixture
async def board(server: EmbeddedServer, subjects: Subjects) -> AsyncIterator[TestBoard]:
    """A board of this test alone."""
    connection = await connect(server.url, "test")
    try:
        yield TestBoard(connection, subjects, *await create_board(connection, subjects))
    finally:
        await connection.close()
