"""What the annotations of a specialist say: how its input and output are converted, and their JSON Schemas.

Pure. Read once, when the specialist is defined, so that what is missing is an error there and not in its first task.
"""

import inspect
import typing
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import TypeAdapter
from pydantic.errors import PydanticUserError


class BadSpecialist(TypeError):
    """A function or class cannot be a specialist; the text says what to add or change."""

    exit_code = 2


@dataclass(frozen=True)
class Shape:
    """How a function is called: with the item alone, or also `with_context`. `plain`: it is no coroutine function, and
    so needs a thread."""

    with_context: bool
    plain: bool


@dataclass(frozen=True)
class Signature(Shape):
    """`input` and `output` convert and check; the schemas are those of the contract."""

    input: TypeAdapter[Any]
    output: TypeAdapter[Any]
    input_schema: dict[str, Any]
    output_schema: dict[str, Any]


def read_signature(target: Callable[..., Any]) -> Signature:
    """The signature of a function, or of the `__call__` of a class. Raises BadSpecialist."""
    function = _call_of(target) if isinstance(target, type) else target
    names = list(inspect.signature(function).parameters)
    shown = f"{function.__qualname__}({', '.join(names)})"
    parameters = _parameters(function, shown, method=isinstance(target, type))
    item = parameters[0].name
    hints = _hints(function, shown)
    if item not in hints:
        raise BadSpecialist(f"{shown} does not say what it takes: annotate {item!r}")
    if hints.get("return", type(None)) in (type(None), Any):
        raise BadSpecialist(f"{shown} does not say what it returns: add `-> ` and a type")
    input, input_schema = _adapt(f"{shown}: {item!r}", hints[item], "validation")
    output, output_schema = _adapt(f"{shown}: what it returns", hints["return"], "serialization")
    if hints[item] is Any or input_schema.get("type", "object") != "object":
        raise BadSpecialist(
            f"{shown}: {item!r} receives an object with the fields of the step's input: annotate it with a pydantic "
            "model, a dataclass, a TypedDict or dict[str, ...]"
        )
    shape = _shape(function, parameters)
    return Signature(shape.with_context, shape.plain, input, output, input_schema, output_schema)


def read_shape(function: Callable[..., Any]) -> Shape:
    """How a function of the item is called whose annotations do not matter. Raises BadSpecialist."""
    name = getattr(function, "__qualname__", repr(function))
    try:
        shown = f"{name}({', '.join(inspect.signature(function).parameters)})"
    except (TypeError, ValueError):
        raise BadSpecialist(f"{name} is no function of the item and, if it wants, the context") from None
    return _shape(function, _parameters(function, shown, method=False))


def _shape(function: Callable[..., Any], parameters: list[inspect.Parameter]) -> Shape:
    with_context = any(one.default is one.empty or one.name == "context" for one in parameters[1:2])
    return Shape(with_context, plain=not inspect.iscoroutinefunction(function))


def _call_of(target: type) -> Callable[..., Any]:
    for base in target.__mro__:
        if "__call__" in vars(base):
            function: Callable[..., Any] = vars(base)["__call__"]
            return function
    raise BadSpecialist(f"class {target.__name__} has no `async def __call__(self, item, context)`")


def _parameters(function: Callable[..., Any], shown: str, method: bool) -> list[inspect.Parameter]:
    """Those that a caller fills by position: the item, and the context if there is a second one."""
    every = list(inspect.signature(function).parameters.values())[1 if method else 0 :]
    positional = [one for one in every if one.kind in (one.POSITIONAL_ONLY, one.POSITIONAL_OR_KEYWORD)]
    needed = [
        one for one in every if one.default is one.empty and one.kind not in (one.VAR_POSITIONAL, one.VAR_KEYWORD)
    ]
    if not positional or any(one not in positional[:2] for one in needed):
        raise BadSpecialist(f"{shown} must take the item and, if it wants, the context: (item: In, context: Context)")
    return positional


def _hints(function: Callable[..., Any], shown: str) -> dict[str, Any]:
    try:
        return typing.get_type_hints(function, include_extras=True)
    except Exception as error:  # evaluating an annotation runs whatever stands in it
        raise BadSpecialist(
            f"an annotation of {shown} cannot be read ({error}): define its type at the top level of the module, above "
            "the function"
        ) from None


def _adapt(
    what: str, annotation: Any, mode: Literal["validation", "serialization"]
) -> tuple[TypeAdapter[Any], dict[str, Any]]:
    try:
        adapter: TypeAdapter[Any] = TypeAdapter(annotation)
        return adapter, adapter.json_schema(mode=mode)
    except (PydanticUserError, TypeError) as error:
        reason = str(error).partition("\n")[0]
        raise BadSpecialist(
            f"{what} has the annotation {annotation!r}, which gives no schema ({reason}): use a pydantic model, a "
            "dataclass, a TypedDict or the types of JSON"
        ) from None
