"""Usage: what executions use, and what they may.

Pure. Tokens, calls of tools, and money in millionths of a US dollar: whole numbers, so that sums are exact.
"""

from typing import Annotated

from msgspec import Meta, Struct

COUNT_LIMIT = 2**53
Count = Annotated[int, Meta(ge=0, le=COUNT_LIMIT)]


class Usage(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What an execution used. Mandatory in every end of a task, zeros included. Money is millionths of a US dollar."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    tool_calls: Count = 0
    micro_usd: Count = 0

    def __add__(self, other: "Usage") -> "Usage":
        """The sum, which stops at COUNT_LIMIT."""
        if not (other.input_tokens or other.output_tokens or other.tool_calls or other.micro_usd):
            return self
        return Usage(
            min(self.input_tokens + other.input_tokens, COUNT_LIMIT),
            min(self.output_tokens + other.output_tokens, COUNT_LIMIT),
            min(self.tool_calls + other.tool_calls, COUNT_LIMIT),
            min(self.micro_usd + other.micro_usd, COUNT_LIMIT),
        )


class Limits(Struct, frozen=True, omit_defaults=True):
    """What may be used at most: tokens (in and out), calls of tools, millionths of a US dollar. None: no limit."""

    tokens: Count | None = None
    tool_calls: Count | None = None
    micro_usd: Count | None = None


class Amount(Struct, frozen=True, omit_defaults=True):
    """A sum of the same three."""

    tokens: int = 0
    tool_calls: int = 0
    micro_usd: int = 0

    def __add__(self, other: "Amount") -> "Amount":
        """The sum, which stops at COUNT_LIMIT."""
        return Amount(
            min(self.tokens + other.tokens, COUNT_LIMIT),
            min(self.tool_calls + other.tool_calls, COUNT_LIMIT),
            min(self.micro_usd + other.micro_usd, COUNT_LIMIT),
        )

    def __sub__(self, other: "Amount") -> "Amount":
        return Amount(self.tokens - other.tokens, self.tool_calls - other.tool_calls, self.micro_usd - other.micro_usd)

    def __bool__(self) -> bool:
        return bool(self.tokens or self.tool_calls or self.micro_usd)


def amount(used: Usage | Limits) -> Amount:
    """As one sum: tokens in and out together; no limit is 0."""
    if isinstance(used, Usage):
        return Amount(used.input_tokens + used.output_tokens, used.tool_calls, used.micro_usd)
    return Amount(used.tokens or 0, used.tool_calls or 0, used.micro_usd or 0)
