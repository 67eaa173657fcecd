"""What a supervisor finds when it takes over, comes late or comes back. Histories that shaped a rule: tests/holes."""

import asyncio
from collections.abc import Sequence
from typing import Any

import pytest

from blackboard.log import Append
from blackboard.queue import Entry, TaskKey
from schemas import events as e
from supervisor import decide as deciding
from supervisor import runs
from tests.holes.ports import TEAM, Dies
from tests.supervisor.scenario import ended, failed, goal, offer, started, step, teach
from tests.supervisor.table import Stop, Table, board_in_memory


async def work(table: Table, value: Any = 1) -> None:
    table.work("w", lambda task, item: value)


async def test_record_in_board_that_was_not_stored_while_its_run_was() -> None:
    """Garbage for a run, and an end of a task of it, in one batch: the run is stored, `_board` is not."""
    async with board_in_memory(*TEAM) as table:
        supervising = table.supervise()
        await table.say(goal())
        await supervising.reached(4)
        await supervising.kill()
        await table.say(ended("a")._replace(body=b"{"), ended("a", {"a": 1}))

        def both(appends: Sequence[Append]) -> bool:
            return [one.subject for one in appends] == ["bb.main.fact.r1"] or len(appends) == 2

        class RunFirst(Dies):
            async def append(self, *appends: Append) -> Any:
                return await super().append(*sorted(appends, key=lambda one: one.subject, reverse=True))

        first = table.supervise(table.board(RunFirst(table.log.connect(), both, stored=1)))
        await asyncio.wait([first.task])
        await table.ended("r1")
        last = table.supervise()
        await last.reached(await table.log.head())

        async def recorded() -> bool:
            return len(await table.events("_board")) == 1

        await table.until(recorded, within_s=5)
        await table.check()


async def test_goal_that_came_in_vain_before_the_one_that_opened_the_run() -> None:
    async with board_in_memory(*TEAM) as table:
        await table.say(started("a"), goal(team="none"), goal())

        class RunFirst(Dies):
            async def append(self, *appends: Append) -> Any:
                return await super().append(*sorted(appends, key=lambda one: one.subject, reverse=True))

        first = table.supervise(table.board(RunFirst(table.log.connect(), lambda appends: len(appends) == 2, stored=1)))
        await asyncio.wait([first.task])
        table.supervise()

        async def recorded() -> bool:
            return len(await table.events("_board")) == 2

        await table.until(recorded, within_s=5)
        await work(table)
        await table.ended("r1")
        reasons = [event.reason for event in await table.events("_board") if isinstance(event, e.InputRejected)]
        assert reasons == ["no goal came before it", "team: no playbook 'none' on this board"]
        await table.check()


async def test_timer_goes_on_after_a_takeover() -> None:
    async with board_in_memory(offer("w", "work", deadline_s=0.05), teach(step("a", wait_s=0.05, attempts=1))) as table:
        first = table.supervise()
        await table.say(goal())
        await first.reached(4)
        await first.kill()
        table.now_ms += 3_600_000
        table.supervise()
        (folded,) = await table.ended("r1")
        assert folded.state.code == "TIMEOUT"


async def test_timer_of_a_run_that_holds_what_looks_like_its_end() -> None:
    """Taking over must not mistake a value for the end of the run: nobody would count its timers any more."""
    async with board_in_memory(offer("w", "work", deadline_s=0.05), teach(step("a", wait_s=0.05, attempts=1))) as table:
        first = table.supervise()
        await table.say(goal()._replace(body=b'{"team":"t","input":{"type":"run_ended"}}'))
        await first.reached(4)
        await table.say(goal(run="r2"))
        await first.reached(6)
        await first.kill()
        table.supervise()
        (folded,) = await table.ended("r1", within_s=5)
        assert folded.state.code == "TIMEOUT"


async def test_contract_for_an_awaited_capability_that_comes_later() -> None:
    async with board_in_memory(teach(step("a"))) as table:
        table.supervise()
        await table.say(goal())

        async def awaited() -> bool:
            return bool((await table.run("r1")).state.timers)

        await table.until(awaited)
        await table.say(offer("w", "work"))
        await work(table)
        (folded,) = await table.ended("r1")
        assert folded.state.end == "DONE"
        await table.check()


async def test_what_is_unknown_stays_in_the_queue_and_what_has_ended_does_not() -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise()
        await table.say(goal())
        await table.say(ended("a", {"a": 1}))
        await table.ended("r1")
        unknown, over = TaskKey("w", "r9", "a", 1), TaskKey("w", "r1", "a", 1)
        table.queue._seen.clear()
        await table.queue.put([Entry(unknown, b""), Entry(over, b"")])

        async def mended() -> bool:
            return await table.queue.keys() == {unknown}

        await table.until(mended)
        await asyncio.sleep(0.1)
        assert await mended()


async def test_run_that_is_left_alone_gets_no_wakes(monkeypatch: pytest.MonkeyPatch) -> None:
    async with board_in_memory(offer("w", "work", deadline_s=0.02), teach(step("a", wait_s=0.02))) as table:
        monkeypatch.setattr(deciding, "RULES", 2)
        newer = table.supervise()
        await table.say(goal())
        await newer.reached(4)
        await newer.kill()
        monkeypatch.setattr(deciding, "RULES", 1)
        older = table.supervise(grace_s=0.05)
        await table.say(failed("a", "INTERNAL"))
        await older.reached(5)
        head = await table.log.head()
        await asyncio.sleep(0.3)
        assert await table.log.head() == head


async def test_one_run_that_fails_every_way_still_lets_the_next_attempt_succeed() -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise()

        def answer(task: Any, item: Any) -> Any:
            if task.attempt == 1:
                raise Stop("INTERNAL")
            return task.attempt

        table.work("w", answer, start=True)
        await table.say(goal())
        (folded,) = await table.ended("r1")
        assert folded.state.result == {"a": 2}
        await table.check()


async def test_inputs_for_more_finished_runs_than_are_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading one of them must not make another one that the same batch names unknown."""
    monkeypatch.setattr(runs, "FINISHED_KEPT", 1)
    async with board_in_memory(*TEAM) as table:
        names = [f"r{number}" for number in range(6)]
        await table.say(*(goal(run=run) for run in names), *(ended("a", {"a": 1}, run=run) for run in names))
        table.supervise()
        await table.ended(*names)
        await table.say(*(ended("a", {"a": 1}, run=run, execution="again") for run in names))

        async def late() -> bool:
            return all([isinstance((await table.events(run))[-1], e.InputLate) for run in names])

        await table.until(late, within_s=5)
        assert await table.events("_board") == []
        await table.check()
