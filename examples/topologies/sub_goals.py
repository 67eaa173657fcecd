"""Sub-goals: each story of a front page gets its headline from a run of another team, with a share of the budget. The
page is set when all of them have ended; to cancel the page cancels them too.

blackboard up examples/topologies/propose_and_critique.py examples/topologies/sub_goals.py
blackboard publish page stories='["The bridge opens.", "Rain is expected."]' --wait
"""

from dataclasses import dataclass

from schemas.goals import Budget
from schemas.playbooks import Playbook, Step
from specialists.specialist import Team, specialist


@dataclass
class Headlines:
    headlines: list[str]


@specialist("typesetter", offers="typesetting", budget=Budget(tokens=0))
async def typesetter(page: Headlines) -> str:
    """Sets the headlines, the shortest first."""
    return " | ".join(sorted(page.headlines, key=lambda headline: (len(headline), headline)))


PLAYBOOK = Playbook(
    team="page",
    description="A front page: a headline for each story.",
    input={
        "type": "object",
        "required": ["stories"],
        "properties": {"stories": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
    },
    returns={"page": "facts.page", "without": "missing"},
    budget=Budget(tokens=200),
    steps=[
        Step(
            id="story",
            team="headline",
            for_each="input.stories",
            input={"text": "item"},
            fact="story.{index}",
            budget=Budget(tokens=50),
            missing="allow",
            attempts=1,
        ),
        Step(
            id="page",
            needs=["story"],
            capability="typesetting",
            input={"headlines": "values(facts.story)[].headline"},
        ),
    ],
)

TEAM = Team(PLAYBOOK, [typesetter])
