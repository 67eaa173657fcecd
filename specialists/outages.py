"""What does not answer a worker: said once when it goes, once when it stays away, and once when it is back."""

import asyncio
import logging
from dataclasses import dataclass

_logger = logging.getLogger(__name__)


@dataclass
class _Outage:
    """`since_s` in loop time; `said` is the level of what was said of it, 0 where nothing was."""

    since_s: float
    times: int = 0
    said: int = 0


class Outages:
    """The outages of one worker, by what is away. For its event loop."""

    def __init__(self) -> None:
        self._known: dict[str, _Outage] = {}

    def away(self, what: str, why: object, patience_s: float = 0.0) -> None:
        """Say that something does not answer, when it did not twice: on a board that is just being made, the supervisor
        makes the place of a new specialist a moment after its contract. What may well be away for `patience_s` is worth
        a warning only after that."""
        now_s = asyncio.get_running_loop().time()
        outage = self._known.setdefault(what, _Outage(now_s))
        outage.times += 1
        level = logging.WARNING if now_s - outage.since_s >= patience_s else logging.INFO
        if outage.times >= 2 and level > outage.said:
            outage.said = level
            _logger.log(level, "%s is away: %s", what, why)

    def back(self, what: str) -> None:
        """Say that it answers again, as loudly as that it did not."""
        outage = self._known.pop(what, None)
        if outage and outage.said:
            _logger.log(outage.said, "%s is back", what)
