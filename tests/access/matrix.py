"""Every identity, every family of subjects, every verb of JetStream's API: what the table of permissions predicts, and
what a live server does.

A cell is one subject on which one identity publishes or to which it subscribes. What is observed of it: whether the
server refuses it, and whether it comes through to the account of the streams.
"""

import asyncio
import contextlib
from collections.abc import AsyncIterator, Iterator, Sequence
from pathlib import Path
from typing import Literal, NamedTuple

import nats
from nats.aio.client import Client, RawCredentials
from nats.aio.msg import Msg

from blackboard.access import Access, tell
from blackboard.credentials import Credentials
from blackboard.jetstream import create_board
from blackboard.nats_connection import connect
from blackboard.server import EmbeddedServer
from schemas.access import API, API_OF_AGENTS, RULES, Role, Rule, account_of, exports, permissions
from schemas.subjects import Subjects, matches

OWN, OTHER, BOARD, FOREIGN = "own", "other", "main", "foreign"
FAMILIES = ("goal", "signal", "obs", "contract", "playbook", "blob", "task", "cancel", "wake", "fact", "lead")
STREAM_VERBS = (
    "STREAM.CREATE", "STREAM.UPDATE", "STREAM.INFO", "STREAM.DELETE", "STREAM.PURGE", "STREAM.SNAPSHOT",
    "STREAM.RESTORE", "STREAM.MSG.GET", "STREAM.MSG.DELETE", "STREAM.PEER.REMOVE", "STREAM.LEADER.STEPDOWN",
    "CONSUMER.CREATE", "CONSUMER.NAMES", "CONSUMER.LIST", "DIRECT.GET",
)  # fmt: skip
CONSUMER_VERBS = (
    "CONSUMER.CREATE", "CONSUMER.DURABLE.CREATE", "CONSUMER.INFO", "CONSUMER.DELETE", "CONSUMER.MSG.NEXT",
    "CONSUMER.PAUSE", "CONSUMER.RESET", "CONSUMER.UNPIN", "CONSUMER.LEADER.STEPDOWN",
)  # fmt: skip
OTHER_VERBS = ("INFO", "STREAM.NAMES", "STREAM.LIST", "STREAM.TEMPLATE.NAMES", "META.LEADER.STEPDOWN")
SYSTEM = ("$SYS.REQ.CLAIMS.UPDATE", "$SYS.REQ.SERVER.PING", "$SYS.REQ.USER.INFO")
PATIENCE_S = 10.0

Action = Literal["publish", "subscribe"]


class Cell(NamedTuple):
    """One attempt. `inside` is how the account of the streams spells the subject."""

    role: Role
    action: Action
    subject: str
    inside: str


class Seen(NamedTuple):
    """What became of it: whether it was refused, and whether the message came through."""

    refused: bool
    through: bool


class Wrong(NamedTuple):
    cell: Cell
    predicted: Seen
    observed: Seen


def families(board: str) -> Iterator[str]:
    """One subject of each family, with its own name as author and with another's."""
    for family in FAMILIES:
        for name in (OWN, OTHER) if family not in ("wake", "fact", "lead") else ("",):
            author = f".{name}" if name else ""
            rest = {"blob": ".digest.0", "task": ".r1.work.1", "cancel": ".r1.work", "contract": "", "playbook": ""}
            yield f"bb.{board}.{family}{author}{'' if family == 'lead' else rest.get(family, '.r1')}"
    yield f"bb.{board}.obs.{OWN}.r1.key.1"
    yield f"bb.{board}.obs.{OTHER}.r1.key.1"
    yield f"bb.{board}.goal._supervisor.r1"


def verbs(board: str) -> Iterator[str]:
    """JetStream's API on the board's streams and on what else there may be, without its prefix."""
    for stream in (f"BOARD_{board}", f"TASKS_{board}", f"BLOB_{board}"):
        for verb in STREAM_VERBS:
            yield f"{verb}.{stream}"
        for verb in CONSUMER_VERBS:
            for name in (OWN, OTHER):
                yield f"{verb}.{stream}.{name}"
        yield f"CONSUMER.CREATE.{stream}.{OWN}.bb.{board}.fact.r1"
        for family in ("contract", "fact"):
            yield f"DIRECT.GET.{stream}.bb.{board}.{family}.{OWN}"
        yield f"DIRECT.GET.{stream}.bb.{board}.contract.{OTHER}"
        for name in (OWN, OTHER):
            yield f"DIRECT.GET.{stream}.bb.{board}.obs.{name}.r1.key.1"


def places(board: str) -> Iterator[str]:
    """Where acknowledgements and flow control go."""
    for name in (OWN, OTHER):
        yield f"$JS.ACK.TASKS_{board}.{name}.1.1.1.1.0"
        yield f"$JS.ACK.BOARD_{board}.{name}.1.1.1.1.0"
        yield f"$JS.FC.BOARD_{board}.{name}.x"


def cells(role: Role, inbox: str) -> Iterator[Cell]:
    """All that an identity in this role tries, each subject once."""
    in_agents = account_of([role]) == "AGENTS"
    seen: set[tuple[str, str]] = set()
    for board in (BOARD, FOREIGN):
        plain = [*families(board), *places(board)]
        api = [*verbs(board), *(OTHER_VERBS if board == BOARD else ())]
        tried: list[tuple[Action, str, str]] = [("publish", subject, subject) for subject in plain]
        tried += [("publish", API + verb, API + verb if not in_agents else "") for verb in api]
        tried += [("publish", API_OF_AGENTS + verb, API + verb if in_agents else "") for verb in api]
        tried += [("subscribe", subject, subject) for subject in families(board)]
        for action, subject, inside in tried:
            if (action, subject) not in seen:
                seen.add((action, subject))
                yield Cell(role, action, subject, inside)
    for subject in SYSTEM:
        yield Cell(role, "publish", subject, "")
    for subject in (f"{inbox}.answer", "_INBOX.other.answer"):
        yield Cell(role, "subscribe", subject, "")


def predicted(cell: Cell, inbox: str, rules: Sequence[Rule] = RULES) -> Seen:
    """What the table says."""
    given = permissions([cell.role], [OWN], BOARD, inbox, rules)
    allowed = given.publish if cell.action == "publish" else given.subscribe
    permitted = any(matches(pattern, cell.subject) for pattern in allowed)
    if not permitted or not cell.inside:
        return Seen(not permitted, False)
    if account_of([cell.role]) == "BUS":
        return Seen(False, True)
    kind = "service" if cell.action == "publish" else "stream"
    return Seen(False, any(one.kind == kind and matches(one.subject, cell.inside) for one in exports(rules)))


class Identity:
    """One connection, and what the server said to it."""

    def __init__(self, role: Role, credentials: Credentials) -> None:
        self.role, self.credentials = role, credentials
        self.client = Client()
        self.refused: set[tuple[str, str]] = set()
        self.heard: set[str] = set()

    async def connect(self, url: str) -> None:
        async def hear(error: Exception) -> None:
            words = str(error).split('"')
            verb = "subscribe" if "subscription" in words[0].lower() else "publish"
            self.refused.add((verb, words[1].lower()))

        await self.client.connect(
            url,
            user_credentials=RawCredentials(self.credentials.text),
            inbox_prefix=self.credentials.inbox,
            error_cb=hear,
            allow_reconnect=False,
        )

    async def settle(self) -> None:
        """Until the server has answered all that was sent. Refusals come before the answer to the second ping, and
        are handed on by the tasks that run meanwhile."""
        for _ in range(2):
            await self.client.flush()
            await asyncio.sleep(0.01)


class Bench:
    """A server with a board, and an observer who hears all that comes through to the account of the streams."""

    def __init__(self, url: str, access: Access, observer: Client, arrived: dict[str, str]) -> None:
        self.url, self.access, self._observer, self._arrived = url, access, observer, arrived

    async def identity(self, role: Role, rules: Sequence[Rule] = RULES) -> Identity:
        """Connected, with the permissions that these rules give."""
        found = Identity(role, self.access.credentials([role], [OWN], BOARD, rules=rules))
        await found.connect(self.url)
        return found

    async def observe(self, who: Identity) -> list[tuple[Cell, Seen]]:
        """Try all cells of an identity."""
        tried = list(cells(who.role, who.credentials.inbox))
        self._arrived.clear()
        for number, cell in enumerate(tried):
            if cell.action == "publish":
                mark = f"{who.credentials.public}-{number}"
                await who.client.publish(cell.subject, mark.encode(), reply=f"{who.credentials.inbox}.answer")
            else:
                await who.client.subscribe(cell.subject, cb=self._listener(who, cell.subject))
        await who.settle()
        await self._speak([cell for cell in tried if cell.action == "subscribe" and cell.inside])
        await who.settle()
        return [(cell, self._seen(who, number, cell)) for number, cell in enumerate(tried)]

    def _listener(self, who: Identity, subject: str):  # type: ignore[no-untyped-def]
        async def hear(message: Msg) -> None:
            if message.data == b"spoken":
                who.heard.add(subject)

        return hear

    async def _speak(self, heard: Sequence[Cell]) -> None:
        """What an identity may hear is said, in the account of the streams."""
        for cell in heard:
            await self._observer.publish(cell.inside, b"spoken")
        await self._observer.flush()
        await asyncio.sleep(0.05)

    def _seen(self, who: Identity, number: int, cell: Cell) -> Seen:
        refused = (cell.action, cell.subject.lower()) in who.refused
        if cell.action == "subscribe":
            return Seen(refused, cell.subject in who.heard)
        return Seen(refused, self._arrived.get(f"{who.credentials.public}-{number}") == cell.inside != "")

    async def wrong(self, role: Role, rules: Sequence[Rule] = RULES) -> tuple[int, list[Wrong]]:
        """How many cells were tried, and which of them the server takes otherwise than RULES say. The identity has
        what `rules` give."""
        who = await self.identity(role, rules)
        try:
            observed = await self.observe(who)
        finally:
            await who.client.close()
        found = [
            Wrong(cell, expected, seen)
            for cell, seen in observed
            if seen != (expected := predicted(cell, who.credentials.inbox))
        ]
        return len(observed), found

    async def tell(self, account: str, jwt: str) -> None:
        """Give the server another JWT of an account."""
        await tell(self.url, self.access, {account: jwt})


@contextlib.asynccontextmanager
async def bench(folder: Path) -> AsyncIterator[Bench]:
    """A server of its own, and a board on it."""
    access = Access.init(folder / "access")
    with EmbeddedServer(folder, access.server_settings(folder / "jwt")) as server:
        admin = access.credentials([Role.ADMIN], ["admin"])
        connection = await connect(server.url, credentials=admin)
        for board in (BOARD, FOREIGN):
            await create_board(connection, Subjects(board))
        arrived: dict[str, str] = {}

        async def note(message: Msg) -> None:
            arrived.setdefault(message.data.decode("utf-8", "replace"), message.subject)

        observer = await nats.connect(server.url, user_credentials=RawCredentials(admin.text), inbox_prefix=admin.inbox)
        await observer.subscribe(">", cb=note, pending_msgs_limit=0, pending_bytes_limit=0)
        await observer.flush()
        try:
            yield Bench(server.url, access, observer, arrived)
        finally:
            await observer.close()
            await connection.close()
