"""The plugin of pytest: `simulate`, `--seeds`, `--seed`."""

import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = """
from dataclasses import replace
from blackboard.testing import OneOf
from tests.simulator.team import READER, calm

def test_well(simulate):
    reports = list(simulate(calm(seed=3), seeds=2))
    print("seeds", [report.seed for report in reports])
    for report in reports:
        report.run().ended_as("DONE")

def test_ill(simulate):
    for report in simulate(calm(replace(READER, answers=OneOf([1, 2])))):
        assert report.run().result["total"] < 7
"""


def run(folder: Path, *arguments: str) -> subprocess.CompletedProcess[str]:
    (folder / "test_team.py").write_text(TESTS)
    (folder / "pytest.ini").write_text(f"[pytest]\npythonpath = {ROOT}\n")
    command = [sys.executable, "-m", "pytest", "-q", "-rP", "-p", "no:cacheprovider", *arguments]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=100)


def test_seeds_are_those_of_the_test_or_of_the_command(tmp_path: Path) -> None:
    assert "seeds [3, 4]" in run(tmp_path, "-k", "well").stdout
    assert "seeds [3, 4, 5, 6]" in run(tmp_path, "-k", "well", "--seeds", "4").stdout
    assert "seeds [8]" in run(tmp_path, "-k", "well", "--seed", "8").stdout
    assert "seeds [8, 9]" in run(tmp_path, "-k", "well", "--seed", "8", "--seeds", "2").stdout


def test_seed_that_fails_is_told_with_how_to_have_it_again(tmp_path: Path) -> None:
    failed = run(tmp_path, "-k", "ill", "--seeds", "50")
    assert failed.returncode == 1
    (again,) = [line for line in failed.stdout.splitlines() if "again: pytest" in line]
    seed = again.split("--seed ")[1]
    assert run(tmp_path, "-k", "ill", "--seed", seed).returncode == 1
    assert int(seed) > 0, "the one before went well"
    assert run(tmp_path, "-k", "ill", "--seed", str(int(seed) - 1)).returncode == 0


@pytest.mark.parametrize("twice", [("-p", "blackboard.pytest_plugin"), ("-p", "blackboard.pytest_plugin", "-s")])
def test_it_may_be_named_too(tmp_path: Path, twice: tuple[str, ...]) -> None:
    named = run(tmp_path, "-k", "well", *twice)
    assert named.returncode == 0, named.stderr


def test_it_is_an_entry_point_and_imports_nothing_until_it_is_used() -> None:
    script = (
        "import sys, importlib.metadata as m\n"
        "(found,) = [e for e in m.entry_points(group='pytest11') if e.value == 'blackboard.pytest_plugin']\n"
        "plugin = found.load()\n"
        "assert found.name == plugin.__name__\n"
        "ours = ('blackboard', 'supervisor', 'msgspec', 'pydantic')\n"
        "print(sorted(n for n in sys.modules if n.split('.')[0] in ours))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "['blackboard', 'blackboard.pytest_plugin']", done.stderr
