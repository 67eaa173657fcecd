"""Histories that the simulator found, each in the least form that shows it."""

import asyncio
from collections.abc import Sequence
from typing import Any

from blackboard.log import Handler, Message
from blackboard.memory_queue import MemoryQueue
from blackboard.queue import TaskKey
from tests.supervisor.scenario import ended, goal, offer, step, teach
from tests.supervisor.table import Faulty, Fuse, board_in_memory

TEAM = (offer("w", "work", output={"type": "integer"}), teach(step("a"), returns={"a": "facts.a"}))


class Stopped(Faulty):
    """A log whose supervisor stands still after the first answer to `call`, until `goes_on` is set."""

    def __init__(self, inner: Any, call: str) -> None:
        super().__init__(inner, Fuse())
        self._call, self.stands, self.goes_on = call, asyncio.Event(), asyncio.Event()

    def __getattr__(self, name: str) -> Any:
        method = super().__getattr__(name)
        if name != self._call:
            return method

        async def call(*arguments: Any) -> Any:
            answer = await method(*arguments)
            if not self.stands.is_set():
                self.stands.set()
                await self.goes_on.wait()
            return answer

        return call


async def test_takeover_that_stands_still_in_between_misses_no_contract() -> None:
    """It read the head of an empty log, stood still, then read that all up to the goal is decided: the contract between
    the two was never read, and ends were taken that break it."""
    for call in ("head", "last"):
        async with board_in_memory() as table:
            log = Stopped(table.log.connect(), call)
            late = table.supervise(table.board(log))
            await log.stands.wait()
            first = table.supervise()
            await table.say(*TEAM)
            await first.reached(len(TEAM))
            await table.say(goal())
            await first.reached(len(TEAM) + 2)
            await first.kill()
            log.goes_on.set()
            await table.say(ended("a", {"a": "no integer"}), ended("a", {"a": 1}, attempt=2))
            (folded,) = await table.ended("r1")
            assert folded.state.result == {"a": 1}
            await table.check()
            assert late.supervisor.committer.left == {}


class Late(Faulty):
    """A log that delivers nothing until `goes_on` is set."""

    def __init__(self, inner: Any) -> None:
        super().__init__(inner, Fuse())
        self.goes_on, self.calls = asyncio.Event(), 0

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def subscribe(self, handler: Handler, subjects: Sequence[str] = (), after: int = 0) -> Any:
        async def deliver(messages: Sequence[Message]) -> None:
            await self.goes_on.wait()
            await handler(messages)

        return await self._inner.subscribe(deliver, subjects, after)


async def test_mending_that_waits_for_messages_does_not_turn_in_circles() -> None:
    """It had noted the head and was due at once, again and again, until reading came up to it."""
    async with board_in_memory(*TEAM, goal()) as table:
        log, turns = Late(table.log.connect()), 0
        supervising = table.supervise(table.board(log), mend_s=0.05)
        turn = supervising.supervisor._turn

        async def counted() -> None:
            nonlocal turns
            turns += 1
            await turn()

        supervising.supervisor._turn = counted  # type: ignore[method-assign]
        await asyncio.sleep(0.5)
        assert 0 < turns <= 15
        log.goes_on.set()
        table.work("w", lambda task, item: 1)
        await table.ended("r1")


async def test_clock_that_is_set_back_during_a_takeover_makes_no_timer_due() -> None:
    """It read the time of the log's head and stood still; the clock was set back, and a run was opened: its timers
    seemed to be older than they were long."""
    async with board_in_memory(*TEAM) as table:
        log = Stopped(table.log.connect(), "get")
        late = table.supervise(table.board(log))
        await log.stands.wait()
        table.now_ms -= 600_000
        first = table.supervise()
        await table.say(goal())
        await first.reached(len(TEAM) + 2)
        await first.kill()
        log.goes_on.set()
        for run in ("r2", "r3"):  # one turn each: what is due is said at the end of a turn
            (seq,) = await table.say(goal(run=run))
            await late.reached(seq)
        assert not [one for one in await table.messages() if ".wake." in one.subject]


class Vanishing(Faulty):
    """A queue that is lost right after each of the first `times` looks at what is in it."""

    def __init__(self, inner: MemoryQueue, times: int) -> None:
        super().__init__(inner, Fuse())
        self._times = times

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    async def keys(self) -> set[TaskKey]:
        found: set[TaskKey] = await self._inner.keys()
        if self._times:
            self._times -= 1
            self._inner.lose()
        return found


async def test_queue_that_is_lost_while_it_is_mended_is_made_anew() -> None:
    """It had looked, was about to put in what was absent, and the queue was gone: it tried to put that in again and
    again, and made no other queue until a run brought it something else to put in."""
    async with board_in_memory(*TEAM, goal()) as table:
        supervising = table.supervise(table.board(queue=Vanishing(table.queue, times=3)))
        table.work("w", lambda task, item: 1)
        await table.ended("r1", within_s=10)
        assert supervising.supervisor.committer.left == {}
