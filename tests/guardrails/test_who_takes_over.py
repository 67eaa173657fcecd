"""Retries, substitutes, fallbacks and replans: who has a task next, with how many attempts, and what of the others
counts."""

from typing import Any

import pytest

from schemas.contracts import RETRIED, STOP_CODES
from schemas.usage import Usage
from tests.supervisor.scenario import (
    Due,
    Said,
    Scenario,
    ended,
    event,
    failed,
    given,
    goal,
    offer,
    started,
    step,
    teach,
)

PERSISTENT = sorted(STOP_CODES - RETRIED - {"POLICY_BLOCKED", "NEEDS_INPUT", "HANDED_OFF", "EFFECT_UNKNOWN"})


def two(*said: Said | Due, attempts: int = 2, playbook: dict[str, Any] | None = None, **fields: Any) -> Scenario:
    """`u` does it, `x` and then `y`, who offer something else, take over."""
    offers = [offer("u", "work", attempts=attempts), offer("x", "other", attempts=attempts), offer("y", "other")]
    taught = teach(step("a", **{"fallback": ["x", "y"]} | fields), returns={"a": "facts.a"}, **playbook or {})
    return given(*offers, taught, goal(), *said)


# --- retries and fallbacks --------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(RETRIED))
def test_what_may_pass_is_tried_again_as_often_as_the_contract_says_and_then_falls_back(code: str) -> None:
    scenario = two(attempts=3)
    for attempt in (1, 2):
        scenario.when(failed("a", code, attempt, by="u")).then(
            event("attempt_failed", code=code, lost=True, to=""), event("task_dispatched", specialist="u")
        )
    scenario.when(failed("a", code, 3, by="u")).then(
        event("attempt_failed", code=code, to="x", contract=2), event("task_dispatched", specialist="x", contract=2)
    )
    task = scenario.state.tasks["a"]
    assert (task.attempt, task.lost, task.waits, task.fallbacks, task.tried) == (4, 0, 0, 1, ("u",))


@pytest.mark.parametrize("code", PERSISTENT)
def test_what_stays_falls_back_at_once(code: str) -> None:
    two().when(failed("a", code, by="u")).then(
        event("attempt_failed", code=code, to="x"), event("task_dispatched", specialist="x", attempt=2)
    )


def test_each_has_attempts_of_its_own_and_the_last_code_is_that_of_the_task() -> None:
    scenario = two(failed("a", "TOOL_DOWN", 1, by="u"), failed("a", "INTERNAL", 2, by="u"))
    scenario.say(failed("a", "TOOL_DOWN", 3, by="x"), failed("a", "TIMEOUT", 4, by="x"))
    assert (scenario.state.tasks["a"].specialist, scenario.state.tasks["a"].attempt) == ("y", 5)
    for attempt in (5, 6, 7):
        scenario.say(failed("a", "INTERNAL", attempt, by="y", message="no disk"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INTERNAL")
    assert scenario.state.reason == "no value for a: y: no disk"
    assert scenario.state.tasks["a"].tried == ("u", "x")


def test_step_says_otherwise_than_all_contracts() -> None:
    scenario = two(failed("a", "TOOL_DOWN", by="u"), attempts=50)
    assert scenario.state.tasks["a"].specialist == "u"
    step_of = step("a", attempts=1, fallback=["x", "y"])
    offers = [
        offer(name, capability, attempts=50) for name, capability in (("u", "work"), ("x", "other"), ("y", "other"))
    ]
    scenario = given(*offers, teach(step_of), goal())
    for attempt, (by, then) in enumerate((("u", "x"), ("x", "y")), 1):
        scenario.say(failed("a", "TOOL_DOWN", attempt, by=by))
        assert scenario.state.tasks["a"].specialist == then


def test_what_is_not_allowed_does_not_fall_back() -> None:
    two().when(failed("a", "POLICY_BLOCKED", by="u", message="a secret")).then(
        event("task_ended", code="POLICY_BLOCKED", message="a secret"),
        event("fact_missing", code="POLICY_BLOCKED"),
        event("run_ended", end="POLICY_BLOCKED", reason="no value for a: u: a secret"),
    )


def test_end_of_who_had_it_before_is_booked_and_never_committed() -> None:
    scenario = two(started("a", by="u"), Due("task.a"), started("a", 2, by="u"), Due("task.a"))
    assert scenario.state.tasks["a"].specialist == "x"
    for attempt in (1, 2):
        scenario.when(ended("a", {"a": "from u"}, attempt, by="u", usage={"tool_calls": 1})).then(
            event("input_late", author="u", usage={"tool_calls": 1}, reason="the task is not with u")
        )
    scenario.when(ended("a", {"a": "from x"}, 3, by="x", usage={"tool_calls": 1}))
    assert (scenario.state.result, scenario.state.usage) == ({"a": "from x"}, Usage(tool_calls=3))
    assert scenario.state.facts["a"].losers == ()


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"fallback": ["z"]}, "z is not attached"),
        ({"fallback": ["e"]}, "e has the authority to effect, and nobody has approved that it does this"),
        ({"fallback": ["z", "e"]}, "z is not attached, e has the authority to effect, and nobody"),
        ({"fallback": ["x"], "where": {"micro_usd": 5}}, "x does not say what it costs"),
        ({"fallback": ["x"], "where": {"latency_s": 1}}, "x takes 2000 ms, where 1000 is the most"),
        ({"fallback": ["x"], "where": {"scopes": ["net"]}}, "x has no tool with the scope 'net'"),
    ],
)
def test_who_may_not_take_over_is_named_with_the_reason(fields: dict[str, Any], reason: str) -> None:
    promises = {"typical_micro_usd": 1, "typical_s": 0.5, "tools": [{"tool": "get", "scopes": ["net"]}]}
    offers = [
        offer("u", "work", attempts=1, **promises),
        offer("x", "other", typical_s=2),
        offer("e", "other", authority="effect", **promises),
    ]
    scenario = given(*offers, teach(step("a", **fields)), goal())
    scenario.when(failed("a", "LOW_CONFIDENCE", by="u", message="unsure"))
    assert scenario.state.reason.startswith(f"no value for a: u: unsure; nobody takes over: {reason}")


def test_withdrawn_fallback_is_passed_over() -> None:
    scenario = two(offer("x"), failed("a", "LOW_CONFIDENCE", by="u"))
    assert scenario.state.tasks["a"].specialist == "y"


def test_fallback_by_its_contract_at_that_time() -> None:
    scenario = two(offer("x", "other", attempts=1, deadline_s=3), failed("a", "LOW_CONFIDENCE", by="u"))
    scenario.then(event("attempt_failed", to="x", contract=6), event("task_dispatched", contract=6, work_ms=3_000))


# --- never begun ------------------------------------------------------------------------------------------------------


def test_never_begun_goes_to_a_substitute_before_any_fallback_and_loses_nothing() -> None:
    offers = [offer("u", "work"), offer("v", "work"), offer("x", "other")]
    scenario = given(*offers, teach(step("a", fallback=["x"])), goal())
    for by, then in (("u", "v"), ("v", "x")):
        assert scenario.state.tasks["a"].specialist == by
        scenario.when(Due("task.a")).then(
            event("attempt_failed", lost=False), event("task_dispatched", specialist=then)
        )
        assert scenario.state.tasks["a"].lost == 0
    assert scenario.state.tasks["a"].tried == ("u", "v")


def test_substitute_is_not_forgotten_while_the_budget_has_no_room() -> None:
    """What was not begun keeps its reservation, so the next attempt waits; then the silent one got the task again."""
    offers = [offer(name, "work", budget={"tokens": 50}) for name in ("v", "w")]
    steps = [step("a"), step("b", specialist="w")]
    scenario = given(*offers, teach(*steps, budget={"tokens": 100}), goal())
    scenario.when(Due("task.a")).then(event("attempt_failed", lost=False), event("task_delayed", delay_ms=0))
    scenario.when(ended("b", {"b": 1})).then(
        event("task_ended"), event("fact_committed"), event("task_dispatched", task="a", specialist="w")
    )


def test_waits_are_counted_in_a_row() -> None:
    """Twice not begun, then begun and failed: the next wait is the first one again."""
    scenario = given(offer("w", "work"), teach(step("a", attempts=5)), goal(), Due("task.a"), Due("task.a"))
    scenario.say(failed("a", "TOOL_DOWN", 3))
    assert (scenario.state.tasks["a"].lost, scenario.state.tasks["a"].waits) == (1, 0)
    scenario.when(Due("task.a")).then(event("attempt_failed", lost=False), event("task_dispatched", attempt=5))
    assert scenario.state.tasks["a"].lost == 1


def test_begun_and_timed_out_breaks_the_row_too() -> None:
    scenario = given(offer("w", "work"), teach(step("a", attempts=5)), goal(), Due("task.a"), Due("task.a"))
    scenario.say(started("a", 3), Due("task.a"))
    assert (scenario.state.tasks["a"].lost, scenario.state.tasks["a"].waits) == (1, 0)


def test_who_is_named_or_routed_to_is_not_replaced_by_others_of_the_capability() -> None:
    offers = [offer("v", "work"), offer("w", "work"), offer("x", "other")]
    for fields in ({"specialist": "v"}, {"route": "'v'"}):
        scenario = given(*offers, teach(step("a", fallback=["x"], **fields)), goal())
        scenario.when(Due("task.a")).then(event("attempt_failed", to="x"), event("task_dispatched", specialist="x"))


def test_never_begun_by_all_ends_as_timeout() -> None:
    scenario = two()
    while not scenario.state.end:
        scenario.say(Due("task.a"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED_RETRYABLE", "TIMEOUT")
    assert scenario.state.reason == "no value for a: y: not begun within 90000 ms, 3 times"
    assert scenario.state.tasks["a"].tried == ("u", "x", "y")


# --- gates ------------------------------------------------------------------------------------------------------------


def test_approved_is_what_this_one_does_and_nobody_takes_it_over() -> None:
    """A person approved that `e` does it; `f`, who may change the world too, was not approved for it."""
    offers = [offer(name, "work", authority="effect", attempts=1) for name in ("e", "f")]
    scenario = given(*offers, teach(step("a", gate={})), goal(approve=True))
    assert scenario.state.gates["a"].voices[0].specialist == "e"
    scenario.when(Due("task.a")).then(event("attempt_failed", lost=False), event("task_dispatched", specialist="e"))
    scenario.when(failed("a", "TOOL_DOWN", 2, by="e"))
    assert scenario.state.end == "FAILED_RETRYABLE"


# --- replans ----------------------------------------------------------------------------------------------------------


def replanned(revisions: int = 5, **fields: Any) -> Scenario:
    """`a` and `b` have each a step that takes its place, `c` and `d`."""
    steps = [step("a", **fields), step("b", **fields)]
    replans = [{"step": "a", "steps": [step("c", **fields)]}, {"step": "b", "steps": [step("d", **fields)]}]
    taught = teach(*steps, replans=replans, revisions=revisions, returns={"missing": "missing"})
    return given(offer("w", "work", attempts=1), taught, goal())


def test_step_that_failed_has_its_place_taken_once() -> None:
    scenario = replanned()
    scenario.when(failed("a", "INTERNAL", message="no disk")).then(
        event("task_ended"),
        event("fact_missing", key="a"),
        event("plan_revised", number=1, instead_of="a", reason="no value for a: w: no disk"),
        event("step_expanded", step="c"),
        event("task_dispatched", task="c"),
    )
    scenario.when(failed("c", "INTERNAL", message="no disk either"))
    assert (scenario.state.end, scenario.state.reason) == ("FAILED", "no value for c: w: no disk either")


def test_revisions_are_bounded() -> None:
    scenario = replanned(revisions=1).say(failed("a", "INTERNAL"))
    assert (scenario.state.end, scenario.state.revisions) == ("", 1)
    scenario.when(failed("b", "INTERNAL", message="again"))
    assert (scenario.state.end, scenario.state.reason) == ("FAILED", "no value for b: w: again")


def test_degraded_says_what_is_missing_after_all_plans() -> None:
    scenario = replanned(missing="allow")
    scenario.say(failed("a", "INTERNAL"), failed("c", "LOW_CONFIDENCE"), ended("b", {"b": 1}))
    assert (scenario.state.end, scenario.state.reason) == ("DEGRADED", "without c (LOW_CONFIDENCE)")


def test_what_took_the_place_and_has_a_value_makes_the_run_whole() -> None:
    scenario = replanned(missing="allow")
    scenario.say(failed("a", "INTERNAL"), ended("c", {"c": 1}), ended("b", {"b": 1}))
    assert (scenario.state.end, scenario.state.reason) == ("DONE", "")
