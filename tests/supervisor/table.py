"""A whole board in memory: supervisors, workers and a client around one log and one queue, in one event loop."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import asynccontextmanager, suppress
from typing import Any

from blackboard.announcements import Announcements
from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import Append, Log, Message, Stored
from blackboard.memory import MemoryBlobs, MemoryLog
from blackboard.memory_queue import MemoryQueue
from blackboard.queue import QueueGone
from projections.history import Folded, fold, outcome_digest, unwritten
from schemas import events as e
from schemas.codec import decode_event, decode_facts
from schemas.events import Claim
from schemas.inputs import Ended, Started
from schemas.subjects import Subjects
from schemas.tasks import Item, Task, decode_task
from schemas.usage import Usage
from supervisor.replay import redecide
from supervisor.service import Supervisor
from tests.supervisor.scenario import Said

Answer = Callable[[Task, Item], Any]
"""What a worker claims for an item; a StopCode as a raised Stop ends the attempt."""


class Stop(Exception):
    """An attempt ends with this code."""


class Crash(BaseException):
    """The process of a supervisor is gone, here and now."""


class Record:
    """One board's log, and what stands on it."""

    def __init__(self, subjects: Subjects, log: Log) -> None:
        self.subjects, self.log = subjects, log

    async def say(self, *said: Said) -> list[int]:
        stored = await self.log.append(*(Append(one.subject_on(self.subjects), one.data) for one in said))
        return [one.seq for one in stored if isinstance(one, Stored)]

    async def messages(self) -> list[Message]:
        found: list[Message] = []
        async for messages in self.log.scan():
            found += messages
        return found

    async def run(self, run: str) -> Folded:
        """As the log has it."""
        folded = unwritten(await self.log.current_id(), run)
        async for message in self.log.read(self.subjects.fact(run)):
            folded = fold(folded, decode_facts(message.data), message.seq)
        return folded

    async def events(self, run: str) -> list[e.Event]:
        return [
            decode_event(memoryview(event))
            async for message in self.log.read(self.subjects.fact(run))
            for event in decode_facts(message.data).events
        ]

    async def check(self) -> dict[str, Folded]:
        """What the log holds is what its inputs bring about, whoever decided them, in whichever batches."""
        messages, log_id = await self.messages(), await self.log.current_id()
        addresses = [address for message in messages if (address := self.subjects.address(message.subject))]
        stored = {run: await self.run(run) for run in sorted({one.run for one in addresses if one.family == "fact"})}
        cursor = max((folded.cursor for folded in stored.values()), default=0)
        for batch in (1, 7, 500):
            again = redecide(log_id, [m for m in messages if m.seq <= cursor], batch, self.subjects.board)
            assert {run: folded.h for run, folded in again.items()} == {run: folded.h for run, folded in stored.items()}
        for run in stored:
            ends = [
                (event.task, event.attempt)
                for event in await self.events(run)
                if isinstance(event, e.TaskEnded | e.AttemptFailed)
            ]
            assert len(ends) == len(set(ends)), "no attempt is accepted twice"
        return stored


class Table(Record):
    log: MemoryLog

    def __init__(self) -> None:
        self.now_ms = 1_000_000
        subjects = Subjects()
        super().__init__(subjects, MemoryLog(subjects, clock_ms=lambda: self.now_ms, log_id="log-1"))
        self.queue = MemoryQueue()
        self.announcements: Announcements | None = None
        """Where supervisors hear each other; without it each is active."""
        self.client = Client(self.board(), "me")
        self.tasks: list[asyncio.Task[None]] = []
        self.stop = asyncio.Event()

    def board(self, log: Any = None, queue: Any = None) -> Board:
        log, queue = log or self.log.connect(), queue or self.queue
        return Board(self.subjects, log, queue, MemoryBlobs(), self.announcements)

    # -- who takes part --

    def supervise(self, board: Board | None = None, **options: Any) -> "Supervising":
        supervisor = Supervisor(board or self.board(), **({"mend_s": 0.03, "grace_s": 0.0} | options))
        task = asyncio.create_task(_until_crash(supervisor, self.stop))
        self.tasks.append(task)
        return Supervising(supervisor, task)

    def work(self, name: str, answer: Answer, **habits: Any) -> asyncio.Task[None]:
        task = asyncio.create_task(self._work(name, answer, **habits))
        self.tasks.append(task)
        return task

    async def _work(self, name: str, answer: Answer, repeat: int = 1, start: bool = False) -> None:
        """`repeat`: how often each end is stored; `start`: whether it says that it started."""
        client = Client(self.board(), name)
        while True:
            try:
                delivery = await self.queue.pull(name, 1)
            except QueueGone:
                await asyncio.sleep(0.01)
                continue
            if delivery is None:
                continue
            task = decode_task(delivery.data)
            execution = f"{task.run}/{task.task}/{task.attempt}/{delivery.count}"
            if start:
                await client.observe(task.run, Started(task=task.task, attempt=task.attempt, execution=execution))
            for _ in range(repeat):
                await client.observe(task.run, ended_by(task, execution, answer))
            await delivery.ack()

    # -- what becomes of it --

    async def until(self, done: Callable[[], Awaitable[bool]], within_s: float = 20) -> None:
        async with asyncio.timeout(within_s):
            while not await done():
                self.look_for_failures()
                await asyncio.sleep(0.005)

    def look_for_failures(self) -> None:
        for task in self.tasks:
            if task.done() and not task.cancelled():
                task.result()

    async def ended(self, *runs: str, within_s: float = 20) -> list[Folded]:
        """Those runs, when all of them have ended."""

        async def done() -> bool:
            return all([(await self.run(run)).state.end for run in runs])

        await self.until(done, within_s)
        return [await self.run(run) for run in runs]

    async def outcomes(self, *runs: str) -> list[str]:
        return [outcome_digest(folded.state) for folded in await self.ended(*runs)]


class Supervising:
    def __init__(self, supervisor: Supervisor, task: asyncio.Task[None]) -> None:
        self.supervisor, self.task = supervisor, task

    async def kill(self) -> None:
        self.task.cancel()
        await asyncio.wait([self.task])

    async def reached(self, seq: int) -> None:
        async with asyncio.timeout(10):
            while self.supervisor.position < seq:
                if self.task.done():
                    self.task.result()
                await asyncio.sleep(0.005)


async def _until_crash(supervisor: Supervisor, stop: asyncio.Event) -> None:
    with suppress(Crash):
        await supervisor.run(stop)


def ended_by(task: Task, execution: str, answer: Answer) -> Ended:
    usage = Usage(input_tokens=1)
    try:
        claims = tuple(Claim(item.key, answer(task, item)) for item in task.items)
    except Stop as stop:
        code: Any = str(stop)
        return Ended(task=task.task, attempt=task.attempt, execution=execution, usage=usage, code=code)
    return Ended(task=task.task, attempt=task.attempt, execution=execution, usage=usage, claims=claims)


@asynccontextmanager
async def board_in_memory(*catalogue: Said) -> AsyncIterator[Table]:
    table = Table()
    await table.say(*catalogue)
    try:
        yield table
        table.look_for_failures()
    finally:
        table.stop.set()
        while going := [task for task in table.tasks if not task.done()]:
            for task in going:
                task.cancel()
            await asyncio.wait(going, timeout=0.1)  # `wait_for` of Python 3.11 may swallow a cancellation
        await asyncio.gather(*table.tasks, return_exceptions=True)


class Faulty:
    """A log or a queue of which one call does what `fault` does: before it (`"before"`) or after it (`"after"`).

    Several share one `Fuse`, which counts their calls.
    """

    def __init__(self, inner: Any, fuse: "Fuse") -> None:
        self._inner, self._fuse = inner, fuse

    @property
    def id(self) -> str:
        return self._inner.id

    def __getattr__(self, name: str) -> Any:
        method = getattr(self._inner, name)
        if name in {"on_reconnect", "subscribe", "cancels"}:
            return method
        if name in {"read", "scan", "last_per_subject"}:
            return lambda *args, **options: self._iterate(method, args, options)

        async def call(*args: Any, **options: Any) -> Any:
            self._fuse.before()
            result = await method(*args, **options)
            self._fuse.after()
            return result

        return call

    async def _iterate(self, method: Any, args: Sequence[Any], options: dict[str, Any]) -> AsyncIterator[Any]:
        self._fuse.before()
        async for one in method(*args, **options):
            yield one
        self._fuse.after()


class Fuse:
    def __init__(self, at: int = 0, place: str = "before", fault: type[BaseException] = Crash) -> None:
        self.calls, self._at, self._place, self._fault = 0, at, place, fault

    def before(self) -> None:
        self.calls += 1
        self._burn("before")

    def after(self) -> None:
        self._burn("after")

    def _burn(self, place: str) -> None:
        if self.calls == self._at and place == self._place:
            self._at = -1
            raise self._fault("a fault, on purpose")
