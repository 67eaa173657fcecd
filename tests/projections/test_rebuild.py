"""Runs are rebuilt from the log alone: the same at any version, however their events were cut into messages."""

from collections.abc import Iterator
from itertools import groupby

import pytest

from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import Append, LogDamaged, Message
from blackboard.memory import MemoryLog
from projections.audit import Audited, Violation
from projections.history import state_digest
from projections.rebuild import NoSuchVersion, check, check_all, history, rebuild, rebuild_all
from schemas.codec import chain_next, decode_event, decode_facts, encode, encode_facts
from schemas.contracts import Contract
from schemas.inputs import Cancel
from schemas.subjects import BOARD_RUN
from tests.projections.world import ended, finished_board, memory_board, messages_of, serving, teach


@pytest.fixture
async def board() -> Board:
    return await finished_board("one", "two")


def memory_log(board: Board) -> MemoryLog:
    assert isinstance(board.log, MemoryLog)
    return board.log


async def test_rebuild_at_every_version(board: Board) -> None:
    now, events = await history(board, "one")
    assert [item.version for item in events] == list(range(1, now.state.version + 1))
    heads = set()
    for version in range(1, now.state.version + 1):
        then = await rebuild(board, "one", version)
        assert then.state.version == version
        heads.add(then.h)
    assert len(heads) == now.state.version
    assert then.state == now.state == (await rebuild(board, "one")).state
    assert then.h == now.h


async def test_version_that_is_not_there(board: Board) -> None:
    version = (await rebuild(board, "one")).state.version
    with pytest.raises(NoSuchVersion, match=f"has {version} events; there is no version {version + 1}"):
        await rebuild(board, "one", version + 1)


async def test_run_without_events(board: Board) -> None:
    assert (await rebuild(board, "nobody")).state.version == 0


async def test_digests_do_not_depend_on_how_events_are_cut(board: Board) -> None:
    """A message for each input, on a log with the same id: what a supervisor under no load would have written."""
    other = memory_board(MemoryLog(board.subjects, log_id=board.log.id))
    facts: list[Append] = []
    for message in await messages_of(board):
        if message.subject.startswith("bb.main.fact."):
            facts += _by_input(message)
        else:
            await other.log.append(Append(message.subject, message.data))
    assert len(facts) > len(await messages_of(board, board.subjects.every("fact")))
    # The inputs moved up, so the events cite sequences at which others lie: the audit is of no use here, the fold is.
    for append in facts:
        await other.log.append(append)
    for run in ("one", "two"):
        one, another = await rebuild(board, run), await rebuild(other, run)
        assert (one.h, state_digest(one.state)) == (another.h, state_digest(another.state))


def _by_input(message: Message) -> Iterator[Append]:
    facts = decode_facts(message.data)
    first, h = facts.first, facts.prev
    for _, group in groupby(facts.events, lambda raw: decode_event(memoryview(raw)).cause.seq):
        stored = [bytes(raw) for raw in group]
        yield Append(message.subject, encode_facts(facts.log, facts.run, first, h, stored))
        first += len(stored)
        for data in stored:
            h = chain_next(h, data)


async def test_rebuild_all(board: Board) -> None:
    rebuilt = {folded.state.run: folded async for folded in rebuild_all(board)}
    assert sorted(rebuilt) == ["one", "two"]
    for run, folded in rebuilt.items():
        assert folded == await rebuild(board, run)


async def test_check(board: Board) -> None:
    verdict = await check(board, "one")
    assert isinstance(verdict, Audited)
    assert verdict in [verdict async for verdict in check_all(board)]
    assert len([verdict async for verdict in check_all(board)]) == 2


async def test_run_that_got_late_inputs_comes_once(board: Board) -> None:
    async with serving(board):
        await Client(board, "me").cancel("one")
        await Client(board, "me").publish("survey", {"names": ["x"]}, "three")
        await ended(board, "three")
    rebuilt = [folded.state.run async for folded in rebuild_all(board)]
    assert sorted(rebuilt) == ["one", "three", "two"]
    assert (await rebuild(board, "one")).state.late == {"me": 1}
    assert all(isinstance(verdict, Audited) for verdict in [await check(board, run) for run in rebuilt])


async def test_runs_that_go_on_come_last() -> None:
    board = memory_board()
    await teach(board, adder=False)
    async with serving(board, "alice", "bob", "carol"):
        client = Client(board, "me")
        await client.publish("survey", {"names": ["x"]}, "waits")
        await client.publish("survey", {"names": ["x"]}, "cancelled")
        await client.cancel("cancelled")
        await ended(board, "cancelled")
    assert "waits" in [folded.state.run async for folded in rebuild_all(board)]


async def test_lost_fact_is_named(board: Board) -> None:
    facts = await messages_of(board, board.subjects.fact("one"))
    memory_log(board).damage(facts[1].seq)
    with pytest.raises(Violation) as raised:
        await rebuild(board, "one")
    found = raised.value
    assert (found.run, found.version, found.seq) == ("one", decode_facts(facts[1].data).first, facts[2].seq)
    assert isinstance(await check(board, "one"), Violation)
    assert isinstance(await check(board, "two"), Audited)
    with pytest.raises(Violation):
        [folded async for folded in rebuild_all(board)]


async def test_lost_message_anywhere_is_damage_of_the_log(board: Board) -> None:
    seq = (await messages_of(board, board.subjects.observation("bob", "one")))[0].seq
    memory_log(board).damage(seq)
    with pytest.raises(LogDamaged) as raised:
        [verdict async for verdict in check_all(board)]
    assert raised.value.seq == seq
    verdict = await check(board, "one")
    assert isinstance(verdict, Violation)
    assert f"sequence {seq}, where the log has no message" in verdict.problem
    assert (await rebuild(board, "one")).state.end == "DONE", "the facts alone are whole"


async def test_last_message_that_a_read_keeps_back(board: Board, monkeypatch: pytest.MonkeyPatch) -> None:
    facts = await messages_of(board, board.subjects.fact("one"))
    last = [message async for message in board.log.last_per_subject(board.subjects.every("fact"))]

    async def last_per_subject(subject: str):
        for message in last:
            yield message

    memory_log(board).damage(facts[-1].seq)
    monkeypatch.setattr(board.log, "last_per_subject", last_per_subject)
    with pytest.raises(LogDamaged, match="the last message of run one"):
        [folded async for folded in rebuild_all(board)]


async def test_rejections_cite_messages_of_any_kind() -> None:
    board = memory_board()
    await teach(board)
    await board.log.append(Append(board.subjects.contract("dave"), b"nonsense"))
    await board.log.append(Append(board.subjects.goal("me", "bad"), b"{}"))
    await board.log.append(Append(board.subjects.signal("me", "nobody"), encode(Cancel())))
    async with serving(board):
        await Client(board, "me").publish("survey", {"names": ["x"]}, "one")
        await ended(board, "one")
    verdicts = {verdict.run: verdict async for verdict in check_all(board)}
    assert sorted(verdicts) == [BOARD_RUN, "one"]
    assert await check(board, BOARD_RUN) == verdicts[BOARD_RUN]
    found = verdicts[BOARD_RUN]
    assert isinstance(found, Audited)
    assert found.inputs == 3


async def test_inputs_below_the_floor_are_asked_for_again(board: Board) -> None:
    """`floor` is a header that nothing vouches for: when it is wrong, the audit is slower and not wrong."""
    other = memory_board(MemoryLog(board.subjects, log_id=board.log.id))
    for message in await messages_of(board):
        await other.log.append(Append(message.subject, message.data, headers={"floor": "1000000"}))
    assert [verdict.run async for verdict in check_all(other)]
    assert all(isinstance(verdict, Audited) for verdict in [verdict async for verdict in check_all(other)])


async def test_board_without_runs() -> None:
    board = memory_board()
    await Client(board, "me").offer(Contract(specialist="alice", offers=["look"]))
    assert [folded async for folded in rebuild_all(board)] == []
    assert [verdict async for verdict in check_all(board)] == []
