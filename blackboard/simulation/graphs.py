"""Random task graphs and the world around them: who works, who lies, who answers, what is asked for, what goes wrong.

One generator for two sources of choices: a seed, and Hypothesis.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, TypeVar

from blackboard.simulation.faults import Faults
from blackboard.simulation.lies import LIES
from blackboard.simulation.parts import Person, Published
from schemas.contracts import STOP_CODES
from schemas.playbooks import Playbook

T = TypeVar("T")
CAPABILITIES = ("read", "write", "sum")
NAMES = ("u", "v", "w", "x", "y")
CODES = tuple(sorted(STOP_CODES))
RETRIED = ("TOOL_DOWN", "TIMEOUT", "INTERNAL", "INVALID_OUTPUT")


class Source(Protocol):
    """Where choices come from; the first of several is the simplest."""

    def pick(self, options: Sequence[T]) -> T: ...

    def number(self, low: int, high: int) -> int: ...

    def chance(self, rate: float) -> bool: ...


class Seeded:
    """Choices of a seed."""

    def __init__(self, seed: int) -> None:
        self._random = random.Random(f"graph {seed}")

    def pick(self, options: Sequence[T]) -> T:
        return self._random.choice(options)

    def number(self, low: int, high: int) -> int:
        return self._random.randint(low, high)

    def chance(self, rate: float) -> bool:
        return self._random.random() < rate


@dataclass(frozen=True)
class Graph:
    """What a random world begins with; `specialists` are the arguments of scripted ones."""

    playbooks: tuple[Playbook, ...]
    specialists: tuple[dict[str, Any], ...]
    goals: tuple[Published, ...]
    people: tuple[Person, ...]
    supervisors: int
    faults: Faults


def graph(source: Source) -> Graph:
    teams = playbooks(source)
    return Graph(
        playbooks=teams,
        specialists=_specialists(source),
        goals=tuple(_goal(source, teams[-1].team, number) for number in range(1, source.pick((1, 1, 2, 3)) + 1)),
        people=tuple(_people(source)),
        supervisors=source.pick((2, 2, 1)),
        faults=Faults().times(source.pick((1.0, 0.0, 1.0, 3.0))),
    )


def playbooks(source: Source) -> tuple[Playbook, ...]:
    """One to three teams; those that come later may ask for child runs of those before them."""
    names: list[str] = []
    found: list[Playbook] = []
    for number in range(source.pick((1, 1, 1, 2, 3))):
        found.append(_playbook(source, f"t{number}", names, source.number(1, 2 if number else 5)))
        names.append(f"t{number}")
    return tuple(found)


def _playbook(source: Source, team: str, others: Sequence[str], steps: int) -> Playbook:
    made: list[dict[str, Any]] = []
    for number in range(steps):
        made.append(_step(source, f"s{number}", [one["id"] for one in made], others))
    last = made[-1]["id"]
    raw: dict[str, Any] = {
        "team": team,
        "steps": made,
        "returns": {"last": f"facts.{last}", "all": "facts"} if source.chance(0.5) else {},
        "parallel": source.pick((32, 1, 2, 8)),
    }
    if source.chance(0.1):
        raw["result"] = {"properties": {"last": {"type": "object"}}}
    return Playbook.model_validate(raw)


def _step(source: Source, name: str, before: Sequence[str], others: Sequence[str]) -> dict[str, Any]:
    needs = [one for one in before if source.chance(0.4)]
    raw: dict[str, Any] = {"id": name, "needs": needs, "input": {"x": "input.x"}}
    if needs and source.chance(0.5):
        raw["input"] = {"x": "input.x", "of": f"facts.{source.pick(needs)}"}
    if needs and source.chance(0.2):
        raw["reads"] = [f"{source.pick(needs)}.*", source.pick(needs)]
    if source.chance(0.3):
        raw |= {"for_each": "input.l", "tasks": source.pick((256, 1, 2)), "input": {"x": "item"}}
    if source.chance(0.1):
        raw["when"] = "input.on"
    if others and source.chance(0.5):
        raw |= {"team": source.pick(others), "input": {"x": "input.x", "l": "input.l", "on": "input.on"}}
    else:
        raw |= _doer(source)
    raw |= {
        "missing": source.pick(("allow", "fail")),
        "wait_s": source.number(2, 30),
        "deadline_s": source.number(2, 20),
        "await_s": source.number(5, 60),
        "attempts": source.number(1, 3),
    }
    if source.chance(0.12):
        raw["gate"] = {"ask": "may it?", "expires_s": source.number(5, 100)}
    return raw


def _doer(source: Source) -> dict[str, Any]:
    raw: dict[str, Any] = {
        "capability": source.pick(CAPABILITIES),
        "specialist": source.pick(("", "", "all", "all", "v")),
    }
    if source.chance(0.4):
        order = [name for name in NAMES if source.chance(0.5)] + source.pick(([], ["confidence > `0.5`"]))
        raw["merge"] = {"policy": "priority", "order": order or ["value.sure", "w"]}
    if source.chance(0.4):
        raw["silent"] = [code for code in CODES if source.chance(0.3)]
    if source.chance(0.1):
        raw["accept"] = "value.sure"
    return raw


def _specialists(source: Source) -> tuple[dict[str, Any], ...]:
    count = source.number(1, len(NAMES))
    made = [_specialist(source, name) for name in NAMES[:count]]
    offered = {capability for one in made for capability in one["offers"]}
    for capability in CAPABILITIES:
        if capability not in offered and not source.chance(0.05):
            made[0]["offers"].append(capability)
    return tuple(made)


def _specialist(source: Source, name: str) -> dict[str, Any]:
    lies: list[str] = []
    if source.chance(0.12):
        lies = [lie for lie in LIES if source.chance(0.3)]
    delay_s = float(source.pick((0, 0, 1, 3, 12)))
    return {
        "name": name,
        "offers": [capability for capability in CAPABILITIES if source.chance(0.6)] or ["read"],
        "answers": source.pick(
            (
                {"sure": True},
                {"by": name, "sure": source.chance(0.5), "confidence": 0.7},
                ({"odd": 1}, {"sure": True}),
                "plain",
            )
        ),
        "failure_rate": source.pick((0.0, 0.0, 0.1, 0.3, 0.9)),
        "codes": [source.pick(RETRIED), source.pick(CODES)],
        "delay_s": (delay_s / 4, delay_s),
        "tokens": source.pick((0, 10, 1_000)),
        "overspend": source.pick((1.0, 1.0, 30.0)),
        "deadline_s": source.number(2, 20),
        "attempts": source.number(1, 3),
        "workers": source.pick((1, 1, 2)),
        "concurrency": source.pick((2, 1, 4)),
        "lies": tuple(lies),
        "down": source.chance(0.04),
    }


def _goal(source: Source, team: str, number: int) -> Published:
    return Published(
        team=team,
        input={"x": number, "l": list(range(source.number(0, 3))), "on": source.chance(0.5)},
        run=f"r{number}",
        after_s=source.number(0, 30) / 10,
        approve=source.chance(0.1),
        cancel_after_s=source.number(0, 100) / 10 if source.chance(0.12) else None,
    )


def _people(source: Source) -> list[Person]:
    says = source.pick(("approve", "approve", "deny", "nothing"))
    return [Person("bob", says, (0.5, 60.0), mistaken=source.pick((0.0, 0.5)))]  # type: ignore[arg-type]
