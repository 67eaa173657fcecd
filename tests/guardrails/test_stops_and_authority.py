"""What a contract promises: the codes it may end with, what it may do to the world, and what steps choose it by."""

from typing import Any, get_args

import pytest

from schemas.contracts import ALWAYS, STOP_CODES
from schemas.events import StopCode
from tests.supervisor.scenario import (
    Due,
    Said,
    Scenario,
    came,
    ended,
    event,
    failed,
    given,
    goal,
    offer,
    step,
    teach,
)

NAMED = "LOW_CONFIDENCE"
WEIGHTS = {"observe": 0, "propose": 1, "effect": 2}


def with_stops(*stops: str, **fields: Any) -> Scenario:
    return given(offer("w", "work", stops=stops, attempts=1), teach(step("a", **fields)), goal())


GO_ON = {"NEEDS_INPUT", "HANDED_OFF", "EFFECT_UNKNOWN"}
"""Codes after which the task goes on, where the end says how."""


# --- stops ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", sorted(STOP_CODES - ALWAYS - GO_ON))
def test_code_that_the_contract_names_is_taken_and_any_other_is_internal(code: str) -> None:
    said = failed("a", code, message="the disk is full")
    with_stops(code).when(said).then(
        event("task_ended", code=code, message="the disk is full"), event("fact_missing", code=code), event("run_ended")
    )
    message = f"it stopped with {code}, which its contract does not name: the disk is full"
    with_stops().when(said).then(
        event("task_ended", code="INTERNAL", message=message),
        event("fact_missing", code="INTERNAL"),
        event("run_ended", end="FAILED", code="INTERNAL", reason=f"no value for a: w: {message}"),
    )


@pytest.mark.parametrize("code", sorted(ALWAYS))
def test_codes_with_which_every_attempt_may_end_need_no_name(code: str) -> None:
    with_stops().when(failed("a", code)).then(event("task_ended", code=code), event("fact_missing"), event("run_ended"))


@pytest.mark.parametrize("code", ["NEEDS_INPUT", "HANDED_OFF"])
def test_who_does_not_say_that_it_asks_or_hands_on_may_do_neither(code: str) -> None:
    fields = {"question": {"ask": "may I?"}} if code == "NEEDS_INPUT" else {"to": "work"}
    scenario = with_stops(NAMED, hand_to=["work"]).when(failed("a", code, **fields))
    assert (scenario.state.end, scenario.state.code, scenario.state.gates) == ("FAILED", "INTERNAL", {})
    assert f"it stopped with {code}, which its contract does not name" in scenario.state.reason


def test_code_is_measured_by_the_contract_that_the_attempt_was_given_under() -> None:
    scenario = with_stops(NAMED).say(offer("w", "work", stops=[]))
    scenario.when(failed("a", NAMED)).then(event("task_ended", code=NAMED), event("fact_missing"), event("run_ended"))


def test_code_that_is_not_named_may_be_tried_again_as_an_error_of_the_specialist() -> None:
    scenario = given(offer("w", "work", stops=[], attempts=2), teach(step("a")), goal())
    scenario.when(failed("a", NAMED)).then(event("attempt_failed", code="INTERNAL"), event("task_dispatched"))


@pytest.mark.parametrize(("stops", "code"), [([NAMED], NAMED), ([], "INTERNAL")])
def test_silences_are_held_to_it_too(stops: list[str], code: str) -> None:
    """A task of several items says why it has no value for one of them: that is a code like any other."""
    each = step("a", for_each="input.n", fact="v.{item}", tasks=1, missing="allow")
    scenario = given(offer("w", "work", stops=stops), teach(each), goal({"n": ["x", "y"]}))
    scenario.say(ended("a", {"v.x": 1}, silences={"v.y": NAMED}))
    assert scenario.state.missing["v.y"].code == code
    named = "w: " if stops else f"w: it stopped with {NAMED}, which its contract does not name"
    assert scenario.state.missing["v.y"].message == named


@pytest.mark.parametrize("code", sorted(GO_ON))
def test_silence_neither_asks_nor_hands_on(code: str) -> None:
    """The run ended FAILED with the code NEEDS_INPUT, which is no end."""
    scenario = given(offer("w", "work", attempts=1), teach(step("a")), goal())
    message = f"is silent about 'a' with {code}, which only a whole task can end with"
    scenario.when(ended("a", silences={"a": code})).then(
        event("task_ended", code="INVALID_OUTPUT", message=message),
        event("fact_missing"),
        event("run_ended", end="FAILED", code="INVALID_OUTPUT"),
    )


def test_every_code_ends_or_goes_on_and_none_is_unknown() -> None:
    ends = {}
    for code in get_args(StopCode):
        fields = {"question": {"ask": "may I?"}} if code == "NEEDS_INPUT" else {}
        offers = [offer("w", "work", attempts=1, authority="propose"), offer("x", "other")]
        scenario = given(*offers, teach(step("a", hand_to=["other"])), goal())
        scenario.say(failed("a", code, to="other" if code == "HANDED_OFF" else "", **fields))
        ends[code] = scenario.state.end or scenario.state.phase
    assert ends == {
        "INVALID_INPUT": "FAILED",
        "INVALID_OUTPUT": "FAILED",
        "LOW_CONFIDENCE": "FAILED",
        "INTERNAL": "FAILED",
        "TOOL_DOWN": "FAILED_RETRYABLE",
        "TIMEOUT": "FAILED_RETRYABLE",
        "BUDGET_EXCEEDED": "FAILED",
        "POLICY_BLOCKED": "POLICY_BLOCKED",
        "NEEDS_INPUT": "NEEDS_INPUT",
        "HANDED_OFF": "COLLECT",
        "EFFECT_UNKNOWN": "FAILED",  # it has begun no effect: tests/supervisor/test_effects_of_runs.py has those
    }


# --- authority --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("gate", [False, True])
@pytest.mark.parametrize("most", [None, "observe", "propose", "effect"])
@pytest.mark.parametrize("authority", WEIGHTS)
def test_who_is_given_a_step(authority: str, most: str | None, gate: bool) -> None:
    """Whoever may change the world only where a person is asked first, whatever the step says."""
    fields: dict[str, Any] = ({"gate": {}} if gate else {}) | ({"where": {"authority": most}} if most else {})
    scenario = given(offer("w", "work", authority=authority), teach(step("a", **fields)), goal(approve=True))
    allowed = WEIGHTS[authority] <= WEIGHTS[most or "effect"] and (gate or authority != "effect")
    assert bool(scenario.state.in_flight) is allowed
    assert bool(scenario.state.steps["a"].awaiting) is not allowed


@pytest.mark.parametrize(
    "fields",
    [
        {"specialist": "e"},
        {"specialist": "all"},
        {"route": "'e'"},
        {"route": "['e', 'w']"},
        {"fallback": ["e"]},
        {"hand_to": ["e", "work"]},
        {"merge": {"policy": "reconcile", "specialist": "e"}, "specialist": "all"},
    ],
    ids=["named", "all", "routed", "routed first", "fallback", "handed to", "reconciles"],
)
def test_no_way_leads_to_who_may_change_the_world_without_a_gate(fields: dict[str, Any]) -> None:
    offers = [offer("e", "work", authority="effect"), *(offer(n, "work", authority="propose") for n in ("v", "w"))]
    scenario = given(*offers, teach(step("a", attempts=1, missing="allow", **fields), step("z")), goal())
    given_to = set()
    for number in range(8):
        flying = [task for task in scenario.tasks_in_flight() if task.task.startswith("a")]
        given_to |= {task.specialist for task in flying}
        if not flying:
            break
        task = flying[0]
        said = {"claims": {"a": number}} if fields.get("specialist") == "all" else {"code": "HANDED_OFF", "to": "e"}
        if "claims" in said:
            scenario.say(ended(task.task, said["claims"], task.attempt, task.specialist))
        else:
            scenario.say(ended(task.task, None, task.attempt, task.specialist, **said))
    assert "e" not in given_to
    assert scenario.state.tasks.get("z")


def test_step_that_nobody_may_do_says_who_would_and_why_not() -> None:
    scenario = given(offer("e", "work", authority="effect"), teach(step("a", await_s=5)), goal())
    scenario.when(Due("await.a")).then(event("run_ended", end="FAILED", code="STUCK"))
    assert scenario.state.reason == (
        "nobody offered 'work' within 5000 ms: e has the authority to effect, where propose is the most"
    )


@pytest.mark.parametrize(("authority", "goes_on"), [("observe", False), ("propose", True), ("effect", True)])
def test_who_only_observes_hands_nothing_on(authority: str, goes_on: bool) -> None:
    offers = [offer("w", "work", authority=authority), offer("x", "other")]
    scenario = given(*offers, teach(step("a", gate={}, hand_to=["other"])), goal(approve=True))
    scenario.say(failed("a", "HANDED_OFF", to="other"))
    if not goes_on:
        assert (scenario.state.end, scenario.state.code) == ("POLICY_BLOCKED", "POLICY_BLOCKED")
        assert scenario.state.reason.endswith("w has the authority to observe, not to hand a task on")


def test_handed_to_who_may_not_do_it_is_blocked_and_not_tried_again() -> None:
    offers = [offer("w", "work", authority="propose"), offer("e", "other", authority="effect")]
    scenario = given(*offers, teach(step("a", hand_to=["other"])), goal())
    reason = "it was handed to 'other': e has the authority to effect, and nobody has approved that it does this"
    scenario.when(failed("a", "HANDED_OFF", to="other")).then(
        event("task_ended", code="POLICY_BLOCKED", message=reason), event("fact_missing"), event("run_ended")
    )


def test_of_those_that_it_is_handed_to_one_whose_breaker_is_not_open() -> None:
    offers = [offer("w", "work", authority="propose"), offer("x", "other", attempts=1), offer("y", "other")]
    steps = [step("a", hand_to=["other"]), step("b", "other", specialist="x", missing="allow")]
    scenario = given(*offers, teach(*steps, breaker=1), goal(), failed("b", "TOOL_DOWN", by="x"))
    scenario.when(failed("a", "HANDED_OFF", to="other")).then(
        event("attempt_failed", to="y"), event("task_dispatched", specialist="y")
    )


# --- where ------------------------------------------------------------------------------------------------------------


def chosen(where: dict[str, Any], *offers: Said, **fields: Any) -> list[str]:
    scenario = given(*offers, teach(step("a", where=where, **fields)), goal())
    return [voice.specialist for voice in scenario.state.steps["a"].voices]


def net(*scopes: str) -> dict[str, Any]:
    return {"tools": [{"tool": "get", "scopes": scopes}]}


@pytest.mark.parametrize(
    ("where", "who"),
    [
        ({}, "a"),
        ({"micro_usd": 500}, "b"),
        ({"micro_usd": 20}, "c"),
        ({"micro_usd": 500, "latency_s": 5}, "b"),
        ({"latency_s": 1}, "b"),
        ({"micro_usd": 20, "latency_s": 1}, None),
        ({"scopes": ["net"]}, "b"),
        ({"scopes": ["net", "disk"]}, "c"),
        ({"scopes": ["net", "mail"]}, None),
        ({"prefer": "cost"}, "c"),
        ({"prefer": "latency"}, "b"),
        ({"prefer": "cost", "latency_s": 5}, "b"),
        ({"prefer": "latency", "micro_usd": 20}, "c"),
    ],
)
def test_step_goes_to_who_promises_what_it_asks_for(where: dict[str, Any], who: str | None) -> None:
    """`a` says nothing about itself: it promises neither a price nor a time nor a scope."""
    offers = [
        offer("a", "work"),
        offer("b", "work", typical_micro_usd=500, typical_s=1, **net("net")),
        offer("c", "work", typical_micro_usd=20, typical_s=60, **net("net", "disk")),
    ]
    assert chosen(where, *offers) == ([who] if who else [])


def test_where_and_all_is_everyone_who_promises_it() -> None:
    offers = [offer("a", "work"), *(offer(name, "work", typical_micro_usd=cost) for name, cost in (("b", 5), ("c", 1)))]
    assert chosen({"micro_usd": 5, "prefer": "cost"}, *offers, specialist="all") == ["c", "b"]


def test_equal_ones_by_name_whatever_came_first() -> None:
    offers = [offer(name, "work", typical_micro_usd=5) for name in ("c", "a", "b")]
    assert chosen({"prefer": "cost"}, *offers) == ["a"]


def test_step_waits_for_who_promises_it_and_says_why_the_others_do_not() -> None:
    taught = teach(step("a", where={"micro_usd": 10, "latency_s": 1, "scopes": ["net"]}, await_s=5))
    offers = [
        offer("a", "work"),
        offer("b", "work", typical_micro_usd=11),
        offer("c", "work", typical_micro_usd=10, typical_s=2),
        offer("d", "work", typical_micro_usd=10, typical_s=1),
    ]
    scenario = given(*offers, taught, goal())
    assert scenario.state.steps["a"].awaiting == "work"
    stuck = given(*offers, taught, goal(), Due("await.a"))
    assert stuck.state.reason == (
        "nobody offered 'work' within 5000 ms: a does not say what it costs; "
        "b costs 11 millionths of a dollar, where 10 is the most; c takes 2000 ms, where 1000 is the most; "
        "d has no tool with the scope 'net'"
    )
    scenario.say(offer("e", "work", typical_micro_usd=1, typical_s=0, **net("net")), came("work"))
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["e"]


def test_who_takes_over_promises_it_too() -> None:
    offers = [
        offer("a", "work", typical_micro_usd=5, attempts=1),
        offer("b", "work"),
        offer("c", "work", typical_micro_usd=9),
    ]
    scenario = given(*offers, teach(step("a", where={"micro_usd": 9})), goal())
    scenario.when(Due("task.a")).then(event("attempt_failed"), event("task_dispatched", specialist="c"))
