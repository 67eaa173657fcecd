"""A plan that is proposed is on the log before anything of it is given out, and what needs it waits for all of it."""

from typing import Any

import pytest

from schemas.inputs import ChildEnded
from schemas.playbooks import read_playbook
from schemas.steps import Grants
from schemas.usage import Limits, Usage
from tests.coordination.asking import approve
from tests.planning.proposing import planning, proposed, says
from tests.supervisor.scenario import Due, Said, ended, event, failed, goal, offer, step, teach

TWO = [proposed("a", input={"t": ("text", "one")}), proposed("b", input={"of": ("step", "a")})]


def test_the_plan_comes_before_anything_of_it_is_given_out() -> None:
    planning().when(says(TWO)).then(
        event("task_ended", task="plan"),
        event("fact_committed", key="plan", value={"steps": TWO}, by="p"),
        event("plan_extended", number=1, step="plan", task="plan", by="p"),
        event("step_expanded", step="plan_a"),
        event("task_dispatched", task="plan_a"),
    )


def test_what_needs_the_plan_waits_for_all_of_it_and_sees_what_came_of_it() -> None:
    scenario = planning().say(says(TWO))
    scenario.say(ended("plan_a", {"plan_facts.a": 1}))
    assert [task.items[0].input for task in scenario.tasks_in_flight()] == [{"of": 1}]
    scenario.say(ended("plan_b", {"plan_facts.b": 2}))
    assert [task.items[0].input for task in scenario.tasks_in_flight()] == [{"parts": {"a": 1, "b": 2}}]
    scenario.say(ended("end", {"end": "so"}))
    assert (scenario.state.end, scenario.state.result) == ("DONE", {"end": "so"})


@pytest.mark.parametrize("count", [1, 50, 200])
def test_a_plan_of_one_task_goes_the_same_way_as_a_large_one(count: int) -> None:
    names = [f"s{number}" for number in range(count)]
    scenario = planning(plans={"steps": 200}).say(says([proposed(name) for name in names]))
    assert [type(one).__name__ for one in scenario.last[:3]] == ["TaskEnded", "FactCommitted", "PlanExtended"]
    while not scenario.state.end:
        task = scenario.tasks_in_flight()[0]
        scenario.say(ended(task.task, {task.items[0].key: 1}))
    assert scenario.state.end == "DONE"
    assert len(scenario.state.tasks) == count + 2
    assert {f"plan_facts.{name}" for name in names} < set(scenario.state.facts)


def test_a_planned_step_sees_what_the_planning_one_saw_and_nothing_that_its_plan_does_not_name() -> None:
    steps = [
        step("a"),
        step("plan", "plan", needs=["a"], plans={}),
        step("z"),
    ]
    one = proposed(
        "x", input={"a": ("expression", "facts.a"), "q": ("expression", "input.q"), "z": ("expression", "[facts.z]")}
    )
    scenario = planning().say(teach(*steps, team="u"), goal({"q": 5}, team="u", run="r2"))
    for said in (ended("z", {"z": 3}, run="r2"), ended("a", {"a": 4}, run="r2"), says([one])._replace(run="r2")):
        scenario.say(said)
    (task,) = scenario.tasks_in_flight("r2")
    assert task.items[0].input == {"a": 4, "q": 5, "z": [None]}


def test_a_missing_value_of_a_planned_step_may_be_allowed() -> None:
    plan = [proposed("a", missing="allow"), proposed("b")]
    scenario = planning().say(says(plan), failed("plan_a", "LOW_CONFIDENCE"), ended("plan_b", {"plan_facts.b": 2}))
    assert scenario.tasks_in_flight()[0].items[0].input == {"parts": {"b": 2}}
    scenario.say(ended("end", {"end": 1}))
    assert (scenario.state.end, scenario.state.reason) == ("DEGRADED", "without plan_facts.a (LOW_CONFIDENCE)")


def test_or_ends_the_run() -> None:
    scenario = planning().say(says(TWO), failed("plan_a", "LOW_CONFIDENCE"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "LOW_CONFIDENCE")


def test_budgets_are_those_of_the_contract_unless_the_plan_says_less() -> None:
    plan = [proposed("a"), proposed("b", budget={"tokens": 5})]
    scenario = planning(offer("w", "work", budget={"tokens": 9, "tool_calls": 2})).say(says(plan))
    steps = {one.id: one.budget for one in scenario.state.plan}
    assert (steps["plan_a"], steps["plan_b"]) == (Limits(9, 2), Limits(5, 2))
    assert [task.budget for task in scenario.tasks_in_flight()] == [Limits(9, 2), Limits(5, 2)]


def test_all_of_what_is_left_may_be_planned() -> None:
    plan = [proposed("a", budget={"tokens": 40}), proposed("b", budget={"tokens": 50})]
    scenario = planning(budget={"tokens": 100}, planner={"budget": {"tokens": 10}})
    used = says(plan)
    used.body["usage"] = {"input_tokens": 10}
    scenario.say(used)
    assert scenario.state.reserved.tokens == 90
    assert scenario.state.charged.tokens == 10


def test_what_is_granted_holds_for_whoever_comes_later() -> None:
    """Somebody with a tool that the plan was not granted is attached when the plan is committed already."""
    scenario = planning(plans={"tools": ["look"], "scopes": ["read"]}).say(
        says([proposed("a"), proposed("b", needs=["a"])])
    )
    wide = offer("a-wide", "work", tools=[{"tool": "pay", "scopes": ["read"]}])
    scenario.say(wide, offer("b-wide", "work", tools=[{"tool": "look", "scopes": ["read", "write"]}]))
    scenario.say(ended("plan_a", {"plan_facts.a": 1}))
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["w"]
    for _ in range(3):
        scenario.say(Due("task.plan_b"))
    assert scenario.state.tasks["plan_b"].specialist == "w"
    assert scenario.state.step("plan_b").where.only == Grants(("look",), ("read",))


def test_who_may_change_the_world_is_asked_about_first() -> None:
    plans = {"authority": "effect", "gate": {"ask": "planned", "who": ["ann"], "expires_s": 9}}
    scenario = planning(offer("x", "pay", authority="effect"), plans=plans)
    scenario.say(says([proposed("a", "pay", gate="pay 5?")]))
    gate = scenario.state.gates["plan_a"]
    assert (gate.ask, gate.who, gate.expires_ms, gate.open) == ("planned: pay 5?", ("ann",), 9_000, True)
    assert not scenario.state.in_flight
    scenario.say(approve(gate.digest, "plan_a", "ann"))
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["x"]


def test_after_a_refusal_it_is_asked_again_with_the_reasons() -> None:
    scenario = planning()
    first = scenario.tasks_in_flight()[0].items[0].input["planning"]
    assert (first["refused"], first["previous"]) == ([], None)
    bad = [proposed("a", "play")]
    scenario.when(says(bad)).then(
        event("task_ended", code="", task="plan"),
        event("plan_refused", number=1, again=True, by="p", reasons=["step 'a': nobody offers 'play'"]),
        event("task_delayed", task="plan", delay_ms=0),
        event("plan_asked", task="plan"),
        event("task_dispatched", task="plan", attempt=2, specialist="p"),
    )
    again = scenario.tasks_in_flight()[0].items[0].input["planning"]
    assert (again["refused"], again["previous"]) == (["step 'a': nobody offers 'play'"], {"steps": bad})
    assert again["offers"] == first["offers"]
    scenario.say(says(TWO, 2))
    assert "plan_a" in scenario.state.steps


@pytest.mark.parametrize("proposals", [1, 3])
def test_after_so_many_the_run_ends_and_says_why(proposals: int) -> None:
    scenario = planning(plans={"proposals": proposals})
    for attempt in range(1, proposals + 1):
        scenario.say(says([proposed("a", f"play-{attempt}")], attempt))
    reason = f"{proposals} plans were refused, the last because step 'a': nobody offers 'play-{proposals}'"
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "PLAN_REFUSED")
    assert scenario.state.reason == f"no value for plan: {reason}"
    gone = scenario.state.missing["plan"]
    assert (gone.code, gone.message, [one.by for one in gone.losers]) == ("INVALID_OUTPUT", reason, ["p"])
    assert not [one for one in scenario.state.plan if one.planned_by]


def test_a_plan_that_may_be_missed_is_missed() -> None:
    scenario = planning(plans={"proposals": 1}, planner={"missing": "allow"}).say(says([]))
    assert scenario.tasks_in_flight()[0].items[0].input == {"parts": None}


def test_other_steps_may_take_the_place_of_a_plan() -> None:
    replans = [{"step": "plan", "steps": [step("plain")]}]
    scenario = planning(plans={"proposals": 1}, replans=replans).say(says([]))
    assert [task.task for task in scenario.tasks_in_flight()] == ["plain"]


def test_steps_that_come_later_and_need_the_plan_wait_for_what_it_planned() -> None:
    """The step that fails is not planned; what takes its place needs the plan, and so all of it."""
    steps = [step("plan", "plan", plans={}), step("odd")]
    replans = [{"step": "odd", "steps": [step("instead", needs=["plan"])]}]
    scenario = planning().say(teach(*steps, team="u", replans=replans), goal({}, team="u", run="r2"))
    scenario.say(says(TWO)._replace(run="r2"), failed("odd", "LOW_CONFIDENCE", run="r2"))
    assert scenario.of("r2").step("instead").needs == ("plan", "plan_a", "plan_b")
    assert [task.task for task in scenario.tasks_in_flight("r2")] == ["plan_a"]


def test_a_parent_does_not_ask_again_for_a_child_whose_plans_were_refused() -> None:
    scenario = planning(plans={"proposals": 1})
    scenario.say(teach(step("c", team="t", attempts=3), team="outer"), goal({}, team="outer", run="r2"))
    child = scenario.of("r2").tasks["c"].child
    told = ChildEnded(
        task="c", child=child, end="FAILED", code="PLAN_REFUSED", reason="", result=None, usage=Usage(), version=1, h=""
    )
    scenario.say(Said("wake", "", told, "r2"))
    assert (scenario.of("r2").end, scenario.of("r2").code) == ("FAILED", "BUDGET_EXCEEDED")


def test_plans_are_judged_as_of_the_catalogue_below_the_proposal() -> None:
    scenario = planning()
    assert [one["specialist"] for one in scenario.tasks_in_flight()[0].items[0].input["planning"]["offers"]] == ["w"]
    scenario.say(offer("x", "play"), says([proposed("a", "play")]))
    assert "plan_a" in scenario.state.steps
    scenario = planning(offer("x", "play")).say(offer("x"), says([proposed("a", "play")]))
    assert scenario.state.tasks["plan"].refused is not None


@pytest.mark.parametrize(
    ("fields", "problem"),
    [
        ({"call": {}}, "one plan is asked for"),
        ({"critique": {"capability": "c", "accept": "x"}}, "one plan is asked for"),
        ({"for_each": "input.l"}, "one plan is asked for"),
        ({"specialist": "all"}, "of one specialist"),
        ({"replaces": True}, "not taken back"),
        ({"merge": {"policy": "first"}}, "there is one plan"),
        ({"fact": "x.{input.y}"}, "a plain key"),
        ({"fact": "plan_facts"}, "lie inside each other"),
        ({"plans": {"facts": "plan.x"}}, "lie inside each other"),
        ({"plans": {"facts": "no key"}}, "cannot be the beginning"),
        ({"input": {"planning": "input"}}, "what the supervisor says"),
        ({"id": "p" * 25}, "24 characters"),
        ({"capability": "", "value": "input"}, "only a step with a capability"),
    ],
)
def test_steps_that_cannot_plan(fields: dict[str, Any], problem: str) -> None:
    said = teach({"id": "plan", "capability": "plan", "plans": {}} | fields)
    refused = read_playbook(said.data, "t")
    assert isinstance(refused, str)
    assert problem in refused


def test_a_plan_that_rests_on_older_facts_says_so() -> None:
    steps = [
        step("a"),
        step("plan", "plan", needs=["a"], reads=["a"], stale="mark", plans={}),
        step("r", "other", needs=["a"], fact="a", replaces=True),
    ]
    scenario = planning(offer("v", "other")).say(teach(*steps, team="u"), goal({}, team="u", run="r2"))
    scenario.say(ended("a", {"a": 1}, run="r2"), ended("r", {"a": 2}, by="v", run="r2"))
    scenario.say(says(TWO)._replace(run="r2"))
    assert scenario.of("r2").facts["plan"].stale == ("a",)
    assert "plan_a" in scenario.of("r2").steps


def test_what_a_plan_did_not_bring_about_is_planned_again() -> None:
    again = step(
        "again",
        "plan",
        needs=["plan"],
        when="missing",
        plans={},
        input={"goal": "input.q", "without": "missing"},
        reads=["plan_facts.*"],
    )
    end = step("end", needs=["again"], input={"first": "facts.plan_facts", "second": "facts.again_facts"})
    steps = [step("plan", "plan", plans={"missing": "allow"}), again, end]
    asked = [teach(*steps, team="u", returns={"end": "facts.end"}), goal({"q": 5}, team="u", run="r2")]
    scenario = planning().say(*asked, says([proposed("a"), proposed("b")])._replace(run="r2"))
    scenario.say(ended("plan_a", {"plan_facts.a": 1}, run="r2"))
    scenario.say(failed("plan_b", "LOW_CONFIDENCE", run="r2"))
    (task,) = scenario.tasks_in_flight("r2")
    assert (task.task, task.items[0].input["goal"], task.items[0].input["without"]) == ("again", 5, ["plan_facts.b"])
    assert {key: fact.value for key, fact in task.facts.items()} == {"plan_facts.a": 1}
    assert "facts.plan_facts.a" in task.items[0].input["planning"]["known"]
    scenario.say(
        says([proposed("b", input={"a": ("expression", "facts.plan_facts.a")})], task="again")._replace(run="r2")
    )
    scenario.say(ended("again_b", {"again_facts.b": 2}, run="r2"))
    (task,) = scenario.tasks_in_flight("r2")
    assert task.items[0].input == {"first": {"a": 1}, "second": {"b": 2}}
    scenario.say(ended("end", {"end": 3}, run="r2"))
    assert (scenario.of("r2").end, scenario.of("r2").reason) == ("DEGRADED", "without plan_facts.b (LOW_CONFIDENCE)")


def test_and_where_all_went_well_it_is_not() -> None:
    again = step("again", "plan", needs=["plan"], when="missing", plans={})
    steps = [step("plan", "plan", plans={"missing": "allow"}), again]
    scenario = planning().say(teach(*steps, team="u"), goal({}, team="u", run="r2"))
    scenario.say(says([proposed("a")])._replace(run="r2"), ended("plan_a", {"plan_facts.a": 1}, run="r2"))
    assert scenario.of("r2").end == "DONE"
