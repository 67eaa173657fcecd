"""What `blackboard doctor` says while servers of a cluster are away, and when they are back."""

from pathlib import Path
from typing import Any

import pytest

from blackboard.board import open_board
from blackboard.jetstream_check import Copies, copies_of
from blackboard.log import Append
from tests.cluster.servers import Cluster
from tests.end_to_end.support import Finished, call, until

NOTICED_WITHIN_S = 40.0
STREAMS = 3


@pytest.mark.timeout(200)  # three waits, each for servers to notice, which takes longer where the machine is busy
async def test_doctor_names_who_is_away_until_all_are_back(tmp_path: Path) -> None:
    with Cluster(tmp_path) as cluster:
        async with open_board(cluster.url, create=True, ca=cluster.ca) as board:
            await board.log.append(Append(board.subjects.goal("ann", "r1"), b"{}"))
        told: list[Finished] = []

        async def says(state: str, times: int, *words: str) -> bool:
            told.append(await call("doctor", "--json", "--nats", cluster.url, "--ca", cluster.ca))
            lines = [one for one in told[-1].lines if one["what"].startswith("stream ") and one["state"] == state]
            return len(lines) == times and all(word in f"{one}" for word in words for one in lines)

        first, second, third = cluster.servers
        first.kill()
        await until(
            lambda: says("warning", STREAMS, "2 of 3 copies are kept; not heard:", first.name),
            "one is away",
            NOTICED_WITHIN_S,
        )
        assert told[-1].code == 0, told[-1]
        assert ", 3 copies" not in told[-1].out
        second.kill()
        await until(
            lambda: says("problem", STREAMS, "nothing can be written", first.name, second.name, "start"),
            "two are away",
            NOTICED_WITHIN_S,
        )
        assert told[-1].code == 1, told[-1]
        assert third.name not in str([one for one in told[-1].lines if one["state"] == "problem"]), told[-1]
        cluster.start()
        await until(lambda: says("ok", STREAMS, " 3 copies"), "all are back", NOTICED_WITHIN_S)
        assert told[-1].code == 0, told[-1]


def peer(name: str, **of: Any) -> dict[str, Any]:
    return {"name": name, "current": True, "active": 200_000_000} | of


CASES: list[tuple[list[dict[str, Any]], Copies, bool]] = [
    ([peer("b"), peer("c")], Copies(3, True, [], []), True),
    ([peer("b"), peer("c", current=False, lag=7)], Copies(3, True, [], ["c"]), True),
    ([peer("b"), peer("c", active=4_100_000_000)], Copies(3, True, ["c"], []), True),
    ([peer("b"), peer("c", current=False, active=0)], Copies(3, True, ["c"], []), True),
    ([peer("c", offline=True), peer("b", current=False, active=10**10)], Copies(3, True, ["b", "c"], []), False),
]


@pytest.mark.parametrize(("replicas", "copies", "writable"), CASES)
def test_what_a_leader_says_of_the_others(replicas: list[dict[str, Any]], copies: Copies, writable: bool) -> None:
    found = copies_of({"config": {"num_replicas": 3}, "cluster": {"leader": "a", "replicas": replicas}}, "a")
    assert (found, found.writable) == (copies, writable)


def test_where_none_leads_the_server_that_was_asked_is_there_though_it_has_not_heard_itself() -> None:
    silent = [peer(name, current=False, active=10**11) for name in ("a", "b")]
    found = copies_of({"config": {"num_replicas": 3}, "cluster": {"replicas": [*silent, peer("c")]}}, "a")
    assert (found, found.writable) == (Copies(3, False, ["b"], []), False)


def test_a_server_alone_leads() -> None:
    assert copies_of({"config": {"num_replicas": 1}}, "").writable
