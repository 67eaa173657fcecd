"""What a specialist has at hand while it works: keeps the promises of `specialist.Context`, with or without a board.

Each call of a tool and each report of progress is an observation, handed to `record`; what that does with it is the
worker's business.
"""

import asyncio
import contextlib
import contextvars
import functools
import inspect
import logging
import math
import threading
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, TypeVar

from pydantic_core import to_jsonable_python

from blackboard import telemetry
from blackboard.blobs import BlobDamaged, BlobMissing, Blobs, BlobsUnavailable
from blackboard.memory import MemoryBlobs
from schemas.blobs import Blob
from schemas.codec import digest, sha256
from schemas.events import StopCode
from schemas.inputs import Observation, Progress, ToolCalled
from schemas.spans import Span
from schemas.tasks import Item, ReadFact, Task
from schemas.usage import Usage
from specialists.spans import tool_span
from specialists.specialist import Facts, Specialist, Stop, Tool, bounded, describe

PROGRESS_LIMIT = 1_000
"""Reports of progress of one execution; those after it are dropped."""
Record = Callable[[Observation], Awaitable[None]]
T = TypeVar("T")
_logger = logging.getLogger(__name__)


class WorkContext:
    """The context of one execution.

    `tools` are those that may be called. `unrecorded` holds the calls that were interrupted: there was no time to
    record them, so they go onto the log with the end. `threads` are the plain functions that have not returned. `spans`
    are those of the tool calls, to be recorded once the span above them is.
    """

    def __init__(self, task: Task, execution: str, tools: Mapping[str, Tool], blobs: Blobs, record: Record) -> None:
        self.task, self.execution = task, execution
        self.facts = Facts(task.facts)
        self.usage = Usage()
        self.cancelled = False
        self.unrecorded: list[Observation] = []
        self.threads: set[asyncio.Future[Any]] = set()
        self.spans: list[Span] = []
        self.log = logging.LoggerAdapter(
            _logger, {"run": task.run, "task": task.task, "specialist": task.specialist, "execution": execution}
        )
        self._tools, self._blobs, self._record = tools, blobs, record
        self._reports = 0

    def use(self, *, input_tokens: int = 0, output_tokens: int = 0) -> None:
        if min(input_tokens, output_tokens) < 0:
            raise ValueError(f"{input_tokens} and {output_tokens} tokens: usage is what is added, never less than 0")
        self.usage += Usage(input_tokens, output_tokens)

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

    async def tool(self, tool: str | Tool, /, **arguments: Any) -> Any:
        name = tool if isinstance(tool, str) else getattr(tool, "__name__", "?")
        function = self._tools.get(name)
        if function is None or (callable(tool) and tool is not function):
            granted = ", ".join(self._tools) or "none"
            message = f"tool {name[:64]!r} is not among those of this specialist (tools: {granted}): list it in tools="
            await self._record(self._called(name, arguments, "POLICY_BLOCKED", message))
            raise Stop("POLICY_BLOCKED", message)
        inspect.signature(function).bind(**arguments)  # wrong arguments are the caller's mistake, not the tool's
        number = self.usage.tool_calls + 1
        span = functools.partial(tool_span, self.task, self.execution, name, number)
        with telemetry.measured(span, self.spans.append):
            return await self._call(name, function, arguments)

    async def _call(self, name: str, function: Tool, arguments: dict[str, Any]) -> Any:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self.usage += Usage(tool_calls=1)
        called = self._called(name, arguments)  # before the tool can change them
        try:
            if inspect.iscoroutinefunction(function):
                result = await function(**arguments)
            else:
                result = await self.in_thread(function, **arguments)
        except asyncio.CancelledError:
            self.unrecorded.append(_with(called, "TIMEOUT", "interrupted before it answered", loop.time() - began))
            raise
        except Exception as error:
            stop = error if isinstance(error, Stop) else Stop("TOOL_DOWN", f"tool {name}: {describe(error)}")
            if stop is not error:
                self.log.warning("tool %s failed", name, exc_info=error)
            await self._record(_with(called, stop.code, stop.message, loop.time() - began))
            raise stop from error
        await self._record(_with(called, "", "", loop.time() - began, output=_digest(result)))
        return result

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

    Takes the specialist whose tools may be called, and the facts that it may read. `observations` are those that would
    have gone onto the board.
    """

    def __init__(
        self,
        specialist: Specialist | None = None,
        facts: Mapping[str, Any] | None = None,
        *,
        input: dict[str, Any] | None = None,
        work_ms: int | None = None,
        blobs: Blobs | None = None,
    ) -> None:
        self.observations: list[Observation] = []
        deadline_s = specialist.deadline_s if specialist else 30
        task = Task(
            log="",
            run="local",
            task="try",
            attempt=1,
            specialist=specialist.name if specialist else "local",
            contract=0,
            items=(Item("value", input or {}),),
            facts={key: ReadFact(value, 1) for key, value in (facts or {}).items()},
            read_version=1,
            wait_ms=0,
            work_ms=round(deadline_s * 1000) if work_ms is None else work_ms,
            span="0" * 16,
        )
        super().__init__(task, "local", specialist.tools if specialist else {}, blobs or MemoryBlobs(), self._remember)

    async def _remember(self, observation: Observation) -> None:
        self.observations.append(observation)


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
