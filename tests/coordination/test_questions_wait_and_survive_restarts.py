"""A run that asks a person waits for days without cost, and goes on after everything was restarted in between: nothing
is appended meanwhile, no worker holds the task, and no execution is made twice for the answer."""

import asyncio
from typing import Any

import pytest

from schemas import events as e
from schemas.tasks import Item, Task
from tests.coordination.asking import KINDS, Kind, catalogue, deny
from tests.supervisor.scenario import RUN
from tests.supervisor.table import Table, board_in_memory

DAYS_MS = 3 * 86_400_000
A_WHILE_S = 0.4
"""More than a dozen looks of a supervisor at what there is to mend."""

each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])


async def asks(table: Table, kind: Kind) -> str:
    """The run asks; the digest of what it asks."""
    await table.say(*catalogue())
    for said in kind.ask(RUN):
        (seq,) = await table.say(said)

        async def decided(seq: int = seq) -> bool:
            return (await table.run(RUN)).cursor >= seq or kind.name == "loop"

        await table.until(decided)

    async def open_gate() -> bool:
        return kind.gate in (await table.run(RUN)).state.open_gates

    await table.until(open_gate)
    return (await table.run(RUN)).state.gates[kind.gate].digest


async def nothing_happens(table: Table) -> None:
    head = await table.log.head()
    await asyncio.sleep(A_WHILE_S)
    assert await table.log.head() == head


@each_kind
@pytest.mark.parametrize("restart", ["nothing", "the supervisor", "everything, twice", "a second supervisor"])
async def test_waits_and_goes_on(kind: Kind, restart: str) -> None:
    executed: list[tuple[str, int, list[Any]]] = []

    def work(task: Task, item: Item) -> Any:
        executed.append((task.task, task.attempt, [one.value for one in task.answers]))
        return 7

    async with board_in_memory() as table:
        supervising = table.supervise()
        cited = await asks(table, kind)
        await nothing_happens(table)
        if restart == "a second supervisor":
            table.supervise()
        for _ in range({"nothing": 0, "a second supervisor": 0, "the supervisor": 1, "everything, twice": 2}[restart]):
            await supervising.kill()
            if restart != "the supervisor":
                table.queue.lose()
            table.now_ms += DAYS_MS
            supervising = table.supervise()
            await nothing_happens(table)
        assert (await table.run(RUN)).state.phase == ("COLLECT" if kind.name == "loop" else "NEEDS_INPUT")

        await table.say(kind.yes(cited))
        table.work("w", work)
        (folded,) = await table.ended(RUN)
        assert (folded.state.end, folded.state.gates[kind.gate].by) == ("DONE", "ann")
        expected = {
            "step with a gate": [("b", 1, [])],
            "step that is a question": [],
            "question of a specialist": [("a", 2, [3])],
            "confirmation of a tool": [("a", 2, [None])],
            "loop": [("a", 1, [])],
        }
        assert executed == expected[kind.name]
        await table.check()


@each_kind
async def test_is_denied_after_everything_was_restarted(kind: Kind) -> None:
    async with board_in_memory() as table:
        supervising = table.supervise()
        cited = await asks(table, kind)
        await supervising.kill()
        table.queue.lose()
        table.supervise()
        await table.say(deny(cited, kind.gate))
        (folded,) = await table.ended(RUN)
        assert folded.state.end == "POLICY_BLOCKED"
        await table.check()


@each_kind
async def test_expires_though_nobody_was_there_when_it_did(kind: Kind) -> None:
    """The time goes on by the log's clock: a supervisor that comes after days finds it due."""
    async with board_in_memory() as table:
        supervising = table.supervise()
        cited = await asks(table, kind)
        await supervising.kill()
        table.now_ms += 10 * 86_400_000
        await table.say(kind.yes(cited, run="nobody"))  # another run's message brings the log's clock on
        table.supervise()
        (folded,) = await table.ended(RUN)
        assert (folded.state.end, folded.state.gates[kind.gate].by) == ("POLICY_BLOCKED", "")
        (seq,) = await table.say(kind.yes(cited))

        async def recorded() -> bool:
            last = (await table.events(RUN))[-1]
            return isinstance(last, e.InputLate) and last.cause.seq == seq

        await table.until(recorded)
        await table.check()


@each_kind
async def test_room_and_budget_of_the_run_are_free_for_others_meanwhile(kind: Kind) -> None:
    async with board_in_memory() as table:
        table.supervise()
        await asks(table, kind)
        state = (await table.run(RUN)).state
        assert state.in_flight == (1 if kind.name == "loop" else 0)
        keys = {(key.run, key.task) for key in await table.queue.keys()}

        async def gone() -> bool:
            return {key.attempt for key in await table.queue.keys()} <= {1} and len(
                await table.queue.keys()
            ) == state.in_flight

        assert keys <= {(RUN, "a"), (RUN, "b")}
        await table.until(gone)
