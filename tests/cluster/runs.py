"""Runs that go on while servers die: publishing them, knowing when they are over, and judging their histories."""

import asyncio
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import LogUnavailable, Message
from projections.history import outcome_digest
from schemas.codec import ends_run
from tests.chaos.disturbed import history_of
from tests.chaos.roles import Worker
from tests.chaos.team import PARALLEL, TEAM
from tests.chaos.verdict import CORRUPTIONS, judge, unanswered, unseen

OPEN = 12
"""Runs that are under way at the same time."""
SIZES = (2, 3, 4)
"""Numbers that a run is about; each brings three tasks, and one adds up."""


def goal(number: int) -> dict[str, list[int]]:
    """The input of run `number`."""
    return {"numbers": list(range(SIZES[number % len(SIZES)]))}


class Judged(Struct, frozen=True):
    """What became of some runs. `facts` counts those that were committed."""

    runs: int
    facts: int
    lost: list[str]
    doubled: list[str]
    wrong: list[str]


class Runs:
    """Publishes runs and follows the log. `ended` has the message that ended each."""

    def __init__(self, board: Board) -> None:
        self.board = board
        self.ended: dict[str, Message] = {}
        self._news = asyncio.Condition()

    async def follow(self) -> None:
        """Read the log until cancelled, however often its leader dies."""
        reading = await self.board.log.subscribe(self._on_messages)
        try:
            await reading.wait()
        finally:
            await reading.close()

    async def _on_messages(self, messages: Sequence[Message]) -> None:
        for message in messages:
            address = self.board.subjects.address(message.subject)
            if address and address.family == "fact" and ends_run(message.data):
                self.ended[address.run] = message
        async with self._news:
            self._news.notify_all()

    async def publish(self, prefix: str, count: int) -> list[str]:
        """Publish `count` runs, OPEN of them under way at once, and return their ids once all are over."""
        client, published = Client(self.board, "chaos"), list[str]()
        for number in range(count):
            await self.until(lambda: sum(run not in self.ended for run in published) < OPEN)
            run = f"{prefix}-{number}"
            while True:
                try:
                    await client.publish(TEAM.name, goal(number), run)
                    break
                except LogUnavailable:  # a goal may be published again
                    await asyncio.sleep(0.1)
            published.append(run)
        await self.until(lambda: all(run in self.ended for run in published))
        return published

    async def until(self, true: Any) -> None:
        async with self._news:
            await self._news.wait_for(true)


@dataclass
class _Said:
    """What workers said of one run, in the place of the roles."""

    records: list[dict[str, Any]] = field(default_factory=list)

    @property
    def worker(self) -> "_Said":
        return self

    def said(self) -> list[dict[str, Any]]:
        return self.records


class Judge:
    """Knows the outcomes of undisturbed runs and judges others by them."""

    def __init__(self, board: Board, workers: Sequence[Worker]) -> None:
        self._board, self._workers = board, workers
        self._outcomes: dict[int, str] = {}

    async def settled(self, runs: Sequence[str], within_s: float) -> None:
        """Return when what workers said of the runs is answered, or the time is over: the verdict says so then."""
        end = asyncio.get_running_loop().time() + within_s
        while asyncio.get_running_loop().time() < end:
            if not any(unanswered(one) for one in (await self._histories(runs)).values()):
                return
            await asyncio.sleep(0.5)

    async def learn(self, runs: Sequence[str]) -> None:
        """Take the outcomes of these as what they should be."""
        for number, history in enumerate((await self._histories(runs)).values()):
            state = history.state()
            assert state.end == "DONE", (state.end, state.reason)
            known = self._outcomes.setdefault(number % len(SIZES), outcome_digest(state))
            assert known == outcome_digest(state), "undisturbed runs of one goal differ"

    async def judge(self, runs: Sequence[str]) -> Judged:
        judged = Judged(0, 0, [], [], [])
        for number, (run, history) in enumerate((await self._histories(runs)).items()):
            outcome = self._outcomes[number % len(SIZES)]
            verdict = judge(history, outcome, PARALLEL)
            judged.lost.extend(f"{run}: {one}" for one in verdict.lost)
            judged.doubled.extend(f"{run}: {one}" for one in verdict.doubled)
            judged.wrong.extend(f"{run}: {one}" for one in verdict.over)
            if not verdict.outcome_equal:
                judged.wrong.append(f"{run}: its outcome is another one ({history.state().end})")
            if not verdict.state_equal:
                judged.wrong.append(f"{run}: its rebuilt state is not the one that the supervisor held")
            if number < len(SIZES):
                blind = unseen(history, outcome, PARALLEL, number)
                judged.wrong.extend(f"{run}: of {len(CORRUPTIONS)} the comparison does not see {one}" for one in blind)
            facts = judged.facts + len(history.state().facts)
            judged = replace(judged, runs=number + 1, facts=facts)
        return judged

    async def _histories(self, runs: Sequence[str]) -> dict[str, Any]:
        messages: dict[str, list[Message]] = defaultdict(list)
        async for batch in self._board.log.scan():
            for message in batch:
                if address := self._board.subjects.address(message.subject):
                    messages[address.run].append(message)
        said: dict[str, _Said] = defaultdict(_Said)
        for worker in self._workers:
            for record in worker.said():
                said[record["run"]].records.append(record)
        return {run: history_of(self._board, run, messages[run], said[run]) for run in runs}  # type: ignore[arg-type]
