"""Propose and critique: a writer proposes a headline, an editor objects, and the writer tries again with that in mind,
until nothing is left to object, in three rounds at most.

blackboard up examples/topologies/propose_and_critique.py
blackboard publish headline text="The council wants to put off the opening of the bridge." words='["May"]' --wait
"""

from dataclasses import dataclass, field

from schemas.playbooks import Critique, Playbook, Step
from specialists.specialist import Context, Team, specialist

LONGEST = 40
"""Characters of a headline."""


@dataclass
class Story:
    """`words` must be in the headline. From the second round on there are the proposal before and its critique."""

    text: str
    words: list[str] = field(default_factory=list)
    previous: str = ""
    critique: list[str] = field(default_factory=list)


@dataclass
class Proposal:
    proposal: str
    words: list[str] = field(default_factory=list)


@specialist("headline-writer", offers="headline-writing")
async def headline_writer(story: Story, context: Context) -> str:
    """Begins with the first sentence and takes up one objection at a time."""
    words = (story.previous or story.text.partition(".")[0]).split()
    context.use(output_tokens=len(words))
    if not story.previous:
        return " ".join(words)
    objection, _, word = story.critique[0].partition(" ")
    if objection == "lacks":
        return " ".join([*words, word])
    spare = [one for one in words if one not in story.words]
    while len(" ".join(words)) > LONGEST and spare and len(words) > 1:
        words.remove(spare.pop(0))
    return " ".join(words)


@specialist("headline-editor", offers="headline-editing")
async def headline_editor(proposal: Proposal) -> list[str]:
    """Objects to what is too long or lacks a word."""
    objections = [f"lacks {word}" for word in proposal.words if word not in proposal.proposal.split()]
    length = len(proposal.proposal)
    return [*objections, *([f"has {length} characters, {LONGEST} at most"] if length > LONGEST else [])]


PLAYBOOK = Playbook(
    team="headline",
    description="A headline for a story.",
    input={
        "type": "object",
        "required": ["text"],
        "properties": {"text": {"type": "string"}, "words": {"type": "array", "items": {"type": "string"}}},
    },
    returns={"headline": "facts.headline"},
    steps=[
        Step(
            id="headline",
            capability="headline-writing",
            input={"text": "input.text", "words": "input.words || `[]`"},
            critique=Critique(
                capability="headline-editing",
                input={"words": "input.words || `[]`"},
                accept="length(critique) == `0`",
                rounds=3,
            ),
        ),
    ],
)

TEAM = Team(PLAYBOOK, [headline_writer, headline_editor])
