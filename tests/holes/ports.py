"""Logs and queues on which a supervisor meets with something, and the team that most scenarios have."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any

from blackboard.log import Append, Conflict, Stored
from blackboard.queue import TaskKey
from tests.supervisor.scenario import offer, step, teach
from tests.supervisor.table import Crash

TEAM = (offer("w", "work"), teach(step("a"), returns={"a": "facts.a"}))
"""One step, `a`, which `w` does."""

When = Callable[[Sequence[Append]], bool]


class Port:
    """A log or a queue of which some calls do something else; the others are those of `inner`."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner

    def __getattr__(self, name: str) -> Any:
        return getattr(self.inner, name)


def on(family: str) -> When:
    """Appends to that family of subjects."""
    return lambda appends: any(one.subject.split(".")[2] == family for one in appends)


def saying(text: bytes) -> When:
    return lambda appends: any(text in one.data for one in appends)


class Dies(Port):
    """The supervisor is gone when it appends what `when` says: after the first `stored` of them."""

    def __init__(self, inner: Any, when: When, stored: int = 0) -> None:
        super().__init__(inner)
        self._when, self._stored = when, stored

    async def append(self, *appends: Append) -> list[Stored | Conflict]:
        if not self._when(appends):
            return list(await self.inner.append(*appends))
        if self._stored:
            await self.inner.append(*appends[: self._stored])
        raise Crash


class Pauses(Port):
    """The supervisor stands still before it appends what `when` says, until `go_on`, and is gone after that."""

    def __init__(self, inner: Any, when: When, paused: asyncio.Event, go_on: asyncio.Event) -> None:
        super().__init__(inner)
        self._when, self._paused, self._go_on = when, paused, go_on

    async def append(self, *appends: Append) -> list[Stored | Conflict]:
        if not self._when(appends):
            return list(await self.inner.append(*appends))
        self._paused.set()
        await self._go_on.wait()
        await self.inner.append(*appends)
        raise Crash


class Remembers(Port):
    """Keeps what became of each append."""

    def __init__(self, inner: Any, kept: list[tuple[Append, Stored | Conflict]]) -> None:
        super().__init__(inner)
        self._kept = kept

    async def append(self, *appends: Append) -> list[Stored | Conflict]:
        outcomes = list(await self.inner.append(*appends))
        self._kept += zip(appends, outcomes, strict=True)
        return outcomes


class Meanwhile(Port):
    """A queue that is slow to say what it holds: `then` happens before it does."""

    def __init__(self, inner: Any, then: list[Callable[[], Awaitable[None]]]) -> None:
        super().__init__(inner)
        self._then = then

    async def keys(self) -> set[TaskKey]:
        while self._then:
            await self._then.pop()()
        return set(await self.inner.keys())
