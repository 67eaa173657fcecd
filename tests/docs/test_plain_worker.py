"""examples/plain_worker.py, which knows nothing of our packages, takes part in runs; and what these leave on the log is
what docs/schemas says."""

import ast
import asyncio
import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import aclosing, suppress
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest

from blackboard.board import Board
from blackboard.client import Client
from blackboard.queue import Delivery, QueueGone
from blackboard.server import EmbeddedServer
from projections.canonical import State
from projections.live import follow
from schemas.contracts import Contract
from schemas.playbooks import Playbook, Step
from tests.docs.schemas import FOLDER
from tests.end_to_end.support import PATIENCE_S, Start, call, messages_on, until

EXAMPLE = Path(__file__).parents[2] / "examples" / "plain_worker.py"
CONTRACT = EXAMPLE.with_suffix(".json")
FAMILIES = {"obs": "observation"}
"""Families of subjects that have another name than their schema."""
PLAYBOOK = Playbook(
    team="counting",
    input={"type": "object", "required": ["texts"], "properties": {"texts": {"type": "array"}}},
    result={"type": "object", "required": ["words"], "properties": {"words": {"type": "array"}}},
    returns={"words": "facts.count.*.words"},
    steps=[
        Step(
            id="count",
            capability="word-count",
            for_each="input.texts",
            tasks=2,
            input={"text": "item"},
            missing="allow",
        )
    ],
)

Worker = Callable[..., "subprocess.Popen[bytes]"]


@pytest.fixture
def worker(there: list[str], tmp_path: Path) -> Iterator[Worker]:
    """Starts the example, each execution lasting some seconds longer."""
    running: list[subprocess.Popen[bytes]] = []
    (_, url, _, board) = there

    def begin(lasting_s: float = 0) -> "subprocess.Popen[bytes]":
        longer = f"    __import__('time').sleep({lasting_s})\n    claims, silences = [], []\n"
        program = tmp_path / f"worker_{len(running)}.py"
        program.write_text(EXAMPLE.read_text().replace("    claims, silences = [], []\n", longer))
        running.append(subprocess.Popen([sys.executable, program, url, "", board], cwd=tmp_path))
        return running[-1]

    yield begin
    for process in running:
        process.kill()
        process.wait()


async def offer(there: list[str]) -> None:
    assert (await call("offer", str(CONTRACT), *there)).code == 0


async def published(board: Board, *texts: str) -> str:
    client = Client(board, "tester")
    await client.teach(PLAYBOOK)
    return await client.publish("counting", {"texts": list(texts)})


async def end_of(board: Board, run: str) -> State:
    async with asyncio.timeout(PATIENCE_S), aclosing(follow(board, run)) as following:
        return [folded.state async for folded in following][-1]


async def observed(board: Board, run: str, kind: str) -> list[dict[str, Any]]:
    said = [json.loads(one.data) for one in await messages_on(board, f"bb.{board.subjects.board}.obs.*.{run}")]
    return [one for one in said if one["type"] == kind]


async def appears(board: Board, run: str, kind: str) -> None:
    async def is_there() -> bool:
        return bool(await observed(board, run, kind))

    await until(is_there, f"`{kind}` of {run}")


async def test_a_server_that_is_away_is_told_in_lines(tmp_path: Path) -> None:
    told = tmp_path / "worker.txt"
    with EmbeddedServer(tmp_path / "server") as server, told.open("wb") as output:
        process = await asyncio.create_subprocess_exec(
            sys.executable, EXAMPLE, server.url, stdout=output, stderr=output
        )
        try:
            await until(lambda: "works on board" in told.read_text(), "it to work")
            server.stop()
            await until(lambda: "Connect call failed" in told.read_text(), "it to say that nobody is there")
            assert process.returncode is None
        finally:
            process.kill()
            await process.wait()
    assert "Traceback" not in told.read_text()


async def test_a_run_that_waits_for_it_ends(shared: Board, there: list[str], start: Start, worker: Worker) -> None:
    start("supervise", *there)
    run = await published(shared, "one two three", "", "four")

    async def awaited() -> bool:
        return await Client(shared, "tester").waiting() == {"word-count": [run]}

    await until(awaited, "the run to wait for `word-count`")
    await offer(there)
    worker()
    state = await end_of(shared, run)
    assert (state.end, state.result) == ("DEGRADED", {"words": [3, 1]})
    assert {fact.by for fact in state.facts.values()} == {"plain-words"}
    assert [missing.code for missing in state.missing.values()] == ["LOW_CONFIDENCE"]


async def test_it_is_detached_in_the_middle_of_a_task_that_takes_longer_than_the_server_waits(
    shared: Board, there: list[str], start: Start, worker: Worker
) -> None:
    start("supervise", *there)
    run = await published(shared, "one two")
    await offer(there)
    worker(lasting_s=7)
    await appears(shared, run, "started")
    detached = await call("detach", "plain-words", *there)
    assert detached.code == 0, detached
    assert (await end_of(shared, run)).result == {"words": [2]}
    assert len(await observed(shared, run, "started")) == len(await observed(shared, run, "ended")) == 1


async def test_one_that_is_killed_is_followed_by_another(
    shared: Board, there: list[str], start: Start, worker: Worker
) -> None:
    start("supervise", *there)
    run = await published(shared, "one two")
    await offer(there)
    first = worker(lasting_s=30)
    await appears(shared, run, "started")
    first.kill()
    worker()
    assert (await end_of(shared, run)).result == {"words": [2]}
    assert len(await observed(shared, run, "ended")) == 1


async def test_what_lies_on_the_log_is_what_the_schemas_say(
    shared: Board, there: list[str], start: Start, worker: Worker
) -> None:
    start("supervise", *there)
    await offer(there)
    worker(lasting_s=2)
    await end_of(shared, await published(shared, "one two", "three", ""))
    await Client(shared, "tester").cancel(run := await published(shared, "one two"))
    await end_of(shared, run)
    seen = set()
    for message in await messages_on(shared, *shared.subjects.log):
        family = message.subject.split(".")[2]
        seen.add(family)
        schema = json.loads((FOLDER / f"{FAMILIES.get(family, family)}.json").read_text())
        jsonschema_rs.validate(schema, json.loads(message.data))
    assert seen >= {"goal", "signal", "contract", "playbook", "obs", "fact"}


async def test_what_a_worker_receives_is_what_the_schema_says(shared: Board, there: list[str], start: Start) -> None:
    await Client(shared, "plain-words").offer(Contract(specialist="plain-words", offers=["word-count"]))
    start("supervise", *there)
    await published(shared, "one two")
    received: list[Delivery] = []

    async def pulled() -> bool:
        with suppress(QueueGone):
            received.extend(filter(None, [await shared.queue.pull("plain-words", 1)]))
        return bool(received)

    await until(pulled, "a task")
    jsonschema_rs.validate(json.loads((FOLDER / "task.json").read_text()), json.loads(received[0].data))


def test_it_imports_nothing_of_this_project() -> None:
    tree = ast.parse(EXAMPLE.read_text())
    imported = {name.name for node in ast.walk(tree) if isinstance(node, ast.Import) for name in node.names}
    imported |= {node.module or "" for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    assert {name.partition(".")[0] for name in imported} <= {*sys.stdlib_module_names, "nats"}
