"""Each merge policy: what it takes, when there is no value, and that nothing is lost whoever comes first."""

import json
import random
from collections.abc import Iterator, Sequence
from itertools import permutations
from typing import Any

import pytest
from msgspec.structs import replace

from projections.evolve import evolve
from projections.history import outcome_digest
from schemas import events as e
from schemas.bids import Rating
from schemas.catalogue import Catalogue
from schemas.codec import VALUE_LIMIT, canonical, encode
from schemas.inputs import read_input
from schemas.plans import BIDS
from schemas.playbooks import POLICIES, MergePolicy
from schemas.steps import Merge
from supervisor import merge as merging
from supervisor.decide import decide
from supervisor.merge import BIDS_LIMIT, Candidate, Merged, Nothing, Policy, Value, merge
from tests.supervisor.scenario import Said, Scenario, ended, given, goal, offer, step, teach

VIEW = Catalogue().below(0)
INTERLEAVINGS = 1_000
SPECIALISTS = [f"s{number}" for number in range(10)]


def claim(by: str, value: Any, confidence: float | None = None, order: int = 0, refused: str = "") -> Candidate:
    return Candidate(f"a-{by}", by, value, confidence, refused, order)


def claims(*values: Any) -> list[Candidate]:
    """Of u, v, w, ..., whose tasks ended in this order."""
    return [claim(by, value, order=place) for place, (by, value) in enumerate(zip("uvwxyz", values, strict=False), 10)]


def merged(policy: Merge, candidates: Sequence[Candidate], *installed: Policy) -> Merged:
    return merge(policy, candidates, Catalogue({(one.name, one.version): one for one in installed}).below(0))


def test_playbooks_name_just_the_policies_that_there_are() -> None:
    assert set(merging._POLICIES) == POLICIES | {BIDS}
    with pytest.raises(ValueError, match="belongs to open calls"):
        MergePolicy(policy=BIDS)


# --- what each takes --------------------------------------------------------------------------------------------------

PRIORITY = Merge("priority", order=("w", "value > `5`"))
TAKEN: list[tuple[Merge, list[Candidate], Any, str]] = [
    (Merge("only"), claims({"a": 1, "b": [2]}, {"b": [2], "a": 1}), {"a": 1, "b": [2]}, "u"),
    (Merge("reject"), claims(None, None), None, "u"),
    (Merge("reconcile", specialist="judge"), claims("x", "x"), "x", "u"),
    (Merge("first"), claims(3, 1, 2), 3, "u"),
    (Merge("first"), claims(3, 1, 2)[::-1], 3, "u"),
    (Merge("newest"), claims(3, 1, 2), 2, "w"),
    (Merge("newest"), claims(3, 1, 2)[::-1], 2, "w"),
    (Merge("highest_confidence"), [claim("u", 1, 0.5), claim("v", 2, 0.9), claim("w", 3)], 2, "v"),
    (Merge("highest_confidence"), [claim("u", 2, 0.9), claim("v", 1, 0.9), claim("w", 0, 0.1)], 1, "v"),
    (Merge("highest_confidence"), [claim("u", 2), claim("v", 1, 0.0)], 1, "v"),
    (Merge("highest_confidence"), [claim("u", 2), claim("v", 1)], 1, "v"),
    (Merge("highest_confidence"), [claim("u", 1), claim("v", 2, -3.0)], 2, "v"),
    (PRIORITY, claims(9, 8, 7), 7, "w"),
    (PRIORITY, claims(9, 8), 8, "v"),
    (PRIORITY, claims(2, 1), 1, "v"),
    (Merge("quorum", n=2), claims("a", "b", "b"), "b", "v"),
    (Merge("quorum", n=2), claims("a", "a", "b", "b", "b"), "b", "w"),
    (Merge("quorum", n=1), claims("a"), "a", "u"),
    (Merge("quorum", n=2), claims({"x": 1, "y": 2}, {"y": 2, "x": 1}, 3), {"x": 1, "y": 2}, "u"),
    (Merge("median"), claims(30, 1, 2), 2, "w"),
    (Merge("median"), claims(4, 1, 2, 3), 2, "w"),
    (Merge("median"), claims(2.5, 7, -1), 2.5, "u"),
    (Merge("median"), claims(5, 1, 5, 9), 5, "u"),
    (Merge("median"), claims(1, 1.0), 1, "u"),
    (Merge("median"), claims(1.0, 1), 1, "v"),
    (Merge("union"), claims([3, 1], [1, 2], []), [1, 2, 3], ""),
    (Merge("union"), claims([10, 2], [{"b": 1, "a": 2}, {"a": 2, "b": 1}]), [10, 2, {"b": 1, "a": 2}], ""),
    (Merge("union"), claims([1, 1.0, True, None, "1"]), ["1", 1, 1.0, None, True], ""),
    (Merge("union"), claims([], []), [], ""),
    (Merge("concat"), claims([3, 1], [1, 2], []), [3, 1, 1, 2], ""),
    (Merge("concat"), claims("one. ", "", "two."), "one. two.", ""),
]


@pytest.mark.parametrize(("policy", "said", "value", "by"), TAKEN, ids=[policy.policy for policy, *_ in TAKEN])
def test_a_policy_takes(policy: Merge, said: list[Candidate], value: Any, by: str) -> None:
    found = merged(policy, said)
    assert found.found
    assert encode(found.value) == encode(value), "the fields in their order too: stored bytes are chained"
    assert (found.winner.by if found.winner else "") == by
    assert (found.conflict, found.reason) == (False, "")
    if found.winner:
        assert found.winner in said, "a real claim wins"
    check_losers(found, said)


NO_VALUE: list[tuple[Merge, list[Candidate], str]] = [
    (Merge("only"), claims(1, 2), "2 different values, and the policy is `only`"),
    (Merge("only"), claims(1, 1.0), "2 different values, and the policy is `only`"),
    (Merge("reject"), claims("a", "b", "c"), "3 different values, and the policy is `reject`"),
    (Merge("reconcile", specialist="judge"), claims(1, True), "2 different values, and the policy is `reconcile`"),
    (Merge("quorum", n=3), claims("a", "b", "b"), "no value has 3 tasks; the most that one has is 2"),
    (Merge("quorum", n=2), claims("a", "b", "b", "a"), "more than one value has 2 tasks, and none has more"),
    (Merge("median"), claims(1, "2", 3), "v claims a text; a median takes numbers"),
    (Merge("median"), claims(1, 3, True), "w claims a truth value; a median takes numbers"),
    (Merge("median"), claims(None), "u claims null; a median takes numbers"),
    (Merge("union"), claims([1], {"a": 1}), "v claims an object; a union takes lists"),
    (Merge("union"), claims("text"), "u claims a text; a union takes lists"),
    (Merge("concat"), claims(["a"], "b"), "v claims a text; lists go together, and texts do"),
    (Merge("concat"), claims("a", ["b"]), "u claims a text; lists go together, and texts do"),
    (Merge("concat"), claims(1), "u claims a number; lists go together, and texts do"),
]


@pytest.mark.parametrize(("policy", "said", "reason"), NO_VALUE, ids=[policy.policy for policy, *_ in NO_VALUE])
def test_a_policy_takes_nothing_and_says_why(policy: Merge, said: list[Candidate], reason: str) -> None:
    found = merged(policy, said)
    assert (found.found, found.value, found.winner, found.reason) == (False, None, None, reason)
    assert found.conflict == (policy.policy in {"reject", "reconcile"})
    assert {loser.reason for loser in found.losers} == {reason}
    check_losers(found, said)


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_without_an_accepted_claim_there_is_no_value(policy: str) -> None:
    said = Merge(policy, ("u",), n=1, specialist="judge")
    assert merged(said, []) == Merged(False, None, None, (), "nobody claimed a value")
    refused = merged(said, [claim("v", 2, refused="no"), claim("u", 1, refused="never")])
    assert (refused.found, refused.reason, refused.conflict) == (False, "no claim was accepted", False)
    assert [(loser.by, loser.reason) for loser in refused.losers] == [("u", "never"), ("v", "no")]


@pytest.mark.parametrize("policy", sorted(POLICIES))
def test_refused_claims_take_no_part(policy: str) -> None:
    said = Merge(policy, ("u", "v"), n=1, specialist="judge")
    value = [1] if policy in {"union", "concat"} else 1
    found = merged(said, [claim("v", value, 0.1, 5), claim("u", "odd", 0.9, 1, "no"), claim("w", 7, 0.9, 9, "no")])
    assert (found.found, found.value) == (True, value)
    assert [(loser.by, loser.reason) for loser in found.losers if loser.reason == "no"] == [("u", "no"), ("w", "no")]


def test_quorum_counts_tasks() -> None:
    twice = [Candidate("a-0", "u", "x"), Candidate("a-0", "u", "x"), Candidate("a-1", "v", "y")]
    assert not merged(Merge("quorum", n=2), twice).found


LOSERS: list[tuple[Merge, list[Candidate], dict[str, str]]] = [
    (Merge("first"), claims(3, 1, 3), {"v": "its task ended later", "w": ""}),
    (Merge("newest"), claims(3, 1, 3), {"u": "", "v": "its task ended earlier"}),
    (
        Merge("highest_confidence"),
        [claim("u", 1, 0.9), claim("v", 2, 0.9), claim("w", 3, 0.25), claim("x", 4), claim("y", 1)],
        {
            "v": "also confidence 0.9, later in the order of values",
            "w": "confidence 0.25 is below 0.9",
            "x": "without a confidence",
            "y": "",
        },
    ),
    (Merge("highest_confidence"), claims(1, 2), {"v": "also without a confidence, later in the order of values"}),
    (PRIORITY, claims(9, 1, 7), {"u": "priority 2 comes after 1", "v": "in no priority"}),
    (Merge("quorum", n=2), claims("b", "a", "b"), {"v": "has 1 of 3 tasks; the fact has 2", "w": ""}),
    (
        Merge("median"),
        claims(1, 5, 9, 5, 5.0),
        {"u": "below the median", "w": "above the median", "x": "", "y": "the same number, written otherwise"},
    ),
    (Merge("union"), claims([2], [1, 2], [1]), {"u": "part of the union", "v": "", "w": "part of the union"}),
    (Merge("concat"), claims("a", "b"), {"u": "part of the whole", "v": "part of the whole"}),
]


@pytest.mark.parametrize(("policy", "said", "reasons"), LOSERS, ids=[policy.policy for policy, *_ in LOSERS])
def test_losers_say_why(policy: Merge, said: list[Candidate], reasons: dict[str, str]) -> None:
    assert {loser.by: loser.reason for loser in merged(policy, said).losers} == reasons


@pytest.mark.parametrize(
    ("policy", "said"),
    [("union", [[f"{by}{n:02}" * 290 for n in range(40)] for by in "uv"]), ("concat", ["ü" * 20_000, "x" * 30_000])],
)
def test_a_value_that_would_be_too_large_is_none(policy: str, said: list[Any]) -> None:
    assert all(len(encode(value)) <= VALUE_LIMIT for value in said)
    found = merged(Merge(policy), claims(*said))
    assert (found.found, found.value) == (False, None)
    assert found.reason.startswith("it would have ")
    assert found.reason.endswith(f" bytes; the limit of a value is {VALUE_LIMIT}")
    check_losers(found, claims(*said))


# --- bids -------------------------------------------------------------------------------------------------------------

RANKING = Merge(BIDS, arguments={"confidence": 1.0, "usd": 2.0, "seconds": 0.01})


def bid(confidence: float = 1.0, micro_usd: int = 0, seconds: float = 0.0, can: bool = True) -> dict[str, Any]:
    return {"can": can, "confidence": confidence, "micro_usd": micro_usd, "seconds": seconds}


def test_bids_are_ranked_by_score_and_then_by_name() -> None:
    said = [
        claim("w", bid(0.9, 100_000, 10.0)),  # 0.9 - 0.2 - 0.1
        claim("v", bid(0.8)),
        claim("u", bid(0.9, 50_000)),  # 0.9 - 0.1: as good as v
        claim("x", bid(1.0, can=False)),
        claim("y", {"can": True}),
        claim("z", "I can"),
    ]
    for order in permutations(said):
        found = merged(RANKING, order)
        assert (found.found, found.winner, found.reason) == (True, None, "")
        assert [row["by"] for row in found.value] == ["y", "u", "v", "w"]
        assert found.value[0] == {"by": "y", "score": 1.0, "confidence": 1.0, "micro_usd": 0, "seconds": 0.0}
        assert found.value[3]["score"] == Rating(1.0, 2.0, 0.01).score(msgspec_bid(0.9, 100_000, 10.0))
        reasons = {loser.by: loser.reason for loser in found.losers}
        assert reasons == dict.fromkeys("uvwy", "part of the ranking") | {"x": "cannot do it", "z": "is no bid"}
        check_losers(found, said)


def msgspec_bid(confidence: float, micro_usd: int, seconds: float) -> Any:
    return merging._bid(bid(confidence, micro_usd, seconds))


def test_nobody_who_bids_is_an_answer() -> None:
    assert merged(RANKING, []) == Merged(True, [], None, ())
    cannot = merged(RANKING, [claim("u", bid(can=False)), claim("v", bid(), refused="no")])
    assert (cannot.found, cannot.value) == (True, [])
    assert [(loser.by, loser.reason) for loser in cannot.losers] == [("u", "cannot do it"), ("v", "no")]


def test_a_score_that_is_not_finite_is_not_granted() -> None:
    expensive = Merge(BIDS, arguments={"confidence": 1.0, "usd": 1.0, "seconds": 1e6})
    found = merged(expensive, [claim("u", bid(seconds=1e307)), claim("v", bid(seconds=1.0))])
    assert [row["by"] for row in found.value] == ["v"]
    assert [loser.reason for loser in found.losers] == ["its score is not finite", "part of the ranking"]


def test_the_ranking_of_very_many_fits_into_a_value() -> None:
    said = [claim(f"{number:04}-{'x' * 59}", bid(number / 7_000, 123_456_789, 12.345_678_9)) for number in range(2_000)]
    found = merged(RANKING, said)
    assert len(found.value) == BIDS_LIMIT
    assert [row["by"][:4] for row in found.value] == [f"{1_999 - place:04}" for place in range(BIDS_LIMIT)]
    assert len(encode(found.value)) < VALUE_LIMIT
    assert found.losers[0].reason == f"comes after the first {BIDS_LIMIT}"
    check_losers(found, said)


# --- nothing is lost, and arrival changes nothing ---------------------------------------------------------------------


def weighted(given: list[Candidate], arguments: dict[str, Any]) -> Candidate | Value | Nothing:
    """The value with the most weight; lists are put together, by the name of who claims."""
    if not arguments:
        return Nothing("no weights")
    if all(isinstance(one.value, list) for one in given):
        return Value([item for one in given for item in one.value])
    return max(given, key=lambda one: (arguments.get(one.by, 1), one.by))


WEIGHTED = Policy("weighted", 3, weighted)
IN_ORDER = [
    *(Merge(name) for name in ("only", "reject", "highest_confidence", "median", "union", "concat")),
    Merge("reconcile", specialist="judge"),
    Merge("priority", ("s7", "confidence > `0.5`", "value == `3`")),
    Merge("quorum", n=3),
    Merge("weighted", version=3, arguments={"s2": 5, "s4": 5}),
    RANKING,
]
"""Policies that do not know who came first."""
VALUES = [
    [1, 2, 2, 3, 3, 3, 4, 1.0, 2.5, -7],
    [[1, 2], [2, 3], [], [{"a": 1, "b": 2}], [{"b": 2, "a": 1}], [3], [1], [None], [True], [1.0]],
    ["a", "b", "a", "c", "", "a", "b", "d", "e", "b"],
    [{"x": 1, "y": [2]}, {"y": [2], "x": 1}] * 5,
    [1, "1", [1], {"a": 1}, None, True, 1, "1", [1], None],
    [bid(0.1 * (number % 4), number * 10_000, can=number != 5) for number in range(10)],
]


def mixed(values: Sequence[Any], refused: str = "") -> list[Candidate]:
    """Of ten specialists, some sure, some less, some not saying so; `refused` is not accepted."""
    sure = [0.9, None, 0.4, 0.9, 0.0, None, 0.7, 0.9, 0.2, 0.7]
    said = zip(SPECIALISTS, values, sure, strict=True)
    return [claim(by, value, how, refused="not accepted" if by == refused else "") for by, value, how in said]


def interleavings(said: list[Candidate], count: int, seed: int = 7) -> Iterator[list[Candidate]]:
    """The same claims in other orders of arrival."""
    chance = random.Random(seed)
    for _ in range(count):
        order = chance.sample(said, len(said))
        yield [replace(one, order=place) for place, one in enumerate(order, 20)]


def check_losers(found: Merged, said: Sequence[Candidate]) -> None:
    """Winner and losers are all claims, and who lost knows why, unless the fact has the same value."""
    whole = [(one.task, one.by, encode(one.value)) for one in found.losers]
    whole += [(found.winner.task, found.winner.by, encode(found.winner.value))] if found.winner else []
    assert sorted(whole) == sorted((one.task, one.by, encode(one.value)) for one in said), "nothing is lost"
    refused = {one.task for one in said if one.refused}
    for loser in found.losers:
        same = found.found and canonical(loser.value) == canonical(found.value) and loser.task not in refused
        assert bool(loser.reason) != same, loser


def seen(found: Merged) -> bytes:
    """All of it but when the winner came."""
    return encode(replace(found, winner=found.winner and replace(found.winner, order=0)))


@pytest.mark.parametrize("policy", IN_ORDER, ids=lambda policy: policy.policy)
def test_nothing_is_lost_and_the_same_wins_whoever_comes_first(policy: Merge) -> None:
    decided = 0
    for number, values in enumerate(VALUES):
        said = mixed(values, refused="s3" if number % 2 else "")
        outcomes = set()
        for arrived in interleavings(said, INTERLEAVINGS):
            found = merged(policy, arrived, WEIGHTED)
            outcomes.add(seen(found))
        check_losers(found, said)
        assert len(outcomes) == 1, f"{policy.policy} follows arrival: {outcomes}"
        decided += found.found
    print(
        f"{policy.policy}: {len(VALUES)} sets of 10 claims, {INTERLEAVINGS} interleavings each, {decided} with a value"
    )
    assert decided


@pytest.mark.parametrize("policy", ["first", "newest"])
def test_first_and_newest_follow_arrival(policy: str) -> None:
    winners = set()
    for arrived in interleavings(mixed(VALUES[4]), INTERLEAVINGS):
        found = merged(Merge(policy), random.Random(3).sample(arrived, len(arrived)))
        assert found.winner == (arrived[0] if policy == "first" else arrived[-1])
        check_losers(found, arrived)
        winners.add(found.winner.by)
    assert winners == set(SPECIALISTS)


# --- and so in whole runs ---------------------------------------------------------------------------------------------


def asked_all(**merge_policy: Any) -> Scenario:
    """A run in which ten specialists have the same task."""
    asked = step("a", specialist="all", merge=merge_policy, missing="allow")
    team = [offer(name, "work") for name in SPECIALISTS]
    return given(*team, teach(asked, returns={"x": "facts.a", "none": "missing"}), goal())


RUNS: list[tuple[dict[str, Any], list[Any]]] = [
    ({"policy": "only"}, VALUES[3]),
    ({"policy": "only"}, VALUES[0]),
    ({"policy": "highest_confidence"}, VALUES[4]),
    ({"policy": "priority", "order": ["s7", "s1"]}, VALUES[4]),
    ({"policy": "quorum", "n": 3}, VALUES[2]),
    ({"policy": "quorum", "n": 4}, VALUES[2]),
    ({"policy": "median"}, VALUES[0]),
    ({"policy": "union"}, VALUES[1]),
    ({"policy": "concat"}, VALUES[2]),
    ({"policy": "weighted", "version": 3, "arguments": {"s2": 5, "s4": 5}}, VALUES[4]),
]


def test_ten_specialists_in_a_thousand_interleavings() -> None:
    """Whole decisions, claim by claim: the outcome is the same, and every claim stands in the log of the run."""
    outcomes: dict[int, set[str]] = {}
    for number, (policy, values) in enumerate(RUNS):
        scenario = asked_all(**policy)
        scenario.catalogue.policies["weighted", 3] = WEIGHTED
        for arrived in interleavings(mixed(values), INTERLEAVINGS // len(RUNS), seed=number):
            state, committed = _after(scenario, arrived)
            assert state.end
            whole = [committed, *committed.losers] if getattr(committed, "task", "") else committed.losers
            assert sorted((one.by, encode(one.value)) for one in whole) == sorted(
                (one.by, encode(one.value)) for one in arrived
            ), "no observation is lost"
            outcomes.setdefault(number, set()).add(outcome_digest(state))
    assert [len(digests) for digests in outcomes.values()] == [1] * len(RUNS)
    print(f"10 specialists, {len(RUNS)} policies, {INTERLEAVINGS} interleavings of claims: one outcome each")


def _after(scenario: Scenario, arrived: Sequence[Candidate]) -> tuple[Any, Any]:
    """The state once all claims have come in this order, and the event that settles them."""
    state, last = scenario.state, None
    for seq, one in enumerate(arrived, scenario.seq + 1):
        name = f"a-{SPECIALISTS.index(one.by)}"
        said = ended(name, {"a": one.value}, by=one.by, confidence=one.confidence)
        cause = read_input(seq, said.subject, said.address, scenario.time_ms, said.data)
        decided = decide(state, cause, scenario.catalogue.below(seq))
        assert isinstance(decided, list)
        for event in decided:
            state = evolve(state, event)
            last = event if isinstance(event, e.FactCommitted | e.FactMissing) else last
    return state, last


def says(by: str, value: Any) -> Said:
    return ended(f"a-{SPECIALISTS.index(by)}", {"a": value}, by=by)


def test_first_and_newest_take_what_came_first_and_last_in_a_run() -> None:
    newest = asked_all(policy="newest").say(*(says(by, by) for by in SPECIALISTS if by != "s5"), says("s5", "s5"))
    assert newest.state.facts["a"].value == "s5"
    first = asked_all(policy="first").say(says("s4", 4), says("s2", 2))
    first.say(*(says(by, 0) for by in SPECIALISTS if by not in {"s4", "s2"}))
    assert first.state.facts["a"].value == 4


def test_the_fact_names_the_policy_its_version_and_nobody_where_it_was_made_of_several() -> None:
    scenario = asked_all(policy="weighted", version=3, arguments={"s2": 5})
    scenario.catalogue.policies["weighted", 3] = WEIGHTED
    scenario.say(*(says(by, [by]) for by in SPECIALISTS))
    (committed,) = [event for event in scenario.last if isinstance(event, e.FactCommitted)]
    assert (committed.policy, committed.policy_version) == ("weighted", 3)
    assert (committed.by, committed.task, committed.value) == ("", "", SPECIALISTS)
    assert {loser.reason for loser in committed.losers} == {"`weighted` version 3 makes another value"}
    assert json.loads(encode(committed))["policy_version"] == 3
