"""Events as lines of `tail` and as sentences of `watch`; those that runs of the other tests do not bring about."""

from typing import Any

import pytest

from projections.cli_events import sentence, words
from schemas import events as e
from schemas import events_of_effects as f
from schemas.codec import sha256
from schemas.steps import PlanStep
from schemas.usage import Limits

CAUSE = e.Cause(1, sha256(b""))
EFFECT: dict[str, Any] = {
    "task": "t",
    "specialist": "w",
    "tool": "pay",
    "key": "0" * 32,
    "round": 2,
    "execution": "x",
}
FAILED: dict[str, Any] = {"specialist": "w", "tool": "get", "input": "", "code": "TIMEOUT", "outcome": ""}


@pytest.mark.parametrize(
    ("kind", "fields", "line", "told"),
    [
        (
            e.PlanRevised,
            {"number": 2, "steps": (PlanStep("y"), PlanStep("z")), "reason": "x failed", "instead_of": "x"},
            "plan_revised 2 instead of x",
            "step x was replaced by y, z because x failed",
        ),
        (
            e.PlanRevised,
            {"number": 1, "steps": (PlanStep("woken_1"),), "reason": "a wakes w"},
            "plan_revised 1",
            "woken_1 was added because a wakes w",
        ),
        (
            e.AttemptStale,
            {"task": "t", "attempt": 1, "keys": ("a", "b")},
            "attempt_stale t behind a, b",
            "task t is given out again: a, b changed meanwhile",
        ),
        (
            e.TaskDropped,
            {"task": "t", "reason": "another claim came first"},
            "task_dropped t",
            "task t is not needed any more: another claim came first",
        ),
        (
            e.ToolFailed,
            {"task": "t", "attempt": 1, **FAILED},
            "tool_failed t get of w TIMEOUT",
            "w could not use get in task t: TIMEOUT",
        ),
        (
            f.EffectIntended,
            EFFECT | {"attempt": 1, "contract": 1, "arguments": {}},
            "effect_intended t pay of w, round 2",
            "w begins pay in task t, round 2",
        ),
        (
            f.EffectReceipt,
            EFFECT | {"done": True, "source": "person"},
            "effect_receipt t pay was done",
            "pay in task t was done, as a person said",
        ),
        (
            f.EffectReceipt,
            EFFECT | {"done": False, "message": "refused"},
            "effect_receipt t pay was not done",
            "pay in task t was not done: refused",
        ),
        (
            f.RunEnding,
            {"end": "FAILED", "code": "TIMEOUT", "reason": "too slow"},
            "run_ending FAILED TIMEOUT",
            "the run will end FAILED once its effects are undone: too slow",
        ),
        (
            e.LoopFound,
            {"outcome": "", "times": 3, "task": "t", "what": "w did it, 3 times"},
            "loop_found t 3 times",
            "a loop in task t: w did it, 3 times",
        ),
        (
            e.ShareKept,
            {"task": "t", "attempt": 1, "held": Limits(tokens=5, micro_usd=10_000)},
            "share_kept t 5 tokens, $0.01",
            "5 tokens, $0.01 stay set aside for the child run of task t",
        ),
        (e.AttemptFailed, {"task": "t", "attempt": 1, "code": "TIMEOUT"}, "attempt_failed t TIMEOUT", ""),
        (
            e.GateAnswered,
            {"gate": "g", "by": "ann", "approved": False, "reason": "no"},
            "gate_answered g denied by ann",
            "gate g: denied by ann: no",
        ),
        (
            e.GateAnswered,
            {"gate": "g", "by": "ann", "approved": True, "value": "v" * 200},
            f'gate_answered g answered by ann: "{"v" * 78}…',
            f'gate g: answered by ann: "{"v" * 78}…',
        ),
        (e.RunEnded, {"end": "DONE"}, "run_ended DONE", ""),
    ],
)
def test_words(kind: type[e.Event], fields: dict[str, Any], line: str, told: str) -> None:
    event = kind(at=1, cause=CAUSE, **fields)
    assert (words(event), sentence(event)) == (line, told)
