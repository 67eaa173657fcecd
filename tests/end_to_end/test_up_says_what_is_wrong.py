"""`blackboard up` says in a sentence what it cannot do, and ends where trying again cannot help."""

import os
from pathlib import Path

import pytest

from tests.end_to_end.support import call

USAGE, NO_BOARD = 2, 69


@pytest.mark.parametrize(
    ("team", "said"),
    [("TYPO", "there is no module 'TYPO'; a file is ./TYPO.py"), ("./nofile.py", "there is no file ./nofile.py")],
)
async def test_a_team_that_is_not_there_is_said_before_anything_starts(tmp_path: Path, team: str, said: str) -> None:
    told = await call("up", "licences", team, cwd=tmp_path)
    attached = await call("attach", team, "--nats", "nats://127.0.0.1:1", cwd=tmp_path)
    assert (told.code, told.out, told.err) == (USAGE, "", attached.err)
    assert said in told.err
    assert not os.listdir(tmp_path)


async def test_a_worker_that_was_called_wrongly_ends_all(tmp_path: Path) -> None:
    (tmp_path / "empty.py").write_text("")
    told = await call("up", "./empty.py", cwd=tmp_path)
    assert told.code == USAGE, told
    assert told.out.count("./empty.py has no specialist") == 1
    assert "given up: ended with code 2" in told.out
    assert '"pid":null' in (tmp_path / ".blackboard" / "server.json").read_text()


@pytest.mark.parametrize("directory", [".blackboard", ".blackboard/below"])
async def test_a_file_in_the_place_of_the_directory_is_said(tmp_path: Path, directory: str) -> None:
    (tmp_path / ".blackboard").write_text("")
    told = await call("up", "--dir", directory, cwd=tmp_path)
    said = f"{directory} cannot be a directory, since a file is there: move it away, or name another with --dir"
    assert (told.code, told.out, told.err) == (NO_BOARD, "", f"blackboard: {said}\n")
