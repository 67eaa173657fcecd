"""A supervisor with newer rules takes runs over while the older one lives: nothing is stranded, and what was decided by
which rules stands in the record."""

import logging
from collections import Counter
from typing import Any

import pytest

from blackboard.board import floor_of
from projections.history import outcome_digest
from schemas import events as e
from schemas.codec import decode_event, decode_facts
from schemas.subjects import BOARD_RUN
from schemas.tasks import Item, Task
from supervisor.compare import Equal, NotDecidable, compare
from supervisor.decide import KNOWN_RULES, RULES
from tests.supervisor.scenario import Said, offer, step, teach
from tests.supervisor.table import Table, board_in_memory

TEAM: tuple[Said, ...] = (
    offer("w", "work"),
    teach(
        step("each", for_each="input.n", fact="v.k{index}", input={"x": "item"}),
        step("total", needs=["each"], input={"all": "values(facts.v)"}),
        returns={"total": "facts.total"},
        parallel=2,
    ),
    teach(
        step("part", team="t", for_each="input.parts", fact="p.k{index}", input={"n": "item"}),
        returns={"parts": "facts.p.*.total"},
        team="p",
    ),
)
RUNS = 12
OLDER, NEWER = RULES, RULES + 1
KNOWN = ", ".join(map(str, sorted(KNOWN_RULES)))
BOTH, BOTH_IN_TURN = {OLDER, NEWER}, (OLDER, NEWER)


def work(task: Task, item: Item) -> Any:
    return sum(item.input["all"] or []) if "all" in item.input else item.input["x"]


async def publish(table: Table, numbers: range) -> list[str]:
    runs = [await table.client.publish("t", {"n": [1, 2, 3, 4]}, f"flat-{number}") for number in numbers]
    return runs + [await table.client.publish("p", {"parts": [[1, 2], [3]]}, f"deep-{number}") for number in numbers]


async def by_rules(table: Table) -> dict[str, tuple[int, ...]]:
    """The versions of the rules that decided each run, in order."""
    messages = await table.messages()
    verdicts = compare(table.log.id, messages, known=BOTH, floor=await settled(table))
    assert all(isinstance(one, Equal) for one in verdicts.values()), verdicts
    return {run: one.rules for run, one in verdicts.items() if isinstance(one, Equal) and run != BOARD_RUN}


async def settled(table: Table) -> int:
    return max(floor_of(message) for message in await table.messages())


@pytest.mark.parametrize("late", [False, True], ids=["from the start", "in mid-run"])
async def test_newer_supervisor_takes_over_while_the_older_one_lives(
    late: bool, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.ERROR)
    async with board_in_memory(*TEAM) as table:
        older = table.supervise(rules=OLDER, name="older")
        runs = await publish(table, range(RUNS // 2))
        newer = None if late else table.supervise(rules=NEWER, name="newer")
        table.work("w", work)
        if late:
            await table.ended("flat-0")
            newer = table.supervise(rules=NEWER, name="newer")
        assert newer is not None
        runs += await publish(table, range(RUNS // 2, RUNS))
        outcomes = {run: outcome_digest(one.state) for run, one in zip(runs, await table.ended(*runs), strict=True)}
        assert len(set(outcomes.values())) == 2, "each kind of run ends the same, whoever decided it"
        await newer.reached(await table.log.head())

        rules = await by_rules(table)
        kinds = Counter(rules.values())
        print(f"decided by rules: {dict(kinds)}; left alone by the older one: {len(older.supervisor.committer.left)}")
        assert set(kinds) <= {(OLDER,), BOTH_IN_TURN, (NEWER,)}
        assert kinds[BOTH_IN_TURN] + kinds[(NEWER,)]
        left = older.supervisor.committer.left
        assert left
        assert set(left) <= {run for run, versions in rules.items() if NEWER in versions}
        said = [record for record in caplog.records if "is left alone from input" in record.getMessage()]
        assert {record.__dict__["run"] for record in said} == set(left)
        assert all(f"rules {NEWER}, this supervisor has {OLDER}" in record.getMessage() for record in said)

        assert older.supervisor.floor == min(left.values()) - 1
        assert newer.supervisor.committer.left == {}
        for message in await table.messages():
            if (message.headers or {}).get("writer") == "older":
                below = [seq for seq in left.values() if seq < message.seq]
                assert floor_of(message) < min(below, default=message.seq)


async def test_older_supervisor_writes_nothing_after_the_change_of_rules() -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise(rules=OLDER, name="older")
        table.supervise(rules=NEWER, name="newer")
        table.work("w", work)
        runs = await publish(table, range(RUNS))
        await table.ended(*runs)
        for run in runs:
            version = 0
            async for message in table.log.read(table.subjects.fact(run)):
                for raw in decode_facts(message.data).events:
                    event = decode_event(memoryview(raw))
                    if isinstance(event, e.RunOpened | e.RulesChanged):
                        assert event.rules > version, "rules only rise"
                        version = event.rules
                assert (message.headers or {})["writer"] == {OLDER: "older", NEWER: "newer"}[version]


async def test_newer_supervisor_is_gone_again_and_comes_back() -> None:
    """What newer rules have begun waits for them; what they have not touched goes on by the older ones."""
    async with board_in_memory(*TEAM) as table:
        newer = table.supervise(rules=NEWER)
        first = await publish(table, range(2))
        await newer.reached(await table.log.head())
        await newer.kill()
        older = table.supervise(rules=OLDER)
        table.work("w", work)
        second = await publish(table, range(2, 4))
        await table.ended(*second)
        assert [bool((await table.run(run)).state.end) for run in first] == [False] * len(first)
        table.supervise(rules=NEWER)
        await table.ended(*first)
        rules = await by_rules(table)
        assert {rules[run] for run in first} == {(NEWER,)}
        assert {rules[run] for run in second} == {(OLDER,)}
        assert set(older.supervisor.committer.left) >= set(first)


async def test_release_that_knows_only_the_older_rules_says_so_of_each_run() -> None:
    async with board_in_memory(*TEAM) as table:
        table.supervise(rules=OLDER)
        table.supervise(rules=NEWER)
        table.work("w", work)
        await table.ended(*await publish(table, range(RUNS)))
        rules = await by_rules(table)
        verdicts = compare(table.log.id, await table.messages(), floor=await settled(table))
        for run, versions in rules.items():
            verdict = verdicts[run]
            if NEWER in versions:
                assert isinstance(verdict, NotDecidable)
                assert verdict.reason == f"rules {NEWER} decided it, and this release knows {KNOWN}"
                assert verdict.version == await changed_at(table, run)
            else:
                assert isinstance(verdict, Equal)


async def changed_at(table: Table, run: str) -> int:
    """The number of the first event by the newer rules."""
    events = await table.events(run)
    return next(
        number
        for number, event in enumerate(events, 1)
        if isinstance(event, e.RunOpened | e.RulesChanged) and event.rules == NEWER
    )
