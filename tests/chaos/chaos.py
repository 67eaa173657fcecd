"""The whole proof: a run without kills, the runs under kills, and what is said about them."""

import asyncio
import os
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

from msgspec import Struct

from blackboard.board import open_board
from blackboard.server import EmbeddedServer
from schemas.contracts import EXECUTIONS_LIMIT
from tests.chaos.disturbed import Cost, Disturbed, Undisturbed, disturb, undisturbed
from tests.chaos.kills import draw, sooner
from tests.chaos.roles import ROLES, running
from tests.chaos.verdict import CORRUPTIONS

RUNS_LIMIT = 4
"""Runs under kills at most, until every kill was done."""
WRONG_SHOWN = 10


class Found(Struct, frozen=True):
    """`problems` are what concerns no run of its own."""

    kills: int
    runs: list[Disturbed]
    problems: list[str]

    @property
    def good(self) -> bool:
        return not list(self.wrong)

    @property
    def wrong(self) -> Iterator[str]:
        for run in self.runs:
            verdict = run.verdict
            if not verdict.outcome_equal:
                yield f"{run.run}: its outcome is another one"
            if not verdict.state_equal:
                yield f"{run.run}: its rebuilt state is not the one that the supervisor held"
            for what in ("lost", "doubled", "over"):
                yield from (f"{run.run}: {what}: {one}" for one in getattr(verdict, what))
            yield from (f"{run.run}: the comparison does not see {one}" for one in run.unseen)
            yield from (f"{run.run}: {one}" for one in run.problems)
        yield from self.problems
        if (done := sum(len(run.costs) for run in self.runs)) < self.kills:
            yield f"{done} kills of {self.kills} were done: the runs were over before"

    @property
    def figure(self) -> str:
        roles = Counter(cost.kill.role for run in self.runs for cost in run.costs)
        equal = [
            "equal" if all(getattr(run.verdict, f"{what}_equal") for run in self.runs) else "NOT EQUAL"
            for what in ("outcome", "state")
        ]
        lost, doubled = (sum(len(getattr(run.verdict, what)) for run in self.runs) for what in ("lost", "doubled"))
        shared = ", ".join(f"{role} {roles[role]}" for role in ROLES)
        return (
            f"chaos: {sum(roles.values())} kills ({shared}), outcome {equal[0]}, state {equal[1]}, "
            f"lost {lost}, doubled {doubled}"
        )


def measure(kills: int, tasks: int, seed: int, directory: Path | None = None) -> Found:
    """Do all of it and print what happens; `directory` is where data and outputs stay."""
    with ExitStack() as stack:
        folder = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        folder.mkdir(parents=True, exist_ok=True)
        with EmbeddedServer(folder / "server") as server:
            return asyncio.run(_measure(server, folder, kills, tasks, seed))


async def _measure(server: EmbeddedServer, folder: Path, kills: int, tasks: int, seed: int) -> Found:
    began = time.monotonic()
    runs: list[Disturbed] = []
    async with open_board(server.url, name="chaos", create=True) as board, running(server, folder) as roles:
        calm = await undisturbed(board, tasks)
        _say(_calm(calm, kills, seed))
        planned = draw(kills, calm.messages, seed)
        while planned and len(runs) < RUNS_LIMIT:
            run = await disturb(board, server.url, roles, f"disturbed-{len(runs) + 1}", planned, calm, seed)
            runs.append(run)
            planned = sooner(run.missed, calm.messages, min(one.messages for one in runs))
            _say(*_lines(run))
            if run.problems:
                break
        found = Found(kills, runs, roles.unasked)
    _say(*_slowest(runs), f"took {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}")
    wrong = list(found.wrong)
    _say(*wrong[:WRONG_SHOWN], *([f"and {len(wrong) - WRONG_SHOWN} more"] if len(wrong) > WRONG_SHOWN else []))
    return found


def _say(*lines: str) -> None:
    print("\n".join(lines), flush=True) if lines else None


def _calm(calm: Undisturbed, kills: int, seed: int) -> str:
    return (
        f"undisturbed: {calm.tasks} tasks, {calm.messages} messages in {calm.took_s:.1f} s; {kills} kills, seed {seed}"
    )


def _lines(run: Disturbed) -> Iterator[str]:
    yield f"{run.run}: {run.tasks} tasks, {run.messages} messages in {run.took_s:.1f} s"
    yield "   role        pid      age s  after    head  in flight  queued  in hand  next s    up s  back s"
    yield from map(_line, run.costs)
    if run.missed:
        yield f"  {len(run.missed)} kills not done: the run was over before their messages came"
    attempts, in_one_queue = Counter((one.task, one.attempt) for one in run.begun), Counter(run.begun)
    most, most_in_one = (max(counts.values(), default=0) for counts in (attempts, in_one_queue))
    yield (
        f"  {len(run.begun)} executions of {len(attempts)} attempts, {run.late} ends too late; the most of one attempt "
        f"{most}, in one queue {most_in_one} of {EXECUTIONS_LIMIT}"
    )
    yield f"  the longest silence of the log {run.silence[0]:.1f} s, before message {run.silence[1]}"
    yield f"  corruptions that the comparison sees: {len(CORRUPTIONS) - len(run.unseen)} of {len(CORRUPTIONS)}"


def _line(cost: Cost) -> str:
    kill = cost.kill
    queued = "away" if kill.queued is None else str(kill.queued)
    next_s, up_s, back_s = ("-" if one is None else f"{one:.3f}" for one in (cost.next_s, cost.up_s, cost.back_s))
    return (
        f"   {kill.role:<10}  {kill.pid:<7} {kill.age_s:6.1f}  {kill.k:>5}  {kill.head:>6}  {kill.in_flight:>9}  "
        f"{queued:>6}  {kill.in_hand:>7}  {next_s:>6}  {up_s:>6}  {back_s:>6}"
    )


def _slowest(runs: list[Disturbed]) -> Iterator[str]:
    for role in ROLES:
        costs = [cost for run in runs for cost in run.costs if cost.kill.role == role]
        times = {"up": [cost.up_s for cost in costs], "at work": [cost.back_s for cost in costs]}
        known = {name: sorted(one for one in found if one is not None) for name, found in times.items()}
        said = [
            f"{name} {found[len(found) // 2]:.1f} s, at most {found[-1]:.1f} s"
            for name, found in known.items()
            if found
        ]
        yield f"{role}: after a kill {'; '.join(said)}"
    kills = [cost.kill for run in runs for cost in run.costs]
    busy, held = sum(kill.in_flight > 0 for kill in kills), sum(kill.in_hand > 0 for kill in kills)
    yield f"{busy} of {len(kills)} kills with tasks in flight, {held} with tasks in a worker's hands"
