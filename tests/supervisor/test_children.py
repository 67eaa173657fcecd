"""Child runs: a step that asks another team, and what each side is told."""

from typing import Any

import pytest

from schemas.inputs import ChildEnded
from supervisor import effects
from supervisor.policy import DEPTH_LIMIT, child_run
from tests.supervisor.scenario import Due, Said, Scenario, cancel, ended, event, failed, given, goal, offer, step, teach

CHILD = child_run("r1", "a", 1)
TEAMS = (
    offer("w", "work"),
    teach(step("x", attempts=1), team="u", returns={"x": "facts.x"}),
    teach(step("a", team="u", input={"n": "input.n"}, attempts=2), returns={"a": "facts.a"}),
)


def relatives(scenario: Scenario) -> list[Said]:
    """What a supervisor would append now: goals of children, and wakes."""
    said: list[Said] = []
    states = {run: scenario.of(run) for run in scenario.folded if run != "_board"}
    for run, state in states.items():
        unasked = [child for child in effects.child_goals(state) if not scenario.of(child.run).goal]
        said += [Said("goal", "_supervisor", child.data, child.run) for child in unasked]
        parent = states.get(state.parent.run) if state.parent else None
        if parent and (wake := effects.wake_for_parent(state, "00", parent)):
            said.append(Said("wake", "", wake, parent.run))
        if parent and (wake := effects.wake_for_child(parent, state)):
            said.append(Said("wake", "", wake, run))
    return said


def settle(scenario: Scenario, most: int = 100) -> Scenario:
    """Append what follows, until nothing does."""
    for _ in range(most):
        if not (said := relatives(scenario)):
            return scenario
        scenario.say(*said)
    raise AssertionError(f"still something to append after {most} rounds")


def asked(*said: Said | Due) -> Scenario:
    return settle(given(*TEAMS, goal({"n": 1}), *said))


def test_child_gets_a_goal_that_is_the_same_whenever_it_is_derived() -> None:
    scenario = given(*TEAMS, goal({"n": 1}))
    (said,) = relatives(scenario)
    assert (said.run, said.data) == (
        CHILD,
        b'{"type":"goal","v":1,"team":"u","input":{"n":1},"approve":false,"parent":{"run":"r1","task":"a","depth":1}}',
    )
    scenario.when(said).then(
        event("run_opened", publisher="_supervisor", parent={"run": "r1", "task": "a", "depth": 1}),
        event("plan_committed"),
        event("step_expanded"),
        event("task_dispatched"),
    )
    assert relatives(scenario) == []


def test_result_of_the_child_is_the_claim_of_its_task() -> None:
    scenario = asked().say(ended("x", {"x": 7}, run=CHILD, usage={"input_tokens": 3}))
    scenario.when(*relatives(scenario)).then(
        event("task_ended", specialist="u", execution=CHILD, usage={"input_tokens": 3}),
        event("fact_committed", key="a", value={"x": 7}, by="u"),
        event("run_ended", end="DONE", result={"a": {"x": 7}}),
    )
    assert relatives(scenario) == []


def test_parent_is_told_once_however_often_it_is_told() -> None:
    scenario = asked().say(ended("x", {"x": 7}, run=CHILD))
    (wake,) = relatives(scenario)
    scenario.say(wake).when(wake).then()


@pytest.mark.parametrize(
    ("code", "end", "parent_code", "again"),
    [
        ("TOOL_DOWN", "FAILED_RETRYABLE", "TOOL_DOWN", True),
        ("TIMEOUT", "FAILED_RETRYABLE", "TOOL_DOWN", True),
        ("INTERNAL", "FAILED", "INTERNAL", True),
        ("INVALID_OUTPUT", "FAILED", "INVALID_OUTPUT", True),
        ("INVALID_INPUT", "FAILED", "INVALID_INPUT", False),
        ("LOW_CONFIDENCE", "FAILED", "LOW_CONFIDENCE", False),
        ("BUDGET_EXCEEDED", "FAILED", "BUDGET_EXCEEDED", False),
        ("POLICY_BLOCKED", "POLICY_BLOCKED", "POLICY_BLOCKED", False),
    ],
)
def test_child_that_fails_is_asked_again_where_that_may_help(
    code: str, end: str, parent_code: str, again: bool
) -> None:
    scenario = asked().say(failed("x", code, run=CHILD))
    assert scenario.of(CHILD).end == end
    scenario.say(*relatives(scenario))
    if not again:
        assert (scenario.state.end, scenario.state.code) == (end, parent_code)
        return
    second = child_run("r1", "a", 2)
    scenario.then(
        event("attempt_failed", code=parent_code, execution=CHILD), event("task_dispatched", attempt=2, child=second)
    )
    settle(scenario).say(ended("x", {"x": 8}, run=second))
    assert settle(scenario).state.result == {"a": {"x": 8}}


def test_cancelled_parent_cancels_its_child() -> None:
    scenario = settle(asked().say(cancel()))
    assert (scenario.of(CHILD).end, scenario.of(CHILD).reason) == (
        "CANCELLED",
        "the run r1 that asked for it has ended",
    )


def test_goal_of_a_child_that_is_published_after_its_parent_was_cancelled() -> None:
    """A paused supervisor goes on: the child opens, and whoever handles it sees that its parent has ended."""
    scenario = given(*TEAMS, goal({"n": 1}))
    (late,) = relatives(scenario)
    scenario.say(cancel())
    assert relatives(scenario) == []
    assert settle(scenario.say(late)).of(CHILD).end == "CANCELLED"


def test_child_of_an_attempt_that_timed_out_is_cancelled() -> None:
    scenario = settle(asked().say(Due("task.a")))
    second = child_run("r1", "a", 2)
    assert (scenario.of(CHILD).end, scenario.of(second).end) == ("CANCELLED", "")


def test_wake_of_an_old_child_changes_nothing() -> None:
    scenario = asked()
    (wake,) = relatives(scenario.say(ended("x", {"x": 7}, run=CHILD)))
    scenario.say(Due("task.a")).when(wake).then()


def test_parent_that_is_somebody_else_ends_nothing() -> None:
    asked().when(Said("wake", "", {"type": "parent_ended", "parent": "other"}, CHILD)).then()


def test_only_the_supervisor_asks_for_children() -> None:
    parent = {"run": "r1", "task": "a", "depth": 1}
    scenario = given(*TEAMS).when(goal(by="eve", parent=parent))
    assert scenario.rejections() == ["parent: only the supervisor asks for child runs"]


def test_specialist_cannot_end_the_task_of_a_child_run() -> None:
    scenario = asked()
    scenario.when(ended("a", {"a": 1}, by="u")).then(event("input_late", reason="the task is with a child run"))


@pytest.mark.parametrize("teach_later", [teach(step("x"), team="u", input={"required": ["m"]})])
def test_child_goal_out_of_schema_ends_the_child_so_that_its_parent_hears_of_it(teach_later: Said) -> None:
    scenario = settle(given(*TEAMS, goal({"n": 1}), teach_later))
    child = scenario.of(CHILD)
    assert (child.end, child.code, child.reason) == ("FAILED", "INVALID_INPUT", "input: / breaks /required")
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_INPUT")


def test_each_item_is_a_child_of_its_own_even_over_the_cap_of_tasks() -> None:
    steps = [step("a", team="u", for_each="input.n", fact="v.k{item}", input={"n": "item"}, tasks=2)]
    scenario = settle(given(*TEAMS[:2], teach(*steps), goal({"n": [1, 2, 3]})))
    inputs = [scenario.of(run).input for run in scenario.folded if run != "r1"]
    assert inputs == [{"n": 1}, {"n": 2}, {"n": 3}]


def test_team_that_asks_for_itself_ends_at_the_depth_limit_and_costs_one_run_a_level() -> None:
    scenario = settle(given(teach(step("a", team="t")), goal()))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "BUDGET_EXCEEDED")
    assert len(scenario.folded) == DEPTH_LIMIT + 1


def test_usage_of_children_adds_up() -> None:
    scenario = settle(asked().say(failed("x", "TOOL_DOWN", run=CHILD, usage={"tool_calls": 2})))
    scenario.say(ended("x", {"x": 7}, run=child_run("r1", "a", 2), usage={"tool_calls": 3}))
    assert settle(scenario).state.usage.tool_calls == 5


def test_long_names_still_make_ids_that_are_tokens() -> None:
    name, run = "s" * 59, "r" * 64
    steps = [step(name, team="u", for_each="input.n", fact="v.k{item}")]
    scenario = given(*TEAMS[:2], teach(*steps), goal({"n": list(range(1_500))}, run=run))
    for child in effects.child_goals(scenario.of(run)):
        scenario.say(Said("goal", "_supervisor", child.data, child.run))
        assert scenario.of(child.run).goal


@pytest.mark.parametrize("field", ["task", "child"])
def test_wake_about_another_task_or_child(field: str) -> None:
    scenario = asked().say(ended("x", {"x": 7}, run=CHILD))
    (wake,) = relatives(scenario)
    body: Any = wake.body
    assert isinstance(body, ChildEnded)
    fields = {name: getattr(body, name) for name in body.__struct_fields__} | {field: "other"}
    scenario.when(wake._replace(body=ChildEnded(**fields))).then()


def test_run_id_of_a_child_that_a_stranger_took_costs_one_attempt() -> None:
    scenario = given(*TEAMS, goal({"n": 1}), goal(team="u", by="eve", run=CHILD))
    (asked_for,) = effects.child_goals(scenario.state)
    child = scenario.of(CHILD)
    wake = effects.wake_about_child(asked_for, child, "00", scenario.state)
    scenario.when(Said("wake", "", wake)).then(
        event(
            "attempt_failed",
            code="TOOL_DOWN",
            message=f"child run {CHILD} ended FAILED_RETRYABLE TOOL_DOWN: another goal came first",
        ),
        event("task_dispatched", attempt=2, child=child_run("r1", "a", 2)),
    )


def test_parent_of_a_degraded_child_is_degraded_and_says_what_is_missing() -> None:
    child = teach(step("x", attempts=1, missing="allow"), team="u", returns={"x": "facts.x"})
    scenario = settle(given(offer("w", "work"), child, TEAMS[2], goal({"n": 1})))
    scenario.say(failed("x", "LOW_CONFIDENCE", run=CHILD))
    scenario.when(*relatives(scenario)).then(
        event("task_ended", code="", message=f"child run {CHILD} is DEGRADED: without x (LOW_CONFIDENCE)"),
        event("fact_committed", key="a", value={"x": None}),
        event(
            "run_ended", end="DEGRADED", reason=f"without a (child run {CHILD} is DEGRADED: without x (LOW_CONFIDENCE))"
        ),
    )


def test_child_that_a_person_cancels_is_not_asked_for_again() -> None:
    scenario = asked().say(cancel(run=CHILD))
    scenario.when(*relatives(scenario)).then(
        event("task_ended", code="POLICY_BLOCKED"),
        event("fact_missing", key="a", code="POLICY_BLOCKED"),
        event("run_ended", end="POLICY_BLOCKED"),
    )
    assert relatives(scenario) == []
