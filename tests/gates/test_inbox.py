"""`blackboard inbox`: whatever waits for people, over all runs, with the words that answer it."""

import asyncio
import json
import shlex
import signal
import subprocess
import time
from collections.abc import Iterator

import pytest

from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import Append
from projections.cli_inbox import Inbox
from schemas.codec import chain_start, encode, encode_facts, sha256
from schemas.contracts import Contract
from schemas.events import Cause, RunEnded, RunOpened
from tests.end_to_end.support import ended, environment_with, run_until
from tests.gates.desk import Person, asks
from tests.gates.terminal import HEEDING

FINISHED = 5_000


async def test_everything_that_waits_with_the_words_that_answer_it(
    shared: Board, pat: Client, ann: Person, carol: Person, there: list[str]
) -> None:
    for team in ("signed", "sent", "choice", "rated"):
        await asks(shared, pat, team, f"{team}-run")
    await asks(shared, pat, "choice", "answered")
    assert (await ann("answer", "answered", "red")).code == 0
    await asks(shared, pat, "choice", "ended")
    await pat.cancel("ended")
    await ended(shared, "ended")

    records = (await ann("inbox", "--json")).records
    found = [(one["run"], one["team"], one["gate"], one["kind"], one["ask"], one["who"]) for one in records]
    assert found == [
        ("signed-run", "signed", "write", "approve", "write it?", ["ann"]),
        ("sent-run", "sent", "send.1", "approve", "send it?", []),
        ("choice-run", "choice", "colour", "answer", "which colour?", []),
        ("rated-run", "rated", "rate", "answer", "how risky?", ["ann", "bob"]),
    ], "the oldest first"
    assert all(one["mine"] for one in records)
    for one in records:
        assert 0 <= time.time() * 1000 - one["since_ms"] < 60_000
        assert one["expires_ms"] - one["since_ms"] == 7 * 86_400_000

    values = {"choice-run": "green", "rated-run": '{"risk": "low"}'}
    for one in records:
        words = shlex.split(one["command"])
        assert (words[0], words[-4:]) == ("blackboard", ["--board", there[3], "--name", "ann"]) or "VALUE" in words
        pasted = [values[one["run"]] if word == "VALUE" else word for word in words[1:]]
        said = await ann(*pasted, *(["--yes"] if "VALUE" not in words else []))
        assert said.code == 0, said
        await ended(shared, one["run"])
    none = await ann("inbox")
    assert (none.code, none.out, none.err) == (0, "", "nothing waits for a person\n")
    assert (await ann("inbox", "--json")).out == ""


async def test_what_one_may_answer_comes_first(shared: Board, pat: Client, bob: Person, carol: Person) -> None:
    for team in ("signed", "rated", "choice"):
        await asks(shared, pat, team, team)
    assert [one["run"] for one in (await bob("inbox", "--json")).records] == ["rated", "choice", "signed"]
    said = await carol("inbox")
    assert said.code == 0
    heads = [line for line in said.out.splitlines() if not line.startswith(" ")]
    assert [head.split()[2] for head in heads] == ["choice", "signed", "rated"]
    assert "    for ann or bob, since " in said.out
    assert "    for anybody, since " in said.out
    assert said.err == "3 gates wait, 1 for carol\n"


async def test_for_one_person(shared: Board, pat: Client, carol: Person) -> None:
    for team in ("signed", "rated", "choice"):
        await asks(shared, pat, team, team)
    for person, runs in (("ann", ["signed", "rated", "choice"]), ("bob", ["rated", "choice"]), ("carol", ["choice"])):
        assert [one["run"] for one in (await carol("inbox", "--for", person, "--json")).records] == runs
    await pat.cancel("choice")
    await ended(shared, "choice")
    assert (await carol("inbox", "--for", "dave")).err == "nothing waits for dave\n"


async def test_run_that_cannot_be_read_is_named_and_the_others_are_listed(
    shared: Board, pat: Client, ann: Person
) -> None:
    await asks(shared, pat, "choice", "whole")
    await asks(shared, pat, "choice", "broken")
    last = await shared.log.last(shared.subjects.fact("broken"))
    assert last is not None
    await shared.log.append(Append(last.subject, last.data))
    said = await ann("inbox", "--json")
    assert (said.code, [one["run"] for one in said.records]) == (1, ["whole"])
    assert said.err.startswith("blackboard: left out: run broken, event "), said.err


async def test_no_board(ann: Person) -> None:
    said = await ann("inbox", "--nats", "nats://127.0.0.1:1")
    assert (said.code, len(said.err.splitlines())) == (69, 1)


# --- as it comes and goes ---------------------------------------------------------------------------------------------


@pytest.fixture
def watching(there: list[str]) -> Iterator[subprocess.Popen[str]]:
    command = [*HEEDING, "inbox", "--watch", "--json", "--name", "ann", *there]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment_with()) as process:
        try:
            yield process
        finally:
            process.kill()


async def test_watch(shared: Board, pat: Client, ann: Person, watching: subprocess.Popen[str]) -> None:
    async def next_line() -> dict[str, object]:
        assert watching.stdout is not None
        async with asyncio.timeout(20):
            return json.loads(await asyncio.to_thread(watching.stdout.readline))

    await asks(shared, pat, "choice", "first")
    told = await next_line()
    assert (told["open"], told["run"], told["gate"]) == (True, "first", "colour")
    await asks(shared, pat, "signed", "second")
    assert (await next_line())["run"] == "second"
    assert (await ann("answer", "first", "red")).code == 0
    closed = {"open": False, "run": "first", "gate": "colour", "digest": told["digest"], "how": "answered by ann"}
    assert await next_line() == closed
    await pat.cancel("second")
    assert (await next_line())["how"] == "the run is CANCELLED"
    watching.send_signal(signal.SIGINT)
    assert await asyncio.to_thread(watching.wait, 10) == 130


async def test_gate_that_asks_anew_is_another_question(shared: Board, pat: Client, ann: Person) -> None:
    """Whom ann approved is gone by then, so she is asked about somebody else."""
    await asks(shared, pat, "signed", "run")
    inbox = Inbox(shared)
    await inbox.load()
    (before,) = inbox.asked()
    await pat.withdraw("write")
    await pat.offer(Contract(specialist="scribe", offers=["write"]))
    said = await ann("approve", "run", "--yes")
    assert (said.code, "write of run asks anew, because something is not as it was" in said.err) == (0, True), said
    await run_until(shared, "run", lambda state: state.gates["write"].digest != before.gate.digest)
    async for messages in shared.log.scan([shared.subjects.every("fact")], after=inbox.position):
        await inbox.take(messages)
    (now,) = inbox.asked()
    assert [voice.specialist for voice in now.gate.voices] == ["scribe"]
    assert inbox.closed == [(before, "asked anew")]


# --- and many runs ----------------------------------------------------------------------------------------------------


def finished(board: Board, number: int) -> Append:
    """The whole history of a run that has ended, in one message."""
    run, cause = f"old-{number}", Cause(1, sha256(b"goal"))
    opened = RunOpened(at=1, cause=cause, rules=1, publisher="pat", team="t", playbook=1, input={"x": "y" * 200})
    events = [encode(opened), encode(RunEnded(at=2, cause=cause, end="DONE", result={"x": "y" * 200}))]
    data = encode_facts(board.log.id, run, 1, chain_start(board.log.id, run), events)
    return Append(board.subjects.fact(run), data)


async def test_finished_runs_cost_little(shared: Board, pat: Client, ann: Person) -> None:
    """Of each the last message is looked at, and nothing is folded."""
    await asks(shared, pat, "choice", "waits")
    for start in range(0, FINISHED, 500):
        await shared.log.append(*(finished(shared, number) for number in range(start, start + 500)))
    began = time.perf_counter()
    inbox = Inbox(shared)
    await inbox.load()
    took_s = time.perf_counter() - began
    assert [one.run for one in inbox.asked()] == ["waits"]
    print(f"inbox: {FINISHED} finished runs and one that waits in {took_s * 1000:.0f} ms")
    assert took_s < 5
    assert len((await ann("inbox", "--json")).records) == 1
