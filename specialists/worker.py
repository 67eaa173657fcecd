"""The worker: takes tasks from a board, has its specialists do them, and appends what came of it.

The order that makes it safe to kill at any moment: the end of a task is stored on the log, then the task is
acknowledged. A worker that dies in between, or before, leaves a task that is delivered again; the supervisor counts an
execution once. What a specialist may not do is block the event loop: its task is then delivered to somebody else.
"""

import asyncio
import contextlib
import logging
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeVar

from blackboard import telemetry
from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import Append, LogError, LogUnavailable, NotPermitted, Stored, TooLarge
from blackboard.queue import ACK_WAIT_S, Delivery, QueueGone, QueueUnavailable, TaskKey
from schemas.codec import encode
from schemas.contracts import EXECUTIONS_LIMIT
from schemas.inputs import EffectIntended, Ended, Observation, Progress, Started
from schemas.spans import Attributes, Span
from schemas.tasks import BadTask, Task, decode_task
from schemas.usage import Usage
from specialists.context import WorkContext
from specialists.execution import Execution
from specialists.mcp_tools import Servers, check_pinned
from specialists.outages import Outages
from specialists.signature import BadSpecialist
from specialists.spans import end_of_execution, execution_span
from specialists.specialist import Specialist
from specialists.stop import bounded
from specialists.worker_events import Begun, Finished, Offered, WorkerEvent

if TYPE_CHECKING:
    from specialists.filtering import Filter
    from specialists.findings import Finding

PULLS = 8
"""Pulls of one specialist at the same time, at most."""

T = TypeVar("T")
_logger = logging.getLogger(__name__)


def random_execution() -> str:
    """An id that no other execution has."""
    return uuid.uuid4().hex[:16]


@dataclass(frozen=True)
class Timing:
    """In seconds. `started_after_s`: work after which the board is told that it goes on. `grace_s`: for a coroutine to
    end after it was cancelled. `backoff_s`: the first and the longest pause while the board does not answer.
    `queue_s`: for the supervisor to make a queue that is gone, before that is worth a warning."""

    pull_s: float = 5.0
    heartbeat_s: float = ACK_WAIT_S / 3
    started_after_s: float = 1.0
    grace_s: float = 1.0
    backoff_s: tuple[float, float] = (0.2, 2.0)
    queue_s: float = 10.0


class Job:
    """A task in hand. The queue may deliver it more than once, when it was lost and filled again."""

    def __init__(self, specialist: Specialist, delivery: Delivery, execution: Execution) -> None:
        self.specialist, self.execution = specialist, execution
        self.key, self.count = delivery.key, delivery.count
        self.deliveries = [delivery]
        self.began = asyncio.get_running_loop().time()
        self.noted: list[Finding] = []

    @property
    def id(self) -> str:
        return self.execution.context.execution

    def span(self) -> Span:
        return execution_span(self.execution.task, self.id, self.count, self.specialist.version)

    def latency_ms(self) -> int:
        return round((asyncio.get_running_loop().time() - self.began) * 1000)


class Worker:
    """Works on a board with these specialists, `concurrency` tasks of each at the same time (default: what each says).

    When told to stop it takes no more tasks, gives those in hand `drain_s` seconds to end, and releases the rest.
    A coroutine that does not end when cancelled, or a plain function in its thread, keeps its place among the
    `concurrency` until it returns: it cannot be killed. `filter` sees every observation before it is appended, and what
    blobs hold. `on_event` is told what happens; `draw_execution` gives the id of each execution, and `context` makes
    what it works with. Use a worker once. Raises BadSpecialist where two have
    one name, or a class cannot be instantiated.
    """

    def __init__(  # noqa: PLR0913 - what a worker is made of, part by part
        self,
        board: Board,
        specialists: Sequence[Specialist],
        *,
        concurrency: int | None = None,
        drain_s: float = 10.0,
        filter: "Filter | None" = None,
        timing: Timing | None = None,
        on_event: Callable[[WorkerEvent], None] | None = None,
        draw_execution: Callable[[], str] = random_execution,
        context: Callable[..., WorkContext] = WorkContext,
    ) -> None:
        names = [one.name for one in specialists]
        if twice := sorted({name for name in names if names.count(name) > 1}):
            raise BadSpecialist(f"two specialists have the name {twice[0]!r}, under which the board knows one")
        self._board = board
        self._filter = filter
        self._specialists = [(filter.stops(one) if filter else one).fresh() for one in specialists]
        self._concurrency, self._drain_s = concurrency, drain_s
        self._timing = timing or Timing()
        self._tell = on_event or (lambda event: None)
        self._draw_execution, self._context = draw_execution, context
        self._jobs: dict[TaskKey, Job] = {}
        self._handling: set[asyncio.Task[None]] = set()
        self._stopping, self._giving_up, self._failed = asyncio.Event(), asyncio.Event(), asyncio.Event()
        self._failure: BaseException | None = None
        self._outages = Outages()
        self._servers, self._offered = Servers(self._specialists), False

    async def offer(self, catalogue: Board | None = None) -> None:
        """Start the servers of tools, which `run` stops, and put the contracts into the catalogue, unless they stand
        there as they are. `catalogue`: the same board with the right to that, where the worker's identity has it not.
        Raises BadSpecialist where a server cannot be taken, BadInput, LogError."""
        if not self._offered:
            await self._servers.start()
            for one in self._specialists:
                await check_pinned(catalogue or self._board, contract := one.contract())
                self._tell(Offered(contract, await Client(catalogue or self._board, one.name).offer(contract)))
        self._offered = True

    async def close(self) -> None:
        """Stop the servers of tools, where `offer` is not followed by `run`."""
        await self._servers.stop()

    async def run(self, stop: asyncio.Event) -> None:
        """Offer the contracts, then work until `stop` is set. Raises BadInput where a contract is not valid, and
        LogError where the board does not take what it is given."""
        try:
            await self.offer()
            await self._work(stop)
        finally:
            await self._servers.stop()

    async def _work(self, stop: asyncio.Event) -> None:
        listeners = [asyncio.create_task(self._listen(one.name, self._cancels(one))) for one in self._specialists]
        pullers = [self._watched(pulling) for one in self._specialists for pulling in self._pulls(one)]
        ends = [asyncio.create_task(event.wait()) for event in (stop, self._failed)]
        try:
            await asyncio.wait(ends, return_when=asyncio.FIRST_COMPLETED)
            await self._drain(pullers)
        finally:
            rest = [*ends, *listeners, *pullers, *self._handling]
            for task in rest:
                task.cancel()
            await asyncio.gather(*rest, return_exceptions=True)
        if self._failure is not None:
            raise self._failure

    async def _drain(self, pullers: Sequence["asyncio.Task[None]"]) -> None:
        self._stopping.set()
        if self._failure is None:
            await asyncio.wait([*pullers, *self._handling], timeout=self._drain_s)
        self._giving_up.set()
        for job in self._jobs.values():
            job.execution.interrupt("drained")
        if self._handling:
            await asyncio.wait(self._handling, timeout=self._timing.grace_s + 1)

    def _watched(self, work: Awaitable[None]) -> "asyncio.Task[None]":
        """A task whose failure ends the worker."""

        def note(done: "asyncio.Task[None]") -> None:
            if not done.cancelled() and (failure := done.exception()):
                self._failure = self._failure or failure
                self._failed.set()

        task = asyncio.ensure_future(work)
        assert isinstance(task, asyncio.Task)
        task.add_done_callback(note)
        return task

    # --- taking tasks -------------------------------------------------------------------------------------------------

    def _pulls(self, specialist: Specialist) -> Iterator[Awaitable[None]]:
        """Several pulls at the same time, so that tasks which take no time end together and share a write to disk. The
        first of them tells whether the queue is there."""
        count = self._concurrency or specialist.concurrency
        places = asyncio.Semaphore(count)
        return (self._pull(specialist, places, tells=number == 0) for number in range(min(count, PULLS)))

    async def _pull(self, specialist: Specialist, places: asyncio.Semaphore, tells: bool) -> None:
        """One pull after the other, while there is a place for what it brings."""
        pauses = self._pauses()
        while not self._stopping.is_set() and await self._unless_stopping(places.acquire()):
            delivery = None
            try:
                delivery = await self._unless_stopping(self._board.queue.pull(specialist.name, self._timing.pull_s))
                if tells:
                    self._outages.back(f"the queue of {specialist.name}")
                pauses = self._pauses()
            except (QueueGone, QueueUnavailable) as error:
                if tells:  # a queue that is gone is made anew, as after each start of the server, which has lost it
                    patience_s = self._timing.queue_s if isinstance(error, QueueGone) else 0
                    self._outages.away(f"the queue of {specialist.name}", error, patience_s)
                await self._unless_stopping(asyncio.sleep(next(pauses)))
            job = await self._admit(specialist, delivery) if delivery else None
            if job is None:
                places.release()
                continue
            handling = self._watched(self._handle(job))
            self._handling.add(handling)
            handling.add_done_callback(self._handling.discard)
            handling.add_done_callback(lambda _: places.release())

    async def _admit(self, specialist: Specialist, delivery: Delivery) -> Job | None:
        """The job, known to `_listen` from now on; None where the delivery needs no work of ours."""
        if self._stopping.is_set():
            await delivery.release()
            return None
        try:
            task = decode_task(delivery.data)
        except BadTask as error:
            _logger.error("a task that cannot be read was taken out: %s", error, extra=_extra(delivery.key))
            await delivery.ack()
            return None
        if self._is_foreign(task):
            self._outages.away(
                "the log of the tasks", f"log {task.log} is not ours; attach again if the board was made anew"
            )
            await delivery.release(self._timing.backoff_s[1])
            return None
        if (known := self._jobs.get(delivery.key)) is not None:
            known.deliveries.append(delivery)
            return None
        context = self._context(
            task, self._draw_execution(), specialist.tools, self._board.blobs, lambda one: self._record(job, one)
        )
        context.screen = self._filter
        job: Job = Job(specialist, delivery, Execution(specialist, context, self._timing.grace_s))
        self._jobs[job.key] = job
        return job

    def _is_foreign(self, task: Task) -> bool:
        try:
            return task.log != self._board.log.id
        except LogError:
            return False  # an identity that may only append does not know the log's id

    async def _listen(self, name: str, cancels: AsyncIterator[TaskKey]) -> None:
        """Best effort, like the cancels themselves."""
        try:
            async for key in cancels:
                if job := self._jobs.get(key):
                    job.execution.interrupt("cancelled")
        except (QueueUnavailable, NotPermitted) as error:
            _logger.warning("cancels for %s are not heard any more: %s", name, error)

    def _cancels(self, specialist: Specialist) -> AsyncIterator[TaskKey]:
        return self._board.queue.cancels(specialist.name)

    # --- doing one task -----------------------------------------------------------------------------------------------

    async def _handle(self, job: Job) -> None:
        self._tell(Begun(job.key, job.id))
        heartbeat = asyncio.create_task(self._beat(job))
        try:
            with telemetry.measured(job.span) as said:
                ended = await self._execute(job)
                stored = await self._store(job, ended) if ended else None
                if ended is None and (vain := job.execution.used_in_vain()):
                    await self._store(job, vain)  # tried once: nothing waits for it
                elif ended is None:
                    await self._store_unrecorded(job)
                await self._let_go(job, stored, said)
        finally:
            heartbeat.cancel()
            del self._jobs[job.key]
        telemetry.record(*job.execution.context.spans)
        await self._await_lingering(job)

    async def _execute(self, job: Job) -> Ended | None:
        if job.count > EXECUTIONS_LIMIT:
            message = f"killed its worker {job.count - 1} times"
            return Ended(
                task=job.key.task,
                attempt=job.key.attempt,
                execution=job.id,
                usage=Usage(),
                code="INTERNAL",
                message=message,
            )
        announcement = asyncio.create_task(self._announce(job))
        try:
            return await job.execution.run()
        finally:
            announcement.cancel()

    async def _announce(self, job: Job) -> None:
        await asyncio.sleep(self._timing.started_after_s)
        with contextlib.suppress(LogError):  # what refuses this refuses the end too, and is dealt with there
            await self._record(job, Started(task=job.key.task, attempt=job.key.attempt, execution=job.id))

    async def _beat(self, job: Job) -> None:
        while True:
            await asyncio.sleep(self._timing.heartbeat_s)
            for delivery in job.deliveries:
                await delivery.extend()

    async def _let_go(self, job: Job, ended: Ended | None, said: Attributes) -> None:
        """Acknowledge what is stored or has no purpose any more, release what another worker has to do."""
        cancelled = job.execution.interruption == "cancelled"
        how: Literal["stored", "cancelled", "released"] = (
            "stored" if ended else "cancelled" if cancelled else "released"
        )
        for delivery in job.deliveries:
            await (delivery.release() if how == "released" else delivery.ack())
        code, message = (ended.code, ended.message) if ended else ("", "")
        usage = ended.usage if ended else job.execution.context.usage  # a thread that goes on may still book
        latency_ms = job.latency_ms()
        self._tell(Finished(job.key, job.id, how, code, message, latency_ms, usage, ended.to if ended else ""))
        said |= end_of_execution(usage, code, how)
        tokens = usage.input_tokens + usage.output_tokens
        extra = {"latency_ms": latency_ms, "tokens": tokens, "micro_usd": usage.micro_usd, "code": code}
        _logger.info("task %s", how, extra=_extra(job.key) | {"execution": job.id} | extra)

    async def _await_lingering(self, job: Job) -> None:
        if job.execution.lingers:
            _logger.warning("its code goes on after its end and keeps its place", extra=_extra(job.key))
            await self._unless_stopping(job.execution.settled())

    # --- appending ----------------------------------------------------------------------------------------------------

    async def _record(self, job: Job, observation: Observation | EffectIntended) -> bool:
        """Append what a specialist does while it works, within the task's own limit; whether it is stored, which an
        intent is not where another execution has it. Progress is not worth waiting."""
        if self._filter:
            observation = await self._filter.screen(observation, job.noted)
        append = self._append_of(job.key.specialist, job.key.run, observation)
        for pause in self._pauses():
            try:
                outcome = (await self._board.log.append(append))[0]
                self._outages.back("the log")
                return isinstance(outcome, Stored)
            except LogUnavailable as error:
                self._outages.away("the log", error)
            if isinstance(observation, Progress):
                break
            await asyncio.sleep(pause)
        return False

    async def _store(self, job: Job, ended: Ended) -> Ended | None:
        """Append the end, the same bytes again until the log has them; what is stored, or None when there was no time
        or no use. A call of a tool that was interrupted goes along."""
        appends = await self._unrecorded(job)
        if self._filter:
            ended = await self._filter.end(ended, job.specialist, job.execution.task.kind, job.noted)
        appends.append(self._append_of(job.key.specialist, job.key.run, ended))
        pauses = self._pauses()
        while True:
            try:
                await self._board.log.append(*appends)
                self._outages.back("the log")
                return ended
            except LogUnavailable as error:
                self._outages.away("the log", error)
            except TooLarge as error:
                if not ended.claims:
                    raise
                return await self._store(job, _too_large(ended, error))
            if self._giving_up.is_set() or job.execution.interruption == "cancelled":
                return None
            await _unless(self._giving_up, asyncio.sleep(next(pauses)))

    async def _store_unrecorded(self, job: Job) -> None:
        """What an execution that another one takes over was about to tell; tried once."""
        if found := await self._unrecorded(job):
            with contextlib.suppress(LogError):
                await self._board.log.append(*found)

    async def _unrecorded(self, job: Job) -> list[Append]:
        """What was interrupted before it was told of, to be appended with what comes next."""
        found = job.execution.context.unrecorded
        if self._filter:
            found = [await self._filter.screen(one, job.noted) for one in found]
        return [self._append_of(job.key.specialist, job.key.run, one) for one in found]

    def _append_of(self, specialist: str, run: str, observation: Observation | EffectIntended) -> Append:
        subjects = self._board.subjects
        if isinstance(observation, EffectIntended):  # the first one among all specialists has it
            of_all = subjects.intent("*", run, observation.key, observation.round)
            subject = subjects.intent(specialist, run, observation.key, observation.round)
            return Append(subject, encode(observation), expected=0, among=of_all)
        return Append(subjects.observation(specialist, run), encode(observation))

    # --- waiting ------------------------------------------------------------------------------------------------------

    def _pauses(self) -> Iterator[float]:
        pause, longest = self._timing.backoff_s
        while True:
            yield pause
            pause = min(pause * 2, longest)

    async def _unless_stopping(self, wanted: Awaitable[T]) -> T | None:
        return await _unless(self._stopping, wanted)


async def _unless(event: asyncio.Event, wanted: Awaitable[T]) -> T | None:
    """What `wanted` gives, or None when `event` comes first; it is cancelled then."""
    work = asyncio.ensure_future(wanted)
    waiting = asyncio.create_task(event.wait())
    try:
        await asyncio.wait({work, waiting}, return_when=asyncio.FIRST_COMPLETED)
        if not work.done():
            work.cancel()
            await asyncio.wait({work})
    finally:
        work.cancel()
        waiting.cancel()
    return None if work.cancelled() else work.result()


def _too_large(ended: Ended, error: TooLarge) -> Ended:
    return Ended(
        task=ended.task,
        attempt=ended.attempt,
        execution=ended.execution,
        usage=ended.usage,
        code="INVALID_OUTPUT",
        message=bounded(f"the values of the task together are too large ({error}); store them with context.blob()"),
    )


def _extra(key: TaskKey) -> dict[str, object]:
    return {"run": key.run, "task": key.task, "attempt": key.attempt, "specialist": key.specialist}
