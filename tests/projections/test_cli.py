"""The verbs of those who look on, against a real server: what they print, where, and with which exit code."""

import asyncio
import json
import subprocess
import sys
from pathlib import Path

import pytest

from blackboard.board import open_board
from blackboard.client import Client
from blackboard.log import Append
from tests.projections.called import Blackboard
from tests.projections.world import ended, serving, teach

# --- watch ---


@pytest.mark.parametrize(("run", "code", "end"), [("done", 0, "DONE"), ("cancelled", 6, "CANCELLED")])
def test_watch(blackboard: Blackboard, run: str, code: int, end: str) -> None:
    called = blackboard("watch", run)
    assert called.code == code
    assert f"{run} is {end}" in called.err
    assert called.out == ('{"total":2}\n' if end == "DONE" else "")


def test_watch_of_a_failure(blackboard: Blackboard) -> None:
    called = blackboard("watch", "failed", "--json")
    assert called.code == 4
    assert (called.records[-1]["end"], called.records[-1]["code"]) == ("FAILED_RETRYABLE", "TOOL_DOWN")
    assert called.err == ""


def test_watch_of_a_rejected_goal(blackboard: Blackboard) -> None:
    called = blackboard("watch", "rejected")
    assert called.code == 4
    assert "was rejected: input:" in called.err


async def test_watch_while_it_goes_on(url: str, blackboard: Blackboard) -> None:
    async with open_board(url, "cli-live", create=True) as board:
        await teach(board)
        async with serving(board):
            await Client(board, "me").publish("survey", {"names": ["x"]}, "live")
            called = await asyncio.to_thread(blackboard, "watch", "@last", "--board", "cli-live", "--json")
    assert called.code == 0
    versions = [record["version"] for record in called.records]
    assert versions == sorted(set(versions))
    assert called.records[-1]["result"] == {"total": 1}


# --- tail ---


def test_tail(blackboard: Blackboard) -> None:
    lines = blackboard("tail").out.splitlines()
    assert [int(line.split()[0]) for line in lines] == list(range(1, len(lines) + 1))
    assert any("contract" in line and "alice" in line and "offers look" in line for line in lines)
    assert any("fact" in line and "run_opened survey, plan_committed" in line for line in lines)
    assert any("obs" in line and "ended" in line and "claims seen.x" in line for line in lines)


def test_tail_as_json(blackboard: Blackboard) -> None:
    records = blackboard("tail", "--json", "--after", "3", "--run", "done").records
    assert records[0]["family"] == "goal"
    assert records[0]["seq"] > 3
    assert {record["run"] for record in records} == {"done"}
    assert next(record["body"]["first"] for record in records if record["family"] == "fact") == 1


@pytest.mark.usefixtures("blackboard")
def test_tail_follows() -> None:
    """Until it is told to stop, like any other program: Ctrl-C, exit code 130."""
    command = [sys.executable, "-c", "from projections.cli import tail; tail()", "--follow", "--json", "--run", "waits"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        assert json.loads(process.stdout.readline())["family"] == "goal"
        process.send_signal(2)
        assert process.wait(10) == 130


# --- runs ---


def test_runs(blackboard: Blackboard) -> None:
    lines = blackboard("runs").out.splitlines()
    assert [line.split()[0] for line in lines[1:]] == ["done", "failed", "cancelled", "waits"]
    assert "FAILED_RETRYABLE" in lines[2]
    assert "add" in lines[4]


def test_runs_as_json(blackboard: Blackboard) -> None:
    records = {record["run"]: record for record in blackboard("runs", "--json").records}
    assert records["done"]["conflicts"] == 1
    assert records["waits"]["waiting_for"] == "add"
    assert blackboard("runs", "--json").records == list(records.values()), "a second look gives the same"


def test_runs_with_a_damaged_view(blackboard: Blackboard, tmp_path: Path) -> None:
    blackboard("runs")
    (path,) = (tmp_path / "cache" / "blackboard" / "views").glob("*.sqlite")
    path.write_bytes(b"nonsense" * 1000)
    called = blackboard("runs")
    assert called.code == 1
    assert f"{path} cannot be used" in called.err
    assert "delete it" in called.err
    path.unlink()
    assert blackboard("runs").code == 0


def test_runs_of_an_empty_board(url: str, blackboard: Blackboard) -> None:
    async def create() -> None:
        async with open_board(url, "cli-empty", create=True):
            pass

    asyncio.run(create())
    called = blackboard("runs", "--board", "cli-empty")
    assert (called.code, called.out) == (0, "")
    assert "`blackboard publish`" in called.err


# --- show ---


def test_show(blackboard: Blackboard) -> None:
    out = blackboard("show", "done").out
    assert out.startswith("done  DONE  team survey, published by me\n")
    assert "3 facts, 1 disputed: seen.x, seen.y, total" in out
    assert 'result {"total":2}' in out


def test_show_of_a_run_that_waits(blackboard: Blackboard) -> None:
    assert "step total waits for a specialist that offers add\n" in blackboard("show", "wai").out
    record = blackboard("show", "waits", "--json").record
    assert record["waits"] == ["step total waits for a specialist that offers add"]
    assert [step["status"] for step in record["steps"]] == ["decided", "waiting"]


def test_show_of_the_board(blackboard: Blackboard) -> None:
    (rejection,) = blackboard("show", "_board", "--json").record["rejected"]
    assert (rejection["author"], rejection["subject"].split(".")[-1]) == ("me", "rejected")
    assert "breaks" in rejection["reason"]
    assert str(rejection["seq"]) in blackboard("show", "_board").out


@pytest.mark.parametrize(("run", "phase"), [("rejected", "REJECTED"), ("unheard", "GOAL")])
def test_show_of_a_goal_without_history(blackboard: Blackboard, run: str, phase: str) -> None:
    assert blackboard("show", run, "--json").record["phase"] == phase
    assert ("was rejected" in blackboard("show", run).out) == (phase == "REJECTED")


# --- why ---


def test_why(blackboard: Blackboard) -> None:
    out = blackboard("why", "done", "seen.x").out
    assert out.startswith('seen.x = "X"\n  decided by priority version 1 (alice > bob), event ')
    assert "claimed by alice, task each-0 attempt 1: confidence 0.5" in out
    assert 'lost bob, task each-1 attempt 1: "x?": ' in out
    assert "agreed carol" in out
    assert (
        "declined carol, task each-5 attempt 1: LOW_CONFIDENCE: never heard of it"
        in blackboard("why", "done", "seen.y").out
    )


def test_why_of_a_missing_key(blackboard: Blackboard) -> None:
    assert blackboard("why", "failed", "seen.down").out.startswith("seen.down has no value: TOOL_DOWN")


def test_why_of_an_unknown_key(blackboard: Blackboard) -> None:
    called = blackboard("why", "done", "seen.z")
    assert called.code == 1
    assert "did you mean seen.x, seen.y" in called.err.replace("seen.y, seen.x", "seen.x, seen.y")


# --- rebuild ---


def test_rebuild(blackboard: Blackboard) -> None:
    now = blackboard("rebuild", "done", "--json").record
    version = now["version"]
    told = {"run": "done", "version": version, "budget_kept": version}
    assert now == blackboard("show", "done", "--json").record["digests"] | told
    then = blackboard("rebuild", "done", "--version", "3", "--json").record
    assert then["version"] == 3
    assert then["head"] != now["head"]


def test_rebuild_all_with_check(blackboard: Blackboard) -> None:
    called = blackboard("rebuild", "--all", "--check", "--json")
    records = {record["run"]: record for record in called.records}
    assert sorted(records) == ["_board", "cancelled", "done", "failed", "waits"]
    assert records["done"]["states"] >= 1
    assert blackboard("rebuild", "done", "--check", "--json").record == records["done"]
    assert called.err == "5 runs checked\n"
    assert len(blackboard("rebuild", "--all").out.splitlines()) == 5


@pytest.mark.parametrize("check", [[], ["--check"]])
def test_rebuild_of_a_broken_run(url: str, blackboard: Blackboard, check: list[str]) -> None:
    board = f"cli-broken{len(check)}"

    async def forge() -> None:
        async with open_board(url, board, create=True) as opened:
            await teach(opened)
            async with serving(opened):
                await Client(opened, "me").publish("survey", {"names": ["x"]}, "one")
                await ended(opened, "one")
            last = await opened.log.last(opened.subjects.fact("one"))
            assert last is not None
            await opened.log.append(Append(last.subject, last.data))

    asyncio.run(forge())
    for arguments in (["one"], ["--all"]):
        called = blackboard("rebuild", *arguments, *check, "--board", board)
        assert called.code == 1
        assert "blackboard: run one, event " in called.err


# --- errors ---


def test_run_that_is_not_there(blackboard: Blackboard) -> None:
    none = blackboard("show", "nothing")
    assert (none.code, none.out) == (1, "")
    assert none.err == "blackboard: no run on this board begins with 'nothing'; `blackboard runs` lists them\n"


def test_fact_of_a_run_without_history(blackboard: Blackboard) -> None:
    called = blackboard("why", "unheard", "x")
    assert called.code == 1
    assert "it has decided none" in called.err


def test_no_board(blackboard: Blackboard) -> None:
    assert blackboard("runs", "--board", "nowhere").code in {1, 69}
    called = blackboard("show", "done", "--nats", "nats://127.0.0.1:1")
    assert called.code == 69
    assert len(called.err.splitlines()) == 1


@pytest.mark.parametrize(
    "arguments",
    [
        ["rebuild"],
        ["rebuild", "done", "--all"],
        ["rebuild", "done", "--version", "0"],
        ["why", "done"],
        ["tail", "--x"],
    ],
)
def test_usage(blackboard: Blackboard, arguments: list[str]) -> None:
    assert blackboard(*arguments).code == 2


def test_help_loads_nothing_heavy() -> None:
    code = "import sys, projections.cli; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()
    assert not {"rich", "eventsourcing", "nats", "pydantic", "msgspec", "orjson", "asyncio"} & set(loaded)
