"""What whoever is asked for a plan is told: of whom, of what, as of when, and within which bounds."""

from typing import Any

from schemas.codec import encode
from schemas.proposals import PROPOSAL_LIMIT, Planning
from schemas.validation import violation
from supervisor.briefings import BRIEFING_BYTES, DESCRIPTION_CHARACTERS, OFFERS_BYTES, OFFERS_LIMIT, SCHEMA_BYTES
from tests.planning.proposing import planning, proposed, says
from tests.supervisor.scenario import Scenario, ended, failed, given, goal, offer, step, teach


def told(scenario: Scenario, run: str = "r1") -> dict[str, Any]:
    """As a worker gets it; it has the form that is promised."""
    (task,) = [one for one in scenario.tasks_in_flight(run) if one.task == "plan"]
    briefing: dict[str, Any] = task.items[0].input["planning"]
    Planning.model_validate(briefing)
    assert violation(Planning.model_json_schema(), briefing) is None
    assert len(encode(briefing)) < BRIEFING_BYTES
    return briefing


def names(briefing: dict[str, Any]) -> list[str]:
    return [one["specialist"] for one in briefing["offers"]]


def test_an_offer_is_what_its_contract_says() -> None:
    schema = {"type": "object", "properties": {"t": {"type": "string"}}}
    scenario = planning(
        offer(
            "x",
            "look",
            "see",
            "plan",
            description="looks " * 200,
            input=schema,
            output={"type": "string"},
            typical_micro_usd=7,
            typical_s=2.5,
            budget={"tokens": 50},
        )
    )
    (found,) = [one for one in told(scenario)["offers"] if one["specialist"] == "x"]
    assert found == {
        "specialist": "x",
        "description": ("looks " * 200)[:DESCRIPTION_CHARACTERS],
        "offers": ["look", "see"],
        "authority": "observe",
        "input": schema,
        "output": {"type": "string"},
        "budget": {"tokens": 50, "tool_calls": None, "micro_usd": None},
        "micro_usd": 7,
        "seconds": 2.5,
    }


def test_only_those_who_may_be_planned_are_told_of() -> None:
    tool = {"tool": "search", "scopes": ["web"]}
    team = (
        offer("effects", "pay", authority="effect"),
        offer("hands", "hand", authority="propose"),
        offer("looks", "look", tools=[tool]),
        offer("gone", "gone"),
    )
    assert names(told(planning(*team, offer("gone")))) == ["hands", "w"]
    assert names(told(planning(*team, plans={"authority": "observe"}))) == ["gone", "w"]
    assert names(told(planning(*team, plans={"authority": "effect"}))) == ["effects", "gone", "hands", "w"]
    assert names(told(planning(*team, plans={"tools": ["search"], "scopes": ["web"]}))) == [
        "gone",
        "hands",
        "looks",
        "w",
    ]
    assert names(told(planning(*team, plans={"capabilities": ["hand"]}))) == ["hands"]


def test_who_gets_nothing_more_is_left_out() -> None:
    steps = [step("a", missing="allow"), step("plan", "plan", needs=["a"], plans={})]
    scenario = given(
        offer("w", "work", attempts=1), offer("p", "plan"), teach(*steps, breaker=1), goal(), failed("a", "TOOL_DOWN")
    )
    assert names(told(scenario)) == []


def test_there_is_room_for_so_many() -> None:
    many = [offer(f"s{number:03}", "some") for number in range(OFFERS_LIMIT + 5)]
    briefing = told(planning(*many))
    assert (len(briefing["offers"]), briefing["left_out"]) == (OFFERS_LIMIT, 6)  # `w` comes last
    wide = {"type": "object", "properties": {f"field-{number}": {"type": "string"} for number in range(80)}}
    assert len(encode(wide)) < SCHEMA_BYTES
    briefing = told(planning(*[offer(f"s{number:03}", "some", input=wide, output=wide) for number in range(40)]))
    assert briefing["left_out"] > 0
    assert OFFERS_BYTES * 0.8 < len(encode(briefing["offers"])) <= OFFERS_BYTES + len(briefing["offers"])


def test_a_schema_that_is_too_large_is_not_shown() -> None:
    large = {"type": "object", "properties": {f"field-{number}": {"type": "string"} for number in range(500)}}
    (found,) = [one for one in told(planning(offer("x", "look", input=large)))["offers"] if one["specialist"] == "x"]
    assert (found["input"], found["output"]) == (None, {})


def test_what_expressions_can_name() -> None:
    steps = [step("a"), step("b", fact="deep.odd-key"), step("plan", "plan", needs=["a", "b"], plans={}), step("z")]
    scenario = given(offer("w", "work"), offer("p", "plan"), teach(*steps), goal({"q": 1, "odd name": 2}))
    scenario.say(ended("a", {"a": 1}), ended("z", {"z": 1}), ended("b", {"deep.odd-key": 2}))
    known = told(scenario)["known"]
    assert known == ["input.q", 'input."odd name"', "facts.a", 'facts."deep"."odd-key"']
    one = proposed("x", input={f"f{n}": ("expression", name) for n, name in enumerate(known)})
    scenario.say(says([one]))
    (task,) = scenario.tasks_in_flight()
    assert task.items[0].input == {"f0": 1, "f1": 2, "f2": 1, "f3": 2}
    assert told_of_facts(scenario) == "facts.plan_facts"


def told_of_facts(scenario: Scenario) -> str:
    """Where a planned step's value is found."""
    (planned,) = [one for one in scenario.state.plan if one.planned_by]
    return f"facts.{planned.fact.rpartition('.')[0]}"


def test_names_of_a_large_input_are_bounded() -> None:
    steps = [step("plan", "plan", plans={})]
    large = {f"name-{number}-{'x' * 200}": number for number in range(900)}
    scenario = given(offer("w", "work"), offer("p", "plan"), teach(*steps), goal(large))
    assert 100 < len(told(scenario)["known"]) < 500


def test_what_is_left_of_the_budget() -> None:
    scenario = planning(budget={"tokens": 100, "micro_usd": 9}, planner={"budget": {"tokens": 30, "micro_usd": 4}})
    assert told(scenario)["budget"] == {"tokens": 70, "tool_calls": None, "micro_usd": 5}
    limited = {"budget": {"tokens": 60, "tool_calls": 2}}
    scenario = planning(budget={"tokens": 100}, planner={"budget": {"tokens": 30}}, plans=limited)
    assert told(scenario)["budget"] == {"tokens": 60, "tool_calls": 2, "micro_usd": None}
    assert told(planning(budget={"tokens": 100}))["budget"]["tokens"] == 100


def test_it_is_told_as_of_when_it_was_asked() -> None:
    """Attached later is told later; the same attempt is told the same, whenever its message is derived."""
    scenario = planning()
    before = scenario.tasks_in_flight()
    scenario.say(offer("x", "look"), offer("w", "work", description="another"))
    assert scenario.tasks_in_flight() == before
    scenario.say(says([]))
    assert names(told(scenario)) == ["w", "x"]


def test_a_proposal_that_is_too_large_is_not_given_back() -> None:
    large = {"steps": [], "more": "x" * PROPOSAL_LIMIT}
    briefing = told(planning().say(says(large)))
    assert briefing["previous"] is None
    assert briefing["refused"][0].startswith("the plan has")
    assert told(planning().say(says(7)))["previous"] == 7


def test_the_contracts_that_it_is_told_of_stand_on_the_log() -> None:
    scenario = planning()
    (asked,) = [one for one in scenario.last if type(one).__name__ == "PlanAsked"]
    assert [(voice.specialist, voice.contract) for voice in asked.contracts] == [("w", 1)]
