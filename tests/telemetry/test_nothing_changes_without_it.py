"""Off, tracing costs and imports nothing; on, the log holds the same bytes."""

import timeit
from pathlib import Path
from typing import Any

import pytest

from blackboard import telemetry
from blackboard.board import Board
from blackboard.log import Message
from projections.history import Folded, fold, unwritten
from schemas.codec import decode_facts
from schemas.spans import Place, Span
from supervisor.replay import redecide
from tests.end_to_end.support import Start, call_python, ended, offered
from tests.end_to_end.teams import SQUARES, write
from tests.supervisor.scenario import LOG, step, teach
from tests.supervisor.table import board_in_memory
from tests.supervisor.test_service_runs import GOAL, TEAM, staff
from tests.telemetry.receiver import Receiver

IMPORTED = """
import atexit, sys
from blackboard.cli import main

def tell():
    print("imported", sorted(name for name in sys.modules if name.split(".")[0] in ("opentelemetry", "requests")))

atexit.register(tell)
sys.argv[1:] = {words}
main()
"""


STOPPED = """
import os, signal, threading, time

def stop():
    while signal.getsignal(signal.SIGTERM) == signal.SIG_DFL:
        time.sleep(0.05)
    time.sleep(1)
    os.kill(os.getpid(), signal.SIGTERM)

threading.Thread(target=stop, daemon=True).start()
"""


async def test_publishing_imports_nothing_of_it(shared: Board, there: list[str], start: Start, tmp_path: Path) -> None:
    start("supervise", *there)
    worker = start("attach", write(tmp_path, "squares", SQUARES), *there)
    await offered(shared, "squares", "squarer", "adder")
    await worker.says("attached")
    words = ["publish", "squares", "--run", "r1", "--input", '{"numbers": [1, 2]}', *there]
    published = await call_python(IMPORTED.replace("{words}", repr(words)))
    assert published.out == "r1\nimported []\n", published
    assert (await ended(shared, "r1")).end == "DONE"


@pytest.mark.parametrize("verb", ["supervise", "attach"])
async def test_processes_import_nothing_of_it(
    verb: str, shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    team = write(tmp_path, "squares", SQUARES)
    words = [verb, *([team] if verb == "attach" else []), *there]
    ran = await call_python(STOPPED + IMPORTED.replace("{words}", repr(words)))
    assert ran.code == 0, ran
    assert ran.out.splitlines()[-1] == "imported []", ran


def test_off_it_is_one_condition() -> None:
    span = Span("x", Place("0" * 32, "0" * 16), "", 0, 0, {})
    assert not telemetry.on()
    with telemetry.measured(lambda: span) as said:
        said["a"] = 1
    cost_ns = min(timeit.repeat(lambda: telemetry.record(span), number=10_000, repeat=5)) / 10_000 * 1e9
    print(f"recording nothing takes {cost_ns:.0f} ns")
    assert cost_ns < 5_000


@pytest.mark.parametrize(
    "environment",
    [
        {},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": ""},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_SDK_DISABLED": "true"},
        {"OTEL_EXPORTER_OTLP_ENDPOINT": "http://127.0.0.1:9", "OTEL_TRACES_EXPORTER": "none"},
    ],
)
def test_environments_that_do_not_ask_for_it(environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    with telemetry.tracing("client"):
        assert not telemetry.on()


ABSENT = """
import sys
sys.modules["opentelemetry"] = None
from blackboard import telemetry
with telemetry.tracing("client"):
    print(telemetry.on())
"""


async def test_configured_and_not_installed_is_one_sentence(collector: Receiver) -> None:
    ran = await call_python(ABSENT)
    assert (ran.code, ran.out) == (0, "False\n")
    assert ran.err == (
        "nothing is traced: a collector is configured and opentelemetry is not installed; install opentelemetry-sdk "
        "and opentelemetry-exporter-otlp-proto-http, or unset OTEL_EXPORTER_OTLP_ENDPOINT\n"
    )


async def history() -> list[Message]:
    """All that a board holds after a run with children, retries and a gate."""
    gated = teach(step("ask", gate={"ask": "go on?"}, input={"x": "`3`"}), team="g")
    async with board_in_memory(*TEAM, gated) as table:
        table.supervise(name="s", mend_s=60)
        staff(table)
        await table.client.publish("p", GOAL, "r1")
        await table.ended("r1")
        await table.client.publish("g", {}, "r2")
        await table.until(lambda: waits(table))
        (gate,) = (await table.run("r2")).state.open_gates.values()
        await table.client.approve("r2", "ask", gate.digest)
        await table.ended("r2")
        await table.client.cancel("r1")
        await table.until(lambda: came_late(table))
        return await table.messages()


async def waits(table: Any) -> bool:
    return bool((await table.run("r2")).state.open_gates)


async def came_late(table: Any) -> bool:
    return (await table.run("r1")).state.late == {"me": 1}


async def test_the_log_holds_the_same_bytes(monkeypatch: pytest.MonkeyPatch) -> None:
    plain = await history()
    with Receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", f"{collector.url}/v1/traces")
        with telemetry.tracing("supervisor"):
            assert telemetry.on()
            traced = await history()
    assert len(collector.spans) > 20
    assert said(traced) == said(plain)
    for messages in (plain, traced):  # decided again without tracing, for the order of arrival is not always the same
        for run, folded in redecide(LOG, messages, 7).items():
            stored = [one for one in messages if one.subject == f"bb.main.fact.{run}"]
            assert folded.h == fold_all(run, stored).h
            assert {name for one in stored for name in one.headers or {}} <= {"writer", "floor", "state"}


def said(messages: list[Message]) -> list[tuple[str, bytes, Any]]:
    """What clients and workers appended, headers included. Wakes cite histories, and so the order of arrival."""
    theirs = [one for one in messages if one.subject.split(".")[2] not in {"fact", "wake"}]
    return sorted((one.subject, one.data, one.headers) for one in theirs)


def fold_all(run: str, stored: list[Message]) -> Folded:
    folded = unwritten(LOG, run)
    for one in stored:
        folded = fold(folded, decode_facts(one.data), one.seq)
    return folded
