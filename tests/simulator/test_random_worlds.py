"""Random task graphs, in worlds in which everything may go wrong: all runs end, and nothing that always holds breaks.

A slice of `make simulate SEEDS=10000`. Hypothesis looks elsewhere, and shrinks the graphs themselves.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings

from blackboard.simulation.command import Seed, figure
from blackboard.testing import Simulation, playbooks, random_simulation, simulations
from schemas.playbooks import POLICIES, Playbook, Step

ROOT = Path(__file__).parents[2]
SEEDS = 200


@pytest.mark.timeout(600)  # a few seconds where the machine has nothing else to do
def test_slice_of_seeds() -> None:
    command = [sys.executable, "-m", "blackboard.testing", "--seeds", str(SEEDS), "--jobs", "2"]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=590)
    print(done.stdout.splitlines()[-1])
    assert done.returncode == 0, done.stdout
    assert done.stdout.splitlines()[-1].startswith(f"simulated: {SEEDS} seeds, {SEEDS} ended (")
    assert done.stdout.endswith(" % well), 0 hung, 0 broken\n")


def test_what_random_worlds_hold() -> None:
    """Every field of playbooks and steps and every policy is used somewhere, and no world is empty."""
    steps: Counter[str] = Counter()
    for seed in range(400):
        world = random_simulation(seed)
        for playbook in world.plan.playbooks:
            for step in playbook.steps:
                steps.update(step.model_dump(exclude_defaults=True).keys())
                steps[step.merge.policy] += 1
            steps.update(playbook.model_dump(exclude_defaults=True).keys())
        assert world.plan.goals
        assert world.plan.staff
    assert set(Playbook.model_fields) - {"type", "v", "version", "description", "input"} <= set(steps)
    assert set(Step.model_fields) <= set(steps)
    assert set(POLICIES) <= set(steps)


@settings(max_examples=20, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(simulations())
@pytest.mark.timeout(600)
def test_worlds_of_hypothesis(world: Simulation) -> None:
    world.run(shrink=False)


@settings(max_examples=50, deadline=None, derandomize=True, suppress_health_check=list(HealthCheck))
@given(playbooks())
def test_playbooks_of_hypothesis(made: tuple[Playbook, ...]) -> None:
    assert [one.team for one in made] == [f"t{number}" for number in range(len(made))]
    teams = {step.team for one in made for step in one.steps} - {""}
    assert teams <= {one.team for one in made[:-1]}


def test_figure() -> None:
    found = [
        Seed(0, ("DONE", "DEGRADED")),
        Seed(1, ("FAILED", "DONE")),
        Seed(2, invariant="runs end", message="hung"),
        Seed(3, invariant="usage is counted once an execution", message="broken"),
    ]
    assert figure(found) == "simulated: 4 seeds, 2 ended (75.0 % well), 1 hung, 1 broken"
    assert figure([]) == "simulated: 0 seeds, 0 ended (0.0 % well), 0 hung, 0 broken"


def test_command_that_finds_nothing_wrong_and_one_that_is_told_to_stop() -> None:
    def command(*arguments: str) -> subprocess.CompletedProcess[str]:
        script = "import sys; from blackboard.simulation import command; sys.exit(command.main(sys.argv[1:]))"
        broken = (
            "from supervisor.timers import Timers; Timers.see = lambda self, *arguments: None; "
            "from blackboard.simulation import graphs; "
        )
        lines = [sys.executable, "-c", (broken if "--broken" in arguments else "") + script]
        lines += [one for one in arguments if one != "--broken"]
        return subprocess.run(lines, cwd=ROOT, capture_output=True, text=True, timeout=300)

    well = command("--seed", "0")
    assert well.returncode == 0
    assert well.stdout.startswith("seed 0: ")
    ill = command("--broken", "--seeds", "40", "--stop-at-first", "--no-shrink", "--jobs", "1")
    assert ill.returncode == 1
    assert "\nagain: python -m blackboard.testing --seed " in ill.stdout
    assert "runs end: " in ill.stdout
    assert ill.stdout.splitlines()[-1].endswith(" 1 hung, 0 broken")
