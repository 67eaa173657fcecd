"""Histories in which an earlier wording of a rule lost, doubled or changed something."""

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

import pytest

from blackboard.log import Append, Message
from blackboard.queue import Entry, TaskKey
from projections.history import decoded
from schemas import events as e
from schemas.codec import decode_facts
from supervisor import decide as deciding
from supervisor import runs
from supervisor.service import Supervisor
from tests.supervisor.scenario import Said, cancel, ended, failed, goal, offer, started, step, teach
from tests.supervisor.table import Crash, Faulty, Fuse, Stop, Supervising, Table, board_in_memory

TEAM = (offer("w", "work"), teach(step("a"), returns={"a": "facts.a"}))
PARENT = teach(step("c", team="t"), team="p", returns={"c": "facts.c.a"})


class CrashWhen(Faulty):
    """A log whose supervisor is gone when it appends what `when` names: before it, or after the first `stored`."""

    def __init__(self, inner: Any, when: Callable[[Sequence[Append]], bool], stored: int = 0) -> None:
        super().__init__(inner, Fuse())
        self._when, self._stored = when, stored

    async def append(self, *appends: Append) -> Any:
        if self._when(appends):
            if self._stored:
                await self._inner.append(*appends[: self._stored])
            raise Crash
        return await self._inner.append(*appends)


def crashes(table: Table, when: Callable[[Sequence[Append]], bool], stored: int = 0, **options: Any) -> Supervising:
    return table.supervise(table.board(CrashWhen(table.log.connect(), when, stored)), **options)


async def work(table: Table, value: Any = 1) -> None:
    table.work("w", lambda task, item: value)


async def test_floor_two_goals_in_one_batch_and_a_crash_when_one_is_stored() -> None:
    for stored in (1, 2):
        async with board_in_memory(*TEAM) as table:
            await table.say(goal(run="r1"), goal(run="r2"), goal(run="r3"))
            first = crashes(table, lambda appends: len(appends) == 3, stored)
            await asyncio.wait([first.task])
            table.supervise()
            await work(table)
            folded = await table.ended("r1", "r2", "r3")
            assert [one.state.end for one in folded] == ["DONE"] * 3
            await table.check()


async def test_floor_is_what_is_decided_and_not_what_was_read() -> None:
    async with board_in_memory(*TEAM) as table:
        supervising = table.supervise(batch=1)
        await table.say(goal(run="r1"), cancel(run="r1"), goal(run="r2"))
        await table.ended("r1")
        await supervising.reached(5)
        for message in await table.messages():
            if message.subject.startswith("bb.main.fact."):
                cursor = max(cause_of(message))
                assert message.headers is not None
                assert int(message.headers["floor"]) < cursor


def cause_of(message: Message) -> list[int]:
    return [event.cause.seq for _, event in decoded(decode_facts(message.data))]


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

        class RunFirst(CrashWhen):
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

        class RunFirst(CrashWhen):
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


async def test_child_asked_and_a_crash_before_its_goal() -> None:
    async with board_in_memory(*TEAM, PARENT) as table:
        first = crashes(table, lambda appends: appends[0].subject.startswith("bb.main.goal._supervisor"))
        await table.say(goal(team="p"))
        await work(table)
        await asyncio.wait([first.task])
        table.supervise()
        (folded,) = await table.ended("r1")
        assert folded.state.result == {"c": 1}
        await table.check()


async def test_child_done_and_a_crash_before_its_parent_is_told() -> None:
    async with board_in_memory(*TEAM, PARENT) as table:
        first = crashes(table, lambda appends: b'"child_ended"' in appends[0].data)
        await table.say(goal(team="p"))
        await work(table)
        await asyncio.wait([first.task])
        table.supervise()
        (folded,) = await table.ended("r1")
        assert folded.state.result == {"c": 1}
        await table.check()


async def test_cancelled_parent_and_a_paused_supervisor_that_publishes_the_goal_of_its_child_afterwards() -> None:
    async with board_in_memory(*TEAM, PARENT) as table:
        first = crashes(table, lambda appends: appends[0].subject.startswith("bb.main.goal._supervisor"))
        await table.say(goal(team="p"))
        await asyncio.wait([first.task])
        (child,) = [task.child for task in (await table.run("r1")).state.tasks.values()]
        table.supervise()
        await table.say(cancel())
        await table.ended("r1")
        parent = {"run": "r1", "task": "c", "depth": 1}
        await table.say(Said("goal", "_supervisor", {"team": "t", "parent": parent}, child))
        (folded,) = await table.ended(child)
        assert folded.state.end == "CANCELLED"
        await table.check()


async def test_timer_is_an_input_and_what_has_a_smaller_sequence_wins() -> None:
    async with board_in_memory(offer("w", "work", deadline_s=0.02), teach(step("a", wait_s=0.02, attempts=2))) as table:
        pair = table.supervise(), table.supervise()
        await table.say(goal())
        (folded,) = await table.ended("r1")
        assert (folded.state.end, folded.state.code) == ("FAILED_RETRYABLE", "TIMEOUT")
        wakes = [message for message in await table.messages() if message.subject == "bb.main.wake.r1"]
        assert len(wakes) >= 4
        await table.check()
        assert pair[0].supervisor.committer.left == {}


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


async def test_catalogue_is_that_below_the_input_however_much_was_read() -> None:
    for batch in (1, 500):
        async with board_in_memory() as table:
            one = step("a", input={"x": "`1`"})
            await table.say(
                teach(one),
                offer("w", "work"),
                goal(run="r1"),
                offer("u", "work"),
                teach(step("b", "none")),
                goal(run="r2"),
                offer("w"),
                ended("a", {"a": 1}, run="r1"),
            )
            supervising = table.supervise(batch=batch)
            await supervising.reached(8)
            first, second = await table.run("r1"), await table.run("r2")
            assert (first.state.end, first.state.playbook) == ("DONE", 1)
            assert [voice.specialist for voice in first.state.steps["a"].voices] == ["w"]
            assert (second.state.playbook, second.state.steps["b"].awaiting) == (5, "none")
            await table.check()


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


async def taken_by_hand(table: Table, **options: Any) -> Supervisor:
    """A supervisor that reads only what it is given."""
    supervisor = Supervisor(table.board(), mend_s=0.0, **options)
    await supervisor._recover()
    await read(table, supervisor)
    return supervisor


async def read(table: Table, supervisor: Supervisor, upto: int | None = None) -> None:
    supervisor._inbox += [
        message for message in await table.messages() if supervisor.position < message.seq <= (upto or message.seq)
    ]
    await supervisor._turn()


async def test_end_that_was_stored_and_acknowledged_before_the_supervisor_read_it() -> None:
    async with board_in_memory(*TEAM) as table:
        await table.say(goal())
        supervisor = await taken_by_hand(table)
        await read(table, supervisor)
        delivery = await table.queue.pull("w", 1)
        assert delivery is not None
        await table.say(ended("a", {"a": 1}))
        await delivery.ack()
        table.queue._seen.clear()  # nothing but the order of mending keeps it out
        for _ in range(3):
            await supervisor._turn()
            assert await table.queue.keys() == set()
        await read(table, supervisor)
        assert supervisor.runs.get("r1").state.end == "DONE"  # type: ignore[union-attr]
        for _ in range(3):
            await supervisor._turn()
            assert await table.queue.keys() == set()


async def test_half_of_the_queue_is_lost_and_it_is_not_empty() -> None:
    steps = [step("a", for_each="input.n", fact="v.k{item}")]
    async with board_in_memory(offer("w", "work"), teach(*steps)) as table:
        table.supervise()
        await table.say(goal({"n": [0, 1, 2, 3]}))

        async def filled() -> bool:
            return len(table.queue._entries) == 4

        await table.until(filled)
        for key in sorted(await table.queue.keys())[:2]:
            del table.queue._entries[key]
        table.queue._seen.clear()
        await table.until(filled, within_s=5)


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


async def test_repeated_ends_of_a_redelivered_task_count_once() -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise()
        table.work("w", lambda task, item: 1, repeat=4)
        await table.say(goal())
        await table.ended("r1")
        assert (await table.run("r1")).state.usage.input_tokens == 1
        await table.check()


async def test_clock_that_is_set_back_in_mid_run() -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise()
        await table.say(goal())
        table.now_ms -= 900_000
        await work(table)
        await table.ended("r1")
        times = [event.at for event in await table.events("r1")]
        assert times == sorted(times)
        await table.check()


async def test_older_supervisor_leaves_the_run_and_its_floor_behind_and_the_newer_one_goes_on(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async with board_in_memory(*TEAM) as table:
        monkeypatch.setattr(deciding, "RULES", 2)
        newer = table.supervise()
        await table.say(goal(run="r1"))
        await newer.reached(3)
        await newer.kill()
        monkeypatch.setattr(deciding, "RULES", 1)
        older = table.supervise()
        await table.say(ended("a", {"a": 1}, run="r1"), started("a", run="r9"), goal(run="r2"))
        await table.say(ended("a", {"a": 2}, run="r2"))
        await table.ended("r2")
        assert older.supervisor.committer.left == {"r1": 5}
        assert older.supervisor.floor == 4
        last = await table.log.last("bb.main.fact.>")
        assert last is not None
        assert last.headers is not None
        assert int(last.headers["floor"]) <= 4
        assert not (await table.run("r1")).state.end
        await older.kill()
        monkeypatch.setattr(deciding, "RULES", 2)
        table.supervise()
        (folded,) = await table.ended("r1")
        assert folded.state.result == {"a": 1}


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


async def test_run_id_of_a_child_is_burnt_by_a_stranger() -> None:
    async with board_in_memory(*TEAM, PARENT) as table:
        first = crashes(table, lambda appends: appends[0].subject.startswith("bb.main.goal._supervisor"))
        await table.say(goal(team="p"))
        await asyncio.wait([first.task])
        (child,) = [task.child for task in (await table.run("r1")).state.tasks.values()]
        await table.say(goal(by="eve", run=child))
        table.supervise()
        await work(table)
        (folded,) = await table.ended("r1")
        assert folded.state.result == {"c": 1}
        assert folded.state.tasks["c"].attempt == 2
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
