"""What every log promises: the same suite over the reference in memory and over JetStream."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from dataclasses import dataclass

import pytest

from blackboard.jetstream import JetStreamLog, attach, create_board
from blackboard.log import Append, Conflict, Log, LogError, Message, Stored, TooLarge
from blackboard.memory import MemoryLog
from blackboard.nats_connection import Connection, connect
from blackboard.server import EmbeddedServer
from schemas.subjects import Subjects

PATIENCE_S = 20


@dataclass
class Subject:
    """A log under test: `another` opens a further connection to it, `reconnect` loses the connection of `log`."""

    log: Log
    subjects: Subjects
    another: Callable[[], Awaitable[Log]]
    reconnect: Callable[[], Awaitable[None]]


class Received:
    """A handler that keeps what it gets and can wait for it."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self._more = asyncio.Condition()

    async def __call__(self, batch: Sequence[Message]) -> None:
        async with self._more:
            self.messages.extend(batch)
            self._more.notify_all()

    async def upto(self, count: int) -> list[int]:
        """The sequences of the first `count` messages, once they are there."""
        async with asyncio.timeout(PATIENCE_S), self._more:
            await self._more.wait_for(lambda: len(self.messages) >= count)
        return [message.seq for message in self.messages[:count]]


@pytest.fixture(params=["memory", "jetstream", "direct"])
async def under_test(
    request: pytest.FixtureRequest, server: EmbeddedServer, subjects: Subjects
) -> AsyncIterator[Subject]:
    if request.param == "memory":
        log = MemoryLog(subjects)

        async def connect_again() -> Log:
            return log.connect()

        async def lose() -> None:
            log.reconnect()

        yield Subject(log, subjects, connect_again, lose)
        return
    connections: list[Connection] = []

    async def open_another() -> JetStreamLog:
        connections.append(await connect(server.url, "contract"))
        log = (await (attach if len(connections) > 1 else create_board)(connections[-1], subjects)).log
        return JetStreamLog(connections[-1], subjects, log_id=log.id, direct=request.param == "direct")

    async def lose_connection() -> None:
        back = asyncio.Event()
        forget = connections[0].on_reconnect(back.set)
        await connections[0].client.force_reconnect()
        await asyncio.wait_for(back.wait(), PATIENCE_S)
        forget()

    try:
        yield Subject(await open_another(), subjects, open_another, lose_connection)
    finally:
        for connection in connections:
            await connection.close()


@pytest.fixture
def log(under_test: Subject) -> Log:
    return under_test.log


async def fill(log: Log, *subjects: str) -> None:
    """Append one message to each subject in turn; the data is the position in the list."""
    outcomes = await log.append(*(Append(subject, b"%d" % number) for number, subject in enumerate(subjects)))
    assert all(isinstance(outcome, Stored) for outcome in outcomes)


async def scanned(log: Log, subjects: Sequence[str] = (), after: int = 0, upto: int | None = None) -> list[int]:
    return [message.seq async for batch in log.scan(subjects, after, upto) for message in batch]


# Appending


async def test_sequences_rise_by_one(log: Log, subjects: Subjects) -> None:
    assert await log.head() == 0
    assert await log.append(Append(subjects.wake("a"), b"x")) == [Stored(1)]
    assert await log.append(Append(subjects.wake("b"), b"x"), Append(subjects.wake("a"), b"y")) == [
        Stored(2),
        Stored(3),
    ]
    assert await log.head() == 3


async def test_what_is_expected_among_several_subjects_is_had_by_one(under_test: Subject) -> None:
    subjects, log = under_test.subjects, under_test.log
    among = subjects.intent("*", "r", "k", 1)
    logs = [log, *[await under_test.another() for _ in range(3)]]
    for round_ in range(1, 9):
        among = subjects.intent("*", "r", "k", round_)
        names = [f"s{number % 2}" for number in range(len(logs))]
        claims = [
            Append(subjects.intent(name, "r", "k", round_), b"%d" % number, expected=0, among=among)
            for number, name in enumerate(names)
        ]
        outcomes = await asyncio.gather(*(one.append(claim) for one, claim in zip(logs, claims, strict=True)))
        won = [number for number, (outcome,) in enumerate(outcomes) if isinstance(outcome, Stored)]
        assert len(won) == 1
        again = await asyncio.gather(*(one.append(claim) for one, claim in zip(logs, claims, strict=True)))
        assert again == outcomes, "asked again, the one that has it has it, and nobody else"
        assert len(await scanned(log, [among])) == 1


async def test_what_is_expected_among_others_is_no_other_subject(log: Log, subjects: Subjects) -> None:
    await fill(log, subjects.intent("a", "r", "k", 1), subjects.observation("a", "r"))
    claim = Append(subjects.intent("a", "r", "k", 2), b"x", expected=0, among=subjects.intent("*", "r", "k", 2))
    assert await log.append(claim) == [Stored(3)]


async def test_appending_nothing_is_nothing(log: Log) -> None:
    assert await log.append() == []


async def test_expected_sequence_is_that_of_the_subject(log: Log, subjects: Subjects) -> None:
    await fill(log, subjects.fact("a"), subjects.fact("b"))
    assert await log.append(Append(subjects.fact("a"), b"next", expected=1)) == [Stored(3)]
    assert await log.append(Append(subjects.fact("b"), b"next", expected=2)) == [Stored(4)]
    assert await log.append(Append(subjects.fact("c"), b"first", expected=0)) == [Stored(5)]


@pytest.mark.parametrize("expected", [0, 2, 7])
async def test_conflict_is_a_value(log: Log, subjects: Subjects, expected: int) -> None:
    await fill(log, subjects.fact("a"), subjects.fact("b"))
    outcome = await log.append(Append(subjects.fact("a"), b"other", expected=expected))
    assert outcome == [Conflict(subjects.fact("a"), expected)]
    assert await log.head() == 2


async def test_conflict_on_a_subject_that_has_no_message(log: Log, subjects: Subjects) -> None:
    assert await log.append(Append(subjects.fact("a"), b"x", expected=3)) == [Conflict(subjects.fact("a"), 3)]


async def test_append_with_expected_is_idempotent(log: Log, subjects: Subjects) -> None:
    goal = Append(subjects.goal("client", "run"), b"goal", expected=0)
    assert await log.append(goal) == [Stored(1)]
    assert await log.append(goal) == [Stored(1)]
    await fill(log, goal.subject, subjects.wake("run"))
    assert await log.append(goal) == [Stored(1)], "what follows on the subject changes nothing about it"
    assert await log.head() == 3


@pytest.mark.parametrize("count", [3, 40, 1500])
async def test_several_are_independent(log: Log, subjects: Subjects, count: int) -> None:
    await fill(log, subjects.fact("run-1"))
    outcomes = await log.append(*(Append(subjects.fact(f"run-{n}"), b"x", expected=0) for n in range(count)))
    assert outcomes[1] == Conflict(subjects.fact("run-1"), 0)
    stored = [outcome.seq for outcome in outcomes if isinstance(outcome, Stored)]
    assert stored == list(range(2, count + 1))


@pytest.mark.parametrize("count", [3, 40, 1500])
async def test_several_stand_in_the_order_given(log: Log, subjects: Subjects, count: int) -> None:
    outcomes = await log.append(*(Append(subjects.fact(f"run-{n}"), b"%d" % n, expected=0) for n in range(count)))
    assert outcomes == [Stored(n + 1) for n in range(count)]
    assert [message.data async for batch in log.scan() for message in batch] == [b"%d" % n for n in range(count)]


async def test_only_one_of_many_writers_wins_each_place(under_test: Subject) -> None:
    logs = [under_test.log] + [await under_test.another() for _ in range(3)]
    subject = under_test.subjects.fact("run")

    async def write(log: Log, name: str) -> list[int]:
        won = []
        for _ in range(20):
            last = await log.last(subject)
            match await log.append(Append(subject, f"{name} {len(won)}".encode(), expected=last.seq if last else 0)):
                case [Stored(seq)]:
                    won.append(seq)
        return won

    won = await asyncio.gather(*(write(log, f"writer {number}") for number, log in enumerate(logs)))
    assert sorted(seq for seqs in won for seq in seqs) == list(range(1, await logs[0].head() + 1))


async def test_headers_come_back(log: Log, subjects: Subjects) -> None:
    await log.append(Append(subjects.wake("a"), b"", headers={"floor": "12", "Trace": "a b"}))
    await log.append(Append(subjects.wake("a"), b"x", expected=1))
    first, second = [message async for batch in log.scan() for message in batch]
    assert (first.headers, first.data) == ({"floor": "12", "Trace": "a b"}, b"")
    assert second.headers is None
    assert await log.get(1) == first
    assert await log.get(2) == second


async def test_a_foreign_subject_is_refused(log: Log) -> None:
    with pytest.raises(LogError, match=r"'bb\.other\.wake\.run'"):
        await log.append(Append("bb.other.wake.run", b"x"))


async def test_too_large_is_refused(log: Log, subjects: Subjects) -> None:
    await log.append(Append(subjects.wake("a"), bytes(1024 * 1024)))
    with pytest.raises(TooLarge, match=subjects.wake("a")):
        await log.append(Append(subjects.wake("a"), bytes(2 * 1024 * 1024)))


# Reading


async def test_get_and_last(log: Log, subjects: Subjects) -> None:
    assert await log.get(0) is None
    assert await log.get(1) is None
    assert await log.last(subjects.fact("a")) is None
    await fill(log, subjects.fact("a"), subjects.fact("b"), subjects.wake("a"))
    first = await log.get(1)
    assert first is not None
    assert (first.seq, first.subject, first.data) == (1, subjects.fact("a"), b"0")
    assert await log.last(subjects.fact("a")) == first
    assert await log.last(subjects.every("fact")) == await log.get(2)
    assert await log.get(4) is None


async def test_read_gives_one_subject_above_a_position(log: Log, subjects: Subjects) -> None:
    await fill(log, subjects.fact("a"), subjects.fact("b"), subjects.fact("a"), subjects.wake("a"), subjects.fact("a"))
    assert [message.seq async for message in log.read(subjects.fact("a"))] == [1, 3, 5]
    assert [message.seq async for message in log.read(subjects.fact("a"), after=1)] == [3, 5]
    assert [message.seq async for message in log.read(subjects.every("fact"), after=2)] == [3, 5]
    assert [message.seq async for message in log.read(subjects.fact("a"), after=5)] == []
    assert [message.seq async for message in log.read(subjects.fact("c"))] == []


async def test_read_ends_where_the_log_stood(log: Log, subjects: Subjects) -> None:
    await fill(log, subjects.fact("a"), subjects.fact("a"))
    seen = []
    async for message in log.read(subjects.fact("a")):
        seen.append(message.seq)
        await fill(log, subjects.fact("a"))
    assert seen == [1, 2]


async def test_scan_an_empty_log(log: Log) -> None:
    assert await scanned(log) == []


async def test_scan_gives_all_between_two_positions(log: Log, subjects: Subjects) -> None:
    await fill(log, *(subjects.fact(f"run-{n}") for n in range(2500)))
    assert await scanned(log) == list(range(1, 2501))
    assert await scanned(log, after=2400) == list(range(2401, 2501))
    assert await scanned(log, after=10, upto=20) == list(range(11, 21))
    assert await scanned(log, upto=9999) == list(range(1, 2501))
    assert await scanned(log, after=2500) == []


async def test_scan_gives_several_subjects(log: Log, subjects: Subjects) -> None:
    await fill(
        log, subjects.fact("a"), subjects.goal("c", "a"), subjects.fact("b"), subjects.wake("a"), subjects.fact("a")
    )
    assert await scanned(log, [subjects.fact("a"), subjects.wake("a")]) == [1, 4, 5]
    assert await scanned(log, subjects.of_run("a")) == [1, 2, 4, 5]
    assert await scanned(log, subjects.of_run("a"), after=1, upto=4) == [2, 4]
    assert await scanned(log, [subjects.every("fact")], upto=2) == [1]
    assert await scanned(log, [subjects.fact("none")]) == []


async def test_last_of_each_subject(log: Log, subjects: Subjects) -> None:
    await fill(log, subjects.fact("a"), subjects.fact("b"), subjects.fact("a"), subjects.wake("a"), subjects.fact("c"))
    last = [message async for message in log.last_per_subject(subjects.every("fact"))]
    assert [message.seq for message in last] == [2, 3, 5]
    assert [message async for message in log.last_per_subject(subjects.every("contract"))] == []


async def test_every_way_of_reading_gives_the_same_message(log: Log, subjects: Subjects) -> None:
    await log.append(Append(subjects.fact("a"), b"data", 0, {"floor": "1"}))
    received = Received()
    subscription = await log.subscribe(received)
    await received.upto(1)
    await subscription.close()
    [message] = received.messages
    assert message == await log.get(1) == await log.last(subjects.fact("a"))
    assert [message] == [one async for one in log.read(subjects.fact("a"))]
    assert [message] == [one async for batch in log.scan() for one in batch]
    assert [message] == [one async for one in log.last_per_subject(subjects.fact("a"))]


# Subscribing


async def test_subscription_gives_what_is_there_and_what_comes(log: Log, subjects: Subjects) -> None:
    await fill(log, *(subjects.fact("a") for _ in range(5)))
    received = Received()
    subscription = await log.subscribe(received, after=2)
    assert await received.upto(3) == [3, 4, 5]
    await fill(log, *(subjects.fact("a") for _ in range(5)))
    assert await received.upto(8) == list(range(3, 11))
    await subscription.close()


async def test_subscription_to_one_run(log: Log, subjects: Subjects) -> None:
    received = Received()
    subscription = await log.subscribe(received, subjects.of_run("a"))
    await fill(
        log, subjects.goal("c", "a"), subjects.goal("c", "b"), subjects.fact("b"), subjects.observation("s", "a")
    )
    await fill(log, subjects.signal("p", "a"), subjects.contract("s"), subjects.wake("a"))
    assert await received.upto(4) == [1, 4, 5, 7]
    await subscription.close()


async def test_nothing_is_delivered_while_the_handler_is_awaited(log: Log, subjects: Subjects) -> None:
    busy = 0
    received = Received()

    async def handle(batch: Sequence[Message]) -> None:
        nonlocal busy
        busy += 1
        assert busy == 1
        await asyncio.sleep(0)
        await received(batch)
        busy -= 1

    subscription = await log.subscribe(handle)
    for _ in range(20):
        await fill(log, *(subjects.fact("a") for _ in range(10)))
    assert await received.upto(200) == list(range(1, 201))
    await subscription.close()
    await subscription.wait()


async def test_what_a_handler_raises_ends_its_subscription(log: Log, subjects: Subjects) -> None:
    async def handle(batch: Sequence[Message]) -> None:
        raise ValueError("no good")

    subscription = await log.subscribe(handle)
    await fill(log, subjects.fact("a"))
    with pytest.raises(ValueError, match="no good"):
        await asyncio.wait_for(subscription.wait(), PATIENCE_S)


async def test_a_handler_may_close_its_subscription(log: Log, subjects: Subjects) -> None:
    calls = []

    async def handle(batch: Sequence[Message]) -> None:
        calls.append(len(batch))
        await subscription.close()

    subscription = await log.subscribe(handle)
    await fill(log, subjects.fact("a"))
    await asyncio.wait_for(subscription.wait(), PATIENCE_S)
    await fill(log, subjects.fact("a"))
    assert len(calls) == 1


async def test_closing_cancels_the_handler(log: Log, subjects: Subjects) -> None:
    reached, cancelled = asyncio.Event(), asyncio.Event()

    async def handle(batch: Sequence[Message]) -> None:
        reached.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.set()
            raise

    subscription = await log.subscribe(handle)
    await fill(log, subjects.fact("a"))
    await asyncio.wait_for(reached.wait(), PATIENCE_S)
    await subscription.close()
    await subscription.wait()
    assert cancelled.is_set()


# Identity and connection


async def test_every_connection_sees_the_same_id(under_test: Subject) -> None:
    other = await under_test.another()
    assert len(under_test.log.id) >= 16
    assert other.id == under_test.log.id == await other.current_id()


async def test_every_connection_sees_what_another_appends(under_test: Subject) -> None:
    other = await under_test.another()
    received = Received()
    subscription = await other.subscribe(received)
    await fill(under_test.log, under_test.subjects.fact("a"), under_test.subjects.fact("b"))
    assert await received.upto(2) == [1, 2]
    assert await other.head() == 2
    await subscription.close()


async def test_subscription_outlives_its_connection(under_test: Subject) -> None:
    log, subject = under_test.log, under_test.subjects.fact("a")
    received = Received()
    told: list[str] = []
    log.on_reconnect(lambda: told.append("reconnected"))
    subscription = await log.subscribe(received)
    other = await under_test.another()
    for _ in range(3):
        await fill(other, *(subject for _ in range(50)))
        await under_test.reconnect()
    await fill(log, subject)
    assert await received.upto(151) == list(range(1, 152))
    assert told == ["reconnected"] * 3
    await subscription.close()
