"""A question outlives every process: server, supervisor and worker are killed after it was asked, and are others when
it is answered."""

import hashlib
from pathlib import Path

import pytest

from blackboard.client import Client
from tests.end_to_end.support import Start, call, children_of, ended, history_of, is_alive, offered, run_until, until
from tests.end_to_end.up import board_of
from tests.gates import brief
from tests.gates.conftest import REPORT, asked

PROCESSES = 3


@pytest.mark.timeout(120)
async def test_run_goes_on_and_writes_what_was_approved(start: Start, environment: str, tmp_path: Path) -> None:
    out, home = tmp_path / "out", tmp_path / "home"
    home.mkdir()
    up = start("up", "licences", cwd=home)
    async with board_of(up) as board:
        await offered(board, "licences", "licence-writer")
        goal = {"path": environment, "out": str(out)}
        for run in ("approved", "denied"):
            await Client(board, "pat").publish("licences", goal, run)
        digests = {run: (await asked(board, run)).digest for run in ("approved", "denied")}
        before = {run: (await history_of(board, run))[0] for run in digests}
    processes = children_of(up.pid)
    assert len(processes) == PROCESSES
    up.kill()
    await until(lambda: not any(is_alive(pid) for pid in processes), f"{processes} to end")

    up = start("up", "licences", cwd=home)
    async with board_of(up) as board:
        assert len(others := children_of(up.pid)) == PROCESSES
        assert not set(others) & set(processes)
        for run, folded in before.items():
            assert (await history_of(board, run))[0].h == folded.h, "nothing was added, nothing was lost"
        for verb, run in (("approve", "approved"), ("deny", "denied")):
            answered = await call(verb, run, "--digest", digests[run], "--name", "ann", cwd=home)
            assert answered.code == 0, answered
        state = await ended(board, "approved")
        assert (state.end, state.gates["write"].by) == ("DONE", "ann")
        assert (await ended(board, "denied")).end == "POLICY_BLOCKED"
        for name in REPORT:
            (file,) = [one for one in state.facts["report"].value["files"] if one["name"] == name]
            assert hashlib.sha256((out / name).read_bytes()).hexdigest() == file["blob"]["sha256"]
        checked = await call("rebuild", "--all", "--check", cwd=home)
        assert checked.code == 0, checked
        again = await call("replay", "--all", cwd=home)
        assert again.code == 0, again


async def test_question_that_nobody_answers_expires(start: Start, tmp_path: Path) -> None:
    """Also over a kill of everything: the supervisor after it counts the rest."""
    up = start("up", brief.write(tmp_path), cwd=tmp_path)
    async with board_of(up) as board:
        await offered(board, "brief", "doer")
        await Client(board, "pat").publish("brief", {}, "run")
        await run_until(board, "run", lambda state: state.phase == "NEEDS_INPUT")
    up.kill()
    up = start("up", brief.write(tmp_path), cwd=tmp_path)
    async with board_of(up) as board:
        state = await ended(board, "run")
        assert (state.end, state.reason) == ("POLICY_BLOCKED", f"nobody approved 'do' within {brief.EXPIRES_MS} ms")
        assert state.tasks == {}
        late = await call("approve", "run", "--gate", "do", "--yes", cwd=tmp_path)
        assert late.code == 1
        assert "not taken: the run has ended" in late.err
