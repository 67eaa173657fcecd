"""The blackboard's own: a step is called out on the board, and whoever offers the capability says whether it can, how
sure it is and what it would cost. The bids are rated by a formula that stands in the plan; the best one does it.

The title is translated first, and somebody is asked about it. Who is attached until then bids for the text too.

blackboard up examples/topologies/open_call.py
blackboard publish translation title="the cat" text="the cat drinks milk" to=de
blackboard attach examples/topologies/open_call.py:scholar
blackboard answer @last true
"""

from dataclasses import dataclass

from schemas.playbooks import Call, Playbook, Question, Step
from specialists.specialist import Bid, Context, Specialist, Team, specialist

POCKET = {"the": "die", "cat": "Katze"}
GERMAN = POCKET | {"drinks": "trinkt", "milk": "Milch"}
FRENCH = {"the": "le", "cat": "chat", "drinks": "boit", "milk": "lait"}


@dataclass
class Text:
    text: str
    to: str


def translator(name: str, to: str, words: dict[str, str], cents: int) -> Specialist:
    """A translator with a dictionary: the more of the words are in it, the surer it is. It takes `cents` a word."""

    def bid(text: Text) -> Bid:
        asked = text.text.split()
        known = sum(word in words for word in asked)
        return Bid(
            can=text.to == to and known > 0, confidence=known / len(asked), micro_usd=cents * 10_000 * len(asked)
        )

    @specialist(name, offers="translation", bid=bid)
    async def translate(text: Text, context: Context) -> str:
        """Translates word by word and leaves what it does not know as it is."""
        asked = text.text.split()
        context.use(micro_usd=cents * 10_000 * len(asked))
        return " ".join(words.get(word, word) for word in asked)

    return translate


pocket = translator("pocket-german", "de", POCKET, cents=1)
french = translator("french", "fr", FRENCH, cents=1)
scholar = translator("scholar-german", "de", GERMAN, cents=3)

CALL = Call(bids_s=2, confidence=1, usd=1, seconds=0.01)

PLAYBOOK = Playbook(
    team="translation",
    description="A title and a text in another language.",
    input={
        "type": "object",
        "required": ["title", "text", "to"],
        "properties": {name: {"type": "string", "pattern": r"\S"} for name in ("title", "text", "to")},
    },
    returns={"title": "facts.title", "text": "facts.text", "by": "[claims.title[0].by, claims.text[0].by]"},
    steps=[
        Step(id="title", capability="translation", call=CALL, input={"text": "input.title", "to": "input.to"}),
        Step(
            id="title-is-right",
            needs=["title"],
            question=Question(ask="is the title right?", answer={"type": "boolean"}),
            input={"title": "facts.title"},
        ),
        Step(
            id="text",
            needs=["title-is-right"],
            capability="translation",
            call=CALL,
            input={"text": "input.text", "to": "input.to"},
        ),
    ],
)

TEAM = Team(PLAYBOOK, [pocket, french])
