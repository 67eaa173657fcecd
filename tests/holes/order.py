"""Histories about what comes first, and about time."""

from blackboard.log import Append, Conflict, Message, Stored
from projections.canonical import Gate
from schemas import events as e
from schemas.inputs import TimerDue
from supervisor.replay import redecide
from tests.holes.ports import TEAM, Remembers
from tests.holes.table import Table
from tests.supervisor.scenario import Said, ended, goal, offer, started, step, teach

WORK_S = 10
ONE = lambda task, item: 1  # noqa: E731


def progress(task: str, run: str = "r1") -> Said:
    body = {"type": "progress", "task": task, "attempt": 1, "execution": "x", "message": "on it"}
    return Said("obs", "w", body, run)


async def wakes(table: Table, run: str = "r1") -> list[int]:
    return [message.seq async for message in table.log.read(table.subjects.wake(run))]


async def answer_that_nobody_has_read_when_the_timer_is_due(table: Table) -> None:
    await table.say(offer("w", "work", deadline_s=WORK_S), teach(step("a", attempts=1)), goal())
    held = await table.held()
    await table.rest(held)
    await table.say(started("a"), progress("a"))
    await held.read()
    await table.say(ended("a", {"a": 1}))
    table.passes(WORK_S + 1)
    await held.turn()
    await table.rest(held)
    state = (await table.run("r1")).state
    assert state.end == "DONE", f"the answer came first and is called late: {state.end} {state.code}"
    assert len(await wakes(table)) == 1
    await table.check()


async def approval_before_anybody_was_asked(table: Table) -> None:
    steps = [step("a", attempts=1, missing="allow"), step("b", needs=["a"], gate={})]
    await table.say(offer("w", "work", deadline_s=WORK_S), teach(*steps), goal())
    held = await table.held()
    await table.rest(held)
    await table.say(started("a"), progress("a"))
    await held.read()
    timer = TimerDue(timer="task.a", armed=(await table.run("r1")).state.timers["task.a"].armed)
    digest = (await foreseen(table, Said("wake", "", timer))).digest
    await table.say(Said("signal", "ann", {"type": "approve", "gate": "b", "digest": digest}))
    table.passes(WORK_S + 1)
    await held.turn()
    await table.rest(held)
    state = (await table.run("r1")).state
    assert set(state.open_gates) == {"b"}, "an approval counts that came before the question"
    assert state.gates["b"].digest == digest
    await table.check()


async def foreseen(table: Table, said: Said) -> Gate:
    """The gate `b` that the run would open if this came now."""
    messages = await table.messages()
    last = messages[-1]
    messages.append(Message(last.seq + 1, said.subject_on(table.subjects), last.time_ms, said.data))
    return redecide(table.log.id, messages, board=table.subjects.board)["r1"].state.gates["b"]


async def contract_that_came_after_the_input_when_the_race_is_lost(table: Table) -> None:
    """The slow one has read all contracts when it decides the second input again."""
    await table.say(offer("w", "work"), teach(step("a"), step("b", needs=["a"])), goal())
    kept: list[tuple[Append, Stored | Conflict]] = []
    slow, quick = await table.held(log=lambda log: Remembers(log, kept)), await table.held()
    await table.rest(slow, quick)
    first, *_ = await table.say(started("a"), ended("a", {"a": 1}), offer("u", "work"))
    await slow.hear()
    await quick.read(upto=first)
    await slow.turn()
    assert [type(outcome) for _, outcome in kept] == [Stored, Conflict, Stored], "no race was lost"
    specialist = (await table.run("r1")).state.tasks["b"].specialist
    assert specialist == "w", f"{specialist} gets a task that was given out before its contract came"
    await table.rest(slow, quick)
    await table.check()


async def goal_that_is_an_hour_old_when_the_supervisor_comes(table: Table) -> None:
    await table.say(offer("w", "work", deadline_s=WORK_S), teach(step("a", attempts=1)))
    await table.set_log_clock(by_s=-3600)
    await table.say(goal())
    await table.set_log_clock(by_s=0)
    held = await table.held()
    await table.rest(held)
    assert await wakes(table) == [], "the task was past its time when it was given out"
    await table.work("w", ONE)
    await table.rest(held)
    assert (await table.run("r1")).state.end == "DONE"
    await table.check()


async def more_tasks_than_hands(table: Table) -> None:
    """One worker, five tasks of ten seconds, each with twenty seconds to wait and one attempt."""
    each = step("a", for_each="input.n", fact="v.k{index}", wait_s=2 * WORK_S, attempts=1)
    await table.say(offer("w", "work", deadline_s=WORK_S), teach(each), goal({"n": [0, 1, 2, 3, 4]}))
    held = await table.held()
    await table.rest(held)
    for _ in range(5):
        state = (await table.run("r1")).state
        assert not state.end, f"tasks that waited in vain have used up their attempts: {state.end} {state.reason}"
        delivery = await table.pull("w")
        await table.say(started(delivery.key.task, delivery.key.attempt))
        await held.read()
        table.passes(WORK_S - 1)
        await table.rest(held)
        claims = {f"v.k{delivery.key.task.removeprefix('a-')}": 1}
        await table.say(ended(delivery.key.task, claims, delivery.key.attempt))
        await delivery.ack()
        await held.read()
    state = (await table.run("r1")).state
    assert state.end == "DONE"
    assert max(task.attempt for task in state.tasks.values()) > 1, "no task waited too long"
    await table.check()


async def task_that_is_begun_at_the_end_of_its_wait(table: Table) -> None:
    await table.say(offer("w", "work", deadline_s=WORK_S), teach(step("a", wait_s=2 * WORK_S, attempts=1)), goal())
    held = await table.held()
    await table.rest(held)
    table.passes(2.5 * WORK_S)
    await table.say(started("a"))
    await held.read()
    table.passes(0.9 * WORK_S)
    await table.rest(held)
    assert await wakes(table) == [], "the time that the task has waited was taken from its work"
    await table.say(ended("a", {"a": 1}))
    await table.rest(held)
    assert (await table.run("r1")).state.end == "DONE"
    await table.check()


async def clock_of_the_log_set_back_in_mid_run(table: Table) -> None:
    await table.say(*TEAM, goal())
    held = await table.held()
    await table.rest(held)
    await table.set_log_clock(by_s=-900)
    await table.work("w", ONE)
    await table.rest(held)
    times = [event.at for event in await table.events("r1")]
    assert times == sorted(times), f"the time of the run went back: {times}"
    assert (await table.run("r1")).state.end == "DONE"
    await table.check()


async def clock_of_the_log_set_back_before_a_takeover(table: Table) -> None:
    await table.say(offer("w", "work", deadline_s=WORK_S), teach(step("a", wait_s=WORK_S)), goal())
    await table.rest(await table.held())
    await table.set_log_clock(by_s=-3600)
    await table.say(progress("a"))
    held = await table.held()
    table.passes(2 * WORK_S + 1)
    await table.rest(held)
    assert len(await wakes(table)) == 1, "the wait has grown by as much as the clock went back"
    assert any(isinstance(event, e.AttemptFailed) for event in await table.events("r1"))
    await table.check()
