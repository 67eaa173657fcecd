"""The leader of the log is killed in the middle of runs: they end as if it had not been. A slice of `make cluster`."""

from pathlib import Path

import pytest

from tests.cluster.lost_leader import measure
from tests.cluster.runs import goal
from tests.plugins.figures import Figures

RUNS = 20


@pytest.mark.timeout(120)  # an election takes up to ten seconds, and the start of processes where the machine is busy
def test_runs_go_on_when_the_leader_of_the_log_is_killed(tmp_path: Path, figures: Figures) -> None:
    found = measure(1, RUNS, tmp_path)
    figures.say(found.figure)
    assert list(found.wrong) == []
    assert (len(found.kills), found.judged.runs) == (1, RUNS)
    assert found.judged.facts == sum(len(goal(number)["numbers"]) + 1 for number in range(RUNS))
