"""A slice of `make effects`, and for each guard that an effect is done once: without it, it is not."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest

from blackboard.simulation.parts import Happened
from schemas.tasks import Receipt
from specialists import effects
from specialists.worker import Worker
from supervisor.draft import Draft
from tests.effects.crashing import CASES, Sums, crash_everywhere
from tests.effects.worlds import Case, live


def named(name: str) -> Case:
    return next(case for case in CASES if case.name == name)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_slice(case: Case) -> None:
    sums = crash_everywhere([3], [case], every=3)
    assert not sums.broken, sums.broken[0]
    assert sums.runs > 3


Patch = Callable[[pytest.MonkeyPatch], None]


def no_claim(patch: pytest.MonkeyPatch) -> None:
    """An intent is appended like any other observation."""
    append_of = Worker._append_of
    patch.setattr(Worker, "_append_of", lambda *given: replace_expected(append_of(*given)))


def replace_expected(append: Any) -> Any:
    from msgspec.structs import replace as changed

    return changed(append, expected=None, among="")


def taken_for_undone(patch: pytest.MonkeyPatch) -> None:
    """What somebody else has begun, or what gave no answer, is taken to be not done."""

    async def find_out(self: Any, call: Any, round_: int, message: str = "") -> Receipt:
        return Receipt(call.key, round_, False)

    patch.setattr(effects.Effects, "_find_out", find_out)


def late_claims(patch: pytest.MonkeyPatch) -> None:
    """Who has waited long for the right to an effect does it all the same."""
    patch.setattr(effects, "CLAIM_S", 1e9)


def no_undo(patch: pytest.MonkeyPatch) -> None:
    """A run that ends in vain ends at once."""
    patch.setattr(
        Draft, "end", lambda self, end, code="", reason="", result=None: ends(self, end, code, reason, result)
    )


def ends(draft: Draft, end: Any, code: str, reason: str, result: Any) -> None:
    from schemas.events import RunEnded

    draft.emit(RunEnded, end=end, code=code, reason=reason, result=result)


def nobody_is_heard_out(patch: pytest.MonkeyPatch) -> None:
    """A run that ends in vain does not wait for those who are in the middle of an effect."""
    patch.setattr(Draft, "_in_effect", lambda self: [])


RACE = replace(named("two workers have the task at once"), disturb="pause")
GUARDS: list[tuple[Case, Patch]] = [
    (RACE, no_claim),
    (named("with a probe"), taken_for_undone),
    (named("without a probe, people look it up"), taken_for_undone),
    (named("the answer is lost, without a probe"), taken_for_undone),
    (named("paused beyond the lease, with a probe"), late_claims),
    (named("undone, with a probe"), no_undo),
    (named("cancelled at every moment"), no_undo),
]


@pytest.mark.parametrize(
    ("case", "without"), GUARDS, ids=lambda one: getattr(one, "__name__", getattr(one, "name", ""))
)
def test_without_its_guard_it_is_seen(case: Case, without: Patch, monkeypatch: pytest.MonkeyPatch) -> None:
    without(monkeypatch)
    sums = Sums()
    for seed in range(1, 9):
        sums.join(crash_everywhere([seed], [case]))
        if sums.doubled + sums.lost:
            return
    pytest.fail(f"nobody noticed: {sums.line}")


def cancelled_just_before(case: Case) -> Sums:
    """Worlds in which a run is cancelled between the dispatch of its task and the intent of the worker."""
    sums = Sums()
    for seed in range(1, 9):
        happened = live(case, seed).happened
        stored = {kind: first_with(happened, kind) for kind in (b'"task_dispatched"', b'"effect_intended"', b'"goal"')}
        since, dispatched, intended = stored[b'"goal"'], stored[b'"task_dispatched"'], stored[b'"effect_intended"']
        for number in range(6):
            at_s = dispatched + (intended - dispatched) * number / 5 - 0.005
            sums.add(live(case, seed, cancel_after_s=max(0.0, at_s - since)))
    return sums


def first_with(happened: Happened, kind: bytes) -> float:
    """When the first message of this kind was stored, in virtual seconds."""
    wanted = next(
        one for one in happened.messages if kind in one.data or (kind == b'"goal"' and ".goal." in one.subject)
    )
    return happened.stored_s[wanted.seq - 1]


def test_cancelled_just_before_the_intent(monkeypatch: pytest.MonkeyPatch) -> None:
    case = named("cancelled at every moment")
    sums = cancelled_just_before(case)
    assert not sums.broken, sums.broken[0]
    nobody_is_heard_out(monkeypatch)
    assert cancelled_just_before(case).lost, "nobody noticed that it was not heard out"
