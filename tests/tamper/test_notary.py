"""The notary goes on from its last head, signs each message once, and signs nothing that contradicts it."""

import asyncio
import resource
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from nacl.signing import SigningKey

from blackboard.board import Board
from blackboard.client import BadInput
from blackboard.log import Append, LogDamaged, LogUnavailable, Message
from blackboard.memory import MemoryBlobs, MemoryLog, MemoryQueue
from projections.notary import Succession, read_signed, sign
from projections.notary_key import make_key, read_key, read_public
from projections.notary_service import Contradiction, Notary
from projections.verify import verify
from projections.witness import Witness, WitnessSpoilt, WitnessUnavailable
from projections.witness_file import FileWitness
from schemas.heads import HEAD_MESSAGES, BadHead, Signed
from schemas.subjects import Subjects
from tests.tamper.clean import MemoryWitness, board_of
from tests.tamper.recorded import KEY, PUBLIC, WITNESS, Recorded

AWAY = LogUnavailable("away")


class Reads(MemoryLog):
    """A log that notes from where it is read, but for looks at single messages."""

    def __init__(self) -> None:
        super().__init__(Subjects())
        self.noted: list[int] = []

    async def scan(self, subjects: Sequence[str] = (), after: int = 0, upto: int | None = None) -> Any:
        if upto is None or upto > after + 1:
            self.noted.append(after)
        async for messages in super().scan(subjects, after, upto):
            yield messages


def board_on(log: MemoryLog) -> Board:
    return Board(Subjects(), log, MemoryQueue(), MemoryBlobs())


async def filled(log: MemoryLog, count: int) -> Board:
    board = board_on(log)
    await log.append(*(Append(board.subjects.observation("ann", f"run{n % 7}"), b"{}") for n in range(count)))
    return board


async def begun(board: Board, *witnesses: Witness, key: SigningKey = KEY) -> Notary:
    notary = Notary(board, key, witnesses, lambda: 5)
    await notary.begin()
    return notary


def heads(lines: Sequence[bytes]) -> list[Signed]:
    return [read_signed(line, PUBLIC) for line in lines]


async def test_each_message_is_signed_once_over_restarts() -> None:
    log, witness = Reads(), MemoryWitness()
    board = await filled(log, 10)
    await (await begun(board, witness)).turn()
    await filled(log, 5)
    again = await begun(board, witness)
    assert again.seq == 10
    assert [one.head.seq for one in await again.turn()] == [15]
    assert await again.turn() == []
    assert log.noted == [0, 10]
    first, second = heads(witness.lines)
    assert (second.head.number, second.head.after, second.head.prev) == (2, 10, first.sha256)
    assert (await verify(board, witnesses=[witness], key=PUBLIC)).findings == ()


async def test_a_long_log_takes_several_heads() -> None:
    witness, board = MemoryWitness(), await filled(MemoryLog(Subjects()), 2 * HEAD_MESSAGES + 1)
    signed = await (await begun(board, witness)).turn()
    assert [one.head.seq for one in signed] == [HEAD_MESSAGES, 2 * HEAD_MESSAGES, 2 * HEAD_MESSAGES + 1]
    assert max(map(len, witness.lines)) < 1_000_000
    verdict = await verify(board, witnesses=[witness], key=PUBLIC)
    assert (verdict.findings, verdict.signed and verdict.signed.seq) == ((), verdict.head)


async def test_the_digest_is_that_of_all_messages_however_heads_are_cut() -> None:
    log = MemoryLog(Subjects())
    often, seldom = MemoryWitness(), MemoryWitness()
    for _ in range(4):
        board = await filled(log, 3)
        await (await begun(board, often)).turn()
    await (await begun(board, seldom)).turn()
    assert (len(often.lines), len(seldom.lines)) == (4, 1)
    assert heads(often.lines)[-1].head.digest == heads(seldom.lines)[-1].head.digest


async def changed(board: Board, seq: int, **changes: Any) -> Board:
    """The same log with another message at `seq`; without changes, without it."""
    messages = [message async for batch in board.log.scan() for message in batch]
    kept = [other_than(one, changes) if one.seq == seq else one for one in messages if changes or one.seq != seq]
    other = board_of(kept if changes else messages, board.log.id)
    if not changes:
        assert isinstance(other.log, MemoryLog)
        other.log.damage(seq)
    return other


def other_than(message: Message, changes: dict[str, Any]) -> Message:
    fields = {name: getattr(message, name) for name in ("seq", "subject", "time_ms", "data", "headers")}
    return Message(**(fields | changes))


@pytest.mark.parametrize("seq", [1, 10])
@pytest.mark.parametrize(
    "changes", [{}, {"data": b"[]"}, {"subject": "bb.main.obs.bob.run1"}, {"time_ms": 1}, {"headers": {"floor": "9"}}]
)
async def test_nothing_is_signed_above_what_was_changed(seq: int, changes: dict[str, Any]) -> None:
    witness, board = MemoryWitness(), await filled(MemoryLog(Subjects()), 10)
    await (await begun(board, witness)).turn()
    other = await changed(board, seq, **changes)
    await other.log.append(Append(other.subjects.observation("ann", "run1"), b"more"))
    with pytest.raises(Contradiction, match=f"at sequence {seq} is not the one that was signed") as raised:
        await (await begun(other, witness)).turn()
    assert (raised.value.seq, len(witness.lines)) == (seq, 1)


async def test_nothing_is_signed_above_a_cut_or_of_another_log() -> None:
    log, witness = MemoryLog(Subjects()), MemoryWitness()
    notary = await begun(await filled(log, 10), witness)
    await notary.turn()
    messages = [message async for batch in log.scan() for message in batch]
    shorter = board_of(messages[:8], log.id)
    with pytest.raises(Contradiction, match="ends at sequence 8, and was signed up to 10") as raised:
        await (await begun(shorter, witness)).turn()
    assert raised.value.seq == 9
    log.replace()
    await filled(log, 20)
    with pytest.raises(Contradiction, match="created anew"):
        await notary.turn()
    assert len(witness.lines) == 1


async def test_a_gap_is_not_signed() -> None:
    log, witness = MemoryLog(Subjects()), MemoryWitness()
    board = await filled(log, 10)
    log.damage(4)
    with pytest.raises(LogDamaged) as raised:
        await (await begun(board, witness)).turn()
    assert (raised.value.seq, witness.lines) == (4, [])


async def test_a_witness_that_was_away_gets_what_it_lacks() -> None:
    log, here, away = MemoryLog(Subjects()), MemoryWitness("here"), MemoryWitness("away")
    board = await filled(log, 3)
    notary = await begun(board, here, away)
    await notary.turn()
    away.refuses = AWAY
    for _ in range(2):
        await filled(log, 3)
        await notary.turn()
    assert (notary.behind, len(here.lines), len(away.lines)) == (["away"], 3, 1)
    away.refuses = None
    await notary.turn()
    assert (notary.behind, away.lines) == ([], here.lines)
    assert (await verify(board, witnesses=[away], key=PUBLIC)).findings == ()


async def test_where_no_witness_takes_a_head_the_same_one_is_offered_again() -> None:
    log, witness, other = MemoryLog(Subjects()), MemoryWitness("one"), MemoryWitness("other")
    notary = await begun(await filled(log, 3), witness, other)
    witness.refuses = other.refuses = AWAY
    with pytest.raises(WitnessUnavailable):
        await notary.turn()
    assert notary.seq == 0
    untold = notary._untold
    await filled(log, 3)
    witness.refuses = other.refuses = None
    assert [one.head.seq for one in await notary.turn()] == [3, 6]
    assert untold is not None
    assert witness.lines[0] == untold.line
    assert witness.lines == other.lines


async def test_all_witnesses_must_answer_at_the_beginning() -> None:
    witness, away = MemoryWitness("here"), MemoryWitness("away")
    away.refuses = AWAY
    with pytest.raises(LogUnavailable):
        await begun(await filled(MemoryLog(Subjects()), 3), witness, away)


async def test_what_two_witnesses_hold_must_not_differ() -> None:
    one, other = MemoryWitness("one"), MemoryWitness("other")
    board = await filled(MemoryLog(Subjects()), 3)
    await (await begun(board, one)).turn()
    await filled(board.log, 1)  # type: ignore[arg-type]
    await (await begun(board, other)).turn()
    with pytest.raises(WitnessSpoilt, match="two of them ran"):
        await begun(board, one, other)


async def test_a_head_of_another_key_is_refused() -> None:
    witness, board = MemoryWitness(), await filled(MemoryLog(Subjects()), 3)
    await (await begun(board, witness, key=SigningKey.generate())).turn()
    with pytest.raises(WitnessSpoilt, match="head 1: it is signed with the key"):
        await begun(board, witness)


def test_every_byte_of_a_head_is_signed(recorded: Recorded) -> None:
    line = (recorded.folder / WITNESS).read_bytes().splitlines()[0]
    assert read_signed(line, PUBLIC).head.number == 1
    for at in range(0, len(line), 7):
        changed_line = line[:at] + bytes([line[at] ^ 1]) + line[at + 1 :]
        with pytest.raises(BadHead):
            read_signed(changed_line, PUBLIC)


def test_heads_follow_each_other(recorded: Recorded) -> None:
    lines = (recorded.folder / WITNESS).read_bytes().splitlines()
    succession = Succession(PUBLIC)
    for line in lines:
        succession.follow(succession.read(line))
    assert (succession.number, succession.seq) == (len(lines), len(recorded.messages))
    for wrong in ([lines[1]], [lines[0], lines[2]], [lines[0], lines[0]]):
        succession = Succession(PUBLIC)
        with pytest.raises(BadHead):  # noqa: PT012 - the last one is not taken
            for line in wrong:
                succession.follow(succession.read(line))
    other = Succession(PUBLIC)
    first = read_signed(lines[0], PUBLIC)
    other.follow(first)
    second = read_signed(lines[1], PUBLIC).head
    foreign = sign(
        type(second)(**{name: getattr(second, name) for name in second.__struct_fields__} | {"log": "x"}), KEY
    )
    with pytest.raises(BadHead, match="about log x"):
        other.read(foreign.line)


# --- files ------------------------------------------------------------------------------------------------------------


async def test_one_notary_at_a_time_writes_a_file(tmp_path: Path) -> None:
    board, first, second = await filled(MemoryLog(Subjects()), 3), *(FileWitness(tmp_path / "w") for _ in range(2))
    await (await begun(board, first)).turn()
    with pytest.raises(WitnessUnavailable, match="another notary"):
        await begun(board, second)
    await first.close()
    await begun(board, second)
    await second.close()


async def test_half_a_line_of_a_killed_notary_is_written_again(tmp_path: Path) -> None:
    path = tmp_path / "heads"
    board, witness = await filled(MemoryLog(Subjects()), 3), FileWitness(path)
    await (await begun(board, witness)).turn()
    await witness.close()
    whole = path.read_bytes()
    await filled(board.log, 3)  # type: ignore[arg-type]
    with path.open("ab") as file:
        file.write(whole[: len(whole) // 2])
    verdict = await verify(board, witnesses=[FileWitness(path)], key=PUBLIC)
    assert (verdict.findings, verdict.signed and verdict.signed.number) == ((), 1)
    again = FileWitness(path)
    await (await begun(board, again)).turn()
    await again.close()
    assert path.read_bytes().startswith(whole)
    assert [one.head.seq for one in heads(path.read_bytes().splitlines())] == [3, 6]


async def test_a_full_disk_is_waited_for(tmp_path: Path) -> None:
    """The notary says so, leaves whole lines, and goes on when there is room."""
    witness, path = FileWitness(tmp_path / "heads"), tmp_path / "heads"
    board = await filled(MemoryLog(Subjects()), 3)
    notary = await begun(board, witness)
    await notary.turn()
    whole = path.read_bytes()
    await filled(board.log, 3)  # type: ignore[arg-type]
    before = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (len(whole) + 100, before[1]))
    try:
        with pytest.raises(WitnessUnavailable, match="heads cannot be written: File too large"):
            await notary.turn()
        assert path.read_bytes() == whole
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, before)
    assert [one.head.seq for one in await notary.turn()] == [6]
    await witness.close()
    assert [one.head.seq for one in heads(path.read_bytes().splitlines())] == [3, 6]


async def test_a_file_that_is_not_there_is_no_clean_board(tmp_path: Path) -> None:
    board = await filled(MemoryLog(Subjects()), 3)
    with pytest.raises(LogUnavailable, match="there is no file"):
        await verify(board, witnesses=[FileWitness(tmp_path / "none")], key=PUBLIC)


async def test_witnesses_that_hold_nothing_are_no_clean_board() -> None:
    board = await filled(MemoryLog(Subjects()), 3)
    verdict = await verify(board, witnesses=[MemoryWitness("one"), MemoryWitness("other")], key=PUBLIC)
    assert [one.problem for one in verdict.findings] == ["no witness holds a head of this board: nothing was compared"]
    assert (await verify(board_on(MemoryLog(Subjects())), witnesses=[MemoryWitness()], key=PUBLIC)).good


# --- keys -------------------------------------------------------------------------------------------------------------


def test_a_key_is_its_owners_alone(tmp_path: Path) -> None:
    path = tmp_path / "notary.key"
    public = make_key(str(path))
    assert path.stat().st_mode & 0o777 == 0o600
    assert bytes(read_key(str(path)).verify_key).hex() == public
    assert read_public(str(path) + ".pub") == read_public(public) == public
    with pytest.raises(BadInput, match="exists"):
        make_key(str(path))
    with pytest.raises(BadInput, match="is the notary's key itself, with which one can sign: name") as told:
        read_public(str(path))
    assert path.read_text().strip() not in str(told.value)
    path.chmod(0o640)
    with pytest.raises(BadInput, match="chmod 600"):
        read_key(str(path))
    for text in ("", "ab", str(tmp_path / "none")):
        with pytest.raises(BadInput):
            read_public(text)


async def test_the_loop_signs_a_last_time_when_it_is_told_to_stop() -> None:
    log, witness, stop = MemoryLog(Subjects()), MemoryWitness(), asyncio.Event()
    told: list[Signed] = []
    notary = await begun(await filled(log, 3), witness)
    running = asyncio.create_task(notary.run(stop, 3600.0, told.append))
    async with asyncio.timeout(5):
        while not told:  # noqa: ASYNC110
            await asyncio.sleep(0)
    await filled(log, 2)
    stop.set()
    await running
    assert [one.head.seq for one in told] == [3, 5]
