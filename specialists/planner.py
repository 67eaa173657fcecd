"""A planner: a model makes a plan of the specialists that are attached.

    blackboard attach specialists.planner:planner

It offers `plan`, for steps with `plans`. It sees the goal (the input of its step), the facts that the step lets it
read, and what specialists promise: never how a run has gone. A model that is configured to call tools
(`structured = "tool"`) is given each specialist as one; any other is held to a form in which every answer is a plan.
What the supervisor refuses comes again, with its reasons.
"""

import json
from typing import Any

from pydantic import BaseModel, ConfigDict

from schemas.proposals import Offer, Planning, Proposal
from specialists.chat import Chat
from specialists.context import WorkContext
from specialists.models import model_of
from specialists.plan_forms import Task, functions, proposed, stages, tasks_called, tasks_in
from specialists.specialist import specialist
from specialists.stop import Stop
from specialists.strict import Calls

NAME = "planner"
SYSTEM = "You plan how specialists reach a goal together: who does what, in which order. You do none of it yourself."
SHOWN = 3_000
"""Characters of the goal, of the facts and of each refusal that a model is shown."""


class Wanted(BaseModel):
    """What a planning step asks for: its own input, whatever that is, and what a plan may be made of."""

    model_config = ConfigDict(extra="allow")

    planning: Planning


@specialist(
    NAME,
    offers="plan",
    deadline_s=120,
    stops=["LOW_CONFIDENCE", "TOOL_DOWN", "POLICY_BLOCKED"],
    description="Makes a plan of the specialists that are attached",
)
async def planner(item: Wanted, context: WorkContext) -> Proposal:
    planning, goal = item.planning, _goal(item.model_extra or {})
    if not planning.offers:
        raise Stop("LOW_CONFIDENCE", "nobody is there of whom a plan may be made")
    model = model_of(context.task.specialist)
    chat = Chat(context, model, system=SYSTEM)
    text = _brief(goal, planning, dict(context.facts))
    if model and model.structured == "tool":
        calls: Calls[list[Task]] = Calls(functions(planning, goal), lambda made: tasks_called(made, planning))
        called = await chat.ask(text, calls)
        return proposed(called, planning, goal)
    form = stages(planning, goal)
    if form is None:
        raise Stop("LOW_CONFIDENCE", "whoever is there needs what only another one gives, so nobody can begin")
    return proposed(tasks_in(await chat.ask(f"{text}\n{_HOW}", form), planning), planning, goal)


_HOW = (
    "Answer with stages. The tasks of a stage go side by side, after those of the stage before it. A field of an input "
    "has a text or value of its own, or takes the goal, what the stage before has given (previous), or a value of the "
    "run."
)


def _goal(input: dict[str, Any]) -> Any:
    """The input of the step; of one field its value."""
    return next(iter(input.values())) if len(input) == 1 else input


def _brief(goal: Any, planning: Planning, facts: dict[str, Any]) -> str:
    lines = [f"Goal: {_shown(goal)}", "Specialists:", *map(_offer, planning.offers)]
    if facts:
        lines.append(f"What is known: {_shown(facts)}")
    if planning.refused:
        lines += ["The plan before this one was refused:", *(f"- {reason}" for reason in planning.refused)]
        lines.append(f"It was: {_shown(planning.previous)}")
    lines.append(f"A plan has {planning.steps} tasks at most; it needs no more than the goal does.")
    return "\n".join(lines)


def _offer(offer: Offer) -> str:
    fields = ", ".join((offer.input or {}).get("properties", {})) or "text"
    return f"- {offer.specialist} ({', '.join(offer.offers)}): {offer.description[:200]}. Takes {fields}."


def _shown(value: Any) -> str:
    text = value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
    return text if len(text) <= SHOWN else f"{text[:SHOWN]} …"
