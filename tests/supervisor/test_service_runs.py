"""Whole runs over a log and a queue in memory, with one and with two supervisors."""

import asyncio
import random
from typing import Any

import pytest

from blackboard.board import Board
from blackboard.log import LogUnavailable
from blackboard.queue import QueueGone, QueueUnavailable
from projections.history import outcome_digest
from schemas.tasks import Item, Task
from tests.supervisor.scenario import Said, cancel, offer, step, teach
from tests.supervisor.table import Crash, Faulty, Fuse, Stop, Table, board_in_memory

TEAM: tuple[Said, ...] = (
    offer("u", "work", output={"type": "integer"}),
    offer("v", "work", output={"type": "integer"}),
    offer("s", "sum"),
    teach(
        step("each", for_each="input.n", fact="v.{item}", input={"x": "item"}, specialist="all"),
        step("total", "sum", needs=["each"], input={"all": "facts.v"}),
        returns={"total": "facts.total"},
        result={"required": ["total"]},
        team="t",
    ),
    teach(
        step("part", team="t", for_each="input.parts", fact="p.k{index}", input={"n": "item"}),
        step("more", needs=["part"], capability="work", input={"x": "`3`"}, fact="more"),
        returns={"parts": "facts.p.*.total", "more": "facts.more"},
        team="p",
    ),
)
GOAL = {"parts": [["a", "b"], ["c"]]}


def number(task: Task, item: Item) -> Any:
    """The first attempt at `b` fails."""
    if item.input["x"] == "b" and task.attempt == 1:
        raise Stop("TOOL_DOWN")
    return ord(item.input["x"]) if isinstance(item.input["x"], str) else item.input["x"]


def total(task: Task, item: Item) -> int:
    return sum((item.input["all"] or {}).values())


def staff(table: Table, **habits: Any) -> None:
    for name in ("u", "v"):
        table.work(name, number, **habits)
    table.work("s", total, **habits)


async def undisturbed() -> str:
    async with board_in_memory(*TEAM) as table:
        table.supervise()
        staff(table)
        await table.client.publish("p", GOAL, "r1")
        (folded,) = await table.ended("r1")
        assert folded.state.result == {"parts": [195, 99], "more": 3}
        await table.check()
        return outcome_digest(folded.state)


@pytest.fixture(scope="module")
def expected() -> str:
    return asyncio.run(undisturbed())


async def test_run_with_children_and_a_retry(expected: str) -> None:
    assert expected == await undisturbed()


@pytest.mark.parametrize("batch", [1, 2, 7, 500])
async def test_batches_of_any_size(expected: str, batch: int) -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise(batch=batch)
        staff(table)
        await table.client.publish("p", GOAL, "r1")
        assert await table.outcomes("r1") == [expected]
        await table.check()


@pytest.mark.parametrize("batches", [(500, 500), (1, 500), (3, 2)])
async def test_two_supervisors_write_one_history(expected: str, batches: tuple[int, int]) -> None:
    async with board_in_memory(*TEAM) as table:
        pair = [table.supervise(batch=batch) for batch in batches]
        staff(table, repeat=2, start=True)
        runs = [await table.client.publish("p", GOAL) for _ in range(5)]
        assert set(await table.outcomes(*runs)) == {expected}
        await table.check()
        assert all(one.supervisor.committer.left == {} for one in pair)


async def test_usage_is_counted_once_an_execution() -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise()
        table.supervise(batch=2)
        staff(table, repeat=3)
        await table.client.publish("t", {"n": ["a", "b"]}, "r1")
        (folded,) = await table.ended("r1")
        assert folded.state.usage.input_tokens == 2 * 2 + 2 + 1  # b is tried twice by each of the two


def fused(table: Table, fuse: Fuse, fault: type[BaseException]) -> Board:
    """Where `fault` can come from: the log, the queue, or for a crash both."""
    log, queue = table.log.connect(), table.queue
    return table.board(
        log if fault in {QueueGone, QueueUnavailable} else Faulty(log, fuse),
        queue if fault is LogUnavailable else Faulty(queue, fuse),
    )


async def calls_of_a_run(fault: type[BaseException]) -> int:
    fuse = Fuse()
    async with board_in_memory(*TEAM) as table:
        table.supervise(fused(table, fuse, fault))
        staff(table)
        await table.client.publish("p", GOAL, "r1")
        await table.ended("r1")
    return fuse.calls


async def disturbed(at: int, place: str, fault: type[BaseException]) -> tuple[str, int]:
    fuse = Fuse(at, place, fault)
    async with board_in_memory(*TEAM) as table:
        first = table.supervise(fused(table, fuse, fault))
        staff(table)
        await table.client.publish("p", GOAL, "r1")
        if fault is Crash:
            ended = asyncio.ensure_future(table.ended("r1"))
            await asyncio.wait([first.task, ended], return_when="FIRST_COMPLETED")
            table.supervise()
            await ended
        (folded,) = await table.ended("r1")
        await table.check()
        return outcome_digest(folded.state), folded.state.usage.input_tokens


@pytest.mark.parametrize("place", ["before", "after"])
@pytest.mark.timeout(240)
async def test_crash_at_every_call_and_takeover(place: str) -> None:
    calls = await calls_of_a_run(Crash)
    plain = await disturbed(0, place, Crash)
    assert calls > 40
    for at in range(1, calls + 1):
        assert await disturbed(at, place, Crash) == plain, at


@pytest.mark.parametrize("fault", [LogUnavailable, QueueUnavailable, QueueGone])
@pytest.mark.timeout(240)
async def test_server_that_is_away_at_some_call(fault: type[Exception]) -> None:
    calls = await calls_of_a_run(fault)
    plain = await disturbed(0, "before", fault)
    for at in random.Random(1).sample(range(1, calls + 1), min(calls, 12)):
        place = "before" if at % 2 else "after"
        assert await disturbed(at, place, fault) == plain, (at, place)


@pytest.mark.parametrize("seed", range(8))
async def test_supervisors_that_are_killed_at_any_moment(expected: str, seed: int) -> None:
    chance = random.Random(seed)
    async with board_in_memory(*TEAM) as table:
        staff(table, repeat=chance.choice([1, 2]))
        runs = [await table.client.publish("p", GOAL) for _ in range(3)]
        done = asyncio.ensure_future(table.ended(*runs))
        while not done.done():
            some = [table.supervise(batch=chance.choice([1, 2, 7, 500])) for _ in range(chance.choice([1, 2]))]
            for _ in range(chance.randrange(1, 200)):
                await asyncio.sleep(0)
            await asyncio.sleep(chance.choice([0, 0.01, 0.05]))
            if not done.done():
                for one in some:
                    await one.kill()
                if chance.random() < 0.3:
                    table.queue.lose()
        await done
        assert set(await table.outcomes(*runs)) == {expected}
        await table.check()


async def test_queue_that_is_lost_in_mid_run_is_filled_again(expected: str) -> None:
    async with board_in_memory(*TEAM) as table:
        one = table.supervise()
        await table.client.publish("p", GOAL, "r1")
        await one.reached(len(TEAM) + 3)
        table.queue.lose()
        staff(table)
        assert await table.outcomes("r1") == [expected]


async def test_queue_that_is_lost_while_messages_never_pause() -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise(batch=1)
        await table.client.publish("t", {"n": ["a"]}, "r1")
        table.queue.lose()
        staff(table)

        async def talk() -> None:
            while True:
                await table.client.publish("t", {"n": []})
                await asyncio.sleep(0.002)

        table.tasks.append(asyncio.create_task(talk()))
        await table.ended("r1", within_s=5)


async def test_cancelled_run_takes_its_tasks_out_of_the_queue_and_its_children_with_it() -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise()
        await table.client.publish("p", GOAL, "r1")

        async def asked() -> bool:
            return len(await table.queue.keys()) == 6 if await table.log.last("bb.main.fact.r1") else False

        await table.until(asked)
        children = [task.child for task in (await table.run("r1")).state.tasks.values()]
        assert len(children) == 2
        await table.say(cancel())
        folded = await table.ended("r1", *children)
        assert {one.state.end for one in folded} == {"CANCELLED"}

        async def empty() -> bool:
            return not await table.queue.keys()

        await table.until(empty)
        await table.check()
