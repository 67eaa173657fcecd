"""What was measured, in words: ratios first, then what they are made of, and the one line that is the figure."""

from collections.abc import Iterator
from statistics import median
from typing import Any

from msgspec import Struct, to_builtins

from benchmarks.appends import Rates
from benchmarks.figures import bytes_of, spread, verdict
from benchmarks.rebuilds import Rebuilt
from benchmarks.runs import Turns
from benchmarks.sides import HOW

LATENCY_GOAL, THROUGHPUT_GOAL, REBUILD_GOAL = 2.0, 0.3, 0.4
"""Latency alone at most, runs a second at FULL_LOAD at least, and rebuilt events a second at least, of the floor's."""
FULL_LOAD = 64


class Found(Struct):
    turns: list[Turns]
    appends: dict[str, Rates] | None
    rebuilt: list[Rebuilt]


def floor_of(turns: Turns) -> str:
    """The better of the two ways in which the floor appends, at this load."""
    if turns.at_once == 1:
        return min(HOW, key=turns.p50_ms)
    return max(HOW, key=turns.rate)


def latency_ratio(turns: Turns) -> float:
    return turns.ratio("p50_ms", "ours", floor_of(turns))


def throughput_ratio(turns: Turns) -> float:
    return turns.ratio("rate", "ours", floor_of(turns))


def lines(found: Found) -> Iterator[str]:
    yield "ratios, ours against the floor; medians over rounds in turns, (smallest..largest)"
    yield from (f"  {line}" for line in _ratios(found))
    for turns in found.turns:
        if all(turns.of(how) for how in HOW):
            yield from _side_by_side(turns)
    if found.appends:
        yield "\nobservations a second of one specialist"
        for side, rates in found.appends.items():
            yield f"  {side:<8} with a window {spread(rates.windowed):<24} one at a time {spread(rates.alone)}"
    if found.rebuilt:
        yield "\nrebuilding one run"
        for rebuilt in found.rebuilt:
            yield from _rebuilt(rebuilt)


def _ratios(found: Found) -> Iterator[str]:
    for turns in found.turns:
        if not all(turns.of(how) for how in HOW):
            continue
        floor = floor_of(turns)
        if turns.at_once == 1:
            ratio = latency_ratio(turns)
            yield (
                f"latency alone      p50 {ratio:.2f}x, p99 {turns.p99_ms('ours') / turns.p99_ms(floor):.2f}x"
                f"   (goal: at most {LATENCY_GOAL:g}x, {verdict(ratio <= LATENCY_GOAL)})"
            )
            continue
        ratio = throughput_ratio(turns)
        goal = f"   (goal: at least {THROUGHPUT_GOAL:g}, {verdict(ratio >= THROUGHPUT_GOAL)})"
        yield f"{turns.at_once} goals at once   {ratio:.2f} of the floor{goal if turns.at_once == FULL_LOAD else ''}"
    if found.appends:
        best = max(median(found.appends[how].windowed) for how in HOW)
        windowed, alone = (median(getattr(found.appends["ours"], kind)) for kind in ("windowed", "alone"))
        bare = found.appends["singles"]
        yield (
            f"appending          with a window {windowed / median(bare.windowed):.2f} of bare publishes, "
            f"{windowed / best:.2f} of the better of them and batches; one at a time {alone / median(bare.alone):.2f}"
        )
    for rebuilt in found.rebuilt:
        yield (
            f"rebuild of {rebuilt.events:>7,} {rebuilt.ratio:.2f} of read-and-parse"
            f"   (goal: at least {REBUILD_GOAL:g}, {verdict(rebuilt.ratio >= REBUILD_GOAL)})"
        )


def _side_by_side(turns: Turns) -> Iterator[str]:
    yield f"\n{turns.at_once} goal{'s' if turns.at_once > 1 else ''} at once"
    for side in ("ours", *HOW):
        rates = [one.rate for one in turns.of(side)]
        medians = [one.p50_ms for one in turns.of(side)]
        name = side if side == "ours" else f"floor, {side}"
        yield (
            f"  {name:<15} {spread(rates, '{:.1f}'):>20} runs/s   p50 {spread(medians, '{:.1f}')} ms, "
            f"p99 {turns.p99_ms(side):.1f} ms of {len(turns.latencies_ms(side))} runs"
        )
        cpu = turns.cpu_ms(side)
        shares = ", ".join(f"{role} {used:.1f}" for role, used in cpu.items())
        stored = f"{turns.per_run(side, 'messages'):.1f} messages, {bytes_of(turns.per_run(side, 'bytes'))}"
        yield (
            f"  {'':<15} a run: {stored}, {turns.per_run(side, 'tasks'):.1f} tasks; "
            f"{sum(cpu.values()):.1f} ms of processor ({shares}); publishing took {turns.published_ms(side):.1f} ms"
        )


def _rebuilt(rebuilt: Rebuilt) -> Iterator[str]:
    yield (
        f"  {rebuilt.events:,} events over {rebuilt.keys:,} keys in {rebuilt.messages:,} messages "
        f"({bytes_of(rebuilt.bytes)}, {rebuilt.bytes / rebuilt.events:.0f} bytes an event; {rebuilt.inputs:,} inputs)"
    )
    names = {"rebuild": "rebuild", "parse": "read and parse", "read": "read only"}
    for what, name in names.items():
        rates = [one.events / one.seconds for one in rebuilt.readings[what]]
        unit = "messages" if what == "read" else "events"
        yield f"    {name:<15} {spread(rates, '{:,.0f}')} {unit}/s, {bytes_of(rebuilt.memory(what))} of memory"


def record(found: Found) -> dict[str, Any]:
    """The same as data."""
    turns = {
        str(one.at_once): {
            "floor": floor_of(one),
            "latency_ratio": latency_ratio(one),
            "throughput_ratio": throughput_ratio(one),
            **{side: _summary(one, side) for side in ("ours", *HOW)},
        }
        for one in found.turns
        if all(one.of(how) for how in HOW)
    }
    rebuilt = [
        {"ratio": one.ratio, **{f"{what}_per_s": one.rate(what) for what in one.readings}, **to_builtins(one)}
        for one in found.rebuilt
    ]
    return {"figure": figure(found), "at_once": turns, "appends": to_builtins(found.appends), "rebuilt": rebuilt}


def _summary(turns: Turns, side: str) -> dict[str, Any]:
    rounds = turns.of(side)
    return {
        "runs_per_s": turns.rate(side),
        "rounds_runs_per_s": [one.rate for one in rounds],
        "p50_ms": turns.p50_ms(side),
        "p99_ms": turns.p99_ms(side),
        "publishing_ms": turns.published_ms(side),
        "cpu_ms": turns.cpu_ms(side),
        **{what: turns.per_run(side, what) for what in ("messages", "bytes", "tasks")},
    }


def figure(found: Found) -> str:
    parts: list[str] = []
    for turns in found.turns:
        if all(turns.of(how) for how in HOW) and turns.at_once == 1:
            parts.append(f"latency {latency_ratio(turns):.1f}x floor")
        elif all(turns.of(how) for how in HOW) and turns.at_once == FULL_LOAD:
            parts.append(f"{FULL_LOAD} goals {throughput_ratio(turns):.2f} of floor")
    if found.rebuilt:
        parts.append(f"rebuild {found.rebuilt[-1].ratio:.2f} of read-and-parse")
    return f"bench: {', '.join(parts) or 'nothing compared'}"
