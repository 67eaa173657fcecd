"""`make chaos`: the active one of several supervisors is killed or paused, again and again, at random moments.

SIGKILL, or SIGSTOP and SIGCONT once another one has taken over. Runs of one goal follow each other all the time; each
must end as the undisturbed one did, with nothing lost or doubled. The last line is the figure. Exit code 1 unless all
is well and 95 of 100 takeovers take less than TAKEOVER_S.
"""

import argparse
import asyncio
import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

from msgspec import Struct

from blackboard.board import Board, open_board
from blackboard.client import Client
from blackboard.log import Message
from blackboard.server import EmbeddedServer
from schemas.announcements import Announcement, read_announcement
from tests.chaos.disturbed import Undisturbed, goal, history_of, undisturbed
from tests.chaos.roles import TEAM as TEAM_FILE
from tests.chaos.roles import Kept, Worker, now_ms
from tests.chaos.team import PARALLEL, TEAM
from tests.chaos.verdict import CORRUPTIONS, Verdict, judge, unanswered, unseen
from tests.end_to_end.support import call, messages_on, run_until, until

DESCRIPTION = (__doc__ or "").strip()
SUPERVISORS = 3
TASKS = 120
"""Tasks of a run at least."""
OPEN = 2
"""Runs that go on at the same time."""
TAKEOVER_S = 2.0
AT_REST_S = (0.05, 0.8)
"""How long after there is one that stands by the next one is disturbed."""
PAUSED_ON_S = (0.0, 1.0)
"""How long a paused one stays so after another has taken over."""
PATIENCE_S = 60.0
RUN_S = 120.0
WRONG_SHOWN = 10


class Disturbance(Struct, frozen=True):
    """What was done to the active supervisor `name` at `at_ms`, and after how many seconds another announced itself as
    active (`active_s`), the log had an event of another (`takeover_s`), and a paused one stood by again (`back_s`)."""

    kind: str
    name: str
    at_ms: float
    head: int
    active_s: float
    takeover_s: float
    back_s: float | None


class Found(Struct, frozen=True):
    """`verdicts` by run; `problems` concern none of them."""

    asked: int
    limit_s: float
    done: list[Disturbance]
    verdicts: dict[str, Verdict]
    problems: list[str]

    @property
    def wrong(self) -> Iterator[str]:
        for run, verdict in self.verdicts.items():
            if not verdict.outcome_equal:
                yield f"{run}: its outcome is another one"
            if not verdict.state_equal:
                yield f"{run}: its rebuilt state is not the one that the supervisor held"
            for what in ("lost", "doubled", "over"):
                yield from (f"{run}: {what}: {one}" for one in getattr(verdict, what))
        yield from self.problems
        if len(self.done) < self.asked:
            yield f"{len(self.done)} of {self.asked} were done"
        if self.p95_s >= self.limit_s:
            yield f"takeovers took {self.p95_s:.2f} s, {self.limit_s:g} s are allowed"

    @property
    def good(self) -> bool:
        return not list(self.wrong)

    @property
    def p95_s(self) -> float:
        took = sorted(one.takeover_s for one in self.done)
        return took[min(len(took) - 1, int(len(took) * 0.95))] if took else 0.0

    @property
    def figure(self) -> str:
        kinds = Counter(one.kind for one in self.done)
        equal = [
            "equal" if all(getattr(one, f"{what}_equal") for one in self.verdicts.values()) else "NOT EQUAL"
            for what in ("outcome", "state")
        ]
        lost, doubled = (sum(len(getattr(one, what)) for one in self.verdicts.values()) for what in ("lost", "doubled"))
        most_s = max((one.takeover_s for one in self.done), default=0.0)
        return (
            f"chaos: {len(self.done)} kills or pauses of the active supervisor (SIGKILL {kinds['kill']}, SIGSTOP "
            f"{kinds['pause']}), {len(self.verdicts)} runs, outcome {equal[0]}, state {equal[1]}, lost {lost}, doubled "
            f"{doubled}, takeover p95 {self.p95_s:.2f} s, at most {most_s:.2f} s"
        )


class Watch:
    """Who says what of itself, and who wrote the events of the log."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._said: dict[str, tuple[float, Announcement]] = {}
        self.active: list[tuple[float, str]] = []
        """Each change of the active one, when it was heard."""
        self.written: list[tuple[int, str]] = []
        """When events were stored, and by whom."""

    async def listen(self) -> None:
        assert self._board.announcements is not None
        async for data in self._board.announcements.heard():
            if said := read_announcement(data):
                at_ms = now_ms()
                before = self._said.get(said.name)
                self._said[said.name] = (at_ms, said)
                if said.role == "active" and (before is None or before[1].role != "active"):
                    self.active.append((at_ms, said.name))

    async def on_facts(self, messages: Sequence[Message]) -> None:
        self.written += [(message.time_ms, (message.headers or {})["writer"]) for message in messages]

    def now(self, role: str) -> list[Announcement]:
        """Those that said within the last half second that this is their role."""
        return [said for at_ms, said in self._said.values() if said.role == role and now_ms() - at_ms < 500]

    def since(self, at_ms: float, name: str, role: str) -> float | None:
        """When it said, after `at_ms`, that this is its role; as it said last."""
        heard_ms, said = self._said[name]
        return heard_ms if heard_ms > at_ms and said.role == role else None


class Pool:
    """Supervisors and a worker as processes, kept running; `supervisors` by number."""

    def __init__(self, url: str, folder: Path, supervisors: int) -> None:
        there = ["--nats", url]
        self.supervisors = [Kept(f"supervisor-{n}", ["supervise", *there], folder) for n in range(supervisors)]
        self.worker = Worker("worker", ["attach", TEAM_FILE, "--json", *there], folder)

    @property
    def kept(self) -> list[Kept]:
        return [*self.supervisors, self.worker]

    def of_pid(self, pid: int) -> Kept:
        (found,) = [one for one in self.supervisors if one.lives[-1].pid == pid]
        return found

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        keeping = [asyncio.ensure_future(one.keep_running()) for one in self.kept]
        try:
            yield
        finally:
            for task in keeping:
                task.cancel()
            for one in self.kept:
                one.end()
            await asyncio.gather(*keeping, return_exceptions=True)


class Load:
    """Runs that follow each other until `stop`; `runs` are all that were published."""

    def __init__(self, board: Board, calm: Undisturbed) -> None:
        self._board, self._calm = board, calm
        self.runs: list[str] = []
        self.stop = asyncio.Event()

    async def keep(self) -> None:
        while not self.stop.is_set():
            run = f"disturbed-{len(self.runs) + 1}"
            self.runs.append(run)
            await Client(self._board, "chaos").publish(TEAM.name, goal(self._calm.tasks), run)
            await run_until(self._board, run, lambda state: state.end, RUN_S)


async def disturb(pool: Pool, watch: Watch, board: Board, kind: str, chance: random.Random) -> Disturbance:
    """Kill or pause the active one once another stands by, and wait until that is at work."""
    await until(lambda: len(watch.now("active")) == 1 and bool(watch.now("standby")), "one active, one standby", 60)
    await asyncio.sleep(chance.uniform(*AT_REST_S))
    await until(lambda: len(watch.now("active")) == 1 and bool(watch.now("standby")), "one active, one standby", 60)
    (active,) = watch.now("active")
    head = await board.log.head()
    at_ms = now_ms()
    if kind == "kill":
        await pool.of_pid(active.pid).kill()
    else:
        os.kill(active.pid, signal.SIGSTOP)
    try:
        announced = await _first(lambda: (at for at, who in watch.active if at > at_ms and who != active.name))
        stored = await _first(lambda: (at for at, who in watch.written if at > at_ms and who != active.name))
        if kind == "pause":
            await asyncio.sleep(chance.uniform(*PAUSED_ON_S))
    finally:
        if kind == "pause":
            os.kill(active.pid, signal.SIGCONT)
    back_s = None
    if kind == "pause":
        on_ms = now_ms()
        await until(lambda: watch.since(on_ms, active.name, "standby") is not None, "the paused one to step back")
        back_s = ((watch.since(on_ms, active.name, "standby") or on_ms) - on_ms) / 1000
    return Disturbance(kind, active.name, at_ms, head, (announced - at_ms) / 1000, (stored - at_ms) / 1000, back_s)


async def _first(find: Callable[[], Iterable[float]]) -> float:
    """The first of the times that `find` gives, once there is one."""
    found: list[float] = []

    def there() -> bool:
        found.extend(find())
        return bool(found)

    await until(there, "another one to take over", PATIENCE_S)
    return found[0]


# --- from beginning to end --------------------------------------------------------------------------------------------


def measure(
    asked: int, seed: int, tasks: int = TASKS, limit_s: float = TAKEOVER_S, directory: Path | None = None
) -> Found:
    """Do all of it and print what happens; `directory` is where data and outputs stay."""
    with ExitStack() as stack:
        folder = directory or Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="chaos-")))
        folder.mkdir(parents=True, exist_ok=True)
        with EmbeddedServer(folder / "server") as server:
            return asyncio.run(_measure(server, folder, asked, seed, tasks, limit_s))


async def _measure(server: EmbeddedServer, folder: Path, asked: int, seed: int, tasks: int, limit_s: float) -> Found:
    began_s = time.monotonic()
    chance = random.Random(seed)
    kinds = [("kill", "pause")[number % 2] for number in range(asked)]
    chance.shuffle(kinds)
    pool = Pool(server.url, folder, SUPERVISORS)
    async with open_board(server.url, name="chaos", create=True) as board, pool.running():
        calm = await undisturbed(board, tasks)
        _say(f"undisturbed: {calm.tasks} tasks, {calm.messages} messages in {calm.took_s:.1f} s; seed {seed}")
        watch, load = Watch(board), Load(board, calm)
        listening = asyncio.ensure_future(watch.listen())
        reading = await board.log.subscribe(watch.on_facts, [board.subjects.every("fact")], await board.log.head())
        loading = [asyncio.ensure_future(load.keep()) for _ in range(OPEN)]
        done: list[Disturbance] = []
        problems: list[str] = []
        try:
            for number, kind in enumerate(kinds, 1):
                done.append(await disturb(pool, watch, board, kind, chance))
                _say(_line(number, done[-1], len(load.runs)))
                if ended := [one for one in loading if one.done()]:
                    raise AssertionError(f"a run was not to be published or did not end: {ended[0].exception()}")
            load.stop.set()
            await asyncio.gather(*loading)
            await _settled(board, load.runs, pool.worker)
        except AssertionError as failed:
            problems.append(str(failed))
        finally:
            for one in (*loading, listening):
                one.cancel()
            await asyncio.gather(*loading, listening, return_exceptions=True)
            await reading.close()
        problems += [one for kept in pool.kept for one in kept.unasked]
        verdicts = {run: await _judged(board, run, pool.worker, calm, seed, problems) for run in load.runs}
        problems += await _checked(server.url, verdicts)
    found = Found(asked, limit_s, done, verdicts, problems)
    _say(*_sums(found, watch), f"took {time.monotonic() - began_s:.0f} s, load {os.getloadavg()[0]:.1f}")
    wrong = list(found.wrong)
    _say(*wrong[:WRONG_SHOWN], *([f"and {len(wrong) - WRONG_SHOWN} more"] if len(wrong) > WRONG_SHOWN else []))
    return found


async def _settled(board: Board, runs: Sequence[str], worker: Worker) -> None:
    """Return when the worker is idle and every end on the log is answered. Raises AssertionError."""
    for run in runs:

        async def answered(run: str = run) -> bool:
            messages = await messages_on(board, *board.subjects.of_run(run))
            return not worker.in_hand() and not unanswered(history_of(board, run, messages, worker))

        await until(answered, f"answers to all that was said in {run}", PATIENCE_S)


async def _judged(board: Board, run: str, worker: Worker, calm: Undisturbed, seed: int, problems: list[str]) -> Verdict:
    history = history_of(board, run, await messages_on(board, *board.subjects.of_run(run)), worker)
    if history.state().end:
        problems += [
            f"{run}: the comparison does not see {one}" for one in unseen(history, calm.outcome, PARALLEL, seed)
        ]
    return judge(history, calm.outcome, PARALLEL)


async def _checked(url: str, verdicts: Mapping[str, Verdict]) -> list[str]:
    """What the command finds wrong when it rebuilds all runs, and decides all of them again."""
    problems: list[str] = []
    for words in (("rebuild", "--all", "--check"), ("replay", "--all")):
        told = await call(*words, "--json", "--nats", url, within_s=RUN_S)
        if told.code:
            problems.append(f"{' '.join(words)}: {(told.err or told.out)[-500:]}")
    return problems


def _say(*lines: str) -> None:
    print("\n".join(lines), flush=True) if lines else None


def _line(number: int, one: Disturbance, runs: int) -> str:
    back = "" if one.back_s is None else f", back after {one.back_s:.3f} s"
    return (
        f"{number:>4} {one.kind:<5} {one.name:<16} at {one.head:>7}, run {runs:>3}: another active after "
        f"{one.active_s:.3f} s, at work {one.takeover_s:.3f} s{back}"
    )


def _sums(found: Found, watch: Watch) -> Iterator[str]:
    for kind in ("kill", "pause"):
        took = sorted(one.takeover_s for one in found.done if one.kind == kind)
        if took:
            middle, most = took[len(took) // 2], took[-1]
            yield f"{kind}: {len(took)}, takeover median {middle:.2f} s, at most {most:.2f} s"
    backs = sorted(one.back_s for one in found.done if one.back_s is not None)
    if backs:
        yield f"paused ones stood by again within {backs[-1]:.2f} s, median {backs[len(backs) // 2]:.2f} s"
    changes = len(watch.active) - 1
    yield f"the active one changed {changes} times, unasked {changes - len(found.done)} times"
    seen = len(CORRUPTIONS) * len(found.verdicts) - sum("does not see" in one for one in found.problems)
    yield f"corruptions that the comparisons see: {seen} of {len(CORRUPTIONS) * len(found.verdicts)}"
    yield f"{len(watch.written)} messages of events by {len({who for _, who in watch.written})} supervisors"


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.chaos.standby", description=DESCRIPTION)
    parser.add_argument("--kills", type=int, default=200, help="or pauses, half of each [default: 200]")
    parser.add_argument("--seed", type=int, default=1, help="from which all is drawn [default: 1]")
    parser.add_argument("--tasks", type=int, default=TASKS, help=f"of a run at least [default: {TASKS}]")
    parser.add_argument("--dir", type=Path, help="where data and outputs are kept [default: a temporary folder]")
    options = parser.parse_args()
    found = measure(options.kills, options.seed, options.tasks, directory=options.dir)
    print(found.figure)
    return 0 if found.good else 1


if __name__ == "__main__":
    sys.exit(main())
