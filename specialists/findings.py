"""What is found in values and messages, told by place and kind and never by what it is, and how it is taken out.

A value is JSON. The names of its fields are looked at as its texts are, and its numbers as the text that they are.
"""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from specialists.detectors import Family, Span, find, named

SHOWN = 5
"""Findings that a sentence names."""
_PLACE_CHARACTERS = 200


class Finding(NamedTuple):
    """Something of this kind stands at `place`, a JSON Pointer into the value, or the name of a field of a message."""

    place: str
    kind: str
    family: Family


@dataclass
class Redaction:
    """`value` without what was found in it; each part of it is now `[redacted: kind]`."""

    value: Any
    findings: list[Finding] = field(default_factory=list)


def redact_text(text: str, place: str = "") -> Redaction:
    spans = find(text)
    return Redaction(_without(text, spans), [Finding(place, span.kind, span.family) for span in spans])


def redact(value: Any, place: str = "") -> Redaction:
    """`value` without secrets and personal data. A number becomes a text where it is one of those."""
    findings: list[Finding] = []
    return Redaction(_redacted(value, place, "", findings), findings)


def tell(findings: list[Finding]) -> str:
    """`2 aws-access-key at /a, 1 iban at /b`: kinds and places in the order in which they stand."""
    counted: dict[tuple[str, str], int] = {}
    for one in findings:
        counted[one.kind, one.place] = counted.get((one.kind, one.place), 0) + 1
    told = [f"{count} {kind} at {place or '/'}" for (kind, place), count in list(counted.items())[:SHOWN]]
    more = len(counted) - len(told)
    return ", ".join(told) + (f" and {more} more" if more > 0 else "")


def texts(value: Any, place: str = "") -> Iterator[tuple[str, str]]:
    """All texts of a value, each with where it stands."""
    if isinstance(value, str):
        yield place, value
    elif isinstance(value, dict):
        for name, inner in value.items():
            yield from texts(inner, _below(place, str(name)))
    elif isinstance(value, list | tuple):
        for number, inner in enumerate(value):
            yield from texts(inner, _below(place, str(number)))


def marker(kind: str) -> str:
    return f"[redacted: {kind}]"


def _without(text: str, spans: list[Span]) -> str:
    parts, end = [], 0
    for span in spans:
        parts += [text[end : span.start], marker(span.kind)]
        end = span.end
    return "".join([*parts, text[end:]])


def _redacted(value: Any, place: str, name: str, findings: list[Finding]) -> Any:
    if isinstance(value, str):
        made = redact_text(value, place)
        if not made.findings and name and named(name, value):
            made = Redaction(marker("password"), [Finding(place, "password", "secret")])
        findings += made.findings
        return made.value
    if isinstance(value, dict):
        return _redacted_fields(value, place, findings)
    if isinstance(value, list | tuple):
        return [_redacted(inner, _below(place, str(number)), name, findings) for number, inner in enumerate(value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        made = redact_text(str(value), place)
        findings += made.findings
        return made.value if made.findings else value
    return value


def _redacted_fields(value: dict[Any, Any], place: str, findings: list[Finding]) -> dict[Any, Any]:
    made: dict[Any, Any] = {}
    for name, inner in value.items():
        shown = redact_text(str(name), place)
        findings += shown.findings
        safe = shown.value if shown.findings else name
        unique = safe
        number = 2
        while unique in made:  # two names that are now the same are still two fields
            unique, number = f"{safe} {number}", number + 1
        made[unique] = _redacted(inner, _below(place, str(safe)), str(safe), findings)
    return made


def _below(place: str, part: str) -> str:
    """One step further in a JSON Pointer, cut where it becomes too long to be shown."""
    step = part.replace("~", "~0").replace("/", "~1")
    return f"{place}/{step}"[:_PLACE_CHARACTERS]
