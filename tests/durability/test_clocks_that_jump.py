"""The wall clocks of all processes jump, back and forth: runs end alike and in time, and nothing lasts less than
nothing."""

import asyncio
import json
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from blackboard import access
from blackboard.board import Board
from blackboard.jetstream import create_board
from blackboard.log import NotPermitted
from blackboard.nats_connection import connect
from blackboard.server import EmbeddedServer
from projections.history import outcome_digest
from schemas.access import Role
from schemas.inputs import Input, Unreadable
from schemas.spans import trace_id
from schemas.subjects import Address, Subjects
from supervisor.spans import decision
from tests.end_to_end import support
from tests.end_to_end.conftest import shared, start, there
from tests.end_to_end.support import Start, call, ended, history_of, offered
from tests.end_to_end.teams import write
from tests.plugins.figures import Figures
from tests.telemetry.receiver import Receiver
from tests.telemetry.team import AGENTS
from tests.telemetry.test_one_trace_over_all_processes import NUMBERS

__all__ = ["shared", "start", "there"]

WITHIN_S = 40.0
"""An undisturbed run takes about 3 s, of which retries wait 1 s."""


@pytest.fixture
def collector(monkeypatch: pytest.MonkeyPatch) -> Iterator[Receiver]:
    with Receiver() as receiver:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", receiver.url)
        yield receiver


async def publish(run: str, there: list[str]) -> None:
    goal = json.dumps({"numbers": NUMBERS, "pause_s": 0.1})
    published = await call("publish", "agents", "--run", run, "--input", goal, "--name", "me", *there)
    assert published.code == 0, published


async def test_runs_end_alike_and_no_span_ends_before_it_begins(
    collector: Receiver,
    shared: Board,
    there: list[str],
    start: Start,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    figures: Figures,
) -> None:
    team = write(tmp_path, "agents", AGENTS)
    calm = [start("supervise", *there), start("attach", team, *there)]
    await offered(shared, "agents", "reader", "adder")
    await publish("calm", there)
    undisturbed = await ended(shared, "calm")
    assert [await program.stop() for program in calm] == [0, 0]

    monkeypatch.setattr(support, "COMMAND", [sys.executable, "-m", "tests.durability.shifted"])
    programs = [start("supervise", *there), *(start("attach", team, *there) for _ in range(2))]
    for worker in programs[1:]:
        await worker.says("attached")
    runs = [f"shifted-{number}" for number in range(3)]
    for run in runs:
        await publish(run, there)
    for run in runs:
        state = await ended(shared, run, WITHIN_S)
        assert (state.end, outcome_digest(state)) == ("DONE", outcome_digest(undisturbed)), state.reason
        _, told = await history_of(shared, run)
        times = [event.at for _, events in told for event in events]
        assert times == sorted(times)
    assert [await program.stop() for program in programs] == [0, 0, 0]
    spans = [span for run in runs for span in collector.of(trace_id(shared.log.id, run))]
    backwards = [(span.name, span.end_ns - span.start_ns) for span in spans if span.end_ns < span.start_ns]
    lasting = [
        (span.name, span.end_ns - span.start_ns) for span in spans if span.end_ns - span.start_ns > WITHIN_S * 1e9
    ]
    figures.say(f"spans of processes whose clocks jump: {len(spans)}, of negative length: {len(backwards)}")
    assert (backwards, lasting) == ([], [])
    assert len(spans) > len(runs) * len(NUMBERS)


def test_a_decision_stored_before_it_was_asked_for_took_no_time() -> None:
    """The log's own clock was set back between an input and its events."""
    cause = Input(3, "0" * 64, 5_000, "bb.main.goal.ann.r1", Address("goal", "ann", "r1"), Unreadable("no goal"))
    span = decision("log", "r1", cause, [], 1_000)
    assert (span.start_ns, span.end_ns) == (5_000_000_000, 5_000_000_000)


async def test_who_was_granted_something_in_the_future_is_revoked_now(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The operator's clock was set back in between: the server compares when credentials were made and when they were
    revoked."""
    operator = access.Access.init(tmp_path / "access")
    with EmbeddedServer(tmp_path / "server", lambda: operator.server_settings(tmp_path / "jwt")) as server:
        admin = await connect(server.url, credentials=operator.credentials([Role.ADMIN], ["ann"]))
        await create_board(admin, Subjects())
        await admin.close()
        given = operator.grant(tmp_path / "bob.creds", [Role.AUDITOR], ["bob"])
        connection = await connect(server.url, credentials=given)
        closed = asyncio.Event()
        connection.on_close(closed.set)
        now_s = access._now_s() - 30
        monkeypatch.setattr(access, "_now_s", lambda: now_s)
        await access.tell(server.url, operator, operator.revoke(operator.granted()))
        async with asyncio.timeout(5):
            await closed.wait()
        with pytest.raises(NotPermitted):
            await connect(server.url, credentials=given)
        server.stop()
        server.start()
        with pytest.raises(NotPermitted):
            await connect(server.url, credentials=given)
