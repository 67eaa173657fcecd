"""Timers: the delays that runs have in their states, counted on this supervisor's monotonic clock.

A delay counts from when this supervisor saw the event that armed it; after a takeover the rest of it counts, plus a
grace, by the log's own time. A due timer only ever writes a wake, so counting wrong can be early or late, never wrong.
"""

from collections.abc import Callable

from projections.canonical import State

AGAIN_S = 2.0
"""A due timer that is still armed writes another wake after this time: the first may have been lost."""

Due = tuple[str, str, int]
"""(run, timer, armed by which event)"""


class Timers:
    def __init__(self, clock_s: Callable[[], float]) -> None:
        self._clock_s = clock_s
        self._due: dict[str, dict[tuple[str, int], float]] = {}

    def see(self, state: State, taken_over_at_ms: int | None = None, grace_s: float = 0.0) -> None:
        """Follow the timers of a run as they are now. `taken_over_at_ms`, the time of the log's head, says that they
        were armed before this supervisor was there."""
        known = self._due.pop(state.run, {})
        now = self._clock_s()
        armed: dict[tuple[str, int], float] = {}
        for name, timer in state.timers.items():
            passed_ms = 0 if taken_over_at_ms is None else max(0, taken_over_at_ms - timer.at)
            rest_s = max(0, timer.delay_ms - passed_ms) / 1000 + (0 if taken_over_at_ms is None else grace_s)
            armed[name, timer.armed] = known.get((name, timer.armed), now + rest_s)
        if armed:
            self._due[state.run] = armed

    def forget(self, run: str) -> None:
        self._due.pop(run, None)

    def next_s(self) -> float | None:
        """Seconds until the first timer is due; None when there is none."""
        first = min((due for timers in self._due.values() for due in timers.values()), default=None)
        return None if first is None else max(0.0, first - self._clock_s())

    def take_due(self) -> list[Due]:
        """The timers that are due now; each again after AGAIN_S unless it is disarmed."""
        now = self._clock_s()
        due = [(run, *name) for run, timers in self._due.items() for name, at in timers.items() if at <= now]
        for run, name, armed in due:
            self._due[run][name, armed] = now + AGAIN_S
        return due
