"""The reference of the log and of the blobs, in memory, for one event loop: what the promises mean, with nothing in the
way. The queue's stands in `memory_queue`.

Several callers share one log by sharing the object, or by `connect`, where each has a connection of its own to lose.
Source: the promises in `log` and `blobs`.
"""

import asyncio
import hashlib
import secrets
import time
from collections.abc import AsyncIterator, Callable, Sequence

from blackboard.blobs import BlobDamaged, BlobMissing
from blackboard.log import (
    Append,
    Conflict,
    Handler,
    LogDamaged,
    LogError,
    Message,
    Stored,
    TooLarge,
)
from blackboard.memory_queue import MemoryQueue
from schemas.subjects import Subjects, matches

__all__ = ["MemoryBlobs", "MemoryLog", "MemoryQueue"]

MAX_MESSAGE_BYTES = 1024 * 1024
BATCH = 500
"""Messages handed over at once when many wait."""


def wall_clock_ms() -> int:
    return time.time_ns() // 1_000_000


class _Store:
    """The messages, seen by every connection. A None in `slots` is a message that was lost."""

    def __init__(self, clock_ms: Callable[[], int], log_id: str, captured: Sequence[str]) -> None:
        self.clock_ms = clock_ms
        self.log_id = log_id
        self.captured = captured
        self.slots: list[Message | None] = []
        self.by_subject: dict[str, list[int]] = {}
        self.subscriptions: dict[_MemorySubscription, None] = {}  # woken in the order of their beginning

    def add(self, item: Append) -> Stored | Conflict:
        there = self.sequences(item.expects_on) if item.among else self.by_subject.get(item.subject, [])
        if item.expected is not None and item.expected != (there[-1] if there else 0):
            follower = next((seq for seq in there if seq > item.expected), None)
            stored = self.slots[follower - 1] if follower else None
            if stored is not None and (stored.subject, stored.data) == (item.subject, item.data):
                return Stored(stored.seq)
            return Conflict(item.subject, item.expected)
        sequences = self.by_subject.setdefault(item.subject, [])
        seq = len(self.slots) + 1
        self.slots.append(Message(seq, item.subject, self.clock_ms(), item.data, item.headers))
        sequences.append(seq)
        return Stored(seq)

    def sequences(self, pattern: str) -> list[int]:
        """Where the messages stand that match, in order."""
        if "*" not in pattern and not pattern.endswith(">"):
            return list(self.by_subject.get(pattern, ()))
        found = [seqs for subject, seqs in self.by_subject.items() if matches(pattern, subject)]
        return sorted(seq for seqs in found for seq in seqs)

    def batch(self, subjects: Sequence[str], after: int, upto: int) -> tuple[list[Message], int]:
        """The next messages above `after`, at most BATCH, and the position that they lead to."""
        found: list[Message] = []
        seq = after
        while seq < upto and len(found) < BATCH:
            message = self.slots[seq]
            seq += 1
            if message is None:
                if not subjects and found:
                    return found, seq - 1
                if not subjects:
                    raise LogDamaged(seq, "no message is stored there")
            elif not subjects or any(matches(pattern, message.subject) for pattern in subjects):
                found.append(message)
        return found, seq


class MemoryLog:
    """A log in memory.

    `clock_ms` gives the time of each message (default: the wall clock). With `subjects` only the log's families of that
    board are taken; without, every subject is.
    """

    def __init__(
        self,
        subjects: Subjects | None = None,
        *,
        clock_ms: Callable[[], int] = wall_clock_ms,
        log_id: str | None = None,
    ) -> None:
        captured = subjects.log if subjects else [">"]
        self._store = _Store(clock_ms, log_id or secrets.token_hex(16), captured)
        self._id = self._store.log_id
        self._reconnected: list[Callable[[], None]] = []

    def connect(self) -> "MemoryLog":
        """Another connection to the same log."""
        other = MemoryLog()
        other._store, other._id = self._store, self._store.log_id
        return other

    def reconnect(self) -> None:
        """As if the connection had been lost and were back."""
        for callback in self._reconnected:
            callback()

    def damage(self, seq: int) -> None:
        """Lose the message at `seq`, as a flipped bit on disk does: no reader sees it again, and nobody says so."""
        lost = self._store.slots[seq - 1]
        if lost is not None:
            self._store.slots[seq - 1] = None
            self._store.by_subject[lost.subject].remove(seq)

    def replace(self) -> None:
        """As if somebody had deleted the log and created another: empty, with another id."""
        self._store.slots.clear()
        self._store.by_subject.clear()
        self._store.log_id = secrets.token_hex(16)

    @property
    def id(self) -> str:
        return self._id

    async def current_id(self) -> str:
        return self._store.log_id

    async def append(self, *appends: Append) -> list[Stored | Conflict]:
        for item in appends:
            if len(item.data) > MAX_MESSAGE_BYTES:
                raise TooLarge(f"{item.subject}: {len(item.data)} bytes; the log takes {MAX_MESSAGE_BYTES}")
            if not any(matches(pattern, item.subject) for pattern in self._store.captured):
                raise LogError(f"{item.subject!r} is not a subject of this log")
        outcomes = [self._store.add(item) for item in appends]
        for subscription in self._store.subscriptions:
            subscription.wake()
        await asyncio.sleep(0)  # an append takes its turn like any other I/O, else a busy writer starves the readers
        return outcomes

    async def head(self) -> int:
        return len(self._store.slots)

    async def get(self, seq: int) -> Message | None:
        return self._store.slots[seq - 1] if 0 < seq <= len(self._store.slots) else None

    async def last(self, subject: str) -> Message | None:
        sequences = self._store.sequences(subject)
        return self._store.slots[sequences[-1] - 1] if sequences else None

    async def read(self, subject: str, after: int = 0) -> AsyncIterator[Message]:
        for seq in self._store.sequences(subject):
            message = self._store.slots[seq - 1]
            if seq > after and message is not None:
                yield message

    async def scan(
        self, subjects: Sequence[str] = (), after: int = 0, upto: int | None = None
    ) -> AsyncIterator[Sequence[Message]]:
        head = len(self._store.slots)
        end = head if upto is None else min(upto, head)
        while after < end:
            found, after = self._store.batch(subjects, after, end)
            if found:
                yield found

    async def last_per_subject(self, subject: str) -> AsyncIterator[Message]:
        last = [seqs[-1] for name, seqs in self._store.by_subject.items() if seqs and matches(subject, name)]
        for seq in sorted(last):
            message = self._store.slots[seq - 1]
            if message is not None:
                yield message

    async def subscribe(self, handler: Handler, subjects: Sequence[str] = (), after: int = 0) -> "_MemorySubscription":
        return _MemorySubscription(self._store, handler, subjects, after)

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        self._reconnected.append(callback)


class _MemorySubscription:
    def __init__(self, store: _Store, handler: Handler, subjects: Sequence[str], after: int) -> None:
        self._store, self._handler, self._subjects, self._position = store, handler, subjects, after
        self._more = asyncio.Event()
        self._closed = False
        store.subscriptions[self] = None
        self._task = asyncio.create_task(self._run())

    def wake(self) -> None:
        self._more.set()

    async def _run(self) -> None:
        try:
            while not self._closed:
                self._more.clear()
                found, position = self._store.batch(self._subjects, self._position, len(self._store.slots))
                self._position = max(self._position, position)
                if found:
                    await self._handler(found)
                elif self._position >= len(self._store.slots):
                    await self._more.wait()
        finally:
            self._store.subscriptions.pop(self, None)

    async def close(self) -> None:
        self._closed = True
        if asyncio.current_task() is not self._task:
            self._task.cancel()
            await asyncio.wait([self._task])

    async def wait(self) -> None:
        await asyncio.wait([self._task])
        if not self._task.cancelled() and (failure := self._task.exception()):
            raise failure


class MemoryBlobs:
    """Blobs in memory."""

    def __init__(self) -> None:
        self._blobs: dict[str, dict[str, bytes]] = {}

    async def put(self, data: bytes, author: str) -> str:
        digest = hashlib.sha256(data).hexdigest()
        self._blobs.setdefault(digest, {}).setdefault(author, bytes(data))
        return digest

    def damage(self, sha256: str) -> None:
        """Lose a part of what is stored, as a flipped bit on disk does."""
        self._blobs[sha256] = {author: data[:-1] for author, data in self._blobs[sha256].items()}

    def store_wrong(self, sha256: str, author: str, data: bytes) -> None:
        """Store under a digest what has another one, as anybody may who may store."""
        self._blobs.setdefault(sha256, {}).setdefault(author, data)

    async def get(self, sha256: str) -> bytes:
        if sha256 not in self._blobs:
            raise BlobMissing(f"no blob has the digest {sha256}")
        for data in self._blobs[sha256].values():
            if hashlib.sha256(data).hexdigest() == sha256:
                return data
        raise BlobDamaged(f"what is stored as {sha256} is {len(data)} bytes with another digest")
