"""What can be wrong with a NATS connection, as the board's errors."""

from collections.abc import Mapping
from typing import Any

from nats import errors
from nats.aio.msg import Msg

from blackboard.log import LogError, LogFull, LogUnavailable

DOWN = (
    errors.OutboundBufferLimitError,
    errors.ConnectionClosedError,
    errors.ConnectionDrainingError,
    OSError,
)
"""What nats-py raises for a connection that is down, or that it just finds to be."""


class Disconnected(LogUnavailable):
    """The connection is down at the moment, or went down before the answer came."""


class NoResponders(LogUnavailable):
    """Nobody listens on that subject at the moment: no such stream, or it has no leader."""


class ServerUnsuitable(LogError):
    """The server cannot carry a board; the text says why."""


class BadAddress(LogError):
    """What should be the address of a server is none; the text says why."""

    exit_code = 2


class ApiError(LogError):
    """The JetStream API refused a request; `err_code` is the server's number for the reason."""

    def __init__(self, subject: str, error: Mapping[str, Any]) -> None:
        self.code: int = error.get("code", 0)
        self.err_code: int = error.get("err_code", 0)
        self.description: str = error.get("description", "unknown error")
        super().__init__(f"{subject}: {self.description} (JetStream error {self.err_code})")


class NoRoom(ApiError, LogFull):
    """The server or its account has no room left."""

    def __init__(self, subject: str, error: Mapping[str, Any]) -> None:
        super().__init__(subject, error)
        self.args = (f"{self}: make room on its disk, or raise the limit of its account",)


NO_ROOM = frozenset({10002, 10023, 10028, 10047})
"""The server's numbers for: an account's limit, too little of anything, memory, storage."""


def refusal(subject: str, error: Mapping[str, Any]) -> ApiError:
    """What the server said in an answer's `error`."""
    return (NoRoom if error.get("err_code") in NO_ROOM else ApiError)(subject, error)


def status_of(message: Msg) -> str:
    """The status code of a message that the server itself wrote; empty for any other message."""
    return (message.headers or {}).get("Status", "") if not message.data else ""
