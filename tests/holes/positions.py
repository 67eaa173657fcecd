"""Histories about where a supervisor goes on, and on which log."""

from blackboard.board import floor_of
from blackboard.log import Append
from projections.history import unwritten
from schemas.catalogue import Catalogue
from schemas.codec import decode_facts, encode, encode_facts
from schemas.inputs import read_input
from schemas.subjects import BOARD_RUN
from supervisor.answer import answer
from supervisor.decide import RULES
from tests.holes.ports import TEAM, Dies, on
from tests.holes.table import Table
from tests.supervisor.scenario import ended, goal


async def opened(table: Table, *runs: str) -> list[str]:
    """Which of the runs have their goal."""
    return [run for run in runs if (await table.run(run)).state.goal]


async def goals_of_one_batch_and_a_crash_after_the_first(table: Table) -> None:
    await table.say(*TEAM, goal(run="r1"), goal(run="r2"), goal(run="r3"))
    first = await table.held(log=lambda log: Dies(log, on("fact"), stored=1))
    await first.dies(first.read())
    assert await opened(table, "r1", "r2", "r3") == ["r1"]
    await table.rest(await table.held())
    found = await opened(table, "r1", "r2", "r3")
    assert found == ["r1", "r2", "r3"], f"of three goals {found} are answered"
    await table.check()


async def history_of_another_log(table: Table) -> None:
    """Its cursor is 1,002, in a log of three messages."""
    await table.say(*TEAM)
    await table.log.append(append_of_another_log(table))
    held = await table.held()
    await table.say(ended("a", {"a": 1}), goal(run="r2"))
    await table.rest(held)
    recorded = [event.cause.seq for event in await table.events(BOARD_RUN)]
    assert recorded == [4], "the answer at 4 is passed over, as if it were decided"
    assert held.left == {}
    assert await opened(table, "r2") == ["r2"]


def append_of_another_log(table: Table) -> Append:
    subjects, catalogue = table.subjects, Catalogue()
    for seq, artefact in enumerate(TEAM, 1):
        catalogue.add(seq, artefact.address, artefact.data)
    said = goal()
    cause = read_input(1002, said.subject_on(subjects), said.address, 0, said.data)
    run, events = answer(unwritten("another", "r1"), unwritten("another", BOARD_RUN), cause, catalogue.below(1002))
    data = encode_facts("another", "r1", 1, run.h, [encode(event) for event in events])
    return Append(subjects.fact("r1"), data)


async def log_restored_and_written_over(table: Table) -> None:
    await table.say(*TEAM)
    backup = await table.backup()
    await table.say(goal(run="r1"))
    held = await table.held()
    await table.rest(held)
    await table.restore(backup)
    await table.say(goal(run="r2"), goal(run="r3"), goal(run="r4"))
    held.reconnected()
    await table.rest(held)
    found = await opened(table, "r1", "r2", "r3", "r4")
    assert found == ["r2", "r3", "r4"], f"sequences were used again, and of three new goals {found} are answered"
    await table.check()


async def log_restored_and_shorter_than_what_was_read(table: Table) -> None:
    await table.say(*TEAM)
    backup = await table.backup()
    await table.say(goal(run="r1"), ended("a", {"a": 1}))
    held = await table.held()
    await table.rest(held)
    await table.restore(backup)
    await table.say(goal(run="r2"))
    held.reconnected()
    await table.rest(held)
    assert await opened(table, "r2") == ["r2"], "the new goal lies below the old position and is passed over"
    await table.check()


async def log_made_anew_with_the_same_beginning(table: Table) -> None:
    await table.say(*TEAM)
    held = await table.held()
    await table.rest(held)
    await table.replace()
    await table.say(*TEAM, goal())
    held.reconnected()
    await table.rest(held)
    message = await table.log.last(table.subjects.fact("r1"))
    assert message is not None
    cited, there = decode_facts(message.data).log, await table.log.current_id()
    assert cited == there, "what is decided names a log that is gone"
    await table.check()


async def run_that_was_left_to_newer_rules_while_others_went_on(table: Table) -> None:
    """Where one run is behind, what was read is not what was decided: who takes over has the floor and the log."""
    await table.say(*TEAM, goal(run="r1"))
    await (await table.held(rules=RULES + 1)).read()
    older = await table.held(rules=RULES)
    await table.say(ended("a", {"a": 1}, run="r1"))
    await older.read()
    await table.say(goal(run="r2"), ended("a", {"a": 1}, run="r2"))
    await older.read()
    assert (await table.run("r2")).state.end == "DONE"
    await table.rest(await table.held(rules=RULES + 1))
    assert (await table.run("r1")).state.end == "DONE", "an answer that nobody has decided is passed over"


async def log_cut_below_what_was_read(table: Table) -> None:
    """No snapshot is there, and none is needed: the log is all that who takes over has."""
    await table.say(*TEAM, goal(run="r1"))
    cut = await table.backup()
    await table.rest(await table.held())
    await table.restore(cut)
    await table.say(goal(run="r2"))
    await table.rest(await table.held())
    found = await opened(table, "r1", "r2")
    assert found == ["r1", "r2"], f"of two goals {found} are answered"
    last = await table.log.last(table.subjects.every("fact"))
    assert floor_of(last) == 0
    await table.check()
