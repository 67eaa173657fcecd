"""Effects: calls that change the world outside of the board. How one is named, what the history keeps of it, and how
people are asked about one of which nobody knows whether it was done.

Pure. Each effect runs as intent -> effect -> receipt. The key names it in each attempt and execution of its task; the
right to do it is given `round` by round, to one execution each: another round begins only when it is known that the
one before was not done.
"""

from typing import Any, NamedTuple

from schemas.codec import digest

ARGUMENTS_LIMIT = 16 * 1024
"""Bytes of the arguments of one effect, and of its result as a receipt holds it."""
ROUNDS_LIMIT = 20
"""How often one effect may be begun."""
EFFECTS_LIMIT = 500
"""Effects that one run keeps."""

ANSWER: dict[str, Any] = {
    "type": "object",
    "properties": {"done": {"type": "boolean"}, "result": {}},
    "required": ["done"],
    "additionalProperties": False,
}
"""The JSON Schema of what a person says of an effect that nobody knows of."""


class Asked(NamedTuple):
    """Which round of which effect a question is about."""

    key: str
    round: int


def effect_key(log: str, run: str, task: str, item: str, tool: str, arguments: Any, number: int) -> str:
    """The key of an effect: 32 hex digits, the same whenever it is worked out. `arguments` are JSON; `number` counts
    equal calls during one item, from 1."""
    return digest([log, run, task, item, tool, arguments, number])[:32]


def question_about(tool: str, key: str, round_: int, arguments: Any) -> tuple[str, dict[str, Any]]:
    """What people are asked, and the action that it is about: the same text whoever asks."""
    ask = (
        f"Was {tool} done? It was begun, and nobody knows what came of it. Look it up where it was to be done, then "
        'answer {"done": true, "result": ...}, or {"done": false}: then it may be begun again.'
    )
    return ask, {"effect": key, "round": round_, "tool": tool, "arguments": arguments}


def asked_about(action: Any) -> Asked | None:
    """The effect that a question is about; None where it is about none."""
    if not isinstance(action, dict):
        return None
    key, round_ = action.get("effect"), action.get("round")
    return Asked(key, round_) if isinstance(key, str) and isinstance(round_, int) else None
