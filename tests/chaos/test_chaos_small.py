"""Kills of server, supervisor and worker at places of the log that a seed draws: the run ends as if there were none.

A slice of `make chaos-small`, which does thirty.
"""

from collections import Counter
from pathlib import Path

import pytest

from tests.chaos.chaos import measure
from tests.chaos.kills import draw
from tests.chaos.roles import ROLES

KILLS, TASKS, SEED = 6, 150, 7


@pytest.mark.timeout(120)  # most of it is the start of processes, four times as long where the machine is busy
def test_after_kills_of_each_role_the_run_is_what_it_would_have_been(tmp_path: Path) -> None:
    found = measure(KILLS, TASKS, SEED, tmp_path)
    assert list(found.wrong) == []
    assert all(run.tasks >= TASKS for run in found.runs)
    assert found.figure == (
        "chaos: 6 kills (server 2, supervisor 2, worker 2), outcome equal, state equal, lost 0, doubled 0"
    )


@pytest.mark.parametrize(("kills", "length"), [(6, 200), (30, 750), (30, 31)])
def test_kills_are_spread_from_the_first_message_to_the_last_and_shared_out(kills: int, length: int) -> None:
    planned = draw(kills, length, SEED)
    assert planned == draw(kills, length, SEED)
    assert planned != draw(kills, length, SEED + 1)
    places = [(one.k - 1) * kills // (length - 1) for one in planned]
    assert places == list(range(kills))
    assert Counter(one.role for one in planned) == dict.fromkeys(ROLES, kills // len(ROLES))
