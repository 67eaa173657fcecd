"""Kinds of failure that users of such systems meet today, each on a board with real supervisors and workers, named as
people call it. What makes the kind impossible stands in the test's first line."""

import asyncio
import os
import threading
from random import Random
from typing import Any

import pytest

from projections.history import outcome_digest
from schemas import events as e
from schemas.playbooks import Playbook, Step
from schemas.tasks import Item, Task
from schemas.usage import Usage
from specialists.specialist import specialist
from specialists.worker import Timing, Worker
from tests.coordination import fuzzed
from tests.coordination.asking import approve
from tests.plugins.figures import Figures
from tests.supervisor.scenario import Said, ended, goal, offer, step, teach
from tests.supervisor.table import Table, board_in_memory

NAMES = tuple(f"s{number}" for number in range(10))


# --- approval bound to nothing ----------------------------------------------------------------------------------------

TRANSFER = (
    step("amount", "quote"),
    step("fix", "correct", needs=["amount"], fact="amount", replaces=True),
    step("pay", "pay", needs=["amount"], input={"amount": "facts.amount"}, gate={"ask": "pay it?"}, missing="allow"),
)
TRANSFERS = (
    offer("w", "pay", authority="effect"),
    offer("u", "quote"),
    offer("v", "correct"),
    *(
        teach(*TRANSFER, team=team, parallel=room, returns={"paid": "facts.pay"})
        for team, room in {"wide": 9, "narrow": 1}.items()
    ),
)
"""In the narrow one what is approved has to wait for its turn, until the amount was corrected."""


async def test_approval_bound_to_nothing(figures: Figures) -> None:
    """Approved 10, ran 9999: the amount is corrected before, while and after somebody approves. Each payment that is
    made is one that was approved, by the digest of just this amount, in every run and order."""
    paid: list[tuple[str, int]] = []

    def pay(task: Task, item: Item) -> Any:
        paid.append((task.run, item.input["amount"]))
        return item.input["amount"]

    async def approves(table: Table, run: str, random: Random) -> None:
        """Whatever is asked at the moment, after thinking for a while."""
        while not (state := (await table.run(run)).state).end:
            for name, gate in state.open_gates.items():
                await asyncio.sleep(random.random() * 0.01)
                await table.say(approve(gate.digest, name, run=run))
            await asyncio.sleep(0.002)

    async def corrects(table: Table, run: str, random: Random) -> None:
        await table.until(lambda: in_flight(table, run, "fix"))
        await asyncio.sleep(random.random() * 0.03)
        await table.say(ended("fix", {"amount": 9_999}, by="v", run=run))

    async with board_in_memory(*TRANSFERS) as table:
        table.supervise()
        table.supervise()
        table.work("u", lambda task, item: 10)
        table.work("w", pay)
        runs = [await table.client.publish(("wide", "narrow")[n % 2], {}, f"run-{n}") for n in range(40)]
        for number, run in enumerate(runs):
            table.tasks.append(asyncio.create_task(approves(table, run, Random(number))))
            table.tasks.append(asyncio.create_task(corrects(table, run, Random(-number - 1))))
        await table.ended(*runs)
        approved = 0
        for run in runs:
            events = await table.events(run)
            asked = {one.digest: one.action[0]["input"]["amount"] for one in events if isinstance(one, e.GateOpened)}
            taken: list[int] = []
            latest = ""
            for one in events:
                if isinstance(one, e.GateOpened):
                    latest = one.digest
                if isinstance(one, e.GateAnswered):
                    taken.append(asked[latest])
            approved += len(taken)
            assert {amount for where, amount in paid if where == run} <= set(taken[-1:]), run
        await table.check()
    amounts = [amount for _, amount in paid]
    assert set(amounts) == {10, 9_999}, "both happen"
    figures.say(
        f"coordination: {len(amounts)} payments over {len(runs)} runs, {approved} approvals, each for its amount"
    )


async def in_flight(table: Table, run: str, name: str) -> bool:
    task = (await table.run(run)).state.tasks.get(name)
    return task is not None and task.status == "dispatched"


# --- lost or clashing parallel writes ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "policy", [{"policy": "priority", "order": ["s3"]}, {"policy": "union"}, {"policy": "quorum", "n": 4}]
)
async def test_lost_or_clashing_parallel_writes(policy: dict[str, Any], figures: Figures) -> None:
    """Specialists write no state: what ten of them claim at once is a set, a named policy decides, and all of it stays.
    The outcome is the same whoever comes first."""

    def claim(number: int, run: str) -> Said:
        value = [number] if policy["policy"] == "union" else number % 2
        return ended(f"b-{number}", {"b": value}, by=NAMES[number], run=run)

    runs = [f"run-{number}" for number in range(25)]
    async with board_in_memory(
        *(offer(name, "work") for name in NAMES),
        teach(step("b", specialist="all", merge=policy), returns={"b": "facts.b"}),
    ) as table:
        table.supervise()
        table.supervise()
        claims = [claim(number, run) for number in range(len(NAMES)) for run in runs]
        Random(1).shuffle(claims)
        await table.say(*(goal(run=run) for run in runs))
        for start in range(0, len(claims), 7):
            await table.say(*claims[start : start + 7])
            await asyncio.sleep(0)
        outcomes = {outcome_digest(folded.state) for folded in await table.ended(*runs)}
        arrivals = set()
        for run in runs:
            state = (await table.run(run)).state
            fact = state.facts.get("b") or state.missing["b"]
            won = [fact.task] if hasattr(fact, "task") and fact.task else []
            assert sorted([*won, *(loser.task for loser in fact.losers)]) == sorted(state.tasks), "no claim is lost"
            order = sorted(state.tasks.values(), key=lambda task: task.ended)
            arrivals.add(tuple(task.specialist for task in order))
        await table.check()
    assert len(outcomes) == 1
    figures.say(f"coordination: {policy['policy']}: {len(runs)} runs, {len(arrivals)} orders of arrival, one outcome")


# --- silent drift at the boundary -------------------------------------------------------------------------------------


async def test_silent_drift_at_the_boundary(figures: Figures) -> None:
    """What does not fit is a typed rejection and never state. A broken specialist floods the board while others work:
    each run ends as without it, and no supervisor stops at anything."""
    number, random = {"type": "integer"}, Random(5)
    async with board_in_memory(
        offer("w", "work", output=number),
        offer("eve", "work2", output=number, attempts=100),
        teach(step("a"), step("b", "work2", missing="allow"), returns={"a": "facts.a", "b": "facts.b"}),
    ) as table:
        first, second = table.supervise(), table.supervise()
        runs = [await table.client.publish("t", {}, f"run-{n}") for n in range(10)]
        said = 0
        for _ in range(40):
            for run in runs:
                state = (await table.run(run)).state
                junk = fuzzed.ended(random, state)
                await table.say(Said("obs", "eve", junk.data, run))
                said += 1
        table.work("w", lambda task, item: 1)
        table.work("eve", lambda task, item: 2)
        ends = await table.ended(*runs)
        for folded in ends:
            state = folded.state
            assert state.facts["a"].value == 1
            assert all(isinstance(fact.value, int) for fact in state.facts.values())
            assert state.result == {
                name: state.facts[name].value if name in state.facts else None for name in ("a", "b")
            }
        assert (first.supervisor.committer.left, second.supervisor.committer.left) == ({}, {})
        await table.check()
    figures.say(f"coordination: {said} broken messages of one specialist, {len(runs)} runs ended as without it")


# --- cancel and timeout leak ------------------------------------------------------------------------------------------

SLEEPING = 3_600


@specialist("waits", offers="wait", deadline_s=600)
async def waits(item: dict[str, Any]) -> str:
    """Takes an hour, unless it is cancelled."""
    await asyncio.sleep(SLEEPING)
    return "late"


@specialist("stubborn", offers="insist", deadline_s=600)
async def stubborn(item: dict[str, Any]) -> str:
    """Ends in its own way when it is cancelled, with a value."""
    try:
        await asyncio.sleep(SLEEPING)
    except asyncio.CancelledError:
        return "in spite of it"
    return "late"


def resources() -> tuple[int, int, int]:
    """Tasks of the event loop, threads, open files."""
    return len(asyncio.all_tasks()), threading.active_count(), len(os.listdir("/proc/self/fd"))


@pytest.mark.timeout(240)
async def test_cancel_and_timeout_leak(figures: Figures) -> None:
    """A task is a lease: a thousand runs are cancelled while specialists work on them; their workers are as free after
    it as before, and nothing that comes late is committed."""
    steps = [Step(id="a", capability="wait"), Step(id="b", capability="insist")]
    async with board_in_memory() as table:
        table.supervise()
        worker = Worker(table.board(), [waits, stubborn], concurrency=100, timing=Timing(pull_s=0.1, grace_s=0.2))
        await worker.offer()
        await table.client.teach(Playbook(team="t", steps=steps))
        table.tasks.append(asyncio.create_task(worker.run(table.stop)))
        before: tuple[int, int, int] = (0, 0, 0)
        cancelled: list[str] = []
        for batch in range(20):
            runs = [await table.client.publish("t", {}, f"run-{batch}-{number}") for number in range(50)]
            await table.until(lambda: busy(worker, 100))
            for run in runs:
                await table.client.cancel(run)
            await table.until(lambda: busy(worker, 0))
            cancelled += runs
            if batch == 1:
                before = resources()
        assert len(cancelled) == 1_000
        after = resources()
        assert all(now <= then + 5 for now, then in zip(after, before, strict=True)), (before, after)
        for run in cancelled[::25]:
            state = (await table.run(run)).state
            assert (state.end, state.facts, state.result) == ("CANCELLED", {}, None)
        await table.check()
    figures.say(f"coordination: 1000 cancels with a worker: tasks, threads, files {before} before, {after} after")


async def busy(worker: Worker, tasks: int) -> bool:
    return len(worker._jobs) == tasks


# --- runaway loops and cost -------------------------------------------------------------------------------------------


async def test_runaway_loops_and_cost(figures: Figures) -> None:
    """Two specialists that hand a task to each other for ever, at a price: the run finds that it repeats itself, or has
    no budget left, and ends with that; at no event was more set aside and spent than there was."""
    price = 30

    def hand_on(by: str) -> Any:
        async def work(table: Table) -> None:
            while True:
                delivery = await table.queue.pull(by, 1)
                if delivery is None:
                    continue
                key = delivery.key
                to = "pong" if by == "ping" else "ping"
                usage = {"micro_usd": price}
                body = {"task": key.task, "attempt": key.attempt, "execution": f"{by}{key.attempt}", "usage": usage}
                await table.say(Said("obs", by, {"type": "ended", "code": "HANDED_OFF", "to": to, **body}, key.run))
                await delivery.ack()

        return work

    ends = {}
    for name, fields in {"loop": {"budget": {}}, "budget": {"budget": {"micro_usd": 100}, "repeats": 0}}.items():
        async with board_in_memory(
            offer("ping", "work", authority="propose", budget={"micro_usd": 40}),
            offer("pong", "other", authority="propose", budget={"micro_usd": 40}),
            teach(step("a", hand_to=["ping", "pong"], handoffs=20), **fields),
        ) as table:
            supervising = table.supervise()
            await table.say(goal())
            await supervising.reached(4)
            table.tasks += [asyncio.create_task(hand_on(by)(table)) for by in ("ping", "pong")]
            (folded,) = await table.ended("r1")
            ends[name] = (folded.state.code, folded.state.usage)
            await table.check()
            state = folded.state
            assert state.charged.micro_usd <= (state.budget.micro_usd or 10_000)
            spent = [getattr(event, "usage", Usage()).micro_usd for event in await table.events("r1")]
            assert sum(spent) == state.usage.micro_usd
    assert ends == {
        "loop": ("LOOP", Usage(micro_usd=7 * price)),
        "budget": ("BUDGET_EXCEEDED", Usage(micro_usd=3 * price)),
    }
    figures.say(f"coordination: handed on for ever: {ends}")
