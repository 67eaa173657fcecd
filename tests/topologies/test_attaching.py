"""Who has just been attached hears the next call: its place in the queue is made at once, whatever else is mended."""

from blackboard.queue import Entry, QueueGone, TaskKey
from tests.supervisor.scenario import offer
from tests.supervisor.table import board_in_memory


async def test_contract_that_comes_while_the_queue_is_mended_gets_its_place_at_once() -> None:
    """The first contract is read, mending begins and waits for the head of the log, the second contract is read."""
    async with board_in_memory() as table:
        table.supervise(batch=1, mend_s=60)
        await table.say(offer("ann", "work"), offer("bob", "work"))

        async def has_place() -> bool:
            try:
                await table.queue.pull("bob", 0.01)
            except QueueGone:
                return False
            return True

        await table.until(has_place, within_s=5)
        await table.queue.put([Entry(TaskKey("bob", "r", "t", 1), b"")])
        assert await table.queue.pull("bob", 1)
