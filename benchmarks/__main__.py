"""`make bench`: ratios against the floor first, then what they are made of; the last line is the figure.

Both sides run on one embedded server, in turns, so that a busy machine is busy for both. Medians are quoted, with the
smallest and the largest of the rounds behind them.
"""

import argparse
import json
import os
import sys
import tempfile
import time
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import uvloop
from msgspec import Struct

from benchmarks import appends, rebuilds, report, runs
from benchmarks.figures import load
from benchmarks.profiled import hot_spots
from benchmarks.sides import HOW, Side, by_hand, ours
from blackboard.server import EmbeddedServer

PARTS = ("runs", "appends", "rebuild")


class Size(Struct, frozen=True):
    """How much is measured: `alone` rounds of `goals` goals one at a time; `rounds` rounds of `seconds` at each of
    `loads`, of appends and of rebuilds."""

    alone: int
    goals: int
    loads: tuple[int, ...]
    rounds: int
    seconds: float
    append_s: float
    events: tuple[int, ...]


FULL = Size(alone=12, goals=10, loads=(16, 64), rounds=3, seconds=4.0, append_s=1.0, events=(1_000, 10_000, 100_000))
QUICK = Size(alone=2, goals=8, loads=(64,), rounds=1, seconds=0.2, append_s=0.2, events=(10_000,))


def main() -> None:
    options = _options()
    size = QUICK if options.quick else FULL
    began, before = time.monotonic(), load()
    with tempfile.TemporaryDirectory(prefix="bench-", dir=options.dir) as name:
        directory = Path(name)
        fsync_ms = _fsync_ms(directory)
        with EmbeddedServer(directory / "server") as server:
            found = uvloop.run(_measure(options, size, server, directory))
        if options.profile:
            for role in ("supervisor", "worker"):
                _say(f"{role}: processor time at {_profiled_load(options)} goals at once, by function")
                _say(hot_spots(directory / role))
    machine = f"{before} before and {load()} after, {fsync_ms:.1f} ms a sync, {time.monotonic() - began:.0f} s"
    if options.as_json:
        print(json.dumps({**report.record(found), "machine": machine}))
    else:
        print("\n".join(report.lines(found)))
        print(f"\nmachine: {machine}")
        print(report.figure(found))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description=__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"what to measure: {', '.join(PARTS)} [default: all]")
    parser.add_argument("--quick", action="store_true", help="a slice in under 40 s, for CI")
    parser.add_argument("--json", action="store_true", dest="as_json", help="JSON on stdout, and nothing else there")
    parser.add_argument(
        "--profile", action="store_true", help="say where the time of supervisor and worker goes, instead"
    )
    parser.add_argument("--load", type=int, default=64, help="goals at once under --profile [default: 64]")
    parser.add_argument("--dir", default=None, help="where the server keeps its data [default: the temporary folder]")
    options = parser.parse_args()
    if unknown := set(options.parts) - set(PARTS):
        parser.error(f"{unknown.pop()!r} is none of {', '.join(PARTS)}")
    return options


async def _measure(options: argparse.Namespace, size: Size, server: EmbeddedServer, directory: Path) -> report.Found:
    parts = options.parts or PARTS
    if options.profile:
        return report.Found(await _profile(options, size, server, directory), None, [])
    found = report.Found([], None, [])
    if "runs" in parts:
        async with AsyncExitStack() as stack:
            sides: list[Side] = [await stack.enter_async_context(ours(server.url, directory))]
            sides += [await stack.enter_async_context(by_hand(server.url, directory, how)) for how in HOW]
            for at_once in (1, *size.loads):
                rounds, amount = (size.alone, size.goals) if at_once == 1 else (size.rounds, size.seconds)
                _say(f"{at_once} goal(s) at once: {rounds} round(s) of {len(sides)} sides in turns")
                found.turns.append(await runs.measure(sides, server.pid, at_once, rounds, amount))
    if "appends" in parts:
        _say("appends")
        found.appends = await appends.measure(server.url, size.rounds, size.append_s)
    if "rebuild" in parts:
        for events in size.events:
            _say(f"rebuilding a run of {events} events")
            found.rebuilt += await rebuilds.measure(server.url, [events], size.rounds)
    return found


async def _profile(
    options: argparse.Namespace, size: Size, server: EmbeddedServer, directory: Path
) -> list[runs.Turns]:
    async with ours(server.url, directory, directory) as side:
        at_once = _profiled_load(options)
        amount = size.goals if at_once == 1 else size.seconds
        return [await runs.measure([side], server.pid, at_once, 2, amount)]


def _profiled_load(options: argparse.Namespace) -> int:
    return max(1, int(options.load))


def _fsync_ms(directory: Path, count: int = 50) -> float:
    """What one sync of 300 bytes costs here, in milliseconds; the median."""
    taken = []
    with (directory / "sync").open("wb") as file:
        for _ in range(count):
            file.write(b"x" * 300)
            file.flush()
            began = time.perf_counter()
            os.fsync(file.fileno())
            taken.append(time.perf_counter() - began)
    return sorted(taken)[count // 2] * 1000


def _say(text: Any) -> None:
    print(text, file=sys.stderr, flush=True)


if __name__ == "__main__":
    main()
