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
    total, of_case, left = Sums(), Sums(), len(seeds)
    with multiprocessing.get_context("spawn").Pool(options.jobs) as pool:
        for number, sums in pool.imap(job, jobs):
            of_case.join(sums)
            left -= 1
            if not left:
                ends = ", ".join(f"{count} {end}" for end, count in sorted(of_case.ends.items()))
                print(f"{CASES[number].name}: {of_case.crashes} crashes, {of_case.runs} runs: {ends}", flush=True)
                total.join(of_case)
                of_case, left = Sums(), len(seeds)
    for problem in total.broken[:SHOWN]:
        print(problem)
    print(total.line)
    return 1 if total.broken else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
