"""`make chaos-small`: kills of server, supervisor and worker while a run goes on; the last line is the figure.

A run without kills first; then the same goal again under kills, each after a message of the log that the seed draws. A
kill whose message never came, because the run took fewer, is done in one more run. Exit code 1 unless all is well.
"""

import argparse
import sys
from pathlib import Path

from tests.chaos.chaos import measure

TASKS, TASKS_A_KILL = 150, 20
"""Tasks of a run at least; so many a kill that the processes are up again, mostly, when the next one is due."""
DESCRIPTION = (__doc__ or "").strip()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos", description=DESCRIPTION)
    parser.add_argument("--kills", type=int, default=30, help="how many, shared out over the roles [default: 30]")
    parser.add_argument(
        "--tasks", type=int, default=0, help=f"of a run [default: {TASKS_A_KILL} a kill, at least {TASKS}]"
    )
    parser.add_argument("--seed", type=int, default=1, help="from which kills are drawn [default: 1]")
    parser.add_argument("--dir", type=Path, help="where data and outputs are kept [default: a temporary folder]")
    options = parser.parse_args()
    tasks = options.tasks or max(TASKS, TASKS_A_KILL * options.kills)
    found = measure(options.kills, tasks, options.seed, options.dir)
    print(found.figure)
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main())
