"""A board under attack: what lies on it before and after, and what there is to aim at.

Attackers speak NATS with a plain client and valid credentials of their own. What they did is read by the administrator,
from the streams and consumers themselves.
"""

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from nats.aio.client import Client, RawCredentials
from nats.aio.msg import Msg

from blackboard import jetstream_wire as wire
from blackboard.access import Access
from blackboard.credentials import Credentials
from blackboard.jetstream import create_board
from blackboard.jetstream_blobs import JetStreamBlobs
from blackboard.jetstream_direct import Gets
from blackboard.log import Append, Message
from blackboard.nats_connection import Connection, connect
from blackboard.queue import Entry, TaskKey
from schemas.access import API, API_OF_AGENTS, RULES, Role, Rule, account_of
from schemas.subjects import Subjects
from tests.access.matrix import OTHER, OWN

SUBJECTS = Subjects()
STREAMS = (SUBJECTS.log_stream, SUBJECTS.task_stream, SUBJECTS.blob_stream)
NEXT = f"{API_OF_AGENTS}CONSUMER.MSG.NEXT.{SUBJECTS.task_stream}."
CHOSEN = (b'{"log":"forged"}', b"+ACK", b"+TERM", b"{}", b'{"no_wait":true}')
"""What an attacker would have said in another's name: an event, acknowledgements, requests."""
ATTACKERS = (Role.SPECIALIST, Role.PUBLISHER, Role.APPROVER, Role.CONSOLE, Role.AUDITOR, Role.NOTARY, Role.CURATOR)
ROUNDS = 4
"""Answers of the server that are awaited one after the other before a look counts: a forged message may have to go
through the server several times."""


class Stream(NamedTuple):
    """Of a stream: its settings and what its state says."""

    config: dict[str, Any]
    first: int
    last: int
    messages: int


class Look(NamedTuple):
    """What lies on the board. `tasks` are the contents of the queue by subject, `consumers` how far each is."""

    streams: dict[str, Stream]
    tasks: dict[str, tuple[int, bytes]]
    consumers: dict[str, dict[str, Any]]


class Planted(NamedTuple):
    """A message that was stored meanwhile."""

    subject: str
    data: bytes
    headers: dict[str, str] | None = None


class Shot(NamedTuple):
    """One publish of an attacker."""

    subject: str
    data: bytes = b""
    reply: str = ""
    headers: dict[str, str] | None = None


class Attacker:
    """A plain client with valid credentials. `said` is what the server wrote to it."""

    def __init__(self, credentials: Credentials) -> None:
        self.credentials = credentials
        self.inbox = credentials.inbox
        self.client = Client()
        self.said: list[str] = []
        self.got: list[Msg] = []

    async def connect(self, url: str) -> None:
        async def hear(error: Exception) -> None:
            self.said.append(str(error).lower())

        async def get(message: Msg) -> None:
            self.got.append(message)

        await self.client.connect(
            url,
            user_credentials=RawCredentials(self.credentials.text),
            inbox_prefix=self.inbox,
            error_cb=hear,
            reconnect_time_wait=0.01,  # type: ignore[arg-type]
            max_reconnect_attempts=50,
        )
        await self.client.subscribe(f"{self.inbox}.got.>", cb=get)

    async def fire(self, shots: Sequence[Shot]) -> None:
        """Publish all; a client that refuses to write one of them is gone round."""
        for shot in shots:
            await self.client.publish(shot.subject, shot.data, reply=shot.reply, headers=shot.headers)
        await self.client.flush()

    async def ask(self, subject: str, data: bytes = b"") -> Msg:
        return await self.client.request(subject, data, timeout=2)

    async def take(self, name: str, body: bytes = b'{"batch":1,"expires":1000000000}') -> Msg:
        """What the queue answers to a pull at the place of `name`."""
        inbox = f"{self.inbox}.pull.{len(self.got)}"
        subscription = await self.client.subscribe(inbox)
        await self.client.publish(f"{NEXT}{name}", body, reply=inbox)
        try:
            return await subscription.next_msg(timeout=2)
        finally:
            await subscription.unsubscribe()

    def refused(self, subject: str) -> bool:
        return any(f'"{subject.lower()}"' in text and "violation" in text for text in self.said)


class Ground:
    """A board on a live server in operator mode, seen by its administrator."""

    def __init__(self, url: str, access: Access, admin: Connection) -> None:
        self.url, self.access, self.admin = url, access, admin

    @contextlib.asynccontextmanager
    async def attacker(self, role: Role, name: str = OWN, rules: Sequence[Rule] = RULES) -> AsyncIterator[Attacker]:
        made = Attacker(self.access.credentials([role], [name], rules=rules))
        await made.connect(self.url)
        try:
            yield made
        finally:
            await made.client.close()

    @contextlib.asynccontextmanager
    async def connected(self, role: Role, name: str = OWN) -> AsyncIterator[Connection]:
        """Through our own client."""
        connection = await connect(self.url, credentials=self.access.credentials([role], [name]))
        try:
            yield connection
        finally:
            await connection.close()

    async def look(self) -> Look:
        """What there is, once the server has nothing more to do."""
        for _ in range(ROUNDS):
            for stream in STREAMS:
                await self.admin.api(f"STREAM.INFO.{stream}")
            await asyncio.sleep(0.02)  # answers to imports travel between accounts in the server's own time
        return Look({one: await self._stream(one) for one in STREAMS}, await self._tasks(), await self._consumers())

    async def _stream(self, name: str) -> Stream:
        info = await self.admin.api(f"STREAM.INFO.{name}")
        state = info["state"]
        return Stream(info["config"], state["first_seq"], state["last_seq"], state["messages"])

    async def _tasks(self) -> dict[str, tuple[int, bytes]]:
        """By subject, as the queue has one message of each."""
        info = await self.admin.api(f"STREAM.INFO.{SUBJECTS.task_stream}", {"subjects_filter": ">"})
        subjects = list(info["state"].get("subjects") or {})
        asked = [
            self.admin.api(f"STREAM.MSG.GET.{SUBJECTS.task_stream}", {"last_by_subj": subject}) for subject in subjects
        ]
        answers = await asyncio.gather(*asked)
        return {
            subject: (answer["message"]["seq"], wire.stored(answer).data)
            for subject, answer in zip(subjects, answers, strict=True)
        }

    async def _consumers(self) -> dict[str, dict[str, Any]]:
        found = {}
        for stream in STREAMS:
            for info in (await self.admin.api(f"CONSUMER.LIST.{stream}"))["consumers"] or ():
                kept = ("config", "ack_floor", "num_ack_pending")
                found[f"{stream}/{info['name']}"] = {name: info.get(name) for name in kept}
                for floor in (info.get("ack_floor") or {}, info.get("delivered") or {}):
                    floor.pop("last_active", None)
        return found

    async def planted(self, before: Look, after: Look) -> list[Planted]:
        """All that was stored between two looks, on all streams."""
        found = []
        for name in (SUBJECTS.log_stream, SUBJECTS.blob_stream):
            first, last = before.streams[name].last + 1, after.streams[name].last
            found += [Planted(one.subject, one.data, one.headers) for one in await self._between(name, first, last)]
        new = after.tasks.items() - before.tasks.items()
        return found + [Planted(subject, data) for subject, (_, data) in new]

    async def _between(self, stream: str, first: int, last: int) -> list[Message]:
        gets, found = Gets(self.admin, stream), list[Message]()
        while (found[-1].seq if found else first - 1) < last:
            body = {"seq": found[-1].seq + 1 if found else first, "batch": 500, "next_by_subj": ">"}
            some = [message async for message in gets.ask(body)]
            assert some, f"{stream} lacks what should stand between {first} and {last}"
            found += some
        return found

    async def unharmed(self, before: Look, *, but: Sequence[Planted] = (), place: str = OWN) -> None:
        """Nothing was stored since `before` but `but`, and nothing taken away or acknowledged; the attacker's own
        `place` at the queue is its own business."""
        after = await self.look()
        planted = await self.planted(before, after)
        left, unwanted = list(but), []
        for one in planted:
            known = next((item for item in left if item[:2] == one[:2]), None)
            left.remove(known) if known else unwanted.append(one)
        assert unwanted == [], unwanted[:5]
        assert left == [], left[:5]
        own = SUBJECTS.tasks_of(place).removesuffix(">")
        for name, was in before.streams.items():
            now = after.streams[name]
            assert now.config == was.config
            if name != SUBJECTS.task_stream:
                assert (now.first, now.last - was.last) == (was.first, now.messages - was.messages), name
        kept = {subject: task for subject, task in before.tasks.items() if not subject.startswith(own)}
        assert {subject: after.tasks.get(subject) for subject in kept} == kept
        mine = f"{SUBJECTS.task_stream}/{place}"
        others = [{k: v for k, v in look.consumers.items() if k != mine} for look in (before, after)]
        assert others[0] == others[1]


@contextlib.asynccontextmanager
async def ground(url: str, access: Access) -> AsyncIterator[Ground]:
    """The board on a running server."""
    admin = await connect(url, credentials=access.credentials([Role.ADMIN], ["admin"]))
    try:
        yield Ground(url, access, admin)
    finally:
        await admin.close()


class Aims(NamedTuple):
    """What lies on the board to be aimed at: the acknowledgement of another's task in hand, the digest of a blob for
    each of CHOSEN."""

    ack: str
    blobs: dict[bytes, str]


async def laid_out(url: str, access: Access, tasks: int) -> Aims:
    """Make the board, with a goal, a fact, contracts, `tasks` tasks of the attacker and some of another specialist, who
    has one in hand, and the blobs that the attacker has stored."""
    async with ground(url, access) as field:
        log, queue, _, _ = await create_board(field.admin, SUBJECTS)
        subjects = [SUBJECTS.goal("ann", "r1"), SUBJECTS.fact("r1"), SUBJECTS.contract(OWN), SUBJECTS.contract(OTHER)]
        await log.append(*(Append(subject, b'{"from":"the board"}') for subject in subjects))
        await queue.ensure([OWN, OTHER])
        keys = [
            TaskKey(name, "r1", f"{name}-{n}", 1) for name, count in ((OWN, tasks), (OTHER, 5)) for n in range(count)
        ]
        await queue.put([Entry(key, b"task") for key in keys])
        async with field.connected(Role.SPECIALIST) as connection:
            blobs = JetStreamBlobs(connection, SUBJECTS)
            digests = {data: await blobs.put(data, OWN) for data in CHOSEN}
        async with field.attacker(Role.SPECIALIST, OTHER) as other:
            taken = await other.take(OTHER)
            assert taken.reply.startswith("$JS.ACK."), taken.headers
    return Aims(taken.reply, digests)


def targets(aims: Aims, author: str) -> list[str]:
    """Reply subjects that would do harm if the server wrote its answer there: in the account of the streams, or through
    what AGENTS imports from it."""
    inside = [
        SUBJECTS.fact("r1"),
        SUBJECTS.fact("r9"),
        SUBJECTS.wake("r1"),
        SUBJECTS.observation(OTHER, "r1"),
        SUBJECTS.intent(OTHER, "r1", "key", 1),
        SUBJECTS.goal("bob", "r7"),
        SUBJECTS.signal("bob", "r1"),
        SUBJECTS.contract(author),
        SUBJECTS.playbook("team"),
        SUBJECTS.task(author, "r1", "forged", 1),
        SUBJECTS.blob(OTHER, "0" * 64, 0),
        aims.ack,
        "_INBOX.other.answer",
        "_R_.abcdef.123456",
        f"$JS.FC.{SUBJECTS.log_stream}.x.y",
    ]
    verbs = [f"STREAM.DELETE.{SUBJECTS.log_stream}", f"STREAM.PURGE.{SUBJECTS.blob_stream}"]
    verbs += [f"CONSUMER.DELETE.{SUBJECTS.task_stream}.{OTHER}", f"CONSUMER.MSG.NEXT.{SUBJECTS.task_stream}.{OTHER}"]
    return inside + [api + verb for api in (API, API_OF_AGENTS) for verb in verbs]


def granted(role: Role, name: str, ack: str, rules: Sequence[Rule] = RULES) -> Iterator[tuple[str, bytes]]:
    """A request on every subject on which this role may publish, with each body that has another kind of answer."""
    api = API if account_of([role]) == "BUS" else API_OF_AGENTS
    for rule in rules:
        if role in rule.roles and rule.action == "publish":
            subject = rule.subject.format(board="main", name=name, inbox="").replace(API, api, 1)
            if subject.endswith(f"{SUBJECTS.log_stream}.>"):
                subject = subject[:-1] + SUBJECTS.fact("r1")
            subject = subject.replace(".>", ".1.1.1.1.0").replace("*", "r1")
            yield from ((subject, json.dumps(body).encode() if body else b"") for body in _bodies(rule.subject))


def _bodies(subject: str) -> Sequence[Mapping[str, Any] | None]:
    if "CONSUMER.MSG.NEXT" in subject:
        wait = {"batch": 1, "expires": 5_000_000}
        return ({"batch": 1, "no_wait": True}, wait, {"batch": 2, "no_wait": True}, {"batch": 1, "max_bytes": 1})
    if "DIRECT.GET.BLOB" in subject or subject.endswith(("MSG.GET.BOARD_{board}", "DIRECT.GET.BOARD_{board}")):
        return ({"seq": 1}, {"seq": 1, "batch": 2, "next_by_subj": ">"}, {"seq": 1_000_000}, {"nonsense": 1})
    return (None,)
