"""Witnesses: where a notary leaves its heads, out of reach of whoever can write the log.

A witness keeps lines in the order in which they came, and gives up none. What two of them hold must not contradict.
"""

from collections.abc import AsyncGenerator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, aclosing
from typing import Protocol

from blackboard.log import LogError, LogUnavailable
from projections.notary import Succession
from schemas.heads import BadHead, Signed


class WitnessUnavailable(LogUnavailable):
    """A witness does not answer, or cannot be read or written now."""


class WitnessSpoilt(LogError):
    """What a witness holds is not what the notary left there, or two of them contradict each other. `number` is that of
    the first head that is wrong."""

    def __init__(self, witness: str, number: int, problem: str) -> None:
        super().__init__(f"witness {witness}, head {number}: {problem}")
        self.witness, self.number, self.problem = witness, number, problem


class Witness(Protocol):
    """One place. `name` is how it was given. What cannot be done now raises LogUnavailable."""

    @property
    def name(self) -> str: ...

    async def claim(self) -> None:
        """Be the only one who writes there, from now on; make it where it does not exist. Raises LogError."""
        ...

    def read(self) -> AsyncGenerator[bytes, None]:
        """The lines that it holds, the oldest first, without line feeds. Raises LogError."""
        ...

    async def append(self, number: int, line: bytes) -> None:
        """Keep `line` as the `number`th, durably; the same one again changes nothing. Raises LogError, after which it
        may be kept or not."""
        ...

    async def close(self) -> None: ...


Lacking = Callable[[Witness, Signed], Awaitable[None]]
"""Told of a head that a witness does not hold, and another does."""
Doubtful = Callable[[WitnessSpoilt], None]
"""Told of a witness that is not read any further, since others hold what the notary left."""


async def agreed(
    witnesses: Sequence[Witness],
    succession: Succession,
    lacking: Lacking | None = None,
    doubtful: Doubtful | None = None,
) -> AsyncGenerator[Signed, None]:
    """The heads that the witnesses hold, in order, each once and checked. They may hold different numbers of them.

    Raises WitnessSpoilt at the first head that is wrong: without `doubtful` of any witness, else of all that are left.
    Raises it too where the notary's key has signed two heads with one number, and LogError."""
    async with AsyncExitStack() as stack:
        reading = {one.name: await stack.enter_async_context(aclosing(one.read())) for one in witnesses}
        ended: list[Witness] = []
        while reading:
            lines: dict[str, bytes] = {}
            for witness in witnesses:
                if witness.name not in reading:
                    continue
                line = await anext(reading[witness.name], None)
                if line is None:
                    del reading[witness.name]
                    ended.append(witness)
                else:
                    lines[witness.name] = line
            if not lines:
                return
            signed, spoilt = _one_of(lines, succession)
            for other in spoilt:
                if doubtful is None or signed is None:
                    raise other
                doubtful(other)
                del reading[other.witness]
            assert signed is not None
            succession.follow(signed)
            if lacking is not None:
                for witness in ended:
                    await lacking(witness, signed)
            yield signed


def _one_of(lines: dict[str, bytes], succession: Succession) -> tuple[Signed | None, list[WitnessSpoilt]]:
    """The next head, and the witnesses that hold something else in its place. Raises WitnessSpoilt where the notary
    signed both."""
    number, signed, spoilt = succession.number + 1, None, list[WitnessSpoilt]()
    for name, line in lines.items():
        try:
            read = succession.read(line)
        except BadHead as error:
            spoilt.append(WitnessSpoilt(name, number, str(error)))
            continue
        if signed is not None and signed.line != line:
            raise WitnessSpoilt(name, number, "the notary signed it and another one with that number: two of them ran")
        signed = read
    return signed, spoilt
