"""Fan-out and reduce: each answer of a survey is a task of its own, judged side by side; an expression makes one fact
of all judgements. An answer that nobody could judge is left out and named.

blackboard up examples/topologies/fan_out.py
blackboard publish survey answers='["I love it", "slow and bad", "fine"]' --wait
"""

from dataclasses import dataclass

from schemas.playbooks import Playbook, Step
from specialists.specialist import Stop, Team, specialist

GOOD, BAD = {"fine", "good", "great", "love", "quick"}, {"bad", "broken", "hate", "slow"}


@dataclass
class Answer:
    text: str


@dataclass
class Mood:
    """`score` is above 0 for praise and below 0 for complaints."""

    text: str
    score: int


@specialist("mood-reader", offers="mood", deadline_s=10)
async def mood_reader(answer: Answer) -> Mood:
    """Counts words of praise against words of complaint."""
    words = answer.text.lower().replace(".", " ").split()
    if not words:
        raise Stop("LOW_CONFIDENCE", "the answer is empty")
    return Mood(answer.text, sum((word in GOOD) - (word in BAD) for word in words))


PLAYBOOK = Playbook(
    team="survey",
    description="How people like it, out of their own words.",
    input={
        "type": "object",
        "required": ["answers"],
        "properties": {"answers": {"type": "array", "items": {"type": "string"}, "minItems": 1}},
    },
    returns={"summary": "facts.summary", "unread": "missing"},
    steps=[
        Step(
            id="mood",
            capability="mood",
            for_each="input.answers",
            input={"text": "item"},
            fact="mood.{index}",
            missing="allow",
        ),
        Step(
            id="summary",
            needs=["mood"],
            value="values(facts.mood) | {read: length(@), mean: avg([].score), worst: min_by(@, &score).text}",
        ),
    ],
)

TEAM = Team(PLAYBOOK, [mood_reader])
