"""Approval bound to nothing: approved was one action, done was another. Here what was approved is compared with each
attempt that is given out: the action, and who does it by which contract. What has changed is asked anew or blocked."""

from typing import Any

import pytest

from schemas import events as e
from supervisor import effects
from supervisor.spans import RunSpans
from tests.coordination.asking import answer, approve, deny, needs_input, tool_called
from tests.supervisor.scenario import (
    LOG,
    RUN,
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

NUMBER = {"type": "integer"}


def replaceable(*others: dict[str, Any], then: tuple[Said | Due, ...] = (), b: Any = None, **playbook: Any) -> Scenario:
    """A run whose step `b` rests on the fact `a`, which step `r` gives a newer value while nobody waits for it."""
    asks = {"gate": {}} if b is None else b
    doer = {} if "question" in asks else {"capability": "work"}
    steps = (
        step("a"),
        step("r", "fix", needs=["a"], fact="a", replaces=True),
        {"id": "b", "needs": ["a"], "input": {"x": "facts.a"}, **doer, **asks},
    )
    catalogue = (offer("w", "work"), offer("v", "fix"), teach(*steps, *others, returns={"b": "facts.b"}, **playbook))
    return given(*catalogue, goal(), ended("a", {"a": 10}), *then)


def replace_a(value: Any = 9999) -> Said:
    return ended("r", {"a": value}, by="v")


# --- while it is open -------------------------------------------------------------------------------------------------


def test_action_that_changes_while_the_gate_is_open_is_asked_about_anew() -> None:
    """Approved 10, ran 9999: the approval of 10 is none of 9999, and nothing runs unapproved."""
    scenario = replaceable()
    earlier = scenario.state.gates["b"]
    assert earlier.action == [{"key": "b", "input": {"x": 10}}]
    scenario.when(replace_a()).then(
        event("task_ended", task="r"),
        event("fact_committed", key="a", value=9999),
        event("gate_opened", gate="b", action=[{"key": "b", "input": {"x": 9999}}]),
    )
    scenario.when(approve(earlier.digest, "b")).then(
        event("input_late", reason="the digest is not that of what gate 'b' asks for")
    )
    assert scenario.tasks_in_flight() == []
    scenario.when(approve(scenario.state.gates["b"].digest, "b")).then(
        event("gate_answered"), event("step_expanded", step="b"), event("task_dispatched", task="b")
    )
    (task,) = scenario.tasks_in_flight()
    assert [one.input for one in task.items] == [{"x": 9999}]


def test_question_that_changes_while_it_is_open_is_asked_anew() -> None:
    scenario = replaceable(b={"question": {"ask": "n?", "answer": NUMBER}})
    earlier = scenario.state.gates["b"].digest
    scenario.when(replace_a()).then(event("task_ended"), event("fact_committed"), event("gate_opened", gate="b"))
    scenario.when(answer(earlier, "b", 3)).then(event("input_late"))
    scenario.when(answer(scenario.state.gates["b"].digest, "b", 4)).then(
        event("gate_answered", value=4),
        event("step_expanded", step="b"),
        event("fact_committed", key="b", value=4, by="ann", policy="answer"),
        event("run_ended", end="DONE"),
    )


def test_gate_whose_action_stays_is_not_asked_anew() -> None:
    """The fact is a newer one, and says the same."""
    scenario = replaceable()
    scenario.when(replace_a(10)).then(event("task_ended"), event("fact_committed"))
    scenario.when(approve(scenario.state.gates["b"].digest, "b")).then(
        event("gate_answered"), event("step_expanded"), event("task_dispatched")
    )


def test_time_to_answer_begins_anew_with_the_new_question() -> None:
    scenario = replaceable()
    armed = scenario.state.timers["gate.b"].armed
    scenario.say(replace_a())
    assert scenario.state.timers["gate.b"].armed > armed
    scenario.when(Due("gate.b", armed)).then()
    assert list(scenario.state.open_gates) == ["b"]


def test_action_that_changes_while_the_run_asks_about_a_loop() -> None:
    """Nothing is given out meanwhile, but what is asked is what would be done."""
    scenario = replaceable(step("c"), repeats=1, on_loop="ask")
    earlier = scenario.state.gates["b"].digest
    scenario.say(tool_called("c"), tool_called("c"))
    assert list(scenario.state.open_gates) == ["b", "run.loop.1"]
    scenario.when(replace_a()).then(event("task_ended"), event("fact_committed"), event("gate_opened", gate="b"))
    scenario.when(approve(earlier, "b")).then(event("input_late"))
    scenario.say(approve(scenario.state.gates["b"].digest, "b"))
    assert effects.in_flight(scenario.state) == {key for key in effects.in_flight(scenario.state) if key.task == "c"}
    scenario.say(approve(scenario.state.gates["run.loop.1"].digest, "run.loop.1"))
    assert [[one.input for one in task.items] for task in scenario.tasks_in_flight() if task.task == "b"] == [
        [{"x": 9999}]
    ]


def test_action_that_cannot_be_derived_any_more_ends_the_run() -> None:
    steps = (
        step("a"),
        step("r", "fix", needs=["a"], fact="a", replaces=True),
        step("b", needs=["a"], input={"x": "sum(facts.a)"}, gate={}),
    )
    scenario = given(offer("w", "work"), offer("v", "fix"), teach(*steps), goal(), ended("a", {"a": [1, 2]}))
    assert scenario.state.gates["b"].action == [{"key": "b", "input": {"x": 3}}]
    scenario.say(ended("r", {"a": "a text"}, by="v", usage={"input_tokens": 5}))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_INPUT")
    assert scenario.state.reason == "'sum(facts.a)' cannot be evaluated here"
    assert scenario.state.usage.input_tokens == 5, "what was used is booked all the same"


# --- between approval and attempt -------------------------------------------------------------------------------------


def busy() -> Scenario:
    """`b` may be approved while the only place is taken by `r`, which gives `a` a newer value."""
    scenario = replaceable(step("c", needs=["a"]), parallel=1, b={"gate": {}, "missing": "allow"})
    assert [task.task for task in scenario.tasks_in_flight()] == ["r"]
    return scenario


def test_action_that_changes_between_approval_and_attempt_is_blocked() -> None:
    scenario = busy()
    scenario.say(approve(scenario.state.gates["b"].digest, "b"))
    assert [task.task for task in scenario.tasks_in_flight()] == ["r"]
    scenario.when(replace_a()).then(
        event("task_ended", task="r"),
        event("fact_committed", key="a"),
        event(
            "task_ended", task="b", code="POLICY_BLOCKED", message="the action of 'b' is not the one that ann approved"
        ),
        event("fact_missing", key="b", code="POLICY_BLOCKED"),
        event("task_dispatched", task="c"),
    )


def test_action_that_changes_before_a_retry_is_blocked() -> None:
    scenario = replaceable()
    scenario.say(approve(scenario.state.gates["b"].digest, "b"), replace_a())
    (task,) = scenario.tasks_in_flight()
    assert [one.input for one in task.items] == [{"x": 10}], "the attempt that was begun is the approved one"
    scenario.say(failed("b", "TOOL_DOWN"))
    assert (scenario.state.end, scenario.tasks_in_flight()) == ("POLICY_BLOCKED", [])


def test_who_approved_in_advance_approved_what_it_is_by_now() -> None:
    """The gate says what was done in the end, so the record is of that."""
    steps = (
        step("a"),
        step("r", "fix", needs=["a"], fact="a", replaces=True),
        step("b", needs=["a"], input={"x": "facts.a"}, gate={}),
    )
    scenario = given(offer("w", "work"), offer("v", "fix"), teach(*steps, parallel=1), goal(approve=True, by="pat"))
    scenario.say(ended("a", {"a": 10}))
    assert [task.task for task in scenario.tasks_in_flight()] == ["r"]
    assert scenario.state.gates["b"].action == [{"key": "b", "input": {"x": 10}}]
    scenario.when(replace_a()).then(
        event("task_ended", task="r"),
        event("fact_committed", key="a"),
        event("gate_opened", gate="b", action=[{"key": "b", "input": {"x": 9999}}]),
        event("gate_answered", gate="b", by="pat", in_advance=True),
        event("task_dispatched", task="b"),
    )
    assert scenario.tasks_in_flight()[0].items[0].input == {"x": 9999}


def test_gate_that_asks_anew_has_a_span_for_each_question() -> None:
    scenario, spans = replaceable(), RunSpans(LOG, RUN)
    events = [*scenario.last, *scenario.say(replace_a()).last]
    events += scenario.say(approve(scenario.state.gates["b"].digest, "b")).last
    told = [span for one in events for span in spans.add(one) if span.name == "gate b"]
    assert [span.attributes["blackboard.outcome"] for span in told] == ["ABANDONED", "APPROVED"]
    assert len({span.place.span for span in told}) == 2


def test_of_many_items_just_those_that_changed_are_blocked() -> None:
    """Two tasks, of which one was given out before the newer value came."""
    steps = (
        step("a"),
        step("r", "fix", needs=["a"], fact="a", replaces=True),
        step(
            "b",
            needs=["a"],
            for_each="input.n",
            fact="b.k{index}",
            input={"x": "facts.a", "n": "item"},
            tasks=3,
            missing="allow",
            gate={},
        ),
    )
    scenario = given(offer("w", "work"), offer("v", "fix"), teach(*steps, parallel=2), goal({"n": [1, 2, 3]}))
    scenario.say(ended("a", {"a": 10}))
    scenario.say(approve(scenario.state.gates["b"].digest, "b"))
    assert [task.task for task in scenario.tasks_in_flight()] == ["r", "b-0"]
    scenario.say(replace_a(), ended("b-0", {"b.k0": 1}))
    assert {key: one.code for key, one in scenario.state.missing.items()} == {
        "b.k1": "POLICY_BLOCKED",
        "b.k2": "POLICY_BLOCKED",
    }
    assert (scenario.state.end, scenario.state.facts["b.k0"].value) == ("DEGRADED", 1)


def test_what_was_approved_is_done_once_though_facts_change() -> None:
    """A step that asks again when facts change does so without a gate; with one its result is marked."""
    scenario = replaceable(b={"gate": {}, "stale": "again"})
    scenario.say(approve(scenario.state.gates["b"].digest, "b"), replace_a())
    scenario.when(ended("b", {"b": 1})).then(
        event("task_ended", task="b"), event("fact_committed", key="b", stale=["input"]), event("run_ended", end="DONE")
    )


# --- who does it ------------------------------------------------------------------------------------------------------


def asked(*catalogue: Said, **b: Any) -> Scenario:
    return given(*catalogue, teach(step("b", gate={}, **b), returns={"b": "facts.b"}), goal())


def agree(scenario: Scenario) -> Scenario:
    return scenario.say(approve(scenario.state.gates["b"].digest, "b"))


def test_new_contract_while_the_gate_is_open_does_not_slip_in() -> None:
    scenario = asked(offer("w", "work"))
    digest = scenario.state.gates["b"].digest
    scenario.say(offer("w", "work", tools=[{"tool": "rm"}], authority="effect"))
    assert scenario.state.gates["b"].digest == digest
    agree(scenario).then(event("gate_answered"), event("step_expanded"), event("task_dispatched", contract=1))


def test_digest_names_who_does_it_by_which_contract() -> None:
    one, other = asked(offer("w", "work")), asked(offer("x", "none"), offer("w", "work"))
    assert one.state.gates["b"].action == other.state.gates["b"].action
    assert one.state.gates["b"].digest != other.state.gates["b"].digest


def test_who_is_preferred_by_now_does_not_take_the_place_of_who_was_approved() -> None:
    scenario = asked(offer("w", "work"))
    scenario.say(offer("a", "work"))
    agree(scenario)
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["w"]


def test_who_came_later_has_no_voice() -> None:
    scenario = asked(offer("u", "work"), offer("w", "work"), specialist="all")
    scenario.say(offer("x", "work"))
    agree(scenario)
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["u", "w"]


def test_who_was_approved_is_gone_so_another_is_asked_about() -> None:
    scenario = asked(offer("w", "work"))
    earlier = scenario.state.gates["b"].digest
    scenario.say(offer("w"), offer("x", "work"), approve(earlier, "b"))
    scenario.then(event("gate_answered"), event("gate_opened", voices=[{"specialist": "x", "contract": 5}]))
    scenario.when(approve(earlier, "b")).then(event("input_late"))
    agree(scenario).then(event("gate_answered"), event("step_expanded"), event("task_dispatched", specialist="x"))


def test_nobody_else_begins_what_who_was_approved_did_not() -> None:
    """Without a gate the task would go to `x`, who offers the same."""
    scenario = agree(asked(offer("w", "work"), offer("x", "work"), attempts=1))
    for _ in range(3):
        assert [task.specialist for task in scenario.tasks_in_flight()] == ["w"]
        scenario.say(Due("task.b"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED_RETRYABLE", "TIMEOUT")


def test_fallback_takes_over_as_it_was_approved() -> None:
    scenario = asked(offer("w", "work", attempts=1), offer("x", "other"), fallback=["x"])
    assert [one.specialist for one in scenario.state.gates["b"].voices] == ["w", "x"]
    scenario.say(offer("x", "other", authority="effect"))
    agree(scenario).say(failed("b", "TOOL_DOWN"))
    (task,) = scenario.tasks_in_flight()
    assert (task.specialist, task.contract) == ("x", 2)


def test_fallback_that_came_later_does_not_take_over() -> None:
    scenario = asked(offer("w", "work", attempts=1), fallback=["x"])
    scenario.say(offer("x", "other"))
    agree(scenario).say(failed("b", "TOOL_DOWN"))
    assert (scenario.state.end, scenario.tasks_in_flight()) == ("FAILED_RETRYABLE", [])


@pytest.mark.parametrize("to", ["x", "other"])
def test_approved_task_is_handed_to_nobody_else(to: str) -> None:
    scenario = asked(offer("w", "work", authority="propose"), offer("x", "other"), hand_to=["x", "other"])
    agree(scenario).say(failed("b", "HANDED_OFF", to=to))
    assert (scenario.state.end, scenario.tasks_in_flight()) == ("POLICY_BLOCKED", [])


def test_approved_task_is_handed_to_who_was_approved_but_not_by_another_contract() -> None:
    """The fallback was approved, by the contract that it had."""
    scenario = asked(offer("w", "work", authority="propose"), offer("x", "other"), fallback=["x"], hand_to=["x"])
    agree(scenario).say(failed("b", "HANDED_OFF", to="x"))
    assert [(task.specialist, task.contract) for task in scenario.tasks_in_flight()] == [("x", 2)]
    scenario = asked(offer("w", "work", authority="propose"), offer("x", "other"), fallback=["x"], hand_to=["x"])
    agree(scenario).say(offer("x", "other", tools=[{"tool": "rm"}]), failed("b", "HANDED_OFF", to="x"))
    assert (scenario.state.end, scenario.tasks_in_flight()) == ("POLICY_BLOCKED", [])
    assert "nobody approved that x does 'b' by the contract that it has" in scenario.state.reason


def test_after_a_question_of_the_specialist_the_approved_action_goes_on() -> None:
    scenario = agree(asked(offer("w", "work")))
    scenario.say(needs_input("b", {"ask": "sure?"}))
    scenario.say(approve(scenario.state.gates["b.1"].digest, "b.1"))
    (task,) = scenario.tasks_in_flight()
    assert (task.specialist, task.contract, task.attempt) == ("w", 1, 2)


def test_nothing_to_do_is_not_asked_about() -> None:
    each = step("b", for_each="input.n", fact="b.k{index}", gate={})
    scenario = given(offer("w", "work"), teach(each), goal({"n": []}))
    assert (scenario.state.gates, scenario.state.end) == ({}, "DONE")


def test_gate_of_a_child_run_binds_its_team_and_input() -> None:
    inner = teach(step("c", input={"x": "input.x"}), returns={"c": "facts.c"}, team="inner")
    outer = teach({"id": "b", "team": "inner", "input": {"x": "`1`"}, "gate": {}}, team="t")
    scenario = given(offer("w", "work"), inner, outer, goal())
    assert [one.specialist for one in scenario.state.gates["b"].voices] == ["inner"]
    agree(scenario).then(event("gate_answered"), event("step_expanded"), event("task_dispatched", specialist="inner"))
    (child,) = effects.child_goals(scenario.state)
    assert b'"input":{"x":1}' in child.data


def test_every_attempt_that_was_given_out_was_approved() -> None:
    """Over all that happens to a gated step: each dispatch rests on a gate that was answered, with that voice."""
    scenario = asked(offer("w", "work", attempts=3), offer("x", "other"), fallback=["x"])
    seen: list[e.Event] = [*scenario.last]
    for said in (
        approve("0" * 64, "b"),
        offer("w", "work"),
        offer("a", "work"),
        approve(scenario.state.gates["b"].digest, "b", by="bob"),
        deny(scenario.state.gates["b"].digest, "b"),
        failed("b", "TOOL_DOWN"),
        failed("b", "INTERNAL", attempt=2),
        failed("b", "INTERNAL", attempt=3),
        came("work"),
        ended("b", {"b": 1}, attempt=4, by="x"),
    ):
        seen += scenario.say(said).last
    given_out = [one for one in seen if isinstance(one, e.TaskDispatched)]
    voices = {(one.specialist, one.contract) for one in scenario.state.gates["b"].voices}
    assert [(one.specialist, one.contract) for one in given_out] == [("w", 1)] * 3 + [("x", 2)]
    assert {(one.specialist, one.contract) for one in given_out} == voices
    assert scenario.state.end == "DONE"
