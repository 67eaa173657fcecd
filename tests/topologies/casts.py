"""Who takes part when an example is run: a supervisor, a worker for each team, and specialists that are down.

The same on a board in memory and on one of a real server; nothing is imitated.
"""

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from blackboard.board import Board
from blackboard.client import Client
from blackboard.memory import MemoryBlobs, MemoryLog
from blackboard.memory_queue import MemoryQueue
from projections.canonical import State
from schemas.subjects import Subjects
from specialists.loading import load, load_team
from specialists.specialist import Specialist, Team
from specialists.worker import Worker
from supervisor.service import Supervisor
from tests.end_to_end.support import run_until
from tests.topologies.cases import Case

EXAMPLES = Path(__file__).parents[2] / "examples" / "topologies"
TEAMS: dict[str, Team] = {path.stem: load_team(str(path)) for path in sorted(EXAMPLES.glob("*.py"))}
"""The teams of the examples, by file."""


def member(file: str, name: str) -> Specialist:
    """One specialist of an example, also one that is not of its team."""
    return load(f"{EXAMPLES / file}.py:{name}").specialists[0]


def teams_of(case: Case) -> list[Team]:
    return [TEAMS[file] for file in (*case.teams, case.file)]


def check(case: Case, state: State) -> None:
    assert (state.end, state.code) == (case.end, case.code), state.reason
    assert case.reason in state.reason
    assert state.result == case.result


def board_in_memory() -> Board:
    subjects = Subjects()
    return Board(subjects, MemoryLog(subjects).connect(), MemoryQueue(), MemoryBlobs())


class Cast:
    """The people of a board that is at work."""

    def __init__(self, board: Board) -> None:
        self.board, self.client = board, Client(board, "ann")
        self._tasks: list[asyncio.Task[None]] = []
        self._stop = asyncio.Event()

    def supervise(self) -> None:
        self._keep(Supervisor(self.board, mend_s=0.2, grace_s=0).run(self._stop))

    async def attach(self, *specialists: Specialist) -> None:
        """Return when their contracts stand in the catalogue and they take tasks."""
        worker = Worker(self.board, specialists, drain_s=0)
        await worker.offer()
        self._keep(worker.run(self._stop))

    async def attach_down(self, specialist: Specialist) -> None:
        """Its contract stands in the catalogue, and it never takes a task."""
        await Client(self.board, specialist.name).offer(specialist.contract())

    def _keep(self, work: Any) -> None:
        self._tasks.append(asyncio.ensure_future(work))

    async def publish(self, team: str, **input: Any) -> str:
        return await self.client.publish(team, input)

    async def until(self, run: str, true: Any, within_s: float = 20) -> State:
        return (await run_until(self.board, run, true, within_s)).state

    async def ended(self, run: str, within_s: float = 20) -> State:
        return await self.until(run, lambda state: state.end, within_s)

    async def play(self, case: Case) -> State:
        """Publish a case, with its guests attached, say yes to every question, and return how the run ended."""
        if case.guests:
            await self.attach(*(member(case.file, name) for name in case.guests))
        run = await self.publish(TEAMS[case.file].name, **case.input)
        seen = 0
        while not (state := await self.until(run, _ended_or_asking(seen))).end:
            seen = state.version
            for name, gate in state.open_gates.items():
                await self.client.answer(run, name, gate.digest, True)
        return state

    async def leave(self) -> None:
        self._stop.set()
        _, hanging = await asyncio.wait(self._tasks, timeout=10)
        for task in hanging:
            task.cancel()
        await asyncio.gather(*self._tasks)
        assert not hanging


def _ended_or_asking(seen: int) -> Callable[[State], object]:
    """For a run that is read from its beginning: what it asked up to version `seen` was answered."""
    return lambda state: state.end or (state.version > seen and state.open_gates)


@asynccontextmanager
async def at_work(board: Board, teams: Sequence[Team], down: Sequence[str] = ()) -> AsyncIterator[Cast]:
    """A supervisor and the specialists of `teams`, of whom those that `down` names never take a task."""
    cast = Cast(board)
    cast.supervise()
    try:
        for team in teams:
            if there := [one for one in team.specialists if one.name not in down]:
                await cast.attach(*there)
            for one in team.specialists:
                if one.name in down:
                    await cast.attach_down(one)
            await cast.client.teach(team.playbook)
        yield cast
    finally:
        await cast.leave()


async def attach_during_the_run(cast: Cast) -> None:
    """While the run of `open_call` asks about its title, attach the scholar, who then wins the call for the text."""
    run = await cast.publish("translation", title="the cat", text="the cat drinks milk", to="de")
    asked = await cast.until(run, lambda state: state.open_gates)
    await cast.attach(member("open_call", "scholar-german"))
    await cast.client.answer(run, "title-is-right", asked.gates["title-is-right"].digest, True)
    state = await cast.ended(run)
    assert (state.end, state.result) == (
        "DONE",
        {"title": "die Katze", "text": "die Katze trinkt Milch", "by": ["pocket-german", "scholar-german"]},
    )
    assert [bid["by"] for bid in state.facts["text_bids"].value] == ["scholar-german", "pocket-german"]
    assert {loser.by: loser.reason for loser in state.facts["text_bids"].losers}["french"] == "cannot do it"
    assert state.usage.micro_usd == 2 * 10_000 + 4 * 30_000
