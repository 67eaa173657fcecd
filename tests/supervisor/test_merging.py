"""Merging: a named policy decides between claims, whoever came first; what lost stays with the fact."""

from itertools import permutations
from typing import Any

import pytest

from projections.history import outcome_digest
from schemas.catalogue import Catalogue
from schemas.expressions import BadExpression
from schemas.steps import Merge
from supervisor.merge import Candidate, merge
from tests.supervisor.scenario import Said, Scenario, ended, event, failed, given, goal, offer, step, teach

VOICES = ("u", "v", "w")
VIEW = Catalogue().below(0)


def quorum(*said: Said, **fields: Any) -> Scenario:
    steps = [step("a", specialist="all", **fields)]
    return given(*(offer(name, "work") for name in VOICES), teach(*steps, returns={"x": "facts.a"}), goal(), *said)


def says(voice: str, value: Any, **fields: Any) -> Said:
    return ended(f"a-{VOICES.index(voice)}", {"a": value}, by=voice, **fields)


def test_only_takes_what_all_agree_on() -> None:
    scenario = quorum(says("w", {"n": 1, "m": 2}), says("u", {"m": 2, "n": 1}), says("v", {"n": 1, "m": 2}))
    fact = scenario.state.facts["a"]
    assert (fact.by, fact.policy, scenario.state.end) == ("u", "only", "DONE")
    assert [(loser.by, loser.reason) for loser in fact.losers] == [("v", ""), ("w", "")]


@pytest.mark.parametrize(("one", "other"), [(1, 2), (1, 1.0), (1, True), (None, False), ("a", "A"), ([1, 2], [2, 1])])
def test_only_takes_nothing_when_values_differ(one: Any, other: Any) -> None:
    quorum(says("u", one), says("v", one)).when(says("w", other)).then(
        event("task_ended"),
        event("fact_missing", code="LOW_CONFIDENCE", message="2 different values, and the policy is `only`"),
        event("run_ended", end="FAILED", code="LOW_CONFIDENCE"),
    )


PRIORITY = {"policy": "priority", "order": ["v", "confidence > `0.8`", "value == 'fallback'"]}


@pytest.mark.parametrize(
    ("claims", "winner"),
    [
        ([("u", 1, 0.9), ("v", 2, 0.1), ("w", 3, 0.9)], "v"),
        ([("u", 2, 0.9), ("w", 1, 0.95)], "w"),  # the same entry: the smaller value
        ([("u", "fallback", 0.1), ("w", "a", 0.5)], "u"),
        ([("u", "b", 0.1), ("w", "a", 0.1)], "w"),  # in no entry: the smaller value
    ],
)
def test_priority_takes_the_first_entry_that_matches(claims: list[tuple[str, Any, float]], winner: str) -> None:
    policy = Merge("priority", tuple(PRIORITY["order"]))
    candidates = [Candidate(f"a-{by}", by, value, confidence) for by, value, confidence in claims]
    for order in permutations(candidates):
        merged = merge(policy, order, VIEW)
        assert merged.winner is not None
        assert merged.winner.by == winner
        assert merged == merge(policy, candidates, VIEW)


@pytest.mark.parametrize("policy", [Merge(), Merge("priority", ("v",))])
def test_merging_does_not_know_who_came_first(policy: Merge) -> None:
    candidates = [
        Candidate("a-0", "u", 1, refused="no"),
        Candidate("a-1", "v", 2),
        Candidate("a-2", "w", 2),
        Candidate("a-3", "x", 3, refused="no"),
    ]
    assert len({repr(merge(policy, order, VIEW)) for order in permutations(candidates)}) == 1


def test_priority_says_why_the_others_lost() -> None:
    scenario = quorum(
        says("u", 1, confidence=0.9), says("v", 2), says("w", 3, confidence=0.1), merge=PRIORITY, missing="allow"
    )
    fact = scenario.state.facts["a"]
    assert (fact.value, [loser.by for loser in fact.losers]) == (2, ["u", "w"])
    assert all(loser.reason for loser in fact.losers)


def test_priority_that_cannot_be_evaluated_fails_the_run() -> None:
    with pytest.raises(BadExpression):
        merge(Merge("priority", ("length(value) > `1`",)), [Candidate("a", "w", 5)], VIEW)
    merged = {"policy": "priority", "order": ["length(value) > `1`"]}
    scenario = quorum(says("u", 5), says("v", 5), says("w", 5), merge=merged)
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_INPUT")


def test_refused_claims_take_no_part() -> None:
    scenario = quorum(says("u", 1), says("v", 2), says("w", 2), accept="value > `1`")
    fact = scenario.state.facts["a"]
    assert (fact.value, fact.by) == (2, "v")
    assert [(loser.by, loser.reason) for loser in fact.losers] == [("w", ""), ("u", "not accepted: value > `1`")]


@pytest.mark.parametrize("missing", ["fail", "allow"])
@pytest.mark.parametrize(
    "voices",
    [
        {"u": says("u", 1), "v": says("v", 1), "w": says("w", 1)},
        {"u": says("u", 1), "v": says("v", 2), "w": says("w", 1)},
        {"u": says("u", 1), "v": says("v", 1), "w": failed("a-2", "LOW_CONFIDENCE", by="w", message="no idea")},
        {"u": failed("a-0", "INVALID_INPUT", by="u"), "v": failed("a-1", "TOOL_DOWN", by="v"), "w": says("w", 1)},
        {"u": says("u", 3, confidence=0.9), "v": says("v", 2, confidence=0.1), "w": says("w", 1, confidence=0.9)},
        {"u": failed("a-0", "POLICY_BLOCKED", by="u"), "v": failed("a-1", "INVALID_INPUT", by="v"), "w": says("w", 1)},
    ],
    ids=["agree", "differ", "one silent", "two failed", "ranked", "two codes"],
)
@pytest.mark.parametrize("policy", [{}, PRIORITY], ids=["only", "priority"])
def test_order_of_arrival_changes_nothing(voices: dict[str, Said], missing: str, policy: dict[str, Any]) -> None:
    outcomes = set()
    for order in permutations(VOICES):
        scenario = quorum(missing=missing, attempts=1, **({"merge": policy} if policy else {}))
        scenario.say(*(voices[voice] for voice in order))
        state = scenario.state
        assert state.end
        outcomes.add(
            (outcome_digest(state), state.reason, *sorted((k, f.losers, f.declined) for k, f in state.facts.items()))
        )
    assert len(outcomes) == 1


def test_order_of_arrival_over_steps_and_items_gives_the_same_outcome() -> None:
    steps = [
        step("a", for_each="input.n", fact="v.{item}", merge=PRIORITY, specialist="all", missing="allow"),
        step("b", "sum", needs=["a"], input={"all": "facts.v", "said": "claims.v"}, fact="total"),
    ]
    team = [offer("u", "work"), offer("v", "work"), offer("s", "sum"), teach(*steps, returns={"t": "facts.total"})]
    ends = [
        ended("a-0", {"v.x": 2}, by="u"),
        ended("a-1", {"v.x": 1}, by="v"),
        ended("a-2", {"v.y": 4}, by="u"),
        failed("a-3", "LOW_CONFIDENCE", by="v"),
    ]
    tasks, outcomes = set(), set()
    for order in permutations(ends):
        scenario = given(*team, goal({"n": ["x", "y"]}), *order)
        (entry,) = [entry for entry in scenario.tasks_in_flight() if entry.task == "b"]
        tasks.add(repr(entry.items))
        outcomes.add(outcome_digest(scenario.say(ended("b", {"total": 5}, by="s")).state))
    assert (len(tasks), len(outcomes)) == (1, 1)


def test_losers_stay_visible_to_expressions() -> None:
    steps = [step("a", specialist="all", merge=PRIORITY, missing="allow")]
    scenario = given(
        *(offer(name, "work") for name in VOICES),
        teach(*steps, returns={"others": "claims.a[?!won].value", "won": "claims.a[?won].by | [0]"}),
        goal(),
        *(says(name, number) for number, name in enumerate(VOICES)),
    )
    assert scenario.state.result == {"others": [0, 2], "won": "v"}


def test_quorum_counts_tasks_and_not_executions() -> None:
    scenario = quorum(says("u", 1), says("u", 1, execution="again"), says("u", 1, execution="third"))
    assert (scenario.state.end, scenario.state.steps["a"].ended) == ("", 1)
