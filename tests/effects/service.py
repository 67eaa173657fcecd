"""A service outside of every world: it keeps a ledger of what was done to it, whoever asked and however often."""

import asyncio
from dataclasses import dataclass, field
from typing import Any

from specialists.specialist import Stop
from specialists.tools import SETTLE_S, Done, Tool, tool

ANSWER_S = 0.2
"""Before a call has an effect, and again before it is answered."""


@dataclass
class Service:
    """A till. `keeps_keys`: a call with a key that it has seen is answered as the first one was. `loses`: the answers
    to so many calls are lost, after they had their effect. `entries` are (key, amount); a refund is below 0."""

    keeps_keys: bool = False
    loses: int = 0
    entries: list[tuple[str, int]] = field(default_factory=list)
    calls: int = 0
    answer_s: float = ANSWER_S

    @property
    def charges(self) -> int:
        return sum(amount > 0 for _, amount in self.entries)

    @property
    def balance(self) -> int:
        return sum(amount for _, amount in self.entries)

    def entered(self, key: str) -> bool:
        return any(one == key for one, _ in self.entries)

    async def book(self, key: str, amount: int) -> dict[str, Any]:
        self.calls += 1
        await asyncio.sleep(self.answer_s)
        if not (self.keeps_keys and self.entered(key)):
            self.entries.append((key, amount))
        await asyncio.sleep(self.answer_s)
        if self.loses:
            self.loses -= 1
            raise ConnectionError("the answer was lost")
        return {"booked": amount}

    async def look(self, key: str) -> Done | bool:
        await asyncio.sleep(self.answer_s)
        found = next((amount for one, amount in self.entries if one == key), None)
        return False if found is None else Done({"booked": found})

    def truth(self, event: dict[str, Any]) -> dict[str, Any]:
        """What a person says who has looked the effect up that a gate asks about."""
        key = event["action"]["effect"]
        found = next((amount for one, amount in self.entries if one == key), None)
        return {"done": False} if found is None else {"done": True, "result": {"booked": found}}

    def tools(self, *, probe: bool, undo: bool, settle_s: float = SETTLE_S) -> list[Tool]:
        async def pay(amount: int, idempotency_key: str) -> dict[str, Any]:
            return await self.book(idempotency_key, amount)

        async def refund(amount: int, result: dict[str, Any], idempotency_key: str) -> dict[str, Any]:
            if result["booked"] != amount:
                raise Stop("INTERNAL", "another amount was booked")
            return await self.book(idempotency_key, -amount)

        async def look_up(key: str, arguments: dict[str, Any]) -> Done | bool:
            return await self.look(key)

        reads = look_up if probe else None
        undoing = tool(refund, effect=True, probe=reads, settle_s=settle_s) if undo else None
        return [tool(pay, effect=True, probe=reads, undo=undoing, settle_s=settle_s, scopes="pay:write")]
