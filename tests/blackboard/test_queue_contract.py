"""What every task queue promises: the same suite over the reference in memory and over JetStream."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass

import pytest

from blackboard.jetstream_queue import JetStreamQueue
from blackboard.memory import MemoryQueue
from blackboard.nats_connection import connect
from blackboard.queue import Delivery, Entry, Queue, QueueGone, TaskKey
from blackboard.server import EmbeddedServer
from schemas.subjects import Subjects

ACK_WAIT_S = 1.0
PATIENCE_S = 20


@dataclass
class Subject:
    """A queue under test. `lose` makes it vanish, as a restart of the server does; `close` ends its connection."""

    queue: Queue
    lose: Callable[[], Awaitable[None]]
    close: Callable[[], Awaitable[None]]


@pytest.fixture(params=["memory", "jetstream"])
async def under_test(
    request: pytest.FixtureRequest, server: EmbeddedServer, subjects: Subjects
) -> AsyncIterator[Subject]:
    if request.param == "memory":
        memory = MemoryQueue(ack_wait_s=ACK_WAIT_S)

        async def lose_memory() -> None:
            memory.lose()

        async def close_memory() -> None:
            memory.close()

        yield Subject(memory, lose_memory, close_memory)
        return
    connection = await connect(server.url, "contract")

    async def lose() -> None:
        await connection.api(f"STREAM.DELETE.{subjects.task_stream}")

    try:
        yield Subject(JetStreamQueue(connection, subjects, ack_wait_s=ACK_WAIT_S), lose, connection.close)
    finally:
        await connection.close()


@pytest.fixture
async def queue(under_test: Subject) -> Queue:
    """A queue with places for two specialists."""
    await under_test.queue.ensure(["reader", "writer"])
    return under_test.queue


def key(number: int = 1, specialist: str = "reader", attempt: int = 1) -> TaskKey:
    return TaskKey(specialist, "run", f"task-{number}", attempt)


async def put(queue: Queue, *keys: TaskKey) -> None:
    await queue.put([Entry(one, f"{one.task} {one.attempt}".encode()) for one in keys])


async def pulled(queue: Queue, specialist: str = "reader") -> Delivery:
    delivery = await queue.pull(specialist, PATIENCE_S)
    assert delivery is not None
    return delivery


async def test_a_task_is_delivered_and_acknowledged(queue: Queue) -> None:
    await queue.put([Entry(key(), b"data", {"Trace": "a"})])
    assert await queue.keys() == {key()}
    delivery = await pulled(queue)
    assert (delivery.key, delivery.data, delivery.headers, delivery.count) == (key(), b"data", {"Trace": "a"}, 1)
    assert await queue.keys() == {key()}, "in flight it is still there"
    await delivery.ack()
    assert await queue.keys() == set()


async def test_tasks_come_in_order_to_their_specialist(queue: Queue) -> None:
    await put(queue, key(1), key(2, "writer"), key(3), key(3, attempt=2))
    assert [(await pulled(queue)).key for _ in range(3)] == [key(1), key(3), key(3, attempt=2)]
    assert (await pulled(queue, "writer")).key == key(2, "writer")


async def test_each_task_goes_to_one_worker(queue: Queue) -> None:
    await put(queue, *(key(number) for number in range(10)))
    deliveries = await asyncio.gather(*(pulled(queue) for _ in range(10)))
    assert {delivery.key for delivery in deliveries} == {key(number) for number in range(10)}


async def test_a_second_put_changes_nothing(queue: Queue) -> None:
    await put(queue, key())
    await queue.put([Entry(key(), b"other")])
    delivery = await pulled(queue)
    await queue.put([Entry(key(), b"other")])
    assert delivery.data == b"task-1 1"
    assert await queue.pull("reader", 0.05) is None
    await delivery.ack()
    await put(queue, key())
    assert await queue.keys() == set(), "what was acknowledged a moment ago is not put again"


async def test_pull_returns_when_there_is_nothing(queue: Queue) -> None:
    started = asyncio.get_running_loop().time()
    assert await queue.pull("reader", 0.2) is None
    assert asyncio.get_running_loop().time() - started >= 0.19


async def test_a_waiting_pull_gets_what_is_put_later(queue: Queue) -> None:
    waiting = asyncio.create_task(pulled(queue))
    await asyncio.sleep(0)
    await put(queue, key())
    assert (await asyncio.wait_for(waiting, PATIENCE_S)).key == key()


async def test_an_abandoned_task_is_delivered_again(queue: Queue) -> None:
    await put(queue, key())
    first = await pulled(queue)
    second = await pulled(queue)
    assert (first.count, second.count) == (1, 2)
    assert second.key == first.key


async def test_an_extended_task_is_delivered_later(queue: Queue) -> None:
    loop = asyncio.get_running_loop()
    await put(queue, key())
    first = await pulled(queue)
    await asyncio.sleep(ACK_WAIT_S * 0.5)
    extended_at = loop.time()
    await first.extend()
    again = await pulled(queue)
    assert again.count == 2
    assert loop.time() - extended_at >= ACK_WAIT_S * 0.95


async def test_a_released_task_is_delivered_at_once(queue: Queue) -> None:
    await put(queue, key())
    released_at = asyncio.get_running_loop().time()
    await (await pulled(queue)).release()
    assert (await pulled(queue)).count == 2
    assert asyncio.get_running_loop().time() - released_at < ACK_WAIT_S


async def test_a_released_task_waits_for_its_delay(queue: Queue) -> None:
    loop = asyncio.get_running_loop()
    await put(queue, key())
    delivery = await pulled(queue)
    released_at = loop.time()
    await delivery.release(delay_s=0.4)
    assert (await pulled(queue)).count == 2
    assert loop.time() - released_at >= 0.39


async def test_a_cancelled_pull_takes_nothing_away(queue: Queue) -> None:
    waiting = asyncio.create_task(queue.pull("reader", PATIENCE_S))
    await asyncio.sleep(0.05)
    waiting.cancel()
    await asyncio.wait([waiting])
    put_at = asyncio.get_running_loop().time()
    await put(queue, key())
    assert (await pulled(queue)).key == key()
    assert asyncio.get_running_loop().time() - put_at < ACK_WAIT_S


async def test_remove_takes_out_what_waits_or_is_in_flight(queue: Queue) -> None:
    await put(queue, key(1), key(2), key(3))
    delivery = await pulled(queue)
    await queue.remove([key(1), key(2), key(9)])
    assert await queue.keys() == {key(3)}
    await delivery.ack()
    await delivery.extend()
    await delivery.release()
    assert (await pulled(queue)).key == key(3)
    assert await queue.pull("reader", 0.05) is None


async def test_what_is_held_below_a_removed_task_is_delivered_again(queue: Queue) -> None:
    await put(queue, *(key(number) for number in range(1, 5)))
    held = [(await pulled(queue)).key for _ in range(4)]
    await queue.remove([held[3]])
    await put(queue, key(5))
    await (await pulled(queue)).ack()
    again = [await pulled(queue) for _ in range(3)]
    assert sorted(delivery.key for delivery in again) == sorted(held[:3])
    for delivery in again:
        await delivery.ack()
    assert await queue.keys() == set()


async def test_keys_are_complete(queue: Queue) -> None:
    keys = {key(number, specialist) for number in range(1500) for specialist in ("reader",)}
    await put(queue, *sorted(keys))
    assert await queue.keys() == keys


async def test_there_is_no_queue_before_ensure(under_test: Subject) -> None:
    queue = under_test.queue
    with pytest.raises(QueueGone):
        await queue.keys()
    with pytest.raises(QueueGone):
        await put(queue, key())
    with pytest.raises(QueueGone):
        await queue.pull("reader", PATIENCE_S)


async def test_an_unknown_specialist_has_no_place(queue: Queue) -> None:
    with pytest.raises(QueueGone, match="nobody"):
        await queue.pull("nobody", PATIENCE_S)
    await put(queue, key(1, "nobody"))
    await queue.ensure(["nobody"])
    assert (await pulled(queue, "nobody")).key == key(1, "nobody"), (
        "what was put before the place was made waits for it"
    )


async def test_ensure_changes_nothing_that_exists(queue: Queue) -> None:
    await put(queue, key())
    await queue.ensure(["reader", "writer"])
    assert await queue.keys() == {key()}
    assert (await pulled(queue)).count == 1


async def test_a_lost_queue_is_made_anew_and_filled(under_test: Subject, queue: Queue) -> None:
    await put(queue, key())
    old = await pulled(queue)
    await under_test.lose()
    with pytest.raises(QueueGone):
        await put(queue, key())
    with pytest.raises(QueueGone):
        await queue.pull("reader", PATIENCE_S)
    with pytest.raises(QueueGone):
        await queue.keys()
    with pytest.raises(QueueGone):
        await queue.remove([key()])
    await queue.ensure(["reader"])
    assert await queue.keys() == set()
    await put(queue, key())
    assert (await pulled(queue)).count == 1
    await old.ack()
    assert await queue.keys() == {key()}, "a late ack belongs to the queue that was lost"


async def test_a_waiting_pull_hears_that_the_queue_is_lost(under_test: Subject, queue: Queue) -> None:
    waiting = asyncio.create_task(queue.pull("reader", PATIENCE_S))
    await asyncio.sleep(0.05)
    await under_test.lose()
    with pytest.raises(QueueGone):
        await asyncio.wait_for(waiting, PATIENCE_S / 2)


async def test_cancels_reach_their_specialist(under_test: Subject, queue: Queue) -> None:
    heard = queue.cancels("reader")
    await asyncio.sleep(0)
    await queue.cancel(key(1))
    await queue.cancel(key(2, "writer"))
    await queue.cancel(key(3))
    async with asyncio.timeout(PATIENCE_S):
        assert [await anext(heard), await anext(heard)] == [key(1), key(3)]
        await under_test.close()
        assert [cancel async for cancel in heard] == []
