"""What may go wrong in a simulated world, how often, and what did: every fault is drawn from the seed and from the
place where it may happen, and noted by that place.

So a fault that is left out leaves the others where they are, as far as the same calls are still made, and a list of
places is enough to make the same faults again.
"""

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from hashlib import blake2b
from typing import NamedTuple

_FRACTION = 2.0**-53
_THREE = struct.Struct(">QQQ").unpack


@dataclass(frozen=True)
class Faults:
    """Rates of 0 to 1. Those of the first group are per call of a process to the log or the queue.

    unavailable: no answer, nothing done. lost_ack: no answer, and each message is stored or not.
    doubled: a message without an expectation is stored twice. crash: the process is gone, before or after the call;
    another one starts in its place within `restart_s`. pause: the process stands still for `pause_s`, then goes on with
    what it knew. slow: the call takes `slow_s` more. clock_back: the log's clock is set back by up to `clock_back_s`.
    queue_lost: the queue and all that is in it is gone. unread: a read of the log breaks off. reconnect: a connection
    to the log was lost and is back.

    redelivered, lost_delivery: a task is given to two workers, or to nobody until it is delivered again. lost_ack of a
    task: it is delivered again after its end was stored. reordered: another task than the oldest comes first.
    lost_cancel: a worker does not hear that its task has no purpose any more.

    `latency_s`: half of the calls take up to so long, which alone shuffles what happens at the same time. `until_s`: no
    fault after so much virtual time, so that what can end does. Nothing of this is drawn for publishers and people but
    unavailable, lost_ack, doubled and slow.
    """

    unavailable: float = 0.01
    lost_ack: float = 0.01
    doubled: float = 0.01
    crash: float = 0.005
    pause: float = 0.003
    slow: float = 0.02
    clock_back: float = 0.002
    queue_lost: float = 0.002
    unread: float = 0.003
    reconnect: float = 0.003
    redelivered: float = 0.02
    lost_delivery: float = 0.02
    reordered: float = 0.2
    lost_cancel: float = 0.1
    latency_s: float = 0.01
    slow_s: float = 3.0
    pause_s: float = 20.0
    restart_s: float = 3.0
    clock_back_s: float = 600.0
    until_s: float = 120.0

    @classmethod
    def none(cls) -> "Faults":
        """A world in which nothing goes wrong and every call takes no time."""
        return cls(**dict.fromkeys(RATES, 0.0), latency_s=0.0)

    def times(self, factor: float) -> "Faults":
        """All rates that many times as high, at most 0.9."""
        return replace(self, **{name: min(0.9, getattr(self, name) * factor) for name in RATES})

    def without(self, *names: str) -> "Faults":
        return replace(self, **dict.fromkeys(names, 0.0))


RATES = tuple(one.name for one in fields(Faults) if not one.name.endswith("_s"))
"""The kinds of faults."""

LOG_WRITES = ("unavailable", "lost_ack", "doubled", "crash", "pause", "slow", "clock_back", "reconnect")
LOG_READS = ("unavailable", "crash", "pause", "slow")
READ_ON = ("unread", "reconnect", "slow", "pause", "crash")
QUEUE_CALLS = ("unavailable", "lost_ack", "crash", "pause", "slow", "queue_lost")
PULLS = (*QUEUE_CALLS, "redelivered", "lost_delivery")
LAST_WORDS = ("lost_ack", "crash", "pause", "slow")
CANCELS = ("lost_cancel", "crash")
FROM_OUTSIDE = frozenset({"unavailable", "lost_ack", "doubled", "slow"})
"""What may befall publishers and people."""


class Fault(NamedTuple):
    """One thing that went wrong: what, where (`<process> <call> #<number of the call>`), and after how many virtual
    seconds."""

    kind: str
    place: str
    at_s: float

    def __str__(self) -> str:
        return f"{self.at_s:9.3f} s  {self.kind:<13} {self.place}"


class Drawn(NamedTuple):
    """What one call meets: a fault or "", and how long it takes. `share` is 0 to 1, for what depends on the kind."""

    kind: str
    delay_s: float
    share: float

    def bit(self, number: int) -> bool:
        """Whether the message at `number` was stored, of those whose answer is lost."""
        return bool(int(self.share * 2**20) >> (number % 20) & 1)


@dataclass
class Chance:
    """All that is random in one simulation. With `only`, the faults are those at these places and no others."""

    seed: int
    faults: Faults
    only: Mapping[str, str] | None = None
    made: list[Fault] = field(default_factory=list)
    calm: bool = False
    """Set when nothing more may go wrong."""

    def __post_init__(self) -> None:
        self._key = str(self.seed).encode()[:64]
        self._counts: dict[str, int] = {}
        self._totals: dict[tuple[str, ...], float] = {}

    def share(self, *place: object) -> float:
        """0 to 1, the same whenever it is drawn for the same place."""
        return self._shares(" ".join(map(str, place)))[0]

    def between(self, low: float, high: float, *place: object) -> float:
        return low + (high - low) * self.share(*place)

    def id(self, *place: object) -> str:
        """16 hex digits."""
        return blake2b(" ".join(map(str, place)).encode(), digest_size=8, key=self._key).hexdigest()

    def numbered(self, place: str) -> str:
        """`place` with the number of this visit."""
        count = self._counts[place] = self._counts.get(place, 0) + 1
        return f"{place} #{count}"

    def call(self, place: str, kinds: tuple[str, ...], now_s: float, allowed: frozenset[str] | None = None) -> Drawn:
        """What the next call at `place` meets, out of `kinds`."""
        place = self.numbered(place)
        first, second, third = self._shares(place)
        kind = self._kind(place, kinds, first, now_s)
        if kind and allowed is not None and kind not in allowed:
            kind = ""
        if kind:
            self.made.append(Fault(kind, place, now_s))
        delay_s = self.faults.latency_s * max(0.0, 2 * second - 1)
        return Drawn(kind, delay_s + self.faults.slow_s * third if kind == "slow" else delay_s, third)

    def happens(self, kind: str, place: str, now_s: float) -> bool:
        """Whether the fault `kind` comes about at `place`, this time."""
        return bool(self.call(place, (kind,), now_s).kind)

    def _kind(self, place: str, kinds: tuple[str, ...], share: float, now_s: float) -> str:
        if self.calm or now_s > self.faults.until_s:
            return ""
        if self.only is not None:
            kind = self.only.get(place, "")
            return kind if kind in kinds else ""
        if share >= self._total(kinds):
            return ""
        for kind in kinds:
            share -= getattr(self.faults, kind)
            if share < 0:
                return kind
        return ""

    def _total(self, kinds: tuple[str, ...]) -> float:
        if kinds not in self._totals:
            self._totals[kinds] = sum(getattr(self.faults, kind) for kind in kinds)
        return self._totals[kinds]

    def _shares(self, place: str) -> tuple[float, float, float]:
        first, second, third = _THREE(blake2b(place.encode(), digest_size=24, key=self._key).digest())
        return (first >> 11) * _FRACTION, (second >> 11) * _FRACTION, (third >> 11) * _FRACTION
