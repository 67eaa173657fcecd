"""Waking: a specialist asks in its contract to be given a task whenever a fact of some kind is committed. No step names
the auditor; whoever is attached looks at each booking, and what it remarks stands under `woken`.

blackboard up examples/topologies/waking.py
blackboard publish ledger receipts='["taxi 31", "dinner 480"]' --wait
blackboard attach examples/topologies/waking.py:auditor
blackboard publish ledger receipts='["taxi 31", "dinner 480"]' --wait
"""

from dataclasses import dataclass

from schemas.playbooks import Playbook, Step
from specialists.specialist import Stop, Team, specialist

ACCOUNTS = {"taxi": "travel", "train": "travel", "dinner": "guests", "paper": "office"}


@dataclass
class Receipt:
    text: str


@dataclass
class Booking:
    account: str
    amount: int


@dataclass
class Committed:
    """A fact, as who is woken by it receives it."""

    key: str
    value: Booking


@specialist("bookkeeper", offers="booking")
async def bookkeeper(receipt: Receipt) -> Booking:
    """Books a receipt, like `taxi 31`, to an account."""
    what, _, amount = receipt.text.partition(" ")
    if what not in ACCOUNTS or not amount.isdigit():
        raise Stop("LOW_CONFIDENCE", f"there is no account for {receipt.text}")
    return Booking(ACCOUNTS[what], int(amount))


@specialist("auditor", offers="auditing", wakes_on="booking.*")
async def auditor(fact: Committed) -> str:
    """Remarks what is above 100."""
    return f"{fact.key}: {fact.value.account} {fact.value.amount}, {'why?' if fact.value.amount > 100 else 'fine'}"


PLAYBOOK = Playbook(
    team="ledger",
    description="Books receipts.",
    input={
        "type": "object",
        "required": ["receipts"],
        "properties": {"receipts": {"type": "array", "items": {"type": "string"}}},
    },
    returns={"bookings": "facts.booking", "remarks": "values(facts.woken.auditor || `{}`)"},
    wakes=True,
    steps=[
        Step(
            id="book",
            capability="booking",
            for_each="input.receipts",
            input={"text": "item"},
            fact="booking.{index}",
            missing="allow",
        ),
    ],
)

TEAM = Team(PLAYBOOK, [bookkeeper])
