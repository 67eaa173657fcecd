"""Several supervisors that hear each other: one decides, the others fold along, and the history is the same."""

import asyncio
import logging
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
from msgspec.structs import replace

from blackboard.announcements import Announcements
from blackboard.log import Append
from blackboard.memory_announcements import MemoryAnnouncements
from projections.history import outcome_digest, state_digest
from schemas.announcements import Announcement, encode_announcement
from schemas.tasks import Item, Task
from supervisor.decide import RULES
from supervisor.standby import BEAT_S, SILENCE_S
from tests.supervisor.scenario import ended, offer, step, teach
from tests.supervisor.table import Supervising, Table, board_in_memory

TEAM = (
    offer("w", "work"),
    teach(
        step("each", for_each="input.n", fact="v.k{index}", input={"x": "item"}),
        step("total", needs=["each"], input={"all": "values(facts.v)"}),
        returns={"total": "facts.total"},
        parallel=4,
    ),
)
NUMBERS = list(range(20))


def add(task: Task, item: Item) -> Any:
    return sum(item.input["all"]) if "all" in item.input else item.input["x"]


class Cut:
    """Announcements of one process. While it is cut off from the others it hears itself, and nobody else."""

    def __init__(self, inner: Announcements) -> None:
        self._together, self._alone, self.off = inner, MemoryAnnouncements(), False

    async def announce(self, data: bytes) -> None:
        await (self._alone if self.off else self._together).announce(data)

    async def heard(self) -> AsyncIterator[bytes]:
        said: asyncio.Queue[tuple[bool, bytes]] = asyncio.Queue()

        async def pass_on(announcements: Announcements, alone: bool) -> None:
            async for data in announcements.heard():
                said.put_nowait((alone, data))

        both = [asyncio.ensure_future(pass_on(*one)) for one in ((self._together, False), (self._alone, True))]
        try:
            while True:
                alone, data = await said.get()
                if alone == self.off:
                    yield data
        finally:
            for one in both:
                one.cancel()


@asynccontextmanager
async def announced() -> AsyncIterator[Table]:
    async with board_in_memory(*TEAM) as table:
        table.announcements = MemoryAnnouncements()
        yield table


async def roles(table: Table, *all_of_them: Supervising, active: int = 1) -> list[Supervising]:
    """Those that are active, once they are so many and the others stand by."""

    async def settled() -> bool:
        return sum(one.supervisor.announcing.active for one in all_of_them) == active

    await table.until(settled)
    return [one for one in all_of_them if one.supervisor.announcing.active]


async def writers(table: Table) -> list[str]:
    messages = await table.messages()
    return [one.headers["writer"] for one in messages if one.headers and "writer" in one.headers]


async def has_read(one: Supervising, seq: int) -> bool:
    return one.supervisor._read_seq >= seq


async def publish(table: Table, runs: Sequence[str], numbers: Sequence[int] = NUMBERS) -> None:
    for run in runs:
        await table.client.publish("t", {"n": list(numbers)}, run)


async def test_one_decides_and_the_others_hold_the_same_state() -> None:
    async with announced() as table:
        some = [table.supervise(name=name) for name in "abc"]
        (active,) = await roles(table, *some)
        table.work("w", add)
        await publish(table, ["r1", "r2", "r3"])
        ended = await table.ended("r1", "r2", "r3")
        assert set(await writers(table)) == {active.supervisor.name}
        head = await table.log.head()
        for one in some:
            await table.until(lambda one=one: has_read(one, head))  # type: ignore[misc]
            for folded in ended:
                held = one.supervisor.runs.get(folded.state.run)
                assert held is not None
                assert (held.h, state_digest(held.state)) == (folded.h, state_digest(folded.state))
        await table.check()


@pytest.mark.parametrize("how", ["killed", "stopped"])
async def test_standby_takes_over_in_the_middle_of_runs(how: str) -> None:
    """The first one is gone with tasks in flight, and with an input on the log that nobody has decided."""
    async with announced() as table:
        first, second = (table.supervise(name=name, grace_s=60.0) for name in "ab")
        (active,) = await roles(table, first, second)
        (other,) = {first, second} - {active}
        await publish(table, ["r1"])

        async def dispatched() -> bool:
            return len((await table.run("r1")).state.tasks) >= 4

        await table.until(dispatched)
        if how == "killed":
            active.supervisor.announcing._announcements = None  # so that it cannot say that it leaves
        await active.kill()
        await table.queue.remove(await table.queue.keys())  # as if it had stored that they are dispatched, and no more
        table.queue._seen.clear()
        table.work("w", add)
        await publish(table, ["r2"])
        began_s = asyncio.get_running_loop().time()
        assert {folded.state.result["total"] for folded in await table.ended("r1", "r2")} == {sum(NUMBERS)}
        took_s = asyncio.get_running_loop().time() - began_s
        assert other.supervisor.announcing.active
        assert set(await writers(table)) == {"a", "b"}
        assert (took_s > SILENCE_S - 2 * BEAT_S) == (how == "killed")
        await table.check()


async def test_one_that_was_cut_off_steps_back_and_all_is_as_if_there_had_been_one() -> None:
    """For a while both decide everything."""
    async with announced() as table:
        table.work("w", add)
        assert table.announcements is not None
        ways = [Cut(table.announcements) for _ in "ab"]
        table.announcements = ways[0]
        first = table.supervise(name="a")
        await roles(table, first)
        table.announcements = ways[1]
        second = table.supervise(name="b")
        await table.until(lambda: hears(second, "a"))
        ways[0].off = True
        await roles(table, first, second, active=2)
        await publish(table, [f"r{n}" for n in range(8)])
        await table.ended(*(f"r{n}" for n in range(8)))
        ways[0].off = False
        assert await roles(table, first, second) == [second], "the newer claim stays"
        await publish(table, ["last"])
        outcomes = {outcome_digest(folded.state) for folded in await table.ended("last", *(f"r{n}" for n in range(8)))}
        assert len(outcomes) == 1
        assert (await writers(table))[-1] == "b"
        await table.check()


async def test_older_release_hands_over_what_it_leaves_alone(caplog: pytest.LogCaptureFixture) -> None:
    """It decides as long as it can; the newer one stands by until a run needs it, and then is the active one."""
    caplog.set_level(logging.ERROR)
    async with announced() as table:
        newer = table.supervise(name="newer", rules=RULES + 1)
        await roles(table, newer)
        await publish(table, ["r1"], [1])
        await newer.reached(await table.log.head())
        older = table.supervise(name="older", rules=RULES)
        await table.until(lambda: hears(older, "newer"))
        await newer.kill()
        await roles(table, older)
        again = table.supervise(name="again", rules=RULES + 1)
        await table.until(lambda: hears(again, "older"))
        await publish(table, ["r2"], [1])
        await older.reached(await table.log.head())
        assert (older.supervisor.announcing.active, again.supervisor.announcing.active) == (True, False)

        table.work("w", add)
        ended = await table.ended("r1", "r2", within_s=SILENCE_S + 4)
        assert [folded.state.end for folded in ended] == ["DONE", "DONE"]
        assert await roles(table, older, again) == [again]
        assert set(older.supervisor.committer.left) == {"r1"}
        assert again.supervisor.announcing._standing._others["older"].said.leaves == {"r1"}
        assert again.supervisor.committer.left == {}
        assert sum("run r1 is left alone" in record.getMessage() for record in caplog.records) == 1


async def hears(one: Supervising, other: str) -> bool:
    """Whether it has heard that the other is active."""
    standing = one.supervisor.announcing._standing
    return standing._kept_s is not None and other in standing._others


async def test_observation_with_a_floor_of_its_own_is_not_believed() -> None:
    """Only what supervisors write on fact subjects says how far is decided."""
    async with announced() as table:
        assert table.announcements is not None
        absent = Announcement("x", await table.log.current_id(), "active", RULES, 1, 1)
        standby = table.supervise(name="a")
        await table.announcements.announce(encode_announcement(absent))
        await publish(table, ["r1"], [1])
        (seq,) = await table.say(ended("each-0", {"v.k0": 1}))
        await table.log.append(Append("bb.main.obs.eve.r1", b"{}", headers={"floor": str(seq)}))
        await table.until(lambda: has_read(standby, seq + 1))
        assert standby.supervisor.position == 0
        await table.announcements.announce(encode_announcement(replace(absent, role="leaving")))
        table.work("w", add)
        await table.ended("r1")
        assert set(await writers(table)) == {"a"}
