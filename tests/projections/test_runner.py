"""The view holds the same rows however it was fed: in which batches, how often, by how many, interrupted or not."""

import asyncio
from collections.abc import Sequence
from pathlib import Path

import pytest
from eventsourcing.persistence import Tracking

from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import Append, Message
from blackboard.memory import MemoryLog
from projections.rebuild import rebuild
from projections.run_row import BROKEN, RunRow
from projections.runner import Runner
from projections.views import MemoryRunsView, RunsView, SQLiteRunsView
from schemas.subjects import BOARD_RUN
from tests.projections.world import ended, finished_board, memory_board, messages_of, serving, teach


@pytest.fixture
async def board() -> Board:
    return await finished_board("one", "two", "three")


async def rows(board: Board) -> list[RunRow]:
    """The rows of a view that was fed at once."""
    view = MemoryRunsView()
    await Runner(board, view).catch_up()
    return view.rows(board.log.id)


async def test_row_of_a_run(board: Board) -> None:
    (row,) = [row for row in await rows(board) if row.run == "one"]
    folded = await rebuild(board, "one")
    assert (row.team, row.publisher, row.phase, row.version) == ("survey", "me", "DONE", folded.state.version)
    assert (row.head, row.seq) == (folded.h, folded.seq)
    assert (row.tasks, row.tasks_ended, row.in_flight) == (10, 10, 0)
    assert (row.facts, row.missing, row.conflicts) == (4, 0, 1)
    assert (row.input_tokens, row.output_tokens) == (100, 10)
    assert row.opened_ms <= row.ended_ms == folded.state.now


async def test_batches_of_one(board: Board) -> None:
    view = MemoryRunsView()
    for message in await messages_of(board, board.subjects.every("fact")):
        await Runner(board, view).feed([message])  # a new process for each message
    assert view.rows(board.log.id) == await rows(board)


async def test_fed_twice(board: Board) -> None:
    view, facts = MemoryRunsView(), await messages_of(board, board.subjects.every("fact"))
    runner = Runner(board, view)
    await runner.feed(facts[:4])
    await runner.feed(facts[:4])
    await runner.feed(facts)
    await Runner(board, view).feed(facts)
    assert view.rows(board.log.id) == await rows(board)


class CrashingView(SQLiteRunsView):
    """Fails at the `crash_at`th write, before or after it is done."""

    crash_at, after = 0, False

    def write(self, rows: Sequence[RunRow], tracking: Tracking) -> None:
        self.crash_at -= 1
        if self.crash_at != 0 or self.after:
            super().write(rows, tracking)
        if self.crash_at == 0:
            raise KeyboardInterrupt


async def feed_one_by_one(board: Board, view: RunsView, facts: Sequence[Message]) -> None:
    runner = Runner(board, view)
    for message in facts:
        await runner.feed([message])


@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("crash_at", [1, 2, 5])
async def test_crash_between_batches(board: Board, tmp_path: Path, crash_at: int, after: bool) -> None:
    facts = await messages_of(board, board.subjects.every("fact"))
    view = CrashingView(tmp_path / "main.sqlite")
    view.crash_at, view.after = crash_at, after
    with pytest.raises(KeyboardInterrupt):
        await feed_one_by_one(board, view, facts)
    assert view.position(board.log.id) == ([0] + [fact.seq for fact in facts])[crash_at if after else crash_at - 1]
    view.close()
    again = SQLiteRunsView(tmp_path / "main.sqlite")
    await Runner(board, again).catch_up()
    assert again.rows(board.log.id) == await rows(board)
    again.close()


async def test_two_processes_at_once(board: Board, tmp_path: Path) -> None:
    """Whoever comes second goes on from where the first has taken the view."""
    slow, fast = SQLiteRunsView(tmp_path / "main.sqlite"), SQLiteRunsView(tmp_path / "main.sqlite")
    overtaken = False

    original = slow.write

    def write(rows: Sequence[RunRow], tracking: Tracking) -> None:
        nonlocal overtaken
        if not overtaken:
            overtaken = True
            fast.write(rows, tracking)
        original(rows, tracking)

    slow.write = write  # type: ignore[method-assign]
    await Runner(board, slow).catch_up()
    assert overtaken
    assert slow.rows(board.log.id) == fast.rows(board.log.id) == await rows(board)
    slow.close()
    fast.close()


async def test_follow() -> None:
    board, view = memory_board(), MemoryRunsView()
    await teach(board)
    moved = asyncio.Event()
    following = asyncio.create_task(Runner(board, view, lambda position: moved.set()).follow())
    async with serving(board):
        await Client(board, "me").publish("survey", {"names": ["x"]}, "one")
        last = await ended(board, "one")
    while view.position(board.log.id) < last.seq:
        moved.clear()
        await moved.wait()
    following.cancel()
    await asyncio.wait([following])
    assert following.cancelled()
    assert view.rows(board.log.id) == await rows(board)


async def test_late_input_after_the_end(board: Board) -> None:
    view = MemoryRunsView()
    await Runner(board, view).catch_up()
    before = view.row(board.log.id, "one")
    async with serving(board):
        await Client(board, "me").cancel("one")
        await Client(board, "me").publish("survey", {"names": ["x"]}, "four")
        await ended(board, "four")
    await Runner(board, view).catch_up()
    now = view.row(board.log.id, "one")
    assert before is not None
    assert now is not None
    assert (now.version, now.ended_ms) == (before.version + 1, before.ended_ms)
    assert view.rows(board.log.id) == await rows(board)


async def test_run_that_waits() -> None:
    board = memory_board()
    await teach(board, adder=False)
    async with serving(board, "alice", "bob", "carol"):
        client = Client(board, "me")
        for run in ("waits", "cancelled"):
            await client.publish("survey", {"names": ["x"]}, run)
        await client.cancel("cancelled", "no patience")
        await ended(board, "cancelled")
    found = {row.run: row for row in await rows(board)}
    assert (found["cancelled"].phase, found["cancelled"].reason) == ("CANCELLED", "me: no patience")
    assert found["waits"].ended_ms == 0


async def test_log_that_was_created_anew(board: Board) -> None:
    view = MemoryRunsView()
    await Runner(board, view).catch_up()
    other = await finished_board("one")
    await Runner(other, view).catch_up()
    assert [row.run for row in view.rows(other.log.id)] == ["one"]
    assert view.rows(board.log.id) == await rows(board)


@pytest.mark.parametrize("kept", [0, 15, 30])
async def test_log_that_was_set_back(board: Board, kept: int) -> None:
    """A backup of the log was restored: it has the same id, and at the view's position nothing, or something else."""
    view = MemoryRunsView()
    await Runner(board, view).catch_up()
    restored = memory_board(MemoryLog(board.subjects, log_id=board.log.id))
    for message in (await messages_of(board))[:kept]:
        await restored.log.append(Append(message.subject, message.data, headers=message.headers))
    if kept:
        async with serving(restored):
            await Client(restored, "me").publish("survey", {"names": ["x"]}, "after")
            await ended(restored, "after")
    await Runner(restored, view).catch_up()
    assert view.rows(board.log.id) == await rows(restored)


async def test_broken_run_has_a_row_and_the_others_go_on(board: Board) -> None:
    assert isinstance(board.log, MemoryLog)
    whole = {row.run: row for row in await rows(board)}
    facts = await messages_of(board, board.subjects.fact("one"))
    board.log.damage(facts[1].seq)
    view = MemoryRunsView()
    for message in await messages_of(board, board.subjects.every("fact")):
        await Runner(board, view).feed([message])
    found = {row.run: row for row in view.rows(board.log.id)}
    assert found["one"].phase == BROKEN
    assert "missing; the next message begins at" in found["one"].reason
    assert (found["two"], found["three"]) == (whole["two"], whole["three"])
    assert await Runner(board, view).catch_up() == view.position(board.log.id)
    assert {row.run: row.phase for row in await rows(board)}["one"] == BROKEN


async def test_rejections_are_a_row_too() -> None:
    board = memory_board()
    await teach(board)
    await board.log.append(Append(board.subjects.goal("me", "bad"), b"{}"))
    async with serving(board):
        await Client(board, "me").publish("survey", {"names": ["x"]}, "one")
        await ended(board, "one")
    view: RunsView = MemoryRunsView()
    await Runner(board, view).catch_up()
    assert sorted(row.run for row in view.rows(board.log.id)) == [BOARD_RUN, "one"]
    assert await Runner(board, view).catch_up() == view.position(board.log.id)
