"""The examples, as they stand in their files, on a board in memory with a supervisor and workers."""

import pytest

from tests.topologies.cases import CASES
from tests.topologies.casts import TEAMS, at_work, attach_during_the_run, board_in_memory, check, member, teams_of


@pytest.mark.parametrize("name", CASES)
async def test_ends_as_expected(name: str) -> None:
    case = CASES[name]
    async with at_work(board_in_memory(), teams_of(case)) as cast:
        check(case, await cast.play(case))


def test_every_example_is_asked_something() -> None:
    assert {case.file for case in CASES.values()} == set(TEAMS)


# --- what happens during a run ----------------------------------------------------------------------------------------


async def test_translator_that_is_attached_during_the_run_wins_the_next_call() -> None:
    async with at_work(board_in_memory(), [TEAMS["open_call"]]) as cast:
        await attach_during_the_run(cast)


async def test_auditor_that_is_attached_is_woken_by_each_booking() -> None:
    async with at_work(board_in_memory(), [TEAMS["waking"]]) as cast:
        await cast.attach(member("waking", "auditor"))
        state = await cast.ended(await cast.publish("ledger", receipts=["taxi 31", "dinner 480"]))
    assert state.result is not None
    assert sorted(state.result["remarks"]) == ["booking.0: travel 31, fine", "booking.1: guests 480, why?"]
    assert {key for key in state.facts if key.startswith("woken.")} == {"woken.auditor.1", "woken.auditor.2"}


async def test_cancelled_page_cancels_its_stories() -> None:
    teams = [TEAMS["propose_and_critique"], TEAMS["sub_goals"]]
    async with at_work(board_in_memory(), teams, down=["headline-writer"]) as cast:
        run = await cast.publish("page", stories=["One.", "Two."])
        state = await cast.until(run, lambda state: state.in_flight == 2)
        children = [task.child for task in state.tasks.values()]
        for child in children:
            await cast.until(child, lambda state: state.in_flight)
        await cast.client.cancel(run, "no page today")
        ends = [(await cast.ended(one)).end for one in (run, *children)]
    assert ends == ["CANCELLED"] * 3


async def test_use_of_the_stories_is_charged_to_the_page() -> None:
    teams = [TEAMS["propose_and_critique"], TEAMS["sub_goals"]]
    async with at_work(board_in_memory(), teams) as cast:
        run = await cast.publish("page", stories=["The bridge opens.", "Rain."])
        state = await cast.ended(run)
        child = await cast.ended(state.tasks["story-0"].executions[0].split()[0])
    assert (child.budget.tokens, child.usage.output_tokens) == (50, 3)
    assert (state.charged.tokens, state.reserved.tokens) == (4, 0)
