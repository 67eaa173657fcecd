"""Why a fact is what it is: winner, losers, declined voices, each with the input it said so in."""

from contextlib import aclosing

import pytest

from blackboard.board import Board
from blackboard.client import Client
from projections.live import follow
from projections.provenance import Provenance, UnknownKey, why
from projections.rebuild import history
from projections.status import waits
from schemas.codec import sha256
from schemas.events import Cause, Silence
from tests.projections.world import ended, finished_board, memory_board, serving, teach


async def explain(board: Board, key: str) -> Provenance:
    folded, events = await history(board, "one")
    return why(folded.state, events, key)


@pytest.fixture
async def board() -> Board:
    return await finished_board("one")


async def test_winner_and_losers(board: Board) -> None:
    found = await explain(board, "seen.x")
    assert (found.value, found.policy, found.order) == ("X", "priority", ("alice", "bob"))
    assert found.winner is not None
    assert (found.winner.specialist, found.winner.attempt, found.winner.confidence) == ("alice", 1, 0.5)
    lost = {voice.specialist: voice for voice in found.losers}
    assert (lost["bob"].value, bool(lost["bob"].reason)) == ("x?", True)
    assert (lost["carol"].value, lost["carol"].reason) == ("X", "")


async def test_declined_voice(board: Board) -> None:
    (voice,) = (await explain(board, "seen.y")).declined
    assert (voice.specialist, voice.claimed, voice.code) == ("carol", False, "LOW_CONFIDENCE")
    assert voice.message == "never heard of it"


async def test_inputs_are_cited_as_they_are_stored(board: Board) -> None:
    found = await explain(board, "seen.x")
    assert found.winner is not None
    said = [found.winner.said, *(voice.said for voice in found.losers)]
    for cause in said:
        assert isinstance(cause, Cause)
        message = await board.log.get(cause.seq)
        assert message is not None
        assert sha256(message.data) == cause.sha256
        assert board.subjects.parse(message.subject).family == "obs"
    assert found.cause in said, "the last voice brought the decision about"


async def test_version_is_that_of_the_fact(board: Board) -> None:
    folded, _ = await history(board, "one")
    found = await explain(board, "total")
    assert found.version == folded.state.facts["total"].version
    assert found.winner is not None
    assert found.winner.read_version >= folded.state.facts["seen.x"].version


async def test_missing_key_says_why() -> None:
    board = memory_board()
    await teach(board)
    async with serving(board, answering=lambda name, item: Silence("", "INVALID_INPUT", f"{name} cannot")):
        await Client(board, "me").publish("survey", {"names": ["x"]}, "one")
        await ended(board, "one")
    found = await explain(board, "seen.x")
    assert (found.winner, found.code) == (None, "INVALID_INPUT")
    assert [voice.specialist for voice in found.declined] == ["alice", "bob", "carol"]


@pytest.mark.parametrize(
    ("key", "suggestions"),
    [("seen", ("seen.x", "seen.y", "seen.z")), ("totl", ("total",)), ("quite.another", ())],
)
async def test_unknown_key(board: Board, key: str, suggestions: tuple[str, ...]) -> None:
    with pytest.raises(UnknownKey, match=f"no fact '{key}'") as raised:
        await explain(board, key)
    assert raised.value.suggestions == suggestions
    assert all(suggestion in str(raised.value) for suggestion in suggestions or ("it has seen.x",))


async def test_key_that_is_not_decided_yet() -> None:
    board = memory_board()
    await teach(board, adder=False)
    async with serving(board, "alice", "bob", "carol"):
        await Client(board, "me").publish("survey", {"names": ["x"]}, "one")
        async with aclosing(follow(board, "one")) as going:
            async for folded in going:
                if waits(folded.state):
                    break
    with pytest.raises(UnknownKey, match="step total of run one has not decided 'total' yet"):
        await explain(board, "total")
