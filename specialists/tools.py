"""Tools: functions that a specialist may call through its context, with what its contract says of each.

Pure. What a tool takes is checked by its annotations before it is called, and converted as pydantic converts. Where an
annotation cannot be read, names and number of the arguments are checked alone.
"""

import functools
import inspect
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import Any, Literal, cast, get_args

from pydantic import ConfigDict, TypeAdapter, ValidationError, validate_call

from schemas.blobs import Blob
from schemas.contracts import EffectGrant, ToolGrant
from schemas.events import StopCode
from schemas.subjects import BadName, token
from schemas.taint import Labels
from specialists.budget import Usd, exact_micro_usd
from specialists.signature import BadSpecialist
from specialists.stop import NeedsInput

Function = Callable[..., Any]
OUTPUT_LIMIT = 64 * 1024
"""Bytes of what a call gives, unless its tool says otherwise."""
WRITING = frozenset({"write", "effect"})
"""Scopes that say that a tool changes something; `<something>:write` does too."""


WhenTainted = Literal["refuse", "confirm", "allow"]


@dataclass(frozen=True)
class Described:
    """A tool as a model sees it; `schema` is the JSON Schema of its arguments, an object."""

    name: str
    description: str
    schema: dict[str, Any]


KEY = "idempotency_key"
"""The parameter by which the function of an effect gets its key, to hand it to the service."""
OF_UNDO = ("result", "undoes")
"""What a tool that undoes an effect may take beside the arguments of the effect: its result, and its key."""
SETTLE_S = 5.0


@dataclass(frozen=True)
class Done:
    """What a probe gives when the effect was done: with this result."""

    result: Any = None


@dataclass(frozen=True, eq=False)
class Tool:
    """See `tool`. Called like the function itself, it checks and records nothing."""

    name: str
    function: Function
    scopes: tuple[str, ...] = ()
    confirm: bool = False
    price_micro_usd: Fraction = Fraction(0)
    timeout_s: float | None = None
    output_limit: int = OUTPUT_LIMIT
    outside: bool = False
    taint: WhenTainted = "refuse"
    effect: bool = False
    probe: Function | None = None
    undo: "Tool | None" = None
    settle_s: float = 0.0
    _convert: Callable[..., dict[str, Any]] | None = field(default=None, repr=False)

    @property
    def __name__(self) -> str:
        return self.name

    def __call__(self, *arguments: Any, **keywords: Any) -> Any:
        return self.function(*arguments, **keywords)

    @property
    def label(self) -> str:
        """The label of what it gives, where that comes from outside."""
        return f"tool:{self.name}"

    @property
    def foreign(self) -> bool:
        """Whether its description comes from a server, and not from its author."""
        return False

    @property
    def writes(self) -> bool:
        """Whether it is an effect, or one of its scopes says that it changes something."""
        return self.effect or any(scope in WRITING or scope.endswith(":write") for scope in self.scopes)

    @property
    def may_ask(self) -> bool:
        """Whether a person may be asked to approve a call."""
        return self.confirm or (self.writes and self.taint == "confirm")

    def described(self) -> Described:
        return Described(self.name, (inspect.getdoc(self.function) or "").strip(), _schema(self.function))

    def grant(self) -> ToolGrant:
        """What the contract says of it."""
        promised = EffectGrant(probe=self.probe is not None, undo=self.undo.name if self.undo else None)
        return ToolGrant(
            tool=self.name,
            scopes=list(self.scopes),
            confirm=self.confirm,
            effect=promised if self.effect else None,
        )

    @property
    def takes(self) -> tuple[str, ...]:
        """The names of what it is called with, without the key of an effect."""
        return tuple(name for name in _names(self.function) if not (self.effect and name == KEY))

    @property
    def keyed(self) -> bool:
        """Whether it wants the key of the effect."""
        return self.effect and KEY in _names(self.function)

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        """What it is called with: `given`, converted, and its defaults; without the key of an effect, which is not the
        caller's to choose. Raises TypeError."""
        if not self.keyed:
            return self._arguments(given)
        if KEY in given:
            raise TypeError(f"tool {self.name}: {KEY} is given by the board")
        found = self._arguments({**given, KEY: ""})
        return {name: value for name, value in found.items() if name != KEY}

    def _arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        if (signature := _signature(self.function)) is None:
            return given
        bound = signature.bind(**given)
        if self._convert is None:
            bound.apply_defaults()
            return _by_keyword(signature, bound.arguments)
        try:
            return self._convert(**given)
        except ValidationError as error:
            first = error.errors(include_url=False, include_context=False, include_input=False)[0]
            path = ".".join(str(part) for part in first["loc"])
            raise TypeError(f"tool {self.name}: {path}: {first['msg']}") from None

    def request(self, specialist: str, arguments: dict[str, Any], number: int, outside: Labels = ()) -> NeedsInput:
        """The question whether `specialist` may call it with just these arguments, for the `number`th time in one
        execution: an approval is for one call. `outside`: where content came from that may have led to it. Raises
        ValueError where they cannot be shown."""
        action = {"tool": self.name, "arguments": arguments} | ({"call": number} if number > 1 else {})
        action |= {"outside": list(outside)} if outside else {}
        try:
            return NeedsInput(f"may {specialist} call {self.name}?", action=action)
        except ValueError as error:
            raise ValueError(
                f"tool {self.name} is called with the approval of a person only; the call {error}"
            ) from None


@dataclass(frozen=True)
class Reply:
    """What a model may read of a call that it asked for: what the tool gave, or why there is nothing.

    `code` is empty where it went well. `value` is what the tool gave; `blob` holds all of it where `text` is cut.
    """

    text: str
    code: StopCode | Literal[""] = ""
    value: Any = None
    blob: Blob | None = None


def tool(  # noqa: PLR0913 - a grant, field by field
    function: Function,
    *,
    scopes: str | Sequence[str] = (),
    confirm: bool = False,
    usd: Usd = 0,
    timeout_s: float | None = None,
    output_limit: int = OUTPUT_LIMIT,
    outside: bool = False,
    taint: WhenTainted = "refuse",
    effect: bool = False,
    probe: Function | None = None,
    undo: Function | Tool | None = None,
    settle_s: float = SETTLE_S,
) -> Tool:
    """A function for `tools=` of a specialist.

    scopes: what it reaches, such as `net:read`; steps may ask for them. confirm: a person approves each call, with
    exactly its arguments. usd: what a call costs; it is booked with each. timeout_s: how long a call may take (default:
    as long as its task). output_limit: bytes that it may give, as JSON; of more a model sees the beginning, and code
    gets INVALID_OUTPUT. outside: what it gives comes from where anybody may write. taint: what becomes of a call of a
    tool that writes (an effect, or a scope `write`, `effect` or `<something>:write`) once the execution has read such
    content: it is refused unless `confirm` has a person approve it; or a person is asked then; or it is made. effect: a
    call changes the world, and is done once, whatever happens to the worker; a function that has a parameter
    `idempotency_key` gets the key of the effect. probe: a function of the key and the arguments that reads back whether
    it was done: Done(result), False, or None where it cannot say; asked once more after `settle_s` seconds before False
    is believed. undo: a function, or an effect, that undoes it when the run ends in vain; it takes by name what the
    effect was called with, its `result`, and its key (`undoes`). Raises BadSpecialist.
    """
    if isinstance(function, Tool):
        raise BadSpecialist(f"{function.name!r} is a tool already")
    try:
        name = token(getattr(function, "__name__", ""), "tool")
    except BadName:
        raise BadSpecialist(f"tools= takes functions that have a name, not {function!r}") from None
    granted = (scopes,) if isinstance(scopes, str) else tuple(scopes)
    if odd := [scope for scope in granted if not isinstance(scope, str) or not scope.strip()]:
        raise BadSpecialist(f"scopes= of tool {name!r} takes words, not {odd[0]!r}")
    _check_limits(name, timeout_s, output_limit, taint)
    if not effect and (probe or undo):
        raise BadSpecialist(f"probe= and undo= of tool {name!r} are for effects: say effect=True")
    price = _price(name, usd)
    return Tool(
        name,
        function,
        granted,
        confirm,
        price,
        timeout_s,
        output_limit,
        outside,
        taint,
        effect,
        probe,
        undo=_undoing(name, function, undo),
        settle_s=settle_s,
        _convert=_converter(function),
    )


def _price(name: str, usd: Usd) -> Fraction:
    try:
        return exact_micro_usd(usd)
    except ValueError as error:
        raise BadSpecialist(f"usd= of tool {name!r}: {error}") from None


def _check_limits(name: str, timeout_s: float | None, output_limit: int, taint: str) -> None:
    if timeout_s is not None and not 0 < timeout_s <= 86_400:
        raise BadSpecialist(f"timeout_s= of tool {name!r} is more than 0 and at most 86400 seconds, not {timeout_s!r}")
    if output_limit < 1:
        raise BadSpecialist(f"output_limit= of tool {name!r} is a number of bytes, at least 1, not {output_limit!r}")
    if taint not in get_args(WhenTainted):
        raise BadSpecialist(f"taint= of tool {name!r} is one of {', '.join(get_args(WhenTainted))}, not {taint!r}")


def _undoing(name: str, function: Function, undo: Function | Tool | None) -> Tool | None:
    """What undoes an effect, itself an effect."""
    if undo is None:
        return None
    made = undo if isinstance(undo, Tool) else tool(undo, effect=True)
    if not made.effect or made.undo:
        raise BadSpecialist(f"undo= of tool {name!r} takes a function, or an effect that has no undo= itself")
    known = {*_names(function), *OF_UNDO} - {KEY}
    if odd := [one for one in made.takes if one not in known]:
        raise BadSpecialist(f"undo= of tool {name!r}: {made.name} takes {odd[0]!r}, which is none of {sorted(known)}")
    return made


class ToolSource(ABC):
    """Several tools that come from one place, such as a server."""

    @abstractmethod
    def tools(self) -> list[Tool]: ...


def tools_by_name(tools: Sequence[Function | Tool | ToolSource]) -> dict[str, Tool]:
    """Raises BadSpecialist."""
    made: list[Tool] = []
    for one in tools:
        made += one.tools() if isinstance(one, ToolSource) else [one if isinstance(one, Tool) else tool(one)]
    found = {one.name: one for one in made}
    if len(found) < len(made):
        raise BadSpecialist("two of its tools have the same name")
    return found


def _converter(function: Function) -> Callable[..., dict[str, Any]] | None:
    """Gives the arguments as the function would receive them; None where its annotations cannot be read."""

    @functools.wraps(function)
    def received(**arguments: Any) -> dict[str, Any]:
        return arguments

    try:
        return validate_call(config=ConfigDict(arbitrary_types_allowed=True))(received)
    except Exception:  # evaluating an annotation runs whatever stands in it
        return None


def _schema(function: Function) -> dict[str, Any]:
    """The JSON Schema of its arguments; any object where its annotations cannot be read, or have no schema."""
    try:
        found = TypeAdapter(cast(Any, function)).json_schema()
    except Exception:  # evaluating an annotation runs whatever stands in it
        return {"type": "object"}
    return found if found.get("type") == "object" else {"type": "object"}


def _names(function: Function) -> tuple[str, ...]:
    signature = _signature(function)
    return tuple(signature.parameters) if signature else ()


def _signature(function: Function) -> inspect.Signature | None:
    try:
        return inspect.signature(function)
    except (TypeError, ValueError):  # some built-in functions have none
        return None


def _by_keyword(signature: inspect.Signature, arguments: dict[str, Any]) -> dict[str, Any]:
    """Bound arguments as they are handed over: what `**rest` took beside the others, and nothing for `*rest`."""
    kinds = {name: parameter.kind for name, parameter in signature.parameters.items()}
    plain = {
        name: value
        for name, value in arguments.items()
        if kinds[name] in (inspect.Parameter.POSITIONAL_OR_KEYWORD, inspect.Parameter.KEYWORD_ONLY)
    }
    rest = [name for name, kind in kinds.items() if kind is inspect.Parameter.VAR_KEYWORD]
    return plain | (arguments[rest[0]] if rest else {})
