"""Verifying reads all of a log in bounded memory, while it grows, and says what readers pass over."""

from collections.abc import Sequence

import pytest
from nacl.signing import SigningKey

from blackboard.board import Board
from blackboard.log import Append, Message
from blackboard.memory import MemoryLog
from projections import verify as verifying
from projections.notary_service import Notary
from projections.verify import verify
from tests.tamper.clean import MemoryWitness, board_of, world
from tests.tamper.recorded import KEY, PUBLIC, Recorded


async def witnessed(board: Board, key: SigningKey = KEY, name: str = "memory") -> MemoryWitness:
    witness = MemoryWitness(name)
    notary = Notary(board, key, [witness], lambda: 0)
    await notary.begin()
    await notary.turn()
    return witness


@pytest.mark.parametrize("small", ["RUNS_KEPT_BYTES", "INPUTS_KEPT"])
async def test_what_is_forgotten_is_read_again(recorded: Recorded, monkeypatch: pytest.MonkeyPatch, small: str) -> None:
    """The same verdict with hardly any memory, of a clean log and of a damaged one."""
    board = board_of(recorded.messages, recorded.log_id)
    lost = recorded.sequences(".fact.one")[1]
    changed = recorded.sequences(".obs.alice.two", b"claims")[1]
    damaged = board_of(
        [
            Message(one.seq, one.subject, one.time_ms, one.data + b" ", one.headers) if one.seq == changed else one
            for one in recorded.messages
        ],
        recorded.log_id,
    )
    assert isinstance(damaged.log, MemoryLog)
    damaged.log.damage(lost)
    before = [await verify(board), await verify(damaged)]
    monkeypatch.setattr(verifying, small, 1)
    assert [await verify(board), await verify(damaged)] == before
    assert before[0].findings == ()
    assert (before[1].findings[0].seq, before[1].findings[0].run) == (lost, "one")
    assert {one.run for one in before[1].findings} == {"one", "two"}


class Growing(MemoryLog):
    """A log whose head is asked for the first time when the last messages are not there yet."""

    asked = 0

    async def head(self) -> int:
        self.asked += 1
        return await super().head() - (5 if self.asked == 1 else 0)


async def test_what_is_signed_while_it_is_read_is_no_alarm(recorded: Recorded) -> None:
    whole = board_of(recorded.messages, recorded.log_id)
    witness = await witnessed(whole)
    log = Growing(log_id=recorded.log_id)
    log._store = whole.log._store  # type: ignore[attr-defined]
    board = Board(whole.subjects, log, whole.queue, whole.blobs)
    verdict = await verify(board, witnesses=[witness], key=PUBLIC)
    assert verdict.signed
    assert (verdict.findings, verdict.head, verdict.signed.seq) == ((), len(recorded.messages) - 5, verdict.head + 5)


async def test_what_lies_above_the_last_head_is_counted(recorded: Recorded) -> None:
    witness = await witnessed(board_of(recorded.messages[:40], recorded.log_id))
    verdict = await verify(board_of(recorded.messages, recorded.log_id), witnesses=[witness], key=PUBLIC)
    assert verdict.signed
    assert (verdict.findings, verdict.signed.seq, verdict.head) == ((), 40, len(recorded.messages))


async def appended(recorded: Recorded, subject: str, data: bytes) -> Board:
    board = board_of(recorded.messages, recorded.log_id)
    await board.log.append(Append(subject, data))
    return board


async def test_subjects_that_name_nobody(recorded: Recorded) -> None:
    verdict = await verify(await appended(recorded, "bb.main.obs.a.b.c.d.e", b"{}"))
    assert (verdict.findings, verdict.ignored) == ((), 1)
    for subject in ("bb.main.fact.a.b", "bb.main.wake.a.b"):
        verdict = await verify(await appended(recorded, subject, b"{}"))
        assert [one.seq for one in verdict.findings] == [len(recorded.messages) + 1]


@pytest.mark.parametrize("data", [b"hello", b'{"log":"x","run":"one","first":31,"prev":"","events":[{}]}'])
async def test_what_is_no_event_on_a_fact_subject(recorded: Recorded, data: bytes) -> None:
    (finding,) = (await verify(await appended(recorded, "bb.main.fact.one", data))).findings
    last = [place.version for seq, place in recorded.places.items() if seq in recorded.sequences(".fact.one")][-1]
    assert (finding.seq, finding.run, finding.version > last) == (len(recorded.messages) + 1, "one", True)


# --- witnesses that do not agree --------------------------------------------------------------------------------------


async def test_a_rewritten_witness_does_not_hide_a_rewritten_log(recorded: Recorded) -> None:
    """Somebody rewrites the log, and one of two witnesses with a key of his own."""
    board = board_of(recorded.messages, recorded.log_id)
    true = await witnessed(board, name="true")
    old = recorded.message(20)
    forged_message = Message(old.seq, old.subject, old.time_ms, old.data + b" ", old.headers)
    messages: Sequence[Message] = [forged_message if one.seq == 20 else one for one in recorded.messages]
    other = board_of(messages, recorded.log_id)
    false = await witnessed(other, SigningKey.generate(), "false")
    (spoilt,) = (await verify(other, witnesses=[false], key=PUBLIC)).findings[:1]
    assert "witness false, head 1: it is signed with the key" in spoilt.problem
    found = (await verify(other, witnesses=[false, true], key=PUBLIC)).findings
    assert any("witness false, head 1" in one.problem for one in found)
    assert [one.seq for one in found if "not the one that the notary signed" in one.problem] == [20]


async def test_two_heads_of_one_number_are_named(recorded: Recorded) -> None:
    one = await witnessed(board_of(recorded.messages[:30], recorded.log_id), name="one")
    other = await witnessed(board_of(recorded.messages, recorded.log_id), name="other")
    verdict = await verify(board_of(recorded.messages, recorded.log_id), witnesses=[one, other], key=PUBLIC)
    assert ["two of them ran" in finding.problem for finding in verdict.findings] == [True]


async def test_a_witness_may_hold_less_than_another(recorded: Recorded) -> None:
    whole = await witnessed(board_of(recorded.messages, recorded.log_id), name="whole")
    verdict = await verify(
        board_of(recorded.messages, recorded.log_id), witnesses=[MemoryWitness("empty"), whole], key=PUBLIC
    )
    assert verdict.findings == ()
    assert verdict.signed
    assert verdict.signed.seq == verdict.head


async def test_a_random_world_run_by_run() -> None:
    messages, log_id = world(11)
    board = board_of(messages, log_id)
    witness = await witnessed(board)
    runs = {address.run for one in messages if (address := board.subjects.address(one.subject)) and address.run}
    for run in sorted(runs):
        assert (await verify(board, run, [witness], PUBLIC)).findings == (), run
