"""The log and the queue as one simulated process sees them: the memory implementations, with what a seed lets go wrong.

Every fault is one that the promises in `blackboard.log` and `blackboard.queue` allow.
"""

from collections.abc import AsyncIterator, Callable, Iterable, Sequence

from blackboard.log import Append, Conflict, Handler, LogUnavailable, Message, Stored, Subscription
from blackboard.memory import MemoryLog
from blackboard.memory_announcements import MemoryAnnouncements
from blackboard.memory_queue import MemoryDelivery, MemoryQueue, Waiting
from blackboard.queue import Delivery, Entry, QueueUnavailable, TaskKey
from blackboard.simulation import faults as f
from blackboard.simulation.parts import Acknowledged, Enqueued, Happened
from blackboard.simulation.processes import Process


class Clock:
    """The clock of the log: it follows virtual time, and may be set back."""

    START_MS = 1_767_225_600_000

    def __init__(self, now_s: Callable[[], float]) -> None:
        self._now_s, self._back_ms = now_s, 0
        self.stored_s: list[float] = []
        """When it was asked, which is when a message was stored."""

    def ms(self) -> int:
        self.stored_s.append(self._now_s())
        return self.START_MS + round(self._now_s() * 1000) - self._back_ms

    @property
    def head(self) -> int:
        """The sequence of the last stored message."""
        return len(self.stored_s)

    def set_back(self, seconds: float) -> None:
        self._back_ms += round(seconds * 1000)


class SimulatedLog:
    """A connection of `process` to the log."""

    def __init__(self, inner: MemoryLog, process: Process, clock: Clock) -> None:
        self._inner, self._process, self._clock = inner.connect(), process, clock

    @property
    def id(self) -> str:
        return self._inner.id

    async def append(self, *appends: Append) -> list[Stored | Conflict]:
        process = self._process
        drawn = await process.enter("append", f.LOG_WRITES)
        if drawn.kind == "unavailable":
            raise LogUnavailable("a fault: nothing was stored")
        if drawn.kind == "clock_back":
            self._clock.set_back(process.chance.faults.clock_back_s * drawn.share)
        if drawn.kind == "doubled":
            await self._inner.append(*(one for one in appends if one.expected is None))
        if drawn.kind in {"lost_ack", "crash"}:
            appends = tuple(one for number, one in enumerate(appends) if drawn.bit(number))
        outcomes = await self._inner.append(*appends)
        process.leave(drawn)
        if drawn.kind == "lost_ack":
            raise LogUnavailable("a fault: the answer was lost")
        if drawn.kind == "reconnect":
            self._inner.reconnect()
        await process.unpaused()
        return outcomes

    async def _read(self, call: str) -> None:
        drawn = await self._process.enter(call, f.LOG_READS)
        self._process.leave(drawn)
        if drawn.kind == "unavailable":
            raise LogUnavailable("a fault: no answer")

    async def current_id(self) -> str:
        await self._read("current_id")
        return await self._inner.current_id()

    async def head(self) -> int:
        await self._read("head")
        return await self._inner.head()

    async def get(self, seq: int) -> Message | None:
        await self._read("get")
        return await self._inner.get(seq)

    async def last(self, subject: str) -> Message | None:
        await self._read("last")
        return await self._inner.last(subject)

    async def read(self, subject: str, after: int = 0) -> AsyncIterator[Message]:
        await self._read("read")
        async for message in self._inner.read(subject, after):
            yield message

    async def scan(
        self, subjects: Sequence[str] = (), after: int = 0, upto: int | None = None
    ) -> AsyncIterator[Sequence[Message]]:
        await self._read("scan")
        async for messages in self._inner.scan(subjects, after, upto):
            yield messages

    async def last_per_subject(self, subject: str) -> AsyncIterator[Message]:
        await self._read("last_per_subject")
        async for message in self._inner.last_per_subject(subject):
            yield message

    async def subscribe(self, handler: Handler, subjects: Sequence[str] = (), after: int = 0) -> Subscription:
        await self._read("subscribe")

        async def deliver(messages: Sequence[Message]) -> None:
            """In batches of any size."""
            start = 0
            while start < len(messages):
                drawn = await self._process.enter("deliver", f.READ_ON)
                if drawn.kind == "unread":
                    raise LogUnavailable("a fault: reading broke off")
                if drawn.kind == "reconnect":
                    self._inner.reconnect()
                size = len(messages) if drawn.share < 0.5 else 1 + round(4 * drawn.share)
                await handler(messages[start : start + size])
                start += size

        return await self._inner.subscribe(deliver, subjects, after)

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        self._inner.on_reconnect(callback)


class SimulatedAnnouncements:
    """What `process` announces and hears; some of it is lost, and a process that stands still does neither."""

    def __init__(self, inner: MemoryAnnouncements, process: Process) -> None:
        self._inner, self._process = inner, process

    async def announce(self, data: bytes) -> None:
        drawn = await self._process.enter("announce", f.CANCELS)
        await self._process.unpaused()
        if drawn.kind != "lost_cancel":
            await self._inner.announce(data)
        self._process.leave(drawn)

    async def heard(self) -> AsyncIterator[bytes]:
        async for data in self._inner.heard():
            await self._process.unpaused()
            yield data


class ShuffledQueue(MemoryQueue):
    """The one queue of a simulated board: which of the tasks that wait is delivered next is drawn."""

    def __init__(self, happens: Callable[[str, str], bool], share: Callable[[str], float]) -> None:
        super().__init__()
        self._happens, self._share = happens, share

    def choose(self, ready: Sequence[Waiting]) -> Waiting | None:
        if len(ready) < 2 or not self._happens("reordered", "queue choose"):
            return super().choose(ready)
        return ready[int(self._share("queue which") * len(ready))]


class SimulatedQueue:
    """A connection of `process` to the queue. What it does is noted in `happened`, with the head of the log as `clock`
    counts it."""

    def __init__(self, inner: MemoryQueue, process: Process, clock: Clock, happened: Happened) -> None:
        self._inner, self._process, self._clock, self._happened = inner, process, clock, happened
        self._looked = 0

    async def _enter(self, call: str, kinds: tuple[str, ...] = f.QUEUE_CALLS) -> f.Drawn:
        drawn = await self._process.enter(call, kinds)
        if drawn.kind == "unavailable":
            raise QueueUnavailable("a fault: nothing was done")
        if drawn.kind == "queue_lost":
            self._inner.lose()
        return drawn

    def _leave(self, drawn: f.Drawn) -> None:
        self._process.leave(drawn)
        if drawn.kind == "lost_ack":
            raise QueueUnavailable("a fault: the answer was lost")

    async def ensure(self, specialists: Iterable[str]) -> None:
        drawn = await self._enter("ensure")
        await self._inner.ensure(specialists)
        self._leave(drawn)

    async def put(self, entries: Sequence[Entry]) -> None:
        if not entries:
            self._process.require_alive()
            return
        drawn = await self._enter("put")
        self._happened.enqueued += [Enqueued(one.key, self._clock.head, self._looked) for one in entries]
        if drawn.kind in {"lost_ack", "crash"}:
            entries = [one for number, one in enumerate(entries) if drawn.bit(number)]
        await self._inner.put(entries)
        self._leave(drawn)

    async def keys(self) -> set[TaskKey]:
        drawn = await self._enter("keys")
        self._looked = self._clock.head
        found = await self._inner.keys()
        self._leave(drawn)
        return found

    async def remove(self, keys: Iterable[TaskKey]) -> None:
        drawn = await self._enter("remove")
        await self._inner.remove(keys)
        self._leave(drawn)

    async def pull(self, specialist: str, timeout_s: float) -> Delivery | None:
        drawn = await self._enter("pull", f.PULLS)
        delivery = await self._inner.pull(specialist, timeout_s)
        self._leave(drawn)
        if delivery is None or drawn.kind == "lost_delivery":
            return None
        if drawn.kind == "redelivered":
            await delivery.release()
        return SimulatedDelivery(delivery, self._process, self._acknowledged)

    def _acknowledged(self, key: TaskKey) -> None:
        self._happened.acknowledged.append(Acknowledged(key, self._clock.head))

    async def cancel(self, key: TaskKey) -> None:
        drawn = await self._process.enter("cancel", f.CANCELS)
        if drawn.kind != "lost_cancel":
            await self._inner.cancel(key)
        self._process.leave(drawn)

    def cancels(self, specialist: str) -> AsyncIterator[TaskKey]:
        return self._inner.cancels(specialist)


class SimulatedDelivery:
    def __init__(self, inner: MemoryDelivery, process: Process, note_ack: Callable[[TaskKey], None]) -> None:
        self._inner, self._process, self._note_ack = inner, process, note_ack
        self.key, self.data, self.headers, self.count = inner.key, inner.data, inner.headers, inner.count

    async def extend(self) -> None:
        drawn = await self._process.enter("extend", f.LAST_WORDS)
        if drawn.kind != "lost_ack":
            await self._inner.extend()
        self._process.leave(drawn)

    async def ack(self) -> None:
        self._note_ack(self.key)
        drawn = await self._process.enter("ack", f.LAST_WORDS)
        if drawn.kind != "lost_ack":
            await self._inner.ack()
        self._process.leave(drawn)

    async def release(self, delay_s: float = 0) -> None:
        drawn = await self._process.enter("release", f.LAST_WORDS)
        if drawn.kind != "lost_ack":
            await self._inner.release(delay_s)
        self._process.leave(drawn)
