"""A run is meant by its id, by the beginning of it, or as the last one."""

import pytest

from blackboard.board import Board
from blackboard.client import Client
from blackboard.find import LAST, AmbiguousRun, NoSuchRun, find_run
from blackboard.log import Append
from schemas.subjects import BOARD_RUN
from tests.projections.world import memory_board, teach


@pytest.fixture
async def board() -> Board:
    board = memory_board()
    await teach(board)
    for run in ("abc", "abcd", "xyz"):
        await Client(board, "me").publish("survey", {"names": []}, run)
    return board


@pytest.mark.parametrize(
    ("text", "run"), [("abc", "abc"), ("abcd", "abcd"), ("x", "xyz"), (LAST, "xyz"), (BOARD_RUN, BOARD_RUN)]
)
async def test_found(board: Board, text: str, run: str) -> None:
    assert await find_run(board, text) == run


async def test_several(board: Board) -> None:
    with pytest.raises(AmbiguousRun, match="'ab' may be abc, abcd; give more of the id") as raised:
        await find_run(board, "ab")
    assert raised.value.candidates == ("abc", "abcd")


@pytest.mark.parametrize("text", ["q", "a.b", "", "*", "x" * 65])
async def test_none(board: Board, text: str) -> None:
    with pytest.raises(NoSuchRun, match="`blackboard runs`"):
        await find_run(board, text)


async def test_last_of_an_empty_board() -> None:
    with pytest.raises(NoSuchRun, match="`blackboard publish`"):
        await find_run(memory_board(), LAST)


async def test_last_is_no_child_run(board: Board) -> None:
    await board.log.append(Append(board.subjects.goal("_supervisor", "child"), b"{}"))
    assert await find_run(board, LAST) == "xyz"
