"""What a recording is made on: a board in memory whose clock counts messages."""

import itertools
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

from blackboard.board import Board, floor_of
from blackboard.client import Client
from blackboard.history_file import Header, HistoryWriter
from blackboard.memory import MemoryBlobs, MemoryLog
from schemas.tasks import Item, Task
from tests.supervisor.scenario import goal
from tests.supervisor.table import Table

SOON_S = 0.05
"""A delay of a playbook that is waited for."""


class Recording(Table):
    """A board in memory whose clock counts messages; `log_id` is the name of the recording."""

    def __init__(self, name: str) -> None:
        super().__init__()
        counter = itertools.count(1_767_225_600_000, 10)
        self.log = MemoryLog(self.subjects, clock_ms=lambda: next(counter), log_id=f"recorded-{name}")
        self.blobs = MemoryBlobs()
        self.client = Client(self.board(), "ann")
        self.supervising = self.supervise()

    def board(self, log: Any = None, queue: Any = None) -> Board:
        blobs = getattr(self, "blobs", None) or MemoryBlobs()
        return Board(self.subjects, log or self.log.connect(), queue or self.queue, blobs)

    async def phase(self, run: str, phase: str) -> None:
        async def there() -> bool:
            return (await self.run(run)).state.phase == phase

        await self.until(there)

    async def in_flight(self, run: str, task: str) -> None:
        async def there() -> bool:
            tasks = (await self.run(run)).state.tasks
            return task in tasks and tasks[task].status == "dispatched"

        await self.until(there)

    async def attempt(self, run: str, task: str, number: int) -> None:
        async def there() -> bool:
            return (await self.run(run)).state.tasks[task].attempt == number

        await self.until(there)

    async def runs(self) -> list[str]:
        return sorted({run for one in await self.messages() if (run := self.subjects.parse(one.subject).run)})

    async def decided(self) -> None:
        """All that is on the log now is decided; one more goal makes the log say so."""
        (seq,) = await self.say(goal({}, team="unknown", run="last", by="ann"))

        async def there() -> bool:
            return (await self.run("_board")).cursor >= seq

        await self.until(there)

    async def write(self, path: Path) -> None:
        last = await self.log.last(self.subjects.every("fact"))
        header = Header(log=self.log.id, board="main", upto=await self.log.head(), floor=floor_of(last))
        with path.open("wb") as out:
            writer = HistoryWriter(out, header)
            for message in await self.messages():
                writer.add(message)
            writer.close()


def value_of(task: Task, item: Item) -> Any:
    """What most workers claim: what they are given, under their name."""
    return {"by": task.specialist, "of": item.input.get("x")}


Topology = Callable[[Recording], Awaitable[None]]
TOPOLOGIES: dict[str, Topology] = {}


def topology(record: Topology) -> Topology:
    TOPOLOGIES[record.__name__.replace("_", "-")] = record
    return record
