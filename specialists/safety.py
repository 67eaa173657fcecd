"""The safety specialist: what a value holds that should not be shown, and what an action would do that a person should
know first. It tells place and kind, never what it found.

As a step it is `safety-check`; between a worker and the board the same detectors are a filter (specialists.filtering).
"""

import re
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict

from specialists.findings import Finding, redact, tell, texts
from specialists.specialist import Context, Stop, specialist

FINDINGS_LIMIT = 200
"""Findings that are named; all are counted."""
Family = Literal["secret", "personal", "risk"]


class Action(BaseModel):
    """What would be done: a call of a tool, and the scopes that it has."""

    model_config = ConfigDict(extra="forbid")

    tool: str
    arguments: dict[str, Any] = {}
    scopes: list[str] = []


class Checked(BaseModel):
    """`value` and `action` are looked at. What is found of the families or kinds in `refuse` ends the step with
    POLICY_BLOCKED; about those in `ask` a person is asked, with kinds and places; the rest is told of."""

    model_config = ConfigDict(extra="forbid")

    value: Any = None
    action: Action | None = None
    refuse: list[str] = []
    ask: list[str] = ["risk"]


class Found(BaseModel):
    """`place` is a JSON Pointer into what was checked, below `/value` or `/action`."""

    place: str
    kind: str
    family: Family


class Safety(BaseModel):
    """`findings` are the first FINDINGS_LIMIT of `count`; `safe`: there are none."""

    safe: bool
    count: int
    findings: list[Found]


@specialist(
    "safety",
    offers="safety-check",
    deadline_s=60,
    authority="propose",
    stops=["POLICY_BLOCKED", "NEEDS_INPUT"],
)
async def safety(checked: Checked, context: Context) -> Safety:
    """Looks for secrets, personal data and risky actions; says where, and never what."""
    found = await context.in_thread(check, checked)
    refused = [one for one in found if {one.kind, one.family} & set(checked.refuse)]
    if refused:
        raise Stop("POLICY_BLOCKED", f"not allowed here: {_told(refused)}")
    asked = [one for one in found if {one.kind, one.family} & set(checked.ask)]
    if asked:
        action = {"findings": [one.model_dump() for one in asked[:FINDINGS_LIMIT]], "action": _shown(checked.action)}
        await context.ask("may this go on, with what was found in it?", action=action)
    return Safety(safe=not found, count=len(found), findings=found[:FINDINGS_LIMIT])


def check(checked: Checked) -> list[Found]:
    """All that is found in a value and an action, in the order in which it stands there."""
    action = checked.action.model_dump() if checked.action else None
    found = [*redact(checked.value, "/value").findings, *redact(action, "/action").findings]
    return [*(Found(**one._asdict()) for one in found), *(risks(checked.action) if checked.action else ())]


def _told(found: list[Found]) -> str:
    return tell([Finding(one.place, one.kind, "secret") for one in found])


def _shown(action: Action | None) -> Any:
    """The action as a person may see it."""
    return redact(action.model_dump()).value if action else None


# --- risky actions ----------------------------------------------------------------------------------------------------

RISKS: tuple[tuple[str, re.Pattern[str]], ...] = (
    (
        "deletes-files",
        re.compile(r"\brm\s+(?:-\w*[rf]\w*\s+)+|\b(?:rmtree|shred|mkfs(?:\.\w+)?)\b|\bdd\s+.*\bof=/dev/"),
    ),
    ("runs-downloaded-code", re.compile(r"\b(?:curl|wget)\b[^\n|]{0,500}\|\s*(?:sudo\s+)?(?:ba|z|da)?sh\b")),
    (
        "raises-privileges",
        re.compile(r"(?:^|[\s;&|])(?:sudo|doas|su)\s+\S|\bchmod\s+(?:-\w+\s+)*(?:0?777|[ugo]*\+s)\b"),
    ),
    ("destroys-tables", re.compile(r"\b(?:drop\s+(?:table|database|schema)|truncate\s+table)\b", re.IGNORECASE)),
    (
        "changes-every-row",
        re.compile(r"\bdelete\s+from\s+\S+\s*(?:;|$)|\bupdate\s+\S+\s+set\s+(?![^;]*\bwhere\b)", re.I),
    ),
    ("rewrites-history", re.compile(r"\bgit\s+push\b[^\n]*(?:--force\b|\s-f\b|\+\w)|\bgit\s+reset\s+--hard\b")),
    (
        "reaches-system-files",
        re.compile(r"(?:^|[\s'\"=:])(?:/(?:etc|boot|dev|proc|sys|root)/|~/\.(?:ssh|aws|gnupg|config)\b)"),
    ),
    ("climbs-out-of-its-folder", re.compile(r"(?:^|[\s'\"=/\\])\.\.[/\\]")),
)
"""Kind, and what in an argument says so."""
_CHANGES = re.compile(r"(?:^|[:.])(?:write|delete|admin|effect|send|pay)$")


def risks(action: Action) -> list[Found]:
    """What an action would do that a person should know first: by the scopes of its tool, and by its arguments."""
    found = [
        Found(place=f"/action/scopes/{number}", kind="changes-the-world", family="risk")
        for number, scope in enumerate(action.scopes)
        if _CHANGES.search(scope)
    ]
    for place, text in texts(action.arguments, "/action/arguments"):
        shown = str(redact(place).value)
        found += (Found(place=shown, kind=kind, family="risk") for kind, sign in RISKS if sign.search(text))
    return found
