"""What `why` says of facts that topologies make: in words of the playbook, not of the plan that was made of it."""

from projections.cli_why import _lines
from projections.provenance import ACCEPTED, Provenance, why
from projections.rebuild import history
from tests.topologies.cases import CASES
from tests.topologies.casts import TEAMS, at_work, board_in_memory, teams_of


async def explained(file: str, key: str, end: str = "DONE") -> Provenance:
    case = next(one for one in CASES.values() if one.file == file and one.end == end)
    async with at_work(board_in_memory(), teams_of(case)) as cast:
        state = await cast.play(case)
        folded, events = await history(cast.board, state.run)
        return why(folded.state, events, key)


async def test_accepted_proposal() -> None:
    step = next(one.id for one in TEAMS["propose_and_critique"].playbook.steps if one.critique)
    found = await explained("propose_and_critique", step)
    assert found.expression == ACCEPTED
    assert f"  it is {ACCEPTED}" in _lines(found)


async def test_ranking_of_bids_has_no_losers() -> None:
    case = next(one for one in CASES.values() if one.file == "open_call")
    step = next(one.id for one in TEAMS["open_call"].playbook.steps if one.call)
    lines = "\n".join(_lines(await explained("open_call", f"{step}_bids", case.end)))
    assert "  bid of " in lines
    assert "  lost " not in lines


async def test_run_that_did_a_task_is_named() -> None:
    step = next(one for one in TEAMS["sub_goals"].playbook.steps if one.team)
    found = await explained("sub_goals", (step.fact or step.id).replace("{index}", "0"))
    voices = [one for one in (found.winner, *found.losers) if one]
    assert voices[0].child
    assert f"(run {voices[0].child})" in "\n".join(_lines(found))
