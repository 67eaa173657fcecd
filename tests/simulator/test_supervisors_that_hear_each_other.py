"""The same worlds with supervisors of which one is active: all that always holds holds, and fewer decide at once."""

from dataclasses import replace

from blackboard.testing import random_simulation
from tests.plugins.figures import Figures

SEEDS = range(12)


def test_random_worlds_keep_what_always_holds(figures: Figures) -> None:
    took_over = 0
    for seed in SEEDS:
        simulation = random_simulation(seed)
        plan = replace(simulation.plan, announced=True, supervisors=3)
        report, broken = simulation.attempt(plan)
        assert broken is None, f"seed {seed}: {broken}"
        again, _ = simulation.attempt(plan)
        assert (again.steps, again.faults) == (report.steps, report.faults), "the same world again"
        took_over += sum(fault.kind in {"crash", "pause"} and "supervisor" in fault.place for fault in report.faults)
    assert took_over
    figures.say(f"standby: {len(SEEDS)} simulated worlds, supervisors killed or paused {took_over} times")
