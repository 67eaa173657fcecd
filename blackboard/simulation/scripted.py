"""What a scripted specialist says and does, call by call, all of it drawn from a seed and from what it is asked."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from hashlib import blake2b
from typing import Any

from schemas.events import StopCode


@dataclass(frozen=True)
class Fails:
    """An answer that is none: the item, or the whole task, ends with this code."""

    code: StopCode
    message: str = "scripted"


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
    """See `ScriptedSpecialist`."""

    name: str
    answers: Any
    failure_rate: float
    codes: Sequence[StopCode]
    delay_s: tuple[float, float]
    tokens: int
    overspend: float
    uses: Sequence[str]
    seed: int

    def share(self, *place: object) -> float:
        text = " ".join(map(str, (self.seed, self.name, *place)))
        return int.from_bytes(blake2b(text.encode(), digest_size=6).digest(), "big") / 2**48

    async def work(
        self, asked: Asked, use: Callable[..., None], tool: Callable[..., Any], stop: type[Exception]
    ) -> Any:
        """Wait, use tools and tokens, then answer. Raises `stop`(code, message)."""
        place = (asked.run, asked.task, asked.attempt, asked.key)
        low, high = self.delay_s
        if high > 0:
            await asyncio.sleep(low + (high - low) * self.share("delay", asked.execution, *place))
        tokens = round(self.tokens * (self.overspend if self.share("overspend", *place) < 0.5 else 1.0))
        use(input_tokens=tokens // 2, output_tokens=tokens - tokens // 2)
        for name in self.uses:
            await tool(name)
        answer = self._answer(asked)
        if self.share("failure", *place) < self.failure_rate:
            answer = Fails(self.codes[int(self.share("code", *place) * len(self.codes))])
        if isinstance(answer, Fails):
            raise stop(answer.code, answer.message)
        return answer

    def _answer(self, asked: Asked) -> Any:
        answer = self.answers
        if callable(answer):
            answer = answer(dict(asked.input))
        if isinstance(answer, tuple):
            answer = answer[min(asked.attempt, len(answer)) - 1]
        return answer
