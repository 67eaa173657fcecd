"""Whoever said too much out of place is muted in that run: what is not taken is not recorded. The command says so, at
once."""

import time
from collections.abc import Iterator

import pytest

from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import Append, Stored
from projections.canonical import LATE_LIMIT
from projections.rebuild import rebuild
from schemas.codec import encode
from schemas.inputs import Approve
from tests.end_to_end.support import ended, run_until
from tests.gates.desk import Person, asks
from tests.gates.terminal import Terminal

AT_ONCE_S = 5.0
"""Far below the time that one waits for a supervisor."""
MUTED = f"ann is muted in run run: after {LATE_LIMIT} inputs that were not awaited, others are not recorded"


async def babble(board: Board, times: int) -> None:
    """Answers of ann to what nobody asked; return once they are counted."""
    data = encode(Approve(gate="nothing", digest="0" * 64))
    outcomes = await board.log.append(*[Append(board.subjects.signal("ann", "run"), data)] * times)
    last = outcomes[min(times, LATE_LIMIT + 1) - 1]
    assert isinstance(last, Stored)
    await run_until(board, "run", lambda state: state.late.get("ann", 0) >= min(times, LATE_LIMIT + 1))


async def test_answer_that_is_awaited_is_taken(shared: Board, pat: Client, ann: Person) -> None:
    await asks(shared, pat, "signed", "run")
    await babble(shared, 150)
    said = await ann("approve", "run", "--yes")
    assert (said.code, "write of run is approved" in said.out) == (0, True), said
    assert (await ended(shared, "run")).gates["write"].by == "ann"


async def test_answer_in_vain_is_not_sent(shared: Board, pat: Client, ann: Person, bob: Person) -> None:
    state = await asks(shared, pat, "both", "run")
    await babble(shared, 150)
    began, head = time.monotonic(), await shared.log.head()
    wrong = await ann("approve", "run", "--digest", "0" * 64)
    assert (wrong.code, wrong.err) == (1, f"blackboard: not sent: gate write has another digest, and {MUTED}\n")
    assert await shared.log.head() == head
    assert (await bob("approve", "run", "--yes")).code == 0
    late = await ann("approve", "run", "--gate", "write", "--yes")
    assert (late.code, late.err) == (1, f"blackboard: not sent: gate write is approved by bob already, and {MUTED}\n")
    assert (await bob("answer", "run", "red")).code == 0
    await ended(shared, "run")
    over = await ann("deny", "run", "--gate", "colour", "--yes")
    assert (over.code, over.err) == (1, f"blackboard: not sent: the run has ended, and {MUTED}\n")
    assert time.monotonic() - began < AT_ONCE_S
    assert state.open_gates


async def test_last_one_that_is_counted_is_no_approval(shared: Board, pat: Client, ann: Person) -> None:
    """The run records that the author is muted, instead of a reason."""
    await asks(shared, pat, "signed", "run")
    await babble(shared, LATE_LIMIT)
    said = await ann("approve", "run", "--digest", "0" * 64)
    assert said.code == 1
    assert said.err.startswith("blackboard: not taken: it was not awaited, and ann is muted from now on (sequence ")
    assert list((await rebuild(shared, "run")).state.open_gates) == ["write"]


@pytest.fixture
def terminal(there: list[str]) -> Iterator[Terminal]:
    one = Terminal(["approve", "run", "--name", "ann", *there])
    yield one
    one.close()


async def test_somebody_else_was_faster(
    shared: Board, pat: Client, bob: Person, request: pytest.FixtureRequest
) -> None:
    """Nothing tells so but that the gate is answered."""
    await asks(shared, pat, "both", "run")
    await babble(shared, 150)
    terminal: Terminal = request.getfixturevalue("terminal")
    await terminal.shows("approve write of run? [y/N]:")
    assert (await bob("approve", "run", "--yes")).code == 0
    began = time.monotonic()
    terminal.types("y")
    assert await terminal.ended() == 1
    assert f"not taken: gate write is approved by bob; {MUTED}" in terminal.shown
    assert time.monotonic() - began < AT_ONCE_S
