"""`make effects`: every case of `crashing`, a crash at every await of the effect path, over 50 seeds. The last line is
the figure; each run that went wrong stands above it, and the exit code is 1."""

import argparse
import multiprocessing
import os
import sys

from tests.effects.crashing import CASES, Sums, job

SHOWN = 20


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=50, help="how many worlds of each case")
    parser.add_argument("--seed", type=int, help="this one alone")
    parser.add_argument("--jobs", type=int, default=min(2, os.cpu_count() or 1), help="processes")
    options = parser.parse_args(arguments)
    seeds = [options.seed] if options.seed is not None else range(1, options.seeds + 1)
    jobs = [(number, seed) for number in range(len(CASES)) for seed in seeds]
    found = [Sums() for _ in CASES]
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for number, sums in pool.imap_unordered(job, jobs):
            found[number].join(sums)
    for case, sums in zip(CASES, found, strict=True):
        ends = ", ".join(f"{count} {end}" for end, count in sorted(sums.ends.items()))
        print(f"{case.name}: {sums.crashes} crashes, {sums.runs} runs: {ends}")
    total = Sums()
    for sums in found:
        total.join(sums)
    for problem in total.broken[:SHOWN]:
        print(problem)
    print(total.line)
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
