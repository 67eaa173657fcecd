"""`make eval`: the scenarios of every team here that ships some; the last line is the figure."""

import sys
from pathlib import Path

from click.testing import CliRunner

from specialists.cli import eval_
from specialists.loading import TEAMS, load_team

ROOT = Path(__file__).parents[2]
FILES = ("examples/judging_team.py",)


def targets() -> list[str]:
    return [str(ROOT / file) for file in FILES] + [name for name in TEAMS if load_team(name).scenarios]


def main() -> int:
    failed = passed = 0
    for target in targets():
        result = CliRunner().invoke(eval_, [target])
        print(result.output)
        failed, passed = failed + (result.exit_code != 0), passed + (result.exit_code == 0)
    print(f"eval: {passed} of {passed + failed} teams pass")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
