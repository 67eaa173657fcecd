"""Text for a terminal: times, values, tables, and nothing in them that a terminal would obey.

What stands on the log was written by others, so control characters are shown, never sent.
"""

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import orjson

if TYPE_CHECKING:
    from rich.console import Console

WIDE = 200
"""Columns where the output is no terminal and tables must not be cut."""


def clean(text: object) -> str:
    """`text` on one line, control characters as escapes."""
    return "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(text))


def value(of: Any, limit: int = 0) -> str:
    """A JSON value on one line, cut to `limit` characters (0: whole)."""
    text = clean(orjson.dumps(of).decode())
    return text if not limit or len(text) <= limit else f"{text[: limit - 1]}…"


def count(number: int, what: str) -> str:
    """`1 fact`, `2 facts`."""
    return f"{number} {what}" if number == 1 else f"{number} {what}s"


def dollars(micro_usd: int) -> str:
    """Millionths of a US dollar as dollars, exactly."""
    whole, rest = divmod(micro_usd, 1_000_000)
    return f"{whole}.{rest:06d}".rstrip("0").rstrip(".") if rest else str(whole)


def when(ms: int) -> str:
    """A time in UTC, to the second; empty for 0."""
    return datetime.fromtimestamp(ms / 1000, UTC).strftime("%Y-%m-%d %H:%M:%S") if ms else ""


def lasting(ms: int) -> str:
    """A duration in the unit that fits."""
    if ms < 1_000:
        return f"{ms} ms"
    if ms < 60_000:
        return f"{ms / 1_000:.1f} s"
    if ms < 3_600_000:
        return f"{ms // 60_000} min {ms // 1_000 % 60} s"
    return f"{ms / 3_600_000:.1f} h" if ms < 48 * 3_600_000 else f"{ms / 86_400_000:.1f} days"


def console(stderr: bool = False) -> "Console":
    """Where tables go; content is never taken for markup."""
    from rich.console import Console

    stream = sys.stderr if stderr else sys.stdout
    width = None if stream.isatty() else WIDE
    return Console(file=stream, width=width, markup=False, highlight=False, emoji=False)
