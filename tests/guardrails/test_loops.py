"""Loops: the same specialist, the same input, the same outcome, again and again: the run stops, or asks a person."""

from typing import Any

import pytest

from projections.canonical import loop_gate
from schemas.codec import STATE_LIMIT, encode
from supervisor.loops import OUTCOMES_LIMIT
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

GATE = loop_gate(1)


def tool(number: int = 0, task: str = "a", attempt: int = 1, by: str = "w", **fields: Any) -> Said:
    """A call of a tool that failed, with the digest of its arguments."""
    body = {"type": "tool_called", "task": task, "attempt": attempt, "execution": "x", "tool": "get"}
    body |= {"input": f"{number:064x}", "code": "TOOL_DOWN", "message": "no route to host"}
    return Said("obs", by, body | fields)


def calling(
    *said: Said | Due, steps: list[dict[str, Any]] | None = None, asks: bool = False, **fields: Any
) -> Scenario:
    more = {"on_loop": "ask"} if asks else {}
    approve = {"approve": True} if fields.pop("approve", False) else {}
    return given(offer("w", "work"), teach(*(steps or [step("a")]), **more, **fields), goal(**approve), *said)


def answer(kind: str, scenario: Scenario, gate: str = GATE) -> Said:
    return Said("signal", "ann", {"type": kind, "gate": gate, "digest": scenario.state.gates[gate].digest})


def rounds(**fields: Any) -> Scenario:
    """Propose and critique, which may go on for twenty rounds."""
    critique = {"capability": "judging", "accept": "critique.ok", "rounds": 20}
    steps = [step("d", "writing", critique=critique)]
    offers = [offer("p", "writing"), offer("c", "judging")]
    return given(*offers, teach(*steps, **fields), goal())


# --- calls of tools ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("repeats", [1, 3, 10])
def test_call_that_fails_more_often_than_allowed_stops_the_run(repeats: int) -> None:
    scenario = calling(repeats=repeats)
    for _ in range(repeats):
        scenario.when(tool()).then(event("tool_failed", tool="get", code="TOOL_DOWN", message="no route to host"))
    what = f"w called get in vain (TOOL_DOWN), {repeats + 1} times with the same input; {repeats} are allowed"
    scenario.when(tool()).then(
        event("tool_failed"),
        event("loop_found", task="a", times=repeats + 1, what=f'{what}; the last: "no route to host"'),
        event("run_ended", end="FAILED", code="LOOP", reason=f'a: {what}; the last: "no route to host"'),
    )


def test_zero_never_stops_and_records_nothing() -> None:
    scenario = calling(repeats=0)
    for _ in range(50):
        scenario.when(tool()).then()


@pytest.mark.parametrize(
    "other",
    [{"number": 1}, {"tool": "put"}, {"code": "INTERNAL"}, {"task": "b"}],
    ids=["other arguments", "other tool", "other code", "other task"],
)
def test_what_is_not_the_same_is_counted_apart(other: dict[str, Any]) -> None:
    scenario = calling(tool(), tool(), tool(**other), steps=[step("a"), step("b")], repeats=2)
    assert sorted(scenario.state.repeats.values()) == [1, 2]
    assert scenario.say(tool(**other)).state.end == ""
    assert scenario.say(tool()).state.code == "LOOP"


def test_next_attempt_is_counted_anew() -> None:
    scenario = calling(tool(), tool(), failed("a", "TOOL_DOWN"), repeats=2)
    scenario.say(tool(attempt=2), tool(attempt=2))
    assert (scenario.state.end, sorted(scenario.state.repeats.values())) == ("", [2, 2])


@pytest.mark.parametrize(
    "said", [tool(by="eve"), tool(attempt=2), tool(task="x"), tool(code="")], ids=["foreign", "attempt", "task", "well"]
)
def test_calls_that_are_not_awaited_or_went_well_count_nothing(said: Said) -> None:
    calling(repeats=1).when(said).then()


def test_many_outcomes_are_told_apart_up_to_a_limit_and_the_known_ones_go_on_counting() -> None:
    """Beyond the limit nothing was counted at all, also not what was known to repeat itself."""
    scenario = calling(repeats=3)
    for number in range(OUTCOMES_LIMIT):
        scenario.say(tool(number))
    scenario.when(tool(OUTCOMES_LIMIT)).then()
    assert len(scenario.state.repeats) == OUTCOMES_LIMIT
    assert len(encode(scenario.state)) < STATE_LIMIT // 10
    scenario.say(tool(7), tool(7)).when(tool(7))
    assert scenario.state.code == "LOOP"


# --- rounds and hand-offs ---------------------------------------------------------------------------------------------


def test_same_critique_of_the_same_proposal_is_a_loop() -> None:
    scenario = rounds(repeats=2)
    for number in (1, 2, 3):
        scenario.say(ended(f"d_{number}", {f"d_{number}": "text"}, by="p"))
        scenario.say(ended(f"d_review_{number}", {f"d_review_{number}": {"ok": False}}, by="c"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "LOOP")
    what = "c came to the same result, 3 times with the same input; 2 are allowed; the last: "
    assert scenario.state.reason == f'd_review_3: {what}[{{"ok":false}}]'


def test_other_proposals_are_no_loop() -> None:
    scenario = rounds(repeats=1)
    for number in range(1, 21):
        scenario.say(ended(f"d_{number}", {f"d_{number}": f"text {number}"}, by="p"))
        scenario.say(ended(f"d_review_{number}", {f"d_review_{number}": {"ok": False}}, by="c"))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "LOW_CONFIDENCE")


def test_task_that_goes_to_and_fro_is_a_loop_though_more_hops_are_allowed() -> None:
    offers = [offer(name, "work", authority="propose") for name in ("v", "w")]
    scenario = given(*offers, teach(step("a", hand_to=["v", "w"], handoffs=20), repeats=2), goal())
    for attempt, (by, to) in enumerate((("v", "w"), ("w", "v")) * 2, 1):
        scenario.say(ended("a", None, attempt, by, code="HANDED_OFF", to=to, message="yours"))
        assert scenario.state.end == ""
    scenario.say(ended("a", None, 5, "v", code="HANDED_OFF", to="w", message="yours"))
    what = "v handed it to w, 3 times with the same input; 2 are allowed"
    assert scenario.state.reason == f'a: {what}; the last: "yours"'


# --- what is no loop --------------------------------------------------------------------------------------------------


def test_retries_are_no_loop() -> None:
    scenario = calling(steps=[step("a", attempts=50)], repeats=1, breaker=0)
    for attempt in range(1, 50):
        scenario.say(failed("a", "TOOL_DOWN", attempt))
    assert (scenario.state.repeats, scenario.state.end) == ({}, "")


@pytest.mark.parametrize("fields", [{}, {"hand_to": ["work"]}], ids=["plain", "that may hand on"])
def test_equal_items_with_equal_results_are_no_loop(fields: dict[str, Any]) -> None:
    each = step("a", for_each="input.n", fact="v.k{index}", input={"x": "item"}, **fields)
    scenario = given(offer("w", "work"), teach(each, repeats=1), goal({"n": [7] * 20}))
    for number in range(20):
        scenario.say(ended(f"a-{number}", {f"v.k{number}": "same"}))
    assert scenario.state.end == "DONE"


def test_voices_that_agree_are_no_loop() -> None:
    offers = [offer(name, "work") for name in "uvw"]
    scenario = given(*offers, teach(step("a", specialist="all", hand_to=[]), repeats=1), goal())
    scenario.say(*(ended(f"a-{number}", {"a": 1}, by=name) for number, name in enumerate("uvw")))
    assert scenario.state.end == "DONE"


# --- a person is asked ------------------------------------------------------------------------------------------------


def asking(**fields: Any) -> Scenario:
    """The loop is found in `a`; `b` is in flight, `c` waits for room, `d` needs `b`."""
    steps = [step("a"), step("b"), step("c"), step("d", needs=["b"])]
    return calling(tool(), tool(), steps=steps, asks=True, parallel=2, repeats=1, **fields)


def test_person_is_asked_with_the_evidence() -> None:
    scenario = calling(tool(), asks=True, repeats=1)
    what = "w called get in vain (TOOL_DOWN), 2 times with the same input"
    scenario.when(tool()).then(
        event("tool_failed"),
        event("loop_found", times=2),
        event(
            "gate_opened",
            gate=GATE,
            ask=f"The run repeats itself: in a {what}. May it go on?",
            action={"task": "a", "what": f'{what}; 1 are allowed; the last: "no route to host"'},
            delay_ms=7 * 86_400_000,
        ),
    )


def test_nothing_is_given_out_while_a_person_is_asked() -> None:
    scenario = asking()
    assert [task.task for task in scenario.tasks_in_flight()] == ["a", "b"]
    scenario.when(ended("b", {"b": 1})).then(event("task_ended"), event("fact_committed"))
    scenario.when(failed("a", "TOOL_DOWN")).then(
        event("attempt_failed"),
        event("task_delayed", task="a", delay_ms=0, reason="a person is asked whether the run may go on"),
    )
    assert (scenario.state.in_flight, scenario.state.phase) == (0, "NEEDS_INPUT")


def test_retry_that_is_due_meanwhile_waits_too() -> None:
    offers = offer("w", "work", backoff_s=1)
    scenario = given(offers, teach(step("a"), step("b"), repeats=1, on_loop="ask"), goal(), failed("a", "TOOL_DOWN"))
    scenario.say(tool(task="b"), tool(task="b"))
    scenario.when(Due("retry.a")).then(event("task_delayed", task="a", delay_ms=0))
    assert "retry.a" not in scenario.state.timers
    scenario.when(answer("approve", scenario)).then(event("gate_answered"), event("task_dispatched", task="a"))


def test_approval_begins_the_count_again_and_all_goes_on() -> None:
    scenario = asking().say(ended("b", {"b": 1}))
    scenario.when(answer("approve", scenario)).then(
        event("gate_answered", gate=GATE, by="ann", approved=True),
        event("step_expanded", step="d"),
        event("task_dispatched", task="c"),
    )
    assert scenario.state.repeats == {}
    scenario.when(tool()).then(event("tool_failed"))
    scenario.when(tool()).then(event("tool_failed"), event("loop_found"), event("gate_opened", gate=loop_gate(2)))
    assert scenario.state.loops == 2


def test_another_loop_is_not_asked_about_while_one_is() -> None:
    asking().when(tool()).then(event("tool_failed"))


@pytest.mark.parametrize("kind", ["deny", "expiry"])
def test_denied_or_not_answered_ends_it(kind: str) -> None:
    scenario = asking()
    scenario.when(Due(f"gate.{GATE}") if kind == "expiry" else answer("deny", scenario))
    assert (scenario.state.end, scenario.state.code) == ("POLICY_BLOCKED", "POLICY_BLOCKED")
    assert scenario.state.reason == (
        f"nobody approved {GATE!r} within 604800000 ms" if kind == "expiry" else f"ann denied {GATE!r}"
    )


@pytest.mark.parametrize("said", [cancel(), Due("run.deadline")], ids=["cancel", "deadline"])
def test_run_can_end_while_a_person_is_asked(said: Said | Due) -> None:
    scenario = asking(deadline_s=60)
    assert scenario.say(said).state.end in {"CANCELLED", "FAILED_RETRYABLE"}
    scenario.when(answer("approve", scenario)).then(event("input_late", reason="the run has ended"))


def test_all_that_is_left_may_end_while_a_person_is_asked() -> None:
    """The last task ends: the run is done only when the person has said that it may go on."""
    scenario = calling(tool(), tool(), asks=True, repeats=1).say(ended("a", {"a": 1}))
    assert (scenario.state.end, scenario.state.phase) == ("", "NEEDS_INPUT")
    scenario.when(answer("approve", scenario)).then(event("gate_answered"), event("run_ended", end="DONE"))


def test_who_approved_all_in_advance_is_not_there_to_be_asked() -> None:
    """Else the same could go on for ever, each time approved with the goal."""
    scenario = calling(tool(), tool(), asks=True, repeats=1, approve=True)
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "LOOP")


def test_step_named_loop_has_nothing_to_do_with_it() -> None:
    scenario = calling(steps=[step("loop"), step("a")], asks=True, repeats=1)
    question = {"ask": "may I?", "action": {"n": 1}}
    scenario.say(ended("loop", code="NEEDS_INPUT", question=question))
    assert list(scenario.state.open_gates) == ["loop.1"]
    scenario.say(tool(), tool())
    assert list(scenario.state.open_gates) == ["loop.1", GATE]
    scenario.when(answer("approve", scenario, "loop.1")).then(
        event("gate_answered"), event("task_delayed", task="loop", reason="a person is asked whether the run may go on")
    )


def test_late_calls_after_the_end_find_nothing() -> None:
    scenario = calling(tool(), repeats=1).say(started("a"), cancel())
    scenario.when(tool()).then()
