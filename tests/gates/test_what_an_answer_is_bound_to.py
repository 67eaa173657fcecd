"""Gates as scenarios: what is asked, what an answer is bound to, and what is refused, with the reason."""

from typing import Any

import pytest
from msgspec.structs import replace

from projections.canonical import State
from schemas.codec import digest
from supervisor import effects
from tests.supervisor.scenario import (
    LOG,
    RUN,
    Due,
    Said,
    Scenario,
    came,
    cancel,
    ended,
    event,
    given,
    goal,
    offer,
    step,
    teach,
)

ASK: dict[str, Any] = {"needs": ["a"], "input": {"path": "facts.a"}, "gate": {"ask": "write it?", "expires_s": 60}}
ACTION = [{"key": "b", "input": {"path": "/srv/x"}}]
OFFERED = 1
"""The sequence of the contract of `w`, who will do it."""


def signed(run: str = RUN, ask: str = "write it?", action: Any = None, contract: int = OFFERED) -> str:
    """The digest that an answer has to cite, as docs/protocol.md has it."""
    what = {"ask": ask, "schema": None, "action": ACTION if action is None else action, "by": [["w", contract]]}
    return digest({"log": LOG, "run": run, "gate": "b"} | what)


def approve(cited: str = "", gate: str = "b", by: str = "ann", run: str = RUN) -> Said:
    return Said("signal", by, {"type": "approve", "gate": gate, "digest": cited or signed(run)}, run)


def deny(cited: str = "", gate: str = "b", by: str = "ann", reason: str = "", run: str = RUN) -> Said:
    body = {"type": "deny", "gate": gate, "digest": cited or signed(run), "reason": reason}
    return Said("signal", by, body, run)


def asking(**goal_fields: Any) -> Scenario:
    """A run whose step `b` waits for a person."""
    catalogue = (offer("w", "work"), teach(step("a"), step("b", **ASK), returns={"b": "facts.b"}))
    return given(*catalogue, goal(**goal_fields), ended("a", {"a": "/srv/x"}))


# --- asking -----------------------------------------------------------------------------------------------------------


def test_step_asks_before_anything_is_dispatched_and_cites_the_exact_action() -> None:
    scenario = asking().then(
        event("task_ended", task="a"),
        event("fact_committed", key="a"),
        event("gate_opened", gate="b", ask="write it?", action=ACTION, digest=signed(), delay_ms=60_000),
    )
    assert (scenario.state.phase, list(scenario.state.timers)) == ("NEEDS_INPUT", ["gate.b"])
    assert scenario.tasks_in_flight() == []


def test_run_works_on_while_one_step_asks() -> None:
    catalogue = (offer("w", "work"), teach(step("a"), step("b", **ASK), step("c")))
    scenario = given(*catalogue, goal(), ended("a", {"a": "/srv/x"}))
    assert (scenario.state.phase, sorted(scenario.state.timers)) == ("DISPATCH", ["gate.b", "task.c"])
    scenario.when(ended("c", {"c": 1})).then(event("task_ended"), event("fact_committed"))
    assert scenario.state.phase == "NEEDS_INPUT"


def test_every_item_is_in_the_action() -> None:
    each = step("b", for_each="input.n", fact="b.k{index}", input={"n": "item"}, gate={})
    scenario = given(offer("w", "work"), teach(each), goal({"n": [7, 8]}))
    action = [{"key": "b.k0", "input": {"n": 7}}, {"key": "b.k1", "input": {"n": 8}}]
    assert scenario.state.gates["b"].action == action
    scenario.when(approve(signed(ask="", action=action))).then(
        event("gate_answered"), event("step_expanded", items=2), event("task_dispatched"), event("task_dispatched")
    )


def test_action_too_large_to_be_shown_is_not_asked_for() -> None:
    scenario = given(offer("w", "work"), teach(step("b", input={"x": "input.x"}, gate={})), goal({"x": "x" * 70_000}))
    scenario.then(event("run_opened"), event("plan_committed"), event("run_ended", code="INVALID_INPUT"))
    assert "too large to be shown to a person" in scenario.state.reason


def test_step_that_is_skipped_asks_nobody() -> None:
    scenario = given(offer("w", "work"), teach(step("b", when="input.out", gate={})), goal())
    assert (scenario.state.gates, scenario.state.end) == ({}, "DONE")


def test_nobody_is_asked_before_there_is_somebody_to_do_it() -> None:
    scenario = given(teach(step("b", gate={})), goal())
    assert scenario.state.gates == {}
    scenario.when(offer("w", "work"), came("work")).then(event("gate_opened"))
    assert list(scenario.state.timers) == ["gate.b"]
    assert effects.wake_for_capability(scenario.state, scenario.catalogue.below(100)) is None
    scenario.when(came("work")).then()


def test_question_waits_for_the_person_alone_though_nobody_offers_it_meanwhile() -> None:
    scenario = given(offer("w", "work"), teach(step("b", gate={}), step("c", "other")), offer("v", "other"), goal())
    cited = scenario.state.gates["b"].digest
    scenario.when(offer("w"), ended("c", {"c": 1}, by="v")).then(event("task_ended"), event("fact_committed"))
    assert list(scenario.state.timers) == ["gate.b"]
    scenario.when(approve(cited)).then(event("gate_answered"), event("capability_awaited", step="b"))
    assert list(scenario.state.timers) == ["await.b"]
    scenario.when(offer("v", "work"), came("work")).then(
        event("gate_opened", voices=[{"specialist": "v", "contract": 8}])
    )
    scenario.when(approve(cited)).then(event("input_late", reason="the digest is not that of what gate 'b' asks for"))
    scenario.when(approve(scenario.state.gates["b"].digest)).then(
        event("gate_answered"), event("step_expanded"), event("task_dispatched", specialist="v", contract=8)
    )


def test_who_was_approved_comes_back_and_does_it_by_the_contract_that_was_approved() -> None:
    scenario = asking().when(offer("w"), approve())
    scenario.then(event("gate_answered", approved=True), event("capability_awaited", step="b"))
    scenario.when(offer("w", "work", output={"type": "string"}), came("work")).then(
        event("step_expanded"), event("task_dispatched", specialist="w", contract=OFFERED)
    )


# --- answering --------------------------------------------------------------------------------------------------------


def test_approval_lets_exactly_that_action_begin() -> None:
    scenario = (
        asking()
        .when(approve())
        .then(
            event("gate_answered", gate="b", by="ann", approved=True, in_advance=False, reason=""),
            event("step_expanded", step="b"),
            event("task_dispatched", task="b"),
        )
    )
    (task,) = scenario.tasks_in_flight()
    assert [{"key": item.key, "input": item.input} for item in task.items] == scenario.state.gates["b"].action
    scenario.when(ended("b", {"b": 1}))
    assert scenario.state.end == "DONE"


def test_denial_ends_the_run() -> None:
    scenario = (
        asking()
        .when(deny(reason="not there"))
        .then(
            event("gate_answered", gate="b", by="ann", approved=False, reason="not there"),
            event("run_ended", end="POLICY_BLOCKED", code="POLICY_BLOCKED", reason="ann denied 'b': not there"),
        )
    )
    assert effects.in_flight(scenario.state) == set()


def test_question_expires() -> None:
    asking().when(Due("gate.b")).then(
        event("run_ended", end="POLICY_BLOCKED", reason="nobody approved 'b' within 60000 ms")
    )


def test_wake_of_another_timer_expires_nothing() -> None:
    asking().when(Due("gate.b", armed=1)).then()


def test_wake_that_comes_after_the_approval_is_void() -> None:
    scenario = asking()
    armed = scenario.state.timers["gate.b"].armed
    scenario.when(approve(), Due("gate.b", armed=armed)).then()
    assert scenario.state.end == ""


def test_publisher_approves_in_advance() -> None:
    scenario = asking(approve=True, by="pat").then(
        event("task_ended"),
        event("fact_committed"),
        event("gate_opened", digest=signed()),
        event("gate_answered", by="pat", approved=True, in_advance=True),
        event("step_expanded", step="b"),
        event("task_dispatched", task="b"),
    )
    assert list(scenario.state.timers) == ["task.b"]


def test_cancel_ends_a_run_that_asks() -> None:
    scenario = asking().when(cancel())
    assert (scenario.state.end, scenario.state.timers, scenario.state.open_gates) == ("CANCELLED", {}, {})


def test_two_gates_are_answered_each_on_its_own() -> None:
    steps = [step(name, input={"n": f"`{n}`"}, gate={}) for n, name in enumerate("xy")]
    scenario = given(offer("w", "work"), teach(*steps), goal())
    cited = {name: gate.digest for name, gate in scenario.state.gates.items()}
    assert cited["x"] != cited["y"]
    scenario.when(approve(cited["x"], "y")).then(
        event("input_late", reason="the digest is not that of what gate 'y' asks for")
    )
    scenario.when(approve(cited["y"], "y")).then(
        event("gate_answered", gate="y"), event("step_expanded", step="y"), event("task_dispatched", task="y")
    )
    assert list(scenario.state.open_gates) == ["x"]


# --- refused, with the reason -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("said", [approve, deny])
@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"cited": "0" * 64}, "the digest is not that of what gate 'b' asks for"),
        ({"cited": signed("r2")}, "the digest is not that of what gate 'b' asks for"),
        ({"cited": signed(action=[])}, "the digest is not that of what gate 'b' asks for"),
        ({"gate": "a"}, "the run has no gate 'a'"),
        ({"gate": "x" * 100}, f"the run has no gate {'x' * 64!r}"),
    ],
)
def test_answer_to_something_else_is_refused_and_recorded(said: Any, fields: dict[str, str], reason: str) -> None:
    scenario = asking()
    before = scenario.state
    scenario.when(said(**fields)).then(event("input_late", author="ann", reason=reason))
    assert scenario.state.open_gates == before.open_gates
    assert scenario.state.timers == before.timers
    scenario.when(approve()).then(event("gate_answered"), event("step_expanded"), event("task_dispatched"))


@pytest.mark.parametrize("said", [approve, deny])
def test_second_answer_is_refused(said: Any) -> None:
    scenario = asking().when(approve(by="ann")).when(said(by="bob"))
    scenario.then(event("input_late", author="bob", reason="gate 'b' was approved by ann already"))
    assert (scenario.state.end, scenario.state.gates["b"].by) == ("", "ann")


@pytest.mark.parametrize("last", [deny(), Due("gate.b"), cancel()])
def test_answer_after_the_end_is_refused(last: Said | Due) -> None:
    scenario = asking().when(last)
    assert scenario.state.end
    scenario.when(approve(by="bob")).then(event("input_late", author="bob", reason="the run has ended"))


def test_answer_to_a_run_that_does_not_ask_is_refused() -> None:
    scenario = given(offer("w", "work"), teach(step("b", team="t2"), team="t"), goal())
    scenario.when(approve()).then(event("input_late", reason="the run has no gate 'b'"))


def test_answer_to_no_run_is_rejected() -> None:
    asking().when(approve(run="nobody")).then(event("input_rejected", author="ann", reason="no goal came before it"))


def test_same_question_in_another_run_needs_an_answer_of_its_own() -> None:
    scenario = asking().when(goal(run="r2"), ended("a", {"a": "/srv/x"}, run="r2"))
    assert scenario.of("r2").gates["b"].action == scenario.state.gates["b"].action
    scenario.when(approve(signed(RUN), run="r2")).then(event("input_late", author="ann"))
    assert list(scenario.of("r2").open_gates) == ["b"]


# --- the action is another one ----------------------------------------------------------------------------------------


def with_fact(state: State, value: Any) -> State:
    return replace(state, facts=state.facts | {"a": replace(state.facts["a"], value=value)})


def test_action_that_changed_between_question_and_answer_is_blocked() -> None:
    """No input does that; a state that was tampered with, or a defect, would."""
    scenario = asking()
    folded = scenario.folded[RUN]
    scenario.folded[RUN] = replace(folded, state=with_fact(folded.state, "/etc/passwd"))
    scenario.when(approve()).then(
        event("gate_answered", approved=True),
        event("run_ended", end="POLICY_BLOCKED", reason="the action of 'b' is not the one that ann approved"),
    )
    assert effects.in_flight(scenario.state) == set()


def test_action_that_changed_between_approval_and_attempt_is_blocked() -> None:
    """There is no room for the task yet."""
    scenario = given(offer("w", "work"), teach(step("a"), step("b", **ASK), step("c"), parallel=1), goal())
    scenario.when(ended("a", {"a": "/srv/x"}), approve())
    scenario.then(event("gate_answered", approved=True), event("step_expanded", step="b"))
    folded = scenario.folded[RUN]
    scenario.folded[RUN] = replace(folded, state=with_fact(folded.state, "/etc/passwd"))
    scenario.when(ended("c", {"c": 1})).then(
        event("task_ended", task="c"),
        event("fact_committed", key="c"),
        event("task_ended", task="b", code="POLICY_BLOCKED"),
        event("fact_missing", message="w: the action of 'b' is not the one that ann approved"),
        event("run_ended", end="POLICY_BLOCKED"),
    )


# --- child runs -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("approved", [False, True])
def test_child_run_asks_for_itself_whatever_its_parent_approved(approved: bool) -> None:
    inner = teach(step("b", input={"n": "input.n"}, gate={}), team="inner")
    outer = teach(step("c", team="inner", input={"n": "`1`"}), returns={"c": "facts.c"}, team="outer")
    scenario = given(offer("w", "work"), inner, outer, goal(team="outer", approve=approved))
    (child,) = effects.child_goals(scenario.state)
    assert b'"approve":false' in child.data
    scenario.when(Said("goal", "_supervisor", child.data, child.run))
    state = scenario.of(child.run)
    assert (state.approve, state.phase, list(state.open_gates)) == (False, "NEEDS_INPUT", ["b"])


def test_denied_child_run_blocks_its_parent() -> None:
    """Through what the parent is told of the end of its child."""
    inner = teach(step("b", gate={}), team="inner")
    scenario = given(
        offer("w", "work"), inner, teach(step("c", team="inner", attempts=3), team="outer"), goal(team="outer")
    )
    (child,) = effects.child_goals(scenario.state)
    scenario.when(Said("goal", "_supervisor", child.data, child.run))
    cited = scenario.of(child.run).gates["b"].digest
    scenario.when(deny(cited, run=child.run))
    wake = effects.wake_for_parent(scenario.of(child.run), scenario.folded[child.run].h, scenario.state)
    scenario.when(Said("wake", "", wake)).then(
        event("task_ended", code="POLICY_BLOCKED"),
        event("fact_missing", code="POLICY_BLOCKED"),
        event("run_ended", end="POLICY_BLOCKED"),
    )
