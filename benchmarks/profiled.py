"""A command of `blackboard` under a profile of the processor time that it uses: `python -m benchmarks.profiled FILE
VERB ...`. The profile is written when the command ends.

Wall-clock time would charge a function for what other processes did while it waited for a processor.
"""

import cProfile
import pstats
import sys
import time
from io import StringIO
from pathlib import Path

from blackboard.cli import main

ROOT = Path(__file__).parents[1]


def hot_spots(profile: Path, rows: int = 25) -> str:
    """Where the time went: functions by their own time, then ours by all that they cause."""
    out = StringIO()
    stats = pstats.Stats(str(profile), stream=out)
    shorten = [(str(ROOT) + "/", ""), (sys.prefix, "")]
    stats.sort_stats("tottime").print_stats(rows)
    stats.sort_stats("cumtime").print_stats(r"(supervisor|blackboard|schemas|projections)/\w+\.py", rows)
    text = out.getvalue()
    for path, short in shorten:
        text = text.replace(path, short)
    return "\n".join(line for line in text.splitlines() if line.strip())


if __name__ == "__main__":
    profile = cProfile.Profile(time.process_time)
    destination = sys.argv.pop(1)
    try:
        profile.runcall(main)
    finally:
        profile.dump_stats(destination)
