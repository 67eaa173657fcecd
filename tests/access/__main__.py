"""`make permissions`: the whole matrix on a live server, and the faults in the table that it must see."""

import argparse
import asyncio
import sys
import tempfile
from pathlib import Path

from schemas.access import Role
from tests.access.matrix import bench
from tests.access.mutants import survivors_of_imports, survivors_of_rules


async def main(with_mutants: bool) -> bool:
    """Whether all is as the table says."""
    with tempfile.TemporaryDirectory() as folder:
        async with bench(Path(folder)) as live:
            cells, wrong = 0, []
            for role in Role:
                number, found = await live.wrong(role)
                cells, wrong = cells + number, wrong + found
                print(f"{role:<12} {number} cells, {len(found)} wrong", flush=True)
            for one in wrong:
                print(f"WRONG {one.cell}\n  predicted {one.predicted}\n  observed  {one.observed}")
            survived: list[str] = []
            if with_mutants:
                rules, unseen = await survivors_of_rules(live)
                imports, more = await survivors_of_imports(live)
                survived = unseen + more
                print(f"faults in the table: {rules + imports}, not seen: {len(survived)}", *survived, sep="\n  ")
    print(f"cells: {cells}, wrong: {len(wrong)}")
    return not wrong and not survived


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--no-mutants", action="store_true", help="the matrix alone")
    sys.exit(not asyncio.run(main(not parser.parse_args().no_mutants)))
