"""A slice of `make llm-faults`: whatever the endpoint does, runs end, codes are right and books agree."""

from collections import Counter

import pytest

from specialists import chat
from tests.models import faults
from tests.plugins.figures import Figures


@pytest.mark.timeout(240)
async def test_spoiled_answers_end_in_a_typed_state(figures: Figures) -> None:
    found = await faults.runs(range(12))
    assert [problem for one in found for problem in one.problems] == []
    assert {one.end for one in found} <= {"DONE", "DEGRADED"}
    spoiled = sum((one.faults for one in found), Counter[str]())
    figures.say(f"llm-faults: {len(found)} runs, {spoiled.total()} calls, {spoiled.total() - spoiled['']} spoiled")


async def test_call_that_is_not_told_of_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    told = chat._Call.told

    async def silent(self: chat._Call, outcome: object, answer: str) -> None:
        if isinstance(outcome, chat.Completion):
            await told(self, outcome, answer)

    monkeypatch.setattr(chat._Call, "told", silent)
    found = await faults.runs(range(4), (0.8,))
    assert any("are on the log" in problem for one in found for problem in one.problems)
