"""While a question is open no message is written: not by timers, not by contracts that come and go."""

import asyncio

from tests.supervisor.scenario import goal, offer, step, teach
from tests.supervisor.table import board_in_memory

A_WHILE_S = 1.0


async def test_also_when_the_step_had_awaited_somebody_to_do_it() -> None:
    """The timer of what it awaited ends with the question: one that stayed would be due again and again."""
    async with board_in_memory(teach(step("a", await_s=0.3, gate={}), step("b", "other"))) as table:
        table.supervise()
        await table.say(goal())

        async def awaits() -> bool:
            return bool((await table.run("r1")).state.timers)

        async def asks() -> bool:
            return bool((await table.run("r1")).state.open_gates)

        await table.until(awaits)
        await table.say(offer("w", "work"), offer("v", "work"))
        await table.until(asks)
        await asyncio.sleep(0.1)
        await table.say(offer("w"), offer("v"), offer("u", "work"))
        await asyncio.sleep(0.1)
        head = await table.log.head()
        await asyncio.sleep(A_WHILE_S)
        assert await table.log.head() == head
        assert set((await table.run("r1")).state.timers) == {"gate.a", "await.b"}
        asked = (await table.run("r1")).state.gates["a"]
        assert [voice.specialist for voice in asked.voices] == ["v"]
        await table.client.approve("r1", "a", asked.digest)

        async def asks_about_another() -> bool:
            return [voice.specialist for voice in (await table.run("r1")).state.gates["a"].voices] == ["u"]

        await table.until(asks_about_another)
        await table.client.approve("r1", "a", (await table.run("r1")).state.gates["a"].digest)

        async def dispatched() -> bool:
            return (await table.run("r1")).state.in_flight == 1

        await table.until(dispatched)
        assert (await table.run("r1")).state.tasks["a"].specialist == "u", "who was approved"
