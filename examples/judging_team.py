"""A team with a model and the scenarios that it ships: `blackboard eval examples/judging_team.py`."""

from typing import Literal

from pydantic import BaseModel

from schemas.playbooks import Playbook, Step
from specialists.chat import Chat
from specialists.models import model_of
from specialists.scenarios import Expect, Limits, Scenario
from specialists.specialist import Budget, Context, Stop, Team, specialist


class Complaint(BaseModel):
    text: str


class Kind(BaseModel):
    kind: Literal["refund", "defect", "praise"]
    sure: bool


class Letter(BaseModel):
    text: str
    kind: Kind


async def open_ticket(text: str) -> str:
    """A ticket for a defect."""
    return f"ticket for {len(text)} characters"


@specialist("sorter", offers="sort-complaints", budget=Budget(tokens=4_000))
async def sorter(complaint: Complaint, context: Context) -> Kind:
    """What a complaint is about."""
    kind = await Chat(context, model_of("sorter"), system="You sort complaints.").ask(complaint.text, Kind)
    if not kind.sure:
        raise Stop("LOW_CONFIDENCE", "the model is not sure")
    return kind


@specialist("clerk", offers="answer-complaints", tools=[open_ticket], budget=Budget(tool_calls=2))
async def clerk(letter: Letter, context: Context) -> str:
    """A word for each kind, and a ticket where something is broken."""
    if letter.kind.kind == "defect":
        return str(await context.tool(open_ticket, text=letter.text))
    return {"refund": "You will have your money back.", "praise": "Thank you!"}[letter.kind.kind]


PLAYBOOK = Playbook(
    team="complaints",
    input={"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]},
    steps=[
        Step(id="kind", capability="sort-complaints", input={"text": "input.text"}),
        Step(
            id="answer",
            capability="answer-complaints",
            needs=["kind"],
            input={"text": "input.text", "kind": "facts.kind"},
        ),
    ],
    returns={"answer": "facts.answer"},
)

TEAM = Team(
    PLAYBOOK,
    [sorter, clerk],
    scenarios=[
        Scenario(
            name="broken-handle",
            input={"text": "The handle broke on the first day."},
            models={"sorter": [{"kind": "defect", "sure": True}]},
            expect=Expect(
                called=["open_ticket"], budget=Budget(tokens=2_000), true=["contains(result.answer, 'ticket')"]
            ),
            limits=Limits(p95_s=120, tokens=2_000, usd=0.01, retry_rate=0.5, tool_error_rate=0),
        ),
        Scenario(
            name="thanks",
            input={"text": "Lovely cup."},
            models={"sorter": ["It is nice.", {"kind": "praise", "sure": True}]},
            expect=Expect(result={"answer": "Thank you!"}, never_called=["open_ticket"]),
        ),
        Scenario(
            name="unsure",
            input={"text": "Hm."},
            models={"sorter": [{"kind": "praise", "sure": False}]},
            expect=Expect(end="FAILED", code="LOW_CONFIDENCE", not_routed_to=["clerk"]),
        ),
    ],
)
