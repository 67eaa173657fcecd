"""Spans and log lines of a worker say what an execution and a priced tool cost, and a question is no failure."""

import logging
from typing import Any

import pytest

from blackboard import telemetry
from blackboard.logs import Lines
from schemas.tasks import Item
from schemas.usage import Usage
from specialists.spans import end_of_execution
from specialists.specialist import Context, HandOff, tool
from specialists.worker_events import Finished
from tests.specialists.bench import Bench, Word, named
from tests.telemetry.receiver import Received, Receiver


async def look_up(word: str) -> str:
    return word


async def free() -> None:
    return None


async def spends(item: Word, context: Context) -> dict[str, str]:
    await context.tool(free)
    context.use(input_tokens=5, usd=0.1)
    if item.word == "other":
        raise HandOff("others")
    if item.word == "ask":
        await context.ask("what?", {})
    return {"word": await context.tool(look_up, word=item.word)}


SPENDER = named(spends, tools=[free, tool(look_up, usd=0.25)], authority="propose")


@pytest.fixture
async def spans(bench: Bench, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> list[Received]:
    caplog.set_level(logging.INFO)
    with Receiver() as collector:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
        with telemetry.tracing("worker"):
            for word in ("hello", "ask", "other"):
                await bench.put(Item("key", {"word": word}), name=word)
            async with bench.working(SPENDER):
                await bench.until(bench.idle)
    return collector.spans


def by_task(spans: list[Received], name: str) -> dict[str, dict[str, Any]]:
    return {one.attributes["blackboard.task"]: one.attributes for one in spans if one.name == name}


async def test_cost_in_spans(bench: Bench, spans: list[Received]) -> None:
    executions = by_task(spans, "invoke_agent worker")
    used = {one.key.task: one.usage for one in bench.told if isinstance(one, Finished)}
    assert used == {"hello": Usage(5, 0, 2, 350_000), "ask": Usage(5, 0, 1, 100_000), "other": Usage(5, 0, 1, 100_000)}
    assert {task: said["blackboard.execution.micro_usd"] for task, said in executions.items()} == {
        task: usage.micro_usd for task, usage in used.items()
    }
    assert by_task(spans, "execute_tool look_up")["hello"]["blackboard.tool.micro_usd"] == 250_000
    assert all("blackboard.tool.micro_usd" not in said for said in by_task(spans, "execute_tool free").values())


async def test_what_goes_on_has_not_failed(spans: list[Received]) -> None:
    outcomes = {task: said["blackboard.outcome"] for task, said in by_task(spans, "invoke_agent worker").items()}
    assert outcomes == {"hello": "DONE", "ask": "NEEDS_INPUT", "other": "HANDED_OFF"}
    assert [one.name for one in spans if one.failed] == []
    assert end_of_execution(Usage(), "BUDGET_EXCEEDED", "stored")["error.type"] == "BUDGET_EXCEEDED"


@pytest.mark.usefixtures("spans")
async def test_cost_in_lines(caplog: pytest.LogCaptureFixture) -> None:
    stored = [one for one in caplog.get_records("setup") if one.getMessage() == "task stored"]
    said = {one.task: Lines().format(one).partition("micro_usd ")[2].split()[0] for one in stored}  # type: ignore[attr-defined]
    assert said == {"hello": "350000", "ask": "100000", "other": "100000"}
