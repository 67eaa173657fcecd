"""One board as one process sees it: the log, the queue and the blobs that belong together."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import dataclass

from blackboard import jetstream
from blackboard.announcements import Announcements
from blackboard.blobs import Blobs
from blackboard.credentials import Credentials
from blackboard.log import Log, Message
from blackboard.queue import Queue
from schemas.subjects import Subjects


@dataclass(frozen=True)
class Board:
    """`announcements`: where supervisors say who is active; without it each takes it that it is."""

    subjects: Subjects
    log: Log
    queue: Queue
    blobs: Blobs
    announcements: Announcements | None = None


def floor_of(message: Message | None) -> int:
    """The `floor` of a fact message: every input at or below it is decided. 0 where it says none that could be true."""
    said = (message.headers or {}).get("floor", "") if message else ""
    floor = int(said) if said.isascii() and said.isdecimal() and len(said) < 20 else 0
    return floor if message and floor < message.seq else 0


@asynccontextmanager
async def open_board(
    url: str,
    board: str = "main",
    name: str = "blackboard",
    create: bool = False,
    credentials: Credentials | None = None,
    *,
    ca: str = "",
    replicas: int | None = None,
) -> AsyncIterator[Board]:
    """Connect to the board `board` on the NATS server at `url`; `create` makes its streams where they do not exist.
    `credentials`: whose identity it is; none where the server asks for none. `ca`: see `nats_connection.connect`,
    `replicas`: `jetstream.create_board`.

    Raises ServerUnsuitable, LogUnavailable, or LogError where the board does not exist or is not as it should be.
    """
    subjects = Subjects(board)
    async with jetstream.open_board(url, subjects, name, create, credentials, ca=ca, replicas=replicas) as ports:
        yield Board(subjects, *ports)
