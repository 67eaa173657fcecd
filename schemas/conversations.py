"""Conversations with models, as they are stored: each message once, under its digest, naming the one before it.

Pure. A conversation is named by its last message, so two that begin alike share what they begin with, and a hundred
calls over one long conversation store it once.
"""

from typing import Any, Literal

from msgspec import Struct

from schemas.codec import canonical, sha256
from schemas.events import StopCode
from schemas.usage import Usage

MEDIA_TYPE = "application/vnd.blackboard.message+json"
Message = dict[str, Any]
"""As the endpoint takes and gives it: `role`, `content` and the rest."""


class Stored(Struct, frozen=True):
    """A blob of a conversation: its bytes and their SHA-256."""

    sha256: str
    data: bytes


class Conversation:
    """The messages of one conversation so far; `head` names all of them (empty: none)."""

    def __init__(self) -> None:
        self.messages: list[Message] = []
        self.head = ""
        self.size = 0
        """Bytes of all messages, as canonical JSON."""

    def add(self, message: Message) -> Stored:
        """One more message; the blob to store."""
        stored = stored_message(message, self.head)
        self.messages.append(message)
        self.head, self.size = stored.sha256, self.size + len(canonical(message))
        return stored


def stored_message(message: Message, before: str) -> Stored:
    """`before`: the digest of the message before it, empty for the first."""
    return stored({"message": message} | ({"after": before} if before else {}))


def stored(value: dict[str, Any]) -> Stored:
    data = canonical(value)
    return Stored(sha256(data), data)


class RecordedCall(Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A call of a model, as one line of a recording. `message` is the answer; where there is none, `said` says why, and
    `code` stands for it."""

    request: str
    messages: str
    message: Message | None = None
    finish: str = ""
    usage: Usage = Usage()
    cached_tokens: int = 0
    reasoning_tokens: int = 0
    uncounted: bool = False
    code: StopCode | Literal[""] = ""
    said: str = ""
