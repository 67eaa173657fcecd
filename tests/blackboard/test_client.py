"""What the client appends, and what it refuses before anything is appended: goals with limits, and answers."""

import asyncio
import json
import math
from typing import Any

import pytest
from click.testing import CliRunner, Result

from blackboard.board import Board
from blackboard.cli import cli
from blackboard.cli_publish import read_budget, read_duration
from blackboard.client import BadInput, Client, RunExists
from blackboard.log import Append
from blackboard.memory import MemoryBlobs, MemoryLog
from blackboard.memory_queue import MemoryQueue
from blackboard.server import EmbeddedServer
from schemas.codec import VALUE_LIMIT, encode, encode_facts
from schemas.events import Cause, GateOpened
from schemas.goals import Budget, Goal, read_goal
from schemas.inputs import Answer, read_input
from schemas.playbooks import Playbook, Step
from schemas.subjects import Subjects
from schemas.usage import COUNT_LIMIT
from tests.conftest import TestBoard

TEAM = Playbook(team="team", steps=[Step(id="a", capability="c")])
DIGEST = "d" * 64


@pytest.fixture
async def client() -> Client:
    """On a board in memory."""
    subjects = Subjects()
    client = Client(Board(subjects, MemoryLog(subjects), MemoryQueue(), MemoryBlobs()), "ann")
    await client.teach(TEAM)
    return client


async def goal_of(client: Client, run: str) -> Goal:
    message = await client.board.log.last(client.board.subjects.goal("ann", run))
    assert message is not None
    goal = read_goal(message.data)
    assert isinstance(goal, Goal)
    return goal


# --- goals with limits ------------------------------------------------------------------------------------------------


async def test_goal_has_a_budget_and_a_deadline(client: Client) -> None:
    run = await client.publish("team", {}, budget=Budget(tokens=9, micro_usd=1_250_000), deadline_s=600)
    goal = await goal_of(client, run)
    assert (goal.budget, goal.deadline_s) == (Budget(tokens=9, micro_usd=1_250_000), 600)
    plain = await goal_of(client, await client.publish("team", {}))
    assert (plain.budget, plain.deadline_s) == (Budget(), None)


async def test_goal_with_other_limits_is_another_goal(client: Client) -> None:
    await client.publish("team", {}, "r1", budget=Budget(tokens=9))
    await client.publish("team", {}, "r1", budget=Budget(tokens=9))
    with pytest.raises(RunExists):
        await client.publish("team", {}, "r1", budget=Budget(tokens=10))


@pytest.mark.parametrize("deadline_s", [0, -1, math.nan, math.inf, 367 * 86_400])
async def test_deadline_that_cannot_be_is_refused(client: Client, deadline_s: float) -> None:
    with pytest.raises(BadInput, match="deadline_s: is not allowed"):
        await client.publish("team", {}, "r1", deadline_s=deadline_s)
    assert await client.board.log.last(client.board.subjects.goal("ann", "r1")) is None


@pytest.mark.parametrize(
    ("texts", "budget"),
    [
        ((), Budget()),
        (("tokens=1000,usd=1.25",), Budget(tokens=1_000, micro_usd=1_250_000)),
        (("tokens=1000", "tool-calls=0"), Budget(tokens=1_000, tool_calls=0)),
        (("usd=0.1, tokens=1e3",), Budget(tokens=1_000, micro_usd=100_000)),
        (("usd=0.000001",), Budget(micro_usd=1)),
        ((f"tokens={COUNT_LIMIT}",), Budget(tokens=COUNT_LIMIT)),
    ],
)
def test_budget_on_the_command_line(texts: tuple[str, ...], budget: Budget) -> None:
    assert read_budget(texts) == budget


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "'' is none of tokens=N, tool-calls=N and usd=X"),
        ("tokens", "tokens='' is no number"),
        ("tokens=", "tokens='' is no number"),
        ("tokens=many", "tokens='many' is no number"),
        ("tokens=1.5", "is not a whole number, from 0 on"),
        ("tokens=-1", "is not a whole number, from 0 on"),
        (f"tokens={COUNT_LIMIT + 1}", "is not a whole number, from 0 on"),
        ("tokens=1,tokens=2", "tokens is said twice"),
        ("tokens=1,", "'' is none of"),
        ("dollars=1", "'dollars=1' is none of"),
        ("usd=0.0000001", "is not dollars and millionths of them"),
        ("usd=nan", "is not dollars"),
        ("usd=inf", "is not dollars"),
        ("usd=9e999999", "is not dollars"),
        ("usd=1€", "usd='1€' is no number"),
    ],
)
def test_bad_budget_on_the_command_line(text: str, problem: str) -> None:
    with pytest.raises(BadInput) as error:
        read_budget((text,))
    assert str(error.value).startswith("--budget: ")
    assert problem in str(error.value)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [("10m", 600), ("90", 90), ("90s", 90), ("1h30m", 5_400), ("2d", 172_800), ("1.5h", 5_400), ("0.5", 0.5)],
)
def test_deadline_on_the_command_line(text: str, seconds: float) -> None:
    assert read_duration(text) == seconds


@pytest.mark.parametrize("text", ["", "0", "0s", "-1", "10x", "1 h", "h", "1e3", "nan", "367d", "10m5", "10ms", "m10"])
def test_bad_deadline_on_the_command_line(text: str) -> None:
    with pytest.raises(BadInput, match=r"--deadline: '.*' is no time of at most 366 days; write 90s, 10m, 1h30m or 2d"):
        read_duration(text)


# --- answers ----------------------------------------------------------------------------------------------------------

COUNT = {"type": "integer", "minimum": 1}


async def ask(board: Board, schema: dict[str, Any] | None, digest: str = DIGEST, first: int = 1) -> None:
    """An event as the supervisor writes it."""
    cause = Cause(1, "c" * 64)
    opened = GateOpened(
        at=1, cause=cause, gate="step.1", ask="?", action=None, digest=digest, delay_ms=1, task="step", schema=schema
    )
    data = encode_facts(board.log.id, "r1", first, "0" * 64, [encode(opened)])
    await board.log.append(Append(board.subjects.fact("r1"), data))


async def answers(board: Board) -> list[Any]:
    read = [one async for one in board.log.read("bb.main.signal.ann.r1")]
    return [read_input(one.seq, one.subject, board.subjects.parse(one.subject), 0, one.data).body for one in read]


@pytest.mark.parametrize("schema", [COUNT, {}])
async def test_answer_is_appended(client: Client, schema: dict[str, Any]) -> None:
    await ask(client.board, schema)
    seq = await client.answer("r1", "step.1", DIGEST, 3)
    assert await answers(client.board) == [Answer(gate="step.1", digest=DIGEST, value=3)]
    assert seq == await client.board.log.head()


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (0, r"the answer to 'step.1': / breaks /minimum; its schema is "),
        ("3", "/ breaks /type"),
        (math.nan, "the answer: a number that is not finite"),
        (2**70, "the answer: a whole number of more than 64 bits"),
        ("x" * VALUE_LIMIT, f"the answer: {VALUE_LIMIT + 2} bytes, the limit is {VALUE_LIMIT}"),
        (object(), "the answer cannot be JSON"),
        ("\ud800", "the answer cannot be JSON"),
    ],
)
async def test_answer_that_would_be_refused_is_not_appended(client: Client, value: Any, problem: str) -> None:
    await ask(client.board, COUNT)
    with pytest.raises(BadInput) as error:
        await client.answer("r1", "step.1", DIGEST, value)
    assert problem in str(error.value)
    assert await answers(client.board) == []


async def test_value_for_what_wants_an_approval_is_refused(client: Client) -> None:
    await ask(client.board, None)
    with pytest.raises(BadInput, match=r"gate 'step\.1' asks for no value: approve or deny it"):
        await client.answer("r1", "step.1", DIGEST, True)


async def test_answer_is_checked_by_the_question_that_it_cites(client: Client) -> None:
    """A gate is named after task and attempt; the digest says which question it is."""
    await ask(client.board, COUNT)
    await ask(client.board, {"type": "string"}, "e" * 64, 2)
    await client.answer("r1", "step.1", "e" * 64, "three")
    with pytest.raises(BadInput):
        await client.answer("r1", "step.1", DIGEST, "three")
    await client.answer("r1", "step.1", "f" * 64, "whatever")  # the run will say what it thinks of that


# --- the command ------------------------------------------------------------------------------------------------------


async def published(server: EmbeddedServer, board: TestBoard, *options: str) -> Result:
    client = Client(Board(board.subjects, board.log, board.queue, board.blobs), "ann")
    await client.teach(TEAM)
    where = ["--nats", server.url, "--board", board.subjects.board, "--name", "ann"]
    return await asyncio.to_thread(CliRunner().invoke, cli, ["publish", "team", "--run", "r1", *options, *where])


async def test_command_publishes_limits(server: EmbeddedServer, board: TestBoard) -> None:
    shown = await published(
        server, board, "--budget", "tokens=1000,usd=1.25", "--budget", "tool-calls=3", "--deadline", "10m"
    )
    assert (shown.exit_code, shown.output) == (0, "r1\n")
    message = await board.log.last(board.subjects.goal("ann", "r1"))
    assert message is not None
    goal = read_goal(message.data)
    assert isinstance(goal, Goal)
    assert (goal.budget, goal.deadline_s) == (Budget(tokens=1_000, tool_calls=3, micro_usd=1_250_000), 600)


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        (["--budget", "usd=-1"], "--budget: usd='-1' is not dollars and millionths of them, from 0 on"),
        (["--deadline", "soon"], "--deadline: 'soon' is no time of at most 366 days; write 90s, 10m, 1h30m or 2d"),
    ],
)
async def test_command_refuses_limits_in_one_sentence(
    server: EmbeddedServer, board: TestBoard, options: list[str], problem: str
) -> None:
    shown = await published(server, board, *options)
    assert (shown.exit_code, shown.stderr) == (2, f"blackboard: {problem}\n")
    as_json = await published(server, board, *options, "--json")
    assert json.loads(as_json.stdout) == {"error": problem, "exit_code": 2}
    assert await board.log.last(board.subjects.goal("ann", "r1")) is None
