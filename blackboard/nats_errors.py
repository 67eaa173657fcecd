"""What can be wrong with a NATS connection, as the board's errors."""

from collections.abc import Mapping
from typing import Any

from nats import errors
from nats.aio.msg import Msg

from blackboard.log import LogError, LogUnavailable

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


class ApiError(LogError):
    """The JetStream API refused a request; `err_code` is the server's number for the reason."""

    def __init__(self, subject: str, error: Mapping[str, Any]) -> None:
        self.code: int = error.get("code", 0)
        self.err_code: int = error.get("err_code", 0)
        self.description: str = error.get("description", "unknown error")
        super().__init__(f"{subject}: {self.description} (JetStream error {self.err_code})")


def status_of(message: Msg) -> str:
    """The status code of a message that the server itself wrote; empty for any other message."""
    return (message.headers or {}).get("Status", "") if not message.data else ""
