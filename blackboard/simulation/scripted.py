"""What a scripted specialist says and does, call by call, all of it drawn from a seed and from what it is asked."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from blackboard.simulation.proposing import proposal
from schemas.bids import Bid
from schemas.events import StopCode


@dataclass(frozen=True)
class Fails:
    """An answer that is none: the item, or the whole task, ends with this code."""

    code: StopCode
    message: str = "scripted"


@dataclass(frozen=True)
class Asks:
    """An answer that a person gives: the question, and the JSON Schema of the answer (None: approval of `action`)."""

    question: str
    schema: dict[str, Any] | None = None
    action: Any = None
    expires_s: float = 60.0


@dataclass(frozen=True)
class Hands:
    """An answer that somebody else should give: the task is handed to this specialist or capability."""

    to: str
    reason: str = "scripted"


@dataclass(frozen=True)
class Proposes:
    """An answer that is a plan, of what the task is told and of so many steps at most. `wrong`: how often it is one
    that cannot be committed, in a way that is drawn."""

    steps: int = 3
    wrong: float = 0.0


@dataclass(frozen=True)
class OneOf:
    """One of these answers, drawn for each attempt at each item."""

    answers: Sequence[Any]


@dataclass(frozen=True)
class Asked:
    """One call of a scripted specialist."""

    input: Mapping[str, Any]
    run: str
    task: str
    attempt: int
    execution: str
    key: str


@dataclass(frozen=True)
class Script:
    """See `blackboard.testing.ScriptedSpecialist`. `stop` and `hand_off` make the exceptions of a specialist."""

    name: str
    answers: Any
    failure_rate: float
    codes: Sequence[StopCode]
    delay_s: tuple[float, float]
    tokens: int
    micro_usd: int
    overspend: float
    uses: Sequence[str]
    bid: Any
    seed: int
    stop: Callable[[StopCode, str], Exception]
    hand_off: Callable[[str, str], Exception]

    async def work(self, asked: Asked, context: Any) -> Any:
        """Wait, use tools and tokens, then answer. Raises what a specialist may raise."""
        place = (asked.run, asked.task, asked.attempt, asked.key)
        low, high = self.delay_s
        if high > 0:
            await asyncio.sleep(low + (high - low) * self.share("delay", asked.execution, *place))
        factor = self.overspend if self.share("overspend", *place) < 0.5 else 1.0
        tokens = round(self.tokens * factor)
        context.use(
            input_tokens=tokens // 2, output_tokens=tokens - tokens // 2, micro_usd=round(self.micro_usd * factor)
        )
        for tool in self.uses:
            await context.tool(tool)
        if self.share("failure", *place) < self.failure_rate:
            raise self.stop(self.codes[int(self.share("code", *place) * len(self.codes))], "scripted")
        return await self._said(self._chosen(self.answers, asked), asked, context)

    async def _said(self, answer: Any, asked: Asked, context: Any) -> Any:
        match answer:
            case Fails(code, message):
                raise self.stop(code, message)
            case Hands(to, reason):
                raise self.hand_off(to, reason)
            case Asks(question, schema, action, expires_s):
                return await context.ask(question, schema, action=action, expires_s=expires_s)
        return answer

    def bids(self, asked: Asked) -> Bid:
        """What it would bid for an item."""
        bid = self._chosen(self.bid, asked)
        return bid if isinstance(bid, Bid) else Bid(**bid)

    def _chosen(self, answer: Any, asked: Asked) -> Any:
        """The answer to this call, out of what was given for all."""
        if isinstance(answer, tuple):
            return self._chosen(answer[min(asked.attempt, len(answer)) - 1], asked)
        if isinstance(answer, OneOf):
            share = self.share("answer", asked.run, asked.task, asked.attempt, asked.key)
            return self._chosen(answer.answers[int(share * len(answer.answers))], asked)
        if isinstance(answer, Proposes):
            return self._proposal(answer, asked)
        return self._chosen(answer(dict(asked.input)), asked) if callable(answer) else answer

    def _proposal(self, answer: Proposes, asked: Asked) -> Any:
        place = (asked.run, asked.task, asked.attempt, asked.key)
        return proposal(
            asked.input.get("planning") or {},
            answer.steps,
            self.share("wrong", *place) < answer.wrong,
            lambda *what: self.share("plan", *place, *what),
        )

    def share(self, *place: object) -> float:
        """0 to 1, the same whenever it is drawn for the same place."""
        text = " ".join(map(str, (self.seed, self.name, *place)))
        return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48


def scripted_tool(name: str) -> Callable[..., Any]:
    """A tool of that name, which takes nothing and says that it was called."""

    async def tool() -> str:
        await asyncio.sleep(0)
        return f"{name} was called"

    tool.__name__ = tool.__qualname__ = name
    return tool
