"""Settings of a process: where the board is, and under which name it is used.

Each comes from an option, else from the environment, else from what lies in this folder or a parent.
"""

import getpass
import os
import re

from pydantic import BaseModel, ConfigDict

from blackboard.server import find_url
from schemas.goals import Token

BOARD = "BLACKBOARD_BOARD"
NAME = "BLACKBOARD_NAME"


class Settings(BaseModel):
    """`nats` is a server's address, `nats://host:port`; `name` stands in the subjects of what this process appends."""

    model_config = ConfigDict(frozen=True)

    nats: str
    board: Token = "main"
    name: Token = "client"


def load(nats: str | None = None, board: str | None = None, name: str | None = None) -> Settings:
    """Raises ServerNotFound, whose sentence says what to do, or ValidationError for a name that is no token."""
    return Settings(
        nats=find_url(nats),
        board=board or os.environ.get(BOARD) or "main",
        name=name or os.environ.get(NAME) or _user(),
    )


def _user() -> str:
    try:
        return re.sub(r"[^A-Za-z0-9_-]+", "-", getpass.getuser())[:64] or "client"
    except (KeyError, OSError):
        return "client"
