"""Re-plans: when a key of a step has no value, other steps of the playbook take its place, each once and so many times
a run at most. What needed the step waits for them, and whether the run ends DONE is up to them."""

from typing import Any

import pytest

from projections.history import outcome_digest
from schemas import events as e
from schemas.playbooks import read_playbook
from supervisor import effects
from tests.coordination.asking import approve, deny
from tests.supervisor.scenario import (
    Due,
    Said,
    Scenario,
    cancel,
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

OFFERS = (offer("w", "work"), offer("v", "other"))


def replan(name: str, *steps: dict[str, Any]) -> dict[str, Any]:
    return {"step": name, "steps": list(steps)}


def planned(*steps: dict[str, Any], replans: list[dict[str, Any]], input: Any = None, **fields: Any) -> Scenario:
    return given(*OFFERS, teach(*steps, replans=replans, **fields), goal(input))


def usual(alternative: Any = None, **fields: Any) -> Scenario:
    """`b` has an alternative `c`; `d` needs `b` and takes what either came to."""
    other = step("c", "other") if alternative is None else alternative
    return planned(
        step("a"),
        step("b", **fields),
        step("d", needs=["b"], input={"x": "facts.b || facts.c"}),
        replans=[replan("b", other)],
        returns={"d": "facts.d"},
    )


def revisions(scenario: Scenario) -> list[str]:
    return [one.id for one in scenario.state.plan]


def test_alternative_takes_the_place_and_what_needed_the_step_waits_for_it() -> None:
    scenario = usual()
    scenario.when(failed("b", "LOW_CONFIDENCE", message="no idea")).then(
        event("task_ended", task="b"),
        event("fact_missing", key="b"),
        event("plan_revised", number=1, instead_of="b", reason="no value for b: w: no idea"),
        event("step_expanded", step="c"),
        event("task_dispatched", task="c"),
    )
    assert {task.task for task in scenario.tasks_in_flight()} == {"a", "c"}, "other tasks go on"
    assert scenario.state.step("d").needs == ("b", "c")
    scenario.say(ended("c", {"c": 5}, by="v"))
    (task,) = (one for one in scenario.tasks_in_flight() if one.task == "d")
    assert task.items[0].input == {"x": 5}
    scenario.say(ended("d", {"d": 6}), ended("a", {"a": 1}))
    assert (scenario.state.end, scenario.state.result) == ("DONE", {"d": 6})


def test_without_a_failure_nothing_is_revised() -> None:
    scenario = usual().say(ended("b", {"b": 1}), ended("a", {"a": 1}), ended("d", {"d": 2}))
    assert (scenario.state.end, revisions(scenario), scenario.state.revisions) == ("DONE", ["a", "b", "d"], 0)


@pytest.mark.parametrize(("missing", "end"), [("fail", "FAILED"), ("allow", "DEGRADED")])
def test_alternative_that_does_not_deliver_decides_how_the_run_ends(missing: str, end: str) -> None:
    """What the step itself may miss says nothing about those that take its place."""
    scenario = usual(step("c", "other", missing=missing), missing="fail")
    scenario.say(failed("b", "LOW_CONFIDENCE"), failed("c", "LOW_CONFIDENCE", by="v", message="nor I"))
    if end == "DEGRADED":
        (task,) = (one for one in scenario.tasks_in_flight() if one.task == "d")
        assert task.items[0].input == {"x": None}
        scenario.say(ended("d", {"d": 6}), ended("a", {"a": 1}))
        assert scenario.state.reason == "without c (LOW_CONFIDENCE)"
    else:
        assert (scenario.state.code, scenario.state.reason) == ("LOW_CONFIDENCE", "no value for c: v: nor I")
    assert scenario.state.end == end


def test_each_is_used_once() -> None:
    """A step of several items fails for one after the other; the others of it go on."""
    each = step("b", for_each="input.n", fact="b.k{index}", tasks=3)
    scenario = planned(
        each,
        replans=[replan("b", step("c", "other"))],
        input={"n": [1, 2, 3]},
        returns={"b": "facts.b", "c": "facts.c"},
    )
    scenario.when(failed("b-0", "LOW_CONFIDENCE")).then(
        event("task_ended"),
        event("fact_missing"),
        event("plan_revised"),
        event("step_expanded"),
        event("task_dispatched"),
    )
    scenario.when(failed("b-1", "LOW_CONFIDENCE")).then(event("task_ended"), event("fact_missing", key="b.k1"))
    scenario.when(ended("b-2", {"b.k2": 3})).then(event("task_ended"), event("fact_committed", key="b.k2"))
    scenario.say(ended("c", {"c": 9}, by="v"))
    assert (scenario.state.end, scenario.state.result) == ("DONE", {"b": {"k2": 3}, "c": 9})


def test_so_many_times_a_run_at_most() -> None:
    replans = [replan(name, step(f"{name}_2", "other")) for name in ("a", "b", "c")]
    scenario = planned(*(step(name) for name in ("a", "b", "c")), replans=replans, revisions=2)
    scenario.say(failed("a", "LOW_CONFIDENCE"), failed("b", "LOW_CONFIDENCE"))
    assert {task.task for task in scenario.tasks_in_flight()} == {"c", "a_2", "b_2"}
    scenario.when(failed("c", "LOW_CONFIDENCE")).then(
        event("task_ended"), event("fact_missing", key="c"), event("run_ended", end="FAILED", code="LOW_CONFIDENCE")
    )


def test_none_where_the_playbook_allows_none() -> None:
    scenario = planned(step("b"), replans=[replan("b", step("c", "other"))], revisions=0)
    scenario.say(failed("b", "LOW_CONFIDENCE"))
    assert (scenario.state.end, revisions(scenario)) == ("FAILED", ["b"])


def test_specialists_that_are_woken_do_not_use_up_the_revisions() -> None:
    scenario = given(
        *OFFERS,
        offer("eve", "watching", wakes_on=["a.*"]),
        teach(
            *(step(f"a{n}", fact=f"a.k{n}") for n in range(3)),
            step("b"),
            replans=[replan("b", step("c", "other"))],
            revisions=1,
            wakes=True,
        ),
        goal(),
    )
    scenario.say(*(ended(f"a{n}", {f"a.k{n}": n}) for n in range(3)))
    assert scenario.state.revisions == 3
    scenario.say(failed("b", "LOW_CONFIDENCE"))
    assert (scenario.state.end, scenario.state.steps["b"].revised) == ("", True)


def test_alternative_has_several_steps_and_may_rest_on_any_that_was_decided() -> None:
    """It may use the key of the step whose place it takes."""
    alternative = [step("c", "other", needs=["a"], input={"x": "facts.a"}), step("e", needs=["c"], fact="b")]
    scenario = planned(step("a"), step("b"), replans=[replan("b", *alternative)], returns={"b": "facts.b"})
    scenario.say(failed("b", "LOW_CONFIDENCE"))
    assert {task.task for task in scenario.tasks_in_flight()} == {"a"}
    scenario.say(ended("a", {"a": 3}))
    assert scenario.tasks_in_flight()[0].items[0].input == {"x": 3}
    scenario.say(ended("c", {"c": 4}, by="v"), ended("e", {"b": 5}))
    assert (scenario.state.end, scenario.state.result) == ("DONE", {"b": 5})


def test_key_that_both_come_to_leads_to_one_outcome() -> None:
    one, other = (key_that_both_come_to(first) for first in ("b", "c"))
    assert outcome_digest(one.state) == outcome_digest(other.state)


def key_that_both_come_to(first: str) -> Scenario:
    each = {"for_each": "input.n", "fact": "b.k{index}", "tasks": 2}
    alternative = step("c", "other", replaces=True, for_each="input.n", fact="b.k{index}", tasks=1)
    scenario = planned(
        step("b", **each), replans=[replan("b", alternative)], input={"n": [1, 2]}, returns={"b": "facts.b"}
    )
    scenario.say(failed("b-0", "LOW_CONFIDENCE"))
    ends = [ended("b-1", {"b.k1": "old"}), ended("c", {"b.k0": "new", "b.k1": "new"}, by="v")]
    return scenario.say(*(ends if first == "b" else reversed(ends)))


@pytest.mark.parametrize("first", ["b", "c"])
def test_key_that_both_come_to_is_that_of_the_alternative(first: str) -> None:
    """An item of the step is still worked on while its alternative does all of them anew: whoever comes first, the
    outcome is the same, and no claim is lost."""
    scenario = key_that_both_come_to(first)
    assert (scenario.state.end, scenario.state.result) == ("DONE", {"b": {"k0": "new", "k1": "new"}})
    if first == "b":
        assert [old.value for old in scenario.state.facts["b.k1"].previous] == ["old"]
    else:
        missing = scenario.state.missing["b.k1"]
        assert [(loser.value, loser.reason) for loser in missing.losers] == [("old", "'c' took the place of 'b'")]


def test_denied_question_may_have_an_alternative() -> None:
    asks = {"id": "b", "question": {"ask": "n?"}}
    scenario = planned(asks, replans=[replan("b", step("c", "other"))], returns={"c": "facts.c"})
    scenario.say(deny(scenario.state.gates["b"].digest, "b"))
    assert [task.task for task in scenario.tasks_in_flight()] == ["c"]
    scenario.say(ended("c", {"c": 1}, by="v"))
    assert scenario.state.end == "DONE"


def test_alternative_may_ask_a_person() -> None:
    scenario = usual(step("c", "other", gate={})).say(failed("b", "LOW_CONFIDENCE"))
    assert list(scenario.state.open_gates) == ["c"]
    scenario.say(approve(scenario.state.gates["c"].digest, "c"))
    assert {task.task for task in scenario.tasks_in_flight()} == {"a", "c"}


def test_voice_that_declines_does_so_only_for_the_step_that_was_replaced() -> None:
    scenario = planned(
        step("b", specialist="all", missing="allow"), step("d", needs=["b"]), replans=[replan("b", step("c", "other"))]
    )
    scenario.say(failed("b", "LOW_CONFIDENCE"), ended("c", {"c": 1}, by="v"), ended("d", {"d": 1}))
    assert (scenario.state.end, scenario.state.reason) == ("DONE", "")


def test_no_plan_for_a_step_of_a_plan_for_a_step() -> None:
    """What takes the place of a step has nothing that takes its place."""
    body = {
        "team": "t",
        "steps": [{"id": "b", "capability": "work"}],
        "replans": [
            replan("b", {"id": "c", "capability": "other"}),
            replan("c", {"id": "d", "capability": "other"}),
        ],
    }
    assert read_playbook(Said("playbook", "t", body).data, "t") == "replans: 'c' is no step"


def test_alternative_that_needs_what_needs_the_step_would_wait_for_ever() -> None:
    body = {
        "team": "t",
        "steps": [{"id": "b", "capability": "work"}, {"id": "d", "capability": "work", "needs": ["b"]}],
        "replans": [replan("b", {"id": "c", "capability": "other", "needs": ["d"]})],
    }
    problem = read_playbook(Said("playbook", "t", body).data, "t")
    assert problem == "replans: 'd' needs 'b', and what takes its place needs 'd'"


def test_attempts_and_fallbacks_come_first() -> None:
    scenario = usual(attempts=2, fallback=["v"])
    scenario.say(failed("b", "TOOL_DOWN"), failed("b", "TOOL_DOWN", attempt=2), failed("b", "LOW_CONFIDENCE", 3, "v"))
    assert revisions(scenario) == ["a", "b", "d", "c"]


def test_cancel_after_a_revision() -> None:
    scenario = usual().say(failed("b", "LOW_CONFIDENCE"), started("c", by="v"), cancel())
    assert (scenario.state.end, effects.in_flight(scenario.state)) == ("CANCELLED", set())
    scenario.when(ended("c", {"c": 1}, by="v")).then(event("input_late", reason="the run has ended"))


def test_newer_playbook_does_not_change_a_run_that_goes_on() -> None:
    scenario = usual()
    scenario.say(teach(step("a"), step("b"), replans=[replan("b", step("z", "other"))]), failed("b", "LOW_CONFIDENCE"))
    assert revisions(scenario) == ["a", "b", "d", "c"]


def test_result_that_is_behind_its_facts_is_no_reason_for_a_revision() -> None:
    scenario = planned(
        step("a"),
        step("b", needs=["a"], reads=["a"], stale="again"),
        step("r", "other", needs=["a"], fact="a", replaces=True),
        replans=[replan("b", step("c", "other"))],
    )
    scenario.say(ended("a", {"a": 1}), ended("r", {"a": 2}, by="v"), ended("b", {"b": 1}))
    assert scenario.state.revisions == 0
    scenario.say(failed("b", "LOW_CONFIDENCE", attempt=2))
    assert scenario.state.revisions == 1


def test_time_that_is_up_is_a_reason_too() -> None:
    scenario = usual(attempts=1).say(started("b"), Due("task.b"))
    (revised,) = (one for one in scenario.last if isinstance(one, e.PlanRevised))
    assert revised.reason == "no value for b: w: not ended within 30000 ms of work"
