"""Deciding a recorded log again, elsewhere, gives the same bytes: no clock, random, set or hash order is in it."""

import asyncio
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from blackboard.log import Append, Message
from supervisor.replay import redecide
from tests.supervisor.redeciding import digests, read, write
from tests.supervisor.scenario import cancel, ended, given, goal, offer, started, step, teach
from tests.supervisor.table import Table, board_in_memory
from tests.supervisor.test_service_runs import GOAL, TEAM, staff

ROOT = Path(__file__).parents[2]


async def record(table: Table) -> None:
    """Two supervisors, one of which is killed; a lost queue; strangers, garbage, a cancel, and a withdrawn contract."""
    first = table.supervise(batch=3)
    table.supervise(batch=2)
    staff(table, repeat=2, start=True)
    for run in ("r1", "r2", "r3"):
        await table.client.publish("p", GOAL, run)
        await table.say(ended("more", {"more": 1}, by="eve", run=run), started("x", run=f"none-{run}"))
    await table.log.append(Append("bb.main.obs.eve.r1", b"{"), Append("bb.main.contract.eve", b"{}"))
    await table.say(cancel(run="r3"), goal({"n": 1}, run="r1", by="eve"), goal(team="none", run="r1"))
    await first.kill()
    table.queue.lose()
    await table.ended("r1", "r2", "r3")
    await table.say(offer("v"), goal({"n": ["q"]}, run="r4"), goal({"n": []}, run="r5"), cancel(run="r5"))
    third = table.supervise(batch=1)
    await table.ended("r4", "r5")
    await third.reached(await table.log.head())


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[str, list[str]]]:
    path = tmp_path_factory.mktemp("recorded") / "log.jsonl"

    async def made() -> dict[str, list[str]]:
        async with board_in_memory(*TEAM) as table:
            await record(table)
            stored = await table.check()
            cursor = max(folded.cursor for folded in stored.values())
            write(path, [message for message in await table.messages() if message.seq <= cursor])
            return digests(stored)

    return path, asyncio.run(made())


@pytest.mark.parametrize("batch", [1, 7, 500])
def test_other_process_decides_the_same(recorded: tuple[Path, dict[str, list[str]]], batch: int) -> None:
    path, stored = recorded
    done = subprocess.run(
        [sys.executable, "-m", "tests.supervisor.redeciding", str(path), str(batch)],
        cwd=ROOT,
        env=os.environ | {"PYTHONHASHSEED": "random"},
        capture_output=True,
        text=True,
        timeout=50,
    )
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == stored
    assert len(stored) > 8


def test_input_that_is_left_out_or_comes_in_another_order_is_seen(recorded: tuple[Path, dict[str, list[str]]]) -> None:
    path, stored = recorded
    messages = read(path)
    index = next(i for i, message in enumerate(messages) if message.subject == "bb.main.obs.u.r1")
    assert digests(redecide("log-1", messages[:index] + messages[index + 1 :])) != stored
    assert digests(redecide("log-2", messages))["r1"][0] != stored["r1"][0]


def test_nothing_decides_nothing() -> None:
    assert redecide("log-1", []) == {}


def test_teams_of_another_board_are_no_teams_of_this_one(recorded: tuple[Path, dict[str, list[str]]]) -> None:
    path, _ = recorded
    assert set(redecide("log-1", read(path), board="other")) == {"_board"}


def test_scenario_is_decided_alike_by_hand_and_again() -> None:
    """The support of these tests decides as `redecide` does."""

    said = [offer("w", "work"), teach(step("a")), started("a"), goal(), ended("a", {"a": 1}), goal({"x": 1})]
    messages = [Message(seq, one.subject, 1_000_000, one.data) for seq, one in enumerate(said, 1)]
    by_hand = {run: folded.h for run, folded in given(*said).folded.items()}
    assert {run: folded.h for run, folded in redecide("log-1", messages).items()} == by_hand
