"""`python -m tests.planning.real`: plans of a small real model, judged by the supervisor. The last line is the figure.

The model is held to the form of the planner and asked once for each plan; what it says makes little sense. A plan is
valid where the run commits it as it comes.
"""

import argparse
import asyncio
import sys
from collections.abc import Sequence
from typing import Any, NamedTuple
from unittest import mock

from specialists import planner as planning_specialist
from specialists.context import LocalContext
from specialists.models import Model
from specialists.planner import planner
from tests.models.real_server import installed, real_model
from tests.planning.proposing import planning, says
from tests.supervisor.scenario import Said, offer


def _takes(required: Sequence[str], **fields: Any) -> dict[str, Any]:
    return {"type": "object", "properties": fields, "required": list(required), "additionalProperties": False}


TEAMS: tuple[tuple[Said, ...], ...] = (
    (
        offer(
            "searcher",
            "search",
            description="Finds passages about a question",
            input=_takes(["query", "count"], query={"type": "string"}, count={"type": "integer", "minimum": 1}),
            budget={"tokens": 500},
        ),
        offer(
            "writer",
            "write",
            description="Writes a report of texts",
            input=_takes(["texts", "length"], texts={}, length={"type": "string", "enum": ["short", "long"]}),
        ),
        offer("sender", "send", "post", authority="effect", input=_takes(["text"], text={"type": "string"})),
    ),
    (
        offer("adder", "add", description="Adds numbers", input=_takes(["of"], of={"type": "array"})),
        offer("teller", "tell", description="Says a text", input=_takes(["text"], text={"type": "string"})),
    ),
    (),
)
GOALS = ("Who invented the bicycle?", "Pay the three cheapest bills.", "Wie wird das Wetter morgen?", "")


class Try(NamedTuple):
    steps: int
    tokens: int
    problem: str
    """Why the plan is none, else empty."""


async def one_try(url: str, number: int) -> Try:
    def asking() -> Any:
        plans = {"steps": 4, "authority": "effect", "budget": {"tokens": 4_000}}
        return planning(*TEAMS[number % len(TEAMS)], plans=plans)

    def model_of(_: str) -> Model:
        fields: dict[str, Any] = {"temperature": 0.8, "seed": number, "max_tokens": 1_000, "repairs": 0}
        return Model(name="SmolLM2", base_url=url, **fields)

    scenario = asking()
    input = scenario.tasks_in_flight()[0].items[0].input | {"goal": GOALS[number % len(GOALS)]}
    context = LocalContext(planner)
    with mock.patch.object(planning_specialist, "model_of", model_of):
        result = await planner.invoke(input, context)
    tokens = context.usage.input_tokens + context.usage.output_tokens
    if result.code:
        return Try(0, tokens, f"{result.code} {result.message}")
    scenario.say(says(result.value))
    refused = scenario.state.tasks["plan"].refused
    planned = sum(step.planned_by == "plan" for step in scenario.state.plan)
    return Try(planned, tokens, "; ".join(refused.reasons) if refused else "")


async def tries(url: str, count: int) -> list[Try]:
    return [await one_try(url, number) for number in range(count)]


def figure(found: Sequence[Try]) -> str:
    valid = sum(not one.problem for one in found)
    steps, tokens = sum(one.steps for one in found), sum(one.tokens for one in found)
    return f"plan-real: {valid} of {len(found)} plans valid, {steps} tasks, {tokens} tokens"


def main(arguments: Sequence[str]) -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.planning.real", description=__doc__)
    parser.add_argument("--tries", type=int, default=20)
    options = parser.parse_args(arguments)
    if not installed():
        print("the small model is not installed: run `make models`", file=sys.stderr)
        return 1
    with real_model() as url:
        found = asyncio.run(tries(url, options.tries))
    for number, one in enumerate(found):
        if one.problem:
            print(f"try {number}: {one.problem}")
    print(figure(found))
    return 1 if any(one.problem for one in found) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
