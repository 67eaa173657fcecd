"""A goal is one trace, over client, supervisor and workers, also when a supervisor or a worker is killed meanwhile."""

import asyncio
import json
from collections import Counter
from pathlib import Path

import pytest

from blackboard.board import Board
from blackboard.log import Message
from projections.canonical import State
from schemas.spans import INPUT_TOKENS, OUTPUT_TOKENS, RUN, run_span, trace_id
from tests.end_to_end.support import Program, Start, call, ended, messages_on, offered, run_until, until
from tests.end_to_end.teams import write
from tests.telemetry.receiver import CLIENT, INTERNAL, PRODUCER, Received, Receiver
from tests.telemetry.team import AGENTS

NUMBERS = list(range(1, 25))
RETRIED = [number for number in NUMBERS if number % 5 == 0]


async def begin(shared: Board, there: list[str], start: Start, folder: Path, pause_s: float) -> list[Program]:
    """A supervisor, two workers, and the run `r1` under way, published by a process of its own."""
    team = write(folder, "agents", AGENTS)
    programs = [start("supervise", *there), start("attach", team, *there), start("attach", team, *there)]
    await offered(shared, "agents", "reader", "adder")
    for worker in programs[1:]:
        await worker.says("attached")
    goal = json.dumps({"numbers": NUMBERS, "pause_s": pause_s})
    published = await call("publish", "agents", "--run", "r1", "--input", goal, "--name", "me", *there)
    assert published.code == 0, published
    assert published.err == ""
    return programs


async def told(collector: Receiver, board: Board, programs: list[Program], run: str = "r1") -> list[Received]:
    """The trace of the run once all processes have said what they had to say."""
    for program in programs:
        assert await program.stop() == 0, program.said
    return collector.of(trace_id(board.log.id, run))


def check(spans: list[Received], state: State, run: str = "r1") -> None:
    """What holds for the trace of each run that has ended."""
    by_id = {span.id: span for span in spans}
    assert [span.id for span in spans if not span.parent] == [run_span(run)]
    assert [span.name for span in spans if span.parent and span.parent not in by_id] == []
    assert {span.attributes[RUN] for span in spans} == {run}
    assert sum(span.attributes.get(INPUT_TOKENS, 0) for span in spans) == state.usage.input_tokens
    assert sum(span.attributes.get(OUTPUT_TOKENS, 0) for span in spans) == state.usage.output_tokens
    assert all(span.start_ns <= span.end_ns for span in spans)


def writer(message: Message) -> str:
    return (message.headers or {})["writer"]


def named(spans: list[Received], name: str, kind: int) -> list[Received]:
    return [span for span in spans if span.name.startswith(name) and span.kind == kind]


async def test_client_supervisor_and_two_workers(
    collector: Receiver, shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    programs = await begin(shared, there, start, tmp_path, pause_s=0.02)
    state = await ended(shared, "r1")
    spans = await told(collector, shared, programs)
    check(spans, state)
    assert state.usage.input_tokens == sum(100 + number for number in NUMBERS + RETRIED) + 3
    attempts = len(NUMBERS) + len(RETRIED) + 1
    (root,) = named(spans, "invoke_workflow agents", INTERNAL)
    assert root.attributes["blackboard.outcome"] == "DONE"
    (send,) = named(spans, "send bb.", PRODUCER)
    assert send.attributes["messaging.system"] == "nats"
    (goal,) = named(spans, "decide goal", INTERNAL)
    assert goal.links == root.links == [(send.trace, send.id)]
    assert Counter(span.attributes["blackboard.outcome"] for span in named(spans, "invoke_agent", CLIENT)) == {
        "DONE": attempts - len(RETRIED),
        "TOOL_DOWN": len(RETRIED),
    }
    booked = {span.id: span for span in named(spans, "invoke_agent", CLIENT)}
    executions = named(spans, "invoke_agent", INTERNAL)
    assert Counter(span.parent for span in executions) == dict.fromkeys(booked, 1)
    for span in executions:
        assert span.attributes["blackboard.execution"] == booked[span.parent].attributes["blackboard.execution"]
        assert span.attributes["blackboard.outcome"] == booked[span.parent].attributes["blackboard.outcome"]
        assert span.failed == booked[span.parent].failed
    calls = named(spans, "execute_tool look_up", INTERNAL)
    assert len(calls) == len(NUMBERS)
    assert {span.parent for span in calls} <= {span.id for span in executions}
    assert len(named(spans, "decide ended", INTERNAL)) == attempts
    processes = {span.process["process.pid"]: span.process["service.name"] for span in spans}
    assert Counter(processes.values()) == {"blackboard-client": 1, "blackboard-supervisor": 1, "blackboard-worker": 2}
    assert collector.repeated == 0
    print(f"{len(spans)} spans of {len(processes)} processes in one trace, every parent there")


@pytest.mark.parametrize("after", [0.1, 0.5, 0.9])
async def test_supervisor_killed_and_started_again(
    after: float, collector: Receiver, shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    first, *workers = await begin(shared, there, start, tmp_path, pause_s=0.5)
    await run_until(shared, "r1", lambda state: len(state.facts) >= after * len(NUMBERS))
    first.kill()
    second = start("supervise", *there)
    await second.says("took over")
    state = await ended(shared, "r1")
    assert len({writer(message) for message in await messages_on(shared, shared.subjects.fact("r1"))}) == 2
    spans = await told(collector, shared, [second, *workers])
    check(spans, state)
    attempts = {span.id for span in named(spans, "invoke_agent", CLIENT)}
    assert len(attempts) == len(NUMBERS) + len(RETRIED) + 1
    assert {span.parent for span in named(spans, "invoke_agent", INTERNAL)} == attempts
    processes = {span.process["process.pid"] for span in collector.spans}
    assert len(processes) >= 4
    print(f"{len(spans)} spans of {len(processes)} processes, {collector.repeated} told twice alike")


async def test_supervisor_killed_when_the_run_has_just_ended(
    collector: Receiver, shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    first, *workers = await begin(shared, there, start, tmp_path, pause_s=0)
    state = await ended(shared, "r1")
    first.kill()  # its last spans leave a second later, or not at all
    second = start("supervise", *there)
    await second.says("took over")
    check(await told(collector, shared, [second, *workers]), state)


async def test_worker_killed_in_the_middle(
    collector: Receiver, shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    supervisor, victim, worker = await begin(shared, there, start, tmp_path, pause_s=0.1)
    await run_until(shared, "r1", lambda state: len(state.facts) >= 5)
    victim.kill()
    state = await ended(shared, "r1")
    check(await told(collector, shared, [supervisor, worker]), state)


async def test_two_supervisors_tell_one_trace(
    collector: Receiver, shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    second = start("supervise", *there)
    await second.says("took over")
    programs = await begin(shared, there, start, tmp_path, pause_s=0.02)
    state = await ended(shared, "r1")
    check(await told(collector, shared, [second, *programs]), state)


async def test_collector_that_is_busy_is_asked_again(
    collector: Receiver, shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    programs = await begin(shared, there, start, tmp_path, pause_s=0.05)
    collector.refuse = 2
    state = await ended(shared, "r1")
    await until(lambda: collector.refused == 2, "the collector to refuse")
    check(await told(collector, shared, programs), state)


async def test_collector_that_is_away_holds_nobody_up(
    shared: Board, there: list[str], start: Start, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9")
    team = write(tmp_path, "agents", AGENTS)
    programs = [start("supervise", *there), start("attach", team, *there)]
    await offered(shared, "agents", "reader", "adder")
    async with asyncio.timeout(40):
        published = await call("publish", "agents", "--input", '{"numbers": [1, 2]}', "--json", *there)
        assert published.code == 0
        run = published.json["run"]
        assert (await ended(shared, run)).end == "DONE"
        for program in programs:
            assert await program.stop() == 0
