"""A board whose supervisors move only when a scenario tells them to, on the memory log and on a real nats-server.

What happens in which order is written down step by step, so a scenario neither sleeps nor hopes. Time is told too: that
of timers is the table's own clock, that of the log is the store's plus what the scenario says.
"""

import copy
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Callable, Coroutine, Sequence
from typing import Any

from msgspec.structs import replace

from blackboard.board import Board
from blackboard.jetstream import attach, create_board
from blackboard.jetstream_queue import JetStreamQueue
from blackboard.log import Append, Log, LogError, Message
from blackboard.memory import MemoryBlobs, MemoryLog, wall_clock_ms
from blackboard.memory_queue import MemoryQueue
from blackboard.nats_connection import Connection, connect
from blackboard.queue import ACK_WAIT_S, Delivery, Queue
from schemas.codec import encode
from schemas.subjects import Subjects
from schemas.tasks import Task, decode_task
from supervisor.service import PositionLost, Supervisor
from tests.holes.backup import restore, take_backup
from tests.holes.ports import Port
from tests.supervisor.table import Answer, Crash, Record, ended_by

AT_REST = 3
"""Rounds without anything new after which nothing more is to come."""
ROUNDS = 60
PULL_S = 0.5


Wrap = Callable[[Any], Any]


class Held:
    """A supervisor in the hands of a scenario. Like `Supervisor.run` it starts anew where its position is lost."""

    def __init__(self, table: "Table", supervisor: Supervisor) -> None:
        self._table, self.supervisor = table, supervisor

    @property
    def position(self) -> int:
        return self.supervisor.position

    @property
    def left(self) -> dict[str, int]:
        """The runs that it leaves alone, each with the first input that it did not decide."""
        return self.supervisor.committer.left

    async def take_over(self) -> None:
        await self.supervisor._recover()

    async def hear(self, upto: int | None = None) -> None:
        """Read what is new on the log, and do nothing about it yet."""
        position = max([self.position, *(message.seq for message in self.supervisor._inbox.first())])
        async for messages in self._table.log.scan(after=position, upto=upto):
            await self.supervisor._inbox.on_messages(messages)

    async def turn(self) -> None:
        """One turn: what was heard, what is due, what is amiss. Fails where the supervisor would end."""
        try:
            await self.supervisor._turn()
        except PositionLost:
            await self.take_over()
        except LogError as error:
            raise AssertionError(f"the supervisor ended: {error}") from error

    async def handle(self) -> None:
        """Turns until nothing that was heard is left."""
        await self.turn()
        while self.supervisor._inbox:
            await self.turn()

    async def read(self, upto: int | None = None) -> None:
        """Hear and handle."""
        await self.hear(upto)
        await self.handle()

    def reconnected(self) -> None:
        """Its connection was lost and is back."""
        self.supervisor._on_reconnect()

    async def dies(self, doing: Coroutine[Any, Any, None]) -> None:
        """It is gone in the middle of this; fails when it is not."""
        try:
            await doing
        except Crash:
            return
        raise AssertionError("nothing has killed the supervisor: the scenario is not what it says")


class Table(Record, ABC):
    """One board. `log` and `queue` are what everybody else than a supervisor uses."""

    kind: str
    queue: Queue

    def __init__(self, subjects: Subjects, log: Log) -> None:
        super().__init__(subjects, log)
        self.passed_s = 0.0
        self.ack_wait_s = ACK_WAIT_S
        """Of queues that are connected from now on."""

    # -- who takes part --

    @abstractmethod
    async def ports(self) -> tuple[Log, Queue]:
        """A connection of its own."""

    async def board(self, log: Wrap | None = None, queue: Wrap | None = None) -> Board:
        """A board over a connection of its own. `log` and `queue` wrap its ports."""
        own_log, own_queue = await self.ports()
        return Board(
            self.subjects, log(own_log) if log else own_log, queue(own_queue) if queue else own_queue, MemoryBlobs()
        )

    async def held(self, log: Wrap | None = None, queue: Wrap | None = None, **options: Any) -> Held:
        """A supervisor that has taken over, and has read nothing since."""
        board = await self.board(log, queue)
        settings: dict[str, Any] = {"mend_s": 0.0, "grace_s": 0.0, "clock_s": lambda: self.passed_s} | options
        held = Held(self, Supervisor(board, **settings))
        await held.take_over()
        return held

    async def rest(self, *everybody: Held) -> None:
        """Let them go on until there is nothing more to do for anyone. Fails where that does not come."""
        seen: Any = None
        quiet = 0
        for _ in range(ROUNDS):
            for held in everybody:
                await held.read()
            now = await self.log.head(), sorted(await self.queue.keys()), [held.position for held in everybody]
            quiet = quiet + 1 if now == seen else 0
            seen = now
            if quiet == AT_REST:
                return
        raise AssertionError(f"no rest after {ROUNDS} rounds: {seen}")

    async def pull(self, name: str) -> Delivery:
        delivery = await self.queue.pull(name, PULL_S)
        assert delivery is not None, f"there is no task for {name}"
        return delivery

    async def work(self, name: str, answer: Answer, tasks: int = 1) -> list[Task]:
        """`name` does so many tasks: stores the end of each, then acknowledges it."""
        done = []
        for _ in range(tasks):
            delivery = await self.pull(name)
            task = decode_task(delivery.data)
            end = ended_by(task, f"{task.run}/{task.task}/{task.attempt}/{delivery.count}", answer)
            await self.log.append(Append(self.subjects.observation(name, task.run), encode(end)))
            await delivery.ack()
            done.append(task)
        return done

    # -- time --

    def passes(self, seconds: float) -> None:
        """On the clock of the supervisors, for timers."""
        self.passed_s += seconds

    @abstractmethod
    async def set_log_clock(self, by_s: float) -> None:
        """What is stored from now on has the time of now and so much more, or less."""

    # -- what happens to it --

    @abstractmethod
    async def lose_queue(self) -> None:
        """The queue is gone, with everything in it and all that it knew."""

    @abstractmethod
    async def backup(self) -> Any: ...

    @abstractmethod
    async def restore(self, backup: Any) -> None:
        """The log is what it was at the backup, with the same id."""

    @abstractmethod
    async def replace(self) -> None:
        """Somebody has deleted the log and made another."""

    @abstractmethod
    async def close(self) -> None: ...


class MemoryTable(Table):
    """On the reference in memory."""

    kind = "memory"
    log: MemoryLog
    queue: MemoryQueue

    def __init__(self, subjects: Subjects) -> None:
        self._ahead_ms = 0
        super().__init__(subjects, MemoryLog(subjects, clock_ms=lambda: wall_clock_ms() + self._ahead_ms))
        self.queue = MemoryQueue()

    async def ports(self) -> tuple[Log, Queue]:
        self.queue._ack_wait_s = self.ack_wait_s
        await self.queue.ensure([])
        return self.log.connect(), self.queue

    async def set_log_clock(self, by_s: float) -> None:
        self._ahead_ms = round(by_s * 1000)

    async def lose_queue(self) -> None:
        self.queue.lose()

    async def backup(self) -> Any:
        store = self.log._store
        return list(store.slots), copy.deepcopy(store.by_subject)

    async def restore(self, backup: Any) -> None:
        slots, by_subject = backup
        self.log._store.slots[:] = slots
        self.log._store.by_subject = copy.deepcopy(by_subject)

    async def replace(self) -> None:
        self.log.replace()

    async def close(self) -> None:
        self.queue.close()


class ServerTable(Table):
    """On a nats-server."""

    kind = "nats-server"

    def __init__(self, url: str, subjects: Subjects, connection: Connection, log: Log) -> None:
        super().__init__(subjects, Clocked(log, self))
        self._url, self._connections = url, [connection]
        self.queue = self._queue(connection)
        self.ahead_ms: list[tuple[int, int]] = [(0, 0)]
        """From which sequence on the log's clock is ahead by how much."""

    @classmethod
    async def make(cls, url: str, subjects: Subjects) -> "ServerTable":
        connection = await connect(url, "holes")
        return cls(url, subjects, connection, (await create_board(connection, subjects)).log)

    def _queue(self, connection: Connection) -> JetStreamQueue:
        return JetStreamQueue(connection, self.subjects, ack_wait_s=self.ack_wait_s)

    async def ports(self) -> tuple[Log, Queue]:
        self._connections.append(connection := await connect(self._url, "holes"))
        log: Any = Clocked((await attach(connection, self.subjects)).log, self)
        return log, self._queue(connection)

    async def set_log_clock(self, by_s: float) -> None:
        self.ahead_ms.append((await self.log.head() + 1, round(by_s * 1000)))

    async def lose_queue(self) -> None:
        await self._connections[0].api(f"STREAM.DELETE.{self.subjects.task_stream}")

    async def backup(self) -> Any:
        return await take_backup(self._connections[0], self.subjects.log_stream)

    async def restore(self, backup: Any) -> None:
        await self._connections[0].api(f"STREAM.DELETE.{self.subjects.log_stream}")
        await restore(self._connections[0], self.subjects.log_stream, backup)

    async def replace(self) -> None:
        await self._connections[0].api(f"STREAM.DELETE.{self.subjects.log_stream}")
        await create_board(self._connections[0], self.subjects)

    async def close(self) -> None:
        for connection in self._connections:
            await connection.close()


class Clocked(Port):
    """A log whose messages have the time that the scenario says: a test cannot set the clock of a machine."""

    def __init__(self, inner: Log, table: ServerTable) -> None:
        super().__init__(inner)
        self._table = table

    def _at(self, message: Message) -> Message:
        ahead_ms = [ms for seq, ms in self._table.ahead_ms if seq <= message.seq][-1]
        return replace(message, time_ms=message.time_ms + ahead_ms)

    async def get(self, seq: int) -> Message | None:
        message = await self.inner.get(seq)
        return self._at(message) if message else None

    async def last(self, subject: str) -> Message | None:
        message = await self.inner.last(subject)
        return self._at(message) if message else None

    async def read(self, subject: str, after: int = 0) -> AsyncIterator[Message]:
        async for message in self.inner.read(subject, after):
            yield self._at(message)

    async def scan(
        self, subjects: Sequence[str] = (), after: int = 0, upto: int | None = None
    ) -> AsyncIterator[list[Message]]:
        async for messages in self.inner.scan(subjects, after, upto):
            yield [self._at(message) for message in messages]

    async def last_per_subject(self, subject: str) -> AsyncIterator[Message]:
        async for message in self.inner.last_per_subject(subject):
            yield self._at(message)
