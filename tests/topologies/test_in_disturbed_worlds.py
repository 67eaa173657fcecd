"""The examples while processes die, answers get lost and clocks jump, in virtual time, with two supervisors: each
simulation checks that its run ends and can be decided again, and here that it ends as undisturbed."""

import pytest

from blackboard.testing import Faults
from tests.plugins.figures import Figures
from tests.topologies.cases import CASES
from tests.topologies.worlds import RUN, world

SEEDS = range(3)
BY_BIDS = {name for name, case in CASES.items() if case.file == "open_call"}
"""Where a bid is lost, somebody else is granted, or nobody."""
FAULTS: list[int] = []


@pytest.mark.parametrize("name", CASES)
def test_ends_as_undisturbed(name: str) -> None:
    case = CASES[name]
    calm = world(case).run().run(RUN)
    for seed in SEEDS:
        report = world(case, seed=seed, faults=Faults()).run()
        run = report.run(RUN)
        FAULTS.append(len(report.faults))
        if name in BY_BIDS:
            assert run.end in {case.end, "FAILED_RETRYABLE"}
        else:
            assert (run.end, run.code, run.result) == (case.end, case.code, case.result)
            assert run.outcome == calm.outcome or case.end == "FAILED"


def test_figures(figures: Figures) -> None:
    figures.say(f"topologies: {len(FAULTS)} disturbed worlds, {sum(FAULTS)} faults, each ended as undisturbed")
    assert sum(FAULTS) >= len(FAULTS)
