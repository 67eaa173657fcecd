"""What anybody may write stops nobody: it is recorded in `_board`, with its sequence, and the supervisor goes on."""

import asyncio

import pytest

from blackboard.log import Append, LogDamaged
from schemas import events as e
from tests.supervisor.scenario import Said, ended, goal, offer, started, step, teach
from tests.supervisor.table import Table, board_in_memory

TEAM = (offer("w", "work"), teach(step("a"), returns={"a": "facts.a"}))
DEEP = b"[" * 100_000

GARBAGE: dict[str, tuple[str, bytes, str]] = {
    "goal, not JSON": ("bb.main.goal.eve.r1", b"{", "not JSON"),
    "goal, empty": ("bb.main.goal.eve.r1", b"", "not JSON"),
    "goal, deep": ("bb.main.goal.eve.r1", DEEP, "nested deeper than 100"),
    "goal, not finite": (
        "bb.main.goal.eve.r1",
        b'{"team":"t","input":{"x":NaN}}',
        "input: a number that is not finite",
    ),
    "goal, unknown team": ("bb.main.goal.eve.r1", b'{"team":"u"}', "team: no playbook 'u' on this board"),
    "observation, no goal": ("bb.main.obs.eve.r1", started("a").data, "no goal came before it"),
    "observation, not text": ("bb.main.obs.eve.r1", b"\xff\xfe", "not JSON"),
    "observation, deep": ("bb.main.obs.eve.r1", DEEP, "nested deeper than 100"),
    "signal": ("bb.main.signal.eve.r1", b'{"type":"praise"}', "unknown type 'praise' of signal"),
    "wake": ("bb.main.wake.r1", b"7", "not a JSON object"),
    "contract": ("bb.main.contract.eve", b"{}", "contract: specialist: is missing"),
    "contract of another": (
        "bb.main.contract.eve",
        offer("w").data,
        "contract: specialist: names 'w', the subject names 'eve'",
    ),
    "playbook": ("bb.main.playbook.eve", b'{"team":"eve","steps":[]}', "playbook: steps: is not allowed (too_short)"),
    "playbook, deep": ("bb.main.playbook.eve", DEEP, "playbook: nested deeper than 100"),
    "run `_board`": ("bb.main.goal.eve._board", goal().data, "`_board` takes no input"),
    "too many tokens": (
        "bb.main.goal.eve.r1.x",
        b"{}",
        "'bb.main.goal.eve.r1.x' does not name an author and a run by tokens",
    ),
    "no token": ("bb.main.obs.e%e.r1", b"{}", "'bb.main.obs.e%e.r1' does not name an author and a run by tokens"),
}


async def still_serves(table: Table) -> None:
    table.work("w", lambda task, item: 1)
    await table.say(goal(run="sound"))
    (folded,) = await table.ended("sound", within_s=5)
    assert folded.state.end == "DONE"


@pytest.mark.parametrize(("subject", "data", "reason"), GARBAGE.values(), ids=GARBAGE)
async def test_garbage_is_recorded(subject: str, data: bytes, reason: str) -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise()
        await table.log.append(Append(subject, data))
        await still_serves(table)
        (rejected,) = await table.events("_board")
        assert isinstance(rejected, e.InputRejected)
        assert (rejected.cause.seq, rejected.subject, rejected.reason) == (3, subject, reason)
        await table.check()


@pytest.mark.parametrize("run", ["r1", "sound", "_board"])
@pytest.mark.parametrize("data", [b"{", b"{}", DEEP, b'{"log":"log-1","run":"r1","first":1,"prev":"","events":[{}]}'])
@pytest.mark.parametrize("before", [False, True])
async def test_garbage_among_facts_stops_nobody(run: str, data: bytes, before: bool) -> None:
    async with board_in_memory(*TEAM) as table:
        if not before:
            table.supervise()
            await table.say(goal(run="first"), ended("a", {"a": 1}, run="first"))
            await table.ended("first")
        await table.log.append(Append(f"bb.main.fact.{run}", data))
        if before:
            table.supervise()
        table.work("w", lambda task, item: 1)
        await table.say(goal(run="r2"), started("a", run="r1"), goal(run="r1"), goal(run="r3"))
        folded = await table.ended("r2", "r3", within_s=5)
        assert [one.state.end for one in folded] == ["DONE", "DONE"]


async def test_flood_of_garbage_is_muted_and_the_board_goes_on() -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise(batch=7)
        for index in range(150):
            await table.say(started("a", by="eve", run=f"none{index}"))
        await table.say(started("a", by="bob", run="none"))
        await still_serves(table)
        events = await table.events("_board")
        assert [type(event) for event in events] == [e.InputRejected] * 100 + [e.AuthorMuted, e.InputRejected]
        await table.check()


async def test_goal_for_a_finished_run_that_is_not_in_memory() -> None:
    """Whether it is late in the run or rejected must not depend on who remembers the run."""
    for again in (
        goal(team="none", by="eve"),
        goal({"x": 1}, by="eve"),
        goal(by="eve", parent={"run": "r", "task": "a", "depth": 1}),
    ):
        async with board_in_memory(*TEAM) as table:
            first = table.supervise()
            await table.say(goal(), ended("a", {"a": 1}))
            await table.ended("r1")
            await first.reached(await table.log.head())
            await table.say(goal(run="r2"), ended("a", {"a": 1}, run="r2"))
            await table.ended("r2")
            await first.kill()
            second = table.supervise()
            await second.reached(await table.log.head())
            assert second.supervisor.runs.get("r1") is None
            await table.say(again)

            async def recorded() -> bool:
                return isinstance((await table.events("r1"))[-1], e.InputLate)

            await table.until(recorded, within_s=5)
            assert await table.events("_board") == []
            await table.check()


async def test_log_that_lost_the_last_fact_of_a_run_leaves_that_run_alone() -> None:
    async with board_in_memory(*TEAM) as table:
        supervising = table.supervise()
        await table.say(goal())
        await supervising.reached(4)
        table.log.damage(4)
        await table.say(ended("a", {"a": 1}))
        await supervising.reached(5)
        assert supervising.supervisor.committer.left == {"r1": 5}
        await still_serves(table)


async def test_log_that_lost_a_fact_in_the_middle_is_not_gone_on_with() -> None:
    async with board_in_memory(*TEAM, teach(step("a"), step("b"))) as table:
        first = table.supervise()
        await table.say(goal())
        await first.reached(5)
        await table.say(ended("a", {"a": 1}))
        await first.reached(7)
        await first.kill()
        facts = [message.seq async for message in table.log.read("bb.main.fact.r1")]
        assert len(facts) == 2
        table.log.damage(facts[0])
        second = table.supervise()
        with pytest.raises(LogDamaged, match=f"log damaged at sequence {facts[0]}"):
            await asyncio.wait_for(second.task, 5)
        table.tasks.remove(second.task)


async def test_position_at_which_nothing_is_stored_any_more_is_damage_and_no_reason_to_start_anew() -> None:
    async with board_in_memory(*TEAM) as table:
        first = table.supervise(batch=1)
        await table.say(goal(run="r1"))
        await first.reached(4)
        await table.say(goal(run="r2"))
        await first.reached(6)
        await first.kill()
        last = await table.log.last("bb.main.fact.>")
        assert last is not None
        assert last.headers is not None
        floor = int(last.headers["floor"])
        table.log.damage(floor)
        second = table.supervise()
        with pytest.raises(LogDamaged, match=f"log damaged at sequence {floor}"):
            await asyncio.wait_for(second.task, 5)
        table.tasks.remove(second.task)


async def test_log_that_was_replaced_is_served_from_its_beginning() -> None:
    async with board_in_memory(*TEAM) as table:
        board = table.board()
        table.supervise(board)
        await table.say(goal(run="old"))

        async def opened() -> bool:
            return bool((await table.run("old")).state.goal)

        await table.until(opened)
        table.log.replace()
        table.log._id = table.log._store.log_id
        board.log.reconnect()  # type: ignore[attr-defined]
        await table.say(*TEAM)
        await still_serves(table)
        await table.check()
        assert await table.events("old") == []


async def test_history_of_a_child_that_cannot_be_read_stops_only_those_that_need_it() -> None:
    async with board_in_memory(*TEAM, teach(step("c", team="t"), team="p")) as table:
        first = table.supervise()
        await table.say(goal(team="p"))

        async def asked() -> bool:
            return any("_supervisor" in message.subject for message in await table.messages())

        await table.until(asked)
        (child,) = [task.child for task in (await table.run("r1")).state.tasks.values()]
        await first.kill()
        await table.log.append(Append(f"bb.main.fact.{child}", b"{"))
        table.supervise()
        await still_serves(table)


async def test_refused_playbook_leaves_the_one_before_it_in_force() -> None:
    """An artefact that is refused changes nothing about the one before it."""
    async with board_in_memory(*TEAM) as table:
        table.supervise()
        await table.say(Said("playbook", "t", {"team": "t", "steps": [{"id": "x"}]}))
        await still_serves(table)
