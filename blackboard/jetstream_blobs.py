"""The blobs on JetStream: each in parts, on a stream that takes one message a subject and none in its place.

The author stands in the subject, so nobody can replace what another one stored, and whoever stores something else under
a digest stores it in vain: a reader takes the copy that has it. NATS's object store would let everybody replace
everything, for it replaces the message that describes an object.
Source: the promises in `blobs`; docs/protocol.md, section Blobs.
"""

import asyncio
import hashlib
from collections.abc import Sequence

import msgspec
from nats.aio.msg import Msg

from blackboard import jetstream_wire as wire
from blackboard.blobs import BlobDamaged, BlobMissing, BlobsUnavailable
from blackboard.jetstream_direct import Gets
from blackboard.log import LogUnavailable, Message
from blackboard.nats_connection import Connection
from blackboard.nats_errors import refusal, status_of
from schemas.subjects import Subjects

PART_BYTES = 512 * 1024
AT_ONCE = 8
"""Parts under way at the same time."""
AUTHORS = 100
"""Copies of one blob that are looked at."""
PARTS_AT_ONCE = 32
PAUSES_S = (0.05, 0.2, 0.5)
"""Before a blob counts as missing: on a cluster, who answers may be a moment behind."""


class Described(msgspec.Struct, frozen=True):
    """Part 0 of a blob, stored last: its size in bytes, and the number of the last part."""

    size: int
    parts: int


class JetStreamBlobs:
    """One board's blobs over one connection."""

    def __init__(self, connection: Connection, subjects: Subjects, *, deadline_s: float = 5.0) -> None:
        self._connection, self._subjects, self._deadline_s = connection, subjects, deadline_s
        self._gets = Gets(connection, subjects.blob_stream)

    async def put(self, data: bytes, author: str) -> str:
        digest = hashlib.sha256(data).hexdigest()
        pieces = [data[start : start + PART_BYTES] for start in range(0, len(data), PART_BYTES)]
        try:
            if not await self._last([self._subjects.blob(author, digest, 0)]):
                for start in range(0, len(pieces), AT_ONCE):
                    some = enumerate(pieces[start : start + AT_ONCE], start=start + 1)
                    await asyncio.gather(*(self._store(author, digest, part, piece) for part, piece in some))
                described = msgspec.json.encode(Described(len(data), len(pieces)))
                await self._store(author, digest, 0, described)
        except LogUnavailable as error:
            raise BlobsUnavailable(f"blob {digest} is not known to be stored: {error}") from error
        return digest

    async def _store(self, author: str, digest: str, part: int, data: bytes) -> None:
        message = await self._connection.request(self._subjects.blob(author, digest, part), data, self._deadline_s)
        _check_stored(message)

    async def get(self, sha256: str) -> bytes:
        try:
            return await self._found(sha256)
        except LogUnavailable as error:
            raise BlobsUnavailable(f"blob {sha256} cannot be read at the moment: {error}") from error

    async def _found(self, sha256: str) -> bytes:
        for pause_s in (*PAUSES_S, None):
            copies = await self._last([self._subjects.blob("*", sha256, 0)])
            wrong = list[int]()
            for one in copies:
                if (data := await self._copy(one)) is not None:
                    if hashlib.sha256(data).hexdigest() == sha256:
                        return data
                    wrong.append(len(data))
            if pause_s is not None:
                await asyncio.sleep(pause_s)
        if not copies:
            raise BlobMissing(f"no blob has the digest {sha256}")
        raise BlobDamaged(f"what is stored as {sha256} is {wrong[0] if wrong else 0} bytes with another digest")

    async def _copy(self, first: Message) -> bytes | None:
        """What lies beside part 0; fewer bytes than it says when some are lost, None when it says nothing."""
        try:
            described = msgspec.json.decode(first.data, type=Described)
        except msgspec.DecodeError:
            return None
        prefix, parts, after = first.subject.removesuffix("0"), dict[int, bytes](), 0
        while len(parts) < described.parts:
            body = {"seq": after + 1, "batch": PARTS_AT_ONCE, "next_by_subj": f"{prefix}*"}
            before = after
            async for message in self._gets.ask(body):
                after = message.seq
                part = message.subject.removeprefix(prefix)
                if part.isdecimal() and 0 < int(part) <= described.parts:
                    parts[int(part)] = message.data
            if after == before:
                break
        return b"".join(data for _, data in sorted(parts.items()))

    async def _last(self, subjects: Sequence[str]) -> list[Message]:
        return [message async for message in self._gets.ask({"multi_last": subjects, "batch": AUTHORS})]


def _check_stored(message: Msg) -> None:
    """Raise unless the part is stored, now or before. Raises LogUnavailable (no room, too), ApiError."""
    if status_of(message) == "503":
        raise LogUnavailable("the stream of the blobs has no leader, or does not exist")
    error = msgspec.json.decode(message.data).get("error")
    if error is None or wire.is_there(error):
        return
    if error.get("code") == 503:
        raise LogUnavailable(error.get("description", ""))
    raise refusal("blob", error)
