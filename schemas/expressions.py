"""Expressions in playbooks: JMESPath over a document of a run, and text templates with expressions in braces.

Pure. The document has `input` (of the goal), `facts` (values, nested by key segments), `claims` (all values observed
for a key: `{by, value, won}`), `missing` (keys without a value), and inside a task `item` and `index`.
"""

import re
import warnings
from functools import lru_cache
from typing import Any

import jmespath
from jmespath.exceptions import JMESPathError

from schemas.codec import unstorable

EXPRESSION_LIMIT = 4_096
"""Characters of one expression."""
NESTING_LIMIT = 100
"""Brackets and operators of one expression: the library descends into each, call by call."""
_PATH = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*", re.ASCII)
_BRACED = re.compile(r"\{([^{}]*)\}")
_NESTING = re.compile(r"[(\[{!|&*<>=?]")


class BadExpression(ValueError):
    """The text is no expression, or it cannot be evaluated over this document."""


@lru_cache(maxsize=4096)
def _compiled(expression: str) -> Any:
    if len(expression) > EXPRESSION_LIMIT or len(_NESTING.findall(expression)) > NESTING_LIMIT:
        raise BadExpression(
            f"{expression[:80]!r}... is too long; an expression has {EXPRESSION_LIMIT} characters and {NESTING_LIMIT} "
            "brackets and operators at most"
        )
    try:
        with warnings.catch_warnings():  # of a literal that is no JSON: what it means stays as it is
            warnings.simplefilter("ignore", PendingDeprecationWarning)
            return jmespath.compile(expression)
    except (JMESPathError, ValueError):
        raise BadExpression(f"{expression[:200]!r} is not a JMESPath expression") from None


def check_expression(expression: str) -> str:
    """`expression` itself (or an empty one). Raises BadExpression."""
    if expression:
        _compiled(expression)
    return expression


def check_template(template: str) -> str:
    for inner in _BRACED.findall(template):
        _compiled(inner)
    return template


def evaluate(expression: str, document: dict[str, Any]) -> Any:
    """Raises BadExpression, with a text that does not depend on the library's release; also for the errors of Python
    that the library lets through."""
    if _PATH.fullmatch(expression):
        return _walk(expression, document)
    compiled = _compiled(expression)
    try:
        return compiled.search(document)
    except (JMESPathError, ArithmeticError, AttributeError, LookupError, TypeError, ValueError):
        raise BadExpression(f"{expression[:200]!r} cannot be evaluated here") from None


def path(key: str) -> str:
    """A fact key as a path below `facts`."""
    return ".".join(f'"{segment}"' for segment in key.split("."))


def reads(expression: str) -> str:
    """The path that an expression is, where it is a path of plain names and nothing else; else an empty text."""
    return expression if _PATH.fullmatch(expression) else ""


def produce(expression: str, document: dict[str, Any]) -> Any:
    """As `evaluate`, for a value that is handed on: it can be stored. Raises BadExpression."""
    value = evaluate(expression, document)
    if reason := unstorable(value):
        raise BadExpression(f"{expression[:200]!r} gives {reason} here")
    return value


def _walk(path: str, document: dict[str, Any]) -> Any:
    """What JMESPath makes of a path of plain names, which is most of what playbooks say, without interpreting it."""
    value: Any = document
    for name in path.split("."):
        value = value.get(name) if isinstance(value, dict) else None
    return value


def fill(template: str, document: dict[str, Any]) -> str:
    """`template` with each `{expression}` replaced by its value, which must be text or a number."""

    def value(match: re.Match[str]) -> str:
        result = evaluate(match[1], document)
        if isinstance(result, bool) or not isinstance(result, (str, int)):
            raise BadExpression(f"{match[0]!r} is neither text nor a whole number here")
        return str(result)

    return _BRACED.sub(value, template)


def truth(value: Any) -> bool:
    """JMESPath's own notion: false, null and what is empty are false; 0 is true."""
    return value is not None and value is not False and value not in ("", [], {})
