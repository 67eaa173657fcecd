"""Random playbooks: graphs of steps of every kind that there is.

Each is valid; what it asks for need not be there, nor go well.
"""

from collections.abc import Callable, Sequence
from typing import Any, Protocol, TypeVar

from schemas.contracts import STOP_CODES
from schemas.playbooks import Playbook

T = TypeVar("T")
CAPABILITIES = ("read", "write", "review")
PLAN = "plan"
"""The capability of those who plan."""
NAMES = ("u", "v", "w", "x", "y")
RETRIED = ("TOOL_DOWN", "TIMEOUT", "INTERNAL", "INVALID_OUTPUT")
CODES = tuple(sorted(STOP_CODES - {"NEEDS_INPUT", "HANDED_OFF"}))
SEVERAL = ("first", "newest", "highest_confidence", "median", "union", "concat", "reject")

Raw = dict[str, Any]


class Source(Protocol):
    """Where choices come from; the first of several is the simplest."""

    def pick(self, options: Sequence[T]) -> T: ...

    def number(self, low: int, high: int) -> int: ...

    def chance(self, rate: float) -> bool: ...


def fact_of(number: int) -> str:
    """The name of the step at that place, and so the key of its fact."""
    return f"s{number}"


def playbooks(source: Source) -> tuple[Playbook, ...]:
    """One to three teams; those that come later may ask for child runs of those before them."""
    found: list[Playbook] = []
    for number in range(source.pick((1, 1, 1, 2, 3))):
        names = [one.team for one in found]
        found.append(_playbook(source, f"t{number}", names, source.number(1, 5 if not number else 2)))
    return tuple(found)


def _playbook(source: Source, team: str, others: Sequence[str], count: int) -> Playbook:
    steps: list[Raw] = []
    for number in range(count):
        steps.append(_step(source, fact_of(number), [one["id"] for one in steps], others))
    last = steps[-1]["id"]
    raw: Raw = {
        "team": team,
        "steps": steps,
        "returns": {"last": f"facts.{last}", "all": "facts"} if source.chance(0.5) else {},
        "parallel": source.pick((32, 1, 2, 8)),
        "wakes": source.chance(0.5),
    }
    if source.chance(0.1):
        raw["result"] = {"properties": {"last": {"type": "object"}}}
    if source.chance(0.15):
        raw["budget"] = {"tokens": source.pick((400, 50, 5_000)), "micro_usd": source.pick((None, 200))}
    if source.chance(0.1):
        raw["deadline_s"] = source.number(5, 100)
    if source.chance(0.2):
        raw |= {"breaker": source.pick((10, 0, 1, 2)), "repeats": source.pick((3, 0, 1))}
    if source.chance(0.1):
        raw |= {"on_loop": "ask", "deadline_s": source.number(20, 200)}  # the question alone would wait for a week
    if source.chance(0.2):
        raw |= {"replans": [_replan(source, source.pick(steps)["id"])], "revisions": source.pick((5, 1, 0))}
    if source.chance(0.15):
        steps.append(_replacement(source, steps))
    return Playbook.model_validate(raw)


def _replan(source: Source, step: str) -> Raw:
    return {"step": step, "steps": [_step(source, f"instead-{step}", [], ())]}


def _replacement(source: Source, steps: Sequence[Raw]) -> Raw:
    """A step that gives the fact of another one a newer value."""
    of = source.pick(steps)["id"]
    made = {"id": "newer", "needs": [of], "fact": of, "replaces": True, "missing": "allow"}
    return made | source.pick(({"value": f"facts.{of}"}, {"capability": "write", "input": {"x": f"facts.{of}"}}))


def _step(source: Source, name: str, before: Sequence[str], others: Sequence[str]) -> Raw:
    needs = [one for one in before if source.chance(0.4)]
    raw: Raw = {"id": name, "needs": needs, "missing": source.pick(("allow", "allow", "fail"))}
    raw |= {"wait_s": source.number(2, 30), "await_s": source.number(5, 60)}
    kind = source.pick((_work,) * 12 + (_child,) * 4 + (_value, _question, _call, _critique, planning))
    raw |= kind(source, needs, others)
    if source.chance(0.08):
        raw["when"] = source.pick(("input.on", "!input.on", f"facts.{needs[0]}" if needs else "input.x"))
    return raw


Kind = Callable[[Source, Sequence[str], Sequence[str]], Raw]


def _work(source: Source, needs: Sequence[str], others: Sequence[str]) -> Raw:
    raw = _doer(source) | _input(source, needs) | _limits(source)
    if source.chance(0.3):
        raw |= {"for_each": "input.l", "tasks": source.pick((256, 1, 2)), "input": {"x": "item"}}
    if source.chance(0.1):
        raw["gate"] = {"ask": "may it?", "expires_s": source.number(5, 100)}
    if raw.get("backoff_s") == 10.0:  # drawn from what is drawn already, so that seeds stay what they were
        raw["grant"] = {"tools": ["look", "steal"]}  # it does not widen what a contract says
    return raw


def _child(source: Source, needs: Sequence[str], others: Sequence[str]) -> Raw:
    if not others:
        return _work(source, needs, others)
    budget = {"tokens": source.pick((None, 100, 1_000))}
    given = {"x": "input.x", "l": "input.l", "on": "input.on", "who": "input.who"}
    return {"team": source.pick(others), "input": given, "attempts": source.number(1, 2), "budget": budget}


def _value(source: Source, needs: Sequence[str], others: Sequence[str]) -> Raw:
    return {"value": f"facts.{source.pick(needs)}" if needs else "input.x"}


def _question(source: Source, needs: Sequence[str], others: Sequence[str]) -> Raw:
    who = source.pick(([], ["bob"], ["eve"]))
    return {"question": {"ask": "what?", "answer": {"type": "object"}, "expires_s": source.number(5, 60), "who": who}}


def _call(source: Source, needs: Sequence[str], others: Sequence[str]) -> Raw:
    return _input(source, needs) | _limits(source) | {"capability": "write", "call": {"bids_s": source.number(1, 5)}}


def _critique(source: Source, needs: Sequence[str], others: Sequence[str]) -> Raw:
    raw: Raw = {"capability": "write", "critique": {"capability": "review", "accept": "critique.ok"}}
    raw["critique"]["rounds"] = source.number(1, 3)
    if source.chance(0.2):
        raw["call"] = {"bids_s": source.number(1, 3)}
    return raw | _input(source, needs)


def planning(source: Source, needs: Sequence[str], others: Sequence[str]) -> Raw:
    """A step whose value is a plan."""
    plans: Raw = {"steps": source.pick((20, 1, 3)), "proposals": source.number(1, 3)}
    plans["tools"] = plans["scopes"] = source.pick(([], ["*"]))
    plans["authority"] = source.pick(("propose", "observe", "effect"))
    plans["gate"] = {"expires_s": source.number(5, 100)}
    if source.chance(0.2):
        plans["capabilities"] = ["read", "write"]
    if source.chance(0.2):
        plans["budget"] = {"tokens": source.pick((1_000, 50, 5))}
    return _input(source, needs) | _limits(source) | {"capability": PLAN, "plans": plans}


def _doer(source: Source) -> Raw:
    raw: Raw = {"capability": source.pick(CAPABILITIES)}
    who = source.pick(("", "", "all", "all", "v", "route"))
    if who == "route":
        raw["route"] = "input.who"
    elif who:
        raw["specialist"] = who
    if who == "all":
        raw |= _merge(source)
    else:
        if source.chance(0.2):
            raw["fallback"] = [name for name in NAMES if source.chance(0.4)]
        if source.chance(0.3):
            raw |= {"hand_to": ["v", "write", "w"], "handoffs": source.number(1, 3)}
    if source.chance(0.1):
        where = source.pick(({"prefer": "cost"}, {"prefer": "latency"}, {"micro_usd": 50}, {"authority": "observe"}))
        raw["where"] = where
    if source.chance(0.08):
        raw["accept"] = "value.sure"
    return raw


def _merge(source: Source) -> Raw:
    raw: Raw = {}
    if source.chance(0.7):
        policy = source.pick(("priority", "quorum", "reconcile", *SEVERAL))
        merge: Raw = {"policy": policy}
        if policy == "priority":
            order = [name for name in NAMES if source.chance(0.5)] + source.pick(([], ["confidence > `0.5`"]))
            merge["order"] = order or ["value.sure", "w"]
        if policy == "quorum":
            merge["n"] = source.number(1, 3)
        if policy == "reconcile":
            merge["specialist"] = source.pick(NAMES)
        raw["merge"] = merge
    if source.chance(0.4):
        raw["silent"] = [code for code in CODES if source.chance(0.3)]
    return raw


def _input(source: Source, needs: Sequence[str]) -> Raw:
    raw: Raw = {"input": {"x": "input.x"}}
    if needs and source.chance(0.5):
        raw["input"]["of"] = f"facts.{source.pick(needs)}"
    if needs and source.chance(0.3):
        raw["reads"] = [f"{source.pick(needs)}.*", source.pick(needs)]
        raw["stale"] = source.pick(("commit", "mark", "again"))
    return raw


def _limits(source: Source) -> Raw:
    raw: Raw = {"deadline_s": source.number(2, 20), "attempts": source.number(1, 3)}
    if source.chance(0.3):
        raw["backoff_s"] = source.pick((0.0, 0.5, 10.0))
    if source.chance(0.2):
        raw["budget"] = {"tokens": source.pick((1_000, 100, 5))}
    return raw
