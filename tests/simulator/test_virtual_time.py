"""Time that passes when nothing is left to do."""

import asyncio
import itertools
import threading
import time
from typing import Any

import pytest

from blackboard.simulation.virtual_time import Deadlock, TimeUp, VirtualLoop, run_in_virtual_time

DAY_S = 86_400.0


def run(main: Any, limit_s: float = 10 * DAY_S, limit_steps: int = 10_000) -> Any:
    return run_in_virtual_time(main, limit_s, limit_steps)


def test_a_day_takes_a_moment() -> None:
    async def main(loop: VirtualLoop) -> list[Any]:
        seen: list[Any] = []

        async def sleeper(name: str, seconds: float) -> None:
            await asyncio.sleep(seconds)
            seen.append((name, round(loop.time(), 3)))

        await asyncio.gather(sleeper("b", DAY_S), sleeper("a", 1), sleeper("c", DAY_S + 0.001))
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(5):
                await asyncio.Event().wait()
        return [*seen, round(loop.time(), 3)]

    began = time.perf_counter()
    assert run(main) == [("a", 1.0), ("b", DAY_S), ("c", DAY_S + 0.001), DAY_S + 5.001]
    assert time.perf_counter() - began < 5


def test_what_waits_for_what_never_comes_is_a_deadlock() -> None:
    async def main(loop: VirtualLoop) -> None:
        await loop.create_future()

    with pytest.raises(Deadlock, match="no timer is set"):
        run(main)


def test_limits_of_time_and_of_steps() -> None:
    async def waits(loop: VirtualLoop) -> None:
        for _ in itertools.count():
            await asyncio.sleep(100)

    async def turns(loop: VirtualLoop) -> None:
        for _ in itertools.count():
            await asyncio.sleep(0)

    with pytest.raises(TimeUp, match="1000 s of virtual time are over"):
        run(waits, limit_s=1_000)
    with pytest.raises(TimeUp, match="500 steps are over"):
        run(turns, limit_steps=500)


def test_time_passes_for_what_turns_in_circles_too() -> None:
    async def main(loop: VirtualLoop) -> int:
        turns = 0
        for _ in itertools.takewhile(lambda _: loop.time() < 0.001, itertools.count()):
            await asyncio.sleep(0)
            turns += 1
        return turns

    assert 500 < run(main) < 2_000


def test_tasks_that_are_left_are_ended_and_their_ends_are_run() -> None:
    ended: list[str] = []

    async def main(loop: VirtualLoop) -> None:
        async def left() -> None:
            try:
                await asyncio.sleep(DAY_S)
            finally:
                ended.append("finally")

        loop.create_task(left())
        await asyncio.sleep(0)

    run(main)
    assert ended == ["finally"]


def test_blocking_function_runs_in_place() -> None:
    async def main(loop: VirtualLoop) -> tuple[Any, ...]:
        with pytest.raises(KeyError):
            await asyncio.to_thread({}.__getitem__, "absent")
        return threading.current_thread(), await asyncio.to_thread(threading.current_thread), loop.time()

    here, there, now_s = run(main)
    assert here is there
    assert now_s < 0.001


async def test_inside_of_a_running_loop_it_has_a_thread_of_its_own() -> None:
    async def main(loop: VirtualLoop) -> Any:
        assert asyncio.get_running_loop() is loop
        await asyncio.sleep(DAY_S)
        return loop.time()

    assert run(main) >= DAY_S
    assert not isinstance(asyncio.get_running_loop(), VirtualLoop)

    async def fails(loop: VirtualLoop) -> None:
        raise KeyError("as it is")

    with pytest.raises(KeyError, match="as it is"):
        run(fails)
