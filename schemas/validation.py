"""JSON Schema validation, with reasons that stay the same over releases of the validator.

Pure. The reason goes onto the log, so it is built from paths and keywords and not from the library's sentences.
"""

from functools import lru_cache
from typing import Any

import jsonschema_rs
import orjson


def check_schema(schema: dict[str, Any]) -> dict[str, Any]:
    """`schema` itself. Raises ValueError where it is no JSON Schema (draft 2020-12 unless it says otherwise)."""
    try:
        validator_for(schema)
    except jsonschema_rs.ValidationError as error:
        raise ValueError(f"is not a JSON Schema at {_pointer(error.instance_path)}") from None
    except (ValueError, TypeError):
        raise ValueError("is not a JSON Schema, or refers to one outside of itself") from None
    return schema


def validator_for(schema: dict[str, Any]) -> Any:
    return _compiled(orjson.dumps(schema, option=orjson.OPT_SORT_KEYS))


@lru_cache(maxsize=1024)
def _compiled(schema: bytes) -> Any:
    return jsonschema_rs.validator_for(orjson.loads(schema), retriever=_refuse)


def _refuse(uri: str) -> Any:
    """Nothing is fetched: what a file or a server says, here or elsewhere, now or later, is not on the log."""
    raise ValueError(f"{uri} is outside of the schema")


def violation(schema: dict[str, Any], value: Any) -> str | None:
    """The first way, in order of paths, in which `value` breaks `schema`; None when it satisfies it."""
    error = _first(schema, value)
    return None if error is None else _recorded(error)


def in_words(schema: dict[str, Any], value: Any) -> str | None:
    """The same for people, and not for the log: a field that is missing or unknown is named, as `explain` names it."""
    error = _first(schema, value)
    if error is None:
        return None
    path = "".join(f"{part}." for part in error.instance_path)
    match error.kind:
        case jsonschema_rs.ValidationErrorKind.Required(property=name):
            return f"{path}{name}"[:300] + ": is missing"
        case jsonschema_rs.ValidationErrorKind.AdditionalProperties(unexpected=[name, *_]):
            return f"{path}{name}"[:300] + ": is not a known field"
    return _recorded(error)


def _first(schema: dict[str, Any], value: Any) -> Any:
    validator = validator_for(schema)
    return None if validator.is_valid(value) else min(validator.iter_errors(value), key=_recorded)


def _recorded(error: Any) -> str:
    return f"{_pointer(error.instance_path)} breaks {_pointer(error.schema_path)}"


def _pointer(path: Any) -> str:
    return "".join(f"/{part}" for part in path)[:300] or "/"
