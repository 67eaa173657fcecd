"""A board on the real server where runs ask people: a supervisor and small specialists at work in this process, and the
command as a person calls it."""

import asyncio
from collections.abc import Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any

from click.testing import CliRunner

from blackboard.board import Board
from blackboard.cli import cli
from blackboard.client import Client
from projections.canonical import State
from schemas.inputs import Question
from schemas.tasks import Task
from tests.end_to_end.support import run_until
from tests.projections import scripted
from tests.projections.called import Call
from tests.projections.scripted import Scripted, done

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
        "team": "agreed",
        "steps": [{"id": "agree", "question": {"ask": "is it so?", "answer": {"type": "boolean"}}}],
        "returns": {"agree": "facts.agree"},
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


SPECIALISTS = {
    name: Scripted(says, {"offers": [name]})
    for name, says in {"write": write, "dig": dig, "send": send, "fetch": fetch}.items()
}


def at_work(board: Board) -> AbstractAsyncContextManager[Client]:
    """A supervisor, and a specialist for each capability under its name; the client of who publishes."""
    return scripted.at_work(board, SPECIALISTS, TEAMS)


async def asks(board: Board, client: Client, team: str, run: str) -> State:
    """The run, once it waits for a person."""
    await client.publish(team, {}, run)
    return (await run_until(board, run, lambda state: state.end or state.phase == "NEEDS_INPUT")).state


class Person:
    """Calls the command under a name of its own."""

    def __init__(self, name: str, there: Sequence[str]) -> None:
        self._options = ["--name", name, *there]  # before the words, so that `--` may be among them

    async def __call__(self, *words: str, stdin: str | None = None) -> Call:
        result = await asyncio.to_thread(CliRunner().invoke, cli, [words[0], *self._options, *words[1:]], stdin)
        if result.exception and not isinstance(result.exception, SystemExit):
            raise result.exception
        return Call(result.exit_code, result.stdout, result.stderr)
