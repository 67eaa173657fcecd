"""Whatever meets in a run, it ends, and what is asked, approved, behind and replaced is as the rules say, all along."""

import os
from collections import Counter
from random import Random

import pytest

from schemas import events as e
from tests.coordination.any_run import Life
from tests.plugins.figures import Figures

RUNS = int(os.environ.get("COORDINATION_RUNS", "250"))
FROM = int(os.environ.get("COORDINATION_FROM", "0"))


@pytest.mark.timeout(300 + RUNS)
def test_any_run(figures: Figures) -> None:
    """`Life` looks at each input; the fixture of this folder at the bytes of tasks, and decides all of it again."""
    kinds: Counter[str] = Counter()
    ends: Counter[str] = Counter()
    for seed in range(FROM, FROM + RUNS):
        life = Life(Random(seed))
        try:
            state = life.live()
        except BaseException as error:
            error.add_note(f"seed {seed}")
            raise
        assert state.end
        kinds.update(str(event.__struct_config__.tag) for event in life.events)
        kinds["behind"] += sum(_behind(event) for event in life.events)
        ends[f"{state.end} {state.code}".strip()] += 1
    figures.say(f"coordination: {RUNS} random runs: {dict(kinds.most_common())}; {dict(ends.most_common())}")
    wanted = {"gate_opened", "gate_answered", "behind", "conflict_found", "plan_revised", "task_dropped"}
    assert all(kinds[kind] >= RUNS // 25 for kind in wanted), kinds


def _behind(event: e.Event) -> bool:
    """Whether a claim did not know of a newer fact, and was marked or asked for again."""
    match event:
        case e.AttemptStale() | e.TaskDelayed(reason="stale"):
            return True
        case e.FactCommitted(stale=keys):
            return bool(keys)
    return False
