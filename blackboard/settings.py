"""Settings of a process: where the board is, and under which name it is used.

Each comes from an option, else from the environment, else from the credentials or from what lies in this folder or a
parent.
"""

import getpass
import os
import re
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from pathlib import Path

from pydantic import BaseModel, ConfigDict

from blackboard.access import find_access
from blackboard.board import Board, open_board
from blackboard.credentials import BadCredentials, Credentials, read_credentials
from blackboard.nats_tls import CA
from blackboard.server import find_url
from schemas.access import Role
from schemas.goals import Token

BOARD = "BLACKBOARD_BOARD"
CREDENTIALS = "BLACKBOARD_CREDS"
NAME = "BLACKBOARD_NAME"


class Settings(BaseModel):
    """`nats` is a server's address, `nats://host:port`; `name` stands in the subjects of what this process appends.
    `creds` is a file of credentials; without one, whoever has the operator's keys of the server signs his own.
    `ca` is a file of authorities, one of which must vouch for the server; without one TLS is used where the server asks
    for it."""

    model_config = ConfigDict(frozen=True)

    nats: str
    board: Token = "main"
    name: Token = "client"
    creds: Path | None = None
    ca: str = ""

    @asynccontextmanager
    async def open(
        self,
        process: str,
        *roles: Role,
        create: bool = False,
        names: Sequence[str] = (),
        replicas: int | None = None,
    ) -> AsyncIterator[Board]:
        """The board, in these roles (none: to read) under `names` (none: `name`). `process` is for the server's list of
        connections; `create` makes the board's streams where they do not exist, on `replicas` servers. Raises what
        `open_board` raises, and BadCredentials, AccessError."""
        credentials = self.credentials(roles or (Role.AUDITOR,), names)
        async with open_board(
            self.nats, self.board, process, create, credentials, ca=self.ca, replicas=replicas
        ) as board:
            yield board

    @property
    def is_operators(self) -> bool:
        """Whether the operator's keys are at hand, so that any role is. Raises AccessError."""
        return self.creds is None and find_access(self.nats) is not None

    def credentials(self, roles: Sequence[Role], names: Sequence[str] = ()) -> Credentials | None:
        """Those of the file, else such as the operator's keys give for the roles, where they are at hand; else None.
        Raises BadCredentials, AccessError."""
        if self.creds:
            return read_credentials(self.creds)
        access = find_access(self.nats)
        return access.credentials(roles, names or [self.name], self.board) if access else None


def load(
    nats: str | None = None,
    board: str | None = None,
    name: str | None = None,
    creds: str | None = None,
    ca: str | None = None,
) -> Settings:
    """Raises ServerError, whose sentence says what to do, BadCredentials, or ValidationError for a name that is no
    token."""
    file = creds or os.environ.get(CREDENTIALS)
    given = read_credentials(file) if file else None
    wanted = board or os.environ.get(BOARD)
    if given and given.in_agents and wanted and given.board != wanted:
        raise BadCredentials(
            f"{file} is for board {given.board!r}, not for {wanted!r}: grant one with --board {wanted}"
        )
    return Settings(
        nats=find_url(nats),
        board=wanted or (given.board if given else "") or "main",
        name=name or os.environ.get(NAME) or (given.author if given else "") or _user(),
        creds=Path(file) if file else None,
        ca=ca or os.environ.get(CA) or "",
    )


def _user() -> str:
    try:
        return re.sub(r"[^A-Za-z0-9_-]+", "-", getpass.getuser())[:64] or "client"
    except (KeyError, OSError):
        return "client"
