"""The blobs on JetStream's object store, each under its SHA-256 as name.

Source: the promises in `blobs`. Chunks are read through our own reader, which notices missing ones; nats-py's `get`
would wait for them for ever.
"""

import asyncio
import hashlib

from nats import errors
from nats.js.api import ObjectStoreConfig
from nats.js.errors import APIError, BucketNotFoundError, NotFoundError, ObjectNotFoundError
from nats.js.object_store import ObjectStore

from blackboard.blobs import BlobDamaged, BlobMissing, BlobsUnavailable
from blackboard.jetstream_read import Reader
from blackboard.log import LogError
from blackboard.nats_connection import Connection
from blackboard.nats_errors import Disconnected
from schemas.subjects import Subjects

_SILENCE = (
    errors.TimeoutError,
    errors.NoRespondersError,
    errors.OutboundBufferLimitError,
    errors.ConnectionClosedError,
)


async def make_blobs(connection: Connection, subjects: Subjects, replicas: int = 1) -> None:
    """Create the board's object store unless it exists. Raises LogUnavailable, LogError."""
    config = ObjectStoreConfig(
        bucket=subjects.blob_bucket, replicas=replicas, description=f"blobs of board {subjects.board}"
    )
    client = connection.client.jetstream()
    try:
        await client.object_store(subjects.blob_bucket)
    except BucketNotFoundError:
        await client.create_object_store(config=config, bucket=subjects.blob_bucket)


class JetStreamBlobs:
    """One board's blobs over one connection."""

    def __init__(self, connection: Connection, subjects: Subjects, *, deadline_s: float = 5.0) -> None:
        self._connection, self._bucket, self._deadline_s = connection, subjects.blob_bucket, deadline_s

    async def put(self, data: bytes) -> str:
        digest = hashlib.sha256(data).hexdigest()
        try:
            store = await self._store()
            if not await _has(store, digest):
                await store.put(digest, data)
        except (*_SILENCE, Disconnected, APIError) as error:
            raise BlobsUnavailable(f"blob {digest} is not known to be stored: {_why(error)}") from error
        return digest

    async def get(self, sha256: str) -> bytes:
        try:
            store = await self._store()
            info = await store.get_info(sha256)
            data = await asyncio.wait_for(self._chunks(info.nuid or "", info.size or 0), self._deadline_s)
        except (NotFoundError, ObjectNotFoundError):
            raise BlobMissing(f"no blob has the digest {sha256}") from None
        except (*_SILENCE, TimeoutError, LogError, APIError) as error:
            raise BlobsUnavailable(f"blob {sha256} cannot be read at the moment: {_why(error)}") from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise BlobDamaged(f"what is stored as {sha256} is {len(data)} bytes with another digest")
        return data

    async def _store(self) -> ObjectStore:
        return await self._connection.client.jetstream().object_store(self._bucket)

    async def _chunks(self, nuid: str, size: int) -> bytes:
        """What is there of the chunks; fewer bytes than `size` when some are lost."""
        data = bytearray()
        reader = Reader(self._connection, f"OBJ_{self._bucket}", [f"$O.{self._bucket}.C.{nuid}"])
        try:
            await reader.open()
            while len(data) < size and (messages := await reader.next()):
                for message in messages:
                    data += message.data
        finally:
            await reader.close()
        return bytes(data)


async def _has(store: ObjectStore, name: str) -> bool:
    try:
        await store.get_info(name)
    except (NotFoundError, ObjectNotFoundError):
        return False
    return True


def _why(error: Exception) -> str:
    return str(error) or type(error).__name__
