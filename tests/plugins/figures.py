"""The closing line of a test run: `passed: 12, failed: 0, skipped: 0`. A skipped test fails the run.

What a test needs and does not find (a server, a free port) is an error, for a suite that skips proves nothing. The one
thing that may be absent is a key to a paid service: `@pytest.mark.needs_key("OPENAI_API_KEY")` leaves the test out when
the variable is unset or empty, and such tests are counted apart, in the open: `..., without a key: 2`.

A test that counts something has the fixture `figures`: `figures.say("runs: 50")` prints a line before the closing one.

Where pytest-xdist spreads the tests over processes, each tells the one that prints what its tests said and lacked.
"""

import os
from collections.abc import Iterator
from typing import Any

import pytest

PASSED, FAILED, SKIPPED, WITHOUT_KEY = "passed", "failed", "skipped", "without a key"
WEIGHT = {PASSED: 0, WITHOUT_KEY: 1, SKIPPED: 2, FAILED: 3}
"""A test has several phases; its outcome is the weightiest one."""


class Figures:
    """Counts each test once. What cannot be collected counts as one test that failed or was skipped."""

    def __init__(self) -> None:
        self.outcomes: dict[str, str] = {}
        self.said: list[str] = []

    def say(self, line: str) -> None:
        """Print `line` at the end."""
        self.said.append(line)

    def record(self, nodeid: str, outcome: str) -> None:
        known = self.outcomes.get(nodeid, outcome)
        self.outcomes[nodeid] = max(known, outcome, key=WEIGHT.__getitem__)

    def count(self, outcome: str) -> int:
        return list(self.outcomes.values()).count(outcome)

    def line(self) -> str:
        shown = [f"{outcome}: {self.count(outcome)}" for outcome in (PASSED, FAILED, SKIPPED)]
        if self.count(WITHOUT_KEY):
            shown.append(f"{WITHOUT_KEY}: {self.count(WITHOUT_KEY)}")
        return ", ".join(shown)

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self, item: pytest.Item) -> None:
        for marker in item.iter_markers("needs_key"):
            (variable,) = marker.args
            if not os.environ.get(variable):
                item.user_properties.append((WITHOUT_KEY, variable))
                pytest.skip(f"{variable} is not set")

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        expected_failure = hasattr(report, "wasxfail")
        if report.failed:
            self.record(report.nodeid, FAILED)
        elif report.skipped and not expected_failure:
            self.record(report.nodeid, WITHOUT_KEY if WITHOUT_KEY in dict(report.user_properties) else SKIPPED)
        elif report.when == "call" or expected_failure:
            self.record(report.nodeid, PASSED)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        if report.failed or report.skipped:
            self.record(report.nodeid, FAILED if report.failed else SKIPPED)

    @pytest.hookimpl(optionalhook=True)
    def pytest_testnodedown(self, node: Any) -> None:
        """A process of pytest-xdist has ended; one that was killed tells nothing."""
        self.said += getattr(node, "workeroutput", {}).get("said", [])

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionfinish(self, session: pytest.Session) -> None:
        if hasattr(session.config, "workeroutput"):
            session.config.workeroutput["said"] = self.said
        if self.count(SKIPPED) and session.exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    @pytest.hookimpl(wrapper=True)
    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> Iterator[None]:
        yield
        skipped = [nodeid for nodeid, outcome in self.outcomes.items() if outcome == SKIPPED]
        if skipped:
            terminalreporter.section("skipped, which fails the run", red=True)
            for nodeid in skipped:
                terminalreporter.line(f"{nodeid}: make what it needs an error, or mark it needs_key")


@pytest.fixture(scope="session")
def figures(pytestconfig: pytest.Config) -> Figures:
    counting: Figures = pytestconfig.pluginmanager.get_plugin("figures-count")
    return counting


def pytest_configure(config: pytest.Config) -> None:
    config.pluginmanager.register(Figures(), "figures-count")


@pytest.hookimpl(trylast=True)
def pytest_unconfigure(config: pytest.Config) -> None:
    """After pytest's own closing line."""
    counting = config.pluginmanager.get_plugin("figures-count")
    if counting and not config.option.collectonly and not hasattr(config, "workerinput"):
        print(*counting.said, counting.line(), sep="\n")
