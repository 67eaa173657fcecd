"""The pytest plugin: the fixture `simulate` and the options `--seeds` and `--seed`.

pytest loads it in every run of an environment that has this project, so it imports nothing until the fixture is used.
"""

from collections.abc import Callable, Generator, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from blackboard.testing import Report, Simulation


_SEED = pytest.StashKey[int]()
"""The seed under which a test runs at the moment."""


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("blackboard", "simulated boards")
    with suppress(ValueError):  # another plugin has an option of that name
        group.addoption("--seeds", type=int, metavar="N", help="simulate under so many seeds, whatever tests say")
    with suppress(ValueError):
        group.addoption("--seed", type=int, metavar="N", help="the first seed, or the only one")


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(item: pytest.Item) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    """Under a test that fails: how to have the same again."""
    report = yield
    if report.failed and (seed := item.stash.get(_SEED, None)) is not None:
        report.sections.append(("simulated", f"again: pytest '{item.nodeid}' --seed {seed}"))
    return report


@pytest.fixture
def simulate(request: pytest.FixtureRequest) -> "Callable[..., Iterator[Report]]":
    """`simulate(simulation, seeds=1)`: the report of each seed, one after the other, beginning with the seed of the
    simulation. `--seeds` and `--seed` go before what the test says. Raises SimulationFailed."""

    def run(simulation: "Simulation", seeds: int = 1) -> "Iterator[Report]":
        first, count = request.config.getoption("seed", None), request.config.getoption("seeds", None)
        start = simulation.seed if first is None else first
        for seed in range(start, start + (count or (1 if first is not None else seeds))):
            request.node.stash[_SEED] = seed
            yield simulation.seeded(seed).run()

    return run
