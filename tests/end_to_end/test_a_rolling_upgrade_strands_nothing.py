"""A supervisor process of a newer release takes runs over while the older one goes on."""

import os
import signal
from pathlib import Path

import pytest

from blackboard.board import Board
from blackboard.client import Client
from schemas import events as e
from supervisor.decide import KNOWN_RULES, RULES
from tests.end_to_end import teams
from tests.end_to_end.support import (
    Start,
    call,
    call_python,
    ended,
    events_of,
    offered,
    run_until,
)

RUNS = 10
NEWER = f"""
import sys
from supervisor import decide

decide.RULES, decide.KNOWN_RULES = {RULES + 1}, frozenset({{{RULES}, {RULES + 1}}})
"""
"""The command of a release whose rules have the next version."""


@pytest.mark.timeout(120)
async def test_runs_in_flight_go_on_and_say_who_decided(
    shared: Board, there: list[str], start: Start, start_patched: Start, tmp_path: Path
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
    newer = start_patched(NEWER, "supervise", *there)
    await newer.says("stands by at position")
    os.kill(older.pid, signal.SIGSTOP)
    await newer.says("took over at position")
    worker = start("attach", team, *there)
    await run_until(shared, runs[0], lambda state: state.rules == RULES + 1)
    os.kill(older.pid, signal.SIGCONT)
    await older.says("is standby, was active")
    runs.append(await client.publish("squares", {"numbers": [1, 2]}, "later"))
    for run in runs:
        state = await ended(shared, run)
        assert (state.end, state.rules) == ("DONE", RULES + 1)
    await worker.stop()

    runs.append(await client.publish("squares", {"numbers": [1, 2]}, "begun"))
    await run_until(shared, "begun", lambda state: state.in_flight)
    newer.kill()
    await older.says("took over at position", times=2)
    start("attach", team, *there)
    await older.says("run begun is left alone from input")
    assert f"run begun is decided by rules {RULES + 1}, this supervisor has {RULES}" in older.said
    runs.append(await client.publish("squares", {"numbers": [1, 2]}, "meanwhile"))
    assert (await ended(shared, "meanwhile")).rules == RULES
    newest = start_patched(NEWER, "supervise", *there)
    assert (await ended(shared, "begun")).end == "DONE"
    await older.says("is standby, was active", times=2)

    changed = 0
    for run in runs:
        changes = [event for event in await events_of(shared, run) if isinstance(event, e.RulesChanged)]
        assert [event.rules for event in changes] in ([], [RULES + 1])
        changed += len(changes)
    print(f"{changed} of {len(runs)} runs changed hands in flight")
    assert changed == RUNS
    assert (older.code, newest.code) == (None, None)

    words = ["blackboard", "replay", "--all", *there]
    known = await call_python(f"{NEWER}\nsys.argv = {words!r}\nfrom blackboard.cli import main\nmain()")
    assert known.code == 0, known
    assert known.out.count(f"rules {RULES}, {RULES + 1}") == changed
    unknown = await call("replay", "--all", *there)
    assert unknown.code == 1
    known_here = ", ".join(map(str, sorted(KNOWN_RULES)))
    assert f"cannot be decided again: rules {RULES + 1} decided it, and this release knows {known_here}" in unknown.out
