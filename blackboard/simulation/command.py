"""`python -m blackboard.testing`: simulate random task graphs, many seeds or one.

The last line is the figure: `simulated: 10000 seeds, 10000 ended (71.3 % well), 0 hung, 0 broken`. The exit code is 0
where all runs of all seeds ended and nothing was broken, else 1.
"""

import argparse
import gc
import logging
import os
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor
from contextlib import closing, contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import repeat
from multiprocessing import get_context

from blackboard.simulation.elsewhere import Elsewhere
from blackboard.simulation.families import FAMILIES
from blackboard.simulation.invariants import BATCHES
from blackboard.simulation.parts import Chains
from blackboard.testing import REDECIDE, random_simulation

CHUNK = 50
WELL = ("DONE", "DEGRADED")


@dataclass(frozen=True)
class Seed:
    """What came of one seed: the ends of its runs, the digest of its log, or how it failed."""

    seed: int
    ends: tuple[str, ...] = ()
    digest: str = ""
    invariant: str = ""
    message: str = ""


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    if options.seed is not None:
        seeds: Sequence[int] = range(options.seed, options.seed + (options.seeds or 1))
    else:
        seeds = range(options.seeds or 200)
    began = time.perf_counter()
    found: list[Seed] = []
    for one in _simulated(seeds, options.jobs, not options.no_shrink, options.family):
        found.append(one)
        if one.message:
            family = f" --family {options.family}" if options.family else ""
            print(f"{one.message}\nagain: python -m blackboard.testing --seed {one.seed}{family}\n", flush=True)
        elif len(seeds) == 1 or options.digests:
            print(f"seed {one.seed}: {', '.join(one.ends)}; log {one.digest}")
        if one.invariant and options.stop_at_first:
            break
    seconds = time.perf_counter() - began
    print(f"{len(found) / seconds:.0f} seeds/s, {options.jobs} processes, {seconds:.1f} s")
    print(figure(found))
    return 1 if any(one.invariant for one in found) else 0


def figure(found: Sequence[Seed]) -> str:
    ended = [one for one in found if not one.invariant]
    hung = sum(one.invariant == "runs end" for one in found)
    ends = [end for one in ended for end in one.ends]
    well = 100 * sum(end in WELL for end in ends) / len(ends) if ends else 0.0
    broken = len(found) - len(ended) - hung
    return f"simulated: {len(found)} seeds, {len(ended)} ended ({well:.1f} % well), {hung} hung, {broken} broken"


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m blackboard.testing", description=__doc__.partition("\n")[0])
    parser.add_argument("--seeds", type=int, help="how many seeds (default 200, with --seed 1)")
    parser.add_argument("--seed", type=int, help="the first seed, or the only one")
    parser.add_argument("--family", choices=FAMILIES, default="", help="worlds of this family (default: of all)")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes at the same time")
    parser.add_argument("--stop-at-first", action="store_true", help="stop at the first seed that fails")
    parser.add_argument("--no-shrink", action="store_true", help="say what failed as it was")
    parser.add_argument("--digests", action="store_true", help="print the ends and the digest of each seed")
    return parser.parse_args(arguments)


def _simulated(seeds: Sequence[int], jobs: int, shrink: bool, family: str) -> Iterator[Seed]:
    """In order of the seeds, however many processes."""
    chunks = [seeds[start : start + CHUNK] for start in range(0, len(seeds), CHUNK)]
    if jobs <= 1 or len(chunks) == 1:
        with closing(Elsewhere(REDECIDE)) as elsewhere:
            for chunk in chunks:
                with _quiet():
                    yield from (simulate_seed(seed, shrink, family, elsewhere.chains) for seed in chunk)
        return
    with ProcessPoolExecutor(jobs, mp_context=get_context("spawn")) as pool:
        try:
            for done in pool.map(_chunk, chunks, repeat(shrink), repeat(family)):
                yield from done
        finally:
            pool.shutdown(cancel_futures=True)


def _chunk(seeds: Sequence[int], shrink: bool, family: str) -> list[Seed]:
    with _quiet():
        return [simulate_seed(seed, shrink, family, _elsewhere().chains) for seed in seeds]


@cache
def _elsewhere() -> Elsewhere:
    """Beside each process of the pool, until that is gone."""
    return Elsewhere(REDECIDE)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without log lines, and with the collector of cycles at the end alone: what it would look at is gone by then."""
    handler = logging.NullHandler()
    logging.getLogger().addHandler(handler)
    gc.collect()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        logging.getLogger().removeHandler(handler)
        gc.enable()
        gc.unfreeze()


def simulate_seed(seed: int, shrink: bool = True, family: str = "", chains: Chains | None = None) -> Seed:
    """The random world of `seed`, of `family` or of any. `chains` decides its log again (None: in this process)."""
    simulation = random_simulation(seed, family)
    report, found = simulation.attempt(simulation.plan, batches=[BATCHES[seed % len(BATCHES)]], chains=chains)
    if found:
        return Seed(seed, invariant=found.invariant, message=str(simulation.failure(report, found, shrink)))
    ends = tuple(one.end for _, one in sorted(report.runs.items()))
    return Seed(seed, ends, report.digest)
