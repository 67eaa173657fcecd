"""The task queue: a disposable projection of the log that carries tasks to specialists. Promises only.

The supervisor puts and removes; a worker pulls, extends and acknowledges. Whatever is lost here is put again from the
state of the runs, so the queue may vanish at any time: `pull` and `put` then raise QueueGone until the supervisor has
made it anew. One suite, tests/blackboard/test_queue_contract.py, tests both implementations.
"""

from collections.abc import AsyncIterator, Iterable, Sequence
from typing import NamedTuple, Protocol

from msgspec import Struct

ACK_WAIT_S = 5.0
"""Seconds after which a delivered task that was neither extended nor acknowledged is delivered again."""

DEDUPE_WINDOW_S = 120.0
"""Seconds for which a key that was put is not put again, even when it was acknowledged or removed meanwhile."""


class TaskKey(NamedTuple):
    """The one identity of an entry: a second `put` of the same key while it waits or is in flight, or within
    DEDUPE_WINDOW_S of the first, changes nothing. (run, task, attempt) alone must be unique."""

    specialist: str
    run: str
    task: str
    attempt: int


class QueueGone(Exception):
    """The queue or the specialist's place in it does not exist at the moment. Wait and ask again."""


class QueueUnavailable(Exception):
    """No answer from the queue in time. Ask again."""


class Delivery(Protocol):
    """One task in the hands of one worker. `extend`, `ack` and `release` are best effort and raise nothing: when one is
    lost, or comes too late, the task is delivered again."""

    @property
    def key(self) -> TaskKey: ...

    @property
    def data(self) -> bytes: ...

    @property
    def headers(self) -> dict[str, str]: ...

    @property
    def count(self) -> int:
        """How often this entry has been delivered, this time included; starts anew when the queue was lost."""
        ...

    async def extend(self) -> None:
        """Another ACK_WAIT_S from now."""
        ...

    async def ack(self) -> None:
        """Done: take the entry out. Call it only when the end of the task is stored on the log."""
        ...

    async def release(self, delay_s: float = 0) -> None:
        """Not done: let another worker have it after `delay_s` seconds."""
        ...


class Entry(Struct, frozen=True):
    """A task to put: `data` is the self-contained task message."""

    key: TaskKey
    data: bytes
    headers: dict[str, str] | None = None


class Queue(Protocol):
    async def ensure(self, specialists: Iterable[str]) -> None:
        """Make the queue, and a place in it for each of `specialists`, where they do not exist. Idempotent."""
        ...

    async def put(self, entries: Sequence[Entry]) -> None:
        """Enqueue each entry that is not there already. Raises QueueGone, QueueUnavailable; some entries may then
        be there and others not, so put all of them again."""
        ...

    async def keys(self) -> set[TaskKey]:
        """What waits or is in flight now. Raises QueueGone, QueueUnavailable."""
        ...

    async def remove(self, keys: Iterable[TaskKey]) -> None:
        """Take out entries that wait or are in flight; unknown keys are ignored."""
        ...

    async def pull(self, specialist: str, timeout_s: float) -> Delivery | None:
        """The next task for `specialist`, or None after `timeout_s` seconds. Raises QueueGone, QueueUnavailable."""
        ...

    async def cancel(self, key: TaskKey) -> None:
        """Tell the workers of a specialist, at most once and best effort, that an attempt has no purpose any more."""
        ...

    def cancels(self, specialist: str) -> AsyncIterator[TaskKey]:
        """The attempt that each cancel names, for `specialist` from the call on; ends when the connection is closed."""
        ...
