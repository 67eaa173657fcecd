"""The value that a person answers a question with: from words, a file, standard input or a prompt.

JSON is taken as JSON. What is none is a text where the schema of the question takes one, so nobody has to quote
quotes. Nothing is sent that does not satisfy the schema.
"""

import json
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from blackboard.client import BadInput
from projections.cli_text import clean, value
from schemas.codec import VALUE_LIMIT, encode, unstorable
from schemas.validation import violation

STDIN = "-"
RULE_SHOWN = 200
"""Characters of the part of a schema that an answer breaks."""
_BRACKETS = ("{", "[", '"')


@dataclass(frozen=True)
class Source:
    """Where the answer stands: `words` of the command, a `file`, or neither, to be asked for."""

    words: str | None = None
    file: str | None = None
    ask: bool = False


def read_answer(source: Source, schema: dict[str, Any]) -> Any:
    """Raises BadInput, which names the path in the answer that is wrong."""
    if source.words is not None and source.words != STDIN:
        return checked(source.words, schema)
    if source.words == STDIN or source.file is not None:
        return checked(_read(source.file or STDIN), schema)
    if not (source.ask and sys.stdin.isatty()):
        raise BadInput("an answer is needed: VALUE, `--file FILE`, or `-` for standard input")
    return _prompt(schema)


def _read(path: str) -> str:
    """The text of a file, without the end of its last line."""
    try:
        data = sys.stdin.buffer.read() if path == STDIN else Path(path).read_bytes()
        return data.decode().removesuffix("\n").removesuffix("\r")
    except OSError as error:
        raise BadInput(f"{path}: {error.strerror}") from None
    except UnicodeDecodeError:
        raise BadInput(f"{path}: is not UTF-8") from None


def checked(text: str, schema: dict[str, Any]) -> Any:
    """The value that `text` stands for. Raises BadInput where it does not satisfy the schema.

    A text that begins like JSON and is none is taken as it is only where the schema takes no objects and lists; `5` is
    a text only where it takes no numbers either.
    """
    as_text, like_json = _problem(text, schema), text.lstrip().startswith(_BRACKETS)
    try:
        meant = json.loads(text)
    except (ValueError, RecursionError) as error:
        if not as_text and not (like_json and _takes(schema, {}, [])):
            return text
        reason = "it is nested too deep" if isinstance(error, RecursionError) else f"it is not JSON: {error}"
        problem = reason if like_json else as_text
    else:
        problem = _problem(meant, schema)
        if not problem:
            return meant
        if not as_text and not isinstance(meant, str) and not _takes(schema, {}, [], 0):
            return text
    raise BadInput(f"the answer {clean(text)[:60]!r} does not do: {problem}")


def _takes(schema: dict[str, Any], *values: Any) -> bool:
    """Whether the schema takes one of these."""
    return any(violation(schema, one) is None for one in values)


def _problem(answer: Any, schema: dict[str, Any]) -> str:
    if reason := unstorable(answer):
        return reason
    if (size := len(encode(answer))) > VALUE_LIMIT:
        return f"it has {size} bytes, the limit is {VALUE_LIMIT}"
    return _breach(schema, answer)


def _breach(schema: dict[str, Any], answer: Any) -> str:
    """Where the answer breaks the schema, and what the schema says there."""
    broken = violation(schema, answer)
    if broken is None:
        return ""
    rule = _rule(schema, broken.rpartition(" breaks ")[2])
    return f"{clean(broken)}, which says {value(rule, RULE_SHOWN)}" if rule is not None else clean(broken)


def _rule(schema: Any, pointer: str) -> Any:
    """What stands at a place of the schema; None where it is not found, as behind a reference."""
    for part in pointer.split("/")[1:]:
        if isinstance(schema, dict):
            schema = schema.get(part)
        elif isinstance(schema, list) and part.isdecimal() and int(part) < len(schema):
            schema = schema[int(part)]
        else:
            return None
    return schema


# --- asking -----------------------------------------------------------------------------------------------------------


def _prompt(schema: dict[str, Any]) -> Any:
    """Ask until the answer satisfies the schema."""
    choices = _choices(schema)
    if choices:
        names = [choice if isinstance(choice, str) else value(choice) for choice in choices]
        for number, name in enumerate(names, 1):
            click.echo(f"  {number}) {clean(name)}", err=True)
        return click.prompt("number or value", err=True, value_proc=_of(choices, names, schema))
    kind = schema.get("type")
    if kind == "boolean":
        return click.confirm("answer", default=None, err=True)
    label = f"answer ({kind})" if kind in {"string", "number", "integer"} else "answer (JSON)"
    return click.prompt(label, err=True, value_proc=_typed(lambda text: checked(text, schema)))


def _choices(schema: dict[str, Any]) -> list[Any]:
    listed = schema.get("enum")
    return listed if isinstance(listed, list) else []


def _of(choices: list[Any], names: list[str], schema: dict[str, Any]) -> Callable[[str], Any]:
    """The choice of that name, else of that number, else the value itself."""

    def choose(text: str) -> Any:
        if text in names:
            return choices[names.index(text)]
        if text.isdecimal() and 1 <= int(text) <= len(choices):
            return choices[int(text) - 1]
        return checked(text, schema)

    return _typed(choose)


def _typed(read: Callable[[str], Any]) -> Callable[[str], Any]:
    """A mistake in what was typed is said, and asked for again."""

    def typed(text: str) -> Any:
        try:
            return read(text)
        except BadInput as error:
            raise click.UsageError(str(error)) from None

    return typed
