"""The log: one append-only, totally ordered sequence of messages a board. Promises only.

Who calls what: clients and workers append; the supervisor and readers read. Two implementations keep these promises,
`memory` (the reference) and `jetstream`; one suite, tests/blackboard/test_log_contract.py, tests both.
"""

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Protocol

from msgspec import Struct


class Message(Struct, frozen=True):
    """One stored message. `seq` rises by one from message to message of the log; `time_ms` is the log's own clock,
    milliseconds since 1970, which may go back when the server's clock is set back."""

    seq: int
    subject: str
    time_ms: int
    data: bytes
    headers: dict[str, str] | None = None


class Append(Struct, frozen=True):
    """One message to append. `expected` is the sequence of the last message on the same subject (0: none yet), or
    among those on all subjects that match `among`, of which its own is one; without it the append is unconditional."""

    subject: str
    data: bytes
    expected: int | None = None
    headers: dict[str, str] | None = None
    among: str = ""

    @property
    def expects_on(self) -> str:
        """The subject, or the pattern, on which `expected` is expected."""
        return self.among or self.subject


class Stored(Struct, frozen=True):
    """The message is on the log, durably, at `seq`."""

    seq: int


class Conflict(Struct, frozen=True):
    """Not appended: the subject's last message is not at the expected sequence."""

    subject: str
    expected: int


class LogError(Exception):
    """The log cannot do what was asked; the text says why and what to do."""


class LogUnavailable(LogError):
    """No answer in time, and it could not be found out whether the message was stored. Ask again."""


class LogFull(LogUnavailable):
    """The server has no room, so it stored nothing. Ask again when somebody has made some."""


class LogDamaged(LogError):
    """The log skipped or changed something that it had stored. `seq` is the first position that is wrong."""

    def __init__(self, seq: int, what: str) -> None:
        super().__init__(f"log damaged at sequence {seq}: {what}")
        self.seq = seq


class TooLarge(LogError):
    """The message is larger than the log takes."""


class NotPermitted(LogError):
    """The identity of this connection may not do that."""


class Subscription(Protocol):
    """A running read. It ends by `close`, by a LogError or by what its handler raised."""

    async def close(self) -> None:
        """End it; a handler that is being awaited is cancelled, unless it is the caller. Afterwards none is called."""
        ...

    async def wait(self) -> None:
        """Return after `close`; raise what ended the subscription otherwise."""
        ...


Handler = Callable[[Sequence[Message]], Awaitable[None]]
"""Receives messages in order, in batches of at least one. While it is awaited nothing more is delivered. What it raises
ends the subscription."""


class Log(Protocol):
    """One board's log as one process sees it."""

    @property
    def id(self) -> str:
        """The random id that was given to the log when it was created, as it was read on connecting. Another log never
        has it."""
        ...

    async def current_id(self) -> str:
        """The id as it is now: another one than `id` when the log was replaced. Raises LogUnavailable, LogError."""
        ...

    async def append(self, *appends: Append) -> list[Stored | Conflict]:
        """Append each message, in the order given, and say for each what became of it.

        Several messages are independent of each other: any of them may conflict while others are stored. No two of one
        call may carry an expected sequence for the same subject. An append with `expected` is idempotent: when the
        message that follows `expected` on the subject has these very bytes, it counts as Stored there. So it is never
        stored twice and never in conflict with itself, whether an acknowledgement was lost or the caller asks again.
        An append without `expected` may be stored twice when its acknowledgement was lost.
        Raises LogUnavailable (some may be stored: ask again), TooLarge, NotPermitted, or LogError when the log does
        not take the subject.
        """
        ...

    async def head(self) -> int:
        """The sequence of the last stored message; 0 when the log is empty."""
        ...

    async def get(self, seq: int) -> Message | None:
        """The message at `seq`, or None when there is none (yet), asked of the leader."""
        ...

    async def last(self, subject: str) -> Message | None:
        """The last message on `subject` (wildcards allowed), asked of the leader, so never stale. Raises LogDamaged
        when it is lost and earlier ones are not."""
        ...

    def read(self, subject: str, after: int = 0) -> AsyncIterator[Message]:
        """The messages on `subject` (wildcards allowed) above sequence `after`, in order, up to what was stored when
        the call began, asked of the leader one by one: for short tails. `scan` is for long reads."""
        ...

    def scan(
        self, subjects: Sequence[str] = (), after: int = 0, upto: int | None = None
    ) -> AsyncIterator[Sequence[Message]]:
        """The messages on `subjects` (none: all) with `after` < seq <= `upto` (None: the head at the call), in order,
        in batches, then end. Reading all subjects raises LogDamaged at the first missing sequence."""
        ...

    def last_per_subject(self, subject: str) -> AsyncIterator[Message]:
        """The last message of every subject that matches, in order of sequence. What is appended meanwhile may show: a
        subject then comes once more, with its newer message, or with that alone."""
        ...

    async def subscribe(self, handler: Handler, subjects: Sequence[str] = (), after: int = 0) -> Subscription:
        """Deliver what is stored above `after` and then what follows, live, in order, each message once, over
        reconnects too, until closed. Reading all subjects raises LogDamaged through `wait` at a missing sequence."""
        ...

    def on_reconnect(self, callback: Callable[[], None]) -> None:
        """Call `callback` after each time that the connection to the log was lost and is back."""
        ...
