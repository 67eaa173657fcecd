"""Runs: how long one takes alone, and how many go through at a time, on each side in turns."""

import asyncio
import itertools
import os
import time
from collections.abc import Sequence
from statistics import median

from msgspec import Struct

from benchmarks.figures import cpu_s, percentile
from benchmarks.sides import Side, Stored

_numbers = itertools.count(1)


class Round(Struct, frozen=True):
    """One side for a while: `latencies_s` of runs that began and ended in it, `published_s` the part of each that went
    into publishing; `cpu_ms` of each role, and what was stored, are per run."""

    side: str
    at_once: int
    seconds: float
    latencies_s: tuple[float, ...]
    published_s: tuple[float, ...]
    cpu_ms: dict[str, float]
    messages: float
    bytes: float
    tasks: float

    @property
    def p50_ms(self) -> float:
        return percentile(self.latencies_s, 0.5) * 1000

    @property
    def rate(self) -> float:
        """Runs a second."""
        return len(self.latencies_s) / self.seconds


async def one_after_another(side: Side, server: int, count: int) -> Round:
    meter = await _Meter.start(side, server)
    for _ in range(count):
        await meter.run()
    return await meter.stop(1)


async def all_at_once(side: Side, server: int, at_once: int, seconds: float) -> Round:
    """`at_once` goals are under way at any time. Counted is from the end of one wave of so many to the end of another,
    at least `seconds` later: goals that were published together tend to end together."""
    meter = await _Meter.start(side, server)
    going = True

    async def publisher() -> None:
        while going:
            await meter.run()

    async with asyncio.TaskGroup() as group:
        for _ in range(at_once):
            group.create_task(publisher())
        await meter.reach(at_once)
        await meter.restart()
        await asyncio.sleep(seconds)
        await meter.reach(at_once * (len(meter.done) // at_once + 1))
        measured = await meter.stop(at_once)
        going = False
    return measured


class _Meter:
    def __init__(self, side: Side, server: int) -> None:
        self._side, self._pids = side, {"server": server, **side.pids}

    @classmethod
    async def start(cls, side: Side, server: int) -> "_Meter":
        meter = cls(side, server)
        await meter.restart()
        return meter

    async def restart(self) -> None:
        self._before, self._cpu = await self._side.stored(), self._cpu_s()
        self.done: list[tuple[float, float]] = []
        self._began = time.perf_counter()

    async def run(self) -> None:
        began = time.perf_counter()
        published_s = await self._side.goal(f"{self._side.name}-{next(_numbers)}")
        self.done.append((time.perf_counter() - began, published_s))

    async def reach(self, count: int) -> None:
        """Return when so many runs have ended since the last start."""
        while len(self.done) < count:  # noqa: ASYNC110 - looking is cheaper than an event for each run
            await asyncio.sleep(0.005)

    async def stop(self, at_once: int) -> Round:
        seconds, done = time.perf_counter() - self._began, tuple(self.done)
        cpu, after = self._cpu_s(), await self._side.stored()
        count = max(len(done), 1)
        return Round(
            side=self._side.name,
            at_once=at_once,
            seconds=seconds,
            latencies_s=tuple(latency for latency, _ in done),
            published_s=tuple(published for _, published in done),
            cpu_ms={role: (cpu[role] - used) * 1000 / count for role, used in self._cpu.items()},
            **{name: _grown(name, self._before, after) / count for name in ("messages", "bytes", "tasks")},
        )

    def _cpu_s(self) -> dict[str, float]:
        return {role: cpu_s(pid) for role, pid in (self._pids | {"client": os.getpid()}).items()}


def _grown(name: str, before: Stored, after: Stored) -> int:
    return int(getattr(after, name) - getattr(before, name))


class Turns(Struct):
    """All rounds of all sides at one load."""

    at_once: int
    rounds: list[Round]

    def of(self, side: str) -> list[Round]:
        return [one for one in self.rounds if one.side == side]

    def rate(self, side: str) -> float:
        return median(one.rate for one in self.of(side))

    def ratio(self, what: str, side: str, to: str) -> float:
        """The median over the rounds of `what` of one side, `p50_ms` or `rate`, against that of another right after."""
        pairs = zip(self.of(side), self.of(to), strict=True)
        return float(median(getattr(one, what) / getattr(other, what) for one, other in pairs))

    def latencies_ms(self, side: str) -> list[float]:
        return [latency * 1000 for one in self.of(side) for latency in one.latencies_s]

    def published_ms(self, side: str) -> float:
        return median(published * 1000 for one in self.of(side) for published in one.published_s)

    def p50_ms(self, side: str) -> float:
        return percentile(self.latencies_ms(side), 0.5)

    def p99_ms(self, side: str) -> float:
        return percentile(self.latencies_ms(side), 0.99)

    def per_run(self, side: str, what: str) -> float:
        return float(median(getattr(one, what) for one in self.of(side)))

    def cpu_ms(self, side: str) -> dict[str, float]:
        rounds = self.of(side)
        return {role: median(one.cpu_ms[role] for one in rounds) for role in rounds[0].cpu_ms}


async def measure(sides: Sequence[Side], server: int, at_once: int, rounds: int, size: float) -> Turns:
    """`size`: goals of a round when they go one at a time, else seconds."""
    turns = Turns(at_once, [])
    for _ in range(rounds):
        for side in sides:
            if at_once == 1:
                turns.rounds.append(await one_after_another(side, server, int(size)))
            else:
                turns.rounds.append(await all_at_once(side, server, at_once, size))
    return turns
