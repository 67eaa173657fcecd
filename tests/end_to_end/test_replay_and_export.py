"""Recorded runs of a real board are decided again by the command, from the board and from files."""

import os
from pathlib import Path

from blackboard.board import Board
from blackboard.client import Client
from blackboard.history_file import HistoryFile
from blackboard.log import Append
from supervisor.decide import RULES
from tests.end_to_end import teams
from tests.end_to_end.support import (
    Start,
    call,
    call_python,
    ended,
    history_of,
    messages_on,
    offered,
    runs_on,
    verdict_on,
)

RUNS = 8
PLANTED = """
import sys
from supervisor import merge
from blackboard.cli import main

only = merge._POLICIES["only"]
merge._POLICIES["only"] = lambda policy, accepted: merge.Merged(False, None, None, (), "nobody is believed today")
sys.argv = ["blackboard", *{words!r}]
main()
"""


async def squares_on(board: Board, there: list[str], start: Start, folder: Path) -> list[str]:
    """Runs that have ended, and one input that was rejected."""
    start("supervise", *there)
    start("attach", teams.write(folder, "squares", teams.SQUARES), *there)
    await offered(board, "squares", "squarer", "adder")
    client = Client(board, "publisher")
    runs = [await client.publish("squares", {"numbers": [*range(-1, n)]}, f"squares-{n}") for n in range(RUNS)]
    (stored,) = await board.log.append(Append(board.subjects.goal("publisher", "odd"), b"no goal\xff"))
    for run in runs:
        await ended(board, run)
    await verdict_on(board, getattr(stored, "seq", 0), "_board")
    return runs


async def test_one_run_all_runs_and_files(shared: Board, there: list[str], start: Start, tmp_path: Path) -> None:
    runs = await squares_on(shared, there, start, tmp_path)
    head = await shared.log.head()

    one = await call("replay", "squares-3", *there, "--json")
    folded, _ = await history_of(shared, "squares-3")
    assert one.code == 0, one
    assert one.json | {"inputs": 0} == {
        "equal": True,
        "run": "squares-3",
        "version": folded.state.version,
        "head": folded.h,
        "rules": [RULES],
        "inputs": 0,
        "waiting": 0,
    }
    everything = await call("replay", "--all", *there, "--json")
    assert (everything.code, len(everything.lines)) == (0, RUNS + 1)
    assert {line["run"] for line in everything.lines} == {*runs, "_board"} == set(await runs_on(shared))
    assert f"{RUNS + 1} runs decided again: {RUNS + 1} equal, 0 not" in everything.err
    assert await shared.log.head() == head, "nothing was appended"

    whole, part = tmp_path / "all.jsonl", tmp_path / "one.jsonl"
    said = await call("export", "--all", str(whole), *there, "--json")
    assert said.json["sha256"] == HistoryFile(whole).trailer.sha256
    assert list(HistoryFile(whole)) == await messages_on(shared)
    assert HistoryFile(whole).header.log == shared.log.id

    assert (await call("export", "squares-3", str(part), *there)).code == 0
    kept = {shared.subjects.parse(message.subject).run for message in HistoryFile(part)}
    assert kept == {"", "squares-3"}
    piped = await call("export", "squares-3", "-", *there)
    assert piped.out.encode() == part.read_bytes()

    for path, count in ((whole, RUNS + 1), (part, 1)):
        again = await call("replay", str(path), "--json", BLACKBOARD_NATS="nats://127.0.0.1:1")
        assert (again.code, len(again.lines)) == (0, count), again
        shown = sorted(again.lines, key=lambda line: str(line["run"]))
        assert [line for line in shown if line["run"] == "squares-3"] == [one.json]


async def test_changed_rule_is_found(shared: Board, there: list[str], start: Start, tmp_path: Path) -> None:
    await squares_on(shared, there, start, tmp_path)
    found = await call_python(PLANTED.format(words=["replay", "squares-2", *there, "--json"]))
    assert found.code == 1
    record = found.json
    assert (record["run"], record["equal"]) == ("squares-2", False)
    assert record["recorded"]["type"] == "fact_committed"
    assert record["decided"]["type"] == "fact_missing"
    assert record["recorded"]["cause"] == record["decided"]["cause"]
    assert {"field": "type", "recorded": "fact_committed", "decided": "fact_missing"} in record["fields"]

    everything = await call_python(PLANTED.format(words=["replay", "--all", *there]))
    assert everything.code == 1
    assert f"decided again: 2 equal, {RUNS - 1} not" in everything.err, "where nobody claims anything, nothing changes"
    assert everything.out.count("recorded event  {") == RUNS - 1


async def test_run_that_is_not_there_makes_no_file(shared: Board, there: list[str], tmp_path: Path) -> None:
    path = tmp_path / "nothing.jsonl"
    for words in (("export", "nothing", str(path)), ("replay", "nothing")):
        refused = await call(*words, *there)
        assert (refused.code, refused.err) == (
            1,
            "blackboard: no run on this board begins with 'nothing'; `blackboard runs` lists them\n",
        )
    assert not path.exists()
    assert (await call("export", "x", *there)).code == 2
    assert os.listdir(tmp_path) == []
    empty = await call("replay", "--all", *there, "--json")
    assert (empty.code, empty.out) == (0, "")
    assert "0 runs decided again" in empty.err
