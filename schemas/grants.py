"""Grants: what of a specialist's tools a step, or a whole run, lets it call. A grant narrows a contract, never more.

Pure.
"""

from collections.abc import Iterable

from msgspec import Struct


class Grant(Struct, frozen=True, omit_defaults=True):
    """`tools` are names of tools, `scopes` all that a tool may reach; None: whatever the contract says."""

    tools: tuple[str, ...] | None = None
    scopes: tuple[str, ...] | None = None

    def refuses(self, tool: str, scopes: Iterable[str]) -> str:
        """Why a tool within these scopes may not be called, else an empty text."""
        if self.tools is not None and tool not in self.tools:
            return f"this task grants the tools {_named(self.tools)}, not {tool}"
        if self.scopes is not None and (odd := sorted(set(scopes) - set(self.scopes))):
            return f"this task grants the scopes {_named(self.scopes)}, and {tool} reaches {odd[0]}"
        return ""


def both(one: Grant | None, other: Grant | None) -> Grant | None:
    """What both grant; None is all that a contract says."""
    if one is None or other is None:
        return other if one is None else one
    return Grant(_both(one.tools, other.tools), _both(one.scopes, other.scopes))


def _both(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is None or other is None:
        return other if one is None else one
    return tuple(name for name in one if name in other)


def _named(names: tuple[str, ...]) -> str:
    return ", ".join(names)[:500] or "(none)"
