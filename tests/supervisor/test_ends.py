"""How runs end: the table of end states."""

import pytest

from tests.supervisor.scenario import Due, cancel, ended, event, failed, given, goal, offer, run_with, step, teach

RETRIED = {"INTERNAL", "INVALID_OUTPUT", "TOOL_DOWN", "TIMEOUT"}
ENDS = {
    "INVALID_INPUT": "FAILED",
    "INVALID_OUTPUT": "FAILED",
    "LOW_CONFIDENCE": "FAILED",
    "INTERNAL": "FAILED",
    "TOOL_DOWN": "FAILED_RETRYABLE",
    "TIMEOUT": "FAILED_RETRYABLE",
    "BUDGET_EXCEEDED": "FAILED",
    "POLICY_BLOCKED": "POLICY_BLOCKED",
}


@pytest.mark.parametrize("code", ENDS)
def test_code_that_lasts_ends_the_run(code: str) -> None:
    scenario = run_with()
    attempts = 3 if code in RETRIED else 1
    for attempt in range(1, attempts):
        scenario.when(failed("a", code, attempt)).then(
            event("attempt_failed", task="a", attempt=attempt, code=code, lost=True),
            event("task_dispatched", task="a", attempt=attempt + 1, specialist="w"),
        )
    scenario.when(failed("a", code, attempts)).then(
        event("task_ended", task="a", attempt=attempts, code=code),
        event("fact_missing", key="a", code=code),
        event("run_ended", end=ENDS[code], code=code, result=None),
    )


@pytest.mark.parametrize("code", sorted(RETRIED))
def test_failed_attempt_costs_nothing_when_the_next_one_succeeds(code: str) -> None:
    run_with(failed("a", code), failed("a", code, 2)).when(ended("a", {"a": 1}, 3)).then(
        event("task_ended", code="", attempt=3), event("fact_committed", value=1), event("run_ended", end="DONE")
    )


@pytest.mark.parametrize(("contract", "of_step", "attempts"), [(5, None, 5), (5, 2, 2), (1, None, 1), (3, 1, 1)])
def test_attempts_are_those_of_the_step_or_of_the_contract(contract: int, of_step: int | None, attempts: int) -> None:
    own = {} if of_step is None else {"attempts": of_step}
    scenario = given(offer("w", "work", attempts=contract), teach(step("a", **own)), goal())
    for attempt in range(1, attempts):
        assert not scenario.when(failed("a", "INTERNAL", attempt)).state.end
    assert scenario.when(failed("a", "INTERNAL", attempts)).state.end == "FAILED"


def test_valid_result_is_done() -> None:
    run_with(returns={"sum": "facts.a"}, result={"type": "object", "required": ["sum"]}).when(
        ended("a", {"a": 3})
    ).then(event("task_ended"), event("fact_committed"), event("run_ended", end="DONE", result={"sum": 3}))


def test_empty_result_is_done() -> None:
    run_with().when(ended("a", {"a": 3})).then(
        event("task_ended"), event("fact_committed"), event("run_ended", end="DONE", code="", result={})
    )


def test_null_is_a_value() -> None:
    assert run_with(returns={"x": "facts.a"}).when(ended("a", {"a": None})).state.result == {"x": None}


def test_result_that_breaks_its_schema_fails() -> None:
    run_with(returns={"sum": "facts.a"}, result={"properties": {"sum": {"type": "integer"}}}).when(
        ended("a", {"a": "three"})
    ).then(
        event("task_ended"),
        event("fact_committed"),
        event(
            "run_ended",
            end="FAILED",
            code="INVALID_OUTPUT",
            reason="the result breaks its schema: /sum breaks /properties/sum/type",
            result=None,
        ),
    )


def test_missing_and_allowed_is_degraded_and_says_what() -> None:
    run_with(failed("a", "LOW_CONFIDENCE"), steps=[step("a", missing="allow"), step("b")]).when(
        ended("b", {"b": 1})
    ).then(
        event("task_ended"),
        event("fact_committed"),
        event("run_ended", end="DEGRADED", reason="without a (LOW_CONFIDENCE)", result={}),
    )


def test_missing_and_not_allowed_fails_at_once() -> None:
    scenario = run_with(steps=[step("a"), step("b")]).when(failed("a", "LOW_CONFIDENCE"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "LOW_CONFIDENCE")
    assert scenario.state.reason == "no value for a: w: "


def test_degraded_names_the_first_five() -> None:
    steps = [step("a", for_each="input.n", fact="v.k{item}", missing="allow")]
    scenario = given(offer("w", "work"), teach(*steps), goal({"n": list(range(7))}))
    for index in range(7):
        scenario.say(failed(f"a-{index}", "LOW_CONFIDENCE"))
    names = ", ".join(f"v.k{index} (LOW_CONFIDENCE)" for index in range(5))
    assert (scenario.state.end, scenario.state.reason) == ("DEGRADED", f"without {names} …")


def test_degraded_result_meets_its_schema_too() -> None:
    scenario = run_with(
        steps=[step("a", missing="allow")], returns={"x": "facts.a"}, result={"properties": {"x": {"type": "integer"}}}
    )
    assert scenario.when(failed("a", "LOW_CONFIDENCE")).state.end == "FAILED"


def test_voice_that_failed_degrades_and_voice_that_may_be_silent_does_not() -> None:
    for silent, end in (([], "DEGRADED"), (["LOW_CONFIDENCE"], "DONE"), (["TOOL_DOWN"], "DEGRADED")):
        steps = [step("a", specialist="all", missing="allow", silent=silent)]
        scenario = given(offer("v", "work"), offer("w", "work"), teach(*steps), goal(), ended("a-0", {"a": 1}, by="v"))
        assert scenario.when(failed("a-1", "LOW_CONFIDENCE")).state.end == end, silent


@pytest.mark.parametrize(("silent", "end"), [(["LOW_CONFIDENCE"], "DONE"), (["TOOL_DOWN"], "FAILED"), ([], "FAILED")])
def test_voice_that_may_be_silent_is_not_missed_while_another_has_a_value(silent: list[str], end: str) -> None:
    steps = [step("a", specialist="all", silent=silent)]
    scenario = given(offer("v", "work"), offer("w", "work"), teach(*steps), goal(), ended("a-0", {"a": 1}, by="v"))
    assert scenario.when(failed("a-1", "LOW_CONFIDENCE")).state.end == end
    nobody = given(offer("v", "work"), teach(*steps), goal()).when(failed("a", "LOW_CONFIDENCE", by="v"))
    assert nobody.state.end == "FAILED"


@pytest.mark.parametrize(("said", "reason"), [(cancel(), "ann"), (cancel(reason="wrong input"), "ann: wrong input")])
def test_cancel(said, reason: str) -> None:
    scenario = run_with().when(said).then(event("run_ended", end="CANCELLED", code="", reason=reason, result=None))
    assert not scenario.state.timers


def test_await_timer_ends_stuck_and_says_for_what() -> None:
    given(teach(step("a", await_s=5)), goal()).when(Due("await.a")).then(
        event("run_ended", end="FAILED", code="STUCK", reason="nobody offered 'work' within 5000 ms")
    )


def test_phase_is_the_earliest_unfinished_one() -> None:
    scenario = given(offer("w", "work"), teach(step("a"), step("b", capability="rare", needs=["a"])))
    assert scenario.state.phase == "DECOMPOSE"
    assert scenario.say(goal()).state.phase == "COLLECT"
    assert scenario.say(ended("a", {"a": 1})).state.phase == "DISPATCH"
    assert scenario.say(cancel()).state.phase == "CANCELLED"
