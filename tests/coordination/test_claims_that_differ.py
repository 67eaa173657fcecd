"""Claims that differ: reconciled by a specialist that sees just the values, or the end of the run where the policy is
to reject them. Nobody's claim is lost: what did not become the fact stays with it, with the reason."""

from typing import Any

import pytest

from schemas import events as e
from schemas.codec import canonical, encode
from supervisor import effects
from tests.coordination.asking import approve, needs_input
from tests.supervisor.scenario import Due, Said, Scenario, cancel, ended, event, failed, given, goal, offer, step, teach

MERGE = {"policy": "reconcile", "specialist": "judge"}
VOICES = ("u", "v", "w")


def argued(
    *names: str, judge: bool = True, playbook: dict[str, Any] | None = None, others: tuple[Any, ...] = (), **b: Any
) -> Scenario:
    """A step that these specialists do, each with a voice; the judge reconciles what they say."""
    voices = [offer(name, "work") for name in names or VOICES]
    return given(
        *voices,
        *([offer("judge", "judging", attempts=2)] if judge else []),
        teach(
            step("b", specialist="all", merge=MERGE, **b),
            *others,
            returns={"b": "facts.b"},
            **(playbook or {}),
        ),
        goal(),
    )


def said(scenario: Scenario, *values: Any, names: tuple[str, ...] = VOICES, key: str = "b") -> Scenario:
    """Each voice claims its value, in this order of names."""
    for number, (name, value) in enumerate(zip(names, values, strict=True)):
        scenario.say(ended(f"b-{number}", {key: value}, by=name))
    return scenario


# --- agreeing ---------------------------------------------------------------------------------------------------------


def test_claims_that_agree_need_no_task() -> None:
    scenario = said(argued(), {"x": 1, "y": 2}, {"y": 2, "x": 1}, {"x": 1, "y": 2})
    scenario.then(
        event("task_ended"), event("fact_committed", key="b", policy="reconcile"), event("run_ended", end="DONE")
    )
    fact = scenario.state.facts["b"]
    assert [(loser.by, loser.reason) for loser in fact.losers] == [("v", ""), ("w", "")]
    assert set(scenario.state.tasks) == {"b-0", "b-1", "b-2"}


def test_one_voice_needs_no_task() -> None:
    scenario = argued("u").say(ended("b", {"b": 1}, by="u"))
    assert (scenario.state.end, list(scenario.state.tasks)) == ("DONE", ["b"])


def test_claims_that_the_step_does_not_accept_are_no_conflict() -> None:
    scenario = said(argued(accept="value > `0`"), 1, -1, 1)
    fact = scenario.state.facts["b"]
    assert (scenario.state.end, fact.value) == ("DONE", 1)
    assert [(loser.value, loser.reason) for loser in fact.losers] == [(1, ""), (-1, "not accepted: value > `0`")]


# --- a conflict -------------------------------------------------------------------------------------------------------


def test_conflict_becomes_a_task_that_sees_just_the_different_values() -> None:
    """Each once, in canonical order, and nothing of who said them, in which order or how often."""
    scenario = said(argued(reads=["b", "c"]), "zebra", "ant", "zebra")
    scenario.then(
        event("task_ended"),
        event("conflict_found", step="b", key="b", index=0, task="b-3", specialist="judge", contract=4),
        event("task_delayed", task="b-3", delay_ms=0),
        event("task_dispatched", task="b-3", specialist="judge"),
    )
    (task,) = scenario.tasks_in_flight()
    assert (task.kind, task.facts, task.answers) == ("reconcile", {}, ())
    assert [(one.key, one.input) for one in task.items] == [("b", {"key": "b", "values": ["ant", "zebra"]})]
    assert not any(f'"{name}"'.encode() in encode(task) for name in VOICES)


def test_judge_sees_no_facts_either() -> None:
    steps = [step("a", "first"), step("b", needs=["a"], reads=["a"], specialist="all", merge=MERGE)]
    voices = (offer("f", "first"), offer("u", "work"), offer("v", "work"), offer("judge", "judging"))
    scenario = given(*voices, teach(*steps), goal(), ended("a", {"a": 1}, by="f"))
    assert all(set(task.facts) == {"a"} for task in scenario.tasks_in_flight())
    scenario.say(ended("b-0", {"b": 1}, by="u"), ended("b-1", {"b": 2}, by="v"))
    (task,) = scenario.tasks_in_flight()
    assert (task.kind, task.facts) == ("reconcile", {})


@pytest.mark.parametrize("order", [(1, 2, 3), (3, 2, 1), (2, 3, 1)])
def test_who_said_it_first_cannot_be_seen(order: tuple[int, ...]) -> None:
    scenario = argued()
    for place in order:
        scenario.say(ended(f"b-{place - 1}", {"b": {"n": place}}, by=VOICES[place - 1]))
    (task,) = scenario.tasks_in_flight()
    assert canonical(task.items[0].input["values"]) == b'[{"n":1},{"n":2},{"n":3}]'


def test_claim_of_the_judge_is_the_fact_and_the_others_are_losers_with_a_reason() -> None:
    scenario = said(argued(), 1, 2, 1)
    scenario.when(ended("b-3", {"b": 2}, by="judge", usage={"input_tokens": 9})).then(
        event("task_ended", task="b-3"),
        event("fact_committed", key="b", value=2, task="b-3", by="judge", policy="reconcile"),
        event("run_ended", end="DONE", result={"b": 2}),
    )
    losers = [(loser.by, loser.value, loser.reason) for loser in scenario.state.facts["b"].losers]
    assert losers == [("u", 1, "reconciled"), ("v", 2, ""), ("w", 1, "reconciled")]
    assert scenario.state.usage.input_tokens == 9


def test_judge_may_find_a_value_that_nobody_claimed() -> None:
    scenario = said(argued(), 1, 2, 4).say(ended("b-3", {"b": 3}, by="judge"))
    assert scenario.state.facts["b"].value == 3
    assert [loser.value for loser in scenario.state.facts["b"].losers] == [1, 2, 4]


def test_judge_may_be_one_of_the_voices() -> None:
    scenario = given(
        offer("judge", "work"),
        offer("u", "work"),
        teach(step("b", specialist="all", merge=MERGE), returns={"b": "facts.b"}),
        goal(),
        ended("b-0", {"b": 1}, by="judge"),
        ended("b-1", {"b": 2}, by="u"),
    )
    scenario.say(ended("b-2", {"b": 1}, by="judge"))
    assert (scenario.state.end, scenario.state.facts["b"].by) == ("DONE", "judge")


def test_claim_of_the_judge_that_the_step_does_not_accept_is_not_taken() -> None:
    scenario = said(argued(accept="value > `0`", missing="allow"), 1, 2, 2).say(ended("b-3", {"b": -1}, by="judge"))
    missing = scenario.state.missing["b"]
    assert missing.message == "judge did not reconcile the claims: not accepted: value > `0`"
    assert [(loser.by, loser.value) for loser in missing.losers] == [("u", 1), ("v", 2), ("w", 2), ("judge", -1)]
    assert scenario.state.end == "DEGRADED"


# --- a judge that does not -------------------------------------------------------------------------------------------


def test_judge_that_is_not_attached() -> None:
    scenario = said(argued(judge=False, missing="allow"), 1, 2, 2)
    missing = scenario.state.missing["b"]
    said_ = "2 different values, and the policy is `reconcile`; judge, who should reconcile them, is not attached"
    assert (missing.code, missing.message) == ("LOW_CONFIDENCE", said_)
    assert [loser.value for loser in missing.losers] == [1, 2, 2]
    assert scenario.state.end == "DEGRADED"


def test_judge_that_fails_is_asked_again_within_its_attempts() -> None:
    scenario = said(argued(), 1, 2, 2)
    before = scenario.tasks_in_flight()[0].items
    scenario.when(failed("b-3", "TOOL_DOWN", by="judge")).then(
        event("attempt_failed"), event("task_dispatched", attempt=2)
    )
    assert scenario.tasks_in_flight()[0].items == before
    scenario.say(ended("b-3", {"b": 2}, attempt=2, by="judge"))
    assert scenario.state.end == "DONE"


@pytest.mark.parametrize(
    ("ends", "code", "said_"),
    [
        ([failed("b-3", "LOW_CONFIDENCE", by="judge", message="too close")], "LOW_CONFIDENCE", "too close"),
        ([failed("b-3", "TOOL_DOWN", n, "judge", message="no model") for n in (1, 2)], "TOOL_DOWN", "no model"),
        ([ended("b-3", {"other": 1}, n, "judge") for n in (1, 2)], "INVALID_OUTPUT", "names 'other' twice"),
        ([ended("b-3", {}, by="judge", silences={"b": "LOW_CONFIDENCE"})], "LOW_CONFIDENCE", ""),
    ],
)
def test_judge_that_does_not_reconcile_is_explained(ends: list[Said], code: str, said_: str) -> None:
    scenario = said(argued(missing="allow"), 1, 2, 2).say(*ends)
    missing = scenario.state.missing["b"]
    assert (missing.code, scenario.state.end) == (code, "DEGRADED")
    assert missing.message.startswith("judge did not reconcile the claims: ")
    assert said_ in missing.message
    assert [(loser.by, loser.reason) for loser in missing.losers] == [(name, "reconciled") for name in VOICES]


def test_judge_that_never_begins() -> None:
    scenario = said(argued(attempts=1), 1, 2, 2)
    for _ in range(3):
        scenario.say(Due("task.b-3"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED_RETRYABLE", "TIMEOUT")
    assert "judge did not reconcile the claims: not begun" in scenario.state.reason


def test_value_of_the_judge_out_of_its_schema() -> None:
    scenario = given(
        *(offer(name, "work") for name in VOICES),
        offer("judge", "judging", attempts=1, output={"type": "integer"}),
        teach(step("b", specialist="all", merge=MERGE)),
        goal(),
    )
    said(scenario, 1, 2, 2).say(ended("b-3", {"b": "one"}, by="judge"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_OUTPUT")
    assert "the value of 'b': / breaks /type" in scenario.state.reason


def test_judge_may_ask_a_person() -> None:
    scenario = said(argued(), 1, 2, 2).say(needs_input("b-3", {"ask": "1 or 2?"}, by="judge"))
    assert (scenario.state.phase, list(scenario.state.open_gates)) == ("NEEDS_INPUT", ["b-3.1"])
    scenario.say(approve(scenario.state.gates["b-3.1"].digest, "b-3.1"))
    (task,) = scenario.tasks_in_flight()
    assert (task.kind, [one.ask for one in task.answers]) == ("reconcile", ["1 or 2?"])
    scenario.say(ended("b-3", {"b": 2}, attempt=2, by="judge"))
    assert scenario.state.end == "DONE"


def test_voice_whose_absence_is_not_allowed_needs_no_judge() -> None:
    """As where the other claims agree: the step has to have them all."""
    scenario = argued()
    scenario.say(ended("b-0", {"b": 1}, by="u"), ended("b-1", {"b": 2}, by="v"), failed("b-2", "LOW_CONFIDENCE"))
    assert (scenario.state.end, scenario.state.code, len(scenario.state.tasks)) == ("FAILED", "LOW_CONFIDENCE", 3)


def test_voice_that_may_be_silent_is_among_those_that_declined() -> None:
    scenario = argued(silent=["LOW_CONFIDENCE"])
    scenario.say(ended("b-0", {"b": 1}, by="u"), ended("b-1", {"b": 2}, by="v"), failed("b-2", "LOW_CONFIDENCE"))
    scenario.say(ended("b-3", {"b": 2}, by="judge"))
    assert [one.by for one in scenario.state.facts["b"].declined] == ["w"]
    assert scenario.state.end == "DONE"


# --- several keys -----------------------------------------------------------------------------------------------------


def test_several_keys_of_one_group_conflict_at_once() -> None:
    each = {"for_each": "input.n", "fact": "b.k{index}", "tasks": 1, "specialist": "all", "merge": MERGE}
    scenario = given(
        offer("u", "work"),
        offer("v", "work"),
        offer("judge", "judging", attempts=2),
        teach(step("b", **each), returns={"b": "values(facts.b)"}),
        goal({"n": [1, 2, 3]}),
    )
    scenario.say(ended("b-0", {"b.k0": 1, "b.k1": 1, "b.k2": 1}, by="u"))
    scenario.when(ended("b-1", {"b.k0": 2, "b.k1": 1, "b.k2": 3}, by="v")).then(
        event("task_ended"),
        event("conflict_found", key="b.k0", index=0, task="b-2"),
        event("task_delayed", task="b-2"),
        event("fact_committed", key="b.k1", value=1),
        event("conflict_found", key="b.k2", index=2, task="b-4"),
        event("task_delayed", task="b-4"),
        event("task_dispatched", task="b-2"),
        event("task_dispatched", task="b-4"),
    )
    first, second = scenario.tasks_in_flight()
    assert (first.items[0].input["values"], second.items[0].input["values"]) == ([1, 2], [1, 3])
    scenario.say(failed("b-2", "TOOL_DOWN", by="judge"), ended("b-4", {"b.k2": 3}, by="judge"))
    assert scenario.state.end == ""
    scenario.say(ended("b-2", {"b.k0": 2}, attempt=2, by="judge"))
    assert (scenario.state.end, scenario.state.result) == ("DONE", {"b": [2, 1, 3]})
    assert [loser.by for loser in scenario.state.facts["b.k0"].losers] == ["u", "v"]


def test_conflicts_wait_for_room() -> None:
    each = {"for_each": "input.n", "fact": "b.k{index}", "tasks": 1, "specialist": "all", "merge": MERGE}
    scenario = given(
        offer("u", "work"),
        offer("v", "work"),
        offer("judge", "judging"),
        teach(step("b", **each), parallel=1),
        goal({"n": [1, 2, 3]}),
    )
    scenario.say(ended("b-0", {f"b.k{n}": 1 for n in range(3)}, by="u"))
    scenario.say(ended("b-1", {f"b.k{n}": 2 for n in range(3)}, by="v"))
    for n in range(3):
        (task,) = scenario.tasks_in_flight()
        assert task.task == f"b-{2 + n}"
        scenario.say(ended(task.task, {f"b.k{n}": 2}, by="judge"))
    assert scenario.state.end == "DONE"


def test_conflicts_are_tasks_and_a_run_has_two_thousand_at_most() -> None:
    each = {"for_each": "input.n", "fact": "b.k{index}", "specialist": "all", "merge": MERGE, "tasks": 999}
    scenario = given(
        offer("u", "work"),
        offer("v", "work"),
        offer("judge", "judging"),
        teach(step("b", **each), parallel=500),
        goal({"n": list(range(999))}),
    )
    assert len(scenario.state.tasks) == 1_998
    scenario.say(*(ended(f"b-{2 * n + i}", {f"b.k{n}": i}, by="uv"[i]) for n in range(3) for i in (0, 1)))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "BUDGET_EXCEEDED")
    assert "a run has 2000 tasks at most" in scenario.state.reason
    assert len(scenario.state.tasks) == 2_000


def test_values_that_no_task_can_carry() -> None:
    names = tuple(f"u{n}" for n in range(9))
    scenario = argued(*names, missing="allow")
    for number, name in enumerate(names):
        scenario.say(ended(f"b-{number}", {"b": f"{number}" + "x" * 60_000}, by=name))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "BUDGET_EXCEEDED")
    assert effects.in_flight(scenario.state) == set()


# --- facts that change, other steps -----------------------------------------------------------------------------------


def test_claims_behind_their_facts_make_the_reconciled_value_marked() -> None:
    steps = [
        step("a", "first"),
        step("b", needs=["a"], reads=["a"], specialist="all", merge=MERGE, stale="mark"),
        step("r", "fix", needs=["a"], fact="a", replaces=True),
    ]
    voices = (offer("f", "first"), offer("u", "work"), offer("v", "work"), offer("j", "fix"), offer("judge", "judging"))
    scenario = given(*voices, teach(*steps), goal(), ended("a", {"a": 1}, by="f"))
    scenario.say(ended("b-0", {"b": 1}, by="u"), ended("b-1", {"b": 2}, by="v"), ended("r", {"a": 2}, by="j"))
    scenario.when(ended("b-2", {"b": 2}, by="judge")).then(
        event("task_ended"), event("fact_committed", key="b", value=2, stale=["a"]), event("run_ended", end="DONE")
    )


def test_another_step_decides_the_key_while_it_is_reconciled() -> None:
    """Its playbook does not say that this one gives way, so the run says what is wrong with it."""
    scenario = argued("u", "v", others=(step("r", "fix", fact="b", replaces=True),))
    scenario.say(offer("f", "fix"), Said("wake", "", {"type": "capability_came", "capability": "fix"}))
    scenario.say(ended("b-0", {"b": 1}, by="u"), ended("b-1", {"b": 2}, by="v"), ended("r", {"b": 3}, by="f"))
    scenario.say(ended("b-2", {"b": 2}, by="judge", usage={"input_tokens": 4}))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_INPUT")
    assert "names the key 'b', which another step has decided" in scenario.state.reason
    assert (scenario.state.facts["b"].value, scenario.state.usage.input_tokens) == (3, 4)


def test_cancel_while_claims_are_reconciled() -> None:
    scenario = said(argued(), 1, 2, 2).say(cancel())
    assert (scenario.state.end, effects.in_flight(scenario.state)) == ("CANCELLED", set())
    scenario.when(ended("b-3", {"b": 2}, by="judge", usage={"input_tokens": 4})).then(
        event("input_late", reason="the run has ended", usage={"input_tokens": 4})
    )
    assert scenario.state.facts == {}


def test_judge_who_may_change_the_world_does_not_reconcile() -> None:
    """Nobody has approved that it does anything."""
    scenario = given(
        *(offer(name, "work") for name in VOICES),
        offer("judge", "judging", authority="effect"),
        teach(step("b", specialist="all", merge=MERGE, missing="allow")),
        goal(),
    )
    said(scenario, 1, 2, 2)
    assert (scenario.state.end, scenario.tasks_in_flight()) == ("DEGRADED", [])
    assert "judge" in scenario.state.missing["b"].message


# --- reject -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("missing", ["fail", "allow"])
def test_reject_ends_the_run_whatever_may_be_missed(missing: str) -> None:
    """Nor do other steps take its place."""
    steps = [step("b", specialist="all", merge={"policy": "reject"}, missing=missing), step("c", "other")]
    replans = [{"step": "b", "steps": [step("d", "other")]}]
    offers = [*(offer(name, "work") for name in VOICES), offer("x", "other")]
    scenario = given(*offers, teach(*steps, replans=replans), goal())
    said(scenario, 1, 2, 2).then(
        event("task_ended"),
        event("fact_missing", key="b", code="LOW_CONFIDENCE"),
        event("run_ended", end="FAILED", code="LOW_CONFIDENCE"),
    )
    assert scenario.state.reason == "no value for b: 2 different values, and the policy is `reject`"
    assert [loser.value for loser in scenario.state.missing["b"].losers] == [1, 2, 2]
    assert effects.in_flight(scenario.state) == set()


def test_reject_of_claims_that_agree_rejects_nothing() -> None:
    scenario = given(
        *(offer(name, "work") for name in VOICES),
        teach(step("b", specialist="all", merge={"policy": "reject"})),
        goal(),
    )
    assert said(scenario, 1, 1, 1).state.end == "DONE"


# --- first ------------------------------------------------------------------------------------------------------------


def first(*names: str, tasks: int = 1, items: int = 1, **fields: Any) -> Scenario:
    each = {"for_each": "input.n", "fact": "b.k{index}", "tasks": tasks} if items > 1 else {}
    steps = step("b", specialist="all", merge={"policy": "first"}, **each, **fields)
    voices = [offer(name, "work") for name in names or VOICES]
    return given(*voices, teach(steps, returns={"b": "facts.b"}), goal({"n": list(range(items))}))


def test_first_claim_wins_and_the_others_are_dropped() -> None:
    scenario = first().say(ended("b-1", {"b": 2}, by="v"))
    scenario.then(
        event("task_ended", task="b-1"),
        event("task_dropped", task="b-0", reason="another claim came first"),
        event("task_dropped", task="b-2"),
        event("fact_committed", key="b", value=2, by="v", losers=[], declined=[]),
        event("run_ended", end="DONE"),
    )


def test_what_was_dropped_leaves_the_queue_and_late_ends_are_recorded_and_counted() -> None:
    scenario = first(items=2, tasks=2).say(ended("b-1", {"b.k0": 2}, by="v", usage={"input_tokens": 1}))
    assert {(key.task, key.specialist) for key in effects.in_flight(scenario.state)} == {
        ("b-3", "u"),
        ("b-4", "v"),
        ("b-5", "w"),
    }
    before = scenario.state
    scenario.when(ended("b-0", {"b.k0": 1}, by="u", usage={"input_tokens": 5})).then(
        event("input_late", author="u", task="b-0", usage={"input_tokens": 5})
    )
    scenario.when(ended("b-0", {"b.k0": 1}, by="u", usage={"input_tokens": 5})).then()
    assert (scenario.state.facts, scenario.state.usage.input_tokens) == (before.facts, 6)
    scenario.say(ended("b-5", {"b.k1": 9}))
    assert (scenario.state.end, scenario.state.facts["b.k1"].value) == ("DONE", 9)


def test_claim_that_is_not_accepted_wins_nothing() -> None:
    scenario = first(accept="value > `0`").say(ended("b-0", {"b": -1}, by="u"))
    assert {key.task for key in effects.in_flight(scenario.state)} == {"b-1", "b-2"}
    scenario.say(ended("b-2", {"b": 3}))
    fact = scenario.state.facts["b"]
    assert (fact.value, [(loser.value, loser.reason) for loser in fact.losers]) == (
        3,
        [(-1, "not accepted: value > `0`")],
    )


def test_first_of_several_keys_waits_until_each_has_a_claim() -> None:
    scenario = first(items=2, tasks=1, silent=["LOW_CONFIDENCE"])
    scenario.say(ended("b-0", {"b.k0": 1}, by="u", silences={"b.k1": "LOW_CONFIDENCE"}))
    assert {key.task for key in effects.in_flight(scenario.state)} == {"b-1", "b-2"}
    scenario.say(ended("b-2", {"b.k0": 3, "b.k1": 4}))
    assert {key: (one.value, one.by) for key, one in scenario.state.facts.items()} == {
        "b.k0": (1, "u"),
        "b.k1": (4, "w"),
    }


def test_what_was_dropped_before_it_was_given_out_is_not_given_out() -> None:
    scenario = given(
        *(offer(name, "work") for name in VOICES),
        teach(step("b", specialist="all", merge={"policy": "first"}), step("c", "work", specialist="u"), parallel=1),
        goal(),
    )
    scenario.say(ended("b-0", {"b": 1}, by="u"))
    assert [task.task for task in scenario.tasks_in_flight()] == ["c"]
    assert {name: one.attempt for name, one in scenario.state.tasks.items()} == {"b-0": 1, "b-1": 0, "b-2": 0, "c": 1}


def test_who_waits_for_a_person_or_for_another_attempt_is_dropped_too() -> None:
    scenario = first().say(
        needs_input("b-0", {"ask": "sure?"}, by="u"), failed("b-1", "TOOL_DOWN", by="v"), ended("b-2", {"b": 1})
    )
    assert (scenario.state.end, scenario.state.timers) == ("DONE", {})
    dropped = [one.task for one in scenario.last if isinstance(one, e.TaskDropped)]
    assert dropped == ["b-0", "b-1"]


def test_answer_for_who_was_dropped_is_late() -> None:
    scenario = first(items=2, tasks=2).say(needs_input("b-0", {"ask": "sure?"}, by="u"), ended("b-2", {"b.k0": 1}))
    assert scenario.state.open_gates == {}
    scenario.when(approve(scenario.state.gates["b-0.1"].digest, "b-0.1")).then(
        event("input_late", reason="gate 'b-0.1' asks for what is over")
    )
