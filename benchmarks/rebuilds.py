"""Rebuilds: events a second of one long run, against a loop that reads the same messages and only parses them.

`python -m benchmarks.rebuilds rebuild|parse|read URL RUN` does one of them and prints its time and memory.
"""

import asyncio
import json
import resource
import subprocess
import sys
import time
from collections.abc import Sequence
from pathlib import Path
from statistics import median
from typing import Any

import msgspec
import uvloop
from msgspec import Struct

from benchmarks.histories import history, parts
from benchmarks.sides import ROOT
from blackboard.board import Board, open_board
from projections.audit import Audited
from projections.rebuild import check, rebuild

BOARD = "bench-rebuilds"
KEYS = {1_000: 250, 10_000: 2_000, 100_000: 50}
"""Keys of a run, by its events. 2,000 is as many tasks as one run may have."""


class Parsed(Struct):
    """A fact message, read as any program would."""

    log: str
    run: str
    first: int
    prev: str
    events: list[dict[str, Any]]


class Once(Struct, frozen=True):
    """One reading of a run. `memory` is what the process took beyond what it had when it was connected, in bytes."""

    seconds: float
    events: int
    memory: int


class Rebuilt(Struct):
    """Of one run of `events` events: readings by what was done with them. `bytes` and `inputs` are those of its fact
    messages and of the inputs that they cite."""

    events: int
    keys: int
    messages: int
    bytes: int
    inputs: int
    readings: dict[str, list[Once]]

    def rate(self, what: str) -> float:
        """Events a second."""
        return self.events / median(one.seconds for one in self.readings[what])

    def memory(self, what: str) -> float:
        return median(one.memory for one in self.readings[what])

    @property
    def ratio(self) -> float:
        return self.rate("rebuild") / self.rate("parse")


async def measure(url: str, sizes: Sequence[int], rounds: int) -> list[Rebuilt]:
    async with open_board(url, BOARD, "bench", create=True) as board:
        return [await _measure(board, url, size, rounds) for size in sizes]


async def _measure(board: Board, url: str, size: int, rounds: int) -> Rebuilt:
    run = f"run-{size}"
    rebuilt = await _write(board, run, size)
    for _ in range(rounds):
        for what in ("rebuild", "parse", "read"):
            rebuilt.readings.setdefault(what, []).append(await asyncio.to_thread(_in_a_process, what, url, run))
    assert all(one.events == size for one in rebuilt.readings["rebuild"] + rebuilt.readings["parse"])
    return rebuilt


async def _write(board: Board, run: str, size: int) -> Rebuilt:
    """Append a history and have it checked."""
    appends = history(board.subjects, board.log.id, run, size, KEYS[size], await board.log.head() + 1)
    for part in parts(appends):
        await board.log.append(*part)
    audited = await check(board, run)
    assert isinstance(audited, Audited), audited
    facts = [append for append in appends if append.subject == board.subjects.fact(run)]
    total = sum(len(append.data) for append in facts)
    return Rebuilt(size, KEYS[size], len(facts), total, len(appends) - len(facts), {})


def _in_a_process(what: str, url: str, run: str) -> Once:
    command = [sys.executable, "-m", "benchmarks.rebuilds", what, url, run]
    printed = subprocess.run(command, cwd=ROOT, stdout=subprocess.PIPE, check=True).stdout
    return msgspec.json.decode(printed, type=Once)


async def _once(what: str, url: str, run: str) -> Once:
    async with open_board(url, BOARD, "bench") as board:
        held, began = _peak_bytes(), time.perf_counter()
        count = await {"rebuild": _rebuild, "parse": _parse, "read": _read}[what](board, run)
        return Once(time.perf_counter() - began, count, _peak_bytes() - held)


async def _rebuild(board: Board, run: str) -> int:
    return (await rebuild(board, run)).state.version


async def _parse(board: Board, run: str) -> int:
    decoder, count = msgspec.json.Decoder(Parsed), 0
    async for messages in board.log.scan([board.subjects.fact(run)]):
        for message in messages:
            count += len(decoder.decode(message.data).events)
    return count


async def _read(board: Board, run: str) -> int:
    return sum([len(messages) async for messages in board.log.scan([board.subjects.fact(run)])])


def _peak_bytes() -> int:
    """The most memory that this program has held. On Linux `getrusage` would count what it was forked from, too."""
    try:
        status = Path("/proc/self/status").read_text()
        return next(int(line.split()[1]) for line in status.splitlines() if line.startswith("VmHWM")) * 1024
    except (OSError, StopIteration):
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024


if __name__ == "__main__":
    print(json.dumps(msgspec.to_builtins(uvloop.run(_once(*sys.argv[1:])))))
