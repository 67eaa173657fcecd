"""Planting a fault: a copy of the packages with it in, simulated in processes of their own.

Caught means that the simulator ran, and said by which seed which invariant is broken. A copy that does not start, or
that breaks off, proves nothing and is told apart.
"""

import os
import re
import shutil
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Literal

from tests.mutation.faults import Fault
from tests.tidy.source import PACKAGES

ROOT = Path(__file__).parents[2]
LIMIT_S = 7_200.0
"""For all seeds of one fault; one that makes the simulator stand still is not caught."""
_SAID = re.compile(r"^seed (\d+): (?P<invariant>[^:\n]+): (?P<problem>.*)$", re.MULTILINE)
_FIGURE = re.compile(r"^simulated: (\d+) seeds, \d+ ended \(.*\), (\d+) hung, (\d+) broken$", re.MULTILINE)

SIMULATE = """
import importlib, runpy, sys
from pathlib import Path

folder, modules = Path(sys.argv[1]), sys.argv[2].split(",")
for path in [Path(importlib.import_module(name).__file__) for name in modules]:
    if folder not in path.parents:
        sys.exit(f"{path} is not in the copy")
sys.argv[1:3] = []
runpy.run_module("blackboard.testing", run_name="__main__", alter_sys=True)
"""
"""Simulates, once it is certain that it is the copy that runs."""

Verdict = Literal["caught", "not caught", "does not run"]


class NotOnce(LookupError):
    """The text that a fault replaces does not stand in its file, or not once."""


@dataclass(frozen=True)
class Outcome:
    """What came of one fault. `seed` is the first that broke `invariant`; `seeds` were simulated in `seconds`. Where
    it does not run, `problem` is what was said last."""

    name: str
    verdict: Verdict
    seeds: int
    seconds: float
    seed: int | None = None
    invariant: str = ""
    problem: str = ""


def planted(fault: Fault, text: str) -> str:
    """The text of the file with the fault in it. Raises NotOnce."""
    if (count := text.count(fault.old)) != 1:
        raise NotOnce(f"{fault.path} has {count} times, not once: {fault.old!r}")
    return text.replace(fault.old, fault.new)


@contextmanager
def copied(fault: Fault | None, root: Path = ROOT) -> Iterator[Path]:
    """A folder with the packages of `root`, and the fault in them. Raises NotOnce."""
    with TemporaryDirectory(prefix="mutation-") as name:
        folder = Path(name)
        for package in PACKAGES:
            shutil.copytree(root / package, folder / package, ignore=shutil.ignore_patterns("__pycache__"))
        if fault:
            path = folder / fault.path
            path.write_text(planted(fault, path.read_text(encoding="utf-8")), encoding="utf-8")
        yield folder


def simulated(fault: Fault | None, family: str, seeds: int, root: Path = ROOT) -> Outcome:
    """What the simulator says of the first `seeds` worlds of `family` (empty: of all) with the fault in the code of
    `root`, up to the first that breaks; without a fault, of the code as it is."""
    name, began = fault.name if fault else f"no fault, {family or 'all families'}", time.monotonic()
    modules = [*PACKAGES, *([fault.path.removesuffix(".py").replace("/", ".")] if fault else [])]
    options = ["--seeds", str(seeds), *(["--family", family] if family else [])]
    options += ["--jobs", "1", "--stop-at-first", "--no-shrink"]
    try:
        with copied(fault, root) as folder:
            environment = os.environ | {"PYTHONPATH": str(folder), "PYTHONDONTWRITEBYTECODE": "1"}
            command = [sys.executable, "-c", SIMULATE, str(folder), ",".join(modules), *options]
            done = subprocess.run(command, cwd=folder, env=environment, capture_output=True, text=True, timeout=LIMIT_S)
    except (NotOnce, subprocess.TimeoutExpired) as error:
        return Outcome(name, "does not run", 0, time.monotonic() - began, problem=str(error))
    return _read(name, done, time.monotonic() - began)


def _read(name: str, done: subprocess.CompletedProcess[str], seconds: float) -> Outcome:
    said, figure = _SAID.search(done.stdout), _FIGURE.search(done.stdout)
    if not figure:
        return Outcome(name, "does not run", 0, seconds, problem=_last(done.stderr) or f"exit code {done.returncode}")
    seeds, broken = int(figure[1]), int(figure[2]) + int(figure[3])
    if done.returncode == 1 and broken and said:
        return Outcome(name, "caught", seeds, seconds, int(said[1]), said["invariant"], said["problem"])
    if done.returncode == 0 and not broken:
        return Outcome(name, "not caught", seeds, seconds)
    return Outcome(name, "does not run", seeds, seconds, problem=f"exit code {done.returncode}, and {figure[0]}")


def _last(text: str) -> str:
    return next((line for line in reversed(text.splitlines()) if line.strip()), "")
