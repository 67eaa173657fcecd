"""An event loop whose time passes only when nothing is left to do: it then jumps to the next timer.

No sockets, no threads, no wall clock, so what runs in it takes the same steps in the same order whenever it runs.
"""

import asyncio
import gc
import sys
import threading
from collections import deque
from collections.abc import Callable, Coroutine, Generator
from contextvars import Context, ContextVar, copy_context
from heapq import heappop
from typing import Any, TypeVar

T = TypeVar("T")

ROUND_S = 1e-6
"""What a round takes, so that time passes for what turns in circles too, as it does in the world."""
PRUNED_AT = 1_000
ENDINGS = 10
"""How often what still runs is cancelled: some takes a cancel for something else."""
OWNER: ContextVar["list[asyncio.Task[Any]] | None"] = ContextVar("owner", default=None)
"""Where the tasks that are created in this context are listed, so that all of a process can be ended at once."""


class Deadlock(Exception):
    """Nothing is left to do, no timer is set, and what was waited for has not come."""


class TimeUp(Exception):
    """The limit of virtual time, or of steps, was reached before what was waited for came."""


class _Soon:
    """A callback that is due, without what a real loop wants of it. `cancel` as of any handle."""

    __slots__ = ("_args", "_callback", "_cancelled", "_context")

    def __init__(self, callback: Callable[..., Any], args: tuple[Any, ...], context: Context) -> None:
        self._callback, self._args, self._context, self._cancelled = callback, args, context, False

    def cancel(self) -> None:
        self._cancelled = True

    def cancelled(self) -> bool:
        return self._cancelled

    def _run(self) -> None:
        self._context.run(self._callback, *self._args)


class VirtualLoop(asyncio.BaseEventLoop):
    """`limit_s`: virtual seconds after which TimeUp is raised; `limit_steps`: rounds of the loop, for what goes on
    without waiting."""

    _ready: "deque[Any]"
    _scheduled: list[Any]

    def __init__(self, limit_s: float, limit_steps: int) -> None:
        super().__init__()
        self._now_s, self._limit_s, self._limit_steps = 0.0, limit_s, limit_steps
        self.steps = 0
        self.created: list[asyncio.Task[Any]] = []

    def time(self) -> float:
        return self._now_s

    def _run_once(self) -> None:
        """A round: what is due now, or the jump to the next timer."""
        ready, scheduled = self._ready, self._scheduled
        while scheduled and scheduled[0]._cancelled:
            heappop(scheduled)._scheduled = False
        if not ready:
            if not scheduled:
                raise Deadlock("nothing is left to do and no timer is set")
            self._now_s = max(self._now_s, scheduled[0]._when)
        self._now_s += ROUND_S
        self.steps += 1
        if self._now_s > self._limit_s:
            raise TimeUp(f"{self._limit_s:g} s of virtual time are over")
        if self.steps > self._limit_steps:
            raise TimeUp(f"{self._limit_steps} steps are over, at {self._now_s:.3f} s of virtual time")
        while scheduled and scheduled[0]._when <= self._now_s:
            handle = heappop(scheduled)
            handle._scheduled = False
            ready.append(handle)
        for _ in range(len(ready)):
            handle = ready.popleft()
            if not handle._cancelled:
                handle._run()

    def call_soon(  # type: ignore[override]
        self, callback: Callable[..., Any], *args: Any, context: Context | None = None
    ) -> Any:
        handle = _Soon(callback, args, context or copy_context())
        self._ready.append(handle)
        return handle

    def _timer_handle_cancelled(self, handle: Any) -> None:
        """They are few enough to lie until they are due."""

    def _write_to_self(self) -> None:
        pass

    def create_task(self, coro: Generator[Any, None, T] | Coroutine[Any, Any, T], **options: Any) -> "asyncio.Task[T]":
        task = super().create_task(coro, **options)
        self.created.append(task)
        if len(self.created) > PRUNED_AT:
            self.created = [one for one in self.created if not one.done()]
        if (owner := OWNER.get()) is not None:
            owner.append(task)
        return task

    def end_all(self) -> None:
        """Cancel what still runs, and let it end."""
        self._limit_s = self._limit_steps = sys.maxsize
        for _ in range(ENDINGS):
            going = [task for task in self.created if not task.done()]
            if not going:
                return
            for task in going:
                task.cancel()
            self.run_until_complete(asyncio.wait(going, timeout=60))

    def run_in_executor(  # type: ignore[override]
        self, executor: Any, func: Callable[..., Any], *args: Any
    ) -> "asyncio.Future[Any]":
        """At once, in this thread: one that runs beside would end at a time of its own."""
        future = self.create_future()
        try:
            future.set_result(func(*args))
        except Exception as error:
            future.set_exception(error)
        return future


def run_in_virtual_time(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], limit_s: float, limit_steps: int) -> T:
    """What `main` returns. Inside of a running event loop it runs in a thread of its own, and this waits for it.

    Raises what `main` raises, Deadlock, TimeUp.
    """
    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return _run(main, limit_s, limit_steps)
    outcome: list[T] = []
    failure: list[BaseException] = []

    def work() -> None:
        try:
            outcome.append(_run(main, limit_s, limit_steps))
        except BaseException as error:
            failure.append(error)

    thread = threading.Thread(target=work, name="virtual time", daemon=True)
    thread.start()
    thread.join()
    if failure:
        raise failure[0]
    return outcome[0]


def _run(main: Callable[[VirtualLoop], Coroutine[Any, Any, T]], limit_s: float, limit_steps: int) -> T:
    """Without the collector of cycles meanwhile: it closes abandoned generators, at moments that differ from process to
    process."""
    collecting = gc.isenabled()
    gc.disable()
    loop = VirtualLoop(limit_s, limit_steps)
    loop.set_exception_handler(lambda loop, context: None)  # what a killed process leaves behind is nobody's concern
    try:
        return loop.run_until_complete(main(loop))
    finally:
        loop.end_all()
        loop.close()
        if collecting:
            gc.enable()
