"""Specialists ask, are approved, overspend, hand on and reconcile on a board in memory with a real supervisor."""

from typing import Any

import pytest
from pydantic import BaseModel

from projections.canonical import State
from schemas.playbooks import MergePolicy, Playbook, Step
from schemas.usage import Usage
from specialists.specialist import Budget, Context, HandOff, Specialist, Stop, Team, specialist, tool
from tests.topologies.casts import Cast, at_work, board_in_memory

COUNT = {"type": "integer", "minimum": 1}
PAID: list[tuple[str, float]] = []


class Order(BaseModel):
    what: str
    amount: float = 10


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


def team(*specialists: Specialist, **step: Any) -> Team:
    playbook = Playbook(
        team="team",
        input={"type": "object", "properties": {"what": {"type": "string"}}},
        returns={"made": "facts.work"},
        steps=[Step(id="work", **({"capability": "work", "input": {"what": "input.what"}} | step))],
    )
    return Team(playbook, list(specialists))


async def asked(cast: Cast, run: str, number: int = 1) -> tuple[str, Any]:
    """Name and content of the open gate of the run, when it is its `number`th one."""
    state = await cast.until(run, lambda state: state.open_gates and len(state.gates) == number)
    ((name, gate),) = state.open_gates.items()
    return name, gate


@specialist("orders", offers="work")
async def orders(item: Order, context: Context) -> dict[str, Any]:
    """How many are wanted, and of which colour."""
    context.use(input_tokens=10, usd=0.1)
    count = await context.ask(f"how many {item.what}?", COUNT)
    colour = await context.ask("which colour?", {"enum": ["red", "blue"]}, action={"count": count})
    return {"count": count, "colour": colour, "attempt": context.task.attempt}


async def test_two_questions_and_their_answers() -> None:
    async with at_work(board_in_memory(), [team(orders)]) as cast:
        run = await cast.publish("team", what="pears")
        name, gate = await asked(cast, run)
        assert (gate.ask, gate.schema, gate.task) == ("how many pears?", COUNT, "work")
        await cast.client.answer(run, name, gate.digest, 3)
        name, gate = await asked(cast, run, 2)
        assert (gate.ask, gate.action) == ("which colour?", {"count": 3})
        await cast.client.answer(run, name, gate.digest, "blue")
        state = await cast.ended(run)
    assert (state.end, state.result) == ("DONE", {"made": {"count": 3, "colour": "blue", "attempt": 3}})
    assert state.usage == Usage(30, 0, 0, 300_000)


async def transfer(to: str, amount: float) -> str:
    PAID.append((to, amount))
    return "paid"


@specialist("buyer", offers="work", tools=[tool(transfer, scopes="money:write", confirm=True)])
async def buyer(item: Order, context: Context) -> str:
    """Pays, and asks for more the first time that it may."""
    amount = 10 if context.task.attempt == 1 else 9_999
    return str(await context.tool(transfer, to="ann", amount=amount))


async def test_call_that_changed_after_its_approval_is_asked_about_anew_and_not_made() -> None:
    async with at_work(board_in_memory(), [team(buyer)]) as cast:
        run = await cast.publish("team", what="pears")
        name, gate = await asked(cast, run)
        assert gate.action == {"tool": "transfer", "arguments": {"to": "ann", "amount": 10.0}}
        await cast.client.approve(run, name, gate.digest)
        name, gate = await asked(cast, run, 2)
        assert gate.action["arguments"]["amount"] == 9_999
        assert PAID == []
        await cast.client.deny(run, name, gate.digest, "too much")
        state = await cast.ended(run)
    assert (state.end, PAID) == ("POLICY_BLOCKED", [])
    assert "too much" in state.reason


@specialist("honest-buyer", offers="work", tools=[tool(transfer, confirm=True, usd=0.25)])
async def honest_buyer(item: Order, context: Context) -> str:
    """Fails once after it has paid."""
    said = await context.tool(transfer, to="ann", amount=item.amount)
    if len(PAID) == 1:
        raise Stop("TOOL_DOWN", "the receipt is late")
    return str(said)


async def test_approved_call_is_made_and_goes_with_the_task_when_it_is_tried_again() -> None:
    async with at_work(board_in_memory(), [team(honest_buyer, backoff_s=0)]) as cast:
        run = await cast.publish("team", what="pears")
        name, gate = await asked(cast, run)
        await cast.client.approve(run, name, gate.digest)
        state = await cast.ended(run)
    assert (state.end, state.result) == ("DONE", {"made": "paid"})
    assert len(state.gates) == 1
    assert state.usage == Usage(0, 0, 2, 500_000)


@specialist("spender", offers="work", budget=Budget(tokens=100, usd=1), attempts=1)
async def spender(item: Order, context: Context) -> str:
    """Uses what it may, and then some."""
    left = context.budget
    context.use(output_tokens=left.tokens or 0, usd=left.usd or 0)
    context.use(usd=0.000001)
    raise AssertionError("it is stopped before")


@pytest.mark.parametrize(
    ("step", "used"),
    [
        ({}, Usage(0, 100, 0, 1_000_001)),
        ({"budget": Budget(tokens=40, usd=0.3)}, Usage(0, 40, 0, 300_001)),
    ],
)
async def test_budget_of_contract_and_step_hold_while_it_works(step: dict[str, Any], used: Usage) -> None:
    async with at_work(board_in_memory(), [team(spender, **step)]) as cast:
        state = await cast.ended(await cast.publish("team", what="pears"))
    assert (state.end, state.code, state.usage) == ("FAILED", "BUDGET_EXCEEDED", used)
    assert "USD are used" in state.reason


async def test_budget_of_a_goal_holds_while_it_works() -> None:
    async with at_work(board_in_memory(), [team(orders)]) as cast:
        run = await cast.client.publish("team", {"what": "pears"}, budget=Budget(tokens=15))
        name, gate = await asked(cast, run)
        await cast.client.answer(run, name, gate.digest, 3)
        state = await cast.ended(run)
    assert (state.end, state.code, state.usage.input_tokens) == ("FAILED", "BUDGET_EXCEEDED", 20)


@specialist("desk", offers="work", authority="propose")
async def desk(item: Order) -> str:
    """Knows who does it."""
    raise HandOff("carpenter", f"makes {item.what}")


@specialist("carpenter", offers="woodwork")
async def carpenter(item: Order) -> str:
    """Makes it."""
    return f"made {item.what}"


async def test_task_is_done_by_whom_it_was_handed_to() -> None:
    async with at_work(board_in_memory(), [team(desk, carpenter, hand_to=["carpenter"])]) as cast:
        state = await cast.ended(await cast.publish("team", what="a chair"))
    assert (state.end, state.result, state.facts["work"].by) == ("DONE", {"made": "made a chair"}, "carpenter")


class Conflict(BaseModel):
    key: str
    values: list[str]


@specialist("optimist", offers="work")
async def optimist(item: Order) -> str:
    return "good"


@specialist("pessimist", offers="work")
async def pessimist(item: Order) -> str:
    return "bad"


@specialist("judge", offers="judging")
async def judge(case: Conflict, context: Context) -> str:
    """Says so when it sees both."""
    return f"{case.key}: {' or '.join(sorted(case.values))} ({context.task.kind})"


async def test_different_values_are_reconciled_by_a_specialist() -> None:
    merge = MergePolicy(policy="reconcile", specialist="judge")
    async with at_work(board_in_memory(), [team(optimist, pessimist, judge, specialist="all", merge=merge)]) as cast:
        state = await cast.ended(await cast.publish("team", what="pears"))
    assert state.result == {"made": "work: bad or good (reconcile)"}


@specialist("silent", offers="work", stops=["TOOL_DOWN"], attempts=1)
async def silent(item: Order) -> str:
    raise Stop("LOW_CONFIDENCE", "cannot say")


async def test_code_that_its_contract_does_not_list_is_internal() -> None:
    async with at_work(board_in_memory(), [team(silent)]) as cast:
        state: State = await cast.ended(await cast.publish("team", what="pears"))
    assert (state.end, state.code) == ("FAILED", "INTERNAL")
    assert "ended with LOW_CONFIDENCE, which is not in its stops=: cannot say" in state.reason
