"""Permission taken away in the middle of a run: its worker says so and ends, and everybody else goes on."""

import asyncio
import contextlib
import time
from pathlib import Path

import pytest

from blackboard import nats_connection
from blackboard.access import Access, tell
from blackboard.board import open_board
from blackboard.client import Client
from blackboard.credentials import Credentials
from blackboard.jetstream import attach, create_board
from blackboard.log import Append, NotPermitted, Stored
from blackboard.nats_connection import connect
from blackboard.server import EmbeddedServer
from projections.canonical import State
from projections.history import outcome_digest
from projections.rebuild import rebuild
from schemas.access import Role
from schemas.subjects import Subjects
from specialists.loading import load
from supervisor.service import Supervisor
from tests.end_to_end.support import Program, ended, until
from tests.plugins.figures import Figures

TEAM = """
import asyncio
from pathlib import Path

from schemas.playbooks import Playbook, Step
from specialists.specialist import Team, specialist

HERE = Path(__file__).parent


@specialist("adder", offers="add", deadline_s=60)
async def adder(item: dict[str, list[int]]) -> int:
    \"\"\"Adds numbers up, once it may.\"\"\"
    with (HERE / "begun").open("a") as begun:
        begun.write("x")
    while not (HERE / "go").exists():
        await asyncio.sleep(0.02)
    return sum(item["numbers"])


STEPS = [Step(id="sum", capability="add", input={"numbers": "input.numbers"}, fact="sum")]
NUMBERS = {"type": "array", "items": {"type": "integer"}}
INPUT = {"type": "object", "properties": {"numbers": NUMBERS}}
TEAM = Team(Playbook(team="adders", input=INPUT, returns={"sum": "facts.sum"}, steps=STEPS), [adder])
"""
ENDS_WITHIN_S = 5.0


async def test_a_worker_that_is_revoked_ends_and_its_task_goes_to_another(tmp_path: Path, figures: Figures) -> None:
    access, path = Access.init(tmp_path / "access"), tmp_path / "adders.py"
    path.write_text(TEAM)
    loaded = load(f"{path}:TEAM")
    assert loaded.team is not None
    settings = access.server_settings(tmp_path / "jwt")
    with EmbeddedServer(tmp_path / "server", settings) as server, contextlib.ExitStack() as processes:

        def fresh(*roles: Role, name: str = "ann") -> Credentials:
            return access.credentials(roles, [name])

        def start(name: str) -> Program:
            """A process of a worker, with credentials of its own."""
            access.grant(tmp_path / f"{name}.creds", [Role.SPECIALIST], ["adder"])
            words = ["attach", f"{path}:adder", "--nats", server.url, "--creds", str(tmp_path / f"{name}.creds")]
            program = Program(words, tmp_path / f"{name}.txt", tmp_path)
            processes.callback(program.kill)
            return program

        admin = await connect(server.url, credentials=fresh(Role.ADMIN))
        await create_board(admin, Subjects())
        await admin.close()
        stop = asyncio.Event()
        async with (
            open_board(server.url, credentials=fresh(Role.SUPERVISOR)) as board,
            open_board(server.url, credentials=fresh(Role.CURATOR)) as catalogue,
            open_board(server.url, credentials=fresh(Role.CONSOLE)) as person,
        ):
            supervising = asyncio.create_task(Supervisor(board).run(stop))
            for one in loaded.specialists:
                await Client(catalogue, "ann").offer(one.contract())
            await Client(catalogue, "ann").teach(loaded.team.playbook)

            async def run_of(run: str) -> State:
                await ended(person, run)
                return (await rebuild(person, run)).state

            first = start("first")
            await first.says("attached to board")
            (tmp_path / "go").touch()
            await Client(person, "ann").publish("adders", {"numbers": [1, 2, 3]}, "undisturbed")
            undisturbed = await run_of("undisturbed")
            (tmp_path / "go").unlink()
            (tmp_path / "begun").unlink()
            await Client(person, "ann").publish("adders", {"numbers": [1, 2, 3]}, "disturbed")
            await until((tmp_path / "begun").exists, "the task to be in hand")
            began = time.monotonic()
            await tell(server.url, access, access.revoke(access.granted()))
            await until(lambda: first.code is not None, "the revoked worker to end", detail=lambda: first.said)
            took_s = time.monotonic() - began
            second = start("second")
            (tmp_path / "go").touch()
            disturbed = await run_of("disturbed")
            await second.stop()
            stop.set()
            await supervising
    (sentence,) = [line for line in first.said.splitlines() if not line.startswith("ad") and "attached" not in line]
    assert sentence == (
        f"blackboard: 'specialist adder on board main' is not admitted to {server.url} any more: "
        "user authentication revoked"
    )
    assert first.code == 1
    assert took_s < ENDS_WITHIN_S
    assert "disturbed/sum attempt 1  done" in second.said
    assert outcome_digest(disturbed) == outcome_digest(undisturbed)
    assert (undisturbed.end, undisturbed.result) == ("DONE", {"sum": 6})
    figures.say(f"revoked worker with a task in hand: ended after {took_s:.2f} s; outcome as undisturbed")


async def test_whoever_waits_for_an_answer_or_asks_afterwards_hears_of_the_revocation(tmp_path: Path) -> None:
    access = Access.init(tmp_path / "access")
    with EmbeddedServer(tmp_path / "server", access.server_settings(tmp_path / "jwt")) as server:
        admin = await connect(server.url, credentials=access.credentials([Role.ADMIN], ["ann"]))
        ports = await create_board(admin, Subjects())
        await ports.queue.ensure(["bob"])
        given = access.grant(tmp_path / "bob.creds", [Role.SPECIALIST], ["bob"])
        other = await connect(server.url, credentials=access.credentials([Role.SPECIALIST], ["bob"]))
        connection = await connect(server.url, credentials=given)
        log, queue, _, _ = await attach(connection, Subjects())
        waiting = asyncio.ensure_future(queue.pull("bob", 30))
        await connection.client.flush()
        await tell(server.url, access, access.revoke(access.granted()))
        for attempt in (waiting, queue.pull("bob", 1), log.append(Append("bb.main.obs.bob.r1", b"x"))):
            with pytest.raises(NotPermitted, match="'specialist bob on board main' is not admitted"):
                await asyncio.wait_for(attempt, ENDS_WITHIN_S)
        (stored,) = await (await attach(other, Subjects())).log.append(Append("bb.main.obs.bob.r1", b"x"))
        assert isinstance(stored, Stored)
        assert await ports.log.head() == stored.seq == 1
        for one in (connection, other, admin):
            await one.close()


async def test_whoever_was_revoked_while_the_server_was_away_does_not_come_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Refused at one reconnect after another, the connection ends and says why; the others come back."""
    monkeypatch.setattr(nats_connection, "REFUSAL_PATIENCE_S", 0.5)
    access = Access.init(tmp_path / "access")
    with EmbeddedServer(tmp_path / "server", lambda: access.server_settings(tmp_path / "jwt")) as server:
        admin = await connect(server.url, credentials=access.credentials([Role.ADMIN], ["ann"]))
        await create_board(admin, Subjects())
        given = access.grant(tmp_path / "bob.creds", [Role.SPECIALIST], ["bob"])
        connection = await connect(server.url, credentials=given)
        log, _, _, _ = await attach(connection, Subjects())
        closed, back = asyncio.Event(), asyncio.Event()
        connection.on_close(closed.set)
        admin.on_reconnect(back.set)
        server.stop()
        access.revoke(access.granted())
        server.start()
        await asyncio.wait_for(back.wait(), ENDS_WITHIN_S)
        assert not closed.is_set(), "it is given time, for a server may not know the account yet"
        await asyncio.wait_for(closed.wait(), ENDS_WITHIN_S)
        with pytest.raises(NotPermitted, match="'specialist bob on board main' is not admitted"):
            await log.append(Append("bb.main.obs.bob.r1", b"x"))
        await admin.close()
