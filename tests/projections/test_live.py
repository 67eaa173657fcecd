"""Following a run: each version once, in order, until it ends, and never for ever when it cannot begin."""

import asyncio

import pytest

from blackboard.client import Client
from blackboard.log import Append
from blackboard.memory import MemoryLog
from projections.audit import Violation
from projections.live import GoalRejected, follow
from projections.rebuild import rebuild
from projections.status import awaited, muted, progress, status, waits
from schemas.goals import Goal
from tests.projections.world import ended, finished_board, memory_board, messages_of, serving, teach


async def test_run_that_has_ended() -> None:
    board = await finished_board("one")
    followed = [folded async for folded in follow(board, "one")]
    assert followed[-1] == await rebuild(board, "one")


async def test_run_that_is_to_come() -> None:
    board = memory_board()
    await teach(board)
    following = asyncio.create_task(ended(board, "one"))
    async with serving(board):
        await Client(board, "me").publish("survey", {"names": ["x", "y"]}, "one")
        last = await following
    assert last == await rebuild(board, "one")


async def test_versions_rise_and_phases_follow() -> None:
    board = memory_board()
    await teach(board)
    async with serving(board):
        await Client(board, "me").publish("survey", {"names": ["x"]}, "one")
        seen = [folded.state async for folded in follow(board, "one")]
    versions = [state.version for state in seen]
    assert versions == sorted(set(versions))
    assert seen[-1].phase == "DONE"


async def test_goal_that_is_rejected() -> None:
    board = memory_board()
    await teach(board)
    async with serving(board):
        goal = Goal(team="nobody").model_dump_json(exclude_none=True).encode()
        await board.log.append(Append(board.subjects.goal("me", "one"), goal))
        with pytest.raises(GoalRejected, match="no playbook 'nobody'"):
            await ended(board, "one")


async def test_older_goal_that_was_rejected_does_not_matter() -> None:
    board = memory_board()
    await teach(board)
    await board.log.append(Append(board.subjects.goal("stranger", "one"), b"{}"))
    data = Goal(team="survey", input={"names": ["x"]}).model_dump_json(exclude_none=True).encode()
    await board.log.append(Append(board.subjects.goal("me", "one"), data, expected=0))
    async with serving(board):
        assert (await ended(board, "one")).state.end == "DONE"


async def test_broken_history_ends_it() -> None:
    board = await finished_board("one")
    assert isinstance(board.log, MemoryLog)
    board.log.damage((await messages_of(board, board.subjects.fact("one")))[0].seq)
    with pytest.raises(Violation):
        await ended(board, "one")


async def test_following_leaves_nothing_behind() -> None:
    board = memory_board()
    await teach(board)
    before = asyncio.all_tasks()
    following = follow(board, "one")
    waiting = asyncio.ensure_future(anext(following))
    await asyncio.sleep(0)
    waiting.cancel()
    await asyncio.wait([waiting])
    assert asyncio.all_tasks() == before


async def test_status_tells_what_a_run_waits_for() -> None:
    board = memory_board()
    await teach(board, adder=False)
    async with serving(board, "alice", "bob", "carol"):
        client = Client(board, "me")
        await client.publish("survey", {"names": ["x"]}, "one")
        async for folded in follow(board, "one"):
            if folded.state.facts:
                break
        now = status(folded, [])
        assert now["waits"] == ["step total waits for a specialist that offers add"]
        assert [timer["timer"] for timer in now["timers"]] == ["await.total"]
        await client.cancel("one", "no patience")
        state = (await ended(board, "one")).state
    assert (state.end, state.reason) == ("CANCELLED", "me: no patience")
    assert (waits(state), awaited(state)) == ([], [])


async def test_status_tells_who_has_what() -> None:
    board = memory_board()
    await teach(board)
    async with serving(board, "alice"):
        await Client(board, "me").publish("survey", {"names": ["x"]}, "one")
        async for folded in follow(board, "one"):
            if progress(folded.state)["tasks"]["ended"]:
                break
    now = status(folded, [])
    assert [(task["task"], task["with"]) for task in now["in_flight"]] == [("each-1", "bob"), ("each-2", "carol")]
    assert now["phase"] == "COLLECT"
    assert muted(folded.state) == []


async def test_child_runs() -> None:
    board = memory_board()
    await teach(board)
    async with serving(board):
        await Client(board, "me").publish("outer", {"names": ["x"]}, "one")
        last = await ended(board, "one")
    assert last.state.result == {"inner": {"total": 1}}
