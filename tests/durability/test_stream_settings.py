"""Each setting of a stream that a board depends on, changed alone on a live server: the board is not opened, `doctor`
names the setting, and what it advises mends it."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from blackboard import cli_doctor
from blackboard.access import Access
from blackboard.board import open_board
from blackboard.client import Client
from blackboard.jetstream_check import look
from blackboard.jetstream_streams import LOG_ID, StreamMismatch, board_configs, log_config, task_config
from blackboard.log import Append
from blackboard.nats_connection import Connection, connect
from blackboard.server import EmbeddedServer
from blackboard.stream_deviations import FOR_GOOD, WHY
from schemas.access import Role
from schemas.contracts import Contract
from schemas.playbooks import Playbook, Step
from schemas.subjects import Subjects
from supervisor.service import Supervisor
from tests.durability.command import command
from tests.end_to_end.support import until
from tests.plugins.figures import Figures


class Case(NamedTuple):
    """`changes` to a stream's settings of which `setting` is the one that is looked for; others that the server asks
    for beside it are deviations too."""

    setting: str
    changes: dict[str, Any]


ELSEWHERE = {"name": "elsewhere"}
MESSAGES = [
    Case("subjects", {"subjects": ["bb.<board>.goal.>"]}),
    Case("storage", {"storage": "memory"}),
    Case("persist_mode", {"persist_mode": "async", "allow_atomic": False}),
    Case("no_ack", {"no_ack": True, "allow_atomic": False}),
    Case("retention", {"retention": "interest"}),
    Case("retention", {"retention": "workqueue"}),
    Case("discard", {"discard": "new"}),
    Case("deny_delete", {"deny_delete": False}),
    Case("deny_purge", {"deny_purge": False}),
    Case("allow_direct", {"allow_direct": False}),
    Case("allow_atomic", {"allow_atomic": False}),
    Case("max_msgs", {"max_msgs": 1000}),
    Case("max_bytes", {"max_bytes": 10_000_000}),
    Case("max_age", {"max_age": 3_600_000_000_000}),
    Case("max_msgs_per_subject", {"max_msgs_per_subject": 5}),
    Case("max_msg_size", {"max_msg_size": 100_000}),
    Case("max_consumers", {"max_consumers": 50}),
    Case("allow_msg_schedules", {"allow_msg_schedules": True, "allow_rollup_hdrs": True, "deny_purge": False}),
    Case("allow_msg_ttl", {"allow_msg_ttl": True}),
    Case("subject_delete_marker_ttl", {"subject_delete_marker_ttl": 10_000_000_000, "allow_msg_ttl": True,
                                       "allow_rollup_hdrs": True, "deny_purge": False}),
    Case("allow_rollup_hdrs", {"allow_rollup_hdrs": True, "deny_purge": False}),
    Case("allow_msg_counter", {"allow_msg_counter": True}),
    Case("allow_batched", {"allow_batched": True}),
    Case("mirror", {"mirror": ELSEWHERE, "subjects": [], "allow_atomic": False}),
    Case("sources", {"sources": [ELSEWHERE]}),
    Case("republish", {"republish": {"src": "bb.<board>.obs.>", "dest": "copy.>"}}),
    Case("subject_transform", {"subject_transform": {"src": "bb.<board>.obs.>", "dest": "bb.<board>.fact.>"}}),
    Case("sealed", {"sealed": True}),
]  # fmt: skip
QUEUE = [
    Case("storage", {"storage": "file"}),
    Case("retention", {"retention": "limits"}),
    Case("discard_new_per_subject", {"discard_new_per_subject": False}),
    Case("max_msgs_per_subject", {"max_msgs_per_subject": 2}),
    Case("duplicate_window", {"duplicate_window": 1_000_000_000}),
    Case("max_msgs", {"max_msgs": 10}),
]


@pytest.fixture
async def connection(server: EmbeddedServer) -> AsyncIterator[Connection]:
    connection = await connect(server.url, "settings")
    try:
        yield connection
    finally:
        await connection.close()


def replaced(value: Any, board: str) -> Any:
    if isinstance(value, dict):
        return {key: replaced(inner, board) for key, inner in value.items()}
    if isinstance(value, list):
        return [replaced(inner, board) for inner in value]
    return value.replace("<board>", board) if isinstance(value, str) else value


async def make(connection: Connection, config: dict[str, Any], case: Case, board: str) -> None:
    """The stream with the changes; a message is in it where it takes one before it is sealed."""
    changed = config | replaced(case.changes, board) | {"metadata": {LOG_ID: "0" * 32}}
    sealed = changed.pop("sealed", None)
    wanted = {name: value for name, value in changed.items() if value not in (None, False, 0)}
    await connection.api(f"STREAM.CREATE.{config['name']}", wanted)
    if sealed:
        await connection.api(f"STREAM.UPDATE.{config['name']}", wanted | {"sealed": True})


async def advice(url: str, board: str, *more: str) -> tuple[int, list[dict[str, str]]]:
    told = await command("doctor", *more, "--json", "--nats", url, "--board", board)
    return told.code, [one for one in told.records if one["what"].startswith("stream ")]


@pytest.mark.parametrize("case", MESSAGES, ids=lambda case: f"{case.setting}-{next(iter(case.changes.values()))}"[:40])
async def test_of_the_log(
    server: EmbeddedServer, subjects: Subjects, connection: Connection, case: Case, tmp_path: Path, figures: Figures
) -> None:
    board, url = subjects.board, server.url
    async with open_board(url, board, create=True):
        pass
    await connection.api(f"STREAM.DELETE.{subjects.log_stream}")
    await make(connection, log_config(subjects), case, board)
    for create in (False, True):
        with pytest.raises(StreamMismatch, match=case.setting):
            async with open_board(url, board, create=create):
                pass
    code, said = await advice(url, board)
    named = next(
        one for one in said if one["what"] == f"stream {subjects.log_stream}" and case.setting in one["detail"]
    )
    assert (code, named["state"], WHY[case.setting] in named["detail"]) == (1, "problem", True), said
    if "--fix" in named["fix"]:
        await advice(url, board, "--fix")
    elif case.changes == {"retention": "workqueue"}:
        return  # nobody can have read it, so no board was on it, and there is nothing to save
    else:
        assert case.setting in FOR_GOOD
        file = str(tmp_path / "copy")
        assert "restore" in named["fix"]
        assert (told := await command("backup", file, "--nats", url, "--board", board)).code == 0, told.err
        for stream in subjects.kept:
            await connection.api(f"STREAM.DELETE.{stream}")
        assert (told := await command("restore", file, "--nats", url)).code == 0, told.err
    found = (await look(connection, subjects))[0]
    rest = [one for one in found.deviations if not one.changeable] if "--fix" in named["fix"] else found.deviations
    assert [one.setting for one in rest if one.setting not in case.changes or one.setting == case.setting] == []
    if not rest:
        async with open_board(url, board, create=True) as opened:
            await opened.log.append(Append(subjects.goal("ann", "r1"), b"{}"))
            assert await opened.log.head() == 1


@pytest.mark.parametrize("case", QUEUE, ids=lambda case: case.setting)
async def test_of_the_task_queue(
    server: EmbeddedServer, subjects: Subjects, connection: Connection, case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_doctor, "QUEUE_BACK_S", 0)  # no supervisor is there to wait for
    board, url = subjects.board, server.url
    async with open_board(url, board, create=True):
        pass
    await connection.api(f"STREAM.DELETE.{subjects.task_stream}")
    await make(connection, task_config(subjects), case, board)
    with pytest.raises(StreamMismatch, match=case.setting):
        async with open_board(url, board, create=True):
            pass
    code, said = await advice(url, board)
    named = [one for one in said if one["what"] == f"stream {subjects.task_stream}" and case.setting in one["detail"]]
    assert (code, len(named)) == (1, 1), said
    await advice(url, board, "--fix")
    async with open_board(url, board, create=True):
        assert [one.deviations for one in await look(connection, subjects)] == [[], [], []]
    assert (await advice(url, board))[0] == 0


async def test_a_queue_that_was_removed_is_asked_for_until_a_supervisor_has_made_it_anew(
    server: EmbeddedServer, subjects: Subjects, connection: Connection
) -> None:
    board, url = subjects.board, server.url
    queue = subjects.task_stream
    async with open_board(url, board, create=True) as opened:
        config = (await connection.api(f"STREAM.INFO.{queue}"))["config"]
        await connection.api(f"STREAM.UPDATE.{queue}", config | {"max_msgs": 10})
        fixing = asyncio.create_task(command("doctor", "--fix", "--json", "--nats", url, "--board", board))

        async def gone() -> bool:
            return (await look(connection, subjects))[-1].config is None

        await until(gone, "the queue to be removed")
        stop = asyncio.Event()
        serving = asyncio.create_task(Supervisor(opened).run(stop))
        told = await fixing
        stop.set()
        await serving
    said = [(one["what"], one["state"]) for one in told.records]
    assert (told.code, said.count((f"stream {queue}", "ok")), ("queue", "ok") in said) == (0, 2, True), told


async def test_another_number_of_copies_than_there_are_is_refused(server: EmbeddedServer, subjects: Subjects) -> None:
    there = ["create", "--nats", server.url, "--board", subjects.board]
    made, again, more = [await command(*there, *words) for words in ((), ("--replicas", "1"), ("--replicas", "3"))]
    assert (made.code, again.code, made.out) == (0, 0, again.out), again
    assert made.out.endswith("0 messages, each kept by 1 server\n")
    assert (more.code, more.err.count("\n")) == (1, 1), more
    assert all(f"{stream}: 1" in more.err for stream in (*subjects.kept, subjects.task_stream)), more


async def test_a_step_alone_is_one_step(server: EmbeddedServer, subjects: Subjects) -> None:
    async with open_board(server.url, subjects.board, create=True) as board:
        client = Client(board, "ann")
        await client.offer(Contract(specialist="painter", offers=["paint"]))
        await client.teach(Playbook(team="painters", steps=[Step(id="one", capability="paint")]))
        told = await command("doctor", "--nats", server.url, "--board", subjects.board)
    assert "team painters: 1 step, all offered" in told.out


def test_every_setting_is_tried() -> None:
    """What is expected of any stream has a reason, and a case above."""
    expected = {name for config in board_configs(Subjects()) for name in config} - {"name"}
    assert expected == set(WHY)
    assert {case.setting for case in [*MESSAGES, *QUEUE]} == expected


async def test_several_at_once_are_all_named(
    server: EmbeddedServer, subjects: Subjects, connection: Connection
) -> None:
    case = Case("", {"max_msgs": 9, "deny_purge": False, "max_age": 10**12})
    await make(connection, log_config(subjects), case, subjects.board)
    with pytest.raises(StreamMismatch) as refused:
        async with open_board(server.url, subjects.board):
            pass
    assert all(setting in str(refused.value) for setting in case.changes)


async def test_a_setting_of_a_newer_server_is_told(
    server: EmbeddedServer, subjects: Subjects, connection: Connection, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Known here is what this release knows; to forget one setting is what a newer server looks like."""
    monkeypatch.delitem(WHY, "duplicate_window")
    async with open_board(server.url, subjects.board, create=True):
        pass
    assert "duplicate_window" in (await look(connection, subjects))[0].unknown


@pytest.mark.parametrize(
    ("more", "says"),
    [
        ("", ["what it acknowledges is on disk"]),
        ("sync_interval: 30s", ["what it acknowledges is on disk only after 30 s"]),
        ("sync_interval: always, max_file_store: 90K", ["what it acknowledges is on disk", "its streams have "]),
    ],
)
async def test_what_servers_say_of_their_disks(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, more: str, says: list[str]
) -> None:
    operator = Access.init(tmp_path / "access")
    monkeypatch.setenv("BLACKBOARD_ACCESS", str(tmp_path / "access"))
    settings = operator.server_settings(tmp_path / "jwt")
    if more:
        settings += f'\njetstream {{ store_dir: "{tmp_path}/server/data", {more} }}'
    with EmbeddedServer(tmp_path / "server", settings) as server:
        admin = operator.credentials([Role.ADMIN], ["ann"])
        async with open_board(server.url, create=True, credentials=admin) as board:
            await board.log.append(Append(board.subjects.goal("ann", "r1"), bytes(85_000)))
        told = await command("doctor", "--json", "--nats", server.url)
    said = [one for one in told.records if one["what"].startswith("disk of ")]
    assert told.code == 0, told
    assert [one["detail"].startswith(words) for one, words in zip(said, says, strict=True)] == [True] * len(says), said
    states = ["warning" if "only after" in words or "have" in words else "ok" for words in says]
    assert [one["state"] for one in said] == states


async def test_advice_fits_who_asks_for_what(tmp_path: Path) -> None:
    operator = Access.init(tmp_path / "access")
    with EmbeddedServer(tmp_path / "server", operator.server_settings(tmp_path / "jwt")) as server:
        async with open_board(server.url, create=True, credentials=operator.credentials([Role.ADMIN], ["ann"])):
            pass
        operator.grant(tmp_path / "ann.creds", [Role.AUDITOR], ["ann"])
        there = ["doctor", "--json", "--nats", server.url, "--creds", str(tmp_path / "ann.creds")]
        async with operator_connection(server.url, operator) as admin:
            config = (await admin.api("STREAM.INFO.BLOB_main"))["config"]
            await admin.api("STREAM.UPDATE.BLOB_main", config | {"max_bytes": 500_000})
        told = await command(*there, "--fix")
        (problem,) = [one for one in told.records if one["state"] == "problem"]
        assert (told.code, problem["what"], "--creds" in problem["fix"]) == (1, "identity", True), told
    with EmbeddedServer(tmp_path / "other") as server:
        told = await command("doctor", "--json", "--nats", server.url, "--board", "nosuch")
        (problem,) = [one for one in told.records if one["state"] == "problem"]
        assert (told.code, problem["what"], "create" in problem["fix"]) == (1, "board", True), told


@asynccontextmanager
async def operator_connection(url: str, operator: Access) -> AsyncIterator[Connection]:
    connection = await connect(url, "test", credentials=operator.credentials([Role.ADMIN], ["ann"]))
    try:
        yield connection
    finally:
        await connection.close()
