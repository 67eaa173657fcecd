"""Histories about the queue, which may lose what it holds and knows nothing."""

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from schemas.contracts import EXECUTIONS_LIMIT
from schemas.tasks import decode_task
from specialists.specialist import specialist
from specialists.worker import Timing, Worker
from supervisor import effects
from tests.holes.order import ONE, WORK_S
from tests.holes.ports import TEAM, Meanwhile
from tests.holes.table import Table
from tests.supervisor.scenario import goal, offer, step, teach


async def end_that_is_acknowledged_and_not_yet_read(table: Table) -> None:
    await table.say(*TEAM, goal())
    held = await table.held()
    await table.rest(held)
    await table.work("w", ONE)
    await table.lose_queue()  # nothing but the order of mending keeps the task out
    for _ in range(3):
        await held.turn()
        assert await table.queue.keys() == set(), "a task that is done is enqueued again"
    await table.rest(held)
    assert await table.queue.keys() == set()
    assert (await table.run("r1")).state.end == "DONE"


async def end_that_comes_while_the_queue_is_looked_at(table: Table) -> None:
    then: list[Callable[[], Awaitable[None]]] = []
    await table.say(*TEAM, goal())
    held = await table.held(queue=lambda queue: Meanwhile(queue, then))
    await table.rest(held)

    async def is_done() -> None:
        await table.work("w", ONE)
        await table.lose_queue()
        await table.queue.ensure(["w"])

    then.append(is_done)
    for _ in range(3):
        await held.turn()
        assert await table.queue.keys() == set(), "a task that is done is enqueued again"
    assert not then
    await table.rest(held)
    assert (await table.run("r1")).state.end == "DONE"


async def half_of_the_queue_is_lost(table: Table) -> None:
    each = step("a", for_each="input.n", fact="v.k{index}")
    await table.say(offer("w", "work"), teach(each), goal({"n": [0, 1, 2, 3]}))
    held = await table.held()
    await table.rest(held)
    keys = await table.queue.keys()
    assert len(keys) == 4
    await table.lose_queue()
    await table.queue.ensure(["w"])
    half = set(sorted(keys)[:2])
    await table.queue.put(effects.entries((await table.run("r1")).state, half, lambda _: None))
    assert await table.queue.keys() == half
    await table.rest(held)
    assert await table.queue.keys() == keys, "the queue is not empty, so it is not filled"


async def attempt_that_waited_too_long(table: Table) -> None:
    await table.say(offer("w", "work", deadline_s=WORK_S), teach(step("a", wait_s=WORK_S)), goal())
    held = await table.held()
    await table.rest(held)
    table.passes(2 * WORK_S + 1)
    await table.rest(held)
    attempts = [key.attempt for key in sorted(await table.queue.keys())]
    assert attempts == [2], f"the old attempt is done beside the new one: {attempts}"
    await table.check()


async def task_that_kills_its_worker(table: Table) -> None:
    """Each time it is delivered, it is neither done nor given back. One with a limit to that comes next."""
    table.ack_wait_s = 0.05
    await table.say(offer("deadly", "work", attempts=1), teach(step("a")), goal())
    held = await table.held()
    await table.rest(held)
    for count in range(1, EXECUTIONS_LIMIT + 1):
        delivery = await table.queue.pull("deadly", 1)
        assert delivery is not None, f"after {count - 1} deliveries the task lies in the queue, and nobody gets it"
        assert (decode_task(delivery.data).task, delivery.count) == ("a", count)
    await one_end(table, "deadly")
    await table.rest(held)
    state = (await table.run("r1")).state
    assert (state.end, state.code) == ("FAILED", "INTERNAL"), f"it is executed once more: {state.end or 'no end'}"
    assert state.reason.endswith("killed its worker 8 times")


async def one_end(table: Table, name: str) -> None:
    """A worker of the package attaches, and stays until it has stored an end."""

    @specialist(name, offers="work", attempts=1)
    async def deadly(item: dict[str, Any]) -> int:
        """Would kill its worker."""
        return 1

    stop, stored = asyncio.Event(), asyncio.Event()
    timing = Timing(pull_s=0.2, heartbeat_s=0.02)
    worker = Worker(await table.board(), [deadly], timing=timing, on_event=lambda said: note(said, stored))
    working = asyncio.create_task(worker.run(stop))
    async with asyncio.timeout(10):
        await stored.wait()
    stop.set()
    await working


def note(said: object, stored: asyncio.Event) -> None:
    if type(said).__name__ == "Finished":
        stored.set()
