"""Open calls: who bids, who is granted by the recorded formula, who takes over, and what is said when nobody can."""

from typing import Any

import pytest

from schemas.bids import Bid, Rating
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


def called(
    *names: str, then: tuple[Said | Due, ...] = (), offers: dict[str, Any] | None = None, **call: Any
) -> Scenario:
    """A run that calls for `work`, which these specialists offer; `p` is the step."""
    fields = call.pop("step", {})
    return given(
        *(offer(name, "work", **(offers or {})) for name in names),
        teach(step("p", call=call, input={"n": "input.n"}, **fields), returns={"p": "facts.p"}),
        goal({"n": 3}),
        *then,
    )


def bid(scenario: Scenario, by: str, **said: Any) -> Said:
    """The bid of one specialist, whatever its task is called."""
    (task,) = (name for name, one in scenario.state.tasks.items() if one.specialist == by and one.step == "p_bids")
    return ended(task, {"p_bids": {"can": True} | said}, by=by)


def bids(scenario: Scenario, **each: dict[str, Any]) -> Scenario:
    for by, said in each.items():
        scenario.say(bid(scenario, by, **said))
    return scenario


def test_everyone_who_offers_it_is_asked_at_once_and_sees_what_is_to_be_done() -> None:
    scenario = called("ann", "bob", bids_s=2)
    assert [(task.specialist, task.kind, task.items[0].input) for task in scenario.tasks_in_flight()] == [
        ("ann", "bid", {"n": 3}),
        ("bob", "bid", {"n": 3}),
    ]
    assert [(task.wait_ms, task.work_ms) for task in scenario.tasks_in_flight()] == [(0, 2_000), (0, 2_000)]


def test_formula_stands_in_the_plan_and_the_ranking_in_a_fact() -> None:
    scenario = called("ann", "bob", "cat", confidence=2, usd=10, seconds=0.5)
    plan = scenario.state.step("p_bids")
    assert (plan.merge.policy, plan.merge.arguments) == ("bids", {"confidence": 2, "usd": 10, "seconds": 0.5})
    bids(scenario, ann={"confidence": 0.9}, bob={"confidence": 1.0, "micro_usd": 20_000})
    scenario.when(bid(scenario, "cat", confidence=1.0, seconds=0.6)).then(
        event("task_ended"),
        event(
            "fact_committed",
            key="p_bids",
            policy="bids",
            value=[
                {"by": "ann", "score": 1.8, "confidence": 0.9, "micro_usd": 0, "seconds": 0.0},
                {"by": "bob", "score": 1.8, "confidence": 1.0, "micro_usd": 20_000, "seconds": 0.0},
                {"by": "cat", "score": 1.7, "confidence": 1.0, "micro_usd": 0, "seconds": 0.6},
            ],
        ),
        event("step_expanded", step="p", voices=[{"specialist": "ann", "contract": 1}], fallback=["bob", "cat"]),
        event("task_dispatched", task="p", specialist="ann"),
    )


@pytest.mark.parametrize(
    ("ann", "bob", "granted"),
    [
        ({"confidence": 0.5}, {"confidence": 0.6}, "bob"),
        ({"confidence": 0.6}, {"confidence": 0.6}, "ann"),
        ({"micro_usd": 500_000}, {"micro_usd": 400_000}, "bob"),
        ({"seconds": 30}, {"seconds": 29}, "bob"),
        ({"confidence": 0.1}, {"can": False}, "ann"),
        ({"micro_usd": 5_000_000}, {"can": False}, "ann"),
    ],
    ids=["surer", "equal", "cheaper", "quicker", "only-one-can", "below-zero"],
)
def test_highest_score_is_granted(ann: dict[str, Any], bob: dict[str, Any], granted: str) -> None:
    for order in (("ann", "bob"), ("bob", "ann")):
        scenario = called("ann", "bob")
        for by in order:
            scenario.say(bid(scenario, by, **{"ann": ann, "bob": bob}[by]))
        assert [task.specialist for task in scenario.tasks_in_flight()] == [granted]


def test_score_is_that_of_the_formula() -> None:
    rating = Rating(confidence=2, usd=10, seconds=0.5)
    assert rating.score(Bid(confidence=0.75, micro_usd=20_000, seconds=0.25)) == 2 * 0.75 - 10 * 0.02 - 0.5 * 0.25


def test_who_cannot_loses_with_a_reason_and_does_not_take_over() -> None:
    scenario = bids(called("ann", "bob", "cat"), ann={"can": False}, bob={}, cat={"confidence": 0.5})
    losers = {loser.by: loser.reason for loser in scenario.state.facts["p_bids"].losers}
    assert losers == {"ann": "cannot do it", "bob": "part of the ranking", "cat": "part of the ranking"}
    assert scenario.state.steps["p"].fallback == ("cat",)


def test_next_bidder_takes_over_when_the_winner_fails() -> None:
    scenario = bids(called("ann", "bob", "cat"), ann={"confidence": 0.9}, bob={"confidence": 0.8}, cat={})
    scenario.when(failed("p", "LOW_CONFIDENCE", by="cat", message="not today")).then(
        event("attempt_failed", task="p", to="ann"), event("task_dispatched", task="p", specialist="ann")
    )
    scenario.when(Due("task.p")).then(
        event("attempt_failed", code="TIMEOUT", to="bob"), event("task_dispatched", specialist="bob")
    )
    scenario.say(ended("p", {"p": 7}, attempt=3, by="bob"))
    assert (scenario.state.end, scenario.state.result) == ("DONE", {"p": 7})


def test_all_bidders_fail() -> None:
    scenario = bids(called("ann", "bob"), ann={"confidence": 0.9}, bob={})
    scenario.say(failed("p", "LOW_CONFIDENCE", by="bob"), failed("p", "TOOL_DOWN", attempt=2, by="ann"))
    for attempt in (3, 4):
        scenario.say(failed("p", "TOOL_DOWN", attempt=attempt, by="ann", message="no dictionary"))
    assert (scenario.state.end, scenario.state.reason) == ("FAILED_RETRYABLE", "no value for p: ann: no dictionary")


@pytest.mark.parametrize("says_started", [False, True], ids=["silent", "began"])
def test_bidder_that_does_not_answer_is_waited_for_no_longer_than_the_call_says(says_started: bool) -> None:
    """Also one that has begun: `started` gives a bid no more time."""
    scenario = called("ann", "bob", bids_s=2)
    if says_started:
        scenario.when(started("p_bids-1", by="bob")).then()
    assert [timer.delay_ms for timer in scenario.state.timers.values()] == [2_000, 2_000]
    scenario.say(bid(scenario, "ann")).when(Due("task.p_bids-1")).then(
        event("task_ended", specialist="bob", code="TIMEOUT", message="no bid within 2000 ms"),
        event("fact_committed", key="p_bids"),
        event("step_expanded", step="p"),
        event("task_dispatched", task="p", specialist="ann"),
    )
    scenario.say(ended("p", {"p": 1}, by="ann"))
    assert (scenario.state.end, scenario.state.reason) == ("DONE", "")


def test_bid_that_comes_too_late_is_recorded_and_changes_nothing() -> None:
    scenario = called("ann", "bob")
    late = bid(scenario, "bob", confidence=1.0)
    scenario.say(bid(scenario, "ann", confidence=0.1), Due("task.p_bids-1"))
    scenario.when(late).then(event("input_late", author="bob"))
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["ann"]


@pytest.mark.parametrize(
    ("said", "end", "code", "reason"),
    [
        (
            {"ann": {"can": False}, "bob": {"can": False}},
            "FAILED",
            "LOW_CONFIDENCE",
            "ann cannot do it; bob cannot do it",
        ),
        (
            {"ann": {"can": False}},
            "FAILED_RETRYABLE",
            "TIMEOUT",
            "ann cannot do it; bob TIMEOUT: no bid within 2000 ms",
        ),
        ({}, "FAILED_RETRYABLE", "TIMEOUT", "ann TIMEOUT: no bid within 2000 ms; bob TIMEOUT: no bid within 2000 ms"),
    ],
    ids=["nobody-can", "one-is-down", "all-are-down"],
)
def test_nobody_bids(said: dict[str, Any], end: str, code: str, reason: str) -> None:
    """The run says who could not, and who did not answer; only then it may help to publish it again."""
    scenario = bids(called("ann", "bob"), **said)
    while scenario.state.timers:
        scenario.say(Due(next(iter(scenario.state.timers))))
    state = scenario.state
    assert (state.end, state.code) == (end, code)
    assert state.reason == f"no value for p: nobody bids for it: {reason}"


def test_nobody_bids_for_what_may_be_missing() -> None:
    scenario = bids(called("ann", step={"missing": "allow"}), ann={"can": False})
    assert (scenario.state.end, scenario.state.reason) == ("DEGRADED", "without p (LOW_CONFIDENCE)")


def test_nobody_offers_it_so_the_run_waits_for_somebody() -> None:
    scenario = called()
    assert scenario.state.steps["p_bids"].awaiting == "work"
    scenario.say(offer("ann", "work"), Said("wake", "", {"type": "capability_came", "capability": "work"}))
    scenario.say(bid(scenario, "ann"), ended("p", {"p": 1}, by="ann"))
    assert scenario.state.end == "DONE"


def test_specialist_attached_during_the_run_wins_the_next_call() -> None:
    steps = [step("p", call={}), step("q", call={}, needs=["p"])]
    scenario = given(offer("ann", "work"), teach(*steps), goal())
    scenario.say(ended("p_bids", {"p_bids": {"can": True, "confidence": 0.5}}, by="ann"))
    scenario.say(offer("bob", "work"), ended("p", {"p": 1}, by="ann"))
    assert [(task.task, task.specialist) for task in scenario.tasks_in_flight()] == [
        ("q_bids-0", "ann"),
        ("q_bids-1", "bob"),
    ]
    for number, by, confidence in ((0, "ann", 0.5), (1, "bob", 0.6)):
        scenario.say(ended(f"q_bids-{number}", {"q_bids": {"can": True, "confidence": confidence}}, by=by))
    assert [(task.task, task.specialist) for task in scenario.tasks_in_flight()] == [("q", "bob")]


def test_winner_that_is_withdrawn_before_the_grant_is_passed_over() -> None:
    scenario = called("ann", "bob")
    scenario.say(bid(scenario, "ann"), offer("ann"), bid(scenario, "bob", confidence=0.2))
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["bob"]


@pytest.mark.parametrize(
    "value",
    [{"confidence": 1}, {"can": True, "confidence": 2}, {"can": True, "price": 1}, {"can": True, "seconds": -1}, 7],
)
def test_what_is_no_bid_breaks_the_rules_of_the_call(value: Any) -> None:
    scenario = called("ann", "bob")
    scenario.say(ended("p_bids-0", {"p_bids": value}, by="ann"), bid(scenario, "bob"))
    (declined,) = scenario.state.facts["p_bids"].declined
    assert (declined.by, declined.code) == ("ann", "INVALID_OUTPUT")
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["bob"]


def test_bids_take_nothing_of_the_budget_of_the_run() -> None:
    """Neither at once nor for ever: one that is down holds no reservation that the work would need."""
    offers = (offer(name, "work") for name in ("ann", "bob", "cat"))
    scenario = given(*offers, teach(step("p", call={}), budget={"micro_usd": 1_000_000}), goal())
    assert len(scenario.tasks_in_flight()) == 3
    for number, by in ((0, "ann"), (1, "bob")):
        scenario.say(ended(f"p_bids-{number}", {"p_bids": {"can": True}}, by=by))
    scenario.say(Due("task.p_bids-2"))
    (task,) = scenario.tasks_in_flight()
    assert (task.specialist, task.budget.micro_usd) == ("ann", 1_000_000)


def test_bid_that_uses_something_ends_nothing_where_the_run_has_no_budget() -> None:
    scenario = called("ann")
    (end,) = (bid(scenario, "ann"),)
    scenario.say(end._replace(body=end.body | {"usage": {"input_tokens": 10}}))
    assert [(task.specialist, task.kind) for task in scenario.tasks_in_flight()] == [("ann", "work")]
    assert (scenario.state.charged.tokens, scenario.state.overrun.tokens) == (10, 0)


def test_call_may_let_bids_use_something_of_the_budget() -> None:
    offers = (offer(name, "work", budget={"tokens": 90}) for name in ("ann", "bob"))
    scenario = given(*offers, teach(step("p", call={"budget": {"tokens": 5}}), budget={"tokens": 100}), goal())
    assert [task.budget.tokens for task in scenario.tasks_in_flight()] == [5, 5]
    end = bid(scenario, "ann")
    scenario.say(end._replace(body=end.body | {"usage": {"input_tokens": 5}}))
    assert (scenario.state.charged.tokens, scenario.state.reserved.tokens) == (5, 5)


def test_calls_for_proposals_and_their_critique() -> None:
    critique = {"capability": "review", "accept": "critique"}
    steps = [step("p", call={}, critique=critique)]
    scenario = given(offer("ann", "work"), offer("bob", "work"), offer("c", "review"), teach(*steps), goal())
    scenario.say(ended("p_bids-0", {"p_bids": {"can": True, "confidence": 0.5}}, by="ann"))
    scenario.say(ended("p_bids-1", {"p_bids": {"can": True}}, by="bob"))
    scenario.say(ended("p_1", {"p_1": 1}, by="bob"), ended("p_review_1", {"p_review_1": False}, by="c"))
    assert [(task.task, task.specialist) for task in scenario.tasks_in_flight()] == [("p_2", "bob")]
    scenario.say(ended("p_2", {"p_2": 2}, by="bob"), ended("p_review_2", {"p_review_2": True}, by="c"))
    assert scenario.state.end == "DONE"


def test_gate_of_a_call_shows_who_will_do_it() -> None:
    scenario = called("ann", "bob", step={"gate": {"ask": "may it?"}})
    bids(scenario, ann={"confidence": 0.5}, bob={})
    assert [voice.specialist for voice in scenario.state.gates["p"].voices] == ["bob", "ann"], "and who takes over"
