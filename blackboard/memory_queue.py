"""The reference of the task queue, in memory, for one event loop. Time is the event loop's.

Source: the promises in `queue`.
"""

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterable, Sequence

from blackboard.queue import ACK_WAIT_S, DEDUPE_WINDOW_S, Entry, QueueGone, TaskKey


class Waiting:
    """One entry of the queue and what became of it so far."""

    def __init__(self, entry: Entry) -> None:
        self.entry = entry
        self.count = 0
        self.ready_at: float = 0
        """Loop time at which it may be delivered; while it is in flight, the end of the worker's time."""


class MemoryQueue:
    """A queue in memory. It exists after the first `ensure`."""

    def __init__(self, ack_wait_s: float = ACK_WAIT_S) -> None:
        self._ack_wait_s = ack_wait_s
        self._exists = False
        self._places: set[str] = set()
        self._entries: dict[TaskKey, Waiting] = {}
        self._seen: deque[tuple[float, tuple[str, str, int]]] = deque()
        self._pulling: dict[str, list[asyncio.Future[None]]] = {}
        self._cancels: dict[str, list[asyncio.Queue[TaskKey | None]]] = {}

    def lose(self) -> None:
        """As if the server had restarted: the queue and everything in it is gone until the next `ensure`."""
        self._exists = False
        self._places.clear()
        self._entries.clear()
        self._seen.clear()
        self._notify(self._pulling)

    def close(self) -> None:
        """End every `cancels`."""
        for listener in [one for listeners in self._cancels.values() for one in listeners]:
            listener.put_nowait(None)

    async def ensure(self, specialists: Iterable[str]) -> None:
        self._exists = True
        self._places.update(specialists)

    async def put(self, entries: Sequence[Entry]) -> None:
        self._require()
        now = asyncio.get_running_loop().time()
        while self._seen and self._seen[0][0] < now - DEDUPE_WINDOW_S:
            self._seen.popleft()
        seen = {identity for _, identity in self._seen}
        for_whom = dict.fromkeys(entry.key.specialist for entry in entries)
        for entry in entries:
            identity = (entry.key.run, entry.key.task, entry.key.attempt)
            if entry.key not in self._entries and identity not in seen:
                self._entries[entry.key] = Waiting(entry)
                self._seen.append((now, identity))
                seen.add(identity)
        self._notify(for_whom)
        await asyncio.sleep(0)

    async def keys(self) -> set[TaskKey]:
        self._require()
        return set(self._entries)

    async def remove(self, keys: Iterable[TaskKey]) -> None:
        self._require()
        for key in keys:
            self._entries.pop(key, None)

    async def pull(self, specialist: str, timeout_s: float) -> "MemoryDelivery | None":
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while True:
            self._require(specialist)
            now = loop.time()
            mine = [one for one in self._entries.values() if one.entry.key.specialist == specialist]
            if (ready := self.choose([one for one in mine if one.ready_at <= now])) is not None:
                ready.count += 1
                ready.ready_at = now + self._ack_wait_s
                return MemoryDelivery(self, ready)
            if now >= deadline:
                return None
            await self._wait_for_change(specialist, min([deadline, *(one.ready_at for one in mine)]))

    def choose(self, ready: "Sequence[Waiting]") -> "Waiting | None":
        """Which of the entries that may be delivered is delivered next."""
        return ready[0] if ready else None

    async def cancel(self, key: TaskKey) -> None:
        for listener in self._cancels.get(key.specialist, ()):
            listener.put_nowait(key)

    def cancels(self, specialist: str) -> AsyncIterator[TaskKey]:
        listener: asyncio.Queue[TaskKey | None] = asyncio.Queue()
        self._cancels.setdefault(specialist, []).append(listener)
        return self._listen(specialist, listener)

    async def _listen(self, specialist: str, listener: asyncio.Queue[TaskKey | None]) -> AsyncIterator[TaskKey]:
        try:
            while (cancel := await listener.get()) is not None:
                yield cancel
        finally:
            self._cancels[specialist].remove(listener)

    def _require(self, specialist: str | None = None) -> None:
        if not self._exists:
            raise QueueGone("the task queue does not exist")
        if specialist is not None and specialist not in self._places:
            raise QueueGone(f"the task queue has no place for specialist {specialist!r}")

    def _notify(self, specialists: Iterable[str]) -> None:
        for specialist in specialists:
            for waiting in self._pulling.get(specialist, ()):
                _wake(waiting)

    async def _wait_for_change(self, specialist: str, until: float) -> None:
        """Return when something changes for `specialist`, or at loop time `until`."""
        loop = asyncio.get_running_loop()
        waiting: asyncio.Future[None] = loop.create_future()
        timer = loop.call_at(until, _wake, waiting)
        pulling = self._pulling.setdefault(specialist, [])
        pulling.append(waiting)
        try:
            await waiting
        finally:
            timer.cancel()
            pulling.remove(waiting)

    def holds(self, waiting: Waiting) -> bool:
        """Whether this very entry is still there; another one under the same key does not count."""
        return self._entries.get(waiting.entry.key) is waiting

    def postpone(self, waiting: Waiting, delay_s: float) -> None:
        """Let it be delivered again in `delay_s` seconds."""
        if self.holds(waiting):
            waiting.ready_at = asyncio.get_running_loop().time() + delay_s
            self._notify([waiting.entry.key.specialist])

    def take_out(self, waiting: Waiting) -> None:
        if self.holds(waiting):
            del self._entries[waiting.entry.key]

    @property
    def ack_wait_s(self) -> float:
        return self._ack_wait_s


def _wake(waiting: "asyncio.Future[None]") -> None:
    if not waiting.done():
        waiting.set_result(None)


class MemoryDelivery:
    def __init__(self, queue: MemoryQueue, waiting: Waiting) -> None:
        self._queue, self._waiting = queue, waiting
        self.count = waiting.count
        self.key = waiting.entry.key
        self.data = waiting.entry.data
        self.headers = dict(waiting.entry.headers or {})

    async def extend(self) -> None:
        self._queue.postpone(self._waiting, self._queue.ack_wait_s)

    async def ack(self) -> None:
        self._queue.take_out(self._waiting)

    async def release(self, delay_s: float = 0) -> None:
        self._queue.postpone(self._waiting, delay_s)
