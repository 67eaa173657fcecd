"""From words on a command line to the input of a goal, with the help of the team's input schema.

A property of type string takes the word as it is, any other takes JSON. Two formats are resolved here, where the person
is: `path` against the current folder, `python-environment` as well, with the running environment as its default.
"""

import json
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from blackboard.client import BadInput


def read_json(text: str) -> Any:
    """JSON from an argument: the text itself, or with `@` before it the file of that name (`@-`: standard input)."""
    try:
        if text == "@-":
            return json.load(sys.stdin)
        return json.loads(Path(text[1:]).read_text() if text.startswith("@") else text)
    except OSError as error:
        raise BadInput(f"{text[1:]}: {error.strerror}") from None
    except (ValueError, RecursionError) as error:
        raise BadInput(f"{text[:60]!r} is not JSON: {error}") from None


def goal_input(words: Iterable[str], whole: str | None, schema: dict[str, Any]) -> dict[str, Any]:
    """`whole` (JSON or @file) with each `key=value` of `words` on top. Raises BadInput."""
    given = read_json(whole) if whole else {}
    if not isinstance(given, dict):
        raise BadInput("the input of a goal is a JSON object")
    properties = schema.get("properties", {})
    for word in words:
        key, equals, value = word.partition("=")
        if not equals or not key:
            raise BadInput(f"{word!r} is not key=value")
        given[key] = _value(key, value, properties.get(key, {}))
    for key, about in properties.items():
        if about.get("format") == "python-environment":
            given.setdefault(key, sys.prefix)
        if about.get("format") in {"path", "python-environment"} and isinstance(given.get(key), str):
            given[key] = str(Path(given[key]).expanduser().absolute())
    return given


def _value(key: str, text: str, about: dict[str, Any]) -> Any:
    kinds = about.get("type", "string")
    kinds = {kinds} if isinstance(kinds, str) else set(kinds)
    if kinds == {"string"}:
        return text
    if text[:1] == "@" or _is_json(text):
        return read_json(text)
    if "array" in kinds:
        return [part.strip() for part in text.split(",") if part.strip()]
    if "string" in kinds:
        return text
    raise BadInput(f"{key}: {text[:60]!r} is not JSON, which {' or '.join(sorted(kinds))} needs")


def _is_json(text: str) -> bool:
    try:
        json.loads(text)
    except (ValueError, RecursionError):
        return False
    return True
