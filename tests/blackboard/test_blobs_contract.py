"""What every blob store promises: the same suite over the reference in memory and over JetStream."""

import hashlib
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from blackboard.blobs import BlobDamaged, BlobMissing, Blobs
from blackboard.jetstream_blobs import JetStreamBlobs, make_blobs
from blackboard.memory import MemoryBlobs
from blackboard.nats_connection import connect
from blackboard.server import EmbeddedServer
from schemas.subjects import Subjects


@dataclass
class Subject:
    """A blob store under test. `damage` loses a part of the one blob that is in it."""

    blobs: Blobs
    damage: Callable[[str], Awaitable[None]]


@pytest.fixture(params=["memory", "jetstream"])
async def under_test(
    request: pytest.FixtureRequest, server: EmbeddedServer, subjects: Subjects
) -> AsyncIterator[Subject]:
    if request.param == "memory":
        memory = MemoryBlobs()

        async def damage_memory(sha256: str) -> None:
            memory.damage(sha256)

        yield Subject(memory, damage_memory)
        return
    connection = await connect(server.url, "contract")
    await make_blobs(connection, subjects)

    async def damage(sha256: str) -> None:
        stream = f"OBJ_{subjects.blob_bucket}"
        await connection.api(f"STREAM.PURGE.{stream}", {"filter": f"$O.{subjects.blob_bucket}.C.>", "keep": 1})

    try:
        yield Subject(JetStreamBlobs(connection, subjects), damage)
    finally:
        await connection.close()


@pytest.fixture
def blobs(under_test: Subject) -> Blobs:
    return under_test.blobs


@pytest.mark.parametrize("size", [0, 1, 200_000, 3_000_000])
async def test_a_blob_comes_back(blobs: Blobs, size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    digest = await blobs.put(data)
    assert digest == hashlib.sha256(data).hexdigest()
    assert await blobs.get(digest) == data


async def test_the_same_bytes_are_one_blob(blobs: Blobs) -> None:
    assert await blobs.put(b"text") == await blobs.put(b"text")
    assert await blobs.get(await blobs.put(b"text")) == b"text"


async def test_an_unknown_digest_is_missing(blobs: Blobs) -> None:
    with pytest.raises(BlobMissing, match="abc"):
        await blobs.get("abc")


async def test_damage_is_named(under_test: Subject) -> None:
    digest = await under_test.blobs.put(bytes(300_000))
    await under_test.damage(digest)
    with pytest.raises(BlobDamaged, match=digest):
        await under_test.blobs.get(digest)
