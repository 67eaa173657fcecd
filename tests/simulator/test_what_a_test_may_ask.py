"""What is asked of a simulated run: it says so where it does not hold, and names the seed."""

import re
from dataclasses import replace

import pytest

from blackboard.testing import (
    Asks,
    Budget,
    Fails,
    Faults,
    Hands,
    OneOf,
    Person,
    Published,
    ScriptedSpecialist,
    Simulation,
)
from schemas.playbooks import Playbook
from schemas.usage import Usage
from tests.simulator.team import GOAL, PLAYBOOK, READER, SUMMER, calm, simulation

FETCHER = replace(READER, tools=("fetch", "pay"), uses=("fetch",))


def test_run_that_is_as_wanted() -> None:
    run = calm(FETCHER).run().run("r1")
    run.ended_as("DONE").routed_to("reader", "summer").called("fetch", by="reader")
    run.never_called("pay").never_called("fetch", by="summer").not_routed_to("nobody")
    run.within_budget(tokens=44, tool_calls=4, executions=5)
    assert run.result == {"total": 30}
    assert run.facts == {"v.k0": 1, "v.k1": 4, "v.k2": 9, "v.k3": 16, "total": 30}
    assert run.usage == Usage(22, 22, 4)
    assert [call.specialist for call in run.calls] == ["reader"] * 4 + ["summer"]


@pytest.mark.parametrize(
    ("wanted", "message"),
    [
        (lambda run: run.ended_as("FAILED"), "seed 7: run r1 ended DONE, not FAILED"),
        (lambda run: run.ended_as("DONE", "TIMEOUT"), "seed 7: run r1 ended DONE, not DONE TIMEOUT"),
        (lambda run: run.routed_to("bob"), "seed 7: run r1 gave no task to bob; it gave reader 4, summer 1"),
        (lambda run: run.not_routed_to("summer"), "seed 7: run r1 gave 1 tasks to summer"),
        (lambda run: run.called("pay"), "seed 7: run r1 never called pay; it called fetch 4"),
        (lambda run: run.never_called("fetch"), "seed 7: run r1 called fetch 4 times: reader 4"),
        (lambda run: run.within_budget(tokens=43), "seed 7: run r1 used 44 tokens, over 43: reader 40, summer 4"),
        (lambda run: run.within_budget(tool_calls=3), "seed 7: run r1 used 4 tool calls, over 3: fetch 4"),
        (lambda run: run.within_budget(executions=4), "seed 7: run r1 used 5 executions, over 4: reader 4, summer 1"),
    ],
)
def test_run_that_is_not(wanted, message: str) -> None:
    run = calm(FETCHER, seed=7).run().run("r1")
    with pytest.raises(AssertionError, match=f"^{re.escape(message)}$"):
        wanted(run)


def test_run_that_is_not_there() -> None:
    report = calm().run()
    assert report.run() is report.run("r1")
    with pytest.raises(AssertionError, match=r"^there is no run r2; there are r1$"):
        report.run("r2")


def test_executions_of_workers_that_were_killed_count_as_used() -> None:
    """What is paid is paid: a budget looks at all executions, the run books those that count."""
    for seed in range(5):
        calm(seed=seed).run().run().within_budget(executions=5)
    crashes = Faults(**{**vars(Faults.none()), "crash": 0.05})
    assert max(len(simulation(seed=seed, faults=crashes).run().calls) for seed in range(12)) > 5


def test_refused_tool_was_not_called() -> None:
    thief = replace(READER, uses=("pay",))
    run = calm(thief).run().run()
    run.never_called("pay").ended_as("POLICY_BLOCKED")
    assert {(use.tool, use.refused) for use in run.tools} == {("pay", True)}


# --- scripted specialists ---------------------------------------------------------------------------------------------


def test_answers_by_attempt_and_codes() -> None:
    first_fails = replace(READER, answers=(Fails("TOOL_DOWN"), Fails("INTERNAL"), 5))
    run = calm(first_fails).run().run().ended_as("DONE")
    assert run.result == {"total": 20}
    assert len(run.calls) == 4 * 3 + 1
    gives_up = replace(READER, answers=Fails("LOW_CONFIDENCE", "no idea"))
    calm(gives_up).run().run().ended_as("FAILED", "LOW_CONFIDENCE")


def test_failure_rate_is_drawn_by_attempt_from_the_seed() -> None:
    flaky = replace(READER, failure_rate=0.5, attempts=20)
    calls = [len(calm(flaky, seed=seed).run().run().ended_as("DONE").calls) for seed in range(10)]
    assert len(set(calls)) > 2
    assert 50 < sum(calls) - 10 < 120  # 40 items, each tried twice on average
    assert calls == [len(calm(flaky, seed=seed).run().calls) for seed in range(10)]


def test_delays_pass_in_virtual_time() -> None:
    slow = replace(READER, delay_s=(1_000, 2_000), deadline_s=3_000)
    report = calm(slow).run()
    assert 1_000 < report.duration_s < 4_200
    assert any(event.cause for event in report.run().ended_as("DONE").events)
    late = replace(READER, delay_s=(100, 200), deadline_s=10, attempts=1)
    calm(late).run().run().ended_as("FAILED_RETRYABLE", "TIMEOUT")


def test_overspending_is_reported_as_it_was() -> None:
    spender = replace(READER, overspend=10.0)
    seen = set()
    for seed in range(10):
        run = calm(spender, seed=seed).run().run().ended_as("DONE")
        spent = run.reported["reader"].input_tokens + run.reported["reader"].output_tokens
        assert run.usage == run.reported["reader"] + run.reported["summer"]
        seen.add(spent)
    assert seen <= {40, 130, 220, 310, 400}
    assert len(seen) > 2
    bounded = replace(spender, budget=Budget(tokens=50))
    ends = [calm(bounded, seed=seed).run().run() for seed in range(10)]
    assert {(run.end, run.code) for run in ends} == {("DONE", ""), ("FAILED", "BUDGET_EXCEEDED")}


TALK = Playbook.model_validate(
    {
        "team": "talk",
        "steps": [
            {"id": "a", "capability": "read", "specialist": "u", "hand_to": ["w"]},
            {"id": "b", "capability": "write", "call": {"bids_s": 5}, "needs": ["a"]},
        ],
        "returns": {"a": "facts.a", "b": "facts.b"},
    }
)


def test_asking_handing_on_and_bidding() -> None:
    asks = ScriptedSpecialist("u", "read", Asks("who?", {"type": "string"}), authority="propose")
    able = ScriptedSpecialist("w", ("read", "write"), "w did", bid={"confidence": 0.4})
    better = ScriptedSpecialist("x", "write", "x did", bid={"confidence": 0.8})
    unable = ScriptedSpecialist("y", "write", "y did", bid={"can": False})
    world = Simulation(TALK, [asks, able, better, unable], people=[Person("ann", value="bob")], faults=Faults.none())
    run = world.run().run().ended_as("DONE").routed_to("u", "w", "x", "y")
    assert [call.specialist for call in run.calls].count("u") == 2
    assert run.result == {"a": "bob", "b": "x did"}
    hands = replace(asks, answers=Hands("w"))
    run = Simulation(TALK, [hands, able, better, unable], faults=Faults.none()).run().run().ended_as("DONE")
    assert run.result == {"a": "w did", "b": "x did"}


def test_one_of_several_answers_is_drawn() -> None:
    varied = replace(READER, answers=OneOf([1, 2, 3]))
    results = {calm(varied, seed=seed).run().run().result["total"] for seed in range(20)}
    assert len(results) > 3
    assert all(4 <= result <= 12 for result in results)


def test_specialist_that_is_down_and_another_that_takes_over() -> None:
    down = ScriptedSpecialist("alice", "read", down=True)
    run = calm(down, limit_s=3600).run().run().ended_as("DONE").routed_to("alice", "reader")
    assert "alice" not in {call.specialist for call in run.calls}


def test_people_answer_gates() -> None:
    gated = PLAYBOOK.model_dump() | {"steps": [one.model_dump() for one in PLAYBOOK.steps]}
    gated["steps"][1]["gate"] = {"ask": "may it?", "expires_s": 100}
    playbook = Playbook.model_validate(gated)
    ends = {}
    for says in ("approve", "deny", "nothing"):
        people = [Person(says=says, mistaken=1.0)]
        world = Simulation(playbook, [READER, SUMMER], [GOAL], people, faults=Faults.none())
        ends[says] = world.run().run().end
    assert ends == {"approve": "DONE", "deny": "POLICY_BLOCKED", "nothing": "POLICY_BLOCKED"}
    approved = [Published("t", GOAL, approve=True)]
    Simulation(playbook, [READER, SUMMER], approved, faults=Faults.none()).run().run().ended_as("DONE")


def test_goals_with_limits_and_a_cancel() -> None:
    goals = [
        Published("t", GOAL, "cancelled", after_s=1, cancel_after_s=0.2),
        Published("t", GOAL, "poor", budget=Budget(tokens=15)),
        Published("t", GOAL, "short", deadline_s=0.5),
    ]
    report = Simulation(PLAYBOOK, [READER, SUMMER], goals, faults=Faults.none()).run()
    report.run("cancelled").ended_as("CANCELLED")
    report.run("poor").ended_as("FAILED", "BUDGET_EXCEEDED")
    report.run("short").ended_as("FAILED_RETRYABLE", "TIMEOUT")
    with pytest.raises(AssertionError, match="several runs, name one: "):
        report.run()


# --- over seeds -------------------------------------------------------------------------------------------------------


def test_outcome_is_stable_over_seeds_whatever_goes_wrong() -> None:
    report = simulation(faults=Faults().times(2)).stable(range(15))
    assert report.run().result == {"total": 30}


def test_outcome_that_depends_on_the_seed_is_told() -> None:
    with pytest.raises(AssertionError, match=r"^seed \d: run r1 has v.k\d = \d, under seed 0 \d$"):
        calm(replace(READER, answers=OneOf([1, 2]))).stable(range(10))
    sometimes = replace(SUMMER, failure_rate=0.5, attempts=1)
    with pytest.raises(AssertionError, match=r"^seed \d: run r1 ended .*, under seed 0 .*$"):
        calm(sometimes).stable(range(10))
    with pytest.raises(AssertionError, match="name at least one seed"):
        calm().stable([])
