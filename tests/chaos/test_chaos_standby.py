"""Kills and pauses of the active supervisor at random moments: the runs end as if there had been none.

A slice of `make chaos`, which does two hundred and looks at how long takeovers take.
"""

from pathlib import Path

import pytest
from msgspec.structs import replace

from tests.chaos.standby import Disturbance, Found, measure
from tests.chaos.verdict import Verdict
from tests.plugins.figures import Figures

KILLS, SEED = 4, 7
BUSY_S = 20.0
"""What a takeover may take where the machine is busy with other tests."""


@pytest.mark.timeout(120)  # most of it is the start of processes, four times as long where the machine is busy
def test_whoever_is_active_may_be_killed_or_paused(tmp_path: Path, figures: Figures) -> None:
    found = measure(KILLS, SEED, limit_s=BUSY_S, directory=tmp_path)
    assert list(found.wrong) == []
    assert sorted(one.kind for one in found.done) == ["kill", "kill", "pause", "pause"]
    assert len(found.verdicts) >= 2
    figures.say(found.figure)


GOOD = Found(
    1,
    2.0,
    [Disturbance("kill", "a", 0.0, 1, 0.9, 1.0, None)],
    {"r1": Verdict(outcome_equal=True, state_equal=True, lost=(), doubled=(), over=())},
    [],
)


def test_figure_says_no_when_something_is_wrong() -> None:
    assert GOOD.good
    verdict = GOOD.verdicts["r1"]
    for wrong in (
        replace(GOOD, asked=2),
        replace(GOOD, limit_s=0.9),
        replace(GOOD, problems=["x"]),
        replace(GOOD, verdicts={"r1": replace(verdict, outcome_equal=False)}),
        replace(GOOD, verdicts={"r1": replace(verdict, state_equal=False)}),
        replace(GOOD, verdicts={"r1": replace(verdict, lost=("x",))}),
        replace(GOOD, verdicts={"r1": replace(verdict, doubled=("x",))}),
    ):
        assert not wrong.good
