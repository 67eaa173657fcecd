"""`make check`: format, lint, types and the checks of this folder, all of them even when one fails.

Prints what each finds as `file:line: ...`, and as the last line `check: 0 findings in 57 files`.
"""

import re
import subprocess
import sys
from pathlib import Path

from tests.tidy.source import Tree
from tests.tidy.test_tidy import CHECKS

ROOT = Path(__file__).parents[2]
TOOLS = (
    (("ruff", "format", "--check", "--output-format=concise"), r"^\S+?:\d+:\d+: "),
    (("ruff", "check", "--output-format=concise"), r"^\S+?:\d+:\d+: "),
    (("mypy",), r": error: "),
)
"""Commands, and the lines of their output that are findings."""


def run_tool(command: tuple[str, ...], finding: str) -> int:
    done = subprocess.run([sys.executable, "-m", *command], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    findings = len(re.findall(finding, done.stdout, re.MULTILINE))
    if done.returncode:
        print(done.stdout, end="")
    return max(findings, 1) if done.returncode else 0


def run_checks(tree: Tree) -> int:
    unreadable, *others = CHECKS
    findings = list(unreadable(tree)) or [finding for check in others for finding in check(tree)]
    print("".join(f"{finding}\n" for finding in findings), end="")
    return len(findings)


def main() -> int:
    tree = Tree(ROOT)
    findings = run_checks(tree)
    print(f"tidy: {findings}", flush=True)
    for command, finding in TOOLS:
        found = run_tool(command, finding)
        print(f"{' '.join(command[:2])}: {found}", flush=True)
        findings += found
    print(f"check: {findings} findings in {len(tree.python)} files")
    return 1 if findings else 0


if __name__ == "__main__":
    sys.exit(main())
