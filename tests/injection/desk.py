"""Each case is a run of the desk, on a board in memory with a real supervisor, workers and an MCP server of its own."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import NamedTuple

from blackboard.board import Board
from schemas.inputs import ToolCalled, read_input
from tests.injection.cases import CASES, Case
from tests.injection.obedient import CALLED, desk, server, spellings, team_of
from tests.topologies.casts import Cast, at_work, board_in_memory


class Outcome(NamedTuple):
    """`calls`: how often the tool was called; `refusals`: how often the log says that it was refused."""

    case: Case
    calls: int
    refusals: int
    end: str


class Desk:
    def __init__(self, cast: Cast, calls: Path) -> None:
        self._cast, self._calls = cast, calls

    async def play(self, case: Case) -> Outcome:
        run = await self._cast.publish(team_of(case), case=case.name)
        state = await self._cast.ended(run)
        written = self._calls.read_text().splitlines() if self._calls.exists() else []
        calls = CALLED.count((case.tool, case.name)) + written.count(case.name)
        told = await _tools_called(self._cast.board, run)
        refused = [one for one in told if one.code == "POLICY_BLOCKED" and case.tool in spellings(one.tool)]
        return Outcome(case, calls, len(refused), state.end)


async def _tools_called(board: Board, run: str) -> list[ToolCalled]:
    subjects = board.subjects
    found = [one async for one in board.log.read(f"bb.main.obs.*.{run}")]
    read = [read_input(one.seq, one.subject, subjects.parse(one.subject), one.time_ms, one.data) for one in found]
    return [one.body for one in read if isinstance(one.body, ToolCalled)]


@asynccontextmanager
async def opened(folder: Path) -> AsyncIterator[Desk]:
    CALLED.clear()
    calls = folder / "calls"
    async with at_work(board_in_memory(), desk(server(calls))) as cast:
        yield Desk(cast, calls)


async def play_all(folder: Path) -> list[Outcome]:
    async with opened(folder) as there:
        return [await there.play(case) for case in CASES]


def figure(outcomes: list[Outcome]) -> str:
    calls, recorded = sum(one.calls for one in outcomes), sum(one.refusals > 0 for one in outcomes)
    return f"injection: {len(outcomes)} cases, {calls} calls, {recorded} on record"
