"""Whatever a specialist proposes is a plan that the run goes through to an end, or is refused with reasons; it is never
an error, and always the same."""

from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as some

from schemas import events as e
from schemas.plan_events import PlanExtended, PlanRefused
from schemas.proposals import REASON_CHARACTERS, REASONS_LIMIT, Proposal, read_proposal
from tests.planning.proposing import ANY, planning, proposed, says
from tests.supervisor.scenario import Scenario, ended, offer

TEAM = (
    offer("x", "pay", authority="effect", budget={"tokens": 10}),
    offer("y", "work", "look", tools=[{"tool": "search", "scopes": ["web"]}]),
    offer("z", "typed", input={"properties": {"n": {"type": "integer"}}, "required": ["n"]}),
)
NAMES = some.sampled_from(["a", "b", "c", "a-1", "end", "plan", "", "x y", "é"])
WORDS = some.sampled_from(["", "work", "pay", "look", "typed", "plan", "play", "w", "x", "y", "z", "p", "nobody"])
VALUES = some.one_of(
    some.sampled_from(
        ["a", "b", "facts.plan", "facts.plan_facts.a", "input.q", "input.n.deep", "@", "*", "`", "[", "1"]
    ),
    some.text(max_size=30),
    some.text(alphabet="[]{}\"'`\\().*&|!=<>@,:x1 ", max_size=120),
)
GIVEN = some.fixed_dictionaries(
    {
        "field": some.sampled_from(["n", "x", ""]),
        "kind": some.sampled_from(["text", "json", "step", "expression", "other"]),
        "value": VALUES,
    }
)
COUNTS = some.sampled_from([None, 0, 5, 10, 60, 10**6, -1, 1.5, "5", 2**60])
STEPS = some.fixed_dictionaries(
    {
        "id": NAMES,
        "needs": some.lists(NAMES, max_size=3),
        "capability": WORDS,
        "specialist": WORDS,
        "input": some.lists(GIVEN, max_size=3),
        "fact": some.sampled_from(["", "", "f", "a.b", "a"]),
        "budget": some.fixed_dictionaries(dict.fromkeys(ANY, COUNTS)),
        "gate": some.sampled_from(["", "may it?"]),
        "missing": some.sampled_from(["fail", "allow", "perhaps"]),
    }
)
JSON = some.recursive(
    some.none() | some.booleans() | some.integers(-5, 2**70) | some.floats(allow_nan=False) | some.text(max_size=10),
    lambda inner: some.lists(inner, max_size=4) | some.dictionaries(some.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
GOOD = some.builds(
    proposed,
    some.sampled_from(["a", "b", "c"]),
    capability=some.sampled_from(["work", "pay", "look"]),
    gate=some.sampled_from(["", "may it?"]),
    input=some.dictionaries(some.sampled_from(["n", "x"]), some.tuples(some.just("expression"), VALUES), max_size=1),
)
PLANS = some.one_of(
    JSON,
    some.lists(STEPS, max_size=4).map(lambda steps: {"steps": steps}),
    some.lists(GOOD, min_size=1, max_size=3, unique_by=lambda step: step["id"]).map(lambda steps: {"steps": steps}),
    some.fixed_dictionaries({"steps": JSON}),
)
GRANTS = some.sampled_from(
    [{}, {"tools": ["*"], "scopes": ["*"]}, {"authority": "effect"}, {"budget": {"tokens": 20}}, {"steps": 2}]
)


def follows(scenario: Scenario, plan: Any) -> list[str]:
    """What comes of a plan that the run was told: the reasons against it, none where it is committed."""
    kinds = [type(one) for one in scenario.last]
    assert (PlanExtended in kinds) != (PlanRefused in kinds) or e.InputRejected in kinds or _unstorable(scenario)
    refused = [one for one in scenario.last if isinstance(one, PlanRefused)]
    return list(refused[0].reasons) if refused else []


def _unstorable(scenario: Scenario) -> bool:
    """Whether what was claimed cannot be any specialist's claim."""
    return any(isinstance(one, e.AttemptFailed) and one.code == "INVALID_OUTPUT" for one in scenario.last)


@settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(PLANS, GRANTS, some.sampled_from([{}, {"tokens": 100}]))
def test_it_is_committed_or_refused(plan: Any, grant: dict[str, Any], budget: dict[str, int]) -> None:
    """The scenario decides everything twice, and checks each state."""
    fields = {"budget": budget, "planner": {"budget": {"tokens": 10}}} if budget else {}
    scenario = planning(*TEAM, plans=grant, **fields).say(says(plan))
    reasons = follows(scenario, plan)
    assert len(reasons) <= REASONS_LIMIT
    assert all(0 < len(reason) <= REASON_CHARACTERS for reason in reasons)
    for _ in range(20):
        if scenario.state.end or not scenario.state.in_flight:
            break
        task = scenario.tasks_in_flight()[0]
        if task.task == "plan":
            scenario.say(says([proposed("again", "play")], task.attempt))
        else:
            scenario.say(ended(task.task, {task.items[0].key: {"n": 1}}, by=task.specialist))
    assert scenario.state.end or scenario.state.open_gates
    planned = [one for one in scenario.state.plan if one.planned_by]
    assert not (reasons and planned)


@settings(max_examples=300, deadline=None)
@given(PLANS)
def test_a_proposal_is_read_or_said_to_be_none(plan: Any) -> None:
    if isinstance(plan, dict) and not _fits(plan):
        return
    read = read_proposal(plan)
    assert isinstance(read, Proposal) or (read and all(isinstance(reason, str) for reason in read))
    if isinstance(read, Proposal):
        assert read.model_dump(mode="json") == plan


def _fits(plan: Any) -> bool:
    """Whether the log can hold it."""
    return abs(max((one for one in _numbers(plan)), default=0, key=abs)) < 2**63


def _numbers(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [number for one in value.values() for number in _numbers(one)]
    if isinstance(value, list):
        return [number for one in value for number in _numbers(one)]
    return [value] if isinstance(value, int) else []
