"""Planted faults: each is still where the table says, some of those that show at once are caught, and the proof itself
takes neither harmless changes nor code that does not run for faults that were caught.

`make mutation` plants all of them.
"""

import ast
import subprocess
import sys
import time

import pytest

from tests.mutation.faults import FAULTS, Fault
from tests.mutation.planting import ROOT, NotOnce, copied, planted, simulated
from tests.plugins.figures import Figures

AT_ONCE = ("wall-clock-in-decide", "no-expected-sequence", "effects-before-facts", "approval-digest-not-compared")
SEEDS = 50
COMMENT = Fault(
    "another-comment",
    "supervisor/decide.py",
    "Pure: no clock, random, I/O, model, set or hash order;",
    "Pure: no clock, chance, I/O, model, set or hash order;",
    "nothing",
)
NAMED = {fault.name: fault for fault in FAULTS}


def test_there_are_thirty_of_them() -> None:
    assert len(NAMED) == len(FAULTS) == 30


@pytest.mark.parametrize("fault", FAULTS, ids=lambda fault: fault.name)
def test_fault_can_be_planted(fault: Fault) -> None:
    """And is a mistake about what happens, not one that ends with an error as soon as it runs."""
    text = (ROOT / fault.path).read_text(encoding="utf-8")
    changed = planted(fault, text)
    assert ast.dump(ast.parse(changed)) != ast.dump(ast.parse(text))
    lint = [sys.executable, "-m", "ruff", "check", "--isolated", "--select", "F821,F823", "-"]
    done = subprocess.run(lint, input=changed, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout


@pytest.mark.timeout(300)
@pytest.mark.parametrize("name", AT_ONCE)
def test_fault_that_shows_at_once_is_caught(name: str, figures: Figures) -> None:
    began = time.monotonic()
    found = simulated(NAMED[name], NAMED[name].family, SEEDS)
    assert found.verdict == "caught", found
    assert found.invariant
    figures.say(f"planted: {name}, caught by seed {found.seed} in {time.monotonic() - began:.1f} s: {found.invariant}")


@pytest.mark.timeout(300)
def test_change_that_is_no_fault_is_not_caught() -> None:
    found = simulated(COMMENT, "", 5)
    assert (found.verdict, found.seeds) == ("not caught", 5), found


@pytest.mark.timeout(300)
@pytest.mark.parametrize(
    ("path", "old", "new", "says"),
    [
        ("supervisor/service.py", "import logging\n", "import logging, nonesuch\n", "ModuleNotFoundError"),
        ("supervisor/service.py", "import logging\n", "import\n", "SyntaxError"),
        ("supervisor/replay.py", "def redecide(", "def decided_again(", "AttributeError"),
        ("blackboard/simulation/elsewhere.py", "    while True:\n", "    while not sys.exit(3):\n", "is gone"),
    ],
    ids=["imports what is not there", "is no Python", "lacks a part", "breaks off"],
)
def test_code_that_does_not_run_is_not_called_caught(path: str, old: str, new: str, says: str) -> None:
    found = simulated(Fault("broken", path, old, new, "it does not run"), "", 5)
    assert found.verdict == "does not run"
    assert says in found.problem


def test_text_that_is_not_there_once_is_told() -> None:
    for old in ("no such text", "import"):
        fault = Fault("moved", "supervisor/decide.py", old, "", "nothing")
        with pytest.raises(NotOnce, match="not once"), copied(fault):
            pass
        assert simulated(fault, "", 1).verdict == "does not run"
