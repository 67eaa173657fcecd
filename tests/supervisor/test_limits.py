"""Everything has a limit, and each limit is a typed end of the run."""

from typing import Any

import pytest

from schemas.codec import INPUT_EVENTS_LIMIT, STATE_LIMIT, canonical, encode
from tests.supervisor.scenario import Scenario, ended, event, failed, given, goal, offer, run_with, step, teach


def failed_for_budget(scenario: Scenario, reason: str) -> None:
    state = scenario.state
    assert (state.end, state.code) == ("FAILED", "BUDGET_EXCEEDED"), (state.end, state.reason)
    assert reason in state.reason


@pytest.mark.parametrize(("count", "tasks", "end"), [(2_000, 2_000, ""), (2_001, 2_000, ""), (1_999, 2_000, "FAILED")])
def test_two_thousand_tasks_a_run(count: int, tasks: int, end: str) -> None:
    """The first step has one task already; items over `tasks` share tasks."""
    steps = [step("b"), step("a", for_each="input.n", fact="v.k{item}", tasks=tasks)]
    steps = steps[1:] if count >= 2_000 else [*steps, step("c")]
    scenario = given(offer("w", "work"), teach(*steps), goal({"n": list(range(count))}))
    assert scenario.state.end == end
    if end:
        failed_for_budget(scenario, "a run has 2000 at most")


def test_two_thousand_tasks_count_every_voice() -> None:
    steps = [step("a", for_each="input.n", fact="v.k{item}", tasks=1_001, specialist="all")]
    scenario = given(offer("v", "work"), offer("w", "work"), teach(*steps), goal({"n": list(range(1_001))}))
    failed_for_budget(scenario, "step 'a' needs 2002 tasks; a run has 2000 at most")


def test_items_of_one_task() -> None:
    steps = [step("a", for_each="input.n", fact="v.k{item}", tasks=1)]
    scenario = given(offer("w", "work"), teach(*steps), goal({"n": list(range(1_001))}))
    failed_for_budget(scenario, "a task of step 'a' has 1001 items, 1000 at most")


def many(count: int, voices: str = "w", **fields: Any) -> Scenario:
    steps = [step("a", for_each="input.n", fact="v.k{item}", specialist="all", **fields)]
    offers = [offer(name, "work") for name in voices]
    return given(*offers, teach(*steps, parallel=500), goal({"n": list(range(count))}))


def test_events_of_one_input() -> None:
    scenario = many(5, tasks=1)
    said = ended("a", {f"v.k{index}": "x" * 60_000 for index in range(5)}, usage={"input_tokens": 3})
    scenario.when(said).then(
        event("input_late", author="w", task="a", usage={"input_tokens": 3}),
        event("run_ended", end="FAILED", code="BUDGET_EXCEEDED"),
    )
    assert f"the limit is {INPUT_EVENTS_LIMIT}" in scenario.state.reason
    assert not scenario.state.facts


def test_events_of_a_goal_that_is_large_in_itself() -> None:
    scenario = given(offer("w", "work"), teach(step("a"), step("b", input={"x": "input.x"})))
    scenario.when(goal({"x": "y" * (INPUT_EVENTS_LIMIT - 700)})).then(
        event("run_opened"), event("run_ended", end="FAILED", code="BUDGET_EXCEEDED")
    )


def test_goal_that_grows_when_it_is_written_out() -> None:
    said = goal()
    data = said.data[:-1].replace(b'"input": {}', b'"input": {"x": [' + b"1e15," * 50_000 + b"1e15]}") + b"}"
    assert len(data) < INPUT_EVENTS_LIMIT
    scenario = given(offer("w", "work"), teach(step("a"))).when(said._replace(body=data))
    assert "when written out" in scenario.rejections()[0]


def test_state_of_many_values() -> None:
    scenario = many(40)
    for index in range(40):
        scenario.say(ended(f"a-{index}", {f"v.k{index}": "x" * 60_000}))
        if scenario.state.end:
            break
    failed_for_budget(scenario, "the state would have")
    assert len(canonical(scenario.state)) <= STATE_LIMIT


@pytest.mark.parametrize("silent", [False, True])
def test_state_of_many_messages(silent: bool) -> None:
    """They stand in the task, in what is missing and with the voice that said it."""
    scenario = many(400, voices="vw", missing="allow", tasks=400)
    assert len(scenario.state.tasks) == 800
    for index in range(800):
        by, key, message = "vw"[index % 2], f"v.k{index // 2}", "\u0001" * 1_000
        said = failed(f"a-{index}", "LOW_CONFIDENCE", by=by, message=message)
        if silent:
            said = ended(f"a-{index}", by=by)
            said.body["silences"] = [{"key": key, "code": "LOW_CONFIDENCE", "message": message}]
        scenario.say(said)
        assert len(encode(scenario.state)) <= STATE_LIMIT
        if scenario.state.end:
            break
    failed_for_budget(scenario, "the state would have")


def test_messages_are_cut() -> None:
    scenario = run_with(steps=[step("a", missing="allow"), step("b")])
    scenario.say(failed("a", "LOW_CONFIDENCE", message="x" * 100_000))
    assert len(scenario.state.tasks["a"].message) == 1_000


def test_result_is_no_larger_than_a_value() -> None:
    steps = [step("a"), step("b")]
    scenario = run_with(steps=steps, returns={"a": "facts.a", "b": "facts.b"})
    scenario.say(ended("a", {"a": "x" * 40_000}), ended("b", {"b": "x" * 40_000}))
    failed_for_budget(scenario, "the result is over 65536 bytes; return a blob")


def test_task_message_is_no_larger_than_the_queue_takes() -> None:
    first = step("a", for_each="input.n", fact="v.k{item}")
    second = step("b", for_each="input.n", fact="w.k{item}", needs=["a"], input={"all": "facts.v"}, tasks=1)
    scenario = given(offer("w", "work"), teach(first, second), goal({"n": list(range(4))}))
    for index in range(4):
        scenario.say(ended(f"a-{index}", {f"v.k{index}": "x" * 50_000}))
    failed_for_budget(scenario, "a task of step 'b' would have 8")


def test_child_goal_is_no_larger_than_a_goal() -> None:
    first = step("a", for_each="input.n", fact="v.k{item}")
    second = step("b", team="u", needs=["a"], input={"all": "facts.v"})
    scenario = given(offer("w", "work"), teach(step("x"), team="u"), teach(first, second), goal({"n": list(range(5))}))
    for index in range(5):
        scenario.say(ended(f"a-{index}", {f"v.k{index}": "x" * 60_000}))
    failed_for_budget(scenario, "a task of step 'b' would have 30")


def test_reason_of_a_late_input_is_short_whatever_it_names() -> None:
    scenario = run_with().say(ended("x" * 500_000, {}))
    assert len(encode(scenario.last[0])) < 2_000


def test_refused_claims_do_not_repeat_a_long_expression() -> None:
    scenario = run_with(steps=[step("a", accept=f"value == '{'x' * 4_000}'", missing="allow"), step("b")])
    scenario.say(ended("a", {"a": 1}))
    assert len(scenario.state.missing["a"].losers[0].reason) < 300
