"""Bids: what a specialist answers to an open call.

Pure. A bid is the claim of a task of the kind `bid`; the supervisor rates bids by a formula that stands in the plan.
"""

from typing import Any

from msgspec import Struct

BID_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "can": {"type": "boolean"},
        "confidence": {"type": "number", "minimum": 0, "maximum": 1},
        "micro_usd": {"type": "integer", "minimum": 0},
        "seconds": {"type": "number", "minimum": 0},
    },
    "required": ["can"],
    "additionalProperties": False,
}
"""JSON Schema of a bid, for specialists in any language."""


class Bid(Struct, frozen=True):
    """Whether the specialist can do the work, how sure it is (0 to 1), and what the work would cost and take:
    millionths of a US dollar, seconds."""

    can: bool = True
    confidence: float = 1.0
    micro_usd: int = 0
    seconds: float = 0.0


class Rating(Struct, frozen=True):
    """The formula: confidence * `confidence` - dollars * `usd` - seconds * `seconds`. The highest score is granted, of
    equal ones the lowest name."""

    confidence: float = 1.0
    usd: float = 1.0
    seconds: float = 0.01

    def score(self, bid: Bid) -> float:
        return bid.confidence * self.confidence - bid.micro_usd / 1e6 * self.usd - bid.seconds * self.seconds
