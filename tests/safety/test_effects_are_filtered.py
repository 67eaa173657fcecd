"""What the log keeps of effects: arguments that may not be shown stop the effect, results are marked."""

from random import Random
from typing import Any

import pytest

from schemas.inputs import EffectIntended, EffectReceipt
from specialists.filtering import MODES, Filter, Mode
from specialists.findings import Finding
from specialists.stop import Stop
from tests.safety.corpus import FORMS

SECRET = FORMS["stripe-access-key"](Random(5))
SAME: dict[str, Any] = {"task": "t", "attempt": 1, "execution": "x", "tool": "pay", "key": "0" * 64, "round": 1}


@pytest.mark.parametrize("mode", MODES)
async def test_effect_with_a_secret_among_its_arguments_is_not_begun(mode: Mode) -> None:
    with pytest.raises(Stop, match="pay was not called: its arguments, which the log keeps, hold") as raised:
        await Filter(mode).screen(EffectIntended(**SAME, arguments={"with": SECRET}), [])
    assert raised.value.code == "POLICY_BLOCKED"
    assert SECRET not in str(raised.value)
    intent = EffectIntended(**SAME, arguments={"amount": 5})
    assert await Filter(mode).screen(intent, []) == intent


@pytest.mark.parametrize("mode", MODES)
async def test_effect_that_was_done_is_recorded_with_markers(mode: Mode) -> None:
    noted: list[Finding] = []
    receipt = EffectReceipt(**SAME, done=True, result={"token": SECRET}, message=f"paid with {SECRET}")
    screened = await Filter(mode).screen(receipt, noted)
    assert screened.done
    assert "[redacted: " in screened.result["token"]
    assert SECRET not in screened.message
    assert len(noted) == 2
