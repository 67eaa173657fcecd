"""A supervisor process of a newer release takes runs over while the older one goes on."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from blackboard.board import Board
from blackboard.client import Client
from schemas import events as e
from supervisor.decide import KNOWN_RULES, RULES
from tests.end_to_end import teams
from tests.end_to_end.support import (
    ROOT,
    Program,
    Start,
    call,
    call_python,
    ended,
    environment_with,
    events_of,
    history_of,
    offered,
    run_until,
)

RUNS = 10
NEWER = f"""
import sys
from supervisor import decide

decide.RULES, decide.KNOWN_RULES = {RULES + 1}, frozenset({{{RULES}, {RULES + 1}}})
from blackboard.cli import main

main()
"""
"""The command of a release whose rules have the next version."""


class NewerProgram(Program):
    def __init__(self, words: list[str], output: Path) -> None:
        self.words, self.output = words, output
        with output.open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-c", NEWER, *words],
                cwd=ROOT,
                env=environment_with(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )


@pytest.fixture
def start_newer(tmp_path: Path) -> Iterator[Callable[..., Program]]:
    programs: list[Program] = []

    def start_one(*words: str) -> Program:
        programs.append(NewerProgram(list(words), tmp_path / f"newer-{words[0]}.out"))
        return programs[-1]

    try:
        yield start_one
    finally:
        for program in programs:
            program.kill()


@pytest.mark.timeout(120)
async def test_runs_in_flight_go_on_and_say_who_decided(
    shared: Board, there: list[str], start: Start, start_newer: Callable[..., Program], tmp_path: Path
) -> None:
    older, team = start("supervise", *there), teams.write(tmp_path, "squares", teams.SQUARES)
    worker = start("attach", team, *there)
    await offered(shared, "squares", "squarer", "adder")
    await worker.stop()
    client = Client(shared, "publisher")
    runs = [
        await client.publish("squares", {"numbers": list(range(24)), "pause_s": 0.1}, f"run-{n}") for n in range(RUNS)
    ]
    for run in runs:
        await run_until(shared, run, lambda state: state.in_flight)
    newer = start_newer("supervise", *there)
    await newer.says("took over")
    os.kill(older.pid, signal.SIGSTOP)  # so that the newer one certainly gets a word in
    start("attach", team, *there)
    await run_until(shared, runs[0], lambda state: state.rules == RULES + 1)
    os.kill(older.pid, signal.SIGCONT)
    runs.append(await client.publish("squares", {"numbers": [1, 2]}, "later"))
    await older.says("is left alone from input")
    for run in runs:
        state = await ended(shared, run)
        assert state.end == "DONE"

    changed, left = 0, 0
    for run in runs:
        changes = [event for event in await events_of(shared, run) if isinstance(event, e.RulesChanged)]
        assert [event.rules for event in changes] in ([], [RULES + 1])
        changed += len(changes)
        if f"run {run} is left alone from input" in older.said:
            left += 1
            folded, _ = await history_of(shared, run)
            assert folded.state.rules == RULES + 1
            assert f"run {run} is decided by rules {RULES + 1}, this supervisor has {RULES}" in older.said
    print(f"{changed} of {len(runs)} runs changed hands in flight, {left} were left alone by the older supervisor")
    assert changed
    assert left
    assert (older.code, newer.code) == (None, None)

    known = await call_python(f"import sys; sys.argv = ['blackboard', *{['replay', '--all', *there]!r}]\n{NEWER}")
    assert known.code == 0, known
    assert known.out.count(f"rules {RULES}, {RULES + 1}") == changed
    unknown = await call("replay", "--all", *there)
    assert unknown.code == 1
    known_here = ", ".join(map(str, sorted(KNOWN_RULES)))
    assert f"cannot be decided again: rules {RULES + 1} decided it, and this release knows {known_here}" in unknown.out
