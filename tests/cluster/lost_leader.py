"""The whole proof: three servers under TLS, two supervisors, two workers, and the leader of the log killed while runs
go on. Each run ends as it would have."""

import asyncio
import os
import time
from collections.abc import Coroutine, Iterator
from pathlib import Path
from typing import Any

from msgspec import Struct

from blackboard.board import open_board
from tests.chaos.roles import TEAM as TEAM_FILE
from tests.chaos.roles import Kept, Worker, now_ms
from tests.chaos.team import TEAM
from tests.cluster.runs import SIZES, Judge, Judged, Runs
from tests.cluster.servers import Cluster
from tests.end_to_end.support import call, offered

WITHIN_S = 240.0
"""How long all runs of a measurement may take."""
SETTLE_S = 20.0
WRONG_SHOWN = 10


class Killed(Struct, frozen=True):
    """A leader that was killed. In seconds: until the log took the next message, and until the server was back with all
    that the others had."""

    name: str
    after_runs: int
    taken_over_s: float
    back_s: float


class Found(Struct, frozen=True):
    kills: list[Killed]
    judged: Judged
    problems: list[str]
    wanted: int

    @property
    def wrong(self) -> Iterator[str]:
        yield from (f"lost: {one}" for one in self.judged.lost)
        yield from (f"doubled: {one}" for one in self.judged.doubled)
        yield from self.judged.wrong
        yield from self.problems
        if len(self.kills) < self.wanted:
            yield f"{len(self.kills)} kills of {self.wanted} were done: the runs were over before"

    @property
    def figure(self) -> str:
        times = sorted(kill.taken_over_s for kill in self.kills)
        took = f"{times[len(times) // 2]:.1f} s, at most {times[-1]:.1f} s" if times else "-"
        equal = "NOT EQUAL" if any("outcome" in one for one in self.judged.wrong) else "equal"
        return (
            f"cluster: {len(self.kills)} leaders killed during {self.judged.runs} runs, outcome {equal}, "
            f"facts {self.judged.facts}, lost {len(self.judged.lost)}, doubled {len(self.judged.doubled)}, "
            f"takeover {took}"
        )


def measure(kills: int, runs: int, folder: Path) -> Found:
    """Do all of it and print what happens; `folder` is where data and outputs stay."""
    with Cluster(folder / "servers") as cluster:
        return asyncio.run(_measure(cluster, folder, kills, runs))


async def _measure(cluster: Cluster, folder: Path, kills: int, runs: int) -> Found:
    there = ["--nats", cluster.url, "--ca", cluster.ca]
    began = time.monotonic()
    async with open_board(cluster.url, name="chaos", create=True, ca=cluster.ca) as board:
        supervisors = [Kept(f"supervisor-{n}", ["supervise", *there], folder) for n in (1, 2)]
        workers = [Worker(f"worker-{n}", ["attach", TEAM_FILE, "--json", *there], folder) for n in (1, 2)]
        roles = [*supervisors, *workers]
        following = Runs(board)
        keeping = [asyncio.ensure_future(one.keep_running()) for one in roles]
        reading = asyncio.ensure_future(following.follow())
        try:
            async with asyncio.timeout(WITHIN_S):
                await offered(board, TEAM.name, *(one.name for one in TEAM.specialists))
                judge = Judge(board, workers)
                await judge.learn(await _or_fail(following.publish("calm", len(SIZES)), reading))
                print(f"undisturbed: {len(SIZES)} runs, {time.monotonic() - began:.1f} s after the start", flush=True)
                killer = Killer(cluster, following, kills, runs)
                killing = asyncio.ensure_future(killer.run())
                disturbed = await _or_fail(following.publish("disturbed", runs), reading)
                await killing
            await judge.settled(disturbed, SETTLE_S)
            judged = await judge.judge(disturbed)
            problems = [said for role in roles for said in role.unasked] + await _checked(there)
        finally:
            for one in (*keeping, reading):
                one.cancel()
            for role in roles:
                role.end()
            await asyncio.gather(*keeping, reading, return_exceptions=True)
    found = Found(killer.done, judged, problems, kills)
    print(
        f"took {time.monotonic() - began:.0f} s, load {os.getloadavg()[0]:.1f}",
        *list(found.wrong)[:WRONG_SHOWN],
        sep="\n",
    )
    return found


async def _or_fail(publishing: Coroutine[Any, Any, list[str]], reading: "asyncio.Future[None]") -> list[str]:
    """What was published; raises at once when the log cannot be followed any more."""
    work = asyncio.ensure_future(publishing)
    try:
        await asyncio.wait([work, reading], return_when=asyncio.FIRST_COMPLETED)
        return await work if work.done() else reading.result()  # type: ignore[return-value]  # it raises
    finally:
        work.cancel()


class Killer:
    """Kills the leader of the log at equal distances of runs that are over, and starts it again when another one has
    taken over. Two servers of three are always there."""

    def __init__(self, cluster: Cluster, runs: Runs, kills: int, total: int) -> None:
        self._cluster, self._runs, self._kills, self._total = cluster, runs, kills, total
        self._before = len(runs.ended)
        self.done: list[Killed] = []

    async def run(self) -> None:
        for number in range(self._kills):
            over = self._before + self._total * (2 * number + 1) // (2 * self._kills + 1)
            await self._runs.until(lambda over=over: len(self._runs.ended) >= over)
            if len(self._runs.ended) >= self._before + self._total:
                return
            await self._kill()

    async def _kill(self) -> None:
        stream = self._runs.board.subjects.log_stream
        while (leader := await asyncio.to_thread(self._cluster.leader_of, stream)) is None:  # noqa: ASYNC110 - no event tells it
            await asyncio.sleep(0.05)
        over, head, at_ms, at = len(self._runs.ended), await self._runs.board.log.head(), now_ms(), time.monotonic()
        leader.kill()
        message = None
        while message is None or message.time_ms < at_ms:
            head += 1 if message else 0
            message = await self._runs.board.log.get(head + 1)
            await asyncio.sleep(0 if message else 0.05)
        leader.start()
        await asyncio.to_thread(self._cluster.wait_healthy)
        killed = Killed(leader.name, over - self._before, (message.time_ms - at_ms) / 1000, time.monotonic() - at)
        self.done.append(killed)
        print(
            f"{killed.name} killed after {killed.after_runs} runs: the log took the next message after "
            f"{killed.taken_over_s:.1f} s, the server was back after {killed.back_s:.1f} s",
            flush=True,
        )


async def _checked(there: list[str]) -> list[str]:
    """What the command finds wrong with the runs."""
    told = await call("rebuild", "--all", "--check", *there, within_s=60)
    return [f"rebuild --check: {told.out[-500:]}{told.err}"] if told.code else []
