"""Histories about who says something, how often, and what it is about."""

from collections import Counter

from schemas import events as e
from tests.holes.order import ONE
from tests.holes.ports import TEAM
from tests.holes.table import Table
from tests.supervisor.scenario import ended, goal, offer, started, step, teach


async def end_that_is_stored_twice(table: Table) -> None:
    """Its acknowledgement was lost, and the worker has said it again."""
    await table.say(offer("w", "work"), teach(step("a"), step("b")), goal())
    held = await table.held()
    said = ended("a", {"a": 1}, usage={"input_tokens": 7})
    await table.say(said, said)
    await table.rest(held)
    state = (await table.run("r1")).state
    assert state.usage.input_tokens == 7, f"seven tokens were used, and {state.usage.input_tokens} are counted"
    await table.check()


async def stranger_whose_goal_is_not_valid(table: Table) -> None:
    await table.say(*TEAM, goal(team="none", by="eve"), goal())
    held = await table.held()
    await table.rest(held)
    state = (await table.run("r1")).state
    assert (state.publisher, state.end) == ("me", ""), "a stranger has used the run up"
    await table.work("w", ONE)
    await table.rest(held)
    assert (await table.run("r1")).state.end == "DONE"
    await table.check()


async def observation_before_its_goal_and_one_of_a_run_that_is_none(table: Table) -> None:
    await table.say(*TEAM, started("a"), started("a", run="ghost", by="eve"), goal())
    held = await table.held()
    await table.rest(held)
    assert await table.events("ghost") == [], "a run is written that nobody has asked for"
    assert isinstance((await table.events("r1"))[0], e.RunOpened), "the run begins with what came before its goal"
    assert [type(event) for event in await table.events("_board")] == [e.InputRejected] * 2
    await table.check()


async def flood_of_ends_that_nobody_awaits(table: Table) -> None:
    await table.say(*TEAM, goal())
    held = await table.held()
    await table.say(*(ended("a", {"a": 1}, by="eve", execution=str(number)) for number in range(250)))
    await table.rest(held)
    counted = Counter(type(event) for event in await table.events("r1"))
    late, muted = counted[e.InputLate], counted[e.AuthorMuted]
    assert (late, muted) == (100, 1), f"a stranger makes the run grow: {late} of 250 are recorded"
    before = await table.run("r1")
    await table.rest(held, await table.held())
    assert await table.run("r1") == before, "inputs without events change something"
    await table.check()


async def claim_on_the_key_of_another_task(table: Table) -> None:
    each = step("a", for_each="input.n", fact="v.{item}", attempts=1)
    await table.say(offer("w", "work"), teach(each), goal({"n": ["x", "y"]}))
    held = await table.held()
    await table.say(ended("a-0", {"v.x": 1, "v.y": 1}))
    await table.rest(held)
    state = (await table.run("r1")).state
    assert state.facts == {}, "an end counts that speaks of what its task is not about"
    assert (state.end, state.code) == ("FAILED", "INVALID_OUTPUT")
    await table.check()


async def end_of_a_task_that_another_has(table: Table) -> None:
    await table.say(*TEAM, goal())
    held = await table.held()
    await table.say(ended("a", {"a": "of eve"}, by="eve"), ended("a", {"a": "of w"}))
    await table.rest(held)
    state = (await table.run("r1")).state
    assert state.result == {"a": "of w"}, "who never had the task has ended it"
    await table.check()
