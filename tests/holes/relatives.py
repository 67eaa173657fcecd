"""Histories about runs that ask for other runs."""

import asyncio

from tests.holes.ports import TEAM, Dies, Pauses, on, saying
from tests.holes.table import Table
from tests.supervisor.scenario import cancel, goal, offer, step, teach

PARENT = teach(step("c", team="t"), team="p", returns={"c": "facts.c.a"})


async def child_of(table: Table, run: str = "r1") -> str:
    (child,) = [task.child for task in (await table.run(run)).state.tasks.values()]
    return child


async def child_that_was_asked_for_and_a_crash_before_its_goal(table: Table) -> None:
    await table.say(*TEAM, PARENT, goal(team="p"))
    first = await table.held(log=lambda log: Dies(log, on("goal")))
    await first.dies(first.read())
    second = await table.held()
    await table.rest(second)
    assert (await table.run(await child_of(table))).state.goal, "the child's goal is never published, its parent hangs"
    await table.work("w", lambda task, item: 1)
    await table.rest(second)
    assert (await table.run("r1")).state.result == {"c": 1}
    await table.check()


async def child_that_is_done_and_a_crash_before_its_parent_is_told(table: Table) -> None:
    await table.say(*TEAM, PARENT, goal(team="p"))
    first = await table.held(log=lambda log: Dies(log, saying(b'"child_ended"')))
    await table.rest(first)
    await table.work("w", lambda task, item: 1)
    await first.dies(table.rest(first))
    assert (await table.run(await child_of(table))).state.end == "DONE"
    await table.rest(await table.held())
    assert (await table.run("r1")).state.result == {"c": 1}, "nobody tells the parent, which hangs"
    await table.check()


async def parent_that_is_cancelled_before_a_paused_supervisor_asks_for_its_child(table: Table) -> None:
    paused, go_on = asyncio.Event(), asyncio.Event()
    await table.say(*TEAM, PARENT, goal(team="p"))
    first = await table.held(log=lambda log: Pauses(log, on("goal"), paused, go_on))
    going_on = asyncio.create_task(first.dies(first.read()))
    await paused.wait()
    child, second = await child_of(table), await table.held()
    await table.say(cancel())
    await second.read()
    assert (await table.run("r1")).state.end == "CANCELLED"
    go_on.set()
    await going_on
    await table.rest(second)
    end = (await table.run(child)).state.end
    assert end == "CANCELLED", f"the child of a cancelled parent goes on: {end or 'it waits for an answer'}"
    await table.check()


async def stranger_who_was_first_with_the_name_of_a_child(table: Table) -> None:
    await table.say(*TEAM, PARENT, goal(team="p"))
    first = await table.held(log=lambda log: Dies(log, on("goal")))
    await first.dies(first.read())
    await table.say(goal(by="eve", run=await child_of(table)))
    second = await table.held()
    await table.rest(second)
    attempt = (await table.run("r1")).state.tasks["c"].attempt
    assert attempt == 2, "the parent waits for a run that is not its own"
    await table.work("w", lambda task, item: task.run, tasks=2)
    await table.rest(second)
    assert (await table.run("r1")).state.result == {"c": await child_of(table)}
    await table.check()


async def stranger_who_asks_in_the_name_of_a_parent(table: Table) -> None:
    child_team = teach(step("a", input={"x": "input.x"}), returns={"a": "facts.a"})
    parent = teach(step("c", team="t", input={"x": "`1`"}), team="p", returns={"c": "facts.c.a"})
    await table.say(offer("w", "work"), child_team, parent, goal(team="p"))
    first = await table.held(log=lambda log: Dies(log, on("goal")))
    await first.dies(first.read())
    child = await child_of(table)
    await table.say(goal({"x": 666}, by="eve", run=child, parent={"run": "r1", "task": "c", "depth": 1}))
    second = await table.held()
    await table.rest(second)
    await table.work("w", lambda task, item: item.input["x"])
    await table.rest(second)
    assert (await table.run("r1")).state.result == {"c": 1}, "a stranger's goal counts as that of the parent"
    await table.check()
