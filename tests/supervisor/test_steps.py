"""Steps: who takes part, what they become, in which order, and what they see."""

from typing import Any

import pytest

from tests.supervisor.scenario import (
    Scenario,
    cancel,
    ended,
    event,
    failed,
    given,
    goal,
    offer,
    run_with,
    started,
    step,
    teach,
)


def items(count: int, **fields: Any) -> Scenario:
    steps = [step("a", for_each="input.n", fact="v.k{item}", input={"x": "item"}, **fields)]
    return given(offer("w", "work"), teach(*steps, returns={"v": "facts.v"}), goal({"n": list(range(count))}))


def test_no_items_is_done_at_once_and_needs_nobody() -> None:
    steps = [step("a", "rare", for_each="input.n", fact="v.{item}")]
    given(teach(*steps, returns={"v": "facts.v"})).when(goal({"n": []})).then(
        event("run_opened"),
        event("plan_committed"),
        event("step_expanded", items=0, voices=[]),
        event("run_ended", end="DONE", result={"v": None}),
    )


def test_one_item_is_one_task_with_the_name_of_the_step() -> None:
    scenario = items(1)
    assert list(scenario.state.tasks) == ["a"]
    assert scenario.when(ended("a", {"v.k0": 1})).state.result == {"v": {"k0": 1}}


def test_many_items_are_tasks_with_an_index() -> None:
    scenario = items(3)
    assert list(scenario.state.tasks) == ["a-0", "a-1", "a-2"]
    assert [[(item.key, item.input) for item in task.items] for task in scenario.tasks_in_flight()] == [
        [(f"v.k{index}", {"x": index})] for index in range(3)
    ]


@pytest.mark.parametrize(
    ("count", "tasks", "groups"),
    [(5, 2, [3, 2]), (5, 1, [5]), (5, 5, [1] * 5), (5, 9, [1] * 5), (4, 3, [2, 2]), (257, 256, [2] * 128 + [1])],
)
def test_items_share_tasks(count: int, tasks: int, groups: list[int]) -> None:
    scenario = items(count, tasks=tasks)
    assert [len(scenario.state.tasks)] == [len(groups)]
    in_flight = scenario.tasks_in_flight()
    assert [len(task.items) for task in in_flight] == groups[: len(in_flight)]


def test_group_is_decided_when_its_task_ends() -> None:
    scenario = items(3, tasks=2)
    scenario.when(ended("a-0", {"v.k1": 1, "v.k0": 0})).then(
        event("task_ended"), event("fact_committed", key="v.k0", value=0), event("fact_committed", key="v.k1", value=1)
    )
    assert scenario.state.steps["a"].status == "dispatched"
    assert scenario.when(ended("a-1", {"v.k2": 2})).state.result == {"v": {"k0": 0, "k1": 1, "k2": 2}}


def test_every_group_has_each_voice() -> None:
    steps = [step("a", for_each="input.n", fact="v.{item}", specialist="all", tasks=2)]
    team = [offer("w", "work"), offer("v", "work"), teach(*steps)]
    scenario = given(*team, goal({"n": ["x", "y", "z"]}))
    shown = [(task.task, task.specialist, [item.key for item in task.items]) for task in scenario.tasks_in_flight()]
    assert shown == [
        ("a-0", "v", ["v.x", "v.y"]),
        ("a-1", "w", ["v.x", "v.y"]),
        ("a-2", "v", ["v.z"]),
        ("a-3", "w", ["v.z"]),
    ]
    scenario.when(ended("a-0", {"v.x": 1, "v.y": 1}, by="v")).then(event("task_ended"))
    scenario.when(ended("a-1", {"v.x": 1, "v.y": 1})).then(
        event("task_ended"), event("fact_committed", key="v.x"), event("fact_committed", key="v.y")
    )


@pytest.mark.parametrize(
    ("specialist", "voices"), [("", ["u"]), ("v", ["v"]), ("all", ["u", "v", "w"]), ("x", None), ("other", None)]
)
def test_who_takes_part(specialist: str, voices: list[str] | None) -> None:
    offers = [offer("w", "work"), offer("u", "other", "work"), offer("v", "work"), offer("other", "other")]
    scenario = given(*offers, teach(step("a", specialist=specialist)), goal())
    if voices is None:
        assert scenario.state.steps["a"].awaiting == f"work@{specialist}"
    else:
        assert [voice.specialist for voice in scenario.state.steps["a"].voices] == voices


def test_parallel_caps_the_tasks_in_flight_and_an_end_lets_the_next_one_go() -> None:
    steps = [step("a", for_each="input.n", fact="v.k{item}"), step("b")]
    scenario = given(offer("w", "work"), teach(*steps, parallel=2), goal({"n": [0, 1, 2]}))
    assert [task.task for task in scenario.tasks_in_flight()] == ["a-0", "a-1"]
    scenario.when(ended("a-1", {"v.k1": 1})).then(
        event("task_ended"), event("fact_committed"), event("task_dispatched", task="a-2")
    )
    scenario.when(failed("a-0", "TOOL_DOWN")).then(
        event("attempt_failed"), event("task_dispatched", task="a-0", attempt=2)
    )
    scenario.when(ended("a-2", {"v.k2": 1})).then(
        event("task_ended"), event("fact_committed"), event("task_dispatched", task="b")
    )


def test_needs_come_first_and_are_seen() -> None:
    steps = [step("b", needs=["a"], input={"x": "facts.a.n", "mine": "input.m"}), step("a"), step("c", needs=["b"])]
    scenario = given(offer("w", "work"), teach(*steps), goal({"m": 7}))
    assert [task.task for task in scenario.tasks_in_flight()] == ["a"]
    scenario.when(ended("a", {"a": {"n": 3}})).then(
        event("task_ended"), event("fact_committed"), event("step_expanded", step="b"), event("task_dispatched")
    )
    assert scenario.tasks_in_flight()[0].items[0].input == {"x": 3, "mine": 7}


def test_step_sees_only_the_facts_of_what_it_needs() -> None:
    steps = [
        step("a"),
        step("b"),
        step("c", needs=["b"], input={"a": "facts.a", "b": "facts.b"}, reads=["a", "b"]),
    ]
    scenario = given(offer("w", "work"), teach(*steps), goal(), ended("a", {"a": 1}), ended("b", {"b": 2}))
    (task,) = scenario.tasks_in_flight()
    assert task.items[0].input == {"a": None, "b": 2}
    assert {key: fact.value for key, fact in task.facts.items()} == {"b": 2}


def test_reads_give_facts_with_their_versions() -> None:
    steps = [
        step("a", for_each="input.n", fact="v.x.{item}"),
        step("o", fact="other"),
        step("b", needs=["a", "o"], reads=["v.*"]),
        step("c", needs=["a", "o"], reads=["v.x.p", "v.x"]),
    ]
    scenario = given(offer("w", "work"), teach(*steps), goal({"n": ["p", "q"]}))
    scenario.say(ended("a-0", {"v.x.p": 1}), ended("a-1", {"v.x.q": 2}), ended("o", {"other": 3}))
    b, c = scenario.tasks_in_flight()
    versions = {key: fact.version for key, fact in scenario.state.facts.items()}
    assert {key: (fact.value, fact.version) for key, fact in b.facts.items()} == {
        "v.x.p": (1, versions["v.x.p"]),
        "v.x.q": (2, versions["v.x.q"]),
    }
    assert list(c.facts) == ["v.x.p"]
    assert b.read_version < scenario.state.version


@pytest.mark.parametrize("value", [False, None, "", [], {}])
def test_when_that_is_not_true_skips_the_step(value: Any) -> None:
    steps = [step("a", when="input.x"), step("b", needs=["a"])]
    scenario = given(offer("w", "work"), teach(*steps, returns={"b": "facts.b"}))
    scenario.when(goal({"x": value})).then(
        event("run_opened"),
        event("plan_committed"),
        event("step_skipped", step="a", reason="input.x is not true"),
        event("step_expanded", step="b"),
        event("task_dispatched", task="b"),
    )
    assert scenario.when(ended("b", {"b": 1})).state.end == "DONE"


@pytest.mark.parametrize("value", [True, 0, 0.0, "x", [0], {"a": None}])
def test_when_that_is_true_does_not(value: Any) -> None:
    scenario = given(offer("w", "work"), teach(step("a", when="input.x")), goal({"x": value}))
    assert scenario.state.steps["a"].status == "dispatched"


def test_all_skipped_is_done() -> None:
    assert given(teach(step("a", when="input.x")), goal()).state.end == "DONE"


def test_missing_keys_are_seen_by_what_comes_after() -> None:
    steps = [step("a", missing="allow"), step("b", needs=["a"], input={"gone": "missing"})]
    scenario = run_with(failed("a", "LOW_CONFIDENCE"), steps=steps)
    assert scenario.tasks_in_flight()[0].items[0].input == {"gone": ["a"]}


BAD = {
    "when": step("a", when="sum(input.x)"),
    "for_each": step("a", for_each="input.x"),
    "for_each cannot be evaluated": step("a", for_each="keys(input.n)"),
    "input": step("a", input={"x": "sum(input.x)"}),
    "input of an item": step("a", for_each="input.n", input={"x": "length(item)"}, fact="v.{index}"),
    "key is no token": step("a", fact="{input.bad}"),
    "key is neither text nor number": step("a", fact="v.{input.n}"),
    "key is true": step("a", fact="v.{input.true}"),
    "key has too many segments": step("a", fact="{input.long}"),
    "accept": step("a", accept="sum(value) > `1`"),
    "python error": step("a", when="contains(input.x, `5`)"),
    "slice of step 0": step("a", when="input.n[::0]"),
    "not finite": step("a", input={"x": "to_number('nan')"}),
    "half of a character": step("a", input={"x": '`"\\ud800"`'}),
}


@pytest.mark.parametrize("bad", BAD.values(), ids=BAD)
def test_expression_that_does_not_fit_the_run_fails_it_as_invalid_input(bad: dict[str, Any]) -> None:
    input = {"x": "text", "n": [1, 2], "bad": "a b", "true": True, "long": ".".join("abcdefghijklmnopq")}
    scenario = given(offer("w", "work"), teach(bad), goal(input))
    if not scenario.state.end:  # seen when a claim is there to be accepted
        scenario.say(ended("a", {"a": 5}))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_INPUT"), scenario.state.end
    assert scenario.state.reason


@pytest.mark.parametrize("bad", ["sum(facts.a)", "[facts][::0]", "to_number('inf')", "contains(facts.a, `5`)"])
def test_result_that_cannot_be_evaluated_fails_the_run_as_invalid_input(bad: str) -> None:
    scenario = run_with(returns={"x": bad}).when(ended("a", {"a": "text"}))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_INPUT")


def test_bad_expression_after_an_end_keeps_what_was_decided_before_it() -> None:
    steps = [step("a"), step("b", needs=["a"], when="sum(facts.a)")]
    run_with(steps=steps).when(ended("a", {"a": "x"})).then(
        event("task_ended"), event("fact_committed"), event("run_ended", end="FAILED", code="INVALID_INPUT")
    )


def test_items_with_the_same_key_fail_the_run() -> None:
    steps = [step("a", for_each="input.n", fact="v.{item}")]
    scenario = given(offer("w", "work"), teach(*steps), goal({"n": ["x", "y", "x"]}))
    assert scenario.state.reason == "step 'a' names a key twice: 'v.x'"


@pytest.mark.parametrize("missing", [False, True])
def test_step_with_a_key_that_another_has_decided_fails_the_run(missing: bool) -> None:
    steps = [step("a", fact="x", missing="allow"), step("b", needs=["a"], fact="x")]
    scenario = run_with(failed("a", "LOW_CONFIDENCE") if missing else ended("a", {"x": 1}), steps=steps)
    assert scenario.state.reason == "step 'b' names the key 'x', which another step has decided"


@pytest.mark.parametrize("keys", [("x", "x.y"), ("x.y", "x"), ("x.y.z", "x"), ("x", "x.y.z"), ("x.y", "x.y.z")])
def test_key_inside_another_key_fails_what_sees_both(keys: tuple[str, str]) -> None:
    steps = [step("a", fact=keys[0]), step("b", fact=keys[1])]
    scenario = run_with(ended("a", {keys[0]: {"y": 1}}), ended("b", {keys[1]: 2}), steps=steps)
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_INPUT")
    assert "inside key" in scenario.state.reason


def test_two_keys_that_only_look_alike_do_not_clash() -> None:
    steps = [step("a", fact="x"), step("b", fact="x-y.z"), step("c", fact="xy")]
    scenario = run_with(ended("a", {"x": 1}), ended("b", {"x-y.z": 2}), ended("c", {"xy": 3}), steps=steps)
    assert scenario.state.end == "DONE"


def test_steps_that_decide_one_key_side_by_side() -> None:
    """Neither has decided it when the other is expanded; the second to be decided must not replace the first."""
    steps = [step("a", fact="x"), step("b", fact="x")]
    scenario = run_with(ended("a", {"x": 1}), steps=steps)
    assert scenario.when(ended("b", {"x": 2})).state.end == "FAILED"
    assert scenario.state.facts["x"].value == 1


def test_ended_run_has_nothing_in_flight() -> None:
    scenario = items(3, missing="fail").when(failed("a-1", "INVALID_INPUT"))
    assert scenario.state.end == "FAILED"
    assert not scenario.state.timers
    scenario.when(ended("a-0", {"v.k0": 1})).then(event("input_late", reason="the run has ended"))
    scenario.when(started("a-2")).then()
    scenario.when(cancel()).then(event("input_late", author="ann"))
