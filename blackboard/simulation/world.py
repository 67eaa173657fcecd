"""A simulated world: one log, one queue, and around them supervisors, workers, publishers and people, as processes that
are killed and started again, until all runs have ended."""

import asyncio
import contextlib
import itertools
import json
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

from blackboard.board import Board
from blackboard.client import BadInput, Client
from blackboard.log import LogUnavailable, Message
from blackboard.memory import MemoryBlobs, MemoryLog
from blackboard.memory_announcements import MemoryAnnouncements
from blackboard.simulation.faults import FROM_OUTSIDE, Chance
from blackboard.simulation.lies import LyingLog
from blackboard.simulation.parts import Call, Happened, Parts, Person, Plan, Published, Staff
from blackboard.simulation.ports import Clock, ShuffledQueue, SimulatedAnnouncements, SimulatedLog, SimulatedQueue
from blackboard.simulation.processes import Crash, Process
from blackboard.simulation.virtual_time import Deadlock, TimeUp, VirtualLoop, run_in_virtual_time
from schemas.codec import ends_run
from schemas.subjects import BOARD_RUN, Subjects

T = TypeVar("T")
Main = Callable[[Process], Coroutine[Any, Any, None]]

LOG_ID = "simulated"
AGAIN_S = 0.5
"""Pause of a publisher or person before asking the log again."""
BATCHES = (1, 2, 7, 500)
DRAIN_S = 60.0
PULL_S = 30.0
"""Pulls that last longer than those of real workers: less is done while nothing happens."""
SETTLE_S = 0.1


def simulate(plan: Plan, chance: Chance, parts: Parts) -> Happened:
    """Let the world of `plan` run to its end."""
    world: list[World] = []

    async def live(loop: VirtualLoop) -> None:
        world.append(World(plan, chance, parts, loop))
        await world[0].live()

    hung = ""
    try:
        run_in_virtual_time(live, plan.limit_s, plan.limit_steps)
    except (Deadlock, TimeUp) as error:
        hung = str(error)
    return run_in_virtual_time(lambda loop: world[0].read(hung), 1.0, 1_000)


class World:
    def __init__(self, plan: Plan, chance: Chance, parts: Parts, loop: VirtualLoop) -> None:
        self._plan, self._chance, self._parts, self._loop = plan, chance, parts, loop
        self._subjects = Subjects()
        self._clock = Clock(loop.time)
        self._log = MemoryLog(clock_ms=self._clock.ms, log_id=LOG_ID)
        self._queue = ShuffledQueue(lambda kind, place: chance.happens(kind, place, loop.time()), self._share)
        self._blobs = MemoryBlobs()
        self._announcements = MemoryAnnouncements()
        self._supervisors: dict[str, Any] = {}
        self._work_over, self._over, self._news = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._wanted: set[str] = {goal.run for goal in plan.goals}
        self._ended: set[str] = set()
        self._absent: set[str] = {one.specialist.name for one in plan.staff} if plan.attached else set()
        self._attached = asyncio.Event()
        self._happened = Happened(LOG_ID, plan)

    def _share(self, place: str) -> float:
        return self._chance.share(self._chance.numbered(place))

    async def read(self, hung: str) -> Happened:
        """What came of it; `hung` says why it was left."""
        happened = self._happened
        happened.messages = [message async for messages in self._log.scan() for message in messages]
        happened.stored_s, happened.undisturbed = self._clock.stored_s, not self._chance.made
        happened.duration_s, happened.steps, happened.hung = self._loop.time(), self._loop.steps, hung
        if hung and (waiting := sorted(self._wanted - self._ended)):
            happened.hung += f"; not ended: {', '.join(waiting)}"
        return happened

    # -- from beginning to end --

    async def live(self) -> None:
        watching = await self._log.subscribe(self._watch)
        taught, over = asyncio.Event(), self._work_over
        workers = [self._start(name, work, over) for name, work in self._workers()]
        supervisors = [
            self._start(f"supervisor-{number}", self._supervise, self._over) for number in range(self._plan.supervisors)
        ]
        goals = ((f"goal-{goal.run}", partial(self._publish, goal, taught)) for goal in self._plan.goals)
        people = ((person.name, partial(self._answer, person)) for person in self._plan.people)
        others: list[tuple[str, Main]] = [("teacher", partial(self._teach, taught)), *goals, *people]
        outside = [self._start(name, main, over, FROM_OUTSIDE) for name, main in others]
        await self._until(lambda: self._wanted <= self._ended)
        self._chance.calm = True
        self._work_over.set()
        await asyncio.gather(*workers, *outside)
        await self._decided()
        self._over.set()
        await asyncio.gather(*supervisors)
        await watching.close()

    async def _watch(self, messages: Sequence[Message]) -> None:
        """Which runs there are, and which have ended."""
        for message in messages:
            address = self._subjects.address(message.subject)
            if address and address.family == "contract":
                self._absent.discard(address.author)
            elif address and address.family == "goal":
                self._wanted.add(address.run)
            elif address and address.family == "fact" and address.run != BOARD_RUN and ends_run(message.data):
                self._ended.add(address.run)
        if not self._absent:
            self._attached.set()
        self._news.set()

    async def _until(self, true: Callable[[], bool]) -> None:
        while not true():
            self._news.clear()
            await self._news.wait()

    async def _decided(self) -> None:
        """Return once a supervisor has decided everything that is on the log."""
        held: list[Any] = []
        while not held:
            await asyncio.sleep(SETTLE_S)
            held = [one for one in self._supervisors.values() if one.position >= await self._log.head()]
        for supervisor in held:
            for run, seq in supervisor.committer.left.items():
                self._happened.problems.append(f"{supervisor.name} leaves run {run} alone from input {seq} on")
            self._happened.held += [held for run in sorted(self._ended) if (held := supervisor.runs.get(run))]

    # -- processes --

    def _start(
        self, name: str, main: Main, until: asyncio.Event, allowed: frozenset[str] | None = None
    ) -> "asyncio.Task[None]":
        return self._loop.create_task(self._keep_running(name, main, until, allowed))

    async def _keep_running(self, name: str, main: Main, until: asyncio.Event, allowed: frozenset[str] | None) -> None:
        """Another process in the place of each one that is gone, until one ends by itself, or `until`."""
        for number in itertools.count(1):
            self._happened.processes += 1
            process = Process(f"{name}.{number}", self._chance, allowed)
            failure = await process.run(partial(main, process))
            process.kill()
            self._supervisors.pop(name, None)
            if failure is not None and not isinstance(failure, Crash | LogUnavailable):
                self._happened.problems.append(f"{process.name} died of {type(failure).__name__}: {failure}")
            if failure is None or until.is_set():
                return
            await asyncio.sleep(self._chance.between(0.01, self._chance.faults.restart_s, "restart", process.name))

    def _board(self, process: Process, log: Any = None) -> Board:
        log = log or SimulatedLog(self._log, process, self._clock)
        return Board(self._subjects, log, self._queue_of(process), self._blobs)

    def _queue_of(self, process: Process) -> SimulatedQueue:
        return SimulatedQueue(self._queue, process, self._clock, self._happened)

    async def _supervise(self, process: Process) -> None:
        batch = BATCHES[int(self._chance.share("batch", process.name) * len(BATCHES))]
        heard = SimulatedAnnouncements(self._announcements, process) if self._plan.announced else None
        board = replace(self._board(process), announcements=heard)
        supervisor = self._parts.supervisor(board, name=process.name, batch=batch, clock_s=self._loop.time)
        self._supervisors[process.name.partition(".")[0]] = supervisor
        await supervisor.run(self._over)

    def _workers(self) -> list[tuple[str, Main]]:
        return [
            (f"{staff.specialist.name}-{number}", partial(self._work, staff))
            for staff in self._plan.staff
            for number in range(staff.workers)
        ]

    async def _work(self, staff: Staff, process: Process) -> None:
        log: Any = SimulatedLog(self._log, process, self._clock)
        board = self._board(process, log)
        if staff.down:
            client = Client(board, staff.specialist.name)
            await self._again(lambda: client.offer(staff.specialist.contract()))
            await self._work_over.wait()
            return
        if staff.lies:
            log = LyingLog(log, staff.lies, staff.lie_rate, lambda lie: self._share(f"{process.name} {lie}"))
            board = self._board(process, log)
        worker = self._parts.worker(
            board,
            [staff.specialist],
            drain_s=DRAIN_S,
            timing=self._parts.timing(pull_s=PULL_S),
            on_event=self._note_call,
            draw_execution=lambda: self._chance.id("execution", self._chance.numbered(process.name)),
            context=self._context,
        )
        await worker.run(self._work_over)

    def _note_call(self, event: Any) -> None:
        if isinstance(event, self._parts.begun):
            key = event.key
            self._happened.calls.append(
                Call(key.specialist, key.run, key.task, key.attempt, event.execution, self._loop.time())
            )

    def _context(self, *arguments: Any) -> Any:
        return self._parts.context(*arguments, note=self._happened.tools.append)

    # -- publishers and people --

    async def _again(self, ask: Callable[[], Awaitable[T]]) -> T:
        while True:
            try:
                return await ask()
            except LogUnavailable:
                await asyncio.sleep(AGAIN_S)

    async def _teach(self, taught: asyncio.Event, process: Process) -> None:
        client = Client(self._board(process), "ann")
        for playbook in self._plan.playbooks:
            await self._again(partial(client.teach, playbook))
        taught.set()

    async def _publish(self, goal: Published, taught: asyncio.Event, process: Process) -> None:
        await taught.wait()
        await self._attached.wait()
        await asyncio.sleep(goal.after_s)
        client = Client(self._board(process), goal.by)
        asked = partial(client.publish, goal.team, dict(goal.input), goal.run, goal.approve)
        await self._again(lambda: asked(budget=goal.budget, deadline_s=goal.deadline_s))
        if goal.cancel_after_s is not None and not await self._over_within(goal.cancel_after_s):
            await self._again(lambda: client.cancel(goal.run, "no more"))

    async def _over_within(self, seconds: float) -> bool:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self._work_over.wait()
        return self._work_over.is_set()

    async def _answer(self, person: Person, process: Process) -> None:
        """Answer the gates that the log tells of, each in its time."""
        client, answering = Client(self._board(process), person.name), list[asyncio.Task[None]]()

        async def hear(messages: Sequence[Message]) -> None:
            for message in messages:
                if b'"gate_opened"' in message.data:
                    for event in json.loads(message.data)["events"]:
                        if event["type"] == "gate_opened":
                            run = self._subjects.parse(message.subject).run
                            answering.append(asyncio.create_task(self._answer_one(person, client, run, event)))

        hearing = await self._log.subscribe(hear, [self._subjects.every("fact")])
        await self._work_over.wait()
        await hearing.close()
        for task in answering:
            task.cancel()

    async def _answer_one(self, person: Person, client: Client, run: str, event: dict[str, Any]) -> None:
        try:
            await self._say(person, client, run, event)
        except BadInput as error:
            self._happened.problems.append(f"{person.name} cannot answer {event['gate']!r} of run {run}: {error}")

    async def _say(self, person: Person, client: Client, run: str, event: dict[str, Any]) -> None:
        gate, digest = event["gate"], event["digest"]
        if person.says == "nothing":
            return
        await asyncio.sleep(self._chance.between(*person.after_s, person.name, run, gate))
        if self._chance.share("mistaken", person.name, run, gate) < person.mistaken:
            await self._again(lambda: client.approve(run, gate, "0" * 64))
        if person.says == "deny":
            await self._again(lambda: client.deny(run, gate, digest, "not like that"))
        elif event.get("schema") is None:
            await self._again(lambda: client.approve(run, gate, digest))
        else:
            value = person.value(event) if callable(person.value) else person.value
            await self._again(lambda: client.answer(run, gate, digest, value))
