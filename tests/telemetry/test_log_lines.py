"""Log lines: for people, and as JSON with the fields that tell runs, tasks and traces apart."""

import asyncio
import json
import logging
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from blackboard import logs
from blackboard.board import Board
from blackboard.cli_up import _Printer
from blackboard.client import Client
from blackboard.options import BoardOptions
from schemas.spans import trace_id
from tests.end_to_end.support import COMMAND, ROOT, ended, environment_with, offered
from tests.end_to_end.teams import write
from tests.telemetry.team import AGENTS


def record(**extra: Any) -> logging.LogRecord:
    return logging.getLogger("x.y").makeRecord("x.y", logging.WARNING, "f", 1, "it is %s", ("away",), None, extra=extra)


def test_for_people() -> None:
    lines = logs.Lines()
    lines.log = "log-1"
    assert lines.format(record()) == "WARNING x.y: it is away"
    line = lines.format(record(run="r1", task="a", latency_ms=12, code="", tokens=0, other=3))
    assert line == "WARNING x.y: it is away  run r1  task a  latency_ms 12  tokens 0"


def test_as_json() -> None:
    lines = logs.JsonLines()
    assert "trace_id" not in json.loads(lines.format(record(run="r1")))
    lines.log = "log-1"
    line = json.loads(lines.format(record(run="r1", task="a", code="TIMEOUT")))
    assert line.pop("time").endswith("+00:00")
    assert line == {
        "level": "WARNING",
        "logger": "x.y",
        "message": "it is away",
        "run": "r1",
        "task": "a",
        "code": "TIMEOUT",
        "trace_id": trace_id("log-1", "r1"),
    }


def test_exceptions_stay_in_their_line() -> None:
    try:
        raise KeyError("k")
    except KeyError:
        failed = logging.getLogger("x").makeRecord("x", logging.ERROR, "f", 1, "no", (), sys.exc_info())
    assert json.loads(logs.JsonLines().format(failed))["exception"].endswith("KeyError: 'k'")


def test_up_puts_the_process_into_the_object(capsys: pytest.CaptureFixture[str]) -> None:
    say = _Printer(BoardOptions(), True)
    say("worker", '{"message": "m", "run": "r1"}')
    say("worker", "attached")
    say("worker", "[1]")
    assert [json.loads(line) for line in capsys.readouterr().out.splitlines()] == [
        {"process": "worker", "message": "m", "run": "r1"},
        {"process": "worker", "message": "attached"},
        {"process": "worker", "message": "[1]"},
    ]


async def test_lines_of_supervisor_and_worker(shared: Board, there: list[str], tmp_path: Path) -> None:
    team = write(tmp_path, "agents", AGENTS)
    processes = [await begin(*words, *there) for words in (["supervise"], ["attach", team])]
    try:
        await offered(shared, "agents", "reader", "adder")
        await Client(shared, "me").publish("agents", {"numbers": [1, 5]}, "r1")
        state = await ended(shared, "r1")
        for process in processes:
            process.terminate()
        supervisor, worker = [list(objects((await process.communicate())[1])) for process in processes]
    finally:
        for process in processes:
            if process.returncode is None:
                process.kill()
                await process.wait()
    trace = trace_id(shared.log.id, "r1")
    (end,) = [line for line in supervisor if line["message"] == "run ended DONE"]
    tokens = state.usage.input_tokens + state.usage.output_tokens
    assert (end["run"], end["trace_id"], end["tokens"]) == ("r1", trace, tokens)
    assert end["latency_ms"] == state.now - state.opened
    tasks = [line for line in worker if line["message"] == "task stored"]
    assert len(tasks) == 4
    assert {(line["run"], line["trace_id"]) for line in tasks} == {("r1", trace)}
    assert sum(line["tokens"] for line in tasks) == tokens
    assert sorted((line["task"], line["attempt"], line["specialist"], line.get("code")) for line in tasks) == [
        ("read-0", 1, "reader", None),
        ("read-1", 1, "reader", "TOOL_DOWN"),
        ("read-1", 2, "reader", None),
        ("total", 1, "adder", None),
    ]
    assert all(line["latency_ms"] >= 0 for line in tasks)


async def begin(*words: str) -> asyncio.subprocess.Process:
    return await asyncio.create_subprocess_exec(
        *COMMAND,
        *words,
        cwd=ROOT,
        env=environment_with(BLACKBOARD_LOG="json"),
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )


def objects(said: bytes) -> Iterator[dict[str, Any]]:
    """Each line of stderr, which holds nothing but objects."""
    return map(json.loads, said.splitlines())
