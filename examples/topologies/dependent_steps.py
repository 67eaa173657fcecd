"""A supervisor with dependent steps: from an order to an offer. Prices and stock are looked up side by side once the
order is read; the offer is written when both are there, or when it is known that nobody can say what is in stock.

blackboard up examples/topologies/dependent_steps.py
blackboard publish offer order="3 lamps, 2 chairs" --wait
"""

import re
from dataclasses import dataclass

from schemas.playbooks import Playbook, Step
from specialists.specialist import Stop, Team, specialist

CENTS = {"lamp": 4_900, "chair": 12_000, "table": 39_000}
IN_STOCK = {"lamp": 10, "chair": 1}


@dataclass
class Line:
    article: str
    count: int


@dataclass
class Letter:
    order: str


@dataclass
class Order:
    lines: list[Line]


@dataclass
class Facts:
    """What an offer is made of. `days` may be missing."""

    lines: list[Line]
    cents: int
    days: int | None = None


@specialist("order-reader", offers="order-reading")
async def order_reader(letter: Letter) -> Order:
    """Reads which articles are ordered, and how many of each."""
    found = [Line(article, int(count)) for count, article in re.findall(r"(\d+) (\w+?)s?\b", letter.order)]
    if not found:
        raise Stop("INVALID_INPUT", "the order names nothing, like `3 lamps`")
    return Order(found)


@specialist("price-list", offers="pricing")
async def price_list(order: Order) -> int:
    """The price of an order in cents."""
    if unknown := [line.article for line in order.lines if line.article not in CENTS]:
        raise Stop("LOW_CONFIDENCE", f"there is no price for {unknown[0]}")
    return sum(CENTS[line.article] * line.count for line in order.lines)


@specialist("storehouse", offers="stock")
async def storehouse(order: Order) -> int:
    """Days until all of an order can be delivered."""
    return 2 if all(IN_STOCK.get(line.article, 0) >= line.count for line in order.lines) else 14


@specialist("offer-writer", offers="offer-writing")
async def offer_writer(facts: Facts) -> str:
    """Writes the offer."""
    articles = ", ".join(f"{line.count} x {line.article}" for line in facts.lines)
    when = "on a day to be agreed" if facts.days is None else f"within {facts.days} days"
    return f"{articles} for {facts.cents / 100:.2f}, delivered {when}"


PLAYBOOK = Playbook(
    team="offer",
    description="Answers an order with an offer.",
    input={"type": "object", "required": ["order"], "properties": {"order": {"type": "string"}}},
    result={"type": "object", "required": ["offer"], "properties": {"offer": {"type": "string"}}},
    returns={"offer": "facts.offer"},
    steps=[
        Step(id="order", capability="order-reading", input={"order": "input.order"}),
        Step(id="cents", needs=["order"], capability="pricing", input={"lines": "facts.order.lines"}),
        Step(id="days", needs=["order"], capability="stock", input={"lines": "facts.order.lines"}, missing="allow"),
        Step(
            id="offer",
            needs=["cents", "days"],
            capability="offer-writing",
            input={"lines": "facts.order.lines", "cents": "facts.cents", "days": "facts.days"},
        ),
    ],
)

TEAM = Team(PLAYBOOK, [order_reader, price_list, storehouse, offer_writer])
