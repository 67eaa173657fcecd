"""A board in memory for workers, with tasks put there by hand, and two specialists to try them with."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

from pydantic import BaseModel

from blackboard.board import Board
from blackboard.log import Append, Conflict, LogUnavailable, NotPermitted, Stored
from blackboard.memory import MemoryBlobs, MemoryLog, MemoryQueue
from blackboard.queue import Entry, TaskKey
from schemas.codec import encode
from schemas.inputs import Ended, read_input
from schemas.subjects import Subjects
from schemas.tasks import Item, Task
from specialists.specialist import Context, Specialist, Stop, specialist
from specialists.worker import Timing, Worker
from specialists.worker_events import WorkerEvent

NAME = "worker"
ACK_WAIT_S = 0.6
PATIENCE_S = 20
TIMING = Timing(pull_s=0.1, heartbeat_s=0.05, started_after_s=30, grace_s=0.1, backoff_s=(0.01, 0.02))


class Word(BaseModel):
    word: str = ""
    code: str = ""


class ShakyLog(MemoryLog):
    """Does not answer while `down`; loses the answers to the next `deaf` appends, which are stored all the same."""

    down = False
    deaf = 0
    refuses = False
    asked = 0

    async def append(self, *appends: Append) -> list[Stored | Conflict]:
        self.asked += 1
        if self.refuses and any(".obs." in one.subject for one in appends):
            raise NotPermitted("not yours")
        if self.down:
            raise LogUnavailable("no answer")
        stored = await super().append(*appends)
        if self.deaf and any(".obs." in one.subject for one in appends):
            self.deaf -= 1
            raise LogUnavailable("no answer, but stored")
        return stored


class Bench:
    """A board in memory, with a queue that has a place for NAME, and what workers said on it."""

    def __init__(self) -> None:
        self.log = ShakyLog(Subjects())
        self.queue = MemoryQueue(ack_wait_s=ACK_WAIT_S)
        self.board = Board(Subjects(), self.log, self.queue, MemoryBlobs())
        self.told: list[WorkerEvent] = []

    async def put(self, *items: Item, name: str = "step", attempt: int = 1, **changes: Any) -> TaskKey:
        fields: dict[str, Any] = {"log": self.log.id, "facts": {}, "work_ms": 10_000} | changes
        task = Task(
            run="run",
            task=name,
            attempt=attempt,
            specialist=NAME,
            contract=1,
            items=items or (Item("key", {"word": "hello"}),),
            read_version=3,
            wait_ms=1_000,
            span="0" * 16,
            **fields,
        )
        return await self.put_bytes(encode(task), name, attempt)

    async def put_bytes(self, data: bytes, name: str = "step", attempt: int = 1) -> TaskKey:
        key = TaskKey(NAME, "run", name, attempt)
        await self.queue.ensure([NAME])
        await self.queue.put([Entry(key, data)])
        return key

    async def observations(self, kind: type[Any] = Ended) -> list[Any]:
        messages = [one async for one in self.log.read("bb.main.obs.worker.run")]
        subjects = self.board.subjects
        read = [
            read_input(one.seq, one.subject, subjects.parse(one.subject), one.time_ms, one.data) for one in messages
        ]
        return [one.body for one in read if isinstance(one.body, kind)]

    async def end(self) -> Ended:
        """The end of the only task, once it is stored and out of the queue."""
        await self.until(self.idle)
        (end,) = await self.observations()
        assert isinstance(end, Ended)
        return end

    async def idle(self) -> bool:
        return not await self.queue.keys()

    async def until(self, holds: Callable[[], bool | Awaitable[bool]]) -> None:
        async with asyncio.timeout(PATIENCE_S):
            while not (await found if isinstance(found := holds(), Awaitable) else found):  # noqa: ASYNC110
                await asyncio.sleep(0.005)

    def worker(self, *specialists: Specialist, **options: Any) -> Worker:
        return Worker(self.board, specialists, **({"timing": TIMING, "on_event": self.told.append} | options))

    @asynccontextmanager
    async def working(self, *specialists: Specialist, **options: Any) -> AsyncIterator[asyncio.Event]:
        """A worker that runs; gives its stop event and awaits its end."""
        stop = asyncio.Event()
        running = asyncio.create_task(self.worker(*specialists, **options).run(stop))
        try:
            yield stop
        finally:
            stop.set()
            await asyncio.wait_for(running, PATIENCE_S)


def named(function: Any, **options: Any) -> Specialist:
    return specialist(NAME, offers="words", **options)(function)


async def echo(item: Word, context: Context) -> dict[str, str | float]:
    if item.code:
        raise Stop(item.code, "told to")  # type: ignore[arg-type]
    context.use(input_tokens=2)
    return {"word": item.word, "confidence": 0.5}
