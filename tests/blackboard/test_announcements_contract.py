"""What announcements promise: the same suite over the reference in memory and over core NATS."""

import asyncio
from collections.abc import AsyncIterator
from dataclasses import dataclass

import pytest

from blackboard.announcements import Announcements
from blackboard.jetstream_streams import make_log
from blackboard.memory_announcements import MemoryAnnouncements
from blackboard.nats_announcements import NatsAnnouncements
from blackboard.nats_connection import connect
from blackboard.server import EmbeddedServer
from schemas.announcements import Announcement, encode_announcement, read_announcement
from schemas.subjects import Subjects

PATIENCE_S = 20


@dataclass
class Subject:
    """Two processes of one board, and one of another."""

    one: Announcements
    other: Announcements
    elsewhere: Announcements


@pytest.fixture(params=["memory", "nats"])
async def under_test(
    request: pytest.FixtureRequest, server: EmbeddedServer, subjects: Subjects
) -> AsyncIterator[Subject]:
    if request.param == "memory":
        memory = MemoryAnnouncements()
        yield Subject(memory, memory, MemoryAnnouncements())
        return
    connections = [await connect(server.url, "contract") for _ in range(3)]
    boards = (subjects, subjects, Subjects(f"{subjects.board}-2"))
    try:
        yield Subject(*(NatsAnnouncements(one, board) for one, board in zip(connections, boards, strict=True)))
    finally:
        for connection in connections:
            await connection.close()


async def listening(announcements: Announcements, speaker: Announcements) -> AsyncIterator[bytes]:
    """What it hears, once it hears: a subscription of another connection takes its time."""
    heard = announcements.heard()
    async with asyncio.timeout(PATIENCE_S):
        first = asyncio.ensure_future(anext(heard))
        while not first.done():
            await speaker.announce(b"?")
            await asyncio.wait([first], timeout=0.02)
        await speaker.announce(b"!")
        while await anext(heard) != b"!":
            pass
    return heard


async def test_everybody_on_the_board_hears_it_and_nobody_else(under_test: Subject) -> None:
    own = await listening(under_test.one, under_test.one)
    others = await listening(under_test.other, under_test.one)
    while await anext(own) != b"!":
        pass
    await under_test.elsewhere.announce(b"elsewhere")
    await under_test.one.announce(b"1")
    await under_test.one.announce(b"2")
    async with asyncio.timeout(PATIENCE_S):
        assert [await anext(own), await anext(own)] == [b"1", b"2"]
        assert [await anext(others), await anext(others)] == [b"1", b"2"]


async def test_what_nobody_hears_is_gone(under_test: Subject) -> None:
    await under_test.one.announce(b"before")
    heard = await listening(under_test.other, under_test.one)
    await under_test.one.announce(b"after")
    async with asyncio.timeout(PATIENCE_S):
        assert await anext(heard) == b"after"


async def test_nothing_of_it_is_stored_and_nothing_is_raised_when_the_connection_is_gone(
    server: EmbeddedServer, subjects: Subjects
) -> None:
    connection = await connect(server.url, "contract")
    await make_log(connection, subjects, 1)
    announcements = NatsAnnouncements(connection, subjects)
    heard = await listening(announcements, announcements)
    await announcements.announce(b"1")
    assert await anext(heard) == b"1"
    assert (await connection.api(f"STREAM.INFO.{subjects.log_stream}"))["state"]["messages"] == 0
    await connection.close()
    await announcements.announce(b"2")
    async with asyncio.timeout(PATIENCE_S):
        assert [data async for data in heard] == []


def test_announcements_are_read_as_they_were_written_and_anything_else_is_nothing() -> None:
    said = Announcement("a", "log-1", "active", 3, 7, 12, position=5, left=("r1",), left_count=1)
    data = encode_announcement(said)
    assert read_announcement(data) == said
    assert said.leaves == {"r1"}
    assert Announcement("a", "log-1", "active", 3, 7, 12, left=("r1",), left_count=2).leaves is None
    for other in (b"", b"{", b"[]", data.replace(b"active", b"absent"), b"\xff", data + b" " * 70_000, b"[" * 50_000):
        assert read_announcement(other) is None
