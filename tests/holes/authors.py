"""Histories about who says something, how often, and what it is about."""

from collections import Counter

from schemas import events as e
from tests.holes.order import ONE, WORK_S
from tests.holes.ports import TEAM
from tests.holes.table import Table
from tests.supervisor.scenario import Said, ended, goal, offer, started, step, teach


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


async def voice_that_is_heard_twice(table: Table) -> None:
    """Three are asked, two must agree; the task of one was delivered twice, and done twice."""
    asked = step("a", specialist="all", merge={"policy": "quorum", "n": 2})
    await table.say(*(offer(name, "work") for name in ("u", "v", "w")), teach(asked), goal())
    held = await table.held()
    await table.say(
        ended("a-0", {"a": 1}, by="u", execution="once"),
        ended("a-0", {"a": 1}, by="u", execution="twice"),
        ended("a-1", {"a": 2}, by="v"),
        ended("a-2", {"a": 3}, by="w"),
    )
    await table.rest(held)
    state = (await table.run("r1")).state
    assert state.facts == {}, "one voice that is heard twice is a quorum of two"
    assert (state.end, state.code) == ("FAILED", "LOW_CONFIDENCE")
    await table.check()


async def attempts_that_time_out_and_then_say_what_they_used(table: Table) -> None:
    """The budget is ten tokens, and each attempt may use five."""
    contract = offer("w", "work", deadline_s=WORK_S, attempts=3, budget={"tokens": 5})
    await table.say(contract, teach(step("a"), budget={"tokens": 10}), goal())
    held = await table.held()
    await table.rest(held)
    given_out = 0
    while not (state := (await table.run("r1")).state).end:
        given_out += 1
        assert state.tasks["a"].attempt == given_out
        await table.say(started("a", given_out))
        await held.read()
        table.passes(WORK_S + 1)
        await table.rest(held)
    await table.say(
        *(ended("a", {"a": 1}, n + 1, execution=str(n), usage={"input_tokens": 5}) for n in range(given_out))
    )
    await table.rest(held)
    after = (await table.run("r1")).state
    assert after.usage.input_tokens <= 10, f"{after.usage.input_tokens} tokens are used of a budget of 10"
    assert (state.reserved.tokens, after.reserved.tokens, after.charged.tokens) == (10, 0, 10)
    assert (state.end, state.code) == ("FAILED_RETRYABLE", "TIMEOUT"), "silence keeps it; nothing was heard to be used"
    await table.check()


async def stranger_who_approves(table: Table) -> None:
    """With the right digest, which everybody can read; who says it stands in the subject and nowhere else."""
    await table.say(offer("w", "work"), teach(step("a", gate={"who": ["ann"]})), goal())
    held = await table.held()
    await table.rest(held)
    approval = {"type": "approve", "gate": "a", "digest": (await table.run("r1")).state.gates["a"].digest}
    await table.say(Said("signal", "eve", approval))
    await table.rest(held)
    gate = (await table.run("r1")).state.gates["a"]
    assert gate.open, f"{gate.by} has approved what ann was asked"
    await table.say(Said("signal", "ann", approval))
    await table.rest(held)
    assert (await table.run("r1")).state.gates["a"].by == "ann"
    await table.work("w", ONE)
    await table.rest(held)
    assert (await table.run("r1")).state.end == "DONE"
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
