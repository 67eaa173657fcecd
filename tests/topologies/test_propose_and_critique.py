"""Propose and critique: bounded rounds, what accepts a proposal, and what is said when none is accepted."""

from typing import Any

import pytest

from schemas.playbooks import read_playbook
from tests.supervisor.scenario import Due, Said, Scenario, ended, event, failed, given, goal, offer, step, teach

TEAM = (offer("w", "write"), offer("c", "review"))


def draft(*said: Said | Due, input: dict[str, Any] | None = None, **fields: Any) -> Scenario:
    """A run whose step `d` is written by `w` and judged by `c`."""
    critique = {"capability": "review", "accept": "critique.ok", **fields.pop("critique", {})}
    steps = [step("d", "write", critique=critique, input={"topic": "input.topic"}, **fields)]
    return given(*TEAM, teach(*steps, returns={"d": "facts.d"}), goal(input or {"topic": "cats"}), *said)


def proposed(number: int, value: Any) -> Said:
    return ended(f"d_{number}", {f"d_{number}": value})


def judged(number: int, value: Any) -> Said:
    return ended(f"d_review_{number}", {f"d_review_{number}": value}, by="c")


def until_end(scenario: Scenario) -> Scenario:
    """Nobody answers any more: one timer after the other becomes due."""
    for _ in range(20):
        if scenario.state.end:
            return scenario
        scenario.say(Due(next(iter(scenario.state.timers))))
    raise AssertionError(f"goes on: {scenario.state.timers}")


def test_accepted_in_the_first_round() -> None:
    scenario = draft(proposed(1, "one"))
    scenario.when(judged(1, {"ok": True})).then(
        event("task_ended"),
        event("fact_committed", key="d_review_1"),
        event("step_skipped", step="d_2", reason="no further round"),
        event("step_skipped", step="d_review_2", reason="there is no proposal"),
        event("step_skipped", step="d_3", reason="no further round"),
        event("step_skipped", step="d_review_3", reason="there is no proposal"),
        event("step_expanded", step="d", voices=[]),
        event("fact_committed", key="d", value="one", policy="value", by=""),
        event("run_ended", end="DONE", result={"d": "one"}),
    )


def test_accepted_in_the_last_round() -> None:
    scenario = draft(proposed(1, "one"), judged(1, {"ok": False, "why": "short"}))
    scenario.say(proposed(2, "two"), judged(2, {"ok": False}), proposed(3, "three"), judged(3, {"ok": True}))
    assert (scenario.state.end, scenario.state.result) == ("DONE", {"d": "three"})
    assert sorted(scenario.state.facts) == ["d", "d_1", "d_2", "d_3", "d_review_1", "d_review_2", "d_review_3"]


def test_each_round_sees_the_proposal_and_the_critique_before_it() -> None:
    scenario = draft(critique={"input": {"style": "'plain'"}})
    said = (proposed(1, "one"), judged(1, {"ok": False, "why": "short"}), proposed(2, "two"))
    works = [scenario.tasks_in_flight()[0], *(scenario.say(one).tasks_in_flight()[0] for one in said)]
    assert [task.items[0].input for task in works] == [
        {"topic": "cats"},
        {"style": "plain", "proposal": "one"},
        {"topic": "cats", "previous": "one", "critique": {"ok": False, "why": "short"}},
        {"style": "plain", "proposal": "two"},
    ]


@pytest.mark.parametrize(
    ("missing", "end"), [("fail", ("FAILED", "LOW_CONFIDENCE")), ("allow", ("DEGRADED", ""))], ids=["fail", "allow"]
)
def test_never_accepted(missing: str, end: tuple[str, str]) -> None:
    scenario = draft(missing=missing)
    for number in (1, 2, 3):
        scenario.say(proposed(number, f"try {number}"), judged(number, {"ok": False, "round": number}))
    assert (scenario.state.end, scenario.state.code) == end
    assert scenario.state.missing["d"].message == "none of 3 proposals was accepted"
    assert "without d (LOW_CONFIDENCE)" in scenario.state.reason or missing == "fail"


def test_one_round_is_a_review_and_no_more() -> None:
    scenario = draft(proposed(1, "one"), critique={"rounds": 1})
    assert scenario.say(judged(1, {"ok": False})).state.reason == "no value for d: none of 1 proposals was accepted"


@pytest.mark.parametrize(
    ("accept", "refusing", "accepting"),
    [
        ("length(critique) == `0`", ["too long"], []),
        ("critique", False, True),
        ("critique == `0`", 3, 0),
        ("critique == ''", "no", ""),
        ("length(proposal) < `4` && critique.ok", {"ok": False}, {"ok": True}),
        ("critique.score >= `0.5` || proposal == 'perfect'", {"score": 0.4}, {"score": 0.5}),
    ],
)
def test_accept_sees_proposal_and_critique_whatever_they_are(accept: str, refusing: Any, accepting: Any) -> None:
    """A critique that is false, empty or 0 is one all the same: there is another round, or an accepted proposal."""
    scenario = draft(proposed(1, "one"), judged(1, refusing), critique={"accept": accept})
    assert [task.task for task in scenario.tasks_in_flight()] == ["d_2"]
    scenario.say(proposed(2, "two"), judged(2, accepting))
    assert (scenario.state.end, scenario.state.result) == ("DONE", {"d": "two"})


@pytest.mark.parametrize("value", [False, 0, "", [], {}])
def test_proposal_may_be_nothing_much(value: Any) -> None:
    scenario = draft(proposed(1, value), judged(1, {"ok": True}))
    assert (scenario.state.end, scenario.state.result) == ("DONE", {"d": value})


@pytest.mark.parametrize(
    ("said", "message"),
    [
        ([], "round 1 has no proposal: w: not begun within 90000 ms, 3 times"),
        ([proposed(1, "one")], "round 1 has no critique: c: not begun within 90000 ms, 3 times"),
        (
            [proposed(1, "one"), judged(1, {"ok": False})],
            "round 2 has no proposal: w: not begun within 90000 ms, 3 times",
        ),
        (
            [proposed(1, "one"), judged(1, {"ok": False}), proposed(2, "two")],
            "round 2 has no critique: c: not begun within 90000 ms, 3 times",
        ),
    ],
    ids=["proposer", "critic", "proposer-later", "critic-later"],
)
def test_somebody_is_down(said: list[Said], message: str) -> None:
    """The run may be published again later, and says who was not there."""
    state = until_end(draft(*said)).state
    assert (state.end, state.code, state.reason) == ("FAILED_RETRYABLE", "TIMEOUT", f"no value for d: {message}")
    state = until_end(draft(*said, missing="allow")).state
    assert (state.end, state.reason) == ("DEGRADED", "without d (TIMEOUT)")
    assert state.missing["d"].message == message


def test_critic_that_may_not_judge_blocks() -> None:
    scenario = draft(proposed(1, "one")).say(failed("d_review_1", "POLICY_BLOCKED", by="c", message="not my field"))
    assert (scenario.state.end, scenario.state.reason) == (
        "POLICY_BLOCKED",
        "no value for d: round 1 has no critique: c: not my field",
    )


def test_step_that_is_skipped_has_no_rounds() -> None:
    scenario = draft(when="input.wanted")
    assert (scenario.state.end, scenario.state.tasks) == ("DONE", {})
    assert scenario.state.steps["d_1"].skipped == scenario.state.steps["d"].skipped == "input.wanted is not true"


def test_who_says_the_same_to_the_same_is_a_loop() -> None:
    """The first proposal has no critique before it, so the fourth equal answer is the third with the same input."""
    scenario = draft(critique={"rounds": 20})
    for number in range(1, 20):
        if not scenario.state.end:
            scenario.say(proposed(number, "always this"))
        if not scenario.state.end:
            scenario.say(judged(number, {"ok": False}))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "LOOP")
    what = "c came to the same result, 4 times with the same input; 3 are allowed; the last: "
    assert scenario.state.reason == f'd_review_4: {what}[{{"ok":false}}]'


def test_twenty_rounds_fit() -> None:
    scenario = draft(critique={"rounds": 20})
    for number in range(1, 20):
        scenario.say(proposed(number, number), judged(number, {"ok": False, "n": number}))
    scenario.say(proposed(20, "last"), judged(20, {"ok": True}))
    assert scenario.state.result == {"d": "last"}


def test_names_of_rounds_fit_or_the_playbook_is_refused() -> None:
    def read(length: int) -> Any:
        critique = {"capability": "review", "accept": "critique.ok", "rounds": 3}
        return read_playbook(teach(step("s" * length, "write", critique=critique)).data, "t")

    assert not isinstance(read(50), str)
    assert read(51) == f"step {'s' * 51 + '_review_1'!r} has 60 characters; one of a plan has 59 at most"
