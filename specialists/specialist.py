"""The protocol of specialists: a function or class with annotations becomes somebody with a contract.

Pure. What a specialist may do while it works is promised by `Context`; `context` keeps these promises, `execution`
runs one task, `worker` takes tasks from a board.
"""

import inspect
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar

import msgspec
from pydantic import ValidationError

from schemas.blobs import Blob
from schemas.codec import VALUE_LIMIT, encode, unstorable
from schemas.contracts import STOP_CODES, Contract, ToolGrant
from schemas.events import StopCode
from schemas.goals import explain
from schemas.playbooks import Playbook
from schemas.subjects import BadName, token
from schemas.tasks import ReadFact, Task
from schemas.validation import violation
from specialists.signature import BadSpecialist, Signature, read_signature

if TYPE_CHECKING:
    import logging

MESSAGE_CHARACTERS = 1_000
"""Of a message that goes onto the log; longer ones are cut."""

Authority = Literal["observe", "propose", "effect"]
Tool = Callable[..., Any]
T = TypeVar("T")


def bounded(text: str) -> str:
    """`text` as it may stand on the log: cut, and without characters that UTF-8 cannot hold."""
    return text[:MESSAGE_CHARACTERS].encode("utf-8", "backslashreplace").decode()[:MESSAGE_CHARACTERS]


def describe(error: BaseException) -> str:
    """`ExceptionType: text`, bounded."""
    try:
        text = str(error)
    except Exception:  # a broken __str__ must not hide which error it was
        text = "(its text cannot be made)"
    return bounded(f"{type(error).__name__}: {text}" if text else type(error).__name__)


class Stop(Exception):
    """Ends the work on one item without a value. `code` says why (schemas.events.StopCode), `message` says it to
    people; it is cut after MESSAGE_CHARACTERS. Raises ValueError when there is no such code."""

    def __init__(self, code: StopCode, message: str = "") -> None:
        if code not in STOP_CODES:
            raise ValueError(f"{code!r} is no stop code; choose one of {', '.join(sorted(STOP_CODES))}")
        super().__init__(code, message)
        self.code, self.message = code, bounded(message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


class Facts(Mapping[str, Any]):
    """The facts that a task may read: their values by key, and in `versions` the version of the run at which each was
    committed."""

    def __init__(self, facts: Mapping[str, ReadFact]) -> None:
        self._values = {key: fact.value for key, fact in facts.items()}
        self.versions: Mapping[str, int] = {key: fact.version for key, fact in facts.items()}

    def __getitem__(self, key: str) -> Any:
        return self._values[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._values)

    def __len__(self) -> int:
        return len(self._values)


class Context(Protocol):
    """What a specialist has at hand while it works on a task.

    A plain function runs in a thread of its own: of these it may use `task`, `facts`, `cancelled`, `use` and `log`.
    """

    log: "logging.LoggerAdapter[logging.Logger]"
    """The log of this process, not of the board."""

    @property
    def task(self) -> Task: ...

    @property
    def facts(self) -> Facts: ...

    @property
    def cancelled(self) -> bool:
        """Whether the work has no purpose any more. A coroutine is cancelled too; a thread cannot be, so a plain
        function that takes long asks here from time to time."""
        ...

    async def progress(self, message: str, fraction: float | None = None) -> None:
        """Tell those who watch; `fraction` is 0 to 1. Best effort: it may be dropped and raises nothing."""
        ...

    async def tool(self, tool: str | Tool, /, **arguments: Any) -> Any:
        """Call one of the tools that the specialist was given, by name or as the function itself. The call is recorded
        on the board. Raises Stop: POLICY_BLOCKED for any other tool, TOOL_DOWN for what the tool raises, or the Stop
        that the tool raises itself; TypeError for arguments that the tool does not take."""
        ...

    async def blob(self, data: bytes, media_type: str = "application/octet-stream") -> Blob:
        """Store bytes that are too large for a value. Raises Stop TOOL_DOWN."""
        ...

    async def read_blob(self, blob: Blob | str, /) -> bytes:
        """The bytes of a blob, or of the one with that SHA-256. Raises Stop: INVALID_INPUT when there is none or it is
        damaged, TOOL_DOWN when the store does not answer."""
        ...

    def use(self, *, input_tokens: int = 0, output_tokens: int = 0) -> None:
        """Add to what this execution has used. Raises ValueError for less than nothing."""
        ...

    async def in_thread(self, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T:
        """Run a function that blocks. It goes on after a cancel until it returns."""
        ...


@dataclass(frozen=True)
class Result:
    """What became of one item: a JSON-like value, or with `code` none."""

    value: Any = None
    confidence: float | None = None
    code: StopCode | Literal[""] = ""
    message: str = ""


@dataclass(frozen=True, eq=False)
class Specialist:
    """Somebody with a contract. Call it like the function that it was made of, or `invoke` it with JSON."""

    name: str
    offers: tuple[str, ...]
    signature: Signature
    make: Callable[[], Callable[..., Any]]
    """Gives the function to call: always the same one, or the instance of a class."""
    description: str = ""
    deadline_s: float = 30
    attempts: int = 3
    version: int = 1
    authority: Authority = "observe"
    tools: Mapping[str, Tool] = field(default_factory=dict)
    concurrency: int = 8
    function: Callable[..., Any] | None = None

    def fresh(self) -> "Specialist":
        """The same specialist with an instance of its own, where it is a class: one a worker. Raises BadSpecialist."""
        try:
            return replace(self, function=self.make())
        except Exception as error:
            raise BadSpecialist(f"specialist {self.name!r} cannot be made: {describe(error)}") from error

    def contract(self) -> Contract:
        """What it promises."""
        return Contract(
            specialist=self.name,
            version=self.version,
            description=self.description,
            offers=list(self.offers),
            input=self.signature.input_schema,
            output=self.signature.output_schema,
            authority=self.authority,
            tools=[ToolGrant(tool=name) for name in self.tools],
            deadline_s=self.deadline_s,
            attempts=self.attempts,
        )

    def __call__(self, item: Any, context: Context | None = None) -> Any:
        """Call it directly, with nothing checked or converted: for tests. Await what a coroutine function returns."""
        return self._bound()(item, *([context] if self.signature.with_context else []))

    async def invoke(self, input: dict[str, Any], context: Context) -> Result:
        """Work on one item: check the input, call, check the output. What goes wrong is a code in the result; only
        cancellation is raised."""
        try:
            item = self.signature.input.validate_json(encode(input))
        except ValidationError as error:
            return Result(code="INVALID_INPUT", message=bounded(explain(error)))
        except Exception as error:  # a validator of the author's raised something else than ValueError
            return _internal(error, context)
        try:
            output = await self._call(item, context)
        except Stop as stop:
            return Result(code=stop.code, message=stop.message)
        except (Exception, SystemExit) as error:  # one item must not end the worker
            return _internal(error, context)
        return self._result(output)

    async def _call(self, item: Any, context: Context) -> Any:
        arguments = [item, context] if self.signature.with_context else [item]
        if self.signature.plain:
            return await context.in_thread(self._bound(), *arguments)
        return await self._bound()(*arguments)

    def _bound(self) -> Callable[..., Any]:
        if self.function is None:
            object.__setattr__(self, "function", self.make())
        assert self.function is not None
        return self.function

    def _result(self, output: Any) -> Result:
        """The output as JSON, checked as the supervisor will check it."""
        try:
            adapter = self.signature.output
            raw = adapter.dump_python(adapter.validate_python(output), mode="json", by_alias=True, warnings="error")
            problem = unstorable(raw)
            data = encode(raw)
        except ValidationError as error:
            return Result(code="INVALID_OUTPUT", message=bounded(f"the value: {explain(error)}"))
        except Exception as error:  # what is raised while a foreign object is turned into JSON can be anything
            return Result(code="INVALID_OUTPUT", message=bounded(f"the value cannot be JSON: {describe(error)}"))
        if len(data) > VALUE_LIMIT:
            advice = f"the value has {len(data)} bytes, over {VALUE_LIMIT}; store it with context.blob()"
            return Result(code="INVALID_OUTPUT", message=advice)
        value = msgspec.json.decode(data)
        if problem := problem or violation(self.signature.output_schema, value) or "":
            return Result(code="INVALID_OUTPUT", message=bounded(f"the value: {problem}"))
        return Result(value, _confidence(value, output))


def _internal(error: BaseException, context: Context) -> Result:
    context.log.error("the specialist raised %s", type(error).__name__, exc_info=error)
    return Result(code="INTERNAL", message=describe(error))


def _confidence(value: Any, output: Any) -> float | None:
    found = value.get("confidence") if isinstance(value, dict) else getattr(output, "confidence", None)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found)


@dataclass(frozen=True)
class Team:
    """A playbook and the specialists that it needs."""

    playbook: Playbook
    specialists: Sequence[Specialist]

    @property
    def name(self) -> str:
        return self.playbook.team


def specialist(  # noqa: PLR0913 - a contract, field by field
    name: str,
    *,
    offers: str | Sequence[str],
    deadline_s: float = 30,
    attempts: int = 3,
    version: int = 1,
    authority: Authority = "observe",
    tools: Sequence[Tool] = (),
    description: str = "",
    concurrency: int = 8,
) -> Callable[[Callable[..., Any]], Specialist]:
    """Make a specialist of `async def f(item: In, context: Context) -> Out`, of a plain function, which then runs in a
    thread, or of a class with such a `__call__`, of which each worker makes one instance.

    offers: capabilities. deadline_s: time for one item. attempts: how often a task is tried. tools: the functions that
    it may call through `context.tool`. concurrency: tasks at the same time in one worker. description: default the
    first line of the docstring. Raises BadSpecialist.
    """

    def decorate(target: Callable[..., Any]) -> Specialist:
        try:
            made = Specialist(
                name=name,
                offers=(offers,) if isinstance(offers, str) else tuple(offers),
                signature=read_signature(target),
                make=_maker(target),
                description=description or (inspect.getdoc(target) or "").partition("\n")[0],
                deadline_s=deadline_s,
                attempts=attempts,
                version=version,
                authority=authority,
                tools=_by_name(tools),
                concurrency=concurrency,
            )
            _check(made)
        except (BadSpecialist, ValidationError) as error:
            reason = explain(error) if isinstance(error, ValidationError) else str(error)
            raise BadSpecialist(f"specialist {name!r}: {reason}") from None
        return made

    return decorate


def _maker(target: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    if inspect.isclass(target):
        make: Callable[[], Any] = target
        return make
    return lambda: target


def _check(made: Specialist) -> None:
    if not made.offers:
        raise BadSpecialist("it offers nothing: name a capability in offers=")
    if made.concurrency < 1:
        raise BadSpecialist("concurrency= is the number of tasks at the same time, at least 1")
    made.contract()


def _by_name(tools: Sequence[Tool]) -> dict[str, Tool]:
    found: dict[str, Tool] = {}
    for tool in tools:
        try:
            found[token(getattr(tool, "__name__", ""), "tool")] = tool
        except BadName:
            raise BadSpecialist(f"tools= takes functions that have a name, not {tool!r}") from None
    if len(found) < len(tools):
        raise BadSpecialist("two of its tools have the same name")
    return found
