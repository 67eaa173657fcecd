"""Kills: when each is due, drawn from a seed, and firing them while a run goes on, at places of its log."""

import asyncio
import random
from collections.abc import Sequence

from msgspec import Struct

from blackboard.board import Board
from blackboard.log import LogError, Message
from blackboard.queue import QueueGone, QueueUnavailable
from projections.history import Folded, fold, unwritten
from schemas.codec import decode_facts
from tests.chaos.roles import ROLES, Roles, now_ms
from tests.end_to_end.support import brief

LOOK_S = 0.3
"""How long a kill waits for the queue to say what it holds."""


class Planned(Struct, frozen=True):
    """`role` is killed after message `k` of the run, the goal being the first."""

    role: str
    k: int


class Kill(Struct, frozen=True):
    """A kill that was done: of the process of life `life` of its role, `age_s` after its start, at `at_ms`, when the
    run's last message was number `head`. In the state `in_flight` tasks were in flight, in the queue were `queued`
    (None: it did not say, as it was away itself), the worker had `in_hand`, and
    workers had said `said` things about executions."""

    role: str
    k: int
    pid: int
    life: int
    age_s: float
    at_ms: float
    head: int
    in_flight: int
    queued: int | None
    in_hand: int
    said: int


def draw(kills: int, length: int, seed: int) -> list[Planned]:
    """Kills spread over a run of `length` messages, one in each of as many equal parts, the roles equally often."""
    chance = random.Random(seed)
    roles = [ROLES[number % len(ROLES)] for number in range(kills)]
    chance.shuffle(roles)
    edges = [1 + (length - 1) * number // kills for number in range(kills + 1)]
    return [Planned(role, chance.randrange(edges[n], max(edges[n + 1], edges[n] + 1))) for n, role in enumerate(roles)]


def sooner(missed: Sequence[Planned], length: int, reached: int) -> list[Planned]:
    """Kills of a run of `length` messages for one that may end after `reached`, at the same places of it: how many
    messages a run takes depends on what shares one."""
    return [Planned(one.role, max(1, one.k * reached // length)) for one in missed]


class Killer:
    """Follows the run and kills what is planned. `done` are the kills so far; `planned` those that are not due yet."""

    def __init__(self, board: Board, run: str, planned: Sequence[Planned], roles: Roles) -> None:
        self.done: list[Kill] = []
        self.planned = list(planned)
        self.ended = asyncio.Event()
        self._board, self._roles = board, roles
        self._folded: Folded = unwritten(board.log.id, run)
        self._fact = board.subjects.fact(run)
        self._before: int | None = None
        """The sequence before the goal."""
        self.position = 0

    @property
    def where(self) -> str:
        return f"message {self.position}, {brief(self._folded.state)}"

    async def on_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            if self._before is None:
                self._before = message.seq - 1
            self.position = message.seq - self._before
            if message.subject == self._fact:
                self._folded = fold(self._folded, decode_facts(message.data), message.seq)
        if self._folded.state.end:
            self.ended.set()
        while self.planned and self.planned[0].k <= self.position and not self.ended.is_set():
            await self._kill(self.planned.pop(0))

    async def _kill(self, planned: Planned) -> None:
        role, in_flight = self._roles[planned.role], self._folded.state.in_flight
        queued, head = await self._look()
        in_hand, said = self._roles.worker.in_hand(), sum(1 for _ in self._roles.worker.said())
        number = await role.kill()
        at_ms, life = now_ms(), role.lives[number]
        self.done.append(
            Kill(
                role=planned.role,
                k=planned.k,
                pid=life.pid,
                life=number,
                age_s=(at_ms - life.began_ms) / 1000,
                at_ms=at_ms,
                head=head,
                in_flight=in_flight,
                queued=queued,
                in_hand=in_hand,
                said=said,
            )
        )

    async def _look(self) -> tuple[int | None, int]:
        """How many tasks are in the queue, and the position of the log's head."""
        queued, head = None, self.position
        try:
            async with asyncio.timeout(LOOK_S):
                head = await self._board.log.head() - (self._before or 0)
                queued = len(await self._board.queue.keys())
        except (TimeoutError, LogError, QueueGone, QueueUnavailable):
            pass
        return queued, head
