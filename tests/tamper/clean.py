"""Boards that nobody touched: random worlds of the simulator, with crashes, lost answers, liars and whatever else it
draws. A notary signs their logs at random moments, and what `verify` says of them is a false alarm.
"""

import asyncio
import random
from collections.abc import AsyncGenerator, Sequence

from blackboard.board import Board
from blackboard.log import Message
from blackboard.memory import MemoryBlobs, MemoryLog, MemoryQueue
from blackboard.simulation.faults import Chance
from blackboard.simulation.world import simulate
from blackboard.testing import _parts, random_simulation
from projections.notary_service import Notary
from projections.verify import Verdict, verify
from schemas.subjects import Subjects
from tests.tamper.recorded import KEY, PUBLIC


class MemoryWitness:
    """A witness that keeps its lines in memory. `refuses` numbers of heads raise what they are told to."""

    def __init__(self, name: str = "memory") -> None:
        self.name = name
        self.lines: list[bytes] = []
        self.refuses: Exception | None = None

    async def claim(self) -> None:
        pass

    async def read(self) -> AsyncGenerator[bytes, None]:
        if self.refuses:
            raise self.refuses
        for line in list(self.lines):
            yield line

    async def append(self, number: int, line: bytes) -> None:
        if self.refuses:
            raise self.refuses
        if number == len(self.lines) and self.lines[-1] == line:
            return
        assert number == len(self.lines) + 1, f"head {number} where {len(self.lines)} are"
        self.lines.append(line)

    async def close(self) -> None:
        pass


def board_of(messages: Sequence[Message], log_id: str) -> Board:
    """A board in memory that holds these very messages."""
    log, subjects = MemoryLog(log_id=log_id), Subjects()
    for message in messages:
        log._store.slots.append(message)
        log._store.by_subject.setdefault(message.subject, []).append(message.seq)
    return Board(subjects, log, MemoryQueue(), MemoryBlobs())


def world(seed: int) -> tuple[Sequence[Message], str]:
    """The log of a random world, and its id."""
    simulation = random_simulation(seed)
    happened = simulate(simulation.plan, Chance(seed, simulation.faults, None), _parts())
    return happened.messages, happened.log_id


def verdict_on_world(seed: int) -> Verdict:
    messages, log_id = world(seed)
    return asyncio.run(_verdict(messages, log_id, seed))


async def _verdict(messages: Sequence[Message], log_id: str, seed: int) -> Verdict:
    drawn, witness = random.Random(seed), MemoryWitness()
    for upto in [*sorted(drawn.sample(range(len(messages)), min(3, len(messages)))), len(messages)]:
        notary = Notary(board_of(messages[:upto], log_id), KEY, [witness], lambda: 0)
        await notary.begin()
        await notary.turn()
    return await verify(board_of(messages, log_id), witnesses=[witness], key=PUBLIC)
