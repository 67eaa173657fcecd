"""`blackboard try`, `attach` and `detach`, as a person uses them."""

import asyncio
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import jsonschema_rs
import pytest
from click.testing import CliRunner, Result

from blackboard.board import Board
from blackboard.cli import cli
from blackboard.cli_schema import message_schema
from blackboard.client import Client
from blackboard.queue import Entry, TaskKey
from blackboard.server import EmbeddedServer
from schemas.codec import encode
from schemas.contracts import STOP_CODES
from schemas.inputs import Ended, read_input
from schemas.tasks import Item, Task
from specialists import cli as commands
from tests.conftest import TestBoard

PATIENCE_S = 30

FILE = """
import asyncio, os
from pydantic import BaseModel
from schemas.playbooks import Playbook, Step
from specialists.specialist import Bid, Budget, Context, HandOff, Stop, Team, specialist, tool

class Item(BaseModel):
    word: str
    times: int = 1

def double(n: int) -> int:
    return 2 * n

@specialist("echo-cli", offers="echoes", tools=[double], version=2)
async def echo(item: Item, context: Context) -> dict[str, str | float]:
    if item.word == "none":
        raise Stop("LOW_CONFIDENCE", "nothing to say")
    if item.word == "shell":
        await context.tool("shell")
    if item.word == "slow":
        await asyncio.sleep(60)
    if item.word == "fact":
        return {"word": context.facts["a.b"]["c"]}
    context.use(input_tokens=5)
    return {"word": item.word * await context.tool(double, n=item.times), "confidence": 0.5}

@specialist("unmade", offers="nothing")
class Unmade:
    def __init__(self) -> None:
        raise KeyError("NO_SUCH_VARIABLE")

    async def __call__(self, item: Item) -> Item:
        return item

@specialist("other", offers="echoes")
def other(item: Item) -> Item:
    print("noise")
    return item

async def pay(to: str, usd: float = 1.5) -> str:
    return f"{to} has {usd}"

def price(item: Item) -> Bid:
    return Bid(can=item.word != "none", confidence=0.75, micro_usd=20_000 * item.times, seconds=1.5)

@specialist("buyer", offers="buying", authority="propose", bid=price, budget=Budget(usd=0.5),
            tools=[tool(pay, confirm=True, usd=0.25)])
async def buyer(item: Item, context: Context) -> dict[str, str]:
    context.use(input_tokens=7, usd=0.0123)
    if item.word == "legal":
        raise HandOff("lawyers", "about a contract")
    if item.word == "dear":
        context.use(usd=1)
    count = await context.ask(f"how many of {item.word}?", {"type": "integer", "minimum": 1}, action={"shelf": "é"})
    return {"bought": f"{count}: {await context.tool(pay, to='ann')}, attempt {context.task.attempt}"}
"""
TEAM = FILE + 'TEAM = Team(Playbook(team="echoing", steps=[Step(id="a", capability="echoes")]), [echo, other])\n'


@pytest.fixture
def file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.setattr(sys, "path", list(sys.path))
    path = tmp_path / "echoes.py"
    path.write_text(FILE)
    return str(path)


@pytest.fixture
def team(file: str) -> str:
    Path(file).write_text(TEAM)
    return file


def run(*arguments: str, **options: Any) -> Result:
    return CliRunner().invoke(cli, arguments, **options)


# --- try --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "words", [["word=ab", "times=2"], ['{"word": "ab", "times": 2}'], ['{"word": "ab"}', "times=2"]]
)
def test_try_says_value_confidence_usage_and_tools(file: str, words: list[str]) -> None:
    shown = run("try", f"{file}:echo", *words, "--json")
    assert shown.exit_code == 0, shown.output
    record = json.loads(shown.stdout)
    assert record["value"] == {"word": "abababab", "confidence": 0.5}
    assert (record["confidence"], record["code"]) == (0.5, "")
    assert record["usage"] == {"input_tokens": 5, "output_tokens": 0, "tool_calls": 1, "micro_usd": 0}
    assert [(call["tool"], call["code"]) for call in record["tools"]] == [("double", "")]


def test_try_for_people(file: str) -> None:
    shown = run("try", f"{file}:echo-cli", "word=ab")
    assert shown.exit_code == 0
    *value, confidence, tool, usage = shown.stdout.splitlines()
    assert json.loads("".join(value)) == {"word": "abab", "confidence": 0.5}
    assert confidence == "confidence 0.5"
    assert tool.startswith("tool double: ok  ")
    assert usage == "input_tokens 5  tool_calls 1"


def test_try_reads_a_file_and_facts(file: str, tmp_path: Path) -> None:
    (tmp_path / "input.json").write_text('{"word": "fact"}')
    shown = run("try", f"{file}:echo", f"@{tmp_path}/input.json", "--fact", 'a.b={"c": "d"}', "--json")
    assert json.loads(shown.stdout)["value"] == {"word": "d"}


def test_what_a_specialist_prints_is_not_in_the_json(file: str) -> None:
    shown = run("try", f"{file}:other", "word=ab", "--json")
    assert json.loads(shown.stdout)["value"] == {"word": "ab", "times": 1}
    assert shown.stderr == "noise\n"


@pytest.mark.parametrize(
    ("word", "code", "exit_code"), [("none", "LOW_CONFIDENCE", 4), ("shell", "POLICY_BLOCKED", 5), ("", "", 0)]
)
def test_try_of_a_specialist_that_stops(file: str, word: str, code: str, exit_code: int) -> None:
    shown = run("try", f"{file}:echo", f"word={word}", "--json")
    assert (shown.exit_code, json.loads(shown.stdout)["code"]) == (exit_code, code)


def test_try_of_an_input_out_of_schema(file: str) -> None:
    shown = run("try", f"{file}:echo")
    assert (shown.exit_code, shown.stdout) == (4, "INVALID_INPUT: word: is missing\n")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["{file}:echo", "{"], "is not JSON"),
        (["{file}:echo", "[1]"], "is a JSON object"),
        (["{file}:echo", "@nowhere"], "nowhere: No such file"),
        (["{file}:echo", "word"], "is not key=value"),
        (["{file}"], "choose one: "),
        (["{file}:nobody"], "it has Unmade, buyer, echo, echo-cli, other, unmade"),
        (["./nowhere.py"], "there is no file"),
        (["{file}:unmade"], "specialist 'unmade' cannot be made: KeyError: 'NO_SUCH_VARIABLE'"),
    ],
)
def test_try_of_what_cannot_be_tried(file: str, arguments: list[str], message: str) -> None:
    shown = run("try", *(one.replace("{file}", file) for one in arguments))
    assert shown.exit_code == 2
    assert message in shown.stderr
    assert shown.stderr.count("\n") == 1


# --- try: bids, questions, hand-offs, money ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("words", "text", "value"),
    [
        (
            ["word=tea", "times=3"],
            "bid: confidence 0.75, 0.06 USD, 1.5 s\n",
            {"can": True, "confidence": 0.75, "micro_usd": 60_000, "seconds": 1.5},
        ),
        (
            ["word=none"],
            "bid: cannot do it\n",
            {"can": False, "confidence": 0.75, "micro_usd": 20_000, "seconds": 1.5},
        ),
    ],
)
def test_try_shows_the_bid(file: str, words: list[str], text: str, value: dict[str, Any]) -> None:
    shown = run("try", f"{file}:buyer", "--bid", *words)
    assert (shown.exit_code, shown.stdout) == (0, text)
    assert json.loads(run("try", f"{file}:buyer", "--bid", *words, "--json").stdout)["value"] == value


def test_try_says_whom_it_is_handed_to(file: str) -> None:
    shown = run("try", f"{file}:buyer", "word=legal")
    assert shown.exit_code == 4
    assert shown.stdout == "HANDED_OFF to lawyers: about a contract\ninput_tokens 7  cost 0.0123 USD\n"
    assert json.loads(run("try", f"{file}:buyer", "word=legal", "--json").stdout)["to"] == "lawyers"


def test_try_holds_the_budget(file: str) -> None:
    shown = run("try", f"{file}:buyer", "word=dear")
    assert shown.exit_code == 4
    assert shown.stdout == (
        "BUDGET_EXCEEDED: the budget is 0.5 USD, 1.0123 USD are used\ninput_tokens 7  cost 1.0123 USD\n"
    )


def test_try_without_a_terminal_says_what_it_asks(file: str) -> None:
    shown = run("try", f"{file}:buyer", "word=tea", input="3\n")
    assert shown.exit_code == 7
    assert shown.stdout.splitlines() == [
        "NEEDS_INPUT: how many of tea?",
        '  action {"shelf": "é"}',
        '  answer {"minimum": 1, "type": "integer"}',
        "input_tokens 7  cost 0.0123 USD",
    ]
    record = json.loads(run("try", f"{file}:buyer", "word=tea", "--json").stdout)
    assert (record["code"], record["question"]["ask"]) == ("NEEDS_INPUT", "how many of tea?")
    assert len(record["question"]["digest"]) == 64


def at_a_terminal(file: str, typed: str) -> "subprocess.CompletedProcess[str]":
    """`try`, with somebody who types."""
    theirs, ours = pty.openpty()
    try:
        os.write(theirs, typed.encode())
        command = [sys.executable, "-m", "blackboard.cli", "try", f"{file}:buyer", "word=tea"]
        return subprocess.run(command, stdin=ours, capture_output=True, text=True, timeout=PATIENCE_S, check=False)
    finally:
        os.close(ours)
        os.close(theirs)


def test_try_asks_at_a_terminal_until_the_answer_fits(file: str) -> None:
    shown = at_a_terminal(file, "many\n0\n3\ny\n")
    assert shown.returncode == 0, shown.stderr
    value, *rest = shown.stdout.split("\ntool ")
    assert json.loads(value) == {"bought": "3: ann has 1.5, attempt 3"}
    assert rest[0].startswith("pay: ok  ")
    assert rest[0].splitlines()[-1] == "input_tokens 21  tool_calls 1  cost 0.2869 USD"
    said = shown.stderr.splitlines()
    assert said[:3] == [
        "how many of tea?",
        '  action {"shelf": "é"}',
        '  answer {"minimum": 1, "type": "integer"}',
    ]
    assert "answer: 'many' is not JSON, which integer needs" in shown.stderr
    assert "the answer: / breaks /minimum" in shown.stderr
    assert '  action {"arguments": {"to": "ann", "usd": 1.5}, "tool": "pay"}' in shown.stderr


def test_try_of_what_is_denied(file: str) -> None:
    shown = at_a_terminal(file, "3\nn\n")
    assert shown.returncode == 5
    assert shown.stdout == "POLICY_BLOCKED: denied: may buyer call pay?\ninput_tokens 14  cost 0.0246 USD\n"


# --- attach and detach ------------------------------------------------------------------------------------------------


class Attached:
    """A worker in a process of its own."""

    def __init__(self, process: asyncio.subprocess.Process) -> None:
        self.process = process

    async def line(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = await asyncio.wait_for(self.process.stdout.readline(), PATIENCE_S)
        assert line, "it ended"
        record: dict[str, Any] = json.loads(line)
        return record

    async def until(self, event: str) -> dict[str, Any]:
        while (record := await self.line())["event"] != event:
            pass
        return record

    async def end(self, how: signal.Signals) -> int:
        self.process.send_signal(how)
        return await asyncio.wait_for(self.process.wait(), PATIENCE_S)


@asynccontextmanager
async def attached(*arguments: str) -> AsyncIterator[Attached]:
    command = [sys.executable, "-m", "blackboard.cli", "attach", *arguments, "--json"]
    process = await asyncio.create_subprocess_exec(*command, stdout=asyncio.subprocess.PIPE)
    try:
        yield Attached(process)
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
        await _read_out(process)


async def _read_out(process: asyncio.subprocess.Process) -> None:
    assert process.stdout is not None
    await process.stdout.read()


def _where(server: EmbeddedServer, board: TestBoard) -> list[str]:
    return ["--nats", server.url, "--board", board.subjects.board, "--name", "tester"]


async def _put(board: TestBoard, word: str, name: str = "echo-cli") -> None:
    task = Task(
        log=board.log.id,
        run="run",
        task="step",
        attempt=1,
        specialist=name,
        contract=1,
        items=(Item("key", {"word": word}),),
        facts={},
        read_version=1,
        wait_ms=1000,
        work_ms=30_000,
        span="0" * 16,
    )
    await board.queue.ensure(["buyer", "echo-cli", "other"])
    await board.queue.put([Entry(TaskKey(name, "run", "step", 1), encode(task))])


async def test_attached_team_offers_works_and_drains(server: EmbeddedServer, board: TestBoard, team: str) -> None:
    await _put(board, "ab")
    async with attached(team, *_where(server, board)) as worker:
        offers = [await worker.line(), await worker.line()]
        assert [(one["specialist"], one["offers"], one["version"]) for one in offers] == [
            ("echo-cli", ["echoes"], 2),
            ("other", ["echoes"], 1),
        ]
        assert (await worker.line())["team"] == "echoing"
        stored = await worker.until("stored")
        assert (stored["run"], stored["task"], stored["code"]) == ("run", "step", "")
        assert await worker.end(signal.SIGTERM) == 0
    view = await Client(_board(board), "tester").catalogue()
    assert view.playbook("echoing") is not None
    assert [name for name, _, _ in view.offering("echoes")] == ["echo-cli", "other"]
    messages = [one async for one in board.log.read(board.subjects.observation("echo-cli", "run"))]
    last = messages[-1]
    end = read_input(last.seq, last.subject, board.subjects.parse(last.subject), last.time_ms, last.data).body
    assert isinstance(end, Ended)
    assert end.claims[0].value == {"word": "abab", "confidence": 0.5}
    assert await board.queue.keys() == set()


async def test_attached_worker_says_what_was_spent_and_who_has_it_now(
    server: EmbeddedServer, board: TestBoard, file: str
) -> None:
    await _put(board, "legal", "buyer")
    async with attached(f"{file}:buyer", *_where(server, board)) as worker:
        stored = await worker.until("stored")
        assert await worker.end(signal.SIGTERM) == 0
    assert (stored["code"], stored["to"], stored["message"]) == ("HANDED_OFF", "lawyers", "about a contract")
    assert stored["usage"] == {"input_tokens": 7, "micro_usd": 12_300}


async def test_contract_on_the_board_shows_everything(server: EmbeddedServer, board: TestBoard, file: str) -> None:
    async with attached(f"{file}:buyer", *_where(server, board)) as worker:
        await worker.until("attached")
        shown = await asyncio.to_thread(run, "schema", "buyer", *_where(server, board))
        assert await worker.end(signal.SIGTERM) == 0
    contract = json.loads(shown.stdout)
    assert contract["budget"] == {"tokens": None, "tool_calls": None, "micro_usd": 500_000}
    assert contract["tools"] == [{"tool": "pay", "scopes": [], "confirm": True, "definition": None, "effect": None}]
    assert len(contract["stops"]) == len(STOP_CODES)
    assert jsonschema_rs.is_valid(message_schema("contract"), contract)
    for schema in (contract["input"], contract["output"]):
        jsonschema_rs.validator_for(schema)


async def test_ctrl_c_releases_what_does_not_end(server: EmbeddedServer, board: TestBoard, file: str) -> None:
    await _put(board, "slow")
    async with attached(f"{file}:echo", "--drain", "0.2", *_where(server, board)) as worker:
        await worker.until("begun")
        worker.process.send_signal(signal.SIGINT)
        await worker.until("released")
        await asyncio.wait_for(worker.process.wait(), PATIENCE_S)
        assert worker.process.returncode == 0
    assert len(await board.queue.keys()) == 1


def _board(board: TestBoard) -> Board:
    return Board(board.subjects, board.log, board.queue, board.blobs)


async def test_detached_specialist_offers_nothing(server: EmbeddedServer, board: TestBoard, file: str) -> None:
    async with attached(f"{file}:other", *_where(server, board)) as worker:
        await worker.until("attached")
        shown = await asyncio.to_thread(run, "detach", "other", *_where(server, board))
        assert (shown.exit_code, shown.stderr) == (0, "")
        assert (await Client(_board(board), "tester").catalogue()).contract("other") is None
        assert await worker.end(signal.SIGTERM) == 0
    again = await asyncio.to_thread(run, "detach", "other", *_where(server, board))
    assert again.exit_code == 2
    assert "no specialist 'other' offers anything on this board (specialists: none)" in again.stderr


def test_attach_says_who_waits(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    from blackboard.options import BoardOptions
    from schemas.contracts import Contract
    from specialists.worker_events import Offered

    offered = Offered(Contract(specialist="echo-cli", version=2, offers=["echoes"]), 7)
    commands._say_event(BoardOptions(), offered, {"echoes": ["run-b", "run-a"]})
    out = capsys.readouterr().out
    assert out == "echo-cli offers echoes (contract version 2); 2 waited for it: run-a, run-b\n"


def test_attach_without_a_board(file: str, tmp_path: Path) -> None:
    shown = run("attach", f"{file}:other", env={"BLACKBOARD_NATS": "nats://127.0.0.1:1"})
    assert shown.exit_code == 69
    assert shown.stderr.startswith("blackboard: ")
    assert shown.stderr.count("\n") == 1


def test_attach_of_what_cannot_be_loaded() -> None:
    shown = run("attach", "./nowhere.py")
    assert (shown.exit_code, shown.stderr) == (2, "blackboard: there is no file ./nowhere.py\n")
