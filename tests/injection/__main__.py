"""`make injection`: documents that tell the worst possible model what it must not do; the last line is the figure."""

import asyncio
import logging
import sys
import tempfile
from pathlib import Path

from tests.injection.desk import figure, play_all


def main() -> int:
    logging.disable(logging.WARNING)  # of tools that fail, on purpose
    with tempfile.TemporaryDirectory() as folder:
        outcomes = asyncio.run(play_all(Path(folder)))
    for one in outcomes:
        shown = f"{one.case.name} {one.case.way}, {one.case.trick}: {one.case.tool}"
        print(f"{shown:<55} called {one.calls} times, refused {one.refusals} times, {one.end}")
    print(figure(outcomes))
    return 0 if all(one.calls == 0 and one.refusals for one in outcomes) else 1


if __name__ == "__main__":
    sys.exit(main())
