"""What a specialist has at hand while it works: keeps the promises of `specialist.Context`, with or without a board.

Each call of a tool and each report of progress is an observation, handed to `record`; what that does with it is the
worker's business. What people said comes with the task.
"""

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
import math
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal
from typing import Any, Literal, NoReturn, Protocol, TypeVar

from msgspec.structs import replace
from pydantic_core import to_jsonable_python

from blackboard import telemetry
from blackboard.blobs import BlobDamaged, BlobMissing, Blobs, BlobsUnavailable
from blackboard.memory import MemoryBlobs
from schemas.blobs import Blob
from schemas.codec import digest, sha256
from schemas.events import StopCode
from schemas.inputs import ModelCalled, Observation, Progress, Question, ToolCalled
from schemas.spans import Span
from schemas.tasks import Answered, Item, ReadFact, Task
from schemas.usage import Limits, Usage
from specialists.budget import Budget
from specialists.ledger import Ledger
from specialists.spans import tool_span
from specialists.specialist import Facts, Specialist
from specialists.stop import WEEK_S, NeedsInput, Stop, bounded, describe
from specialists.tools import Function, Tool

PROGRESS_LIMIT = 1_000
"""Reports of progress of one execution; those after it are dropped."""
Record = Callable[[Observation], Awaitable[None]]


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
    them is. `screen` makes of what goes to the board's store, and to models, what may go there.
    """

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
        self._tools, self._blobs, self._record = tools, blobs, record
        self.ledger = Ledger(task.budget)
        self._answers = {one.digest: one for one in task.answers}
        self._requested: Counter[str] = Counter()
        self._reports = self._told = self.models_called = 0

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
        await self._record(self._counted(called))

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
        await self._record(
            Progress(
                task=task, attempt=attempt, execution=self.execution, message=bounded(str(message)), fraction=fraction
            )
        )

    def granted(self, tool: str | Function) -> Tool | None:
        """The tool that is meant, where it is one of the specialist's."""
        found = self._tools.get(_name(tool))
        if found and (isinstance(tool, str) or tool is found or tool == found.function):  # each bound method is new
            return found
        return None

    async def tool(self, tool: str | Function, /, **arguments: Any) -> Any:
        granted = self.granted(tool)
        if granted is None:
            names = ", ".join(self._tools) or "none"
            name = _name(tool)
            message = f"tool {name[:64]!r} is not among those of this specialist (tools: {names}): list it in tools="
            await self._refuse(name, arguments, "POLICY_BLOCKED", message)
        else:
            arguments = granted.arguments(arguments)  # wrong ones are the caller's mistake, not the tool's
            if refusal := self.ledger.refuses_call(granted.price_micro_usd):
                await self._refuse(granted.name, arguments, "BUDGET_EXCEEDED", refusal)
            if granted.confirm:
                self._confirm(granted, arguments)
            span = functools.partial(tool_span, self.task, self.execution, granted, self.usage.tool_calls + 1)
            with telemetry.measured(span, self.spans.append):
                return await self._call(granted, arguments)

    async def _refuse(self, name: str, arguments: dict[str, Any], code: StopCode, message: str) -> NoReturn:
        await self._tell(self._called(name, arguments, code, message))
        raise Stop(code, message)

    def _confirm(self, tool: Tool, arguments: dict[str, Any]) -> None:
        """Raise the question whether this call may be made, unless it was approved. An approval is for one call."""
        first = tool.request(self.task.specialist, arguments, 1).question.digest
        request = tool.request(self.task.specialist, arguments, self._requested[first] + 1)
        if self.answer_to(request.question) is None:
            raise request
        self._requested[first] += 1

    async def _call(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        began, name = loop.time(), tool.name
        self.ledger.book(tool_calls=1, micro_usd=tool.price_micro_usd)
        called = self._called(name, arguments)  # before the tool can change them
        try:
            if inspect.iscoroutinefunction(tool.function):
                result = await tool.function(**arguments)
            else:
                result = await self.in_thread(tool.function, **arguments)
                if inspect.isawaitable(result):  # a wrapper around a coroutine function
                    result = await result
        except asyncio.CancelledError:
            told = _with(called, "TIMEOUT", "interrupted before it answered", loop.time() - began)
            self.unrecorded.append(self._numbered(told))
            raise
        except Exception as error:
            stop = error if isinstance(error, Stop) else Stop("TOOL_DOWN", f"tool {name}: {describe(error)}")
            if stop is not error:
                self.log.warning("tool %s failed", name, exc_info=error)
            await self._tell(_with(called, stop.code, stop.message, loop.time() - began))
            raise stop from error
        await self._tell(_with(called, "", "", loop.time() - began, output=_digest(result)))
        return result

    async def _tell(self, called: ToolCalled) -> None:
        await self._record(self._numbered(called))

    def _numbered(self, called: ToolCalled) -> ToolCalled:
        """With its number among the calls that this execution tells of: told twice, it is still one."""
        self._told += 1
        return replace(called, call=self._told)

    def _called(
        self, name: str, arguments: dict[str, Any], code: StopCode | None = None, message: str = ""
    ) -> ToolCalled:
        return ToolCalled(
            task=self.task.task,
            attempt=self.task.attempt,
            execution=self.execution,
            tool=bounded(name[:64]),
            input=_digest(arguments),
            code=code or "",
            message=message,
        )

    async def blob(self, data: bytes, media_type: str = "application/octet-stream") -> Blob:
        return await self.store(await self.screen.bytes(data) if self.screen else data, media_type)

    async def store(self, data: bytes, media_type: str) -> Blob:
        """Store bytes as they are: what has been screened."""
        try:
            return Blob(sha256=await self._blobs.put(data), size=len(data), media_type=media_type)
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

    def __init__(
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
    ) -> None:
        self.observations: list[Observation] = []
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
        )
        super().__init__(task, "local", specialist.tools if specialist else {}, blobs or MemoryBlobs(), self._remember)

    def answer_to(self, question: Question) -> Answered | None:
        for name in (question.digest, question.ask):
            if name in self._said:
                return Answered(question.ask, question.action, question.digest, "local", self._said[name])
        return None

    async def _remember(self, observation: Observation) -> None:
        self.observations.append(observation)


def _name(tool: str | Function) -> str:
    return tool if isinstance(tool, str) else getattr(tool, "__name__", "?")


def _with(
    called: ToolCalled, code: StopCode | Literal[""], message: str, duration_s: float, output: str = ""
) -> ToolCalled:
    return ToolCalled(
        task=called.task,
        attempt=called.attempt,
        execution=called.execution,
        tool=called.tool,
        input=called.input,
        output=output,
        code=code,
        message=message,
        duration_ms=round(duration_s * 1000),
    )


def _digest(value: Any) -> str:
    """Of the canonical bytes of what a tool takes or gives; of its text where it cannot be JSON."""
    try:
        return digest(to_jsonable_python(value, bytes_mode="base64", fallback=repr))
    except Exception:  # circular, not UTF-8, or past 64 bits
        return sha256(repr(value).encode("utf-8", "backslashreplace"))
