"""Histories about what is stored: in how many messages, in which bytes, by which rules."""

import asyncio
from collections import Counter
from collections.abc import Callable

from blackboard.jetstream_append import BATCH_FROM, WAVE_LIMIT
from blackboard.log import Append, Conflict, Stored
from schemas import events as e
from supervisor.decide import RULES
from tests.holes.order import progress
from tests.holes.ports import TEAM, Dies, Remembers, on
from tests.holes.table import Table
from tests.supervisor.scenario import ended, goal, offer, started, step, teach

EACH = step("a", for_each="input.n", fact="v.k{index}")


async def events_of_one_input_and_a_crash_after_the_first_message(table: Table) -> None:
    await table.say(offer("w", "work"), teach(EACH), goal({"n": [0, 1, 2]}))
    first = await table.held(log=lambda log: Dies(log, on("fact"), stored=1))
    await first.dies(first.read())
    assert (await table.run("r1")).state.goal
    await table.rest(await table.held())
    state = (await table.run("r1")).state
    assert len(state.tasks) == 3, f"of three tasks {len(state.tasks)} are there, and nobody makes the others"
    assert len(await table.queue.keys()) == 3
    await table.check()


async def end_that_brings_about_more_than_a_message_holds(table: Table) -> None:
    await table.say(offer("w", "work"), teach(EACH | {"tasks": 1}), goal({"n": list(range(10))}))
    held = await table.held()
    await table.rest(held)
    await table.say(ended("a", {f"v.k{index}": "x" * 60_000 for index in range(10)}))
    await table.rest(held)
    state = (await table.run("r1")).state
    outcome = state.end, state.code
    assert outcome == ("FAILED", "BUDGET_EXCEEDED"), f"more was stored for one input than is allowed: {outcome}"
    await table.check()


async def same_inputs_in_batches_of_one_and_two_and_seven(table: Table) -> None:
    await table.say(offer("w", "work"), teach(step("a"), step("b", needs=["a"])))
    versions, messages = {}, {}
    for batch in (1, 2, 7):
        run = f"r{batch}"
        held = await table.held(batch=batch)
        await held.read()
        ends = [one for name in ("a", "b") for one in (started(name, run=run), ended(name, {name: 1}, run=run))]
        await table.say(goal(run=run), *ends)
        await held.read()
        folded = await table.run(run)
        assert folded.state.end == "DONE"
        versions[batch] = folded.state.version
        messages[batch] = len([message async for message in table.log.read(table.subjects.fact(run))])
    assert messages == {1: 5, 2: 3, 7: 1}
    assert set(versions.values()) == {versions[1]}, f"versions depend on the size of batches: {versions}"
    await table.check()


async def two_supervisors_that_decide_one_input(table: Table) -> None:
    await table.say(*TEAM, goal())
    kept: dict[str, list[tuple[Append, Stored | Conflict]]] = {"one": [], "other": []}

    def remembering(name: str) -> Callable[[object], Remembers]:
        return lambda log: Remembers(log, kept[name])

    pair = [await table.held(log=remembering(name), name=name) for name in kept]
    for held in pair:
        await held.hear()
    for held in pair:
        await held.turn()
    (one, stored), (other, known) = (appended[0] for appended in kept.values())
    assert one.data == other.data, "they have decided the same and would store other bytes"
    assert stored == known, "what is there already is not known again"
    assert (one.headers, other.headers) == ({"writer": "one", "floor": "0"}, {"writer": "other", "floor": "0"})
    await table.rest(*pair)
    await table.check()


async def older_supervisor_beside_a_newer_one(table: Table) -> None:
    await table.say(*TEAM, goal())
    newer, older = await table.held(rules=RULES + 1), await table.held(rules=RULES)
    await newer.read()
    await table.say(ended("a", {"a": 1}))
    await older.read()
    assert not (await table.run("r1")).state.end, "the older rules go on with a run that newer ones have begun"
    assert older.left == {"r1": 5}
    await table.rest(newer)
    assert (await table.run("r1")).state.end == "DONE"


async def newer_supervisor_that_goes_on_with_a_run_of_an_older_one(table: Table) -> None:
    await table.say(offer("w", "work"), teach(step("a"), step("b", needs=["a"])), goal())
    newer, older = await table.held(rules=RULES + 1), await table.held(rules=RULES)
    await older.read()
    await table.say(ended("a", {"a": 1}))
    await newer.read()
    await table.say(progress("b"), ended("b", {"b": 1}))
    await older.read()
    assert not (await table.run("r1")).state.end, "two versions of the rules decide one run, and nothing says which"
    await table.rest(newer)
    changes = [event.rules for event in await table.events("r1") if isinstance(event, e.RulesChanged)]
    assert changes == [RULES + 1]
    assert (await table.run("r1")).state.end == "DONE"


def facts_of(table: Table, count: int, of: str = "r") -> list[Append]:
    return [Append(table.subjects.fact(f"{of}{number}"), b"{}", expected=0) for number in range(count)]


async def one_miss_among_many(table: Table) -> None:
    appends = facts_of(table, 2 * BATCH_FROM)
    await table.log.append(Append(appends[7].subject, b"[]"))
    outcomes = await table.log.append(*appends)
    missed = [number for number, outcome in enumerate(outcomes) if isinstance(outcome, Conflict)]
    assert missed == [7], f"one message misses its expectation, and {len(missed)} are refused"


async def two_messages_for_one_subject_at_the_same_time(table: Table) -> None:
    one, other = facts_of(table, BATCH_FROM, "one"), facts_of(table, BATCH_FROM, "other")
    one.append(Append(table.subjects.fact("both"), b"1", expected=0))
    other.append(Append(table.subjects.fact("both"), b"2", expected=0))
    outcomes = [
        found for call in await asyncio.gather(table.log.append(*one), table.log.append(*other)) for found in call
    ]
    counted = Counter(type(outcome) for outcome in outcomes)
    assert counted == {Stored: 2 * BATCH_FROM + 1, Conflict: 1}, (
        f"one of two must be refused, and others are: {counted}"
    )


async def more_runs_than_a_batch_holds(table: Table) -> None:
    outcomes = await table.log.append(*facts_of(table, WAVE_LIMIT + 50))
    refused = sum(isinstance(outcome, Conflict) for outcome in outcomes)
    assert refused == 0, f"{refused} of {len(outcomes)} runs are refused for being too many"
    assert await table.log.head() == WAVE_LIMIT + 50
