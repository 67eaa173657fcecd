"""Credentials, their files, and the operator's directory: what is made, for whom, and what is said of what is wrong."""

import json
import os
import stat
import subprocess
import sys
import threading
from pathlib import Path

import pytest
from click.testing import CliRunner

from blackboard.access import Access, AccessError, find_access, of_server
from blackboard.credentials import BadCredentials, Credentials, Key, claims_of, read_credentials
from blackboard.settings import load
from schemas.access import Role
from specialists.cli_access import access as command
from tests.end_to_end.support import call


@pytest.fixture
def access(tmp_path: Path) -> Access:
    return Access.init(tmp_path / "access")


def test_all_that_is_secret_is_the_owners_alone(access: Access, tmp_path: Path) -> None:
    access.grant(tmp_path / "ann.creds", [Role.PUBLISHER], ["ann"])
    assert stat.S_IMODE(access.directory.stat().st_mode) == 0o700
    for path in [*access.directory.iterdir(), tmp_path / "ann.creds"]:
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


def test_the_operators_directory_is_made_once(access: Access) -> None:
    before = {path.name: path.read_bytes() for path in access.directory.iterdir()}
    with pytest.raises(AccessError, match="locks all out"):
        Access.init(access.directory)
    assert {path.name: path.read_bytes() for path in access.directory.iterdir()} == before


@pytest.mark.parametrize("name", ["operator.seed", "BUS.seed", "AGENTS.seed", "SYS.seed"])
@pytest.mark.parametrize("content", [None, "", "SOAAA", "no seed\n"])
def test_a_directory_that_is_not_whole_is_an_error(access: Access, name: str, content: str | None) -> None:
    (access.directory / name).unlink()
    if content is not None:
        (access.directory / name).write_text(content)
    with pytest.raises(AccessError, match=r"is not there: name|cannot be read"):
        Access.load(access.directory)


def test_a_file_gives_back_what_was_granted(access: Access, tmp_path: Path) -> None:
    given = access.grant(tmp_path / "ann.creds", [Role.APPROVER], ["ann"], "audits")
    assert read_credentials(tmp_path / "ann.creds") == given
    assert (given.author, given.board, given.in_agents) == ("ann", "audits", True)
    assert given.inbox == f"_INBOX.{Key(given.seed).public}"


def test_a_file_is_not_replaced(access: Access, tmp_path: Path) -> None:
    access.grant(tmp_path / "ann.creds", [Role.PUBLISHER], ["ann"])
    with pytest.raises(AccessError, match="is there already"):
        access.grant(tmp_path / "ann.creds", [Role.PUBLISHER], ["ann"])
    assert len(access.granted()) == 1


def other_key(credentials: Credentials) -> str:
    return Credentials(credentials.jwt, Key.make("user").seed).text


@pytest.mark.parametrize(
    "spoil",
    [
        lambda given: "",
        lambda given: "\x00\xff",
        lambda given: given.text[:200],
        lambda given: given.text.replace("BEGIN NATS USER JWT", "BEGIN"),
        lambda given: given.text.replace(given.seed, "SUAAA"),
        lambda given: given.text.replace(given.jwt, "a.b.c"),
        lambda given: given.text.replace(given.jwt, given.jwt.split(".")[0]),
        other_key,
    ],
)
def test_a_file_that_is_no_credentials_is_an_error_at_once(access: Access, tmp_path: Path, spoil) -> None:
    given = access.credentials([Role.PUBLISHER], ["ann"])
    (tmp_path / "bad.creds").write_text(spoil(given))
    with pytest.raises(BadCredentials, match=r"bad\.creds.*(is no credentials file|cannot be read)"):
        read_credentials(tmp_path / "bad.creds")


async def test_who_may_not_commit_does_not_stand_by(access: Access, tmp_path: Path) -> None:
    """Else it would be missed only when the active one is gone."""
    access.grant(tmp_path / "ann.creds", [Role.AUDITOR], ["ann"])
    told = await call("supervise", "--creds", str(tmp_path / "ann.creds"), "--nats", "nats://127.0.0.1:1")
    assert (told.code, "'auditor ann on board main' may not commit facts" in told.err) == (1, True), told


def test_one_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(BadCredentials, match=r"no\.creds cannot be read"):
        read_credentials(tmp_path / "no.creds")


@pytest.mark.parametrize("roles", [[Role.ADMIN, Role.AUDITOR], [Role.SUPERVISOR, Role.SPECIALIST], []])
def test_roles_of_both_accounts_are_two_identities(access: Access, roles: list[Role]) -> None:
    with pytest.raises(ValueError, match="grant two identities"):
        access.credentials(roles, ["ann"])


def test_nobody_publishes_child_runs_in_the_name_of_the_supervisors(access: Access) -> None:
    with pytest.raises(ValueError, match="choose another name"):
        access.credentials([Role.PUBLISHER], ["ann", "_supervisor"])


@pytest.mark.parametrize("role", list(Role))
def test_nobody_is_allowed_all_by_an_empty_list(access: Access, role: Role) -> None:
    claims = claims_of(access.credentials([role], ["ann"]).jwt)["nats"]
    for permission in (claims["pub"], claims["sub"]):
        assert permission.get("allow") or permission == {"deny": [">"]}


def test_name_and_board_come_with_the_credentials(
    access: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("BLACKBOARD_NAME", raising=False)
    path = tmp_path / "ann.creds"
    access.grant(path, [Role.PUBLISHER], ["ann"], "audits")
    settings = load("nats://127.0.0.1:1", creds=str(path))
    assert (settings.name, settings.board) == ("ann", "audits")
    assert load("nats://127.0.0.1:1", "audits", "bob", str(path)).name == "bob"
    with pytest.raises(BadCredentials, match="is for board 'audits', not for 'main'"):
        load("nats://127.0.0.1:1", "main", creds=str(path))
    access.grant(tmp_path / "admin.creds", [Role.ADMIN], ["admin"], "audits")
    assert load("nats://127.0.0.1:1", "main", creds=str(tmp_path / "admin.creds")).board == "main"


def test_keys_serve_only_for_the_server_that_they_lie_beside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("BLACKBOARD_ACCESS", raising=False)
    made = of_server(tmp_path / ".blackboard")
    assert of_server(tmp_path / ".blackboard").directory == made.directory
    (tmp_path / ".blackboard" / "server.json").write_text('{"port": 4444, "pid": null}')
    (tmp_path / "below").mkdir()
    assert find_access("nats://127.0.0.1:4444", tmp_path / "below") is not None
    assert find_access("nats://127.0.0.1:5555", tmp_path / "below") is None


def test_a_board_of_before_is_not_taken_for_none(tmp_path: Path) -> None:
    os.makedirs(tmp_path / "data" / "jetstream" / "$G" / "streams" / "BOARD_main")
    with pytest.raises(AccessError, match="move the directory away"):
        of_server(tmp_path)
    assert not (tmp_path / "access").exists()


def test_of_all_that_is_granted_at_the_same_time_nothing_is_forgotten(access: Access, tmp_path: Path) -> None:
    """Else nobody could take it back."""
    begin = threading.Barrier(8)

    def grant(number: int) -> None:
        begin.wait()
        for again in range(4):
            access.grant(tmp_path / f"{number}-{again}.creds", [Role.AUDITOR], [f"ann-{number}-{again}"])

    threads = [threading.Thread(target=grant, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(access.granted()) == 32


def test_of_one_file_that_two_want_one_is_granted(access: Access, tmp_path: Path) -> None:
    """Else the file could hold what was given to nobody, and what it holds be forgotten."""
    begin, told = threading.Barrier(8), list[bool]()

    def grant() -> None:
        begin.wait()
        try:
            told.append(bool(access.grant(tmp_path / "ann.creds", [Role.AUDITOR], ["ann"])))
        except AccessError:
            told.append(False)

    threads = [threading.Thread(target=grant) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(told), told.count(True)) == (8, 1)
    assert [one.public for one in access.granted()] == [read_credentials(tmp_path / "ann.creds").public]


@pytest.mark.parametrize("out", ["/proc/nope/ann.creds", "file/ann.creds"])
def test_where_no_file_can_be_nothing_is_granted(access: Access, tmp_path: Path, out: str) -> None:
    (tmp_path / "file").write_text("")
    code, said = run(access, "grant", "ann", "--role", "auditor", "--out", str(tmp_path / out))
    assert (code, len({*said.splitlines()}), "nothing is granted, since" in said) == (2, 1, True), said
    assert access.granted() == []


@pytest.mark.parametrize("failing", ["granted.json", "ann.creds"])
def test_what_cannot_be_put_in_its_place_is_not_granted(
    access: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, failing: str
) -> None:
    access.grant(tmp_path / "bob.creds", [Role.AUDITOR], ["bob"])
    replace = Path.replace

    def full(path: Path, target: Path) -> Path:
        if target.name == failing:
            raise OSError(28, "No space left on device", str(path))
        return replace(path, target)

    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(AccessError, match=r"nothing is granted.*No space left on device"):
        access.grant(tmp_path / "ann.creds", [Role.AUDITOR], ["ann"])
    assert [one.names for one in access.granted()] == [("bob",)]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["access", "bob.creds"]


KILLED = """
import os, sys
from pathlib import Path
from blackboard.access import Access
from schemas.access import Role

sys.addaudithook(lambda event, args: os._exit(9) if event == "os.rename" and str(args[1]).endswith(sys.argv[2]) else 0)
Access.load(Path(sys.argv[1]) / "access").grant(Path(sys.argv[1]) / "ann.creds", [Role.AUDITOR], ["ann"])
"""


@pytest.mark.parametrize("killed", ["granted.json", "ann.creds"])
def test_no_secret_is_on_the_disk_that_is_not_remembered(access: Access, tmp_path: Path, killed: str) -> None:
    """Whenever the process is killed."""
    done = subprocess.run([sys.executable, "-c", KILLED, str(tmp_path), killed], check=False)
    assert done.returncode == 9
    assert not (tmp_path / "ann.creds").exists()
    remembered = [one.public for one in access.granted()]
    written = [path for path in tmp_path.iterdir() if path.is_file() and path.read_text()]
    assert {read_credentials(path).public for path in written} <= {*remembered}
    assert len(remembered) == (killed == "ann.creds")
    access.grant(tmp_path / "ann.creds", [Role.AUDITOR], ["ann"])


def run(access: Access, *words: str) -> tuple[int, str]:
    done = CliRunner().invoke(command, [words[0], "--dir", str(access.directory), *words[1:]])
    return done.exit_code, done.output + (done.stderr if done.stderr_bytes else "")


def test_what_holds_less_than_a_second_does_not_hold_for_ever(access: Access, tmp_path: Path) -> None:
    out = str(tmp_path / "ann.creds")
    assert run(access, "grant", "ann", "--role", "auditor", "--expires", "0.5s", "--out", out)[0] == 0
    claims = claims_of(read_credentials(out).jwt)
    assert claims["exp"] == claims["iat"] + 1


def test_a_wrong_time_is_named_by_its_option(access: Access, tmp_path: Path) -> None:
    for wrong in ("5x", "0s", ""):
        code, said = run(access, "grant", "ann", "--expires", wrong, "--out", str(tmp_path / "ann.creds"))
        assert (code, "--expires" in said, "--deadline" in said) == (2, True, False)
    assert access.granted() == []


def test_the_list_says_what_has_expired(access: Access, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    access.grant(tmp_path / "ann.creds", [Role.AUDITOR], ["ann"], expires_s=3600)
    access.grant(tmp_path / "bob.creds", [Role.AUDITOR], ["bob"])
    assert [("holds until" in line, "holds" in line) for line in run(access, "list")[1].splitlines()] == [
        (True, True),
        (False, True),
    ]
    at_s = access.granted()[0].at_s
    assert json.loads(run(access, "list", "--json")[1].splitlines()[0])["until_s"] == at_s + 3600
    monkeypatch.setattr("time.time", lambda: at_s + 3600.5)
    assert ["expired" in line for line in run(access, "list")[1].splitlines()] == [True, False]


def test_a_revocation_that_no_server_was_told_says_so(access: Access, tmp_path: Path) -> None:
    access.grant(tmp_path / "ann.creds", [Role.AUDITOR], ["ann"])
    code, said = run(access, "revoke", "ann", "--nats", "nats://127.0.0.1:1")
    assert (code, "1 marked as revoked, but no server knows it yet: say it again" in said) == (69, True), said
    assert access.granted()[0].revoked_s > 0


def test_a_team_is_revoked_as_it_was_granted(access: Access, tmp_path: Path) -> None:
    out = str(tmp_path / "all.creds")
    assert run(access, "grant", "licences", "--out", out)[0] == 0
    access.grant(tmp_path / "ann.creds", [Role.SPECIALIST], ["licence-field"])
    run(access, "revoke", "licences", "--nats", "nats://127.0.0.1:1")
    assert [one.revoked_s > 0 for one in access.granted()] == [True, False]
