"""What a board is on three servers: where its streams lie, who may make them, and reading where a follower lags."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from blackboard import jetstream
from blackboard.access import Access
from blackboard.board import open_board
from blackboard.jetstream_read import Reader
from blackboard.log import Append, Conflict, Message, Stored
from blackboard.nats_connection import connect
from blackboard.server import EmbeddedServer
from schemas.access import Role
from schemas.subjects import Subjects
from tests.cluster.servers import Cluster
from tests.conftest import TestBoard
from tests.end_to_end.support import call


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


async def test_create_puts_each_stream_on_three_servers_and_is_harmless_again(cluster: Cluster) -> None:
    words = ["create", "--board", "made", "--nats", cluster.url, "--ca", cluster.ca, "--json"]
    first, again, same = [await call(*words, *more) for more in ((), (), ("--replicas", "3"))]
    assert (first.code, again.code, same.code) == (0, 0, 0), (first, again, same)
    assert first.json == again.json == same.json
    assert first.json["replicas"] == 3
    fewer = await call(*words, "--replicas", "1")
    assert (fewer.code, "nats stream edit BOARD_made --replicas 1" in fewer.json["error"]) == (1, True), fewer
    subjects = Subjects("made")
    connection = await connect(cluster.url, ca=cluster.ca)
    try:
        assert connection.patience_s > 10
        for stream in (subjects.log_stream, subjects.task_stream, subjects.blob_stream):
            info = await connection.api(f"STREAM.INFO.{stream}")
            assert (stream, info["config"]["num_replicas"]) == (stream, 3)
    finally:
        await connection.close()
    checked = await call("doctor", "--board", "made", "--nats", cluster.url, "--ca", cluster.ca)
    assert (checked.code, checked.out.count(" 3 copies")) == (0, 3), checked


async def test_a_lost_queue_is_made_anew_on_as_many_servers_as_the_log(cluster: Cluster) -> None:
    async with open_board(cluster.url, "queue", create=True, ca=cluster.ca):
        connection = await connect(cluster.url, ca=cluster.ca)
        try:
            subjects = Subjects("queue")
            await connection.api(f"STREAM.DELETE.{subjects.task_stream}")
            await (await jetstream.attach(connection, subjects)).queue.ensure(["painter"])
            info = await connection.api(f"STREAM.INFO.{subjects.task_stream}")
            assert info["config"]["num_replicas"] == 3
        finally:
            await connection.close()


async def test_expected_sequences_hold_between_two_who_append_at_once(cluster: Cluster) -> None:
    async with (
        open_board(cluster.url, "race", create=True, ca=cluster.ca) as one,
        open_board(cluster.url, "race", ca=cluster.ca) as two,
    ):
        subject = one.subjects.fact("run")
        assert await one.log.append(Append(subject, b"first", expected=0)) == [Stored(1)]
        assert await two.log.append(Append(subject, b"other", expected=0)) == [Conflict(subject, 0)]
        assert await two.log.append(Append(subject, b"first", expected=0)) == [Stored(1)]
        assert await two.log.append(Append(subject, b"other", expected=7)) == [Conflict(subject, 7)]
        key = "bb.race.obs.{}.run.key.1"
        intents = [Append(key.format(who), b"x", expected=0, among=key.format("*")) for who in ("ann", "bob")]
        assert await one.log.append(intents[0]) == [Stored(2)]
        assert await two.log.append(intents[1]) == [Conflict(intents[1].subject, 0)]


class _Lagging(Reader):
    """As a consumer on a follower that has but the first three messages."""

    async def next(self) -> list[Message]:
        if self.position >= 3:
            return []
        messages = [message for message in await super().next() if message.seq <= 3]
        self.position = min(self.position, 3)
        return messages


async def test_the_last_message_of_each_subject_is_complete_where_a_follower_lags(
    board: TestBoard, monkeypatch: pytest.MonkeyPatch
) -> None:
    subjects = board.subjects
    for run in ("a", "b", "c", "d", "a"):
        await board.log.append(Append(subjects.fact(run), run.encode()))
    monkeypatch.setattr(jetstream, "Reader", _Lagging)
    found = {message.subject: message.seq async for message in board.log.last_per_subject(subjects.every("fact"))}
    assert found == {subjects.fact(run): seq for run, seq in {"a": 5, "b": 2, "c": 3, "d": 4}.items()}


async def test_who_may_not_make_a_board_says_who_does(tmp_path: Path) -> None:
    access, creds = Access.init(tmp_path / "access"), tmp_path / "supervisor.creds"
    access.grant(creds, [Role.SUPERVISOR], ["supervisor"])
    with EmbeddedServer(tmp_path / "server", access.server_settings(tmp_path / "jwt")) as server:
        told = await call("create", "--nats", server.url, "--creds", str(creds))
        assert (told.code, told.err.count("\n"), "blackboard create" in told.err) == (69, 1, True), told
        by_admin = await call("create", "--nats", server.url, BLACKBOARD_ACCESS=str(tmp_path / "access"))
        assert by_admin.code == 0, by_admin
