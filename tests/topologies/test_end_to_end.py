"""The examples on a real server: all cases of a file, one after the other, on a board of their own."""

import pytest

from blackboard.board import Board
from specialists.specialist import Team
from tests.topologies.cases import CASES
from tests.topologies.casts import TEAMS, at_work, attach_during_the_run, check, teams_of


@pytest.mark.parametrize("file", TEAMS)
async def test_ends_as_expected(file: str, shared: Board) -> None:
    cases = [case for case in CASES.values() if case.file == file]
    async with at_work(shared, teams_of(cases[0])) as cast:
        for case in cases:
            check(case, await cast.play(case))


@pytest.mark.parametrize(
    ("down", "end", "reason"),
    [
        ("storehouse", "DEGRADED", "without days (TIMEOUT)"),
        ("price-list", "FAILED_RETRYABLE", "no value for cents: price-list: not begun within 400 ms, 3 times"),
    ],
)
async def test_one_is_down(down: str, end: str, reason: str, shared: Board) -> None:
    async with at_work(shared, [impatient(TEAMS["dependent_steps"])], [down]) as cast:
        state = await cast.play(CASES["dependent steps"])
    assert (state.end, state.reason) == (end, reason)


def impatient(team: Team) -> Team:
    """The team, which waits for nobody for long."""
    steps = [step.model_copy(update={"wait_s": 0.2, "deadline_s": 0.2, "backoff_s": 0}) for step in team.playbook.steps]
    return Team(team.playbook.model_copy(update={"steps": steps}), team.specialists)


async def test_translator_that_is_attached_during_the_run_wins_the_next_call(shared: Board) -> None:
    """Although the call comes as soon as it is there."""
    async with at_work(shared, [TEAMS["open_call"]]) as cast:
        await attach_during_the_run(cast)
