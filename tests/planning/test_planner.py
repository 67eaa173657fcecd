"""The planner, over an endpoint that says what a test wants: what a model is shown, what it may answer, what becomes of
it."""

import json
from typing import Any

import pytest

from schemas.goals import Budget
from schemas.playbooks import Playbook, Step
from schemas.proposals import Planning
from specialists.context import LocalContext
from specialists.models import MODEL, MODELS
from specialists.outcome import Result
from specialists.plan_forms import functions, stages, tasks_called
from specialists.planner import planner
from specialists.specialist import Team, specialist
from specialists.strict import Calls, Form
from tests.models.endpoint import Endpoint, Say, endpoint
from tests.planning.proposing import planning, proposed, says
from tests.supervisor.scenario import Said, Scenario, ended, offer
from tests.topologies.casts import at_work, board_in_memory

QUERY = {
    "type": "object",
    "properties": {"query": {"type": "string"}, "count": {"type": "integer", "minimum": 1}, "why": {"type": "string"}},
    "required": ["query", "count"],
    "additionalProperties": False,
}
TEXTS = {"type": "object", "properties": {"texts": {}}, "required": ["texts"], "additionalProperties": False}
PAYS = {"type": "object", "properties": {}, "additionalProperties": False}
TEAM = (
    offer("searcher", "search", "look-up", input=QUERY, description="Finds passages"),
    offer("writer", "write", input=TEXTS, description="Writes a report", budget={"tokens": 70}),
    offer("payer", "pay", input=PAYS, authority="effect"),
)


def asking(*said: Said, **fields: Any) -> Scenario:
    """A run that asks for a plan of the team."""
    return planning(*TEAM, *said, plans={"authority": "effect", "steps": 8} | fields.pop("plans", {}), **fields)


def told(scenario: Scenario) -> dict[str, Any]:
    return scenario.tasks_in_flight()[0].items[0].input


def searching(query: str = "cats", **more: Any) -> dict[str, Any]:
    input = {"query": {"text": query}, "count": {"value": 3}} | more
    return {"specialist": "searcher", "capability": "search", "input": input}


WRITES = {"specialist": "writer", "capability": "write", "input": {"texts": {"take": "previous"}}}
IN_STAGES = {"first": [searching(), searching(query="dogs")], "then": [[WRITES]]}


async def answered(at: Endpoint, scenario: Scenario, monkeypatch: pytest.MonkeyPatch) -> tuple[Result, LocalContext]:
    monkeypatch.setenv(MODEL, "scripted")
    monkeypatch.setenv("OPENAI_BASE_URL", at.url)
    context = LocalContext(planner)
    return await planner.invoke(told(scenario), context), context


def form_of(at: Endpoint) -> dict[str, Any]:
    form: dict[str, Any] = at.asked[0]["response_format"]["json_schema"]
    return form


async def test_a_plan_in_stages_is_committed(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = asking()
    with endpoint(Say(json.dumps(IN_STAGES))) as at:
        result, context = await answered(at, scenario, monkeypatch)
    scenario.say(says(result.value))
    steps = {step.id: step for step in scenario.state.plan if step.planned_by}
    assert list(steps) == ["plan_s1_searcher", "plan_s2_searcher", "plan_s3_writer"]
    assert steps["plan_s3_writer"].needs == ("plan", "plan_s1_searcher", "plan_s2_searcher")
    assert [task.items[0].input for task in scenario.tasks_in_flight()] == [
        {"query": "cats", "count": 3},
        {"query": "dogs", "count": 3},
    ]
    assert (context.usage.input_tokens, context.usage.output_tokens) == tuple(at.used)


async def test_what_comes_of_a_stage_is_given_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = asking()
    with endpoint(Say(json.dumps(IN_STAGES))) as at:
        result, _ = await answered(at, scenario, monkeypatch)
    scenario.say(says(result.value))
    for number, text in ((1, "a cat"), (2, "a dog")):
        name = f"s{number}_searcher"
        scenario.say(ended(f"plan_{name}", {f"plan_facts.{name}": text}, by="searcher"))
    assert [task.items[0].input for task in scenario.tasks_in_flight()] == [{"texts": ["a cat", "a dog"]}]


async def test_the_model_is_held_to_the_specialists_that_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(Say(json.dumps(IN_STAGES))) as at:
        await answered(at, asking(), monkeypatch)
    form = form_of(at)
    assert form["strict"] is True
    named = [
        one["properties"]["specialist"]["const"]
        for one in form["schema"]["$defs"].values()
        if "specialist" in one["properties"]
    ]
    assert sorted(set(named)) == ["payer", "searcher", "w", "writer"]
    capabilities = form["schema"]["$defs"]["First1"]["properties"]["capability"]
    assert capabilities["enum"] == ["search", "look-up"]
    shown = at.asked[0]["messages"][-1]["content"]
    assert "Finds passages" in shown
    assert "Goal: why" in shown
    assert "8 tasks at most" in shown


def _objects(node: Any) -> list[dict[str, Any]]:
    if isinstance(node, list):
        return [one for part in node for one in _objects(part)]
    if not isinstance(node, dict):
        return []
    return ([node] if node.get("type") == "object" else []) + [one for part in node.values() for one in _objects(part)]


def test_the_forms_are_strict() -> None:
    made = Planning.model_validate(told(asking())["planning"])
    schemas = [Form(stages(made, "why")).schema]
    schemas += [tool["function"]["parameters"] for tool in Calls(functions(made, "why"), lambda calls: calls).tools]
    for schema in schemas:
        for one in _objects(schema):
            assert one["additionalProperties"] is False
            assert sorted(one["required"]) == sorted(one["properties"])


async def test_who_may_change_the_world_is_asked_about(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = asking()
    pays = {"specialist": "payer", "capability": "pay", "input": {}}
    with endpoint(Say(json.dumps({"first": [pays], "then": []}))) as at:
        result, _ = await answered(at, scenario, monkeypatch)
    scenario.say(says(result.value))
    assert scenario.state.gates["plan_s1_payer"].ask == "May payer do pay?"


async def test_a_budget_is_shared(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = asking(budget={"tokens": 100}, planner={"budget": {"tokens": 10}}, plans={"budget": {"tokens": 60}})
    with endpoint(Say(json.dumps(IN_STAGES))) as at:
        result, _ = await answered(at, scenario, monkeypatch)
    assert [step["budget"]["tokens"] for step in result.value["steps"]] == [20, 20, 20]
    scenario.say(says(result.value))
    assert scenario.state.tasks["plan"].refused is None


async def test_facts_and_reasons_of_a_refusal_are_shown(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = asking().say(says([proposed("a", "play")]))
    monkeypatch.setenv(MODEL, "scripted")
    with endpoint(Say(json.dumps(IN_STAGES))) as at:
        monkeypatch.setenv("OPENAI_BASE_URL", at.url)
        context = LocalContext(planner, facts={"before": {"deep": 1}})
        await planner.invoke(told(scenario), context)
    shown = at.asked[0]["messages"][-1]["content"]
    assert "step 'a': nobody offers 'play'" in shown
    assert '{"before": {"deep": 1}}' in shown


async def test_an_answer_that_does_not_fit_is_asked_for_again(monkeypatch: pytest.MonkeyPatch) -> None:
    low = {"first": [searching(count={"value": 0})], "then": []}
    with endpoint(Say(json.dumps(low)), Say(json.dumps(IN_STAGES))) as at:
        result, context = await answered(at, asking(), monkeypatch)
    assert not result.code
    assert len(at.asked) == 2
    assert "breaks /minimum" in at.asked[1]["messages"][-1]["content"]
    assert (context.usage.input_tokens, context.usage.output_tokens) == (20, 10)


@pytest.mark.parametrize(
    ("first", "field"),
    [
        (searching(count={"take": "goal"}), "a goal that is no number"),
        (searching(query={"take": "previous"}), "what no stage before has given"),
        (searching() | {"specialist": "nobody"}, "nobody"),
        (searching() | {"capability": "write"}, "what another one offers"),
    ],
)
async def test_what_would_be_refused_cannot_be_said(
    first: dict[str, Any], field: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(Say(json.dumps({"first": [first], "then": []}))) as at:
        result, _ = await answered(at, asking(), monkeypatch)
    assert result.code == "INVALID_OUTPUT", field


async def test_nobody_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint() as at:
        result, _ = await answered(at, planning(plans={"capabilities": ["none"]}), monkeypatch)
    assert (result.code, at.asked) == ("LOW_CONFIDENCE", [])


async def test_nobody_can_begin(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever is there takes an object, which only another one could give."""
    needs = {"type": "object", "properties": {"of": {"type": "object"}}, "required": ["of"]}
    with endpoint() as at:
        scenario = planning(offer("x", "some", input=needs), plans={"capabilities": ["some"]})
        input = told(scenario)
        input["planning"]["known"] = []
        monkeypatch.setenv(MODEL, "scripted")
        monkeypatch.setenv("OPENAI_BASE_URL", at.url)
        result = await planner.invoke(input, LocalContext(planner))
    assert (result.code, at.asked) == ("LOW_CONFIDENCE", [])


async def test_no_model_is_configured() -> None:
    result = await planner.invoke(told(asking()), LocalContext(planner))
    assert result.code == "INVALID_INPUT"
    assert "BLACKBOARD_MODEL" in result.message


# --- models that call tools -------------------------------------------------------------------------------------------


def called(name: str, number: int, **arguments: Any) -> dict[str, Any]:
    return {"id": f"c{number}", "type": "function", "function": {"name": name, "arguments": json.dumps(arguments)}}


CALLS = (
    called("searcher", 1, capability="search", after=[], input={"query": {"text": "cats"}, "count": {"value": 3}}),
    called("searcher", 2, capability="look-up", after=[], input={"query": {"take": "goal"}, "count": {"value": 1}}),
    called("writer", 3, capability="write", after=[2], input={"texts": {"call": 1}}),
)


def calling(at: Endpoint, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "models.toml"
    path.write_text(f'[planner]\nname = "scripted"\nbase_url = "{at.url}"\nstructured = "tool"\n')
    monkeypatch.setenv(MODELS, str(path))


async def test_specialists_are_tools_for_models_that_call_tools(tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = asking()
    with endpoint(Say(tool_calls=CALLS, finish="tool_calls")) as at:
        calling(at, tmp_path, monkeypatch)
        result = await planner.invoke(told(scenario), LocalContext(planner))
    tools = {tool["function"]["name"]: tool["function"] for tool in at.asked[0]["tools"]}
    assert list(tools) == ["payer", "searcher", "w", "writer"]
    assert all(tool["strict"] for tool in tools.values())
    assert at.asked[0]["tool_choice"] == "required"
    scenario.say(says(result.value))
    steps = {step.id: step for step in scenario.state.plan if step.planned_by}
    assert steps["plan_s3_writer"].needs == ("plan", "plan_s1_searcher", "plan_s2_searcher")
    assert steps["plan_s3_writer"].input == {"texts": 'facts."plan_facts"."s1_searcher"'}
    assert steps["plan_s2_searcher"].capability == "look-up"


@pytest.mark.parametrize(
    ("calls", "problem"),
    [
        ((), "call at least one"),
        ((called("nobody", 1),), "there is no function 'nobody'"),
        ((CALLS[2],), "call 1 comes after call 2, which is not before it"),
        ((CALLS[0] | {"function": {"name": "searcher", "arguments": "{"}},), "are not JSON"),
        ((called("payer", 1, capability="pay", after=[1], input={}),), "call 1 comes after call 1"),
        (CALLS * 3, "9 calls; a plan has 8 steps at most"),
    ],
)
async def test_calls_that_make_no_plan_are_asked_for_again(
    calls: Any, problem: str, tmp_path: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    with endpoint(Say("I would not", tool_calls=calls), Say(tool_calls=CALLS)) as at:
        calling(at, tmp_path, monkeypatch)
        result = await planner.invoke(told(asking()), LocalContext(planner))
    assert not result.code
    assert problem in at.asked[1]["messages"][-1]["content"]


def test_calls_come_in_their_order() -> None:
    made = Planning.model_validate(told(asking())["planning"])
    assert tasks_called([], made) == []


# --- on a board -------------------------------------------------------------------------------------------------------


@specialist("finder", offers="find", budget=Budget(tokens=0))
async def finder(item: dict[str, str]) -> str:
    """Finds what a text is about."""
    return f"about {item['text']}"


@specialist("joiner", offers="join", budget=Budget(tokens=0))
async def joiner(item: dict[str, Any]) -> str:
    """Joins texts."""
    return " and ".join(item["text"])


def team() -> Team:
    plan = Step(id="plan", capability="plan", plans={}, input={"goal": "input.q"}, budget=Budget(tokens=20_000))
    playbook = Playbook(
        team="planned", steps=[plan], returns={"all": "facts.plan_facts"}, budget=Budget(tokens=100_000)
    )
    return Team(playbook, [planner, finder, joiner])


def task(name: str, offers: str, **text: Any) -> dict[str, Any]:
    return {"specialist": name, "capability": offers, "input": {"text": text}}


async def test_a_goal_in_words_becomes_a_plan_and_the_plan_a_result(monkeypatch: pytest.MonkeyPatch) -> None:
    plan = {
        "first": [task("finder", "find", text="cats"), task("finder", "find", take="goal")],
        "then": [[task("joiner", "join", take="previous")]],
    }
    with endpoint(Say(json.dumps(plan))) as at:
        monkeypatch.setenv(MODEL, "scripted")
        monkeypatch.setenv("OPENAI_BASE_URL", at.url)
        async with at_work(board_in_memory(), [team()]) as cast:
            state = await cast.ended(await cast.publish("planned", q="dogs"))
    assert state.end == "DONE", state.reason
    parts = {"s1_finder": "about cats", "s2_finder": "about dogs", "s3_joiner": "about cats and about dogs"}
    assert state.result == {"all": parts}
    assert (state.usage.input_tokens, state.usage.output_tokens) == tuple(at.used)


async def test_a_model_that_cannot_plan_ends_the_run_with_its_code(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(Say('{"first": []}')) as at:
        monkeypatch.setenv(MODEL, "scripted")
        monkeypatch.setenv("OPENAI_BASE_URL", at.url)
        async with at_work(board_in_memory(), [team()]) as cast:
            state = await cast.ended(await cast.publish("planned", q="dogs"))
    assert (state.end, state.code) == ("FAILED", "INVALID_OUTPUT")
    assert (state.usage.input_tokens, state.usage.output_tokens) == tuple(at.used)
