"""The protocol of specialists: a function or class with annotations becomes somebody with a contract.

Pure. What a specialist may do while it works is promised by `Context`; `context` keeps these promises, `execution`
runs one task, `worker` takes tasks from a board.
"""

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from typing import TYPE_CHECKING, Any, Literal, Protocol, TypeVar, get_args

from pydantic import ValidationError

from schemas import goals
from schemas.bids import Bid
from schemas.blobs import Blob
from schemas.codec import encode
from schemas.contracts import ALWAYS, STOP_CODES, Contract
from schemas.events import StopCode
from schemas.goals import explain
from schemas.playbooks import Playbook
from schemas.taint import Labels
from schemas.tasks import ReadFact, Task
from specialists.budget import Budget, Usd, in_micro_usd
from specialists.outcome import Result, bid_of, value_of
from specialists.scenarios import Scenario
from specialists.signature import BadSpecialist, Shape, Signature, read_shape, read_signature
from specialists.stop import ENDS, WEEK_S, HandOff, NeedsInput, NotDone, Stop, bounded, describe
from specialists.tools import Described, Done, Function, Reply, Tool, ToolSource, tool, tools_by_name

if TYPE_CHECKING:
    import logging

__all__ = [
    "Bid",
    "Budget",
    "Context",
    "Done",
    "Facts",
    "HandOff",
    "NeedsInput",
    "NotDone",
    "Reply",
    "Result",
    "Specialist",
    "Stop",
    "Team",
    "specialist",
    "tool",
]

Authority = Literal["observe", "propose", "effect"]
T = TypeVar("T")


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

    A plain function runs in a thread of its own: of these it may use `task`, `facts`, `cancelled`, `budget`, `use` and
    `log`.
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

    @property
    def budget(self) -> Budget:
        """What is left of what the task may use; None where there is no limit."""
        ...

    async def ask(
        self, question: str, schema: dict[str, Any] | None = None, *, action: Any = None, expires_s: float = WEEK_S
    ) -> Any:
        """The answer of people to this question, which satisfies the JSON Schema `schema`. Without a schema they
        approve `action`, and this gives True; a denial ends the run.

        Raises NeedsInput until they have answered exactly this (question, schema and action): the task ends, and is
        done again with the answer. So what comes before this is done again too. Raises ValueError for what cannot be
        asked.
        """
        ...

    async def progress(self, message: str, fraction: float | None = None) -> None:
        """Tell those who watch; `fraction` is 0 to 1. Best effort: it may be dropped and raises nothing."""
        ...

    @property
    def tools(self) -> list[Described]:
        """The tools that may be called for this task, as a model sees them."""
        ...

    @property
    def taint(self) -> Labels:
        """Labels of the content from outside that this execution has read, or was given; its claims carry them."""
        ...

    def outside(self, *labels: str) -> None:
        """Say that content from outside was read, such as `documents`, otherwise than with a tool that is marked so:
        from now on no tool that writes is called without a person's approval."""
        ...

    async def tool(self, tool: str | Function, /, **arguments: Any) -> Any:
        """Call one of the tools that the specialist was given, by name or as the function itself. The call is recorded
        on the board. Raises Stop: POLICY_BLOCKED for any other tool, BUDGET_EXCEEDED for a call too many, TOOL_DOWN for
        what the tool raises, or the Stop that the tool raises itself, TIMEOUT and INVALID_OUTPUT where it takes or
        gives more than its limits; TypeError for arguments that the tool does not take; NeedsInput where a person has
        to approve the call first."""
        ...

    async def requested(self, name: str, arguments: Mapping[str, Any] | str) -> Reply:
        """Call the tool that a model asked for by name, with the arguments that it gave: an object, or its JSON. What
        it may not do, did wrong, or what failed (a Stop of `tool`, and INVALID_INPUT for its arguments) is a reply that
        the model can read; of more than the tool's limit it reads the beginning, all of it is a blob. Raises NeedsInput
        where a person has to approve the call first."""
        ...

    async def blob(self, data: bytes, media_type: str = "application/octet-stream") -> Blob:
        """Store bytes that are too large for a value. Raises Stop TOOL_DOWN."""
        ...

    async def read_blob(self, blob: Blob | str, /) -> bytes:
        """The bytes of a blob, or of the one with that SHA-256. Raises Stop: INVALID_INPUT when there is none or it is
        damaged, TOOL_DOWN when the store does not answer."""
        ...

    def use(
        self, *, input_tokens: int = 0, output_tokens: int = 0, micro_usd: int = 0, usd: float | Decimal = 0
    ) -> None:
        """Add to what this execution has used; money in dollars, or in millionths of one. Raises ValueError for less
        than nothing, and Stop BUDGET_EXCEEDED when the task has now used more than it may: it is booked all the same,
        and the item has no value."""
        ...

    async def undo(self, asked: dict[str, Any]) -> Any:
        """Undo an effect of an earlier execution: for tasks of the kind `undo`, not for specialists."""
        ...

    async def in_thread(self, function: Callable[..., T], /, *arguments: Any, **keywords: Any) -> T:
        """Run a function that blocks. It goes on after a cancel until it returns."""
        ...


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
    budget: goals.Budget = field(default_factory=goals.Budget)
    backoff_s: float = 0.5
    backoff_max_s: float = 60
    stops: tuple[StopCode, ...] = get_args(StopCode)
    typical_micro_usd: int | None = None
    typical_s: float | None = None
    wakes_on: tuple[str, ...] = ()
    bid: Callable[..., Any] | None = None

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
            tools=[one.grant() for one in self.tools.values()],
            stops=list(self.stops),
            deadline_s=self.deadline_s,
            attempts=self.attempts,
            budget=goals.Budget(**dict(self.budget)),
            backoff_s=self.backoff_s,
            backoff_max_s=self.backoff_max_s,
            typical_micro_usd=self.typical_micro_usd,
            typical_s=self.typical_s,
            wakes_on=list(self.wakes_on),
        )

    def __call__(self, item: Any, context: Context | None = None) -> Any:
        """Call it directly, with nothing checked or converted: for tests. Await what a coroutine function returns."""
        return self._bound()(item, *([context] if self.signature.with_context else []))

    async def invoke(self, input: dict[str, Any], context: Context) -> Result:
        """Work on one item: check the input, call, check the output. What goes wrong is a code in the result; only
        cancellation is raised."""
        return await self._outcome(self._bound, self.signature, input, context, self._value_of)

    async def bid_for(self, input: dict[str, Any], context: Context) -> Result:
        """What it would bid for one item, a schemas.bids.Bid as JSON. As `invoke` otherwise."""
        if self.bid is None:
            shape, bid = Shape(with_context=False, plain=False), self._typical
        else:
            shape, bid = read_shape(self.bid), self.bid
        return await self._outcome(lambda: bid, shape, input, context, bid_of)

    async def undo(self, input: dict[str, Any], context: Context) -> Result:
        """Undo an effect of an earlier execution, a schemas.tasks.Undo as JSON. As `invoke` otherwise."""
        try:
            return Result(await context.undo(input))
        except ENDS as end:
            return self._ended(end)
        except (Exception, SystemExit) as error:
            return _internal(error, context)

    def permitted(self, result: Result) -> Result:
        """`result` itself when its code is one of those with which the contract lets it end."""
        if not result.code or result.code in self.stops or result.code in ALWAYS:
            return result
        said = f": {result.message}" if result.message else ""
        return Result(code="INTERNAL", message=bounded(f"ended with {result.code}, which is not in its stops={said}"))

    async def _outcome(
        self,
        bound: Callable[[], Callable[..., Any]],
        shape: Shape,
        input: dict[str, Any],
        context: Context,
        value_of: Callable[[Any], Result],
    ) -> Result:
        try:
            item = self.signature.input.validate_json(encode(input))
        except ValidationError as error:
            return Result(code="INVALID_INPUT", message=bounded(explain(error)))
        except Exception as error:  # a validator of the author's raised something else than ValueError
            return _internal(error, context)
        try:
            output = await _called(bound(), shape, item, context)
        except ENDS as end:
            return self._ended(end)
        except ExceptionGroup as group:  # of a TaskGroup
            ends, others = group.split(ENDS)
            return self._ended(_first(ends)) if ends and others is None else _internal(group, context)
        except (Exception, SystemExit) as error:  # one item must not end the worker
            return _internal(error, context)
        return value_of(output)

    def _ended(self, end: BaseException) -> Result:
        if isinstance(end, Stop):
            return Result(code=end.code, message=end.message)
        if isinstance(end, NeedsInput):
            return Result(code=end.code, message=bounded(end.question.ask), question=end.question)
        assert isinstance(end, HandOff)
        if self.authority == "observe":
            message = f'it may not hand its task on ({end}): that takes authority="propose"'
            return Result(code="POLICY_BLOCKED", message=bounded(message))
        return Result(code=end.code, message=end.message, to=end.to)

    def _bound(self) -> Callable[..., Any]:
        if self.function is None:
            object.__setattr__(self, "function", self.make())
        assert self.function is not None
        return self.function

    def _value_of(self, output: Any) -> Result:
        return value_of(self.signature, output)

    async def _typical(self, item: Any) -> Bid:
        return Bid(micro_usd=self.typical_micro_usd or 0, seconds=self.typical_s or 0.0)


async def _called(function: Callable[..., Any], shape: Shape, item: Any, context: Context) -> Any:
    arguments = [item, context] if shape.with_context else [item]
    if shape.plain:
        return await context.in_thread(function, *arguments)
    return await function(*arguments)


def _first(group: BaseException) -> BaseException:
    while isinstance(group, BaseExceptionGroup):
        group = group.exceptions[0]
    return group


def _internal(error: BaseException, context: Context) -> Result:
    context.log.error("the specialist raised %s", type(error).__name__, exc_info=error)
    return Result(code="INTERNAL", message=describe(error))


@dataclass(frozen=True)
class Team:
    """A playbook and the specialists that it needs; `scenarios` say what it has to do with some goals."""

    playbook: Playbook
    specialists: Sequence[Specialist]
    scenarios: Sequence[Scenario] = ()

    @property
    def name(self) -> str:
        return self.playbook.team


def specialist(  # noqa: PLR0913 - a contract, field by field
    name: str,
    *,
    offers: str | Sequence[str],
    deadline_s: float = 30,
    attempts: int = 3,
    backoff_s: float = 0.5,
    backoff_max_s: float | None = None,
    version: int = 1,
    authority: Authority = "observe",
    tools: Sequence[Function | Tool | ToolSource] = (),
    budget: goals.Budget | None = None,
    stops: Sequence[StopCode] | None = None,
    typical_usd: Usd | None = None,
    typical_s: float | None = None,
    wakes_on: str | Sequence[str] = (),
    bid: Callable[..., Any] | None = None,
    description: str = "",
    concurrency: int = 8,
) -> Callable[[Callable[..., Any]], Specialist]:
    """Make a specialist of `async def f(item: In, context: Context) -> Out`, of a plain function, which then runs in a
    thread, or of a class with such a `__call__`, of which each worker makes one instance.

    offers: capabilities. deadline_s: time for one item. attempts: how often a task is tried, the next time after
    backoff_s, doubled each time, backoff_max_s at most (default 60, or backoff_s where that is more). authority:
    `propose` may hand its tasks on, `effect` may change the world. tools: functions that it may call through
    `context.tool`, what `tool` makes of them, or an `mcp_server`. budget: what one attempt may use. stops: codes with
    which it may end beside schemas.contracts.ALWAYS (default: all). typical_usd, typical_s: what a task usually costs
    and takes. wakes_on: keys (or `prefix.*`) of facts that wake it. bid: a function of the item, and if it wants the
    context, that gives a Bid; by default that it can, at the typical cost and time. concurrency: tasks at the same time
    in one worker. description: default the first line of the docstring. Raises BadSpecialist.
    """

    def decorate(target: Callable[..., Any]) -> Specialist:
        with _naming(name):
            return _checked(
                Specialist(
                    name=name,
                    offers=_several(offers),
                    signature=read_signature(target),
                    make=_maker(target),
                    description=description or (inspect.getdoc(target) or "").partition("\n")[0],
                    deadline_s=deadline_s,
                    attempts=attempts,
                    version=version,
                    authority=authority,
                    tools=tools_by_name(tools),
                    concurrency=concurrency,
                    budget=budget or goals.Budget(),
                    backoff_s=backoff_s,
                    backoff_max_s=max(60, backoff_s) if backoff_max_s is None else backoff_max_s,
                    stops=get_args(StopCode) if stops is None else tuple(stops),
                    typical_micro_usd=None if typical_usd is None else in_micro_usd(typical_usd),
                    typical_s=typical_s,
                    wakes_on=_several(wakes_on),
                    bid=bid,
                )
            )

    return decorate


@contextmanager
def _naming(name: str) -> Iterator[None]:
    """What is wrong inside becomes a BadSpecialist that says whose fault it is."""
    try:
        yield
    except (BadSpecialist, ValueError) as error:
        reason = explain(error) if isinstance(error, ValidationError) else str(error)
        raise BadSpecialist(f"specialist {name!r}: {reason}") from None


def _several(words: str | Sequence[str]) -> tuple[str, ...]:
    return (words,) if isinstance(words, str) else tuple(words)


def _maker(target: Callable[..., Any]) -> Callable[[], Callable[..., Any]]:
    if inspect.isclass(target):
        make: Callable[[], Any] = target
        return make
    return lambda: target


def _checked(made: Specialist) -> Specialist:
    if not made.offers:
        raise BadSpecialist("it offers nothing: name a capability in offers=")
    if made.concurrency < 1:
        raise BadSpecialist("concurrency= is the number of tasks at the same time, at least 1")
    if unknown := [code for code in made.stops if code not in STOP_CODES]:
        raise BadSpecialist(f"stops= has {unknown[0]!r}; the codes are {', '.join(sorted(STOP_CODES))}")
    if made.backoff_max_s < made.backoff_s:
        raise BadSpecialist("backoff_max_s= is less than backoff_s=")
    asking = [one.name for one in made.tools.values() if one.may_ask]
    changing = [one.name for one in made.tools.values() if one.effect]
    if changing and made.authority != "effect":
        raise BadSpecialist(f'tool {changing[0]!r} is an effect: that takes authority="effect"')
    if changing and "EFFECT_UNKNOWN" not in made.stops:
        raise BadSpecialist(f"nobody may know whether tool {changing[0]!r} was done: list EFFECT_UNKNOWN in stops=")
    if asking and "NEEDS_INPUT" not in made.stops:
        raise BadSpecialist(f"tool {asking[0]!r} asks for an approval: list NEEDS_INPUT in stops=")
    if made.bid is not None:
        read_shape(made.bid)
    made.contract()
    return made
