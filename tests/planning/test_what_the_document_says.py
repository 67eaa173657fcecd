"""docs/planning.md: its playbook is one, and its plan is committed by a run of it."""

import json
import re
from pathlib import Path

from schemas.playbooks import Playbook
from schemas.proposals import Proposal, read_proposal
from tests.planning.proposing import says
from tests.supervisor.scenario import Said, given, goal, offer

DOCUMENT = (Path(__file__).parents[2] / "docs" / "planning.md").read_text()


def block(language: str) -> str:
    found = re.search(rf"```{language}\n(.*?)```", DOCUMENT, re.DOTALL)
    assert found
    return found[1]


def test_the_plan_is_committed_by_a_run_of_the_playbook() -> None:
    before, _, expression = block("python").partition("\nPlaybook(")
    names: dict[str, object] = {}
    exec(before, names)
    playbook = eval(f"Playbook({expression}", names)
    assert isinstance(playbook, Playbook)
    plan = json.loads(block("json"))
    assert isinstance(read_proposal(plan), Proposal)
    scenario = given(
        offer("finder", "search", tools=[{"tool": "search", "scopes": ["web:read"]}], budget={"tokens": 5_000}),
        offer("writer", "write"),
        offer("p", "plan"),
        Said("playbook", "research", playbook.model_dump_json().encode()),
        goal({"goal": "why"}, team="research"),
        says(plan["steps"]),
    )
    assert [step.id for step in scenario.state.plan if step.planned_by] == ["plan_find", "plan_sum"]
    assert set(scenario.state.step("report").needs) == {"plan", "plan_find", "plan_sum"}
    assert [task.items[0].input for task in scenario.tasks_in_flight()] == [{"query": "why"}]
