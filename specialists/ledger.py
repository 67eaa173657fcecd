"""What one execution has used, and what its task's budget leaves.

Plain functions book from threads of their own, so every booking is made under a lock. Money is added up exactly and
rounded once, where it is read: a thousand calls for half a millionth each are not free.
"""

import operator
import threading
from fractions import Fraction

from schemas.usage import COUNT_LIMIT, Amount, Limits, Usage, amount
from specialists.budget import Budget, Usd, exact_micro_usd, usd_text


class Ledger:
    """`limits` are those of the task. Nothing is refused here: what was used was used."""

    def __init__(self, limits: Limits) -> None:
        self._limits = limits
        self._lock = threading.Lock()
        self._usage, self._micro_usd = Usage(), Fraction(0)
        self._held = Amount()

    @property
    def usage(self) -> Usage:
        return self._usage

    def book(
        self,
        *,
        input_tokens: int = 0,
        output_tokens: int = 0,
        tool_calls: int = 0,
        micro_usd: int | Fraction = 0,
        usd: Usd = 0,
    ) -> None:
        """Add to what was used. Raises ValueError for less than nothing, TypeError for what is no whole number; nothing
        is added then."""
        added = [operator.index(count) for count in (input_tokens, output_tokens, tool_calls)]
        micro = micro_usd if isinstance(micro_usd, Fraction) else operator.index(micro_usd)
        if usd != 0 and micro:
            raise ValueError("an amount is said in usd or in micro_usd, not in both")
        if min(added) < 0 or micro < 0:
            raise ValueError("usage is what is added, never less than 0")
        paid = exact_micro_usd(usd) if usd != 0 else micro
        with self._lock:
            rounded = self._usage.micro_usd
            if paid:
                self._micro_usd += paid
                rounded = min(round(self._micro_usd), COUNT_LIMIT)
            used = self._usage + Usage(*(min(count, COUNT_LIMIT) for count in added))
            self._usage = Usage(used.input_tokens, used.output_tokens, used.tool_calls, rounded)

    def hold(self, most: Usage) -> str:
        """Set aside what a call may use at most; or, with nothing set aside, why the budget might not bear it."""
        with self._lock:
            left, wanted = self.left(), amount(most)
            if left.tokens is not None and wanted.tokens > left.tokens:
                return f"it may use {wanted.tokens} tokens, the budget has {left.tokens} left"
            if left.micro_usd is not None and wanted.micro_usd > left.micro_usd:
                return f"it may cost {usd_text(wanted.micro_usd)}, the budget has {usd_text(left.micro_usd)} left"
            self._held = self._held + wanted
        return ""

    def release(self, most: Usage) -> None:
        """What was set aside for a call is not needed any more: what it used is known."""
        with self._lock:
            self._held = self._held - amount(most)

    def left(self) -> Budget:
        """What is neither used nor set aside."""
        limits, usage, held = self._limits, self._usage, self._held
        return Budget(
            tokens=_less(limits.tokens, usage.input_tokens + usage.output_tokens + held.tokens),
            tool_calls=_less(limits.tool_calls, usage.tool_calls),
            micro_usd=_less(limits.micro_usd, usage.micro_usd + held.micro_usd),
        )

    def overspent(self) -> str:
        """How the budget is exceeded, else an empty text."""
        limits, usage = self._limits, self._usage
        tokens = usage.input_tokens + usage.output_tokens
        if limits.tokens is not None and tokens > limits.tokens:
            return f"the budget is {limits.tokens} tokens, {tokens} are used"
        if limits.micro_usd is not None and usage.micro_usd > limits.micro_usd:
            return f"the budget is {usd_text(limits.micro_usd)}, {usd_text(usage.micro_usd)} are used"
        return ""

    def refuses_call(self, price_micro_usd: Fraction) -> str:
        """Why one more call of a tool, at this price, would exceed the budget, else an empty text."""
        limits, usage = self._limits, self._usage
        if over := self.overspent():
            return over
        if limits.tool_calls is not None and usage.tool_calls >= limits.tool_calls:
            return f"the budget is {limits.tool_calls} calls of tools, all are used"
        if limits.micro_usd is not None and round(self._micro_usd + price_micro_usd) > limits.micro_usd:
            left = usd_text(max(limits.micro_usd - usage.micro_usd, 0))
            return f"the budget has {left} left, the call costs {usd_text(round(price_micro_usd))}"
        return ""


def _less(limit: int | None, used: int) -> int | None:
    return None if limit is None else max(limit - used, 0)
