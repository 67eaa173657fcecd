"""JSON Schemas in the strict form that model endpoints want: objects are closed and need all that they name.

Pure. Source: the restrictions of structured outputs that endpoints document; optional fields become ones that may be
null, and their defaults go.
"""

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Annotated, Any, Generic, Literal, TypeVar, Union

from pydantic import ConfigDict, Field, TypeAdapter, ValidationError, create_model

CLOSED = {"title", "default", "examples"}
"""Words of a schema that say nothing about what is allowed."""
WRAPPED = "value"
"""The only field of the object around an answer that is none itself."""


T = TypeVar("T")


class NotStrict(ValueError):
    """The schema has an open object, which the strict form does not have."""


def strict(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` in the strict form. Raises NotStrict."""
    made: dict[str, Any] = _strict(schema)
    return made


def _strict(node: Any) -> Any:
    if isinstance(node, list):
        return [_strict(one) for one in node]
    if not isinstance(node, dict):
        return node
    made: dict[str, Any] = {}
    for word, value in node.items():
        if word in ("properties", "$defs"):
            made[word] = {name: _strict(one) for name, one in value.items()}
        elif word == "oneOf":
            made["anyOf"] = _strict(value)
        elif word == "discriminator" or word in CLOSED:
            continue
        else:
            made[word] = _strict(value) if word not in ("enum", "const", "required") else value
    if made.get("type") == "object" or "properties" in made:
        _close(made, node)
    return made


def _close(made: dict[str, Any], node: dict[str, Any]) -> None:
    if node.get("additionalProperties", False) is not False or "properties" not in node or "patternProperties" in node:
        raise NotStrict(f"an object may have any field: {node.get('title') or 'dict'}")
    optional = [name for name in made["properties"] if name not in node.get("required", [])]
    for name in optional:
        if not _may_be_null(made["properties"][name]):
            made["properties"][name] = {"anyOf": [made["properties"][name], {"type": "null"}]}
    made["required"] = list(made["properties"])
    made["additionalProperties"] = False


def _may_be_null(schema: dict[str, Any]) -> bool:
    kinds = schema.get("type")
    return kinds == "null" or "null" in (kinds or ()) or any(_may_be_null(one) for one in schema.get("anyOf", []))


def closed(name: str, **fields: Any) -> Any:
    """The type of objects that have these fields (type, and `...` or a Field) and no others."""
    return create_model(name, __config__=ConfigDict(extra="forbid"), **fields)


def one_of(values: Sequence[Any]) -> Any:
    """The type of what is one of these values."""
    return Literal[tuple(values)]


def either(types: Sequence[Any], by: str = "") -> Any:
    """The type of what is of one of these; `by` is the field that tells which, where they are objects."""
    made: Any = Union[tuple(types)]  # noqa: UP007
    return Annotated[made, Field(discriminator=by)] if by and len(types) > 1 else made


class Form:
    """What an answer has to be: a type, its JSON Schema as an object, and how the answer is read.

    An endpoint takes objects alone, so any other type is wrapped in one.
    """

    def __init__(self, output: Any) -> None:
        self._adapter: TypeAdapter[Any] = TypeAdapter(output)
        schema = self._adapter.json_schema()
        self._wrapped = not ("properties" in schema and schema.get("type") == "object")
        if self._wrapped:
            definitions = schema.pop("$defs", None)
            schema = {"type": "object", "properties": {WRAPPED: schema}, "required": [WRAPPED]}
            schema |= {"$defs": definitions} if definitions else {}
        try:
            self.schema, self.is_strict = strict(schema), True
        except NotStrict:
            self.schema, self.is_strict = schema, False

    def read(self, value: Any) -> Any:
        """The typed value. Raises ValueError, as pydantic's ValidationError too. A field that is null stands for one
        that is left out, where null is nothing that it may be."""
        if self._wrapped:
            if not isinstance(value, dict) or WRAPPED not in value:
                raise ValueError(f"an object with the field {WRAPPED!r} is wanted")
            value = value[WRAPPED]
        try:
            return self._adapter.validate_python(value)
        except ValidationError:
            if (shorter := _without_nulls(value)) == value:
                raise
            return self._adapter.validate_python(shorter)


class Calls(Generic[T]):
    """Calls of functions, one or several, as an answer. Each function has a name, what it does, and the type of its
    arguments. `read` makes a value of the calls (name, arguments) and raises ValueError where they are none together.
    """

    def __init__(self, functions: Mapping[str, tuple[str, Any]], read: Callable[[list[tuple[str, Any]]], T]) -> None:
        self._about = {name: about for name, (about, _) in functions.items()}
        self._forms = {name: Form(arguments) for name, (_, arguments) in functions.items()}
        self._read = read

    @property
    def tools(self) -> list[dict[str, Any]]:
        """As an endpoint takes them."""
        return [
            {
                "type": "function",
                "function": {
                    "name": name,
                    "description": self._about[name],
                    "parameters": form.schema,
                    "strict": form.is_strict,
                },
            }
            for name, form in self._forms.items()
        ]

    def read(self, calls: Sequence[Mapping[str, Any]]) -> T:
        """The value of these calls, as an endpoint gives them. Raises ValueError."""
        if not calls:
            raise ValueError(f"call at least one of the functions {', '.join(self._forms)}")
        return self._read([self._called(call["function"]) for call in calls])

    def _called(self, function: Mapping[str, Any]) -> tuple[str, Any]:
        name = function["name"]
        if name not in self._forms:
            raise ValueError(f"there is no function {name!r}; there are {', '.join(self._forms)}")
        try:
            arguments = json.loads(function["arguments"])
        except json.JSONDecodeError as error:
            raise ValueError(f"the arguments of {name} are not JSON: {error}") from None
        return name, self._forms[name].read(arguments)


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(one) for name, one in value.items() if one is not None}
    return [_without_nulls(one) for one in value] if isinstance(value, list) else value
