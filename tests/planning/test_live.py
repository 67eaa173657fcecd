"""The planner and the reconciler over a real provider. `BLACKBOARD_LIVE_MODEL` names another model."""

import os
from typing import Any

import pytest

from specialists.context import LocalContext
from specialists.models import MODEL
from specialists.planner import planner
from specialists.reconciler import reconciler
from tests.planning.proposing import says
from tests.planning.test_planner import asking, told

pytestmark = [pytest.mark.needs_key("OPENAI_API_KEY"), pytest.mark.timeout(180)]
KEY, URL = os.environ.get("OPENAI_API_KEY", ""), os.environ.get("OPENAI_BASE_URL", "")
LIVE = os.environ.get("BLACKBOARD_LIVE_MODEL", "gpt-5-mini")


@pytest.fixture(autouse=True)
def configured(nothing_configured: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv(MODEL, LIVE)
    if URL:
        monkeypatch.setenv("OPENAI_BASE_URL", URL)


async def test_a_plan_of_a_provider_is_committed() -> None:
    scenario = asking()
    input = told(scenario) | {"goal": "Find three passages about bicycles, then write a report of them."}
    context = LocalContext(planner)
    result = await planner.invoke(input, context)
    assert not result.code, result.message
    scenario.say(says(result.value))
    assert scenario.state.tasks["plan"].refused is None
    assert context.usage.input_tokens > 0


async def test_a_provider_takes_one_of_the_values_or_says_that_it_cannot() -> None:
    values: list[Any] = ["Paris", "Lyon"]
    context = LocalContext(reconciler, kind="reconcile")
    result = await reconciler.invoke({"key": "capital-of-france", "values": values}, context)
    assert result.code in {"", "LOW_CONFIDENCE"}, result.message
    assert result.code or result.value in values
