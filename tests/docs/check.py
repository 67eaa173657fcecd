"""`make docs`: the tests of this folder, and as the last line `docs: 48 commands of README.md, docs/attach.md, ... run,
9 schemas current`."""

import subprocess
import sys

from tests.docs.schemas import rendered
from tests.docs.walk import DOCUMENTS, ROOT, read_walk


def main() -> int:
    done = subprocess.run([sys.executable, "-m", "pytest", "-q", "tests/docs"], cwd=ROOT)
    if done.returncode:
        print("docs: something is not as the documents say")
        return 1
    commands = sum(len(read_walk(name, (ROOT / name).read_text()).commands) for name in DOCUMENTS)
    print(f"docs: {commands} commands of {', '.join(DOCUMENTS)} run, {len(rendered())} schemas current")
    return 0


if __name__ == "__main__":
    sys.exit(main())
