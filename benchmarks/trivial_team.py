"""The team of the benchmark: eight numbers are summed one by one, then their sums. Nothing in it takes time."""

from pydantic import BaseModel

from schemas.playbooks import Playbook, Step
from specialists.specialist import Team, specialist

SLOTS = 64
"""Tasks that the worker does at the same time."""


class Numbers(BaseModel):
    numbers: list[int]


class Sum(BaseModel):
    total: int


@specialist("adder", offers="sum", concurrency=SLOTS)
async def adder(given: Numbers) -> Sum:
    """The sum of numbers."""
    return Sum(total=sum(given.numbers))


TEAM = Team(
    Playbook(
        team="trivial",
        input=Numbers.model_json_schema(),
        steps=[
            Step(id="part", capability="sum", for_each="input.numbers", input={"numbers": "[item]"}),
            Step(id="total", needs=["part"], capability="sum", input={"numbers": "facts.part.*.total"}),
        ],
        returns={"total": "facts.total.total"},
        result=Sum.model_json_schema(),
    ),
    [adder],
)
