"""Which ends of tasks count: from the dispatched specialist, for the current attempt, about the keys of the task."""

from typing import Any

import pytest

from schemas.codec import VALUE_LIMIT
from tests.supervisor.scenario import Due, ended, event, failed, given, goal, offer, run_with, started, step, teach


def rejected_output(scenario, said, message: str) -> None:
    scenario.when(said).then(
        event("attempt_failed", code="INVALID_OUTPUT", lost=True, message=message), event("task_dispatched")
    )
    assert not scenario.state.facts


@pytest.mark.parametrize(
    ("claims", "message"),
    [
        ({}, "says nothing about 'a'"),
        ({"b": 1}, "names 'b' twice, or the task does not"),
        ({"a": 1, "b": 1}, "names 'b' twice, or the task does not"),
    ],
)
def test_claims_are_about_the_keys_of_the_task(claims: dict[str, Any], message: str) -> None:
    rejected_output(run_with(), ended("a", claims), message)


def test_claim_on_a_key_of_another_task_is_not_taken() -> None:
    steps = [step("a", for_each="input.n", fact="v.{item}")]
    scenario = given(offer("w", "work"), teach(*steps), goal({"n": ["x", "y"]}))
    rejected_output(scenario, ended("a-0", {"v.x": 1, "v.y": 2}), "names 'v.y' twice, or the task does not")
    rejected_output(scenario, ended("a-1", {"v.x": 2}), "names 'v.x' twice, or the task does not")


def test_one_key_twice_in_one_end() -> None:
    claims = [{"key": "a", "value": 1}, {"key": "a", "value": 2}]
    scenario = run_with()
    said = ended("a", {"a": 1})
    said.body["claims"] = claims
    rejected_output(scenario, said, "names 'a' twice, or the task does not")


def test_claim_and_silence_about_one_key() -> None:
    rejected_output(
        run_with(), ended("a", {"a": 1}, silences={"a": "TOOL_DOWN"}), "names 'a' twice, or the task does not"
    )


def test_value_out_of_schema_names_the_place_and_the_rule() -> None:
    scenario = given(
        offer("w", "work", output={"type": "object", "properties": {"n": {"type": "integer"}}}),
        teach(step("a")),
        goal(),
    )
    rejected_output(scenario, ended("a", {"a": {"n": "x"}}), "the value of 'a': /n breaks /properties/n/type")


def test_value_is_checked_with_the_contract_that_the_task_was_given_under() -> None:
    scenario = given(offer("w", "work", output={"type": "integer"}), teach(step("a")), goal())
    scenario.say(offer("w", "work", output={"type": "string"}))
    assert scenario.when(ended("a", {"a": 1})).state.end == "DONE"


@pytest.mark.parametrize(("size", "end"), [(VALUE_LIMIT, "DONE"), (VALUE_LIMIT + 1, "")])
def test_value_may_have_64_kib(size: int, end: str) -> None:
    scenario = run_with().when(ended("a", {"a": "x" * (size - 2)}))
    assert scenario.state.end == end
    if not end:
        message = f"the value of 'a' is over {VALUE_LIMIT} bytes; store it with context.blob()"
        scenario.then(event("attempt_failed", code="INVALID_OUTPUT", message=message), event("task_dispatched"))


def test_size_is_counted_as_it_is_stored_and_not_as_it_was_sent() -> None:
    blank = run_with()
    said = ended("a", {"a": [1]})
    blank.when(said._replace(body=said.data.replace(b"[1]", b"[1" + b" " * VALUE_LIMIT + b"]")))
    assert blank.state.end == "DONE"


def nested(depth: int) -> list[Any]:
    value: list[Any] = []
    for _ in range(depth - 1):
        value = [value]
    return value


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (2**64, "the value of 'a': a whole number of more than 64 bits"),
        (-(2**63) - 1, "the value of 'a': a whole number of more than 64 bits"),
        ({"n": [10**300]}, "the value of 'a': a whole number of more than 64 bits"),
        (nested(65), "the value of 'a': more than 64 lists and objects inside each other"),
    ],
)
def test_value_that_cannot_be_hashed_again_is_invalid_output(value: Any, message: str) -> None:
    rejected_output(run_with(), ended("a", {"a": value}), message)


@pytest.mark.parametrize("value", [2**64 - 1, -(2**63), nested(64), 1e308, -0.0, "\U0001f600", "\x00", {"": {}}])
def test_odd_value_that_can(value: Any) -> None:
    assert run_with(returns={"x": "facts.a"}).when(ended("a", {"a": value})).state.facts["a"].value == value


def test_repeated_end_counts_once() -> None:
    scenario = run_with(steps=[step("a"), step("b")])
    said = ended("a", {"a": 1}, usage={"input_tokens": 7})
    scenario.say(said).when(said).then()
    assert scenario.state.usage.input_tokens == 7


def test_second_execution_of_an_attempt_is_late_and_its_usage_counts() -> None:
    scenario = run_with(steps=[step("a"), step("b")])
    scenario.say(ended("a", {"a": 1}, execution="x", usage={"input_tokens": 7}))
    second = ended("a", {"a": 2}, execution="y", usage={"input_tokens": 5})
    scenario.when(second).then(event("input_late", execution="y", usage={"input_tokens": 5}))
    scenario.when(second).then()
    assert (scenario.state.usage.input_tokens, scenario.state.facts["a"].value) == (12, 1)


def test_repeated_failure_loses_one_attempt() -> None:
    scenario = run_with(failed("a", "TOOL_DOWN")).when(failed("a", "TOOL_DOWN")).then()
    assert scenario.state.tasks["a"].lost == 1


def test_end_after_a_timeout_is_late_and_its_usage_counts() -> None:
    scenario = run_with(started("a"), Due("task.a"))
    scenario.when(ended("a", {"a": 1}, usage={"output_tokens": 9})).then(event("input_late", task="a"))
    assert scenario.state.usage.output_tokens == 9
    assert not scenario.state.facts


def test_stranger_cannot_use_up_the_execution_of_a_task() -> None:
    """Execution ids stand on the log before their end does, in `started`."""
    scenario = run_with(started("a", execution="x"))
    scenario.when(ended("a", {"a": 0}, by="eve", execution="x")).then(event("input_late", author="eve", task=""))
    assert scenario.when(ended("a", {"a": 1}, execution="x")).state.end == "DONE"


def test_who_had_the_task_before_cannot_use_up_the_execution_of_who_has_it_now() -> None:
    scenario = given(offer("v", "work"), offer("w", "work"), teach(step("a")), goal(), Due("task.a"))
    scenario.say(started("a", 2, execution="x"), ended("a", {"a": 0}, by="v", execution="x"))
    assert scenario.when(ended("a", {"a": 1}, 2, execution="x")).state.end == "DONE"


def test_usage_that_a_stranger_reports_is_not_the_run_s() -> None:
    scenario = run_with().when(ended("a", {"a": 1}, by="eve", usage={"input_tokens": 10**9}))
    scenario.then(event("input_late", author="eve", reason="the task is not with eve", usage={}))
    assert scenario.state.usage.input_tokens == 0


@pytest.mark.parametrize("usage", [{"input_tokens": -1}, {"tool_calls": 2**53 + 1}, {"input_tokens": 1.5}, {"cost": 1}])
def test_usage_that_nobody_has_is_no_end_at_all(usage: dict[str, Any]) -> None:
    run_with().when(ended("a", {"a": 1}, usage=usage)).then(event("input_rejected", author="w"))


def test_usage_adds_up_to_a_number_that_can_be_stored() -> None:
    scenario = run_with(steps=[step("a"), step("b")])
    for index in range(3):
        scenario.say(ended("a", {"a": 1}, execution=str(index), usage={"input_tokens": 2**53}))
    assert scenario.state.usage.input_tokens == 2**53


def test_end_with_a_code_needs_no_claims_and_those_it_has_are_not_taken() -> None:
    scenario = run_with(steps=[step("a", missing="allow"), step("b")])
    scenario.when(ended("a", {"a": 1}, code="LOW_CONFIDENCE"))
    scenario.then(event("task_ended", code="LOW_CONFIDENCE", claims=[]), event("fact_missing", losers=[]))


def test_silence_about_a_key_is_not_an_error_of_the_task() -> None:
    steps = [step("a", for_each="input.n", fact="v.{item}", tasks=1, missing="allow")]
    scenario = given(offer("w", "work"), teach(*steps, returns={"v": "facts.v"}), goal({"n": ["x", "y"]}))
    scenario.when(ended("a", {"v.x": 1}, silences={"v.y": "LOW_CONFIDENCE"})).then(
        event("task_ended", code=""),
        event("fact_committed", key="v.x", value=1),
        event("fact_missing", key="v.y", code="LOW_CONFIDENCE"),
        event("run_ended", end="DEGRADED", result={"v": {"x": 1}}),
    )


def test_accept_refuses_claims_and_says_so() -> None:
    steps = [step("a", accept="confidence >= `0.5` && value != input.taboo", input={"taboo": "input.taboo"})]
    scenario = given(offer("w", "work"), teach(*steps), goal({"taboo": 3}))
    scenario.when(ended("a", {"a": 4}, confidence=0.4)).then(
        event("task_ended", code=""),
        event("fact_missing", code="LOW_CONFIDENCE", message="no claim was accepted"),
        event("run_ended", end="FAILED", code="LOW_CONFIDENCE"),
    )
    (loser,) = scenario.state.missing["a"].losers
    assert (loser.value, loser.reason[:12]) == (4, "not accepted")
    for value, end in ((3, "FAILED"), (4, "DONE")):
        other = given(offer("w", "work"), teach(*steps), goal({"taboo": 3}), ended("a", {"a": value}, confidence=0.5))
        assert other.state.end == end


def test_accept_sees_the_item_and_who_said_it() -> None:
    steps = [step("a", for_each="input.n", fact="v.{item}", accept="by == 'w' && value == item", missing="allow")]
    scenario = given(offer("w", "work"), teach(*steps), goal({"n": ["x", "y"]}))
    scenario.say(ended("a-0", {"v.x": "x"}), ended("a-1", {"v.y": "x"}))
    assert (set(scenario.state.facts), set(scenario.state.missing)) == ({"v.x"}, {"v.y"})


def test_late_inputs_of_an_author_are_counted_to_a_hundred_and_then_muted() -> None:
    scenario = run_with(steps=[step("a"), step("b")])
    for index in range(100):
        scenario.when(ended("a", {"a": 1}, 9, execution=str(index))).then(event("input_late", author="w"))
    scenario.when(ended("a", {"a": 1}, 9, execution="100")).then(event("author_muted", author="w"))
    scenario.when(ended("a", {"a": 1}, 9, execution="101")).then()
    scenario.when(ended("a", {"a": 1}, 9, by="v")).then(event("input_late", author="v"))
    scenario.when(ended("a", {"a": 1})).then(event("task_ended"), event("fact_committed"))


def test_rejected_inputs_of_an_author_are_counted_to_a_hundred_and_then_muted() -> None:
    scenario = given()
    for index in range(100):
        scenario.when(ended("a", run=f"r{index}")).then(event("input_rejected", author="w"))
    scenario.when(ended("a", run="other")).then(event("author_muted", author="w"))
    scenario.when(ended("a", run="another")).then()
    scenario.when(goal(by="w", run="third", team="none")).then()


def test_muting_by_many_authors_stays_within_the_state() -> None:
    scenario = run_with()
    for index in range(1_005):
        scenario.say(ended("a", {"a": 1}, by=f"eve{index}"))
    assert len(scenario.state.late) == 1_001
    assert scenario.state.late["*"] == 5
