"""What every blob store promises: the same suite over the reference in memory and over JetStream."""

import hashlib
from base64 import b64decode
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import msgspec
import pytest

from blackboard.blobs import BlobDamaged, BlobMissing, Blobs
from blackboard.jetstream_blobs import Described, JetStreamBlobs
from blackboard.jetstream_streams import make_blobs
from blackboard.memory import MemoryBlobs
from blackboard.nats_connection import connect
from blackboard.server import EmbeddedServer
from schemas.subjects import Subjects


@dataclass
class Subject:
    """A blob store under test. `damage` loses a part of the one blob that is in it; `store_wrong` has an author store
    under a digest what has another one."""

    blobs: Blobs
    damage: Callable[[str], Awaitable[None]]
    store_wrong: Callable[[str, str, bytes], Awaitable[None]]


@pytest.fixture(params=["memory", "jetstream"])
async def under_test(
    request: pytest.FixtureRequest, server: EmbeddedServer, subjects: Subjects
) -> AsyncIterator[Subject]:
    if request.param == "memory":
        memory = MemoryBlobs()

        async def damage_memory(sha256: str) -> None:
            memory.damage(sha256)

        async def store_wrong_in_memory(sha256: str, author: str, data: bytes) -> None:
            memory.store_wrong(sha256, author, data)

        yield Subject(memory, damage_memory, store_wrong_in_memory)
        return
    connection = await connect(server.url, "contract")
    await make_blobs(connection, subjects)

    async def damage(sha256: str) -> None:
        """What an administrator can do: the stream made anew, with a part of the blob lost."""
        stream, kept = subjects.blob_stream, await connection.api(f"STREAM.MSG.GET.{subjects.blob_stream}", {"seq": 2})
        await connection.api(f"STREAM.DELETE.{stream}")
        await make_blobs(connection, subjects)
        await connection.request(kept["message"]["subject"], b64decode(kept["message"]["data"]))

    async def store_wrong(sha256: str, author: str, data: bytes) -> None:
        described = msgspec.json.encode(Described(len(data), 1))
        for part, content in ((1, data), (0, described)):
            await connection.request(subjects.blob(author, sha256, part), content)

    try:
        yield Subject(JetStreamBlobs(connection, subjects), damage, store_wrong)
    finally:
        await connection.close()


@pytest.fixture
def blobs(under_test: Subject) -> Blobs:
    return under_test.blobs


@pytest.mark.parametrize("size", [0, 1, 200_000, 3_000_000])
async def test_a_blob_comes_back(blobs: Blobs, size: int) -> None:
    data = bytes(number % 251 for number in range(size))
    digest = await blobs.put(data, "ann")
    assert digest == hashlib.sha256(data).hexdigest()
    assert await blobs.get(digest) == data


async def test_the_same_bytes_are_one_blob(blobs: Blobs) -> None:
    assert await blobs.put(b"text", "ann") == await blobs.put(b"text", "ann")
    assert await blobs.get(await blobs.put(b"text", "ann")) == b"text"


async def test_an_unknown_digest_is_missing(blobs: Blobs) -> None:
    with pytest.raises(BlobMissing, match="abc"):
        await blobs.get("abc")


async def test_damage_is_named(under_test: Subject) -> None:
    digest = await under_test.blobs.put(bytes(300_000), "ann")
    await under_test.damage(digest)
    with pytest.raises(BlobDamaged, match=digest):
        await under_test.blobs.get(digest)


@pytest.mark.parametrize("before", [True, False])
async def test_what_others_store_under_a_digest_replaces_nothing(under_test: Subject, before: bool) -> None:
    digest = hashlib.sha256(b"right").hexdigest()
    if before:
        await under_test.store_wrong(digest, "aaa", b"wrong")
    await under_test.blobs.put(b"right", "mmm")
    for author in ("bbb", "mmm", "zzz"):
        await under_test.store_wrong(digest, author, b"wrong")
    assert await under_test.blobs.get(digest) == b"right"


async def test_only_wrong_copies_are_damage(under_test: Subject) -> None:
    await under_test.store_wrong(digest := hashlib.sha256(b"right").hexdigest(), "ann", b"wrong")
    with pytest.raises(BlobDamaged, match="5 bytes with another digest"):
        await under_test.blobs.get(digest)
