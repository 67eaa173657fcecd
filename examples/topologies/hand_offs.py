"""A router with hand-offs: a clerk reads a letter and says which desk it is for; a desk that sees that it is for
another one hands it on, to those that the step allows and not further than it allows.

blackboard up examples/topologies/hand_offs.py
blackboard publish letters letter="The invoice is right, but where is my parcel?" --wait
"""

from dataclasses import dataclass

from schemas.playbooks import Playbook, Step
from specialists.specialist import HandOff, Stop, Team, specialist


@dataclass
class Letter:
    letter: str

    def is_about(self, *words: str) -> bool:
        return any(word in self.letter.lower() for word in words)


@dataclass
class Desk:
    desk: str


@specialist("clerk", offers="sorting")
async def clerk(letter: Letter) -> Desk:
    """Says which desk a letter is for, by its first matching word."""
    if letter.is_about("invoice", "money"):
        return Desk("billing-desk")
    if letter.is_about("parcel", "lawyer"):
        return Desk("delivery-desk")
    raise Stop("LOW_CONFIDENCE", "the letter is about nothing that there is a desk for")


@specialist("billing-desk", offers=["desk", "billing"], authority="propose")
async def billing_desk(letter: Letter) -> str:
    """Answers what is about money."""
    if letter.is_about("parcel"):
        raise HandOff("delivery", "about a parcel")
    return "You will find the invoice attached once more."


@specialist("delivery-desk", offers=["desk", "delivery"], authority="propose")
async def delivery_desk(letter: Letter) -> str:
    """Answers what is about parcels."""
    if letter.is_about("lawyer"):
        raise HandOff("legal", "threatens with a lawyer")
    if letter.is_about("wrong invoice"):
        raise HandOff("billing", "about an invoice")
    return "Your parcel is on its way."


@specialist("legal-desk", offers=["desk", "legal"])
async def legal_desk(letter: Letter) -> str:
    """Answers lawyers; no step lets a letter be handed to it."""
    return "We see no ground for your claim."


PLAYBOOK = Playbook(
    team="letters",
    description="An answer to a letter, from the desk that it is for.",
    input={"type": "object", "required": ["letter"], "properties": {"letter": {"type": "string"}}},
    returns={"answer": "facts.answer", "desk": "claims.answer[0].by"},
    repeats=1,
    steps=[
        Step(id="sort", capability="sorting", input={"letter": "input.letter"}),
        Step(
            id="answer",
            needs=["sort"],
            capability="desk",
            route="facts.sort.desk",
            input={"letter": "input.letter"},
            hand_to=["billing", "delivery"],
            handoffs=5,
        ),
    ],
)

TEAM = Team(PLAYBOOK, [clerk, billing_desk, delivery_desk, legal_desk])
