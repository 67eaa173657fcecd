"""The closing line of a test run, over small suites in folders of their own."""

import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]

PASSES = "def test_passes(): pass\n"
FAILS = "def test_fails(): assert False\n"
SKIPS = "import pytest\ndef test_skips(): pytest.skip('no server')\n"
NEEDS_KEY = "import pytest\n@pytest.mark.needs_key('SOME_KEY')\ndef test_needs_key(): {}\n"
BREAKS_TWICE = """
import pytest
@pytest.fixture
def thing():
    yield
    raise OSError
def test_breaks_twice(thing): assert False
"""
EXPECTED_FAILURE = "import pytest\n@pytest.mark.xfail\ndef test_expected_failure(): assert False\n"
MODULE_SKIPS = "import pytest\npytest.importorskip('no_such_module')\n"


SAYS = "def test_says(figures): figures.say('runs: 50')\n"


SPREAD = ("-p", "xdist.plugin", "-n", "2")


def run(folder: Path, *suite: str, lines: int = 1, more: Sequence[str] = (), **environment: str) -> tuple[int, str]:
    """Exit code and last lines."""
    for number, text in enumerate(suite):
        (folder / f"test_{number}.py").write_text(text)
    (folder / "pytest.ini").write_text("[pytest]\naddopts = -p tests.plugins.figures\nmarkers = needs_key(variable)\n")
    inherited = {name: value for name, value in os.environ.items() if name != "SOME_KEY"}
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *more],
        cwd=folder,
        env=inherited | environment | {"PYTHONPATH": str(ROOT), "PYTEST_DISABLE_PLUGIN_AUTOLOAD": "1"},
        capture_output=True,
        text=True,
    )
    return done.returncode, "\n".join(done.stdout.splitlines()[-lines:])


@pytest.mark.parametrize("more", [(), SPREAD], ids=["one process", "two"])
@pytest.mark.parametrize(
    ("suite", "code", "line"),
    [
        ([PASSES, EXPECTED_FAILURE], 0, "passed: 2, failed: 0, skipped: 0"),
        ([PASSES, FAILS, BREAKS_TWICE], 1, "passed: 1, failed: 2, skipped: 0"),
        ([PASSES, SKIPS], 1, "passed: 1, failed: 0, skipped: 1"),
        ([PASSES, MODULE_SKIPS], 1, "passed: 1, failed: 0, skipped: 1"),
        ([PASSES, NEEDS_KEY.format("assert False")], 0, "passed: 1, failed: 0, skipped: 0, without a key: 1"),
    ],
    ids=["passed", "failed", "skipped", "module skipped", "without a key"],
)
def test_line_and_exit_code(suite: list[str], code: int, line: str, more: Sequence[str], tmp_path: Path) -> None:
    assert run(tmp_path, *suite, more=more) == (code, line)


def test_file_that_cannot_be_collected_fails_the_run(tmp_path: Path) -> None:
    assert run(tmp_path, PASSES, "def") == (2, "passed: 0, failed: 1, skipped: 0")
    # Here one process may have run what it collected before the other found the file.
    code, line = run(tmp_path, more=SPREAD)
    assert (code, "failed: 1, " in line) == (1, True), line


@pytest.mark.parametrize(
    ("body", "code", "line"),
    [
        ("pass", 0, "passed: 1, failed: 0, skipped: 0"),
        ("pytest.skip('no server')", 1, "passed: 0, failed: 0, skipped: 1"),
    ],
)
def test_key_lets_the_test_run(body: str, code: int, line: str, tmp_path: Path) -> None:
    assert run(tmp_path, NEEDS_KEY.format(body), SOME_KEY="set") == (code, line)


@pytest.mark.parametrize("more", [(), SPREAD], ids=["one process", "two"])
def test_figure_of_a_test_stands_before_the_closing_line(more: Sequence[str], tmp_path: Path) -> None:
    assert run(tmp_path, SAYS, PASSES, lines=2, more=more) == (0, "runs: 50\npassed: 2, failed: 0, skipped: 0")
