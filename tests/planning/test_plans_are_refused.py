"""Plans that cannot be committed, and the reasons that whoever proposed them is told."""

from typing import Any, NamedTuple

import pytest

from schemas.proposals import NAME_LIMIT, PROPOSAL_LIMIT, REASONS_LIMIT
from supervisor.proposals import WRITTEN_LIMIT
from tests.planning.proposing import ANY, planning, proposed, says
from tests.supervisor.scenario import Said, ended, failed, goal, offer, step, teach


class Case(NamedTuple):
    plan: Any
    reasons: list[str]
    plans: dict[str, Any] = {}
    offers: tuple[Said, ...] = ()
    budget: dict[str, int] = {}


def one(**fields: Any) -> list[dict[str, Any]]:
    return [proposed("a", **fields)]


def given_(kind: str, value: str) -> list[dict[str, Any]]:
    return one(input={"x": (kind, value)})


def without(name: str) -> list[dict[str, Any]]:
    (made,) = one()
    return [{key: value for key, value in made.items() if key != name}]


ROUND = [proposed("a", needs=["b"]), proposed("b", needs=["a"])]
TYPED = {"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"], "additionalProperties": False}
STRICT = (offer("x", "typed", input=TYPED),)
PAYS = (offer("x", "pay", authority="effect"),)
LOOKS = (offer("x", "look", tools=[{"tool": "search", "scopes": ["web"]}]),)
COSTS = (offer("x", "dear", budget={"tokens": 60}),)

CASES: dict[str, Case] = {
    "no object": Case(7, ["a plan is an object with `steps`"]),
    "a list": Case({"steps": "a"}, ["steps: is not allowed (list_type)"]),
    "nothing": Case([], ["steps: is not allowed (too_short)"]),
    "a property too many": Case(one(extra=1), ["steps.0.extra: is not a known field"]),
    "a property too few": Case(without("needs"), ["steps.0.needs: is missing"]),
    "a number as text": Case(one(budget={"tokens": "5"}), ["steps.0.budget.tokens: is not allowed (int_type)"]),
    "less than nothing": Case(
        one(budget={"tokens": -5}), ["steps.0.budget.tokens: is not allowed (greater_than_equal)"]
    ),
    "no name": Case([proposed("a b")], ["steps.0.id: is not allowed (string_pattern_mismatch)"]),
    "a long name": Case([proposed("a" * (NAME_LIMIT + 1))], ["steps.0.id: is not allowed (string_too_long)"]),
    "no fact": Case(one(fact="a.b"), ["steps.0.fact: is neither empty nor made of letters, digits, '_' and '-'"]),
    "another kind": Case(given_("code", "x"), ["steps.0.input.0.kind: is not allowed (literal_error)"]),
    "twice": Case([*one(), *one(fact="b")], ["step 'a' stands twice"]),
    "one fact twice": Case([*one(), proposed("b", fact="a")], ["two steps name the fact 'a'"]),
    "no such step": Case(one(needs=["b"]), ["step 'a': needs 'b', which is no step of the plan"]),
    "a step of the playbook": Case(one(needs=["end"]), ["step 'a': needs 'end', which is no step of the plan"]),
    "a circle": Case(ROUND, ["steps need each other in a circle: a -> b -> a"]),
    "a circle through inputs": Case(one(input={"x": ("step", "a")}), ["steps need each other in a circle: a -> a"]),
    "a field twice": Case(
        [proposed("a") | {"input": [{"field": "x", "kind": "text", "value": ""}] * 2}],
        ["step 'a': gives the field 'x' twice"],
    ),
    "nobody": Case(one(capability=""), ["step 'a': names neither a capability nor a specialist"]),
    "no JSON": Case(given_("json", "{"), ["step 'a': input 'x': '{' is not JSON"]),
    "no number": Case(given_("json", "NaN"), ["step 'a': input 'x': 'NaN' is not JSON"]),
    "a large number": Case(given_("json", "1" * 30), ["step 'a': input 'x': a whole number of more than 64 bits"]),
    "deep": Case(
        given_("json", "[" * 300 + "]" * 300),
        ["step 'a': input 'x': more than 64 lists and objects inside each other"],
    ),
    "wide": Case(
        given_("json", str([[]] * 200)),
        ["step 'a': input 'x': has too many lists and objects; give it as text, or as the value of a step"],
    ),
    "half a character": Case(given_("json", '"\\ud800"'), ["step 'a': input 'x': half of a character"]),
    "no expression": Case(
        given_("expression", "facts.["), ["step 'a': input 'x': 'facts.[' is not a JMESPath expression"]
    ),
    "an empty expression": Case(given_("expression", ""), ["step 'a': input 'x': an expression is not empty"]),
    "no such input": Case(
        given_("expression", "input.n.x"), ["step 'a': input 'x': 'input.n.x' is nothing in this run"]
    ),
    "no such fact": Case(
        given_("expression", "facts.b"), ["step 'a': input 'x': 'facts.b' is no fact of a step that it needs"]
    ),
    "a fact of the plan that it does not need": Case(
        [*one(input={"x": ("expression", "facts.plan_facts.b")}), proposed("b")],
        ["step 'a': input 'x': 'facts.plan_facts.b' is no fact of a step that it needs"],
    ),
    "no document": Case(
        given_("expression", "goal"), ["step 'a': input 'x': 'goal' begins with neither `input` nor `facts`"]
    ),
    "input of no step": Case(given_("step", "b"), ["step 'a': input 'x': 'b' is no step of the plan"]),
    "too many": Case([proposed("a"), proposed("b")], ["the plan has 2 steps; 1 at most"], {"steps": 1}),
    "nobody offers": Case(one(capability="play"), ["step 'a': nobody offers 'play'"]),
    "no such specialist": Case(one(specialist="x"), ["step 'a': there is no specialist 'x'"]),
    "offers something else": Case(one(specialist="p"), ["step 'a': p does not offer 'work'"]),
    "a plan in a plan": Case(one(capability="plan"), ["step 'a': a plan may not ask for 'plan' here"]),
    "a plan in a plan, by name": Case(
        one(capability="", specialist="p"), ["step 'a': a plan may not ask p for 'plan' here"]
    ),
    "not granted": Case(one(), ["step 'a': a plan may not ask for 'work' here"], {"capabilities": ["pay"]}, PAYS),
    "may change the world": Case(
        one(capability="pay", gate="pay?"),
        ["step 'a': nobody may do 'pay' here: x has the authority to effect, where propose is the most"],
        offers=PAYS,
    ),
    "may change the world, unasked": Case(
        one(capability="", specialist="x"),
        ["step 'a': x may change the world, so a person has to be asked first: say what in `gate`"],
        {"authority": "effect"},
        PAYS,
    ),
    "may hand on": Case(
        one(capability="hand"),
        ["step 'a': nobody may do 'hand' here: x has the authority to propose, where observe is the most"],
        {"authority": "observe"},
        (offer("x", "hand", authority="propose"),),
    ),
    "a tool": Case(
        one(capability="look"),
        ["step 'a': nobody may do 'look' here: x has the tool 'search', which is not granted"],
        {"scopes": ["web"]},
        LOOKS,
    ),
    "a scope": Case(
        one(capability="", specialist="x"),
        ["step 'a': x has a tool with the scope 'web', which is not granted"],
        {"tools": ["*"], "scopes": ["disk"]},
        LOOKS,
    ),
    "more than its contract": Case(
        one(capability="dear", budget={"tokens": 61}),
        ["step 'a': 61 tokens are more than x may use, 60"],
        offers=COSTS,
    ),
    "more than is left": Case(
        [proposed("a", "dear"), proposed("b", "dear")],
        ["the steps may use 120 tokens together; 100 are left"],
        offers=COSTS,
        budget={"tokens": 100},
    ),
    "more than is granted": Case(
        [proposed("a", "dear"), proposed("b", "dear", budget={"tokens": 1})],
        ["the steps may use 61 tokens together; 60 are left"],
        {"budget": {"tokens": 60}},
        COSTS,
        {"tokens": 1_000},
    ),
    "as much as there is": Case(
        one(),
        ["step 'a': say how many tokens it may use; the contract does not"],
        {"budget": {"tokens": 60}},
    ),
    "nothing is left": Case(one(), ["the steps may use 1 tokens together; 0 are left"], budget={"tokens": 0}),
    "an input that is needed": Case(one(capability="typed"), ["step 'a': x needs the input 'n'"], offers=STRICT),
    "an input that is not taken": Case(
        [*one(capability="typed", input={"n": ("step", "b"), "m": ("text", "")}), proposed("b")],
        ["step 'a': x takes no input 'm'"],
        offers=STRICT,
    ),
    "an input of another type": Case(
        one(capability="typed", input={"n": ("text", "5")}),
        ["step 'a': the input of x: /n breaks /properties/n/type"],
        offers=STRICT,
    ),
}


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_refused(case: Case) -> None:
    fields = {"budget": case.budget} if case.budget else {}
    if case.budget.get("tokens") == 0:  # the planner itself may use nothing, and does not
        fields["planner"] = {"budget": {"tokens": 0}}
    scenario = planning(*case.offers, plans=case.plans, **fields).say(says(case.plan))
    refused = scenario.state.tasks["plan"].refused
    assert refused is not None, scenario.last
    assert list(refused.reasons) == case.reasons
    assert scenario.tasks_in_flight()[0].items[0].input["planning"]["refused"] == case.reasons
    assert not [step for step in scenario.state.plan if step.planned_by]


def test_each_refusal_has_its_case() -> None:
    """Every reason that the checks of a proposal give stands in the table; the sentences are counted."""
    assert len({case.reasons[0] for case in CASES.values()}) == len(CASES)


def test_a_specialist_that_failed_too_often() -> None:
    steps = [step("b"), step("c", needs=["b"]), step("plan", "plan", plans={})]
    scenario = planning(offer("w", "work", attempts=1)).say(
        teach(*[one | {"missing": "allow"} for one in steps], team="u", breaker=1), goal({}, team="u", run="r2")
    )
    scenario.say(failed("b", "TOOL_DOWN", run="r2"), says(one())._replace(run="r2"))
    refused = scenario.of("r2").tasks["plan"].refused
    why = "w failed 1 times in a row and gets nothing more in this run"
    assert refused is not None
    assert refused.reasons == (f"step 'a': nobody may do 'work' here: {why}",)


def test_names_and_keys_that_the_run_has() -> None:
    taken = [
        step("plan", "plan", plans={"facts": "here"}),
        step("plan_a", fact="there"),
        step("z", fact="here.b"),
        step("y", fact="here.c.d"),
        step("plan_d", for_each="input.l"),
    ]
    replans = [{"step": "z", "steps": [step("plan_e")]}]
    scenario = planning().say(teach(*taken, team="u", replans=replans), goal({"l": [1, 2]}, team="u", run="r2"))
    plan = [proposed("a"), proposed("b"), proposed("c"), proposed("d-1"), proposed("e"), proposed("f")]
    scenario.say(says(plan)._replace(run="r2"))
    refused = scenario.of("r2").tasks["plan"].refused
    assert refused is not None
    assert refused.reasons == (
        "step 'a': the run has a step 'plan_a' already",
        "step 'b': the key 'here.b' clashes with 'here.b'",
        "step 'c': the key 'here.c' clashes with 'here.c.d'",
        "step 'd-1': choose a shorter name, or one that does not end in a hyphen and a number",
        "step 'e': the run has a step 'plan_e' already",
    )


def test_two_steps_of_which_one_is_named_like_a_task_of_the_other() -> None:
    scenario = planning().say(says([proposed("a"), proposed("a-1")]))
    refused = scenario.state.tasks["plan"].refused
    assert refused is not None
    assert len(refused.reasons) == 2


def test_a_plan_that_is_too_large() -> None:
    large = [proposed(f"s{n}", input={"x": ("text", "x" * 1_900)}) for n in range(25)]
    scenario = planning(plans={"steps": 200}).say(says(large))
    refused = scenario.state.tasks["plan"].refused
    assert refused is not None
    (reason,) = refused.reasons
    assert reason.endswith(f"the limit is {PROPOSAL_LIMIT}")


def test_a_plan_that_is_too_large_when_it_is_written_out() -> None:
    """What an expression is measured by is escaped inside of texts, and so needs more room."""
    large = [proposed(f"s{n}", input={"x": ("text", "(" * 600)}) for n in range(40)]
    scenario = planning(plans={"steps": 200}).say(says(large))
    refused = scenario.state.tasks["plan"].refused
    assert refused is not None
    (reason,) = refused.reasons
    assert reason.endswith(f"written out; the limit is {WRITTEN_LIMIT}")


def test_reasons_are_bounded() -> None:
    scenario = planning(plans={"steps": 50}).say(says([proposed(f"s{n}", "play" * 16) for n in range(50)]))
    refused = scenario.state.tasks["plan"].refused
    assert refused is not None
    assert len(refused.reasons) == REASONS_LIMIT


def test_tasks_of_a_run_are_bounded() -> None:
    steps = [step("plan", "plan", plans={}), step("each", for_each="input.l", tasks=1_999, missing="allow")]
    scenario = planning().say(teach(*steps, team="u"), goal({"l": list(range(1_999))}, team="u", run="r2"))
    state = scenario.of("r2")
    assert len(state.tasks) == 2_000
    scenario.say(says(one())._replace(run="r2"))
    refused = scenario.of("r2").tasks["plan"].refused
    assert refused is not None
    assert refused.reasons == ("the run has 2000 tasks and would have 1 more; 2000 at most",)


def test_an_end_that_names_other_keys_is_no_proposal() -> None:
    """What is wrong with any end is wrong with this one, and counts as an attempt, not as a plan."""
    scenario = planning().say(ended("plan", {"other": {"steps": one()}}, by="p"))
    task = scenario.state.tasks["plan"]
    assert (task.lost, task.refused) == (1, None)
    assert ANY == {"tokens": None, "tool_calls": None, "micro_usd": None}
