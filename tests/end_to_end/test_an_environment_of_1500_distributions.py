"""A large environment stays within every limit of a run, at each of its versions."""

from collections import defaultdict
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from nats.aio.msg import Msg

from blackboard.board import Board
from blackboard.client import Client
from projections.canonical import initial
from projections.evolve import evolve
from schemas.codec import INPUT_EVENTS_LIMIT, MESSAGE_LIMIT, STATE_LIMIT, decode_facts, encode
from schemas.playbooks import TASKS_LIMIT
from tests.end_to_end.environments import make_environment
from tests.end_to_end.support import Start, ended, history_of, offered, past_the_client

DISTRIBUTIONS = 1_500
WITHIN_S = 150


@asynccontextmanager
async def task_sizes(board: Board, url: str) -> AsyncIterator[list[int]]:
    """The sizes of the task messages that are published meanwhile."""
    sizes: list[int] = []

    async def see(message: Msg) -> None:
        sizes.append(len(message.data))

    async with past_the_client(url) as connection:
        await connection.listen(board.subjects.tasks, see)
        yield sizes


@pytest.mark.timeout(200)
async def test_it_ends_done_within_every_limit(shared: Board, there: list[str], start: Start, tmp_path: Path) -> None:
    environment = make_environment(tmp_path / "environment", DISTRIBUTIONS)
    async with task_sizes(shared, there[1]) as sizes:
        start("supervise", *there)
        start("attach", "licences", *there)
        await offered(shared, "licences", "licence-policy")
        run = await Client(shared, "publisher").publish("licences", {"path": str(environment)})
        state = await ended(shared, run, WITHIN_S)

    assert (state.end, state.reason) == ("DONE", "")
    assert state.result is not None
    assert state.result["distributions"] == DISTRIBUTIONS
    assert len(state.facts) == DISTRIBUTIONS + 3
    assert len(state.tasks) <= TASKS_LIMIT
    folded, told = await history_of(shared, run)
    messages = {message.seq: len(message.data) for message, _ in told}
    by_input: dict[int, int] = defaultdict(int)
    largest = 0
    state = initial(folded.state.log, run)
    for message, events in told:
        for event, stored in zip(events, decode_facts(message.data).events, strict=True):
            by_input[event.cause.seq] += len(bytes(stored))
            state = evolve(state, event)
            largest = max(largest, len(encode(state)))
    print(
        f"{state.version} events in {len(told)} messages, the largest {max(messages.values())}; of one input at most "
        f"{max(by_input.values())}; state at most {largest}; {len(state.tasks)} tasks, the largest {max(sizes)}"
    )
    assert largest < STATE_LIMIT
    assert max(by_input.values()) < INPUT_EVENTS_LIMIT
    assert max(messages.values()) < MESSAGE_LIMIT
    assert max(sizes) < MESSAGE_LIMIT
    assert len(sizes) >= len(state.tasks)
