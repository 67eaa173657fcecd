"""Whatever is killed in the middle of a run: it ends as if nothing had happened."""

import os
import signal
from pathlib import Path

import pytest

from blackboard.board import Board
from blackboard.client import Client
from blackboard.server_files import lock, read_state
from projections.canonical import State
from projections.history import Folded, outcome_digest
from schemas import events as e
from tests.end_to_end import teams
from tests.end_to_end.support import Start, children_of, events_of, history_of, is_alive, offered, run_until, until
from tests.end_to_end.up import board_of, process, server_of

NUMBERS = list(range(72))
INPUT = {"numbers": NUMBERS, "pause_s": 0.25}
MARKS = {"server": "server.conf", "supervisor": " supervise ", "worker": " attach "}
WITHIN_S = 40


def half_done(state: State) -> bool:
    return 20 <= state.steps["square"].ended < len(NUMBERS) if state.steps else False


async def done(board: Board, run: str) -> Folded:
    folded = await run_until(board, run, lambda state: state.end, WITHIN_S)
    assert folded.state.end == "DONE", folded.state.reason
    return folded


async def require_one_history(board: Board, run: str) -> None:
    """Each attempt has one end, each task one value, each key one fact."""
    events = await events_of(board, run)
    ends = [event.task for event in events if isinstance(event, e.TaskEnded)]
    facts = [event.key for event in events if isinstance(event, e.FactCommitted | e.FactMissing)]
    assert sorted(ends) == sorted({*ends})
    assert sorted(facts) == sorted({*facts})
    assert len(ends) == len(facts) == len(NUMBERS) + 1


@pytest.mark.parametrize("role", list(MARKS))
async def test_up_starts_it_again_and_the_run_ends_alike(role: str, start: Start, tmp_path: Path) -> None:
    up = start("up", teams.write(tmp_path, "squares", teams.SQUARES), cwd=tmp_path)
    url = await server_of(up)
    async with board_of(up) as board:
        await offered(board, "squares", "squarer", "adder")
        client = Client(board, "publisher")
        await client.publish("squares", INPUT | {"pause_s": 0}, "undisturbed")
        undisturbed = outcome_digest((await done(board, "undisturbed")).state)

        await client.publish("squares", INPUT, "disturbed")
        await run_until(board, "disturbed", half_done)
        killed = process(up, MARKS[role])
        others = {other: process(up, mark) for other, mark in MARKS.items() if other != role}
        os.kill(killed, signal.SIGKILL)
        disturbed = (await done(board, "disturbed")).state
        assert disturbed.steps["square"].tasks == len(NUMBERS)
        assert outcome_digest(disturbed) == undisturbed
        await require_one_history(board, "disturbed")
        assert process(up, MARKS[role]) != killed
        assert {other: process(up, MARKS[other]) for other in others} == others
    state = read_state(tmp_path / ".blackboard")
    assert state is not None
    assert state.url == url


async def test_told_to_stop_it_ends_all_of_its_processes_and_goes_on_later(start: Start, tmp_path: Path) -> None:
    team = teams.write(tmp_path, "squares", teams.SQUARES)
    up = start("up", team, cwd=tmp_path)
    url = await server_of(up)
    async with board_of(up) as board:
        await offered(board, "squares", "squarer", "adder")
        await Client(board, "publisher").publish("squares", INPUT, "stopped")
        await run_until(board, "stopped", half_done)
        processes = children_of(up.pid)
        assert len(processes) == len(MARKS)
        assert await up.stop() == 0
    assert [pid for pid in processes if is_alive(pid)] == []
    lock(tmp_path / ".blackboard").close()

    up = start("up", team, cwd=tmp_path)
    assert await server_of(up) == url
    async with board_of(up) as board:
        state = (await done(board, "stopped")).state
        assert state.result == {"total": sum(number**2 for number in NUMBERS)}
        await require_one_history(board, "stopped")
        writers = {(message.headers or {})["writer"] for message, _ in (await history_of(board, "stopped"))[1]}
        assert len(writers) == 2


async def test_killed_itself_it_leaves_no_process_behind(start: Start, tmp_path: Path) -> None:
    up = start("up", teams.write(tmp_path, "squares", teams.SQUARES), cwd=tmp_path)
    async with board_of(up) as board:
        await offered(board, "squares", "squarer", "adder")
    processes = children_of(up.pid)
    assert len(processes) == len(MARKS)
    up.kill()
    try:
        await until(lambda: not any(is_alive(pid) for pid in processes), f"{processes} to end")
    finally:
        for pid in filter(is_alive, processes):
            os.kill(pid, signal.SIGKILL)
    lock(tmp_path / ".blackboard").close()
