"""The examples in simulated worlds: real supervisors and workers in virtual time, with specialists that are down and
faults that a seed draws."""

from collections.abc import Iterator, Sequence

from blackboard.simulation.parts import Staff
from blackboard.testing import Faults, Person, Published, Simulation
from specialists.specialist import Specialist
from tests.topologies.cases import Case
from tests.topologies.casts import TEAMS, member, teams_of

RUN = "r1"
AFTER_S = 20.0
"""When the goal comes in a disturbed world: once all are attached, however often they had to begin anew."""


def members(case: Case) -> Iterator[Specialist]:
    """Everybody whom a case needs: the specialists of its teams, and who is attached beside them."""
    for team in teams_of(case):
        yield from team.specialists
    for name in case.guests:
        yield member(case.file, name)


def world(case: Case, down: Sequence[str] = (), seed: int = 0, faults: Faults | None = None) -> Simulation:
    """A case, in which those that `down` names offer and never take a task; without `faults` nothing else is wrong."""
    return Simulation(
        [team.playbook for team in teams_of(case)],
        [Staff(one, down=one.name in down) for one in members(case)],
        [Published(TEAMS[case.file].name, case.input, RUN, after_s=AFTER_S if faults else 0)],
        [Person()],
        seed=seed,
        faults=faults or Faults.none(),
    )
