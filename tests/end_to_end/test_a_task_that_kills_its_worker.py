"""A task that kills its worker each time ends at a limit, with a code; `up` gives such a worker up, by its name."""

import os
import signal
from pathlib import Path

from blackboard.client import Client
from schemas import events as e
from tests.end_to_end import teams
from tests.end_to_end.support import Start, call, children_of, ended, events_of, is_alive, offered, until
from tests.end_to_end.up import board_of, process


async def test_a_worker_with_endless_lines_is_kept_running(start: Start, tmp_path: Path) -> None:
    chatty = teams.write(tmp_path, "squares", f"print('x' * 3_000_000, flush=True)\n{teams.SQUARES}")
    up = start("up", chatty, cwd=tmp_path)
    async with board_of(up) as board:
        await offered(board, "squares", "squarer", "adder")
        worker = process(up, " attach ")
        os.kill(worker, signal.SIGKILL)
        await up.says("ended with code -9; started again")
        await up.says("attached to board main", times=2)
        run = await Client(board, "publisher").publish("squares", {"numbers": [1, 2]})
        assert (await ended(board, run)).end == "DONE"
    assert await up.stop() == 0


STARTS_ANOTHER = "import subprocess, sys; subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(12)'])\n"


async def test_a_worker_whose_own_process_lives_on_is_started_again(start: Start, tmp_path: Path) -> None:
    """The other one holds the output of the worker open."""
    up = start("up", teams.write(tmp_path, "squares", STARTS_ANOTHER + teams.SQUARES), cwd=tmp_path)
    async with board_of(up) as board:
        await offered(board, "squares", "squarer", "adder")
    os.kill(process(up, " attach "), signal.SIGKILL)
    await up.says("ended with code -9; started again", within_s=10)


async def test_it_ends_with_a_code_while_other_runs_go_on(start: Start, tmp_path: Path) -> None:
    killer = teams.write(tmp_path, "killer", teams.KILLER)
    squares = teams.write(tmp_path, "squares", teams.SQUARES)
    up = start("up", killer, squares, cwd=tmp_path)
    async with board_of(up) as board:
        await offered(board, "killers", "killer", "squares", "squarer")
        [supervisor] = [pid for pid, command in children_of(up.pid).items() if " supervise " in command]
        client = Client(board, "publisher")
        deadly = [await client.publish("killers", {}, "deadly-1")]
        for number in range(3):
            await client.publish("squares", {"numbers": [number, 2]}, f"good-{number}")
            assert (await ended(board, f"good-{number}")).end == "DONE"
        for life in range(2, 6):
            await up.says(f"{killer} attached to board main", times=life)
            deadly.append(await client.publish("killers", {}, f"deadly-{life}"))
        await up.says("given up: ended 5 times within 60 s, last with code -9")
        assert f"{killer} given up" in " ".join(up.said.split())
        for run in deadly:
            state = await ended(board, run)
            assert (state.end, state.code) == ("FAILED_RETRYABLE", "TIMEOUT")
            assert "not begun within" in state.reason
            [end] = [event for event in await events_of(board, run) if isinstance(event, e.TaskEnded)]
            assert (end.task, end.code) == ("kill", state.code)
        await client.publish("squares", {"numbers": [3, 4]}, "after")
        assert (await ended(board, "after")).result == {"total": 25}
        assert is_alive(supervisor)
    assert await up.stop() == 1, "it says that not all went well"
    await until(lambda: not is_alive(supervisor), "the supervisor to end")
    told = await call("runs", cwd=tmp_path)
    assert (told.code, told.err.count("\n")) == (69, 1), told
