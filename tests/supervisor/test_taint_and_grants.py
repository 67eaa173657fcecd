"""What travels with a task: labels of content from outside, and what of its tools may be called."""

from typing import Any

import pytest

from schemas.codec import encode
from schemas.goals import Goal
from schemas.grants import Grant
from schemas.playbooks import read_playbook
from schemas.taint import LABELS_LIMIT, joined
from supervisor.policy import child_run
from tests.planning.proposing import proposed, says
from tests.supervisor.scenario import Said, Scenario, ended, event, given, goal, offer, step, teach
from tests.supervisor.test_children import settle

WEB, MCP = ("tool:fetch",), ("mcp:files",)


def tainted(task: str, claims: dict[str, Any], *labels: str, by: str = "w") -> Any:
    said = ended(task, claims, by=by)
    for claim in said.body["claims"]:
        claim["taint"] = list(labels)
    return said


def taints(scenario: Scenario, run: str = "r1") -> dict[str, tuple[str, ...]]:
    return {task.task: task.taint for task in scenario.tasks_in_flight(run)}


# --- taint ------------------------------------------------------------------------------------------------------------


def test_labels_are_sorted_each_once_and_bounded() -> None:
    assert joined(("b", "a"), ("a",), ()) == ("a", "b")
    many = joined(f"label-{number:02}" for number in range(40))
    assert (len(many), many[-1], many[-2]) == (LABELS_LIMIT, "~others", "label-14")
    assert joined(many) == many
    assert joined(["x" * 1000, "\ud800"]) == ("\\ud800", "x" * 80)


def test_fact_has_the_labels_of_its_claim_and_tasks_that_see_it_begin_with_them() -> None:
    plan = teach(step("a"), step("b", needs=["a"], input={"a": "facts.a"}), step("c", needs=["b"]), step("d"))
    scenario = given(offer("w", "work"), plan, goal())
    assert taints(scenario) == {"a": (), "d": ()}
    scenario.when(tainted("a", {"a": 1}, *WEB)).then(
        event("task_ended"),
        event("fact_committed", key="a", taint=[*WEB]),
        event("step_expanded"),
        event("task_dispatched"),
    )
    assert taints(scenario) == {"b": WEB, "d": ()}
    scenario.when(tainted("b", {"b": 1}, *MCP))
    assert taints(scenario) == {"c": joined(MCP, WEB), "d": ()}
    assert scenario.state.facts["b"].taint == MCP


def test_event_of_a_fact_without_labels_has_no_field_for_them() -> None:
    scenario = given(offer("w", "work"), teach(step("a"), step("b")), goal(), ended("a", {"a": 1}))
    assert [b"taint" in encode(one) for one in scenario.last] == [False, False]


def test_claim_that_lost_taints_too_as_expressions_see_it() -> None:
    plan = teach(
        step("a", specialist="all", merge={"policy": "priority", "order": ["w", "v"]}),
        step("b", needs=["a"], input={"a": "claims.a"}),
    )
    scenario = given(offer("w", "work"), offer("v", "work"), plan, goal())
    scenario.say(tainted("a-1", {"a": 1}, *MCP, by="w"), tainted("a-0", {"a": 2}, *WEB, by="v"))
    assert (scenario.state.facts["a"].value, scenario.state.facts["a"].taint) == (1, joined(MCP, WEB))
    assert list(taints(scenario).values()) == [joined(MCP, WEB)]


def test_who_reconciles_begins_with_the_labels_of_the_claims_and_what_it_decides_keeps_them() -> None:
    plan = teach(step("a", specialist="all", merge={"policy": "reconcile", "specialist": "r"}))
    scenario = given(offer("w", "work"), offer("v", "work"), offer("r", "refereeing"), plan, goal())
    scenario.say(ended("a-1", {"a": 1}, by="w"), tainted("a-0", {"a": 2}, *WEB, by="v"))
    assert taints(scenario) == {"a-2": WEB}
    scenario.say(ended("a-2", {"a": 1}, by="r"))
    assert scenario.state.facts["a"].taint == WEB


def test_value_that_is_computed_has_the_labels_of_what_it_is_made_of() -> None:
    plan = teach(step("a"), {"id": "b", "needs": ["a"], "value": "facts.a"}, step("c", needs=["b"]))
    scenario = given(offer("w", "work"), plan, goal(), tainted("a", {"a": 1}, *WEB))
    assert scenario.state.facts["b"].taint == WEB


def test_answer_of_a_person_has_none() -> None:
    plan = teach(
        step("a"),
        {"id": "q", "needs": ["a"], "question": {"ask": "which?"}},
        step("b", needs=["q"], input={"q": "facts.q"}),
    )
    scenario = given(offer("w", "work"), plan, goal(), tainted("a", {"a": 1}, *WEB))
    gate = scenario.state.gates["q"]
    scenario.say(Said("signal", "ann", {"type": "answer", "gate": "q", "digest": gate.digest, "value": "red"}))
    assert scenario.state.facts["q"].taint == ()


def test_labels_go_into_child_runs_and_come_back_with_their_results() -> None:
    child = child_run("r1", "b", 1)
    scenario = given(
        offer("w", "work"),
        teach(step("x"), team="u", returns={"x": "facts.x"}),
        teach(step("a"), step("b", needs=["a"], team="u"), step("c", needs=["b"])),
        goal(),
        tainted("a", {"a": 1}, *WEB),
    )
    settle(scenario)
    assert scenario.of(child).taint == WEB
    assert taints(scenario, child) == {"x": WEB}
    said = tainted("x", {"x": 1}, *MCP)
    settle(scenario.say(said._replace(run=child)))
    assert scenario.state.facts["b"].taint == joined(WEB, MCP)


def test_goal_may_say_that_its_input_is_from_outside() -> None:
    scenario = given(offer("w", "work"), teach(step("a")), goal(taint=["mail"]))
    assert taints(scenario) == {"a": ("mail",)}


def test_fact_that_is_replaced_taints_by_the_value_that_a_task_sees() -> None:
    plan = teach(step("a"), step("b", needs=["a"], fact="a", replaces=True), step("c", needs=["b"]))
    scenario = given(offer("w", "work"), plan, goal(), tainted("a", {"a": 1}, *WEB), ended("b", {"a": 2}))
    assert scenario.state.facts["a"].taint == ()
    assert taints(scenario) == {"c": ()}
    assert scenario.state.facts["a"].previous[0].taint == WEB


@pytest.mark.parametrize("labels", [["b", "a"], ["a", "a"], ["x" * 81], [f"{n:02}" for n in range(17)]])
def test_labels_that_are_not_in_order_are_no_output(labels: list[str]) -> None:
    scenario = given(offer("w", "work"), teach(step("a", attempts=1)), goal(), tainted("a", {"a": 1}, *labels))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_OUTPUT")


# --- grants -----------------------------------------------------------------------------------------------------------


def grants(scenario: Scenario, run: str = "r1") -> dict[str, Grant | None]:
    return {task.task: task.grant for task in scenario.tasks_in_flight(run)}


def test_task_carries_what_its_step_and_its_run_both_grant() -> None:
    plan = teach(
        step("a", grant={"tools": ["read", "list"]}),
        step("b", grant={"scopes": ["fs:read"]}),
        step("c"),
    )
    assert grants(given(offer("w", "work"), plan, goal())) == {
        "a": Grant(tools=("list", "read")),
        "b": Grant(scopes=("fs:read",)),
        "c": None,
    }
    narrowed = given(offer("w", "work"), plan, goal(grant={"tools": ["read", "shell"], "scopes": []}))
    assert grants(narrowed) == {
        "a": Grant(("read",), ()),
        "b": Grant(("read", "shell"), ()),
        "c": Grant(("read", "shell"), ()),
    }


def test_child_run_grants_no_more_than_the_step_that_asked_for_it() -> None:
    child = child_run("r1", "a", 1)
    scenario = given(
        offer("w", "work"),
        teach(step("x", grant={"tools": ["read", "shell"]}), step("y"), team="u"),
        teach(step("a", team="u", grant={"tools": ["read"], "scopes": ["fs:read"]})),
        goal(),
    )
    settle(scenario)
    assert grants(scenario, child) == {"x": Grant(("read",), ("fs:read",)), "y": Grant(("read",), ("fs:read",))}


def test_who_a_task_is_handed_to_is_granted_no_more() -> None:
    plan = teach(step("a", hand_to=["other"], grant={"tools": ["read"]}))
    scenario = given(offer("w", "work", authority="propose"), offer("o", "other"), plan, goal())
    scenario.say(ended("a", code="HANDED_OFF", to="other"))
    assert [(task.specialist, task.grant) for task in scenario.tasks_in_flight()] == [("o", Grant(("read",)))]


def test_rounds_and_bids_of_a_step_are_granted_no_more() -> None:
    plan = teach(
        step("a", call={}, grant={"tools": []}),
        step("b", critique={"capability": "work", "accept": "critique.ok"}, grant={"tools": ["read"]}),
    )
    scenario = given(offer("w", "work"), plan, goal())
    assert grants(scenario) == {"a_bids": Grant(()), "b_1": Grant(("read",))}
    assert {one.id: one.grant for one in scenario.state.plan}["b_review_1"] == Grant(("read",))


@pytest.mark.parametrize(
    ("grant", "tool", "scopes", "reason"),
    [
        (Grant(), "a", ("x",), ""),
        (Grant(tools=("a",)), "a", ("x",), ""),
        (Grant(tools=("a",)), "b", (), "this task grants the tools a, not b"),
        (Grant(tools=()), "b", (), "this task grants the tools (none), not b"),
        (Grant(scopes=("x", "y")), "a", ("x",), ""),
        (Grant(scopes=("x",)), "a", ("x", "z"), "this task grants the scopes x, and a reaches z"),
        (Grant(scopes=()), "a", (), ""),
    ],
)
def test_what_a_grant_refuses(grant: Grant, tool: str, scopes: tuple[str, ...], reason: str) -> None:
    assert grant.refuses(tool, scopes) == reason


def test_grants_that_mean_nothing_are_refused() -> None:
    data = b'{"team": "t", "steps": [{"id": "a", "value": "input", "grant": {"tools": []}}]}'
    assert "grant: a value calls no tools" in str(read_playbook(data, "t"))
    with pytest.raises(ValueError, match="tools"):
        Goal.model_validate({"team": "t", "grant": {"tools": ["a b"]}})


# --- plans that are proposed ------------------------------------------------------------------------------------------


def test_steps_of_a_plan_are_granted_no_more_than_who_proposed_it_and_see_where_it_came_from() -> None:
    plan = teach(step("plan", "plan", plans={}, grant={"tools": ["read"]}))
    scenario = given(offer("w", "work"), offer("p", "plan"), plan, goal())
    assert grants(scenario) == {"plan": Grant(("read",))}
    said = says([proposed("a")])
    said.body["claims"][0]["taint"] = [*WEB]
    scenario.say(said)
    assert grants(scenario) == {"plan_a": Grant(("read",))}
    assert taints(scenario) == {"plan_a": WEB}


def test_plan_that_was_refused_taints_who_is_asked_again() -> None:
    scenario = given(offer("w", "work"), offer("p", "plan"), teach(step("plan", "plan", plans={})), goal())
    said = says([proposed("a", "nobody-does-this")])
    said.body["claims"][0]["taint"] = [*WEB]
    scenario.say(said)
    assert taints(scenario) == {"plan": WEB}
