"""What `blackboard status` says of supervisors that come, stand by, are paused and go."""

import os
import signal
from pathlib import Path

import pytest

from blackboard.board import Board
from blackboard.client import Client
from projections.cli_status import _unfinished
from schemas.access import Role, permissions
from schemas.announcements import Announcement
from schemas.subjects import Subjects
from tests.end_to_end import teams
from tests.end_to_end.support import Finished, Start, call, offered, run_until


async def status(there: list[str]) -> Finished:
    return await call("status", "--json", *there)


def pids(told: Finished, role: str) -> list[int]:
    return [one["pid"] for one in told.json["supervisors"] if one["role"] == role]


async def test_active_standby_and_nobody(shared: Board, there: list[str], start: Start, tmp_path: Path) -> None:
    nobody = await status(there)
    assert nobody.code == 1
    assert (nobody.json["active"], nobody.json["supervisors"], nobody.json["unfinished"]) == ([], [], 0)
    assert nobody.json["undecided"] == {"messages": 0, "seconds": 0}

    first = start("supervise", *there)
    await first.says("took over")
    second = start("supervise", *there)
    await second.says("stands by")
    told = await status(there)
    assert told.code == 0
    assert (pids(told, "active"), pids(told, "standby")) == ([first.pid], [second.pid])
    (active,) = told.json["active"]
    assert active.startswith(f"{first.pid}-")
    for one in told.json["supervisors"]:
        assert one["lag"] == {"messages": 0, "seconds": 0}
        assert (one["left"], one["left_count"]) == ([], 0)

    assert await second.stop() == 0
    os.kill(first.pid, signal.SIGSTOP)
    gone = await status(there)
    os.kill(first.pid, signal.SIGCONT)
    assert (gone.code, gone.json["supervisors"]) == (1, [])
    words = await call("status", *there)
    assert words.code == 0, words
    assert f"{first.pid}-" in words.out


async def test_what_waits_and_how_far_behind(shared: Board, there: list[str], start: Start, tmp_path: Path) -> None:
    first, second = start("supervise", *there), start("supervise", *there)
    worker = start("attach", teams.write(tmp_path, "squares", teams.SQUARES), *there)
    await offered(shared, "squares", "squarer", "adder")
    assert await worker.stop() == 0
    client = Client(shared, "publisher")
    await client.publish("squares", {"numbers": [1, 2, 3], "pause_s": 0.1}, "r1")
    await run_until(shared, "r1", lambda state: len(state.tasks) == 3)
    told = await status(there)
    assert told.json["unfinished"] == 1
    assert told.json["queue"] == {"state": "there", "tasks": 3, "specialists": {"adder": 0, "squarer": 3}}
    assert [one["lag"]["messages"] for one in told.json["supervisors"]] == [0, 0]

    assert told.json["undecided"]["messages"] == 0

    for program in (first, second):
        program.kill()
    assert (await status(there)).json["undecided"] == {"messages": 0, "seconds": 0}, "all above the floor is cited"
    await client.publish("squares", {"numbers": [1], "pause_s": 0.1}, "r2")
    await client.publish("squares", {"numbers": [1], "pause_s": 0.1}, "r3")
    alone = await status(there)
    assert (alone.code, alone.json["unfinished"]) == (1, 3), "one goes on, two wait to be begun"
    assert alone.json["undecided"]["messages"] == 2
    assert 0 < alone.json["undecided"]["seconds"] < 60
    words = await call("status", *there)
    assert words.code == 1
    assert words.out.startswith(
        "3 unfinished runs, 3 tasks in the queue (squarer 3)\n2 messages that nobody has decided, "
    )
    assert words.err == "no supervisor is active: `blackboard supervise` runs one\n"


async def test_a_run_that_is_left_alone_is_not_finished(shared: Board) -> None:
    said = Announcement("a", "log", "active", rules=3, term=1, beat=1, unfinished=2, left=("r1",), left_count=1)
    assert await _unfinished(shared, [said]) == 3


@pytest.mark.parametrize("role", [Role.AUDITOR, Role.CONSOLE, Role.PUBLISHER, Role.APPROVER, Role.NOTARY])
def test_who_reads_may_hear_it_and_say_nothing_there(role: Role, subjects: Subjects) -> None:
    allowed = permissions([role], ["ann"], subjects.board, "_INBOX_ann")
    assert subjects.lead in allowed.subscribe
    assert subjects.lead not in allowed.publish
