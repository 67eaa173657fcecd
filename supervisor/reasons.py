"""Reasons: why a step that the plan made of several came to nothing, so that people read who is missing.

Pure. See schemas.plans: an open call has a step that collects bids; propose and critique has two for each round.
"""

from typing import get_args

from projections.canonical import State
from schemas import events as e
from schemas.steps import PlanStep

Reason = tuple[e.StopCode, str]
"""A code, and the sentence that goes with it."""


def nobody_chosen(state: State, step: PlanStep) -> Reason:
    """Why the route of a step leads to nobody. Where somebody did not answer the call it may help to ask again."""
    bids = next((one for one in state.plan if one.bid and one.id in step.needs), None)
    fact = state.facts.get(bids.fact) if bids else None
    if fact is None:
        return "LOW_CONFIDENCE", f"{step.route} names nobody"
    said = [f"{loser.by} {loser.reason}" for loser in fact.losers]
    said += [f"{voice.by} {voice.code}: {voice.message}".rstrip(": ") for voice in fact.declined]
    absent = next((voice.code for voice in fact.declined if voice.code in {"TOOL_DOWN", "TIMEOUT"}), None)
    return absent or "LOW_CONFIDENCE", f"nobody bids for it: {'; '.join(said)}"


def nothing_computed(state: State, step: PlanStep) -> Reason:
    """Why a step that is an expression has no value; of propose and critique, what its last round lacks."""
    rounds = [one for one in state.plan if _is_round(one, step) and not one.bid]
    if not rounds:
        return "LOW_CONFIDENCE", f"{step.value} gives nothing here"
    gone = next((one for one in reversed(rounds) if one.fact in state.missing), None)
    if gone is None:
        proposals = sum(one.origin == step.id and one.fact in state.facts for one in rounds)
        return "LOW_CONFIDENCE", f"none of {proposals} proposals was accepted"
    number, missing = gone.id.rpartition("_")[2], state.missing[gone.fact]
    what = "proposal" if gone.origin == step.id else "critique"
    code: e.StopCode = next((known for known in get_args(e.StopCode) if known == missing.code), "INTERNAL")
    return code, f"round {number} has no {what}: {missing.message}"


def skipped(state: State, step: PlanStep) -> str:
    """Why a step is skipped whose `when` does not hold."""
    result = next((one for one in state.plan if _is_round(step, one)), None)
    if result is None or step.when == result.when:
        return f"{step.when} is not true"
    return "no further round" if step.origin == result.id else "there is no proposal"


def _is_round(part: PlanStep, step: PlanStep) -> bool:
    """Whether `part` is one of those of which `step` takes the accepted proposal."""
    return bool(step.value) and part.id in step.needs and part.origin in (step.id, f"{step.id}_review")
