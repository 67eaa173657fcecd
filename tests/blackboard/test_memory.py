"""What the reference can do beyond the promises: a clock of one's own, damage, replacement."""

from collections.abc import Sequence

import pytest

from blackboard.log import Append, LogDamaged, Message, Stored
from blackboard.memory import MemoryLog


async def test_the_clock_can_be_given() -> None:
    now = 5
    log = MemoryLog(clock_ms=lambda: now)
    await log.append(Append("a", b""))
    now = 3
    await log.append(Append("a", b""))
    assert [message.time_ms async for message in log.read("a")] == [5, 3]


async def test_a_lost_message_is_named() -> None:
    log = MemoryLog()
    assert await log.append(*(Append("a", b"%d" % n) for n in range(5))) == [Stored(n + 1) for n in range(5)]
    log.damage(3)
    assert await log.get(3) is None
    seen: list[int] = []

    async def handle(batch: Sequence[Message]) -> None:
        seen.extend(message.seq for message in batch)

    subscription = await log.subscribe(handle)
    with pytest.raises(LogDamaged, match="sequence 3"):
        await subscription.wait()
    assert seen == [1, 2]
    with pytest.raises(LogDamaged) as scanning:
        assert [len(batch) async for batch in log.scan()] == [2]
    assert scanning.value.seq == 3


async def test_a_replaced_log_has_another_id() -> None:
    log = MemoryLog()
    await log.append(Append("a", b""))
    log.replace()
    assert await log.current_id() != log.id
    assert await log.head() == 0
