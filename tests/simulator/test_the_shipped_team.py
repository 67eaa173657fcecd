"""The team that is shipped, as it is, in the simulator: real specialists, plain functions and blobs among them."""

from pathlib import Path

import pytest

from blackboard.testing import Person, Simulation
from specialists.licences.team import TEAM
from tests.end_to_end.environments import make_environment


@pytest.mark.timeout(300)
def test_same_report_whatever_goes_wrong(tmp_path: Path) -> None:
    goal = {"path": str(make_environment(tmp_path / "environment", 4))}
    report = Simulation(TEAM, goals=[goal]).stable(range(8))
    report.run().ended_as("DONE").routed_to(*(one.name for one in TEAM.specialists if one.name != "licence-writer"))
    assert any(Simulation(TEAM, goals=[goal], seed=seed).run().faults for seed in range(2))


@pytest.mark.timeout(300)
def test_report_is_written_when_a_person_approves_it_and_not_before(tmp_path: Path) -> None:
    environment, out = make_environment(tmp_path / "environment", 2), tmp_path / "out"
    goal = {"path": str(environment), "out": str(out)}
    for seed in range(3):
        denied = Simulation(TEAM, goals=[goal], people=[Person(says="deny")], seed=seed).run().run()
        denied.ended_as("POLICY_BLOCKED")
        assert not out.exists()
    Simulation(TEAM, goals=[goal], people=[Person(says="approve")]).run().run().ended_as("DONE")
    assert sorted(path.name for path in out.iterdir())
