"""Simulated processes: they stand still and are killed, at any call to the outside and at any moment between."""

import asyncio
from collections.abc import Callable, Coroutine
from contextvars import copy_context
from typing import Any

from blackboard.simulation.faults import Chance, Drawn
from blackboard.simulation.virtual_time import OWNER


class Crash(BaseException):
    """The process is gone, here and now."""


class Process:
    """One process: its tasks live in one context, its calls to the outside pass through `enter`. `allowed`: what may go
    wrong with it (None: everything)."""

    def __init__(self, name: str, chance: Chance, allowed: frozenset[str] | None = None) -> None:
        self.name, self.chance, self._allowed = name, chance, allowed
        self.loop = asyncio.get_running_loop()
        self.gone: asyncio.Future[None] = self.loop.create_future()
        self._tasks: list[asyncio.Task[Any]] = []
        self._paused_until_s = 0.0

    @property
    def alive(self) -> bool:
        return not self.gone.done()

    async def run(self, main: Callable[[], Coroutine[Any, Any, None]]) -> BaseException | None:
        """Run until it ends, or is gone; what it failed with, Crash among them."""
        context = copy_context()
        context.run(OWNER.set, self._tasks)
        task = context.run(self.loop.create_task, main())
        await asyncio.wait([task, self.gone], return_when=asyncio.FIRST_COMPLETED)
        if not task.done():
            return Crash()
        return Crash() if task.cancelled() else task.exception()

    def kill(self) -> None:
        """All that it does ends where it is; nothing of it reaches the outside any more."""
        if self.gone.done():
            return
        self.gone.set_result(None)
        for task in self._tasks:
            task.cancel()

    def crash(self) -> None:
        """Kill it from inside. Raises Crash."""
        self.kill()
        raise Crash(self.name)

    def require_alive(self) -> None:
        if self.gone.done():
            raise Crash(self.name)

    async def enter(self, call: str, kinds: tuple[str, ...]) -> Drawn:
        """Before a call to the outside: what it meets, once its delay is over. Raises Crash."""
        self.require_alive()
        drawn = self.chance.call(f"{self.name} {call}", kinds, self.loop.time(), self._allowed)
        if drawn.delay_s:
            await asyncio.sleep(drawn.delay_s)
        if drawn.kind == "pause":
            self._paused_until_s = self.loop.time() + self.chance.faults.pause_s * drawn.share
        if self._paused_until_s > self.loop.time():
            await self.unpaused()
        self.require_alive()
        if drawn.kind == "crash" and drawn.share < 0.5:
            self.crash()
        return drawn

    def leave(self, drawn: Drawn) -> None:
        """After the call. Raises Crash."""
        if drawn.kind == "crash":
            self.crash()
        self.require_alive()

    async def unpaused(self) -> None:
        """Return once the process goes on. Raises Crash."""
        for _ in iter(lambda: self._paused_until_s > self.loop.time(), False):  # it may be paused again meanwhile
            await asyncio.sleep(self._paused_until_s - self.loop.time())
        self.require_alive()
