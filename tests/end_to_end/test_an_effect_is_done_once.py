"""A worker that is killed in the middle of paying, on a real server: the ledger, a file, has one line."""

import json
from pathlib import Path

import pytest

from blackboard.board import Board
from blackboard.client import Client
from schemas.playbooks import Gate, Playbook, Step
from tests.end_to_end.support import Start, call, ended, events_of, offered, run_until, until

TILL = '''
import os
from pathlib import Path

from specialists.specialist import Context, specialist
from specialists.tools import Done, tool

LEDGER, KILLED, WHERE, PROBE = Path("ledger"), Path("killed"), "{where}", {probe}


def dies(where: str) -> None:
    """The worker is gone, the first time that it comes to this place."""
    if where == WHERE and not KILLED.exists():
        KILLED.touch()
        os.kill(os.getpid(), 9)


def book(line: str) -> None:
    with LEDGER.open("a") as ledger:
        ledger.write(line + "\\n")


async def pay(amount: int, idempotency_key: str) -> int:
    dies("before")
    book(f"{{amount}} {{idempotency_key}}")
    dies("after")
    return amount


async def look_up(key: str, arguments: dict[str, int]) -> Done | bool:
    paid = LEDGER.exists() and key in LEDGER.read_text()
    return Done(arguments["amount"]) if paid else False


async def refund(amount: int, idempotency_key: str) -> int:
    dies("refund before")
    book(f"-{{amount}} {{idempotency_key}}")
    dies("refund after")
    return amount


probe = look_up if PROBE else None
paying = tool(pay, effect=True, probe=probe, undo=tool(refund, effect=True, probe=probe, settle_s=0.1), settle_s=0.1)


@specialist("payer", offers="pay", authority="effect", tools=[paying], backoff_s=0.1)
async def payer(item: dict[str, int], context: Context) -> int:
    dies("first")
    paid = await context.tool(pay, amount=item["amount"])
    dies("last")
    return paid
'''


def amounts(folder: Path) -> list[int]:
    ledger = folder / "ledger"
    return [int(line.split()[0]) for line in ledger.read_text().splitlines()] if ledger.exists() else []


async def killed_once(
    shared: Board, there: list[str], start: Start, folder: Path, where: str, *, probe: bool, fails: bool = False
) -> Client:
    """A run `r` whose worker dies at that place and is started again."""
    (folder / "till.py").write_text(TILL.format(where=where, probe=probe))
    start("supervise", *there)
    client = Client(shared, "ann")
    steps = [Step(id="pay", capability="pay", input={"amount": "input.amount"}, gate=Gate())]
    if fails:
        steps.append(Step(id="check", needs=["pay"], value="input.nothing"))
    await client.teach(Playbook(team="shop", steps=steps, returns={"paid": "facts.pay"}))
    worker = start("attach", "./till.py:payer", *there, cwd=folder)
    await worker.says("attached to board")
    await offered(shared, "payer")
    await client.publish("shop", {"amount": 5}, "r", approve=True)
    await until(lambda: worker.code == -9, f"the worker to die {where}: ", detail=lambda: worker.said)
    start("attach", "./till.py:payer", *there, cwd=folder)
    return client


@pytest.mark.parametrize("where", ["before", "after"])
async def test_with_a_probe(shared: Board, there: list[str], start: Start, tmp_path: Path, where: str) -> None:
    await killed_once(shared, there, start, tmp_path, where, probe=True)
    state = await ended(shared, "r")
    assert (state.end, state.result) == ("DONE", {"paid": 5})
    assert amounts(tmp_path) == [5]
    [effect] = state.effects.values()
    assert effect.times == 1


@pytest.mark.parametrize("where", ["refund after"])
async def test_undone(shared: Board, there: list[str], start: Start, tmp_path: Path, where: str) -> None:
    await killed_once(shared, there, start, tmp_path, where, probe=True, fails=True)
    state = await ended(shared, "r")
    assert (state.end, amounts(tmp_path)) == ("FAILED", [5, -5])
    assert state.reason.endswith("undone: pay of pay")


@pytest.mark.parametrize(("where", "done"), [("before", False), ("after", True)])
async def test_without_a_probe_a_person_says(
    shared: Board, there: list[str], start: Start, tmp_path: Path, where: str, done: bool
) -> None:
    await killed_once(shared, there, start, tmp_path, where, probe=False)
    await run_until(shared, "r", lambda state: state.phase == "NEEDS_INPUT")
    inbox = await call("inbox", *there)
    assert "Was pay done?" in inbox.out
    said = await call("answer", "r", "--gate", "pay.1", json.dumps({"done": done, "result": 5}), *there)
    assert said.code == 0, said
    state = await ended(shared, "r")
    assert (state.end, state.result) == ("DONE", {"paid": 5})
    assert amounts(tmp_path) == [5]
    kinds = [type(event).__name__ for event in await events_of(shared, "r")]
    assert kinds.count("EffectIntended") == (1 if done else 2)
