"""`make tamper`: every attack of the corpus on a recorded board, and boards that nobody touched; the last line is the
figure.

Exit code 1 unless each attack is named, at each message that it touched and no other, the first one as the event that
it is, and nothing is said of a board that nobody touched.
"""

import argparse
import asyncio
import logging
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path

from tests.tamper import live
from tests.tamper.attacks import on_disk
from tests.tamper.clean import verdict_on_world
from tests.tamper.judge import tried, tried_live, unnamed, unnamed_live
from tests.tamper.recorded import Recorded, record

DESCRIPTION = (__doc__ or "").strip()


async def attacked(recorded: Recorded, folder: Path, every: int) -> tuple[Counter[str], Counter[str]]:
    """How many attacks were tried of each kind, and how many of them were named."""
    tries, named = Counter[str](), Counter[str]()
    for attack in list(on_disk(recorded))[::every]:
        problem = unnamed(recorded, attack, await tried(recorded, attack, folder / "copy"))
        tries[attack.kind] += 1
        named[attack.kind] += not problem
        if problem:
            print(f"{attack.name}: {problem}", flush=True)
    for one in live.attacks(recorded):
        problem = unnamed_live(one, await tried_live(recorded, one, folder / "copy"))
        tries[one.kind] += 1
        named[one.kind] += not problem
        if problem:
            print(f"{one.kind}: {problem}", flush=True)
    return tries, named


def false_alarms(clean: int) -> tuple[int, int]:
    """How many of so many clean boards something is said of, and how many messages they have."""
    alarms = messages = 0
    for seed in range(clean):
        verdict = verdict_on_world(seed)
        messages += verdict.messages
        if not verdict.good:
            alarms += 1
            print(f"seed {seed}: {verdict.findings[0]}", flush=True)
    return alarms, messages


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.tamper", description=DESCRIPTION)
    parser.add_argument("--clean", type=int, default=1000, help="boards that nobody touched [default: 1000]")
    parser.add_argument("--every", type=int, default=1, help="try every nth attack only [default: 1]")
    options = parser.parse_args()
    logging.disable(logging.CRITICAL)  # of simulated processes that wait for simulated servers
    began = time.perf_counter()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        recorded = asyncio.run(record(folder / "recorded"))
        tries, named = asyncio.run(attacked(recorded, folder, options.every))
    for kind, count in tries.items():
        print(f"{kind}: {count}, named: {named[kind]}")
    alarms, messages = false_alarms(options.clean)
    print(f"{options.clean} clean boards, {messages} messages; {time.perf_counter() - began:.0f} s")
    print(f"attacks: {tries.total()}, named: {named.total()}, false alarms: {alarms}")
    return 0 if tries == named and not alarms else 1


if __name__ == "__main__":
    sys.exit(main())
