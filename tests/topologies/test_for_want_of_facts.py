"""A run that cannot go on because facts are missing names them; where somebody was not there, it may be asked again."""

from typing import Any

import pytest

from tests.supervisor.scenario import Due, Scenario, ended, failed, given, goal, offer, step, teach

WITHOUT_A = "; without a (TIMEOUT)"


def lacking(*steps: dict[str, Any], **playbook: Any) -> Scenario:
    """A run whose step `a` may be missed, and is, because its worker is down; `b` is a step beside it."""
    team = teach(step("a", missing="allow"), step("b", "", value="`1`"), *steps, **playbook)
    scenario = given(offer("w", "work"), offer("v", "other"), team, goal())
    for _ in range(10):
        if "a" not in scenario.state.missing:
            scenario.say(Due("task.a"))
    return scenario


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"for_each": "facts.a"}, "for_each 'facts.a' is no list here; a blob cannot be a list either"),
        ({"for_each": "keys(facts.a)"}, "'keys(facts.a)' cannot be evaluated here"),
        ({"input": {"x": "length(facts.a)"}}, "'length(facts.a)' cannot be evaluated here"),
        ({"when": "length(facts.a) > `0`"}, "'length(facts.a) > `0`' cannot be evaluated here"),
        ({"route": "join('', facts.a)"}, "\"join('', facts.a)\" cannot be evaluated here"),
        ({"fact": "c.{facts.a}"}, "'{facts.a}' is neither text nor a whole number here"),
    ],
    ids=["for_each", "for_each-fails", "input", "when", "route", "fact"],
)
def test_step_that_cannot_begin(fields: dict[str, Any], reason: str) -> None:
    state = lacking(step("c", "other", needs=["a"], **fields)).state
    assert (state.end, state.code, state.reason) == ("FAILED_RETRYABLE", "TIMEOUT", reason + WITHOUT_A)


def test_step_that_does_not_see_it_fails_for_another_reason() -> None:
    scenario = lacking(step("d", "other"), step("c", "other", needs=["d"], for_each="facts.d"))
    state = scenario.say(ended("d", {"d": 1}, by="v")).state
    assert (state.end, state.code) == ("FAILED", "INVALID_INPUT")
    assert state.reason == "for_each 'facts.d' is no list here; a blob cannot be a list either"


def test_expression() -> None:
    state = lacking(step("c", "", needs=["a"], value="sum(facts.a)")).state
    assert (state.end, state.reason) == (
        "FAILED_RETRYABLE",
        f"no value for c: 'sum(facts.a)' cannot be evaluated here{WITHOUT_A}",
    )


def test_result() -> None:
    state = lacking(returns={"n": "length(facts.a)"}).state
    assert (state.end, state.reason) == ("FAILED_RETRYABLE", f"'length(facts.a)' cannot be evaluated here{WITHOUT_A}")


def test_result_that_breaks_its_schema() -> None:
    schema = {"type": "object", "properties": {"a": {"type": "string"}}}
    state = lacking(returns={"a": "facts.a"}, result=schema).state
    assert (state.end, state.code) == ("FAILED_RETRYABLE", "TIMEOUT")
    assert state.reason == f"the result breaks its schema: /a breaks /properties/a/type{WITHOUT_A}"


def test_what_specialists_would_not_say_is_named_too_and_not_asked_again() -> None:
    team = teach(step("a", missing="allow"), returns={"n": "length(facts.a)"})
    scenario = given(offer("w", "work"), team, goal(), failed("a", "LOW_CONFIDENCE"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_INPUT")
    assert scenario.state.reason == "'length(facts.a)' cannot be evaluated here; without a (LOW_CONFIDENCE)"


def test_names_of_many() -> None:
    steps = [step("a", for_each="input.n", fact="a.{item}", missing="allow")]
    team = teach(*steps, returns={"n": "length(facts.a)"})
    scenario = given(offer("w", "work"), team, goal({"n": list("stuvwxyz")}))
    for number in range(8):
        scenario.say(failed(f"a-{number}", "LOW_CONFIDENCE"))
    assert scenario.state.reason.endswith("a.v (LOW_CONFIDENCE), a.w (LOW_CONFIDENCE), …")


def test_key_that_is_taken_is_a_mistake_of_the_playbook() -> None:
    state = lacking(step("c", "", needs=["a"], value="`1`", fact="b")).state
    assert (state.end, state.code) == ("FAILED", "INVALID_INPUT")
    assert state.reason == "step 'c' names the key 'b', which another step has decided"


def test_attempt_that_nobody_answered_and_that_keeps_the_budget_is_missing_because_of_the_silence() -> None:
    """It may have been begun unheard, so what was set aside for it stays so; that does not mean that it was used up."""
    team = teach(step("a"), budget={"tokens": 100})
    scenario = given(offer("w", "work"), team, goal()).say(Due("task.a"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED_RETRYABLE", "TIMEOUT")
    assert scenario.state.reason == (
        "no value for a: w: attempt 1 by w was not heard of and keeps its share: "
        "0 of 100 tokens left (0 used, 100 reserved), 1 or more needed"
    )


def test_attempts_of_a_specialist_with_a_budget_of_its_own_are_all_made() -> None:
    scenario = given(offer("w", "work", budget={"tokens": 10}), teach(step("a"), budget={"tokens": 100}), goal())
    while not scenario.state.end:
        scenario.say(Due("task.a"))
    assert scenario.state.reason == "no value for a: w: not begun within 90000 ms, 3 times"


def test_budget_that_is_used_up_is_said_to_be() -> None:
    team = teach(step("a"), step("b", needs=["a"]), budget={"tokens": 100})
    scenario = given(offer("w", "work"), team, goal()).say(ended("a", {"a": 1}, usage={"input_tokens": 100}))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "BUDGET_EXCEEDED")
