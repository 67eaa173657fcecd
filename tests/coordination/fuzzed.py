"""What a broken or hostile specialist may send: ends, questions and reports made of anything that fits into bytes."""

import json
from random import Random
from typing import Any

from projections.canonical import State
from tests.supervisor.scenario import RUN, Said

RAW = {
    "@nan": b"NaN",
    "@inf": b"-Infinity",
    "@huge": b"1e400",
    "@digits": b"9" * 400,
    "@minus": b"-0.0",
    "@tiny": b"5e-324",
}
"""What `json.dumps` would not write: it stands in the text as a string that is replaced."""
HALF = ("\ud800", "x\udfffy")
"""Halves of characters: no UTF-8 can be made of them."""
TEXTS = ("", "NaN", "a", "b", "b.k0", "\x00", "é", "👍", "a.b", ".", "*", "{index}", "'", '"', "x" * 2_000)
CODES = (
    "",
    "INVALID_OUTPUT",
    "LOW_CONFIDENCE",
    "TOOL_DOWN",
    "TIMEOUT",
    "BUDGET_EXCEEDED",
    "POLICY_BLOCKED",
    "NEEDS_INPUT",
)
ODD_CODES = (*CODES, "HANDED_OFF", "INTERNAL", "DONE", "nonsense", None, 7)
SCHEMAS = (
    None,
    {},
    {"type": "integer"},
    {"type": 7},
    {"$ref": "#/x"},
    {"$ref": "http://127.0.0.1/"},
    {"pattern": "("},
    [],
    "s",
    True,
)


def value(random: Random, depth: int = 4) -> Any:
    """Some JSON."""
    kind = random.randrange(12)
    if depth and kind < 3:
        return [value(random, depth - 1) for _ in range(random.randrange(4))]
    if depth and kind < 6:
        return {random.choice(TEXTS): value(random, depth - 1) for _ in range(random.randrange(4))}
    if kind == 6:
        return random.choice((*RAW, *HALF) if random.random() < 0.08 else (0, "@tiny", "@minus"))
    if kind == 7:
        return random.choice((0, -1, 1, 2**53, 2**63, 2**64, -(2**63) - 1, 1.5, 1e308, True, False))
    return random.choice((None, *TEXTS)) if kind < 11 else _deep(random)


def _deep(random: Random) -> Any:
    found: Any = random.choice(TEXTS)
    for _ in range(random.choice((10, 63, 64, 65, 90))):
        found = [found] if random.random() < 0.5 else {"x": found}
    return found


def _claims(random: Random, keys: list[str]) -> Any:
    """Mostly what the task has to say, with something wrong here and there."""
    if random.random() < 0.05:
        return value(random)
    named = [key for key in keys if random.random() > 0.05]
    if random.random() < 0.1:
        named.append(random.choice((*keys, *TEXTS)))
    claims = [{"key": key, "value": random.choice((value(random), 1, {"can": True}, "x" * 70_000))} for key in named]
    for claim in claims:
        if random.random() < 0.1:
            claim["confidence"] = random.choice((0.5, 2, -1, None, "@huge", "high"))
        if random.random() < 0.03:
            claim[random.choice(TEXTS)] = 1
    return claims


def _usage(random: Random) -> Any:
    if random.random() < 0.95:
        return {"input_tokens": random.choice((0, 5))}
    counts = (-1, 2**53, 2**53 + 1, 1.5, "1", None, "@digits")
    return random.choice(({}, None, {"input_tokens": random.choice(counts)}, {"dollars": 1}, value(random)))


def _question(random: Random) -> Any:
    if random.random() < 0.1:
        return value(random)
    schema = random.choice(SCHEMAS[:3] if random.random() < 0.6 else SCHEMAS)
    asked = {"ask": random.choice(("n?", *TEXTS)), "schema": schema, "action": value(random, 2)}
    if random.random() < 0.2:
        asked["expires_ms"] = random.choice((0, 1, -1, 2**53, 2**60, "@huge", "soon", None))
    return asked


def ended(random: Random, state: State) -> Said:
    """An end, or what looks like one, mostly of a task that is in flight and from whom has it."""
    going = [name for name, task in state.tasks.items() if task.status == "dispatched"] or [*state.tasks] or ["a"]
    name = random.choice(going)
    task = state.tasks.get(name)
    keys = [name, *(step.fact for step in state.plan if task and step.id == task.step), "b.k0", "woken.eve.1"][:2]
    code = "" if random.random() < 0.5 else random.choice(CODES if random.random() < 0.7 else ODD_CODES)
    body: dict[str, Any] = {
        "type": "ended",
        "task": name,
        "attempt": task.attempt if task else 1,
        "execution": random.choice((f"x{random.random()}", "y")),
        "usage": _usage(random),
        "code": code,
        "claims": _claims(random, keys[-1:]) if not code else [],
    }
    if code == "NEEDS_INPUT" or random.random() < 0.05:
        body["question"] = _question(random)
    if code == "HANDED_OFF" or random.random() < 0.03:
        body["to"] = random.choice(("other", "v", *TEXTS))
    if random.random() < 0.3:
        body["message"] = random.choice((*TEXTS, *HALF) if random.random() < 0.9 else (value(random),))
    if random.random() < 0.1:
        body["silences"] = [{"key": random.choice(keys), "code": random.choice(ODD_CODES)}]
    if random.random() < 0.1:
        field = random.choice([*body, "more"])
        body[field] = value(random)
    if random.random() < 0.05:
        body.pop(random.choice([*body]))
    by = task.specialist if task and random.random() < 0.95 else random.choice(("eve", "w"))
    return Said("obs", by, _bytes(body), RUN)


def other(random: Random, state: State) -> Said:
    """A report of a tool, a start, or an answer."""
    name = random.choice([*state.tasks] if state.tasks and random.random() < 0.9 else ["a"])
    specialist = state.tasks[name].specialist if name in state.tasks else "w"
    execution = random.choice(("x", "y", *TEXTS) if random.random() < 0.2 else ("x", "y"))
    observed = {"task": name, "attempt": random.choice((1, 1, 1, 2, 0, -1, "1")), "execution": execution}
    called = {"tool": random.choice(TEXTS), "input": random.choice(TEXTS), "code": random.choice(ODD_CODES), "call": 1}
    if random.random() < 0.4:
        return Said(
            "obs", specialist, _bytes({"type": "tool_called", **observed, **called, "message": value(random)}), RUN
        )
    if random.random() < 0.4:
        return Said("obs", specialist, _bytes({"type": random.choice(("started", "progress", "x")), **observed}), RUN)
    gate = random.choice([*state.gates, *TEXTS])
    cited = state.gates[gate].digest if gate in state.gates and random.random() < 0.9 else random.choice(TEXTS)
    body = {"type": random.choice(("answer", "approve", "deny", "cancel!")), "gate": gate, "digest": cited}
    if body["type"] == "answer":
        body["value"] = random.choice((3, value(random)))
    if body["type"] == "deny":
        body["reason"] = random.choice(TEXTS)
    return Said("signal", "ann", _bytes(body), RUN)


def _bytes(body: Any) -> bytes:
    data = json.dumps(body).encode()
    for text, raw in RAW.items():
        data = data.replace(f'"{text}"'.encode(), raw)
    return data
