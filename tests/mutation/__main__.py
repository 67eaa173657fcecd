"""`make mutation`: plant each fault of `faults`, simulate worlds until one breaks, and say which faults are caught.

Then the code as it is has to stand the same seeds. The last line is the figure, `caught: 30 of 30`. Exit code 1 where
more than TOLERATED are not caught (of some chosen with --only: any), where the code as it is breaks, or where a copy
does not run.
"""

import argparse
import json
import os
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import asdict
from pathlib import Path

from tests.mutation.faults import FAULTS, Fault
from tests.mutation.planting import Outcome, copied, simulated

SEEDS = 2_000
TOLERATED = 3


def main(arguments: Sequence[str]) -> int:
    options = _options(arguments)
    chosen = [fault for fault in FAULTS if fault.name in (options.only or [fault.name])]
    say = (lambda line: None) if options.json else (lambda line: print(line, flush=True))
    with ThreadPoolExecutor(options.jobs) as pool, copied(None) as tree:  # which others may go on changing meanwhile
        found = _each(pool, [(fault, fault.family, options.seeds, tree) for fault in chosen], say)
        control = _each(pool, _controls(chosen, found, tree), say)
    caught = sum(one.verdict == "caught" for one in found)
    sound = all(one.verdict == "not caught" for one in control)
    if options.json:
        report = {"caught": caught, "of": len(chosen), "sound": sound, "faults": found, "control": control}
        print(json.dumps(report, default=asdict, indent=1))
    else:
        print(f"caught: {caught} of {len(chosen)}")
    tolerated = 0 if options.only else TOLERATED
    runs = all(one.verdict != "does not run" for one in found)
    return 0 if sound and runs and len(chosen) - caught <= tolerated else 1


def _options(arguments: Sequence[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m tests.mutation", description=(__doc__ or "").partition("\n")[0])
    names = [fault.name for fault in FAULTS]
    parser.add_argument("--seeds", type=int, default=SEEDS, help=f"of each fault at most [default: {SEEDS}]")
    parser.add_argument("--only", action="append", choices=names, metavar="NAME", help="this fault; again for more")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="faults at the same time")
    parser.add_argument("--json", action="store_true", help="JSON on stdout, and nothing else there")
    return parser.parse_args(arguments)


Run = tuple[Fault | None, str, int, Path]
"""The arguments of `simulated`."""


def _each(pool: ThreadPoolExecutor, runs: Sequence[Run], say: Callable[[str], None]) -> list[Outcome]:
    """Say each outcome in its turn."""
    found = []
    for outcome in pool.map(lambda run: simulated(*run), runs):
        say(shown(outcome))
        found.append(outcome)
    return found


def _controls(chosen: Sequence[Fault], found: Sequence[Outcome], tree: Path) -> list[Run]:
    """Of each family the seeds that were simulated with a fault."""
    needed: dict[str, int] = {}
    for fault, outcome in zip(chosen, found, strict=True):
        needed[fault.family] = max(needed.get(fault.family, 0), outcome.seeds)
    return [(None, family, seeds, tree) for family, seeds in sorted(needed.items()) if seeds]


def shown(one: Outcome) -> str:
    where = f"seed {one.seed}" if one.seed is not None else f"{one.seeds} seeds"
    why = f"{one.invariant}: {one.problem}" if one.invariant else one.problem
    return f"{one.verdict:<12}  {one.name:<34}  {where:>10}  {one.seconds:6.1f} s  {why[:160]}".rstrip()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
