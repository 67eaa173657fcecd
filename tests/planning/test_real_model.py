"""A small real model that plans and reconciles: forms and ends are looked at, not sense."""

from typing import Any

import pytest

from specialists.context import LocalContext
from specialists.models import MODEL
from specialists.reconciler import reconciler
from tests.planning.real import figure, tries
from tests.plugins.figures import Figures

VALUES: tuple[list[Any], ...] = (["MIT", "Apache-2.0"], [{"price": 5}, {"price": 7}, None], [1, 2, 3, 4])


@pytest.mark.timeout(240)
async def test_its_plans_are_committed(real_url: str, figures: Figures) -> None:
    """A slice of `make plan-real`."""
    found = await tries(real_url, 2)
    figures.say(figure(found))
    assert not [one.problem for one in found if one.problem]


@pytest.mark.parametrize("values", VALUES)
async def test_it_takes_a_value_or_says_that_it_cannot(
    values: list[Any], real_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(MODEL, "SmolLM2")
    monkeypatch.setenv("OPENAI_BASE_URL", real_url)
    context = LocalContext(reconciler, kind="reconcile")
    result = await reconciler.invoke({"key": "k", "values": values}, context)
    assert result.code in {"", "LOW_CONFIDENCE"}, result.message
    assert result.code or result.value in values
    assert context.usage.output_tokens > 0
