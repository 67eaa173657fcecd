"""A request carries the digest of the exact action, who may answer and until when; the answer cites the digest. What is
changed, late, doubled or foreign is refused, with the reason, and changes nothing else."""

from typing import Any

import pytest

from schemas import events as e
from schemas.inputs import Question
from supervisor import effects
from tests.coordination.asking import (
    KINDS,
    OF_A_TASK,
    WHO,
    Kind,
    answer,
    approve,
    catalogue,
    deny,
    needs_input,
    signed,
)
from tests.supervisor.scenario import (
    RUN,
    Due,
    Said,
    Scenario,
    cancel,
    ended,
    event,
    given,
    goal,
    offer,
    step,
    teach,
)

each_kind = pytest.mark.parametrize("kind", KINDS, ids=[kind.name for kind in KINDS])
each_value = pytest.mark.parametrize(
    "kind", [kind for kind in KINDS if kind.value is not None], ids=lambda one: one.name
)
each_task = pytest.mark.parametrize("kind", OF_A_TASK, ids=lambda one: one.name)


def refused(scenario: Scenario, said: Said, reason: str) -> None:
    """It is recorded with the reason, and the run waits as before."""
    before = scenario.state
    scenario.when(said).then(event("input_late", author=said.author, reason=reason))
    after = scenario.state
    assert (after.gates, after.timers, after.tasks, after.facts) == (
        before.gates,
        before.timers,
        before.tasks,
        before.facts,
    )
    assert effects.in_flight(after) == effects.in_flight(before)


# --- the request ------------------------------------------------------------------------------------------------------


@each_kind
def test_request_carries_digest_people_and_time(kind: Kind) -> None:
    scenario = kind.scenario()
    (opened,) = [one for one in scenario.last if isinstance(one, e.GateOpened)]
    gate = scenario.state.gates[kind.gate]
    assert opened.digest == gate.digest == signed(gate, kind.gate)
    assert (opened.gate, opened.who, opened.delay_ms) == (kind.gate, kind.who, 7 * 86_400_000)
    assert (opened.schema is None) == (kind.value is None)
    assert opened.action
    assert list(scenario.state.open_gates) == [kind.gate]
    assert scenario.state.timers[f"gate.{kind.gate}"].delay_ms == opened.delay_ms


@each_kind
def test_answer_that_cites_it_is_taken_once(kind: Kind) -> None:
    scenario = kind.scenario()
    cited = scenario.state.gates[kind.gate].digest
    scenario.say(kind.yes(cited))
    said = scenario.last[0]
    assert isinstance(said, e.GateAnswered)
    assert (said.by, said.approved, said.value, said.in_advance) == (WHO, True, kind.value, False)
    assert f"gate.{kind.gate}" not in scenario.state.timers
    reason = "the run has ended" if scenario.state.end else f"gate {kind.gate!r} was approved by ann already"
    refused(scenario, kind.yes(cited), reason)
    refused(scenario, deny(cited, kind.gate), reason)


@each_kind
def test_digest_of_the_same_request_in_another_run_is_another_one(kind: Kind) -> None:
    scenario = kind.scenario(*kind.ask("r2"))
    mine, other = scenario.state.gates[kind.gate], scenario.of("r2").gates[kind.gate]
    assert (mine.action, mine.ask, mine.voices) == (other.action, other.ask, other.voices)
    refused(scenario, kind.yes(other.digest), f"the digest is not that of what gate {kind.gate!r} asks for")
    refused(scenario, deny(other.digest, kind.gate), f"the digest is not that of what gate {kind.gate!r} asks for")


@each_kind
@pytest.mark.parametrize("gate", ["a", "a.2", "run.loop.2", "x" * 200, ""])
def test_answer_for_another_gate(kind: Kind, gate: str) -> None:
    scenario = kind.scenario()
    cited = scenario.state.gates[kind.gate].digest
    refused(scenario, kind.yes(cited, gate=gate or "none"), f"the run has no gate {(gate or 'none')[:64]!r}")


@each_kind
@pytest.mark.parametrize(
    "said", [lambda kind, cited: kind.yes(cited, by="bob"), lambda kind, cited: deny(cited, kind.gate, "bob")]
)
def test_somebody_who_may_not_answer(kind: Kind, said: Any) -> None:
    scenario = kind.scenario()
    cited = scenario.state.gates[kind.gate].digest
    if kind.who:
        refused(scenario, said(kind, cited), f"gate {kind.gate!r} asks ann, not bob")
    else:
        scenario.say(said(kind, cited))
        assert isinstance(scenario.last[0], e.GateAnswered)


@each_kind
def test_answer_of_the_other_kind(kind: Kind) -> None:
    scenario = kind.scenario()
    cited = scenario.state.gates[kind.gate].digest
    asked = "an approval, not for a value" if kind.value is None else "a value, not for an approval"
    refused(scenario, kind.other(cited), f"gate {kind.gate!r} asks for {asked}")


@each_value
@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ("3", "the value: / breaks /type"),
        (None, "the value: / breaks /type"),
        (3.5, "the value: / breaks /type"),
        (2**70, "the value: a whole number of more than 64 bits"),
        ("x" * 70_000, "the value is over 65536 bytes"),
        ("\ud800", "does not fit"),
    ],
)
def test_value_out_of_schema(kind: Kind, value: Any, reason: str) -> None:
    scenario = kind.scenario()
    cited = scenario.state.gates[kind.gate].digest
    said = answer(cited, kind.gate, value)
    if value == "\ud800":
        scenario.say(said)
        assert any(isinstance(one, e.InputLate | e.InputRejected) for one in scenario.last)
        assert kind.gate in scenario.state.open_gates
    else:
        refused(scenario, said, reason)
    scenario.say(kind.yes(cited))
    assert isinstance(scenario.last[0], e.GateAnswered)


@each_kind
def test_answer_after_the_time_is_up(kind: Kind) -> None:
    scenario = kind.scenario()
    cited, name = scenario.state.gates[kind.gate].digest, kind.gate
    scenario.say(Due(f"gate.{name}"))
    word = "approved" if kind.value is None else "answered"
    assert (scenario.state.end, scenario.state.code) == ("POLICY_BLOCKED", "POLICY_BLOCKED")
    assert f"nobody {word} {name!r} within 604800000 ms" in scenario.state.reason
    refused(scenario, kind.yes(cited), "the run has ended")


@each_kind
def test_answer_after_a_cancel(kind: Kind) -> None:
    scenario = kind.scenario(cancel())
    assert (scenario.state.end, scenario.state.open_gates, scenario.state.timers) == ("CANCELLED", {}, {})
    refused(scenario, kind.yes(scenario.state.gates[kind.gate].digest), "the run has ended")


@each_kind
def test_denial(kind: Kind) -> None:
    scenario = kind.scenario()
    scenario.say(deny(scenario.state.gates[kind.gate].digest, kind.gate, reason="not today"))
    said = scenario.last[0]
    assert isinstance(said, e.GateAnswered)
    assert (said.by, said.approved, said.reason, said.value) == (WHO, False, "not today", None)
    assert (scenario.state.end, scenario.state.code) == ("POLICY_BLOCKED", "POLICY_BLOCKED")
    assert "ann d" in scenario.state.reason  # denied, or did not answer
    assert effects.in_flight(scenario.state) == set()


# --- a run that goes on without an answer -----------------------------------------------------------------------------


def may_be_missed(question: bool) -> Scenario:
    fields = {"missing": "allow"}
    asks = {"id": "b", "question": {"ask": "n?", "answer": {"type": "integer"}}} if question else step("b")
    scenario = given(offer("w", "work"), teach(asks | fields, step("c"), returns={"b": "facts.b"}), goal())
    if not question:
        scenario.say(needs_input("b", {"ask": "n?", "schema": {"type": "integer"}}))
    return scenario


@pytest.mark.parametrize("question", [True, False], ids=["step", "specialist"])
@pytest.mark.parametrize("how", ["expired", "denied"])
def test_answer_to_what_was_missed_is_late_and_the_run_goes_on(question: bool, how: str) -> None:
    """The gate of a step whose time is up must not be open for ever: answered again, its key would be decided twice."""
    scenario, name = may_be_missed(question), "b" if question else "b.1"
    cited = scenario.state.gates[name].digest
    scenario.say(Due(f"gate.{name}") if how == "expired" else deny(cited, name))
    assert (scenario.state.end, scenario.state.missing["b"].code) == ("", "POLICY_BLOCKED")
    assert scenario.state.open_gates == {}
    assert list(scenario.state.timers) == ["task.c"]
    over = "asks for what is over" if how == "expired" else "was denied by ann already"
    refused(scenario, answer(cited, name, 3), f"gate {name!r} {over}")
    scenario.say(ended("c", {"c": 1}))
    assert (scenario.state.end, scenario.state.reason) == ("DEGRADED", "without b (POLICY_BLOCKED)")


@pytest.mark.parametrize("first", ["expired", "answered"])
def test_of_a_wake_and_an_answer_the_smaller_sequence_counts(first: str) -> None:
    scenario = may_be_missed(question=True)
    cited, armed = scenario.state.gates["b"].digest, scenario.state.timers["gate.b"].armed
    both: list[Said | Due] = [Due("gate.b", armed), answer(cited, "b", 3)]
    scenario.say(*(both if first == "expired" else reversed(both)))
    assert ("b" in scenario.state.facts, "b" in scenario.state.missing) == (first == "answered", first == "expired")


# --- in advance -------------------------------------------------------------------------------------------------------


@each_kind
def test_publisher_approves_actions_in_advance_neither_values_nor_loops(kind: Kind) -> None:
    """What a value would be, and that a run repeats itself, cannot be known in advance. Who approves all in advance is
    not there to be asked, so a run that repeats itself ends."""
    asking = [one for one in kind.ask(RUN) if one.family != "goal"]
    (opened,) = (one for one in kind.ask(RUN) if one.family == "goal")
    scenario = given(*catalogue(), goal(team=opened.body["team"], by=WHO, approve=True), *asking)
    if kind.name == "loop":
        assert (scenario.state.end, scenario.state.code, scenario.state.gates) == ("FAILED", "LOOP", {})
        return
    gate = scenario.state.gates[kind.gate]
    in_advance = kind.value is None
    assert (gate.approved, gate.in_advance, gate.open) == (in_advance, in_advance, not in_advance)
    assert (gate.by == WHO) is in_advance


def test_publisher_who_may_not_approve_cannot_do_so_in_advance() -> None:
    scenario = given(*catalogue(), goal(by="pat", approve=True), ended("a", {"a": 7}))
    assert list(scenario.state.open_gates) == ["b"]
    refused(scenario, approve(scenario.state.gates["b"].digest, "b", by="pat"), "gate 'b' asks ann, not pat")


# --- a specialist's request -------------------------------------------------------------------------------------------


@each_task
def test_task_goes_on_with_the_answer_and_no_attempt_is_lost(kind: Kind) -> None:
    scenario = kind.scenario()
    assert (scenario.tasks_in_flight(), scenario.state.phase, scenario.state.tasks["a"].lost) == ([], "NEEDS_INPUT", 0)
    gate = scenario.state.gates["a.1"]
    scenario.when(kind.yes(gate.digest)).then(event("gate_answered"), event("task_dispatched", task="a", attempt=2))
    (task,) = scenario.tasks_in_flight()
    (said,) = task.answers
    assert (said.ask, said.action, said.by, said.value) == (gate.ask, gate.action, WHO, kind.value)
    scenario.say(ended("a", {"a": 1}, attempt=2))
    assert scenario.state.end == "DONE"


@each_task
def test_the_attempt_that_asked_ends_once(kind: Kind) -> None:
    """Another execution of it, or the same end again, asks nothing new."""
    scenario = kind.scenario()
    again = kind.ask(RUN)[-1]
    scenario.when(again).then()
    other = again._replace(body=again.body | {"execution": "another", "usage": {"input_tokens": 5}})
    scenario.when(other).then(event("input_late", reason="attempt 1 of a has ended, or was never made"))
    assert scenario.state.usage.input_tokens == 5
    assert list(scenario.state.open_gates) == ["a.1"]


def test_approval_is_for_who_asked_and_an_answer_for_whoever_has_the_task() -> None:
    """Nobody begins the attempt after the approval, so somebody else gets the task: that one asks for itself."""
    scenario = given(offer("v", "work"), offer("w", "work"), teach(step("a")), goal())
    confirmation = {"ask": "may v call rm?", "action": {"tool": "rm"}}
    scenario.say(needs_input("a", {"ask": "how many?", "schema": {}}, by="v"))
    scenario.say(answer(scenario.state.gates["a.1"].digest, "a.1", 4))
    scenario.say(needs_input("a", confirmation, attempt=2, by="v"))
    scenario.say(approve(scenario.state.gates["a.2"].digest, "a.2"))
    assert [one.ask for one in scenario.tasks_in_flight()[0].answers] == ["how many?", "may v call rm?"]
    scenario.say(Due("task.a"))
    (task,) = scenario.tasks_in_flight()
    assert (task.specialist, [one.ask for one in task.answers]) == ("w", ["how many?"])
    scenario.say(needs_input("a", confirmation, attempt=4))
    assert scenario.state.gates["a.4"].digest != scenario.state.gates["a.2"].digest
    refused(
        scenario,
        approve(scenario.state.gates["a.2"].digest, "a.4"),
        "the digest is not that of what gate 'a.4' asks for",
    )


@pytest.mark.parametrize(
    ("question", "code", "said"),
    [
        (None, "INVALID_OUTPUT", "it asks nothing"),
        ({"ask": "n?", "schema": {"type": "no such type"}}, "INVALID_OUTPUT", "is not a JSON Schema"),
        ({"ask": "n?", "schema": {"$ref": "http://127.0.0.1/x"}}, "INVALID_OUTPUT", "is not a JSON Schema"),
        ({"ask": "n?", "action": 2**70}, "INVALID_OUTPUT", "a whole number of more than 64 bits"),
        ({"ask": "x" * 70_000}, "INVALID_OUTPUT", "over 65536 bytes"),
    ],
)
def test_question_that_cannot_be_asked_is_a_failed_attempt(question: Any, code: str, said: str) -> None:
    scenario = given(offer("w", "work", attempts=2), teach(step("a")), goal(), needs_input("a", question))
    failure = scenario.last[0]
    assert isinstance(failure, e.AttemptFailed)
    assert (failure.code, failure.lost) == (code, True)
    assert said in failure.message
    assert (scenario.state.gates, scenario.state.tasks["a"].attempt) == ({}, 2)


def test_long_question_is_found_again_by_its_digest() -> None:
    """A worker finds the answer by the digest of what it asked, all of it."""
    asked = {"ask": "how many? " * 500, "schema": {}, "action": None}
    scenario = given(offer("w", "work"), teach(step("a")), goal(), needs_input("a", asked))
    scenario.say(answer(scenario.state.gates["a.1"].digest, "a.1", 4))
    (task,) = scenario.tasks_in_flight()
    assert task.answers[0].digest == Question(**asked).digest


def test_task_asks_twenty_times_at_most() -> None:
    scenario = given(offer("w", "work"), teach(step("a")), goal())
    for number in range(1, 21):
        scenario.say(needs_input("a", {"ask": f"n{number}?", "schema": {}}, attempt=number))
        name = f"a.{number}"
        scenario.say(answer(scenario.state.gates[name].digest, name, number))
    assert [one.value for one in scenario.tasks_in_flight()[0].answers] == list(range(1, 21))
    scenario.say(needs_input("a", {"ask": "n21?", "schema": {}}, attempt=21))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "BUDGET_EXCEEDED")
    assert "it asked 20 times; that is the most" in scenario.state.reason


def test_answers_too_large_for_a_task_end_it() -> None:
    """What a task carries has a limit; the answers of people count too."""
    scenario = given(offer("w", "work"), teach(step("a", missing="allow")), goal())
    for number in range(1, 21):
        scenario.say(needs_input("a", {"ask": f"n{number}?", "schema": {}}, attempt=number))
        if scenario.state.end:
            break
        name = f"a.{number}"
        scenario.say(answer(scenario.state.gates[name].digest, name, "x" * 60_000))
        if scenario.state.end:
            break
    assert (scenario.state.end, scenario.state.missing["a"].code) == ("DEGRADED", "BUDGET_EXCEEDED")
    assert "bytes of input, facts and answers" in scenario.state.missing["a"].message


def test_who_bids_cannot_ask() -> None:
    """A call waits for seconds, a question for days."""
    scenario = given(offer("v", "work"), offer("w", "work"), teach(step("a", call={})), goal())
    scenario.say(needs_input("a_bids-0", {"ask": "may I?"}, by="v"))
    assert scenario.state.gates == {}
    scenario.say(ended("a_bids-1", {"a_bids": {"can": True}}))
    (declined,) = scenario.state.facts["a_bids"].declined
    assert (declined.by, declined.code) == ("v", "LOW_CONFIDENCE")
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["w"]
