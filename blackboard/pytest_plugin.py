"""The pytest plugin: the fixture `simulate` and the options `--seeds` and `--seed`.

pytest loads it in every run of an environment that has this project, so it imports nothing until the fixture is used.
"""

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from blackboard.testing import Report, Simulation


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("blackboard", "simulated boards")
    with suppress(ValueError):  # another plugin has an option of that name
        group.addoption("--seeds", type=int, metavar="N", help="simulate under so many seeds, whatever tests say")
    with suppress(ValueError):
        group.addoption("--seed", type=int, metavar="N", help="the first seed, or the only one")


@pytest.fixture
def simulate(request: pytest.FixtureRequest) -> "Callable[..., Iterator[Report]]":
    """`simulate(simulation, seeds=1)`: the report of each seed, one after the other, beginning with the seed of the
    simulation. `--seeds` and `--seed` go before what the test says. Raises SimulationFailed, which says how to have the
    same again."""

    def run(simulation: "Simulation", seeds: int = 1) -> "Iterator[Report]":
        first, count = request.config.getoption("seed", None), request.config.getoption("seeds", None)
        start = simulation.seed if first is None else first
        for seed in range(start, start + (count or (1 if first is not None else seeds))):
            try:
                yield simulation.seeded(seed).run()
            except AssertionError as failed:
                failed.add_note(f"again: pytest '{request.node.nodeid}' --seed {seed}")
                raise

    return run
