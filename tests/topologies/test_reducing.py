"""Reducing: a step that is an expression makes one fact of many, without a specialist."""

from typing import Any

import pytest

from tests.supervisor.scenario import Due, Said, Scenario, ended, event, failed, given, goal, offer, step, teach


def counted(value: str, *said: Said | Due, names: tuple[str, ...] = ("a", "b", "c"), **fields: Any) -> Scenario:
    """A run that counts for each name, and reduces the counts to `total`."""
    steps = [
        step("count", for_each="input.names", fact="count.{item}", input={"name": "item"}, missing="allow"),
        step("total", "", needs=["count"], value=value, **fields),
    ]
    playbook = teach(*steps, returns={"total": "facts.total", "missing": "missing"})
    return given(offer("w", "work"), playbook, goal({"names": list(names)}), *said)


def count(number: int, value: Any, name: str = "") -> Said:
    return ended(f"count-{number}", {f"count.{name or 'abc'[number]}": value})


ALL = (count(0, 3), count(1, 5), count(2, 10))


@pytest.mark.parametrize(
    ("value", "total"),
    [
        ("sum(values(facts.count))", 18),
        ("avg(values(facts.count))", 6),
        ("max(values(facts.count))", 10),
        ("length(values(facts.count))", 3),
        ("values(facts.count)[?@ > `4`] | sort(@)", [5, 10]),
        ("{sum: sum(values(facts.count)), of: length(input.names)}", {"sum": 18, "of": 3}),
        ("`0`", 0),
        ("`false`", False),
        ("`[]`", []),
    ],
)
def test_expression_over_the_facts_of_a_fan_out(value: str, total: Any) -> None:
    scenario = counted(value, *ALL)
    assert scenario.state.result == {"total": total, "missing": []}
    fact = scenario.state.facts["total"]
    assert (fact.policy, fact.by, fact.task) == ("value", "", "")


def test_reduced_in_the_decision_about_the_last_of_them() -> None:
    counted("sum(values(facts.count))", *ALL[:2]).when(ALL[2]).then(
        event("task_ended"),
        event("fact_committed", key="count.c"),
        event("step_expanded", step="total", voices=[]),
        event("fact_committed", key="total", value=18),
        event("run_ended", end="DONE"),
    )


def test_what_is_missing_is_left_out_and_named() -> None:
    scenario = counted("sum(values(facts.count))", *ALL[:2], failed("count-2", "LOW_CONFIDENCE", message="unreadable"))
    assert (scenario.state.end, scenario.state.reason) == ("DEGRADED", "without count.c (LOW_CONFIDENCE)")
    assert scenario.state.result == {"total": 8, "missing": ["count.c"]}


def test_one_that_is_down_is_left_out_and_named() -> None:
    scenario = counted("sum(values(facts.count))", *ALL[:2])
    while not scenario.state.end:
        scenario.say(Due("task.count-2"))
    assert (scenario.state.end, scenario.state.reason) == ("DEGRADED", "without count.c (TIMEOUT)")
    assert scenario.state.result == {"total": 8, "missing": ["count.c"]}


NOTHING = tuple(failed(f"count-{number}", "LOW_CONFIDENCE") for number in range(3))


LACKING = "count.a (LOW_CONFIDENCE), count.b (LOW_CONFIDENCE), count.c (LOW_CONFIDENCE)"


@pytest.mark.parametrize(
    ("missing", "end", "reason"),
    [
        (
            "fail",
            "FAILED",
            f"no value for total: 'sum(values(facts.count))' cannot be evaluated here; without {LACKING}",
        ),
        ("allow", "DEGRADED", f"without {LACKING}, total (INVALID_INPUT)"),
    ],
)
def test_expression_that_cannot_be_evaluated_is_no_value(missing: str, end: str, reason: str) -> None:
    """There is nothing to sum up: not the end of a run that may go without."""
    scenario = counted("sum(values(facts.count))", *NOTHING, missing=missing)
    assert (scenario.state.end, scenario.state.reason) == (end, reason)


def test_expression_that_stands_in_for_nothing() -> None:
    scenario = counted("sum(values(facts.count || `{}`))", *NOTHING)
    assert scenario.state.result == {"total": 0, "missing": ["count.a", "count.b", "count.c"]}


def test_expression_that_gives_nothing_is_no_value() -> None:
    scenario = counted("facts.count.z", *ALL)
    assert (scenario.state.end, scenario.state.reason) == (
        "FAILED",
        "no value for total: facts.count.z gives nothing here",
    )


def test_each_item_may_be_computed() -> None:
    steps = [
        step("square", "", for_each="input.n", value="sum([item, item])", fact="double.k{index}"),
        step("all", "", needs=["square"], value="values(facts.double)"),
    ]
    scenario = given(teach(*steps, returns={"all": "facts.all"})).say(goal({"n": [1, 2, 3]}))
    assert (scenario.state.end, scenario.state.result, scenario.state.tasks) == ("DONE", {"all": [2, 4, 6]}, {})


def test_chains_of_expressions_are_decided_at_once_in_any_order_of_the_plan() -> None:
    steps = [
        step("c", "", needs=["b"], value="sum([facts.b, `1`])"),
        step("a", "", value="input.n"),
        step("b", "", needs=["a"], value="sum([facts.a, `1`])"),
    ]
    given(teach(*steps, returns={"c": "facts.c"})).when(goal({"n": 1})).then(
        event("run_opened"),
        event("plan_committed"),
        *(one for name in "abc" for one in (event("step_expanded", step=name), event("fact_committed", key=name))),
        event("run_ended", end="DONE", result={"c": 3}),
    )


def test_value_that_is_too_large_is_none() -> None:
    steps = [step("a", "", value="[input.text, input.text]")]
    scenario = given(teach(*steps)).say(goal({"text": "x" * 40_000}))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_OUTPUT")
    assert scenario.state.reason == "no value for a: the value is over 65536 bytes"
