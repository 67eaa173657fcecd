"""Heads lie with witnesses out of the board's reach: a file, a git repository, a stream of another server; and the
command leaves them there over kills.
"""

import asyncio
import json
import subprocess
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from blackboard.access import Access
from blackboard.board import Board, open_board
from blackboard.client import BadInput
from blackboard.jetstream import JetStreamLog
from blackboard.jetstream_heads import HeadsStream
from blackboard.log import Append, LogDamaged, LogError, NotPermitted
from blackboard.server import EmbeddedServer
from projections.notary_key import make_key
from projections.notary_service import Notary
from projections.verify import verify
from projections.witness import Witness, WitnessUnavailable
from projections.witness_file import FileWitness
from projections.witness_forms import witnesses_of
from projections.witness_git import GitWitness
from schemas.access import Role
from tests.end_to_end.support import Program, call, past_the_client, publish_packets, until
from tests.tamper.recorded import KEY, PUBLIC


@pytest.fixture
async def board(server: EmbeddedServer, subjects: object) -> AsyncIterator[Board]:
    async with open_board(server.url, subjects.board, create=True) as made:  # type: ignore[attr-defined]
        yield made


async def more(board: Board, count: int = 3) -> None:
    await board.log.append(*(Append(board.subjects.observation("ann", f"r{n}"), b"{}") for n in range(count)))


async def notarized(board: Board, *witnesses: Witness) -> list[int]:
    notary = Notary(board, KEY, witnesses, lambda: 0)
    await notary.begin()
    return [one.head.seq for one in await notary.turn()]


def git(folder: Path, *words: str) -> str:
    return subprocess.run(["git", "-C", str(folder), *words], check=True, capture_output=True, text=True).stdout


async def test_a_repository_has_a_commit_for_each_head_and_pushes_it(board: Board, tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "remote")
    folder, name = tmp_path / "heads", board.subjects.board
    witness = GitWitness(folder, name, str(tmp_path / "remote"))
    for seq in (3, 6, 9):
        await more(board)
        assert await notarized(board, witness) == [seq]
    told = [f"head {number} of board {name}" for number in (3, 2, 1)]
    assert git(folder, "log", "--format=%s").splitlines() == told
    assert git(tmp_path / "remote", "log", "--format=%s", "--all").splitlines() == told
    (folder / name / "000000" / "000000001.json").write_text("what lies in the folder does not count")
    assert (await verify(board, witnesses=[GitWitness(folder, name)], key=PUBLIC)).findings == ()
    line = [line async for line in witness.read()][-1]
    await witness.append(3, line)
    assert len(git(folder, "log", "--format=%s").splitlines()) == 3, "the same one again is none"


async def test_a_repository_whose_remote_is_away_lacks_the_head(board: Board, tmp_path: Path) -> None:
    await more(board)
    with pytest.raises(WitnessUnavailable, match=r"git push .* failed: fatal: .*nowhere"):
        await notarized(board, GitWitness(tmp_path / "heads", board.subjects.board, str(tmp_path / "nowhere")))
    with pytest.raises(WitnessUnavailable, match="is no git repository"):
        await verify(board, witnesses=[GitWitness(tmp_path / "none", "main")], key=PUBLIC)


async def test_a_remote_that_was_away_gets_what_it_lacks(board: Board, tmp_path: Path) -> None:
    """Where another witness took the head meanwhile, and where the notary was started again."""
    remote, name = tmp_path / "remote", board.subjects.board
    git(tmp_path, "init", "--quiet", "--bare", "remote")
    file, repository = FileWitness(tmp_path / "file"), GitWitness(tmp_path / "heads", name, str(remote))
    notary = Notary(board, KEY, [file, repository], lambda: 0)
    await notary.begin()
    for number, again in ((1, notary.turn), (2, GitWitness(tmp_path / "heads", name, str(remote)).claim)):
        await more(board)
        remote.rename(tmp_path / "away")
        assert [one.head.number for one in await notary.turn()] == [number]
        assert notary.behind == [repository.name]
        (tmp_path / "away").rename(remote)
        await again()
        assert git(remote, "log", "--format=%s", "--all").splitlines()[0] == f"head {number} of board {name}"
    await file.close()


async def test_a_bare_repository_is_no_folder(tmp_path: Path) -> None:
    git(tmp_path, "init", "--quiet", "--bare", "bare")
    with pytest.raises(WitnessUnavailable, match="is a bare repository: write git:FOLDER#"):
        await GitWitness(tmp_path / "bare", "main").claim()
    assert not (tmp_path / "bare" / ".git").exists()


async def test_once_says_when_nothing_could_be_left(tmp_path: Path) -> None:
    make_key(key := str(tmp_path / "key"))
    with EmbeddedServer(tmp_path / "server") as server:
        async with open_board(server.url, create=True) as board:
            await more(board)
        witness = f"git:{tmp_path / 'heads'}#{tmp_path / 'nowhere'}"
        told = await call("notarize", "--key", key, "--nats", server.url, "--once", "--witness", witness)
    assert (told.code, "does not appear to be a git repository" in told.err) == (69, True), told


async def test_a_stream_of_another_server(board: Board, tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path / "other") as other:
        witness, second = (HeadsStream(other.url, "heads.main") for _ in range(2))
        with pytest.raises(LogError, match="no notary has left anything"):
            await verify(board, witnesses=[witness], key=PUBLIC)
        for seq in (3, 6):
            await more(board)
            assert await notarized(board, witness) == [seq]
        assert (await verify(board, witnesses=[second], key=PUBLIC)).findings == ()
        lines = [line async for line in second.read()]
        await second.append(2, lines[1])
        with pytest.raises(LogError, match="another notary writes there"):
            await second.append(2, b"another")
        await witness.close()
        async with past_the_client(other.url) as administrator:
            config = (await administrator.api("STREAM.INFO.HEADS_heads_main"))["config"]
            assert (config["deny_delete"], config["deny_purge"], config["storage"]) == (True, True, "file")
            await administrator.api("STREAM.UPDATE.HEADS_heads_main", config | {"max_msgs": 1})
        with pytest.raises(LogDamaged):
            await verify(board, witnesses=[second], key=PUBLIC)
        await second.close()


async def test_what_was_signed_by_one_way_of_reading_is_verified_by_another(board: Board, tmp_path: Path) -> None:
    """Whatever strangers write into headers."""
    assert isinstance(board.log, JetStreamLog)
    subject = board.subjects.observation("ann", "r").encode()
    headers = [
        b"NATS/1.0\r\nx: y\r\nx: z\r\n\r\n",
        b"NATS/1.0\r\nfloor: 9\r\nNats-Stream: mine\r\n\r\n",
        b"NATS/1.0 404 No Messages\r\n\r\n",
        b"NATS/1.0 503\r\nStatus: 7\r\n\r\n",
        b"NATS/1.0\r\n: empty\r\n  blank  :  b  \r\n\r\n",
        b"NATS/1.0\r\nx: \xff\xfe\r\n\r\n",
        b"NATS/1.0\r\nbroken\r\n\r\n",
        b"",
    ]
    await publish_packets(board_url(board), *((subject, one, b"{}") for one in headers))
    await until(lambda: reached(board, len(headers)), "the messages to be stored")
    for direct in (False, True):
        board.log._direct = direct
        witness = FileWitness(tmp_path / f"heads-{direct}")
        await notarized(board, witness)
        board.log._direct = not direct
        verdict = await verify(board, witnesses=[witness], key=PUBLIC)
        assert (verdict.findings, verdict.messages) == ((), len(headers)), f"signed with direct {direct}"
        await witness.close()


def board_url(board: Board) -> str:
    assert isinstance(board.log, JetStreamLog)
    return board.log._connection.url


async def reached(board: Board, seq: int) -> bool:
    return await board.log.head() == seq


def test_forms_of_witnesses() -> None:
    made = witnesses_of(["file:/a/b", "git:/a", "git:/a#origin", "nats://h:1#x.y", "nats://h:1?creds=c#x"], "main")
    assert [one.name for one in made] == [
        "file:/a/b",
        "git:/a",
        "git:/a#origin",
        "nats://h:1#x.y",
        "nats://h:1?creds=c#x",
    ]
    for wrong in ("", "file:", "/a/b", "nats://h:1", "ftp:x"):
        with pytest.raises(BadInput, match="is no witness; write file:PATH"):
            witnesses_of([wrong], "main")
    for wrong in ("nats://h:1?cred=c#x", "nats://h:1?creds#x"):
        with pytest.raises(BadInput, match=r"cred.*; behind the [?] may stand creds=FILE and ca=FILE"):
            witnesses_of([wrong], "main")


async def test_the_command_goes_on_after_a_kill_and_says_when_the_log_contradicts(tmp_path: Path) -> None:
    """Three witnesses; the notary is killed in the middle, and started again; then somebody makes the log anew."""
    public, key = make_key(str(tmp_path / "key")), str(tmp_path / "key")
    with EmbeddedServer(tmp_path / "server") as server, EmbeddedServer(tmp_path / "other") as other:
        forms = [f"file:{tmp_path / 'heads'}", f"git:{tmp_path / 'repository'}", f"{other.url}#heads"]
        witnesses = [word for form in forms for word in ("--witness", form)]
        notarize = ["notarize", "--key", key, "--every", "0.05", "--nats", server.url, "--json", *witnesses]
        notary = Program(notarize, tmp_path / "out")
        again = None
        try:
            async with open_board(server.url, create=True) as board:
                await _signed(board, notary)
                notary.kill()
                again = Program(notarize, tmp_path / "again")
                await _signed(board, again)
            assert await again.stop() == 0
            for form in forms:
                told = await call("verify", "--nats", server.url, "--json", "--key", f"{key}.pub", "--witness", form)
                assert (told.code, told.json["signed"]["seq"], told.json["head"]) == (0, told.json["head"], 60), told
            once = await call(*notarize, "--once")
            assert (once.code, [json.loads(line)["key"] for line in once.out.splitlines()]) == (0, [public])
            async with past_the_client(server.url) as administrator:
                await administrator.api("STREAM.DELETE.BOARD_main")
            async with open_board(server.url, create=True) as board:
                await more(board)
            told = await call(*notarize, "--once")
            assert (told.code, "the log was created anew" in told.out) == (1, True), told
        finally:
            for program in (notary, again):
                if program:
                    program.kill()


async def _signed(board: Board, notary: Program) -> None:
    """Append while the notary is at work, until it has signed all."""
    for _ in range(10):
        await more(board)
        await asyncio.sleep(0.01)  # so that it signs in between
    head = await board.log.head()
    await notary.says(f'"seq": {head}')


async def test_identities_that_only_read_are_enough(tmp_path: Path) -> None:
    access = Access.init(tmp_path / "access")
    with EmbeddedServer(tmp_path / "server", access.server_settings(tmp_path / "jwt")) as server:
        by_role = {role: access.credentials([role], ["ann"]) for role in (Role.ADMIN, Role.NOTARY, Role.AUDITOR)}
        async with open_board(server.url, create=True, credentials=by_role[Role.ADMIN]) as board:
            await more(board, 5)
        witness = FileWitness(tmp_path / "heads")
        async with open_board(server.url, credentials=by_role[Role.NOTARY]) as board:
            assert await notarized(board, witness) == [5]
            with pytest.raises(NotPermitted):
                await more(board)
        await witness.close()
        async with open_board(server.url, credentials=by_role[Role.AUDITOR]) as board:
            verdict = await verify(board, witnesses=[witness], key=PUBLIC)
            assert (verdict.findings, verdict.messages, verdict.signed and verdict.signed.seq) == ((), 5, 5)
