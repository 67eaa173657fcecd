"""Random task graphs and the world around them: who works, who lies, who answers, what is asked for, what goes wrong.

One generator for two sources of choices: a seed, and Hypothesis. Steps and playbooks stand in `graph_steps`.
"""

import random
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from blackboard.simulation.faults import Faults
from blackboard.simulation.graph_steps import CAPABILITIES, CODES, NAMES, PLAN, RETRIED, Source, T, fact_of, playbooks
from blackboard.simulation.lies import LIES
from blackboard.simulation.parts import Person, Published
from blackboard.simulation.scripted import Asks, Fails, Hands, OneOf, Proposes
from schemas.goals import Budget
from schemas.playbooks import Playbook


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
    """What a random world begins with; `specialists` are the arguments of scripted ones. `punctual` as of a
    `blackboard.testing.Simulation`."""

    playbooks: tuple[Playbook, ...]
    specialists: tuple[dict[str, Any], ...]
    goals: tuple[Published, ...]
    people: tuple[Person, ...]
    supervisors: int
    faults: Faults
    attached: bool = False
    punctual: bool = False


def graph(source: Source) -> Graph:
    bad = source.pick((0.3, 0.3, 1.0))
    teams = playbooks(source)
    count = source.pick((1, 1, 2, 3))
    return Graph(
        playbooks=teams,
        specialists=_specialists(source, bad) + planners(source, teams, bad),
        goals=tuple(_goal(source, teams[-1].team, number, bad) for number in range(1, count + 1)),
        people=(_person(source, bad),),
        supervisors=source.pick((2, 2, 1)),
        attached=source.pick((True, False)),
        faults=Faults().times(source.pick((1.0, 0.0, 1.0, 3.0))),
    )


def _specialists(source: Source, bad: float) -> tuple[dict[str, Any], ...]:
    names = NAMES[: source.number(1, len(NAMES))]
    made = [_specialist(source, name, bad) for name in names]
    offered = {capability for one in made for capability in one["offers"]}
    for capability in CAPABILITIES:
        if capability not in offered and not source.chance(0.1 * bad):
            made[0]["offers"].append(capability)
    return tuple(made)


def planners(source: Source, teams: Sequence[Playbook], bad: float) -> tuple[dict[str, Any], ...]:
    """Who plans, where a step wants a plan."""
    every = [step for team in teams for step in (*team.steps, *(one for r in team.replans for one in r.steps))]
    if not any(step.plans for step in every):
        return ()
    return (
        {
            "name": "planner",
            "offers": [PLAN],
            "answers": Proposes(source.number(1, 4), source.pick((0.0, 0.3, 0.6, 1.0)) * bad),
            "failure_rate": source.pick((0.0, 0.0, 0.2)) * bad,
            "tokens": source.pick((0, 10)),
            "backoff_s": 0.5,
            "workers": source.pick((1, 2)),
        },
    )


def _specialist(source: Source, name: str, bad: float) -> dict[str, Any]:
    """`bad`: how much goes wrong with it."""
    delay_s = float(source.pick((0, 0, 1, 3, 12)))
    raw: dict[str, Any] = {
        "name": name,
        "offers": [capability for capability in CAPABILITIES if source.chance(0.6)] or ["read"],
        "answers": _answers(source, name, bad),
        "failure_rate": source.pick((0.0, 0.0, 0.1, 0.3, 0.9)) * bad,
        "codes": [source.pick(RETRIED), source.pick(CODES)],
        "delay_s": (delay_s / 4, delay_s),
        "tokens": source.pick((0, 10, 100)),
        "micro_usd": source.pick((0, 0, 50)),
        "deadline_s": source.number(2, 20),
        "attempts": source.number(1, 3),
        "backoff_s": source.pick((0.5, 0.0, 5.0)),
        "workers": source.pick((1, 1, 2)),
        "concurrency": source.pick((2, 1, 4)),
    }
    if source.chance(0.3):
        raw |= {"bid": OneOf([{"confidence": 0.9}, {"can": False}, {"confidence": 0.5, "micro_usd": 100_000}])}
    if source.chance(0.3):
        raw |= {"typical_micro_usd": source.number(0, 100), "typical_s": float(source.number(0, 10))}
    if source.chance(0.3):
        raw["authority"] = source.pick(("propose", "propose", "effect"))
    if source.chance(0.2):
        raw |= {"tools": ("look", "pay"), "uses": source.pick((("look",), ("look", "look"), ("steal",)))}
    if source.chance(0.3):
        raw["budget"] = Budget(tokens=source.pick((200, 20, 50)), tool_calls=source.pick((None, 1)))
    if source.chance(0.1):
        raw["wakes_on"] = [fact_of(source.number(0, 2)), f"{fact_of(0)}.*"]
    if source.chance(0.3 * bad):
        raw["overspend"] = 30.0
    if source.chance(0.3 * bad):
        raw["lies"] = tuple(lie for lie in LIES if source.chance(0.3))
    raw["down"] = source.chance(0.1 * bad)
    return raw


def _answers(source: Source, name: str, bad: float) -> Any:
    plain: list[Any] = [
        {"sure": True, "ok": True},
        {"by": name, "sure": True, "ok": source.chance(0.5), "confidence": 0.7},
        7,
        [1, name],
    ]
    answer = source.pick((plain[0], plain[0], plain[1], plain[2], plain[3], OneOf(plain[:2])))
    if source.chance(0.5 * bad):
        other = source.pick((Fails("TOOL_DOWN"), Fails("LOW_CONFIDENCE"), Hands("v"), Hands("write"), {"odd": 1}))
        answer = source.pick(((other, answer), OneOf([answer, other])))
    if source.chance(0.2 * bad):
        schema = source.pick((None, {"type": "object"}))
        answer = (Asks("may I?", schema, {"by": name}, expires_s=float(source.number(5, 60))), answer)
    return answer


def _goal(source: Source, team: str, number: int, bad: float) -> Published:
    names = [name for name in NAMES if source.chance(0.5)]
    return Published(
        team=team,
        input={
            "x": number,
            "l": list(range(source.number(0, 3))),
            "on": source.chance(0.5),
            "who": source.pick((names, "v", "nobody")),
        },
        run=f"r{number}",
        after_s=source.number(0, 30) / 10,
        approve=source.chance(0.1),
        cancel_after_s=source.number(0, 100) / 10 if source.chance(0.25 * bad) else None,
        budget=Budget(tokens=source.pick((500, 100, 5_000))) if source.chance(0.2) else Budget(),
        deadline_s=float(source.number(5, 100)) if source.chance(0.2 * bad) else None,
    )


def _person(source: Source, bad: float) -> Person:
    value = {"ok": True, "sure": True}
    if source.chance(0.5 * bad):
        return Person("bob", source.pick(("deny", "nothing")), (0.5, 60.0), value, mistaken=0.5)
    return Person("bob", "approve", (0.5, 20.0), value, mistaken=source.pick((0.0, 0.5)))
