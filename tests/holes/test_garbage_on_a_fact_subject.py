"""What lies on the subject of a run and is no fact message of it changes nothing: every reader passes over it, the
supervisor appends behind it, and it is named. A fact message at the end of a run that was damaged is written again."""

import logging
from collections.abc import Callable, Sequence

import pytest
from msgspec.structs import replace

from blackboard.board import floor_of
from blackboard.log import Append, Message, Stored
from projections.audit import Violation
from projections.cli_status import _unfinished
from projections.live import follow
from projections.rebuild import check, check_all, history, rebuild, rebuild_all
from projections.runner import Runner
from projections.verify import verify
from projections.views import MemoryRunsView
from schemas.codec import decode_facts, encode_facts, ends_run
from schemas.subjects import BOARD_RUN, Subjects
from supervisor.compare import Comparison, Equal, Verdict, compare
from tests.holes.order import ONE
from tests.holes.ports import TEAM
from tests.holes.table import MemoryTable, Table
from tests.supervisor.scenario import Said, goal, offer, step, teach

Forge = Callable[[Message], bytes]


def other(log: str = "", run: str = "") -> Forge:
    """The next message of the run, as another run or log would have it."""

    def forge(last: Message) -> bytes:
        facts = decode_facts(last.data)
        first = facts.first + len(facts.events)
        return encode_facts(log or facts.log, run or facts.run, first, facts.prev, [bytes(facts.events[0])])

    return forge


def no_events(last: Message) -> bytes:
    facts = decode_facts(last.data)
    return encode_facts(facts.log, facts.run, facts.first + len(facts.events), facts.prev, [])


GARBAGE: dict[str, Forge] = {
    "nothing": lambda last: b"",
    "no JSON": lambda last: b'{"log":',
    "no fact message": lambda last: b'{"type":"run_ended"}',
    "another run": other(run="r2"),
    "another log": other(log="elsewhere"),
    "no events": no_events,
}


@pytest.mark.parametrize("kind", GARBAGE)
async def test_every_reader_passes_over_it(table: Table, kind: str, caplog: pytest.LogCaptureFixture) -> None:
    await table.say(*TEAM, goal())
    held, standby = await table.held(), await table.held()
    await table.rest(held)
    await table.say(goal(run="r2"))
    await table.rest(held)
    floor = floor_of(await table.log.last(table.subjects.fact("r2")))
    subject = table.subjects.fact("r1")
    last = await table.log.last(subject)
    assert last is not None
    (garbage,) = await table.log.append(Append(subject, GARBAGE[kind](last), headers={"floor": "6"}))
    assert isinstance(garbage, Stored)
    with caplog.at_level(logging.ERROR):
        taken_over = await table.held()
        assert taken_over.position == floor > 0, "the floor of what was stored before it holds, and no other"
        await table.rest(taken_over)
        await table.rest(held)
    said = [one for one in caplog.messages if f"passed over at sequence {garbage.seq}" in one]
    assert len(said) == 2, "each of the two says it once"
    await table.work("w", ONE, tasks=2)
    await table.rest(held)
    await standby.read()
    assert (held.left, standby.left) == ({}, {})

    board = await table.board()
    folded = await rebuild(board, "r1")
    assert folded.state.end == "DONE"
    assert (await history(board, "r1"))[0] == folded
    assert [one.h async for one in rebuild_all(board) if one.state.run == "r1"] == [folded.h]
    assert [one async for one in follow(board, "r1")][-1].h == folded.h
    assert standby.supervisor.runs.get("r1") is None or standby.supervisor.runs.get("r1").h == folded.h
    runner = Runner(board, view := MemoryRunsView())
    await runner.catch_up()
    row = view.row(board.log.id, "r1")
    assert row is not None
    assert (row.phase, row.head) == ("DONE", folded.h)

    messages = await table.messages()
    assert isinstance(compare(board.log.id, messages, board=table.subjects.board)["r1"], Equal)
    found = await check(board, "r1")
    assert isinstance(found, Violation)
    assert (found.seq, found.run) == (garbage.seq, "r1")
    assert [one.seq async for one in check_all(board) if isinstance(one, Violation)] == [garbage.seq]
    verdict = await verify(board)
    assert [(one.seq, one.run) for one in verdict.findings] == [(garbage.seq, "r1")]


async def test_garbage_before_a_run_and_of_no_run(table: Table) -> None:
    """A run begins behind it, and where there is no goal there is no run."""
    await table.say(*TEAM)
    for run in ("r1", "none", BOARD_RUN):
        await table.log.append(Append(table.subjects.fact(run), b"garbage"))
    await table.say(goal(), Said("obs", "w", b"[]"))
    held = await table.held()
    await table.rest(held)
    await table.work("w", ONE)
    await table.rest(held)
    board = await table.board()
    assert (await rebuild(board, "r1")).state.end == "DONE"
    assert (await rebuild(board, BOARD_RUN)).state.version == 1
    assert (await rebuild(board, "none")).state.version == 0
    assert held.supervisor.runs.unfinished_count == 0
    runner = Runner(board, view := MemoryRunsView())
    await runner.catch_up()
    assert view.row(board.log.id, "none") is None
    position = view.position(board.log.id)
    await Runner(board, view).catch_up()
    assert view.position(board.log.id) == position


async def test_the_end_of_another_run_ends_none(table: Table) -> None:
    await table.say(*TEAM, goal(run="r2"))
    held = await table.held()
    await table.rest(held)
    await table.work("w", ONE)
    await table.rest(held)
    await table.say(goal())
    await table.rest(held)
    board = await table.board()
    end = await board.log.last(board.subjects.fact("r2"))
    assert end is not None
    assert ends_run(end.data)
    await board.log.append(Append(board.subjects.fact("r1"), end.data))
    assert await _unfinished(board, []) == 1


async def test_a_wrong_place_in_the_chain_is_still_where_every_reader_stops(table: Table) -> None:
    await table.say(*TEAM, goal())
    held = await table.held()
    await table.rest(held)
    last = await table.log.last(table.subjects.fact("r1"))
    assert last is not None
    facts = decode_facts(last.data)
    forged = encode_facts(facts.log, "r1", facts.first, facts.prev, [bytes(one) for one in facts.events])
    await table.log.append(Append(table.subjects.fact("r1"), forged))
    await table.rest(held)
    await table.work("w", ONE)
    await table.rest(held)
    assert list(held.left) == ["r1"]
    board = await table.board()
    with pytest.raises(Violation, match="missing; the next message begins at"):
        await rebuild(board, "r1")


def damage(table: MemoryTable, seq: int) -> bytes:
    """One bit of a message turns over, and it is no JSON any more. The bytes before."""
    slots = table.log._store.slots
    place = next(place for place, one in enumerate(slots) if one is not None and one.seq == seq)
    was = slots[place]
    slots[place] = replace(was, data=bytes([was.data[0] ^ 1]) + was.data[1:])
    return was.data


def as_they_come(log_id: str, messages: Sequence[Message], subjects: Subjects) -> list[Verdict]:
    """What is said of all runs by whoever reads the log one message at a time, as `blackboard replay --all` does."""
    last: dict[str, int] = {}
    for message in messages:
        if (address := subjects.address(message.subject)) and address.run:
            last[address.run] = message.seq
    comparison, said = Comparison(log_id, subjects, last=last), list[Verdict]()
    for message in messages:
        said += comparison.add([message], floor_of(message))
    return [*said, *comparison.finish()]


@pytest.mark.parametrize("run", ["r1", BOARD_RUN])
async def test_a_damaged_last_fact_message_is_written_again(run: str) -> None:
    """Though others were decided since, whose floor lies above the inputs of what was lost."""
    table = MemoryTable(Subjects())
    await table.say(offer("w", "work"), teach(step("a")), goal())
    held = await table.held()
    await table.rest(held)
    await table.work("w", ONE)
    await table.rest(held)
    await table.say(Said("obs", "eve", b"[]", "nowhere"))
    await table.rest(held)
    before = {one: await rebuild(await table.board(), one) for one in ("r1", BOARD_RUN)}
    await table.say(goal(run="r2"))
    await table.rest(held)
    last = await table.log.last(table.subjects.fact(run))
    assert last is not None
    lost = damage(table, last.seq)
    held = await table.held()
    await table.rest(held)
    again = await table.log.last(table.subjects.fact(run))
    assert again is not None
    assert again.seq > last.seq
    assert again.data == lost
    board = await table.board()
    for one, folded in before.items():
        healed = await rebuild(board, one)
        assert (healed.h, healed.state) == (folded.h, folded.state)
    assert [one.seq for one in (await verify(board)).findings] == [last.seq]
    assert {type(one) for one in as_they_come(board.log.id, await table.messages(), table.subjects)} == {Equal}
    head = await table.log.head()
    await table.rest(await table.held())
    assert await table.log.head() == head, "what is healed stays as it is"
