"""What breaks a promise is found within a few seeds, fails the same way each time, and shrinks to what it takes.

Each defect is planted into the real code, for one test.
"""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from blackboard.simulation.faults import Fault
from blackboard.simulation.parts import Broken, Plan
from blackboard.simulation.shrink import shrunk
from blackboard.testing import Faults, Published, ScriptedSpecialist, Simulation, SimulationFailed
from specialists.worker import Worker
from supervisor import decide
from supervisor.service import Supervisor
from supervisor.timers import Timers
from tests.simulator.team import GOAL, PLAYBOOK, READER, SUMMER, calm, simulation

SEEDS = 60
STORM = Faults().times(3)
Plant = Callable[[pytest.MonkeyPatch], None]


def acknowledged_before_the_end_is_stored(patch: pytest.MonkeyPatch) -> None:
    store = Worker._store

    async def early(self: Worker, job: Any, ended: Any) -> Any:
        for delivery in job.deliveries:
            await delivery.ack()
        return await store(self, job, ended)

    patch.setattr(Worker, "_store", early)


def late_results_are_taken(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "_addressed", lambda draft, author, task, attempt: draft.state.tasks.get(task) or "unknown")


def executions_are_booked_whenever_they_are_reported(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(decide, "booking", lambda specialist, execution: "another one")


def the_floor_is_what_was_read(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Supervisor, "floor", property(lambda self: self.position + len(self._inbox)))


def timers_are_forgotten(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(Timers, "see", lambda self, *arguments: None)


def first_failure(world: Simulation) -> SimulationFailed:
    for seed in range(SEEDS):
        try:
            world.seeded(seed).run()
        except SimulationFailed as failed:
            return failed
    raise AssertionError(f"none of {SEEDS} seeds has found it")


def crowd(**options: Any) -> Simulation:
    """Two runs and two workers of each; nobody is late."""
    reader, summer = replace(READER, workers=2), replace(SUMMER, workers=2)
    goals = [Published("t", GOAL, "r1"), Published("t", GOAL, "r2", after_s=1)]
    return Simulation(PLAYBOOK, [reader, summer], goals, faults=STORM, **options)


@pytest.mark.parametrize(
    ("plant", "invariants", "most"),
    [
        (acknowledged_before_the_end_is_stored, {"a task is acknowledged when its end is stored"}, 0),
        (late_results_are_taken, {"no attempt is accepted twice", "ends are those that were awaited"}, 2),
        (executions_are_booked_whenever_they_are_reported, {"usage is counted once an execution"}, 2),
        (the_floor_is_what_was_read, {"a floor is not above what is decided"}, 0),
    ],
)
@pytest.mark.timeout(300)
def test_planted_defect_is_found_and_shrinks(
    plant: Plant, invariants: set[str], most: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    plant(monkeypatch)
    failed = first_failure(crowd())
    assert failed.invariant in invariants, failed
    assert len(failed.faults) <= most, failed
    with pytest.raises(SimulationFailed) as again:
        crowd(seed=failed.seed).run()
    assert str(again.value) == str(failed), "the same seed fails in the same way, and shrinks to the same"


@pytest.mark.timeout(300)
def test_run_that_waits_for_ever_is_reported_as_hung(monkeypatch: pytest.MonkeyPatch) -> None:
    timers_are_forgotten(monkeypatch)
    nobody = ScriptedSpecialist("reader", "read", down=True)
    with pytest.raises(SimulationFailed) as failed:
        calm(nobody, limit_s=600).run()
    assert str(failed.value).splitlines() == [
        "seed 0: runs end: 600 s of virtual time are over; not ended: r1",
        "with 1 supervisors; runs r1; specialists reader, summer",
        "and no fault at all",
    ]


def test_without_a_defect_none_of_these_seeds_fails() -> None:
    with pytest.raises(AssertionError, match="none of 60 seeds"):
        first_failure(crowd())


def test_faults_made_again_make_the_same_log() -> None:
    for seed in range(5):
        world = crowd(seed=seed)
        report, found = world.attempt(world.plan)
        assert found is None
        assert len(report.faults) > 5
        again, _ = world.attempt(world.plan, {fault.place: fault.kind for fault in report.faults})
        assert (again.digest, again.faults) == (report.digest, report.faults)
        none, _ = world.attempt(world.plan, {})
        assert none.faults == ()
        assert none.digest != report.digest


# --- shrinking, without a simulation ----------------------------------------------------------------------------------


def faults(*kinds: str) -> list[Fault]:
    return [Fault(kind, f"place #{number}", float(number)) for number, kind in enumerate(kinds)]


def test_only_what_is_needed_stays() -> None:
    every = faults(*"abcdefghijklmnop")
    tries = []

    def again(plan: Plan, some: Any) -> Any:
        tries.append(len(some))
        needed = {fault.kind for fault in some} >= {"c", "k"} and len(plan.goals) > 1
        return some, Broken("it", f"with {len(some)}") if needed else None, 10

    plan = Plan((), (), tuple(Published("t", run=f"r{n}") for n in range(4)), supervisors=2)
    least, left, found = shrunk(plan, every, Broken("it", "with 16"), again)
    assert [fault.kind for fault in left] == ["c", "k"]
    assert (len(least.goals), least.supervisors, found) == (2, 1, Broken("it", "with 2"))
    assert len(tries) < 60


def test_another_invariant_that_breaks_does_not_count() -> None:
    every = faults("a", "b")

    def again(plan: Plan, some: Any) -> Any:
        return some, Broken("it" if len(some) == 2 else "something else", "broken"), 10

    _, left, found = shrunk(simulation().plan, every, Broken("it", "broken"), again)
    assert (left, found.invariant) == (every, "it")


def test_shrinking_ends_where_tries_take_too_many_steps() -> None:
    tries = []

    def again(plan: Plan, some: Any) -> Any:
        tries.append(some)
        return some, None, 1_000_000

    shrunk(simulation().plan, faults(*"abcdefgh"), Broken("it", "broken"), again)
    assert len(tries) == 5
