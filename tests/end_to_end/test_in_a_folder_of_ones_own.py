"""Somebody with a file of credentials and a folder of his own, where no operator's keys are: every step of a command
uses that file, and what is refused is said as it is."""

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from blackboard.access import Access, find_access
from blackboard.server import EmbeddedServer, ServerError, find_url
from blackboard.server_files import make_private
from blackboard.settings import load
from projections.views import view_path
from schemas.access import Role
from tests.end_to_end.support import Start, call
from tests.end_to_end.up import OPERATOR, server_of

LOUD = """
from schemas.playbooks import Playbook, Step
from specialists.specialist import Team, specialist


@specialist("shouter", offers="shouting")
async def shouter(item: dict[str, str]) -> str:
    return item["text"].upper()


GATED = Step(id="loud", capability="shouting", input={"text": "input.text"}, gate={"ask": "shout?"})
TEAM = Team(Playbook(team="loud", steps=[GATED], returns={"said": "facts.loud"}), [shouter])
"""
NOBODY = 65534


async def test_each_step_of_a_command_uses_the_credentials_that_were_named(start: Start, tmp_path: Path) -> None:
    operators, own = tmp_path / "operators", tmp_path / "own"
    for folder in (operators, own):
        folder.mkdir()
    (own / "loud.py").write_text(LOUD)
    up = start("up", cwd=operators)
    nats = ["--nats", await server_of(up)]
    access = Access.load(operators / OPERATOR)
    access.grant(own / "ann.creds", [Role.CONSOLE], ["ann"])
    for name in ("shouter", "other"):
        access.grant(own / f"{name}.creds", [Role.SPECIALIST], [name])
    ann, worker = [*nats, "--creds", "ann.creds"], ["attach", "./loud.py", *nats]

    refused = await call(*worker, "--creds", "shouter.creds", cwd=own)
    assert "contract of shouter is not on the board" in refused.err, refused
    refused = await call(*worker, "--creds", "other.creds", cwd=own)
    assert "the credentials are for another specialist, or another board" in refused.err, refused
    assert (await call("offer", str(own / "loud.py"), cwd=operators)).code == 0
    attached = start(*worker, "--creds", "shouter.creds", cwd=own)
    assert "`blackboard offer` puts it there" in await attached.says("attached to board")

    asked = await call("publish", "loud", "text=hello", "--run", "hello", "--wait", "--no-input", *ann, cwd=own)
    assert asked.code == 7, asked
    waits = await call("inbox", *ann, cwd=own)
    assert "approve hello" in waits.out, waits
    assert "--creds ann.creds" in waits.out, waits
    said = await call("publish", "loud", "text=hello", "--yes", "--wait", *ann, cwd=own)
    assert (said.code, "HELLO" in said.out) == (0, True), said

    seen = await call("runs", *nats, "--creds", "shouter.creds", cwd=own)
    assert (seen.code, "'specialist shouter on board main'" in seen.err, "not read it" in seen.err) == (1, True, True)
    for verb, refused_for in (("create", "may not publish"), ("supervise", "may not commit facts")):
        told = await call(verb, *nats, "--creds", "shouter.creds", cwd=own)
        assert (told.code, "there is no board" in told.err) == (1, False), told
        assert refused_for in told.err, told
    looked = await call("doctor", *nats, cwd=own)
    assert "name credentials that may with --creds" in looked.out, looked


@contextmanager
def another_user(private: Path) -> Iterator[None]:
    """Somebody to whom `private` belongs not; where we are not root, as if it did not."""
    root = os.geteuid() == 0
    if root:
        os.seteuid(NOBODY)
    else:
        private.chmod(0)
    try:
        yield
    finally:
        if root:
            os.seteuid(0)
        private.chmod(0o700)


@pytest.mark.parametrize("private", [".blackboard", OPERATOR])
def test_the_board_of_another_user_is_not_at_hand(private: str, monkeypatch: pytest.MonkeyPatch) -> None:
    url = "nats://127.0.0.1:4222"
    monkeypatch.delenv("BLACKBOARD_NATS", raising=False)
    monkeypatch.delenv("BLACKBOARD_ACCESS", raising=False)
    with tempfile.TemporaryDirectory() as place:  # not in pytest's folder, which another user may not enter
        os.chmod(place, 0o755)
        directory = Path(place) / ".blackboard"
        Access.init(directory / "access")
        (directory / "server.json").write_text('{"port": 4222, "pid": null}')
        (directory / "server.json").chmod(0o644)
        assert find_access(url, place) is not None
        directory.chmod(0o755)
        (Path(place) / private).chmod(0o700)
        with another_user(Path(place) / private):
            assert find_access(url, place) is None
            assert load(url).nats == url
            said = "belongs to another user: name its server" if private == ".blackboard" else "does not run"
            with pytest.raises(ServerError, match=said):
                find_url(cwd=place)
            if private == ".blackboard":
                assert directory not in view_path("main", "abc", place).parents
                with pytest.raises(ServerError, match="belongs to another user: use the board in it"):
                    make_private(directory)


@pytest.mark.parametrize("mode", [None, 0o755, 0o700])
def test_the_directory_of_a_server_is_its_owners_alone(tmp_path: Path, mode: int | None) -> None:
    directory = tmp_path / "above" / "board"
    if mode is not None:
        directory.mkdir(parents=True)
        directory.chmod(mode)
    with EmbeddedServer(directory):
        assert stat.S_IMODE(directory.stat().st_mode) == 0o700
