"""What goes wrong is what the promises of the log and the queue allow, and each of it comes about."""

import asyncio
from collections import Counter
from contextlib import suppress
from typing import Any

import pytest

from blackboard.log import Append, Conflict, LogUnavailable, Message, Stored
from blackboard.memory import MemoryLog
from blackboard.queue import Entry, QueueGone, QueueUnavailable, TaskKey
from blackboard.simulation import faults as f
from blackboard.simulation.faults import Chance, Faults
from blackboard.simulation.parts import Happened, Plan
from blackboard.simulation.ports import Clock, ShuffledQueue, SimulatedLog, SimulatedQueue
from blackboard.simulation.processes import Crash, Process
from blackboard.simulation.virtual_time import VirtualLoop, run_in_virtual_time
from blackboard.testing import random_simulation

SUBJECT = "bb.main.obs.w.r1"


def only(**rates: float) -> Faults:
    return Faults(**{**vars(Faults.none()), **rates})


class Bench:
    """A log and a queue, and processes that use them."""

    def __init__(self, loop: VirtualLoop, faults: Faults, seed: int = 0) -> None:
        self.chance = Chance(seed, faults)
        self.clock = Clock(loop.time)
        self.log = MemoryLog(clock_ms=self.clock.ms, log_id="log-1")
        self.queue = ShuffledQueue(lambda kind, place: self.chance.happens(kind, place, loop.time()), self._share)
        self.happened = Happened("log-1", Plan((), (), ()))

    def _share(self, place: str) -> float:
        return self.chance.share(self.chance.numbered(place))

    def process(self, name: str = "p") -> tuple[Process, SimulatedLog, SimulatedQueue]:
        process = Process(name, self.chance)
        queue = SimulatedQueue(self.queue, process, self.clock, self.happened)
        return process, SimulatedLog(self.log, process, self.clock), queue

    async def stored(self) -> list[Message]:
        return [message async for messages in self.log.scan() for message in messages]


def bench(faults: Faults, main: Any, seed: int = 0) -> Any:
    return run_in_virtual_time(lambda loop: main(Bench(loop, faults, seed)), 100_000, 1_000_000)


# --- the log ----------------------------------------------------------------------------------------------------------


def test_append_with_an_expectation_is_stored_once_however_often_it_is_asked_for() -> None:
    async def main(bench: Bench) -> tuple[int, int]:
        _, log, _ = bench.process()
        away = 0
        for expected in range(50):
            append = Append(SUBJECT, b"%d" % expected, expected=expected)
            while True:
                try:
                    assert await log.append(append) == [Stored(expected + 1)]
                    break
                except LogUnavailable:
                    away += 1
        assert await log.append(Append(SUBJECT, b"other", expected=3)) == [Conflict(SUBJECT, 3)]
        return len(await bench.stored()), away

    stored, away = bench(only(lost_ack=0.3, unavailable=0.2, doubled=0.3), main)
    assert stored == 50
    assert away > 10


def test_append_without_an_expectation_may_be_stored_twice_and_never_lost_when_it_is_acknowledged() -> None:
    async def main(bench: Bench) -> Counter[bytes]:
        _, log, _ = bench.process()
        for number in range(100):
            await log.append(Append(SUBJECT, b"%d" % number))
        return Counter(message.data for message in await bench.stored())

    counts = bench(only(doubled=0.2), main)
    assert set(counts) == {b"%d" % number for number in range(100)}
    assert set(counts.values()) == {1, 2}


def test_of_several_messages_whose_answer_is_lost_any_may_be_stored() -> None:
    async def main(bench: Bench) -> bytes:
        _, log, _ = bench.process()
        with pytest.raises(LogUnavailable):
            await log.append(*(Append(SUBJECT, b"%d" % number) for number in range(3)))
        return b"".join(message.data for message in await bench.stored())

    seen = {bench(only(lost_ack=1.0), main, seed) for seed in range(60)}
    assert {b"", b"0", b"1", b"2", b"02", b"12", b"012"} <= seen


def test_reading_goes_on_where_it_was_in_batches_of_any_size() -> None:
    async def main(bench: Bench) -> list[int]:
        _, log, _ = bench.process()
        await bench.log.append(*(Append(SUBJECT, b"%d" % number) for number in range(40)))
        sizes: list[int] = []
        read: list[int] = []

        async def hear(messages: Any) -> None:
            sizes.append(len(messages))
            read.extend(message.seq for message in messages)

        subscription = await log.subscribe(hear)
        await asyncio.sleep(1)
        await subscription.close()
        assert read == list(range(1, 41))
        return sizes

    assert {len(bench(Faults.none(), main, seed)) > 1 for seed in range(10)} == {True, False}


def test_subscription_that_breaks_off_says_so_and_a_lost_connection_is_told() -> None:
    async def main(bench: Bench) -> int:
        _, log, _ = bench.process()
        told: list[str] = []
        log.on_reconnect(lambda: told.append("back"))

        async def hear(messages: Any) -> None:
            raise AssertionError("nothing is delivered")

        subscription = await log.subscribe(hear)
        await bench.log.append(Append(SUBJECT, b"1"))
        with pytest.raises(LogUnavailable, match="reading broke off"):
            await subscription.wait()
        bench.chance.faults = only(reconnect=1.0)
        await log.append(Append(SUBJECT, b"2"))
        return len(told)

    assert bench(only(unread=1.0), main) == 1


def test_clock_of_the_log_goes_back() -> None:
    async def main(bench: Bench) -> list[int]:
        _, log, _ = bench.process()
        for _ in range(50):
            await log.append(Append(SUBJECT, b"x"))
            await asyncio.sleep(1)
        return [message.time_ms for message in await bench.stored()]

    times = bench(only(clock_back=0.2), main)
    assert times != sorted(times)
    assert bench(Faults.none(), main) == sorted(bench(Faults.none(), main))


# --- the queue --------------------------------------------------------------------------------------------------------


def entries(count: int) -> list[Entry]:
    return [Entry(TaskKey("w", "r1", f"t{number}", 1), b"{}") for number in range(count)]


async def delivered(bench: Bench, count: int, at_once: int) -> Counter[str]:
    """How often each of `count` tasks is delivered to `at_once` workers, who acknowledge each after a second."""
    await bench.queue.ensure(["w"])
    await bench.queue.put(entries(count))
    found: Counter[str] = Counter()

    async def work(queue: SimulatedQueue) -> None:
        while await bench.queue.keys():
            with suppress(QueueUnavailable):
                if delivery := await queue.pull("w", 1):
                    found[delivery.key.task] += 1
                    await asyncio.sleep(1)
                    await delivery.ack()

    await asyncio.gather(*(work(bench.process(f"p{number}")[2]) for number in range(at_once)))
    return found


def test_task_is_delivered_again_until_it_is_acknowledged() -> None:
    everything = {f"t{number}" for number in range(20)}
    once = bench(Faults.none(), lambda bench: delivered(bench, 20, 2))
    assert once == Counter(everything)
    assert list(once) == sorted(everything, key=lambda name: int(name[1:]))
    for kind in ("redelivered", "lost_delivery", "lost_ack"):
        found = bench(only(**{kind: 0.2}), lambda bench: delivered(bench, 20, 2))
        assert set(found) == everything
        assert (max(found.values()) > 1) == (kind != "lost_delivery"), kind
    shuffled = bench(only(reordered=0.5), lambda bench: delivered(bench, 20, 2))
    assert shuffled == once
    assert list(shuffled) != list(once)


def test_task_whose_delivery_is_lost_comes_again_after_its_time() -> None:
    async def main(bench: Bench) -> float:
        _, _, queue = bench.process()
        await bench.queue.ensure(["w"])
        await bench.queue.put(entries(1))
        assert await queue.pull("w", 1) is None
        bench.chance.calm = True
        assert await queue.pull("w", 100) is not None
        return asyncio.get_running_loop().time()

    assert bench(only(lost_delivery=1.0), main) >= 5


def test_queue_that_is_lost_is_gone_until_it_is_made_anew() -> None:
    async def main(bench: Bench) -> None:
        _, _, queue = bench.process()
        await bench.queue.ensure(["w"])
        await bench.queue.put(entries(3))
        with pytest.raises(QueueGone):
            await queue.pull("w", 1)
        with pytest.raises(QueueGone):
            await bench.queue.keys()
        bench.chance.faults = Faults.none()
        await queue.ensure(["w"])
        await queue.put(entries(3))
        assert len(await queue.keys()) == 3

    bench(only(queue_lost=1.0), main)


def test_queue_that_does_not_answer_has_done_all_some_or_nothing() -> None:
    async def main(bench: Bench) -> int:
        _, _, queue = bench.process()
        await bench.queue.ensure(["w"])
        with pytest.raises(QueueUnavailable):
            await queue.put(entries(3))
        return len(await bench.queue.keys())

    assert {bench(only(unavailable=1.0), main, seed) for seed in range(10)} == {0}
    assert {bench(only(lost_ack=1.0), main, seed) for seed in range(40)} == {0, 1, 2, 3}


# --- processes --------------------------------------------------------------------------------------------------------


def test_killed_process_reaches_nothing_any_more() -> None:
    async def main(bench: Bench) -> list[str]:
        process, log, queue = bench.process()
        ended: list[str] = []

        async def helper(name: str) -> None:
            try:
                await asyncio.sleep(1_000)
            finally:
                ended.append(name)
                try:
                    await log.append(Append(SUBJECT, b"last words"))
                except Crash:
                    ended.append(f"{name} is gone")

        async def work() -> None:
            await asyncio.gather(helper("a"), helper("b"))

        running = asyncio.create_task(process.run(work))
        await asyncio.sleep(1)
        process.kill()
        assert isinstance(await running, Crash)
        await asyncio.sleep(1)
        assert await bench.stored() == []
        with pytest.raises(Crash):
            await queue.keys()
        return sorted(ended)

    assert bench(Faults.none(), main) == ["a", "a is gone", "b", "b is gone"]


def test_crash_comes_before_a_call_or_after_it() -> None:
    async def main(bench: Bench) -> int:
        process, log, _ = bench.process()

        async def work() -> None:
            await log.append(Append(SUBJECT, b"1"))
            raise AssertionError("it lives on")

        assert isinstance(await process.run(work), Crash)
        return len(await bench.stored())

    assert {bench(only(crash=1.0), main, seed) for seed in range(20)} == {0, 1}


def test_paused_process_goes_on_later_with_what_it_knew() -> None:
    async def main(bench: Bench) -> float:
        process, log, _ = bench.process()
        await log.head()
        bench.chance.calm = True
        return process.loop.time()

    assert {bench(only(pause=1.0, pause_s=100.0), main, seed) > 1 for seed in range(10)} == {True}


def test_failure_of_a_process_is_told() -> None:
    async def main(bench: Bench) -> Any:
        async def work() -> None:
            raise KeyError("x")

        async def ends() -> None:
            pass

        process = bench.process()[0]
        return await process.run(work), await bench.process("q")[0].run(ends)

    failure, end = bench(Faults.none(), main)
    assert isinstance(failure, KeyError)
    assert end is None


# --- what is drawn ----------------------------------------------------------------------------------------------------


def test_rates_are_those_that_were_asked_for() -> None:
    chance = Chance(1, only(crash=0.1, slow=0.3))
    drawn = Counter(chance.call("here", f.LOG_READS, 0.0).kind for _ in range(5_000))
    assert 400 < drawn["crash"] < 600
    assert 1_350 < drawn["slow"] < 1_650
    assert set(drawn) == {"", "crash", "slow"}
    assert len(chance.made) == drawn["crash"] + drawn["slow"]


def test_nothing_goes_wrong_once_it_is_calm_or_late_or_where_it_may_not() -> None:
    chance = Chance(1, only(crash=1.0, until_s=10.0))
    assert chance.call("here", f.LOG_READS, 9.0).kind == "crash"
    assert chance.call("here", f.LOG_READS, 11.0).kind == ""
    assert chance.call("here", f.LOG_READS, 9.0, f.FROM_OUTSIDE).kind == ""
    chance.calm = True
    assert chance.call("here", f.LOG_READS, 9.0).kind == ""


def test_fault_that_is_left_out_moves_no_other() -> None:
    def made(chance: Chance) -> dict[str, str]:
        for number in range(300):
            chance.call(f"place {number % 7}", f.LOG_WRITES, 0.0)
        return {fault.place: fault.kind for fault in chance.made}

    every = made(Chance(5, Faults().times(3)))
    some = dict(list(every.items())[::2])
    assert len(every) > 20
    assert made(Chance(5, Faults().times(3), some)) == some
    assert made(Chance(5, Faults().times(3), dict.fromkeys(some, "unread"))) == {}, "what a call cannot meet"


@pytest.mark.timeout(300)
def test_each_kind_of_fault_comes_about_in_random_worlds() -> None:
    """And each kind of call meets some."""
    kinds: Counter[str] = Counter()
    calls: Counter[str] = Counter()
    for seed in range(60):
        world = random_simulation(seed)
        report, _ = world.attempt(world.plan, batches=[])
        kinds.update(fault.kind for fault in report.faults)
        calls.update(fault.place.split()[1] for fault in report.faults)
    assert set(kinds) == set(f.RATES)
    assert set(calls) >= {
        "append",
        "last",
        "deliver",
        "put",
        "keys",
        "pull",
        "ack",
        "extend",
        "ensure",
        "choose",
        "head",
    }
