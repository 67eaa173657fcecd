"""Reasons: why a step came to nothing, or a run, so that people read who is missing, and whether to ask again.

Pure. See schemas.plans: an open call has a step that collects bids; propose and critique has two for each round.
"""

from collections.abc import Iterable, Iterator
from typing import get_args

from projections.canonical import Missing, State
from schemas import events as e
from schemas.steps import PlanStep
from supervisor.documents import ancestors

Reason = tuple[e.StopCode, str]
"""A code, and the sentence that goes with it."""
ABSENT = frozenset({"TOOL_DOWN", "TIMEOUT"})
"""Codes that say that somebody was not there: it may help to ask again."""
SHOWN = 5
"""Missing keys that a sentence names."""


def missing(state: State) -> dict[str, Missing]:
    """What the run does without, by key: not what only a round of a step lacks, nor what other steps stand in for."""
    rounds = {step.id for step in state.plan if step.origin and not step.origin.startswith("woken.")}
    return {
        key: one
        for key, one in sorted(state.missing.items())
        if key not in state.facts and one.step not in rounds and not state.steps[one.step].revised
    }


def for_want_of_facts(state: State, step: PlanStep | None, code: e.StopCode, message: str) -> Reason:
    """Why something could not be worked out, by `step` or for the result of the run: with the keys that it lacks, and
    the code of somebody who was not there."""
    steps = None if step is None else ancestors(state, step)
    gone = {key: one for key, one in missing(state).items() if steps is None or one.step in steps}
    if not gone:
        return code, message
    named = ", ".join(f"{key} ({one.code})" for key, one in [*gone.items()][:SHOWN])
    return _absent(gone.values()) or code, f"{message}; without {named}{', …' if len(gone) > SHOWN else ''}"


def _absent(those: Iterable[Missing | e.Declined]) -> e.StopCode | None:
    return next(
        (code for code in get_args(e.StopCode) if code in ABSENT and any(one.code == code for one in those)), None
    )


def nobody_chosen(state: State, step: PlanStep) -> Reason:
    """Why the route of a step leads to nobody. Where somebody did not answer the call it may help to ask again."""
    bids = next((one for one in state.plan if one.bid and one.id in step.needs), None)
    fact = state.facts.get(bids.fact) if bids else None
    if fact is None:
        return "LOW_CONFIDENCE", f"{step.route} names nobody"
    said = [f"{loser.by} {loser.reason}" for loser in fact.losers]
    said += [f"{voice.by} {voice.code}: {voice.message}".rstrip(": ") for voice in fact.declined]
    return _absent(fact.declined) or "LOW_CONFIDENCE", f"nobody bids for it: {'; '.join(said)}"


def nothing_computed(state: State, step: PlanStep) -> Reason:
    """Why a step that is an expression has no value; of propose and critique, what its last round lacks."""
    rounds = [one for one in state.plan if _is_round(one, step) and not one.bid]
    if not rounds:
        return "LOW_CONFIDENCE", f"{step.value} gives nothing here"
    gone = next((one for one in reversed(rounds) if one.fact in state.missing), None)
    if gone is None:
        proposals = sum(one.origin == step.id and one.fact in state.facts for one in rounds)
        return "LOW_CONFIDENCE", f"none of {proposals} proposals was accepted"
    number, lacking = gone.id.rpartition("_")[2], state.missing[gone.fact]
    what = "proposal" if gone.origin == step.id else "critique"
    code: e.StopCode = next((known for known in get_args(e.StopCode) if known == lacking.code), "INTERNAL")
    return code, f"round {number} has no {what}: {lacking.message}"


def skipped(state: State, step: PlanStep) -> str:
    """Why a step is skipped whose `when` does not hold."""
    result = next((one for one in state.plan if _is_round(step, one)), None)
    if result is None or step.when == result.when:
        return f"{step.when} is not true"
    return "no further round" if step.origin == result.id else "there is no proposal"


def _is_round(part: PlanStep, step: PlanStep) -> bool:
    """Whether `part` is one of those of which `step` takes the accepted proposal."""
    return bool(step.value) and part.id in step.needs and part.origin in (step.id, f"{step.id}_review")


def of_effects(state: State) -> Iterator[str]:
    """What was undone, and what was not, in words."""
    own = [effect for effect in state.effects.values() if not effect.undoes]
    parts = {
        "undone": [effect for effect in own if effect.undone],
        "not undone": [effect for effect in own if effect.done and not effect.undone],
        "not known to be done": [effect for effect in own if effect.unknown and not effect.undone],
    }
    for what, effects in parts.items():
        if effects:
            shown = ", ".join(f"{effect.tool} of {effect.task}" for effect in effects[:SHOWN])
            yield f"{what}: {shown}{', …' if len(effects) > SHOWN else ''}"
