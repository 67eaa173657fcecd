"""What a worker that cannot be trusted appends: a log that changes the ends which pass through it.

The worker itself is the real one; a lie is what somebody with its credentials could have sent.
"""

from collections.abc import Callable, Sequence
from typing import Any

import msgspec

from blackboard.log import Append, Conflict, Stored
from schemas.codec import encode
from schemas.events import Claim
from schemas.inputs import Ended
from schemas.usage import Usage

LIES = ("keys", "schema", "foreign", "repeat", "again", "usage", "attempt", "garbage")
"""keys: claims under other keys. schema: values of another type. foreign: the end of a task that another specialist
has. repeat: the same end twice. again: the same end under another execution. usage: far above what was used. attempt:
the end of an attempt that was never made. garbage: bytes that are no observation."""
_ended = msgspec.json.Decoder(Ended)
ODD = "not what the contract says"
MUCH = Usage(input_tokens=10_000_000, output_tokens=10_000_000, tool_calls=1_000)


def check_lies(lies: Sequence[str]) -> None:
    """Raises ValueError where there is no such lie."""
    if unknown := [lie for lie in lies if lie not in LIES]:
        raise ValueError(f"{unknown[0]!r} is no lie; choose of {', '.join(LIES)}")


def _neighbour(task: str) -> str:
    """The name of a task that somebody else may have."""
    step, _, number = task.rpartition("-")
    return f"{step}-{int(number) + 1}" if number.isdecimal() else "s0"


class LyingLog:
    """`inner` for a worker that tells some of `lies`, each with probability `rate`; `share` draws, by place."""

    def __init__(self, inner: Any, lies: Sequence[str], rate: float, share: Callable[[str], float]) -> None:
        self._inner, self._lies, self._rate, self._share = inner, lies, rate, share

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    @property
    def id(self) -> str:
        found: str = self._inner.id
        return found

    async def append(self, *appends: Append) -> list[Stored | Conflict]:
        sent: list[Append] = []
        for one in appends:
            sent += self._told(one)
        outcomes: list[Stored | Conflict] = await self._inner.append(*sent)
        return outcomes[-len(appends) :]

    def _told(self, append: Append) -> list[Append]:
        if ".obs." not in append.subject or b'"type":"ended"' not in append.data:
            return [append]
        told, beside = _ended.decode(append.data), list[Append]()
        for lie in self._lies:
            if self._share(lie) < self._rate:
                told, more = self._lie(lie, told, append)
                beside += more
        return [*beside, Append(append.subject, encode(told))]

    def _lie(self, lie: str, end: Ended, append: Append) -> tuple[Ended, list[Append]]:
        replace = msgspec.structs.replace
        other = replace(end, execution=f"lie-{end.execution}"[:64])
        match lie:
            case "keys":
                return replace(end, claims=tuple(Claim(f"{claim.key}.x", claim.value) for claim in end.claims)), []
            case "schema":
                return replace(end, claims=tuple(Claim(claim.key, {ODD: [1]}) for claim in end.claims)), []
            case "foreign":
                return end, [Append(append.subject, encode(replace(other, task=_neighbour(end.task))))]
            case "repeat":
                return end, [Append(append.subject, encode(end))]
            case "again":
                return end, [Append(append.subject, encode(other))]
            case "usage":
                return replace(end, usage=MUCH), []
            case "attempt":
                return end, [Append(append.subject, encode(replace(other, attempt=end.attempt + 1)))]
        return end, [Append(append.subject, b'{"type":"ended","usage":')]
