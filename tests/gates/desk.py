"""A board on the real server where runs ask people: a supervisor and small specialists at work in this process, and the
command as a person calls it."""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import Any

from click.testing import CliRunner

from blackboard.board import Board
from blackboard.cli import cli
from blackboard.client import Client
from blackboard.queue import QueueGone
from schemas.contracts import Contract
from schemas.events import Claim
from schemas.inputs import Ended, Observation, Question, ToolCalled
from schemas.playbooks import Playbook
from schemas.tasks import Task, decode_task
from schemas.usage import Usage
from supervisor.service import Supervisor
from tests.projections.called import Call

RISK = {"type": "object", "properties": {"risk": {"enum": ["low", "high"]}}, "required": ["risk"]}
TEAMS: list[dict[str, Any]] = [
    {
        "team": "choice",
        "steps": [{"id": "colour", "question": {"ask": "which colour?", "answer": {"enum": ["red", "green", 3]}}}],
        "returns": {"colour": "facts.colour"},
    },
    {
        "team": "rated",
        "steps": [{"id": "rate", "question": {"ask": "how risky?", "answer": RISK, "who": ["ann", "bob"]}}],
        "returns": {"rate": "facts.rate"},
    },
    {
        "team": "named",
        "steps": [{"id": "name", "question": {"ask": "whose?", "answer": {"type": "string", "minLength": 2}}}],
        "returns": {"name": "facts.name"},
    },
    {
        "team": "signed",
        "steps": [{"id": "write", "capability": "write", "gate": {"ask": "write it?", "who": ["ann"]}}],
        "returns": {"write": "facts.write"},
    },
    {
        "team": "both",
        "steps": [
            {"id": "write", "capability": "write", "gate": {"ask": "write it?"}},
            {"id": "colour", "question": {"ask": "which colour?", "answer": {"enum": ["red", "green"]}}},
        ],
        "returns": {"write": "facts.write"},
    },
    {"team": "dug", "steps": [{"id": "dig", "capability": "dig"}], "returns": {"dig": "facts.dig"}},
    {"team": "sent", "steps": [{"id": "send", "capability": "send"}], "returns": {"send": "facts.send"}},
    {
        "team": "tooled",
        "steps": [{"id": "fetch", "capability": "fetch"}],
        "returns": {"fetch": "facts.fetch"},
        "repeats": 2,
        "on_loop": "ask",
    },
]

Answering = Callable[[Task], Sequence[dict[str, Any]]]
"""What a specialist says of a task: observations as fields, the last one its end."""


def done(task: Task, value: Any) -> dict[str, Any]:
    return {"claims": tuple(Claim(item.key, value) for item in task.items)}


def write(task: Task) -> list[dict[str, Any]]:
    return [done(task, "written")]


def dig(task: Task) -> list[dict[str, Any]]:
    """Asks how deep, and says what it was told."""
    if task.answers:
        return [done(task, task.answers[-1].value)]
    schema = {"type": "integer", "minimum": 1}
    return [{"code": "NEEDS_INPUT", "question": Question(ask="how deep?", schema=schema, action={"spade": "big"})}]


def send(task: Task) -> list[dict[str, Any]]:
    """Asks before it acts."""
    if task.answers:
        return [done(task, "sent")]
    return [{"code": "NEEDS_INPUT", "question": Question(ask="send it?", action={"to": "carol", "cost": 5})}]


def fetch(task: Task) -> list[dict[str, Any]]:
    """Calls a tool in vain, three times."""
    called = {"tool": "get", "input": "0" * 64, "code": "TOOL_DOWN", "message": "no answer"}
    return [called, called, called, done(task, "fetched")]


SPECIALISTS: dict[str, Answering] = {"write": write, "dig": dig, "send": send, "fetch": fetch}


@asynccontextmanager
async def at_work(board: Board, teams: Sequence[dict[str, Any]] = TEAMS) -> AsyncIterator[Client]:
    """A supervisor, and a specialist for each capability under its name; the client of who publishes."""
    client, stop = Client(board, "pat"), asyncio.Event()
    for name in SPECIALISTS:
        await client.offer(Contract(specialist=name, offers=[name], backoff_s=0))
    for team in teams:
        await client.teach(Playbook.model_validate(team))
    await board.queue.ensure(list(SPECIALISTS))
    working = [asyncio.create_task(_work(board, name, stop)) for name in SPECIALISTS]
    working.append(asyncio.create_task(Supervisor(board, mend_s=0.2).run(stop)))
    try:
        yield client
    finally:
        stop.set()
        await asyncio.gather(*working)


async def _work(board: Board, name: str, stop: asyncio.Event) -> None:
    client = Client(board, name)
    while not stop.is_set():
        try:
            delivery = await board.queue.pull(name, 0.05)
        except QueueGone:
            await asyncio.sleep(0.01)
            continue
        if delivery is None:
            continue
        task = decode_task(delivery.data)
        for said in SPECIALISTS[name](task):
            await client.observe(task.run, _observation(task, name, said))
        await delivery.ack()


def _observation(task: Task, name: str, said: dict[str, Any]) -> Observation:
    shared = {"task": task.task, "attempt": task.attempt, "execution": f"{name}-{task.task}-{task.attempt}"}
    if "tool" in said:
        return ToolCalled(**shared, **said)
    return Ended(**shared, **{"usage": Usage(input_tokens=10)} | said)


class Person:
    """Calls the command under a name of its own."""

    def __init__(self, name: str, there: Sequence[str]) -> None:
        self._options = ["--name", name, *there]  # before the words, so that `--` may be among them

    async def __call__(self, *words: str, stdin: str | None = None) -> Call:
        result = await asyncio.to_thread(CliRunner().invoke, cli, [words[0], *self._options, *words[1:]], stdin)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Call(result.exit_code, result.stdout, result.stderr)
