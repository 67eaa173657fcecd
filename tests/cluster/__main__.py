"""`make cluster`: the leader of the log killed while runs go on, on three servers under TLS; the last line is the
figure. Exit code 1 unless all is well."""

import argparse
import sys
import tempfile
from pathlib import Path

from tests.cluster.lost_leader import measure


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.cluster", description=(__doc__ or "").strip())
    parser.add_argument("--kills", type=int, default=5, help="of the leader [default: 5]")
    parser.add_argument("--runs", type=int, default=200, help="that go on meanwhile [default: 200]")
    parser.add_argument("--dir", type=Path, help="where data and outputs are kept [default: a temporary folder]")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="cluster-") as temporary:
        found = measure(options.kills, options.runs, options.dir or Path(temporary))
    print(found.figure)
    return 1 if list(found.wrong) else 0


if __name__ == "__main__":
    sys.exit(main())
