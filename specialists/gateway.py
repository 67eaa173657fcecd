"""The gateway: each call of a tool by a specialist passes here, and nothing else calls one.

In this order, and each refusal is an observation `tool_called` with its code: the tool is one of the specialist's, by
exactly its name; the arguments are valid; the task grants it; it does not write once content from outside was read,
unless a person approves just that; the budget holds the call; a person has approved it where that is wanted. Then the
function is called (`_perform`, the only place), with a time-out of its own, and where it changes the world by
`effects`, which sees to it that it is done once; what it gives has a limit of size; and the call is recorded with the
digests of what went in and came out.
"""

import asyncio
import functools
import inspect
import json
import logging
from collections import Counter
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NoReturn, Protocol

from msgspec.structs import replace
from pydantic_core import to_jsonable_python

from blackboard import telemetry
from schemas.blobs import Blob
from schemas.codec import canonical, sha256
from schemas.events import StopCode
from schemas.inputs import EffectIntended, Observation, Question, ToolCalled
from schemas.spans import Span
from schemas.taint import Labels, joined
from schemas.tasks import Answered, Task, Undo
from specialists.effects import Effects
from specialists.ledger import Ledger
from specialists.spans import tool_span
from specialists.stop import EffectUnknown, Stop, bounded, describe
from specialists.tools import Described, Function, Reply, Tool

GRACE_S = 0.1
"""How long a tool that was cancelled at its time-out may take to end before the call goes on without it."""


class Desk(Protocol):
    """What the gateway needs of the execution that it serves; specialists.context.WorkContext has it."""

    task: Task
    execution: str
    ledger: Ledger
    cancelled: bool
    record: Callable[[Observation | EffectIntended], Awaitable[bool]]
    unrecorded: list[Observation]
    threads: set[asyncio.Future[Any]]
    spans: list[Span]
    log: "logging.LoggerAdapter[logging.Logger]"

    def answer_to(self, question: Question) -> Answered | None: ...

    async def in_thread(self, function: Callable[..., Any], /, *arguments: Any, **keywords: Any) -> Any: ...

    async def blob(self, data: bytes, media_type: str = ...) -> Blob: ...


class Gateway:
    """Calls the tools of one execution. `tools` are those that its specialist has, by name; `taint` are the labels of
    the content from outside that the execution has read until now."""

    def __init__(self, desk: Desk, tools: Mapping[str, Tool]) -> None:
        self._desk, self._tools = desk, tools
        self.taint = joined(desk.task.taint)
        self.effects = Effects(desk, self._perform)
        self._requested: Counter[str] = Counter()
        self._told = 0

    def read(self, *labels: str) -> None:
        """Content from outside was read: all that follows in this execution may come of it."""
        self.taint = joined(self.taint, labels)

    def described(self) -> list[Described]:
        """The tools that may be called, for a model. What a server says of its tools is content from outside."""
        task = self._desk.task
        usable = [one for one in self._tools.values() if not (task.grant and task.grant.refuses(one.name, one.scopes))]
        self.read(*(one.label for one in usable if one.outside and one.foreign))
        return [one.described() for one in usable]

    def granted(self, tool: str | Function) -> Tool | None:
        """The tool that is meant, where it is one of the specialist's."""
        found = self._tools.get(_name(tool))
        if found and (isinstance(tool, str) or tool is found or tool == found.function):  # each bound method is new
            return found
        return None

    async def call(self, tool: str | Function, arguments: dict[str, Any]) -> Any:
        """What the tool gives. Raises Stop, NeedsInput, and TypeError for arguments that it does not take."""
        granted = await self._known(tool, arguments)
        arguments = granted.arguments(arguments)  # wrong ones are the caller's mistake, not the tool's
        result, _ = await self._checked(granted, arguments, cut=False)
        return result

    async def requested(self, name: str, arguments: Mapping[str, Any] | str) -> Reply:
        """As `call`, for a model that named the tool and its arguments (an object, or its JSON): what it did wrong, and
        what went wrong, it can read. Raises NeedsInput where a person has to approve the call first."""
        try:
            given = _object(arguments)
            granted = await self._known(name, given if isinstance(given, dict) else {"arguments": arguments})
            try:
                if isinstance(given, str):
                    raise TypeError(f"tool {name}: {given}")
                arguments = granted.arguments(given)
            except TypeError as error:
                await self._refuse(granted.name, {"arguments": given}, "INVALID_INPUT", bounded(str(error)))
            result, data = await self._checked(granted, arguments, cut=True)
        except Stop as stop:
            return Reply(str(stop), stop.code)
        return await self._reply(granted, result, data)

    async def undo(self, asked: Undo) -> dict[str, Any]:
        """Undo an effect of an earlier execution, by the tool that its own one names. Raises Stop, NeedsInput."""

        async def call(tool: Tool, arguments: dict[str, Any]) -> Any:
            return (await self._call(tool, arguments, False))[0]

        return await self.effects.undo(asked, self._tools, call)

    async def _reply(self, tool: Tool, result: Any, data: bytes) -> Reply:
        """All that came out, or its beginning and a blob of all where it is over the tool's limit."""
        whole = result.encode("utf-8", "backslashreplace") if isinstance(result, str) else data
        if len(data) <= tool.output_limit:
            return Reply(whole.decode(), value=result)
        media_type = "text/plain" if isinstance(result, str) else "application/json"
        try:
            blob = await self._desk.blob(whole, media_type)
        except Stop as stop:
            return Reply(str(stop), stop.code)
        text = whole[: tool.output_limit].decode(errors="ignore")
        note = (
            f"[cut: {len(whole)} bytes in all, over the limit of {tool.output_limit}; all of it is blob {blob.sha256}]"
        )
        return Reply(f"{text}\n{note}", value=blob.model_dump(), blob=blob)

    # --- may it be called ---------------------------------------------------------------------------------------------

    async def _known(self, tool: str | Function, arguments: dict[str, Any]) -> Tool:
        if granted := self.granted(tool):
            return granted
        names = ", ".join(self._tools) or "none"
        name = _name(tool)
        message = f"tool {name[:64]!r} is not among those of this specialist (tools: {names}): list it in tools="
        await self._refuse(name, arguments, "POLICY_BLOCKED", message)

    async def _checked(self, tool: Tool, arguments: dict[str, Any], cut: bool) -> tuple[Any, bytes]:
        """Call a tool with valid arguments, where nothing speaks against it; what it gives, and that as bytes."""
        grant = self._desk.task.grant
        if grant and (refusal := grant.refuses(tool.name, tool.scopes)):
            await self._refuse(tool.name, arguments, "POLICY_BLOCKED", refusal)
        tainted = self.taint if tool.writes and tool.taint != "allow" else ()
        if tainted and not tool.may_ask:
            refusal = f"{tool.name} writes, and this execution has read content from outside ({', '.join(tainted)}): a "
            refusal += "person has to approve such a call, with tool(..., confirm=True) or taint='confirm'"
            await self._refuse(tool.name, arguments, "POLICY_BLOCKED", refusal)
        if refusal := self._desk.ledger.refuses_call(tool.price_micro_usd):
            await self._refuse(tool.name, arguments, "BUDGET_EXCEEDED", refusal)
        if tool.confirm or tainted:
            self._confirm(tool, arguments, tainted)
        number = self._desk.ledger.usage.tool_calls + 1
        span = functools.partial(tool_span, self._desk.task, self._desk.execution, tool, number)
        with telemetry.measured(span, self._desk.spans.append):
            return await self._call(tool, arguments, cut)

    async def _refuse(self, name: str, arguments: dict[str, Any], code: StopCode, message: str) -> NoReturn:
        await self._tell(self._called(name, arguments, code, message))
        raise Stop(code, message)

    def _confirm(self, tool: Tool, arguments: dict[str, Any], tainted: Labels) -> None:
        """Raise the question whether this call may be made, unless it was approved. An approval is for one call."""
        specialist = self._desk.task.specialist
        first = tool.request(specialist, arguments, 1).question.digest
        request = tool.request(specialist, arguments, self._requested[first] + 1, tainted)
        if self._desk.answer_to(request.question) is None:
            raise request
        self._requested[first] += 1

    # --- the call -----------------------------------------------------------------------------------------------------

    async def _call(self, tool: Tool, arguments: dict[str, Any], cut: bool) -> tuple[Any, bytes]:
        loop = asyncio.get_running_loop()
        began = loop.time()
        self._desk.ledger.book(tool_calls=1, micro_usd=tool.price_micro_usd)
        called = self._called(tool.name, arguments)  # before the tool can change them
        try:
            try:
                result = await (self.effects.perform if tool.effect else self._perform)(tool, arguments)
            finally:
                if tool.outside:  # also what it raises comes from there
                    self.read(tool.label)
        except asyncio.CancelledError:
            told = _with(called, "TIMEOUT", "interrupted before it answered", loop.time() - began)
            self._desk.unrecorded.append(self._numbered(told))
            raise
        except EffectUnknown as unknown:
            await self._tell(_with(called, unknown.code, unknown.question.ask, loop.time() - began))
            raise
        except Exception as error:
            stop = error if isinstance(error, Stop) else Stop("TOOL_DOWN", f"tool {tool.name}: {describe(error)}")
            if stop is not error:
                self._desk.log.warning("tool %s failed", tool.name, exc_info=error)
            await self._tell(_with(called, stop.code, stop.message, loop.time() - began))
            raise stop from error
        data = _bytes(result)
        told = _with(called, "", "", loop.time() - began, output=sha256(data))
        size = len(result) if isinstance(result, bytes) else len(data)
        if size > tool.output_limit and not cut:
            message = (
                f"tool {tool.name} gave {size} bytes, over its limit of {tool.output_limit}: it should store them "
            )
            message += "with context.blob() and give the blob, or be listed as tool(..., output_limit=)"
            await self._tell(replace(told, code="INVALID_OUTPUT", message=message))
            raise Stop("INVALID_OUTPUT", message)
        await self._tell(told)
        return result, data

    async def _perform(self, tool: Tool, arguments: dict[str, Any]) -> Any:
        """Call the function, at last: all that stands between a decision to call and its result stands here."""
        if tool.timeout_s is None:
            return await self._run(tool.function, arguments)
        work = asyncio.ensure_future(self._run(tool.function, arguments))
        try:
            await asyncio.wait({work}, timeout=tool.timeout_s)
        except asyncio.CancelledError:
            work.cancel()
            await asyncio.wait({work})
            raise
        if work.done():
            return work.result()
        work.cancel()
        await asyncio.wait({work}, timeout=GRACE_S)
        if not work.done():  # it does not let itself be cancelled: like a thread it goes on, and keeps its place
            self._desk.threads.add(work)
            work.add_done_callback(self._desk.threads.discard)
        work.add_done_callback(lambda done: done.cancelled() or done.exception())  # nobody awaits it any more
        raise Stop("TIMEOUT", f"tool {tool.name} did not answer within {tool.timeout_s:g} s")

    async def _run(self, function: Function, arguments: dict[str, Any]) -> Any:
        if inspect.iscoroutinefunction(function):
            return await function(**arguments)
        result = await self._desk.in_thread(function, **arguments)
        if inspect.isawaitable(result):  # a wrapper around a coroutine function
            return await result
        return result

    # --- the record ---------------------------------------------------------------------------------------------------

    async def _tell(self, called: ToolCalled) -> None:
        await self._desk.record(self._numbered(called))

    def _numbered(self, called: ToolCalled) -> ToolCalled:
        """With its number among the calls that this execution tells of: told twice, it is still one."""
        self._told += 1
        return replace(called, call=self._told)

    def _called(
        self, name: str, arguments: dict[str, Any], code: StopCode | None = None, message: str = ""
    ) -> ToolCalled:
        return ToolCalled(
            task=self._desk.task.task,
            attempt=self._desk.task.attempt,
            execution=self._desk.execution,
            tool=bounded(name[:64]),
            input=sha256(_bytes(arguments)),
            code=code or "",
            message=bounded(message),
        )


def _name(tool: str | Function) -> str:
    return tool if isinstance(tool, str) else getattr(tool, "__name__", "?")


def _object(arguments: Mapping[str, Any] | str) -> dict[str, Any] | str:
    """What a model gave as arguments, or what is wrong with it."""
    try:
        found = json.loads(arguments) if isinstance(arguments, str) else arguments
    except (ValueError, RecursionError):
        return "its arguments are not JSON"
    if not isinstance(found, Mapping):
        return f"its arguments are an object, not {type(found).__name__}"
    return {str(name): value for name, value in found.items()}


def _with(
    called: ToolCalled, code: StopCode | Literal[""], message: str, duration_s: float, output: str = ""
) -> ToolCalled:
    return replace(called, output=output, code=code, message=message, duration_ms=round(duration_s * 1000))


def _bytes(value: Any) -> bytes:
    """The canonical bytes of what a tool takes or gives; its text where it cannot be JSON."""
    try:
        return canonical(to_jsonable_python(value, bytes_mode="base64", fallback=repr))
    except Exception:  # circular, not UTF-8, or past 64 bits
        return repr(value).encode("utf-8", "backslashreplace")
