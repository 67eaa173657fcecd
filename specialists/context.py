"""What a specialist has at hand while it works: keeps the promises of `specialist.Context`, with or without a board.

Each call of a tool and each report of progress is an observation, handed to `record`; what that does with it is the
worker's business. What people said comes with the task.
"""

import asyncio
import contextlib
import contextvars
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any, ClassVar, Literal, Protocol, TypeVar

import msgspec
from msgspec.structs import replace

from blackboard.blobs import BlobDamaged, BlobMissing, Blobs, BlobsUnavailable
from blackboard.memory import MemoryBlobs
from schemas.blobs import Blob
from schemas.grants import Grant
from schemas.inputs import EffectIntended, ModelCalled, Observation, Progress, Question
from schemas.spans import Span
from schemas.taint import Labels
from schemas.tasks import Answered, Item, ReadFact, Task, Undo
from schemas.usage import Limits, Usage
from specialists.budget import Budget
from specialists.effects import Effects
from specialists.gateway import Gateway
from specialists.ledger import Ledger
from specialists.specialist import Facts, Specialist
from specialists.stop import WEEK_S, NeedsInput, Stop, bounded, describe
from specialists.tools import Described, Function, Reply, Tool

PROGRESS_LIMIT = 1_000
"""Reports of progress of one execution; those after it are dropped."""
Record = Callable[[Observation | EffectIntended], Awaitable[bool]]
"""Appends an observation; whether the log took it, which it does not only where another has the right to an effect."""


class Screen(Protocol):
    """What stands between a specialist and what others will read. Both raise Stop POLICY_BLOCKED."""

    async def bytes(self, data: bytes) -> bytes: ...

    async def value(self, value: Any) -> Any: ...


T = TypeVar("T")
_logger = logging.getLogger(__name__)


class WorkContext:
    """The context of one execution.

    `tools` are those that may be called. `unrecorded` holds the calls that were interrupted: there was no time to
    record them, so they go onto the log with the end. `reported` is set once the end says what was used. `threads` are
    the plain functions that have not returned. `spans` are those of the tool calls, to be recorded once the span above
    them is. Tools are called by the `gateway`, which sees what stands here. `screen` makes of what goes to the board's
    store, and to models, what may go there.
    """

    gateway: ClassVar[type[Gateway]] = Gateway

    def __init__(self, task: Task, execution: str, tools: Mapping[str, Tool], blobs: Blobs, record: Record) -> None:
        self.task, self.execution = task, execution
        self.facts = Facts(task.facts)
        self.cancelled, self.reported = False, False
        self.unrecorded: list[Observation] = []
        self.threads: set[asyncio.Future[Any]] = set()
        self.spans: list[Span] = []
        self.screen: Screen | None = None
        self.log = logging.LoggerAdapter(
            _logger, {"run": task.run, "task": task.task, "specialist": task.specialist, "execution": execution}
        )
        self.record, self.ledger = record, Ledger(task.budget)
        self._blobs = blobs
        self._reports = self.models_called = 0
        self._answers = {one.digest: one for one in task.answers}
        self._gateway = self.gateway(self, tools)

    @property
    def usage(self) -> Usage:
        return self.ledger.usage

    @property
    def budget(self) -> Budget:
        return self.ledger.left()

    def overspent(self) -> str:
        """How the budget of the task is exceeded, else an empty text."""
        return self.ledger.overspent()

    def use(
        self, *, input_tokens: int = 0, output_tokens: int = 0, micro_usd: int = 0, usd: float | Decimal = 0
    ) -> None:
        self.ledger.book(input_tokens=input_tokens, output_tokens=output_tokens, micro_usd=micro_usd, usd=usd)
        if self.reported:
            self.log.warning("used after its end, which no report holds: %s", self.usage)
        if over := self.overspent():
            raise Stop("BUDGET_EXCEEDED", over)

    async def model_called(self, called: ModelCalled) -> None:
        """Record a call of a model."""
        await self.record(self._counted(called))

    def model_interrupted(self, called: ModelCalled) -> None:
        """There is no time to record it: it goes onto the log with the end."""
        self.unrecorded.append(self._counted(called))

    def _counted(self, called: ModelCalled) -> ModelCalled:
        self.models_called += 1
        return replace(called, call=self.models_called)

    async def ask(
        self, question: str, schema: dict[str, Any] | None = None, *, action: Any = None, expires_s: float = WEEK_S
    ) -> Any:
        asking = NeedsInput(question, schema, action=action, expires_s=expires_s)
        answered = self.answer_to(asking.question)
        if answered is None:
            raise asking
        return True if schema is None else answered.value

    def answer_to(self, question: Question) -> Answered | None:
        """What people said to exactly this, if an earlier attempt has asked it."""
        return self._answers.get(question.digest)

    async def progress(self, message: str, fraction: float | None = None) -> None:
        self._reports += 1
        if self._reports > PROGRESS_LIMIT:
            return
        if fraction is not None:
            fraction = None if math.isnan(fraction) else min(max(float(fraction), 0.0), 1.0)
        task, attempt = self.task.task, self.task.attempt
        await self.record(
            Progress(
                task=task, attempt=attempt, execution=self.execution, message=bounded(str(message)), fraction=fraction
            )
        )

    @property
    def tools(self) -> list[Described]:
        return self._gateway.described()

    @property
    def taint(self) -> Labels:
        return self._gateway.taint

    def outside(self, *labels: str) -> None:
        self._gateway.read(*labels)

    async def tool(self, tool: str | Function, /, **arguments: Any) -> Any:
        return await self._gateway.call(tool, arguments)

    async def requested(self, name: str, arguments: Mapping[str, Any] | str) -> Reply:
        return await self._gateway.requested(name, arguments)

    @property
    def effects(self) -> Effects:
        return self._gateway.effects

    async def undo(self, asked: dict[str, Any]) -> Any:
        return await self._gateway.undo(msgspec.convert(asked, Undo))

    async def blob(self, data: bytes, media_type: str = "application/octet-stream") -> Blob:
        return await self.store(await self.screen.bytes(data) if self.screen else data, media_type)

    async def store(self, data: bytes, media_type: str) -> Blob:
        """Store bytes as they are: what has been screened."""
        try:
            return Blob(sha256=await self._blobs.put(data, self.task.specialist), size=len(data), media_type=media_type)
        except BlobsUnavailable as error:
            raise Stop("TOOL_DOWN", f"the blob cannot be stored: {error}") from error

    async def read_blob(self, blob: Blob | str, /) -> bytes:
        try:
            return await self._blobs.get(blob if isinstance(blob, str) else blob.sha256)
        except BlobsUnavailable as error:
            raise Stop("TOOL_DOWN", f"the blob cannot be read: {error}") from error
        except (BlobMissing, BlobDamaged) as error:
            raise Stop("INVALID_INPUT", str(error)) from error

    async def in_thread(self, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T:
        """The thread is a daemon of its own: a shared pool would run full of functions that do not return, and the
        process could not end before they do."""
        loop = asyncio.get_running_loop()
        future: asyncio.Future[T] = loop.create_future()
        call = contextvars.copy_context().run

        def settle(result: Any, error: BaseException | None) -> None:
            if error is None:
                future.set_result(result)
            else:
                future.set_exception(error)

        def work() -> None:
            result: Any = None
            failure: BaseException | None = None
            try:
                result = call(function, *arguments, **keywords)
            except StopIteration as error:  # a future cannot hold it
                failure = RuntimeError(describe(error))
            except BaseException as error:  # also what ends a process: it is raised where the caller awaits
                failure = error
            with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
                loop.call_soon_threadsafe(settle, result, failure)

        self.threads.add(future)
        future.add_done_callback(self.threads.discard)
        future.add_done_callback(lambda done: done.exception())  # it may be that nobody awaits it any more
        threading.Thread(target=work, daemon=True, name=f"{self.task.specialist}-{self.task.task}").start()
        await asyncio.wait([future])  # unlike `await future`, does not cancel it with the caller
        return future.result()


class LocalContext(WorkContext):
    """A context with no board: for `blackboard try` and for tests of specialists.

    Takes the specialist whose tools may be called and whose budget holds, the facts that it may read, and what people
    answer, by the text of the question or its digest. `observations` are those that would have gone onto the board.
    """

    def __init__(  # noqa: PLR0913 - a task, as far as it matters here
        self,
        specialist: Specialist | None = None,
        facts: Mapping[str, Any] | None = None,
        *,
        input: dict[str, Any] | None = None,
        work_ms: int | None = None,
        blobs: Blobs | None = None,
        answers: Mapping[str, Any] | None = None,
        kind: Literal["work", "bid", "reconcile"] = "work",
        attempt: int = 1,
        grant: Grant | None = None,
        taint: Labels = (),
    ) -> None:
        self.observations: list[Observation | EffectIntended] = []
        self._said = dict(answers or {})
        deadline_s = specialist.deadline_s if specialist else 30
        task = Task(
            log="",
            run="local",
            task="try",
            attempt=attempt,
            specialist=specialist.name if specialist else "local",
            contract=0,
            items=(Item("value", input or {}),),
            facts={key: ReadFact(value, 1) for key, value in (facts or {}).items()},
            read_version=1,
            wait_ms=0,
            work_ms=round(deadline_s * 1000) if work_ms is None else work_ms,
            span="0" * 16,
            kind=kind,
            budget=specialist.budget.limits() if specialist else Limits(),
            grant=grant,
            taint=taint,
        )
        super().__init__(task, "local", specialist.tools if specialist else {}, blobs or MemoryBlobs(), self._remember)

    def answer_to(self, question: Question) -> Answered | None:
        for name in (question.digest, question.ask):
            if name in self._said:
                return Answered(question.ask, question.action, question.digest, "local", self._said[name])
        return None

    async def _remember(self, observation: Observation | EffectIntended) -> bool:
        self.observations.append(observation)
        return True
