"""Budgets: what an attempt may use at most, and money as the log counts it.

Pure. Money is exact: an amount in dollars is the decimal number that Python prints for it, and only what goes onto the
log is rounded to millionths.
"""

from decimal import Decimal
from fractions import Fraction

from pydantic import ValidationError

from schemas import goals
from schemas.goals import explain

Usd = float | Decimal


class Budget(goals.Budget):
    """What may be used at most: tokens (in and out together), calls of tools, and dollars, of which `micro_usd` are
    millionths. None: no limit. Raises ValueError for less than nothing.

    For specialists, steps, playbooks and goals alike.
    """

    def __init__(
        self,
        *,
        tokens: int | None = None,
        tool_calls: int | None = None,
        usd: Usd | None = None,
        micro_usd: int | None = None,
    ) -> None:
        if usd is not None and micro_usd is not None:
            raise ValueError("a budget has usd or micro_usd, not both")
        if usd is not None:
            micro_usd = in_micro_usd(usd)
        try:
            super().__init__(tokens=tokens, tool_calls=tool_calls, micro_usd=micro_usd)
        except ValidationError as error:
            raise ValueError(f"budget: {explain(error)}") from None

    @property
    def usd(self) -> float | None:
        return None if self.micro_usd is None else self.micro_usd / 1_000_000


def exact_micro_usd(usd: Usd) -> Fraction:
    """Millionths of a dollar, not rounded. Raises ValueError for less than nothing and for what is no number."""
    if isinstance(usd, bool) or not isinstance(usd, int | float | Decimal):
        raise ValueError(f"{usd!r} is no amount of dollars: a number is wanted")
    try:
        exact = Fraction(str(usd)) * 1_000_000
    except ValueError:
        raise ValueError(f"{usd!r} is no amount of dollars") from None
    if exact < 0:
        raise ValueError(f"{usd!r} dollars: less than nothing")
    return exact


def in_micro_usd(usd: Usd) -> int:
    """Millionths of a dollar, rounded to the nearest one. Raises ValueError as `exact_micro_usd`."""
    return round(exact_micro_usd(usd))


def usd_text(micro_usd: int) -> str:
    """`1.25 USD`, exactly."""
    dollars, rest = divmod(micro_usd, 1_000_000)
    return f"{dollars}.{rest:06}".rstrip("0").rstrip(".") + " USD"
