"""The team that these tests simulate: two who read, one who sums up, and a person who approves."""

from typing import Any

from blackboard.testing import Faults, ScriptedSpecialist, Simulation
from schemas.playbooks import Playbook

PLAYBOOK = Playbook.model_validate(
    {
        "team": "t",
        "steps": [
            {"id": "each", "capability": "read", "for_each": "input.n", "fact": "v.k{index}", "input": {"x": "item"}},
            {"id": "total", "capability": "sum", "needs": ["each"], "input": {"all": "values(facts.v)"}},
        ],
        "returns": {"total": "facts.total"},
    }
)


def total(item: dict[str, Any]) -> int:
    return sum(item["all"] or [])


READER = ScriptedSpecialist("reader", "read", answers=lambda item: item["x"] ** 2, tokens=10, delay_s=(0.1, 2))
SUMMER = ScriptedSpecialist("summer", "sum", answers=total, tokens=4)
GOAL = {"n": [1, 2, 3, 4]}


def simulation(*specialists: ScriptedSpecialist, **options: Any) -> Simulation:
    """The team on one goal; `specialists` take the place of those with their name."""
    named = {one.name: one for one in (READER, SUMMER, *specialists)}
    return Simulation(PLAYBOOK, list(named.values()), [GOAL], **options)


def calm(*specialists: ScriptedSpecialist, **options: Any) -> Simulation:
    return simulation(*specialists, faults=Faults.none(), **options)
