"""What can go wrong between a log and its server: lost acknowledgements, killed servers, damaged files, streams that
are no log, servers that are too old, identities that may not."""

import asyncio
import json
import os
import signal
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path

import pytest

from blackboard import jetstream_wire as wire
from blackboard.jetstream import JetStreamLog, attach, create_board
from blackboard.jetstream_queue import JetStreamQueue
from blackboard.jetstream_read import Reader
from blackboard.jetstream_streams import NoBoard, StreamMismatch, log_config
from blackboard.log import (
    Append,
    Conflict,
    LogDamaged,
    LogError,
    LogUnavailable,
    Message,
    NotPermitted,
    Stored,
)
from blackboard.nats_connection import Connection, connect
from blackboard.nats_errors import ServerUnsuitable
from blackboard.server import EmbeddedServer
from schemas.subjects import Subjects
from tests.blackboard.proxy import LoseAcks, Proxy
from tests.conftest import TestBoard

PATIENCE_S = 20
SOON_S = 0.2


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


@pytest.fixture
async def proxy(server: EmbeddedServer) -> AsyncIterator[Proxy]:
    async with Proxy(port_of(server.url)) as proxy:
        yield proxy


@pytest.fixture
async def proxied(proxy: Proxy, subjects: Subjects) -> AsyncIterator[Connection]:
    connection = await connect(proxy.url, "proxied")
    try:
        await create_board(connection, subjects)
        yield connection
    finally:
        await connection.close()


def impatient(connection: Connection, subjects: Subjects, deadline_s: float = 5.0) -> JetStreamLog:
    return JetStreamLog(connection, subjects, ack_timeout_s=SOON_S, deadline_s=deadline_s)


async def stored(log: JetStreamLog) -> list[bytes]:
    return [message.data async for batch in log.scan() for message in batch]


# Lost acknowledgements


@pytest.mark.parametrize("count", [1, 5, 40])
async def test_a_lost_ack_is_resolved_by_reading(
    proxy: Proxy, proxied: Connection, subjects: Subjects, count: int
) -> None:
    log = impatient(proxied, subjects)
    appends = [Append(subjects.fact(f"run-{n}"), b"%d" % n, expected=0) for n in range(count)]
    proxy.lose = acks = LoseAcks(count)
    assert await log.append(*appends) == [Stored(n + 1) for n in range(count)]
    assert acks.left < count
    assert await stored(log) == [item.data for item in appends]


@pytest.mark.parametrize("count", [5, 40])
async def test_some_lost_acks_among_many(proxy: Proxy, proxied: Connection, subjects: Subjects, count: int) -> None:
    log = JetStreamLog(proxied, subjects, ack_timeout_s=SOON_S, batch_from=1000)
    proxy.lose = LoseAcks(2)
    outcomes = await log.append(*(Append(subjects.fact(f"run-{n}"), b"x", expected=0) for n in range(count)))
    assert outcomes == [Stored(n + 1) for n in range(count)]
    assert await log.head() == count


async def test_an_unconditional_batch_is_found_by_its_id(proxy: Proxy, proxied: Connection, subjects: Subjects) -> None:
    log = impatient(proxied, subjects)
    proxy.lose = LoseAcks(1)
    assert await log.append(*(Append(subjects.wake("a"), b"x") for _ in range(40))) == [
        Stored(n + 1) for n in range(40)
    ]
    assert await log.head() == 40


@pytest.mark.parametrize("count", [1, 40])
async def test_a_connection_cut_before_the_ack(
    proxy: Proxy, proxied: Connection, subjects: Subjects, count: int
) -> None:
    log = impatient(proxied, subjects)
    losing = LoseAcks(1)

    def lose_and_cut(message: bytes) -> bool:
        if losing(message):
            cutting.append(asyncio.create_task(proxy.cut()))
            return True
        return False

    cutting: list[asyncio.Task[None]] = []
    proxy.lose = lose_and_cut
    appends = [Append(subjects.fact(f"run-{n}"), b"%d" % n, expected=0) for n in range(count)]
    assert await log.append(*appends) == [Stored(n + 1) for n in range(count)]
    assert len(cutting) == 1
    assert await stored(log) == [item.data for item in appends]


async def test_a_lost_ack_and_a_faster_writer(
    proxy: Proxy, proxied: Connection, server: EmbeddedServer, subjects: Subjects
) -> None:
    log = impatient(proxied, subjects)
    other = await connect(server.url, "other")
    faster = (await attach(other, subjects)).log
    mine, theirs = Append(subjects.fact("a"), b"mine", 0), Append(subjects.fact("a"), b"theirs", 1)
    proxy.lose = lambda message: b'"stream":"BOARD_' in message and b'"type"' not in message
    appending = asyncio.create_task(log.append(mine))
    async with asyncio.timeout(PATIENCE_S):
        while await faster.append(theirs) != [Stored(2)]:
            pass  # until mine is there
        assert await appending == [Stored(1)], "what follows mine does not make it a conflict"
    assert await log.append(Append(subjects.fact("a"), b"too late", 0)) == [Conflict(subjects.fact("a"), 0)]
    await other.close()


async def test_silence_is_unavailable_and_asking_again_is_safe(
    proxy: Proxy, proxied: Connection, subjects: Subjects
) -> None:
    log = impatient(proxied, subjects, deadline_s=0.5)
    goal = Append(subjects.goal("client", "run"), b"goal", expected=0)
    proxy.lose = lambda message: message.startswith((b"MSG", b"HMSG"))
    with pytest.raises(LogUnavailable, match=goal.subject):
        await log.append(goal)
    with pytest.raises(LogUnavailable):
        await log.head()
    proxy.lose = lambda _: False
    assert await log.append(goal) == [Stored(1)]
    assert await log.head() == 1


async def test_no_connection_is_unavailable(server: EmbeddedServer, subjects: Subjects) -> None:
    async with Proxy(port_of(server.url)) as proxy:
        connection = await connect(proxy.url, "cut")
        await create_board(connection, subjects)
        log = impatient(connection, subjects, deadline_s=0.5)
    for _ in range(2):
        with pytest.raises(LogUnavailable):
            await log.append(Append(subjects.fact("a"), b"x", 0), Append(subjects.fact("b"), b"x", 0))
    await connection.close()
    with pytest.raises(LogUnavailable):
        await log.append(Append(subjects.fact("a"), b"x", 0))


async def test_nobody_there_is_said_in_one_sentence() -> None:
    with pytest.raises(LogUnavailable, match=r"no NATS server answers at nats://127\.0\.0\.1:1 within 0\.5 s"):
        await connect("nats://127.0.0.1:1", timeout_s=0.5)


# Waves


async def batch_ids(connection: Connection, subjects: Subjects, count: int) -> set[str | None]:
    """Under which batches the first `count` messages were stored; None stands for a message on its own."""
    found = set()
    for seq in range(1, count + 1):
        answer = await connection.api(f"STREAM.MSG.GET.{subjects.log_stream}", {"seq": seq})
        found.add(wire.stored_headers(answer).get("Nats-Batch-Id"))
    return found


async def test_concurrent_callers_share_a_batch(board: TestBoard) -> None:
    outcomes = await asyncio.gather(
        *(board.log.append(Append(board.subjects.fact(f"run-{n}"), b"%d" % n, expected=0)) for n in range(200))
    )
    assert outcomes == [[Stored(n + 1)] for n in range(200)]
    assert len(await batch_ids(board.connection, board.subjects, 200)) == 1


async def test_a_few_messages_go_one_by_one(board: TestBoard) -> None:
    await board.log.append(*(Append(board.subjects.fact(f"run-{n}"), b"x") for n in range(5)))
    assert await batch_ids(board.connection, board.subjects, 5) == {None}


async def test_callers_in_one_wave_get_what_is_theirs(board: TestBoard) -> None:
    fact = board.subjects.fact
    await board.log.append(Append(fact("taken"), b"first", expected=0))
    calls = [asyncio.create_task(board.log.append(Append(fact(f"run-{n}"), b"x", expected=0))) for n in range(40)]
    late = asyncio.create_task(board.log.append(Append(fact("taken"), b"late", expected=0)))
    twice = [asyncio.create_task(board.log.append(Append(fact("twice"), b"%d" % n, expected=0))) for n in range(3)]
    gone = asyncio.create_task(board.log.append(Append(fact("gone"), b"x", expected=0)))
    await asyncio.sleep(0)
    gone.cancel()
    assert await late == [Conflict(fact("taken"), 0)]
    assert [await call for call in calls] == [[Stored(n + 2)] for n in range(40)]
    assert [type(outcome) for call in twice for outcome in await call] == [Stored, Conflict, Conflict]
    assert await board.log.append(Append(fact("after"), b"x", expected=0)) != []


# Reading on


class Reading:
    """Keeps the sequences that a subscription delivers."""

    def __init__(self) -> None:
        self.seqs: list[int] = []
        self._more = asyncio.Condition()

    async def __call__(self, batch: Sequence[Message]) -> None:
        async with self._more:
            self.seqs += [message.seq for message in batch]
            self._more.notify_all()

    async def upto(self, count: int) -> list[int]:
        async with asyncio.timeout(PATIENCE_S), self._more:
            await self._more.wait_for(lambda: len(self.seqs) >= count)
        return self.seqs


@pytest.mark.parametrize("subject", ["all", "one run"])
async def test_subscription_outlives_a_killed_server(tmp_path: Path, subjects: Subjects, subject: str) -> None:
    with EmbeddedServer(tmp_path) as server:
        connection = await connect(server.url, "reader")
        log = (await create_board(connection, subjects)).log
        reading = Reading()
        subscription = await log.subscribe(reading, subjects.of_run("a") if subject == "one run" else [])
        written = 0
        for _ in range(3):
            await log.append(*(Append(subjects.fact("a"), b"x") for _ in range(30)))
            written += 30
            os.kill(server.pid, signal.SIGKILL)
            server.restart()
        assert await log.append(Append(subjects.fact("a"), b"last")) == [Stored(written + 1)]
        assert await reading.upto(written + 1) == list(range(1, written + 2))
        await subscription.close()
        await connection.close()


async def test_a_lost_message_is_read_again(proxy: Proxy, proxied: Connection, subjects: Subjects) -> None:
    log = JetStreamLog(proxied, subjects, heartbeat_s=SOON_S)
    lost: list[bytes] = []

    def lose(message: bytes) -> bool:
        """Every seventh message of the log, once, and one heartbeat."""
        payload = message.rpartition(b"\r\nlost ")[2] if b"\r\nlost " in message else b""
        if payload and int(payload) % 7 == 0 and payload not in lost:
            lost.append(payload)
            return True
        return False

    proxy.lose = lose
    reading = Reading()
    subscription = await log.subscribe(reading)
    await log.append(*(Append(subjects.fact("a"), b"lost %d" % n) for n in range(1, 50)))
    assert await reading.upto(49) == list(range(1, 50))
    assert len(lost) == 7
    assert await stored(log) == [b"lost %d" % n for n in range(1, 50)]
    await subscription.close()


@pytest.mark.parametrize("subject", ["all", "one run"])
async def test_a_consumer_that_lags_is_helped_out(
    board: TestBoard, monkeypatch: pytest.MonkeyPatch, subject: str
) -> None:
    """On a cluster a consumer may run where the last messages have not come yet, and then ends too early."""
    await board.log.append(*(Append(board.subjects.fact("ab"[n % 2]), b"%d" % n) for n in range(10)))
    honest = Reader.next

    async def lagging(self: Reader) -> list[Message]:
        messages = [message for message in await honest(self) if message.seq <= 7]
        self.position, self.pending = min(self.position, 7), 0
        return messages

    monkeypatch.setattr(Reader, "next", lagging)
    subjects = [board.subjects.fact("a"), board.subjects.wake("a")] if subject == "one run" else []
    seen = [message.seq async for batch in board.log.scan(subjects) for message in batch]
    assert seen == ([1, 3, 5, 7, 9] if subjects else list(range(1, 11)))


async def test_silence_of_the_server_makes_the_reader_start_again(
    proxy: Proxy, proxied: Connection, server: EmbeddedServer, subjects: Subjects
) -> None:
    log = JetStreamLog(proxied, subjects, heartbeat_s=SOON_S)
    reading = Reading()
    subscription = await log.subscribe(reading)
    other = await connect(server.url, "other")
    silent = asyncio.Event()

    def lose(message: bytes) -> bool:
        silent.set()
        return message.startswith((b"MSG", b"HMSG"))

    proxy.lose = lose
    await (await attach(other, subjects)).log.append(Append(subjects.fact("a"), b"x"))
    await asyncio.wait_for(silent.wait(), PATIENCE_S)
    proxy.lose = lambda _: False
    assert await reading.upto(1) == [1]
    await subscription.close()
    await other.close()


async def test_a_slow_handler_holds_the_server_back(board: TestBoard) -> None:
    subjects, log = board.subjects, board.log
    for _ in range(10):
        await log.append(*(Append(subjects.fact("a"), bytes(1000)) for _ in range(1000)))
    started, go_on = asyncio.Event(), asyncio.Event()
    reading = Reading()

    async def handle(batch: Sequence[Message]) -> None:
        started.set()
        await go_on.wait()
        await reading(batch)

    subscription = await log.subscribe(handle)
    await asyncio.wait_for(started.wait(), PATIENCE_S)
    await asyncio.sleep(SOON_S)
    held = len(subscription._reader._arrived)
    assert held < 9_000, "the server must not send all of it"
    go_on.set()
    assert await reading.upto(10_000) == list(range(1, 10_001))
    await subscription.close()


# Damage


def flip_bit(directory: Path, marker: bytes) -> None:
    """Change one bit of the one message whose data is `marker`."""
    [block] = [path for path in directory.rglob("*.blk") if marker in path.read_bytes()]
    content = bytearray(block.read_bytes())
    content[content.index(marker)] ^= 1
    block.write_bytes(content)


async def scan_all(log: JetStreamLog) -> None:
    async for _ in log.scan():
        pass


async def subscribe_all(log: JetStreamLog) -> None:
    await (await log.subscribe(Reading())).wait()


@pytest.mark.parametrize("read", [scan_all, subscribe_all])
@pytest.mark.parametrize("damaged", [1, 25, 50])
async def test_a_flipped_bit_is_named(
    tmp_path: Path, subjects: Subjects, damaged: int, read: Callable[[JetStreamLog], Awaitable[None]]
) -> None:
    with EmbeddedServer(tmp_path) as server:
        connection = await connect(server.url, "writer")
        log = (await create_board(connection, subjects)).log
        await log.append(*(Append(subjects.fact("a"), b"payload-%03d" % n) for n in range(1, 51)))
        await connection.close()
    flip_bit(tmp_path, b"payload-%03d" % damaged)
    with EmbeddedServer(tmp_path) as server:
        connection = await connect(server.url, "reader")
        log = (await attach(connection, subjects)).log
        with pytest.raises(LogDamaged) as found:
            await asyncio.wait_for(read(log), PATIENCE_S)
        assert found.value.seq == damaged
        if damaged == 50:
            with pytest.raises(LogDamaged, match="last message"):
                await log.last(subjects.fact("a"))
        await connection.close()


# What is no log


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("deny_delete", False),
        ("deny_purge", False),
        ("allow_rollup_hdrs", True),
        ("allow_msg_ttl", True),
        ("allow_atomic", False),
        ("max_age", 3600 * 1_000_000_000),
        ("max_msgs", 1000),
        ("storage", "memory"),
        ("subjects", ["bb.main.>"]),
    ],
)
async def test_a_stream_that_is_no_log_is_refused(
    server: EmbeddedServer, subjects: Subjects, key: str, value: object
) -> None:
    connection = await connect(server.url, "test")
    config = {name: wanted for name, wanted in log_config(subjects).items() if wanted not in (None, False)}
    if key == "allow_rollup_hdrs":
        del config["deny_purge"]  # the server does not take both
    if key == "subjects":
        value = [f"bb.{subjects.board}.>"]
    await connection.api(f"STREAM.CREATE.{subjects.log_stream}", config | {key: value})
    with pytest.raises(StreamMismatch, match=rf"stream {subjects.log_stream} .*\b{key} is .* and must be"):
        await create_board(connection, subjects)
    with pytest.raises(StreamMismatch):
        await attach(connection, subjects)
    await connection.api(f"STREAM.DELETE.{subjects.log_stream}")
    await connection.close()


async def test_a_log_without_an_id_is_refused(server: EmbeddedServer, subjects: Subjects) -> None:
    connection = await connect(server.url, "test")
    config = {name: wanted for name, wanted in log_config(subjects).items() if wanted not in (None, False)}
    await connection.api(f"STREAM.CREATE.{subjects.log_stream}", config)
    with pytest.raises(StreamMismatch, match="no log id"):
        await create_board(connection, subjects)
    await connection.close()


async def test_a_board_that_does_not_exist(server: EmbeddedServer, subjects: Subjects) -> None:
    connection = await connect(server.url, "test")
    with pytest.raises(NoBoard, match=subjects.board):
        await attach(connection, subjects)
    await connection.close()


async def test_creating_at_the_same_time_gives_one_log(server: EmbeddedServer, subjects: Subjects) -> None:
    connections = [await connect(server.url, "test") for _ in range(5)]
    boards = await asyncio.gather(*(create_board(connection, subjects) for connection in connections))
    assert len({board.log.id for board in boards}) == 1
    for connection in connections:
        await connection.close()


async def test_a_deleted_log_ends_its_readers(server: EmbeddedServer, subjects: Subjects) -> None:
    connection = await connect(server.url, "test")
    log = (await create_board(connection, subjects)).log
    log = JetStreamLog(connection, subjects, log_id=log.id, heartbeat_s=SOON_S, deadline_s=0.5)
    subscription = await log.subscribe(Reading())
    await connection.api(f"STREAM.DELETE.{subjects.log_stream}")
    with pytest.raises(LogError, match="stream not found"):
        await asyncio.wait_for(subscription.wait(), PATIENCE_S)
    with pytest.raises(LogUnavailable, match="does not exist"):
        await log.append(Append(subjects.fact("a"), b"x"))
    await create_board(connection, subjects)
    assert await log.current_id() != log.id
    await connection.close()


# Who may not


async def banner(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, info: dict[str, object]) -> None:
    """A server that says who it is and answers pings."""
    writer.write(b"INFO " + json.dumps({"server_id": "X", "max_payload": 1 << 20, **info}).encode() + b"\r\n")
    while line := await reader.readline():
        if line.startswith(b"PING"):
            writer.write(b"PONG\r\n")
    writer.close()


@pytest.mark.parametrize(
    ("info", "says"),
    [
        ({"version": "2.10.29", "jetstream": True}, r"is version 2\.10\.29, and a board needs 2\.15 or newer"),
        ({"version": "2.14.9", "jetstream": True}, r"is version 2\.14\.9, and a board needs 2\.15 or newer"),
        ({"version": "2.15.0"}, "runs without JetStream"),
    ],
)
async def test_an_unsuitable_server_is_refused(info: dict[str, object], says: str) -> None:
    fake = await asyncio.start_server(lambda reader, writer: banner(reader, writer, info), "127.0.0.1", 0)
    port = fake.sockets[0].getsockname()[1]
    with pytest.raises(ServerUnsuitable, match=says):
        await connect(f"nats://127.0.0.1:{port}")
    fake.close()


PERMISSIONS = """
authorization { users = [
  { user: admin, password: secret }
  { user: reader, password: secret, permissions: { publish: ["$JS.API.>", "bb.*.wake.>"], subscribe: ["_INBOX.>"] } }
  { user: deaf, password: secret, permissions: { subscribe: ["_INBOX_deaf.>"] } }
] }
"""


@pytest.fixture
def guarded(tmp_path: Path) -> Iterator[EmbeddedServer]:
    with EmbeddedServer(tmp_path, settings=PERMISSIONS) as server:
        yield server


async def test_what_an_identity_may_not_is_said_at_once(guarded: EmbeddedServer, subjects: Subjects) -> None:
    admin = await connect(guarded.url, "admin", user="admin", password="secret")
    await create_board(admin, subjects)
    connection = await connect(guarded.url, "reader", user="reader", password="secret")
    log = (await attach(connection, subjects)).log
    async with asyncio.timeout(1):
        with pytest.raises(NotPermitted, match=subjects.fact("run")):
            await log.append(Append(subjects.fact("run"), b"x"))
        with pytest.raises(NotPermitted):
            await log.append(*(Append(subjects.fact(f"run-{n}"), b"x") for n in range(40)))
        allowed = Append(subjects.wake("run"), b"x")
        outcomes = await asyncio.gather(
            log.append(allowed), log.append(Append(subjects.fact("run"), b"x")), return_exceptions=True
        )
        assert outcomes[0] == [Stored(1)], "a neighbour's refusal is not ours"
        assert isinstance(outcomes[1], NotPermitted)
    assert await log.head() == 1
    await connection.close()
    await admin.close()


async def test_a_wrong_inbox_is_said_at_once(guarded: EmbeddedServer, subjects: Subjects) -> None:
    connection = await connect(guarded.url, "deaf", user="deaf", password="secret")
    async with asyncio.timeout(1):
        with pytest.raises(NotPermitted, match="inbox prefix"):
            await attach(connection, subjects)
        with pytest.raises(NotPermitted, match="inbox prefix"):
            await JetStreamQueue(connection, subjects).pull("reader", 10)
    await connection.close()
    connection = await connect(guarded.url, "deaf", user="deaf", password="secret", inbox_prefix="_INBOX_deaf")
    with pytest.raises(NoBoard):
        await attach(connection, subjects)
    await connection.close()


async def test_wrong_credentials_are_said_at_once(guarded: EmbeddedServer) -> None:
    async with asyncio.timeout(2):
        with pytest.raises(NotPermitted, match="credentials"):
            await connect(guarded.url, "stranger", user="admin", password="wrong", timeout_s=10)
