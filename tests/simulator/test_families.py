"""Families of random worlds: all of them are among the seeds, and each comes to what it is about."""

from collections import Counter
from collections.abc import Iterator

import pytest

from blackboard.simulation.families import DRAWN, FAMILIES
from blackboard.simulation.graphs import Seeded
from blackboard.testing import Report, random_simulation
from schemas import events as e
from tests.plugins.figures import Figures


def reports(family: str) -> Iterator[Report]:
    return (random_simulation(seed, family).run() for seed in range(8))


def test_every_family_is_among_the_seeds() -> None:
    assert {Seeded(seed).pick(DRAWN) for seed in range(100)} == set(FAMILIES) - {"failing"}


@pytest.mark.parametrize(("family", "comes"), [("loops", e.LoopFound), ("breakers", e.BreakerOpened)])
def test_family_comes_to_what_it_is_about(family: str, comes: type[e.Event]) -> None:
    runs = (run for report in reports(family) for run in report.runs.values())
    assert any(isinstance(event, comes) for run in runs for event in run.events)


def test_voices_differ_in_the_family_of_voices() -> None:
    runs = (run for report in reports("voices") for run in report.runs.values())
    facts = [event for run in runs for event in run.events if isinstance(event, e.FactCommitted)]
    assert any(loser.value != fact.value for fact in facts for loser in fact.losers)


def test_lost_queues_are_mended_in_time_in_the_family_of_losses() -> None:
    lost = 0
    for report in reports("losses"):
        lost += sum(fault.kind == "queue_lost" for fault in report.faults)
        report.run("r1").ended_as("DONE")
    assert lost >= 8


@pytest.mark.timeout(240)
def test_teams_that_fail_one_time_in_five_end_well(figures: Figures) -> None:
    """`make simulate FAMILY=failing SEEDS=100` prints the same share."""
    ends: Counter[str] = Counter()
    failed = ended = 0
    for seed in range(100):
        run = random_simulation(seed, "failing").run().run("r1")
        ends[run.end] += 1
        tried = [event for event in run.events if isinstance(event, e.AttemptFailed | e.TaskEnded)]
        failed += sum(bool(event.code) for event in tried)
        ended += len(tried)
    well = ends["DONE"] + ends["DEGRADED"]
    figures.say(f"failing: {failed} of {ended} attempts failed, {well} of 100 runs ended well: {dict(ends)}")
    assert failed / ended > 0.15
    assert sum(ends.values()) == 100
    assert well > 95
