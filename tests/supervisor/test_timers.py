"""Timers: delays counted on a clock that never goes back, from when a supervisor saw them armed."""

from msgspec.structs import replace

from projections.canonical import State, Timer, initial
from supervisor.timers import AGAIN_S, Timers


class Clock:
    def __init__(self) -> None:
        self.now_s = 5_000.0

    def __call__(self) -> float:
        return self.now_s


def armed(run: str = "r1", **timers: tuple[int, int]) -> State:
    """Timers by name: (delay in ms, armed by which event), armed at the time 1,000,000."""
    state = {name: Timer(delay_ms, 1_000_000, event) for name, (delay_ms, event) in timers.items()}
    return replace(initial("log-1", run), timers=state)


def test_due_after_its_delay_and_not_before() -> None:
    clock = Clock()
    timers = Timers(clock)
    timers.see(armed(a=(3_000, 4)))
    assert timers.next_s() == 3.0
    clock.now_s += 2.9
    assert timers.take_due() == []
    clock.now_s += 0.2
    assert (timers.next_s(), timers.take_due()) == (0.0, [("r1", "a", 4)])


def test_due_again_as_long_as_it_is_armed_since_its_wake_may_be_lost() -> None:
    clock = Clock()
    timers = Timers(clock)
    timers.see(armed(a=(0, 4)))
    assert timers.take_due()
    assert timers.take_due() == []
    clock.now_s += AGAIN_S
    assert timers.take_due() == [("r1", "a", 4)]
    timers.see(armed())
    clock.now_s += AGAIN_S
    assert (timers.take_due(), timers.next_s()) == ([], None)


def test_seeing_it_again_does_not_start_it_again() -> None:
    clock = Clock()
    timers = Timers(clock)
    timers.see(armed(a=(3_000, 4)))
    clock.now_s += 2
    timers.see(armed(a=(3_000, 4), b=(9_000, 5)))
    assert timers.next_s() == 1.0


def test_armed_by_another_event_it_is_another_timer() -> None:
    clock = Clock()
    timers = Timers(clock)
    timers.see(armed(a=(3_000, 4)))
    clock.now_s += 2
    timers.see(armed(a=(3_000, 6)))
    assert timers.next_s() == 3.0


def test_after_a_takeover_the_rest_counts_and_a_grace() -> None:
    timers = Timers(Clock())
    timers.see(armed(a=(3_000, 4)), taken_over_at_ms=1_001_000, grace_s=2.0)
    assert timers.next_s() == 4.0


def test_after_an_hour_without_a_supervisor_there_is_still_the_grace() -> None:
    timers = Timers(Clock())
    timers.see(armed(a=(3_000, 4)), taken_over_at_ms=4_600_000, grace_s=2.0)
    assert timers.next_s() == 2.0


def test_clock_of_the_log_that_was_set_back_makes_no_wait_longer_than_it_was() -> None:
    timers = Timers(Clock())
    timers.see(armed(a=(3_000, 4)), taken_over_at_ms=1_000, grace_s=2.0)
    assert timers.next_s() == 5.0


def test_runs_do_not_touch_each_other() -> None:
    clock = Clock()
    timers = Timers(clock)
    timers.see(armed("r1", a=(1_000, 4)))
    timers.see(armed("r2", a=(1_000, 4)))
    timers.forget("r1")
    clock.now_s += 1
    assert timers.take_due() == [("r2", "a", 4)]
