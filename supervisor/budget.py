"""The budget of a run as the control plane asks about it: may this attempt be given out, must it wait, or never?

Pure. A dispatch reserves first; nothing is given out that could not be paid in full. What the attempt itself does not
limit, and the run does, it gets all the rest of: give specialists budgets where their tasks are to go side by side.
"""

from typing import Literal, NamedTuple

from projections.bookings import DIMENSIONS, rest
from projections.canonical import State
from schemas.usage import Limits

WORDS = {"tokens": "tokens", "tool_calls": "calls of tools", "micro_usd": "millionths of a dollar"}


class Verdict(NamedTuple):
    """`now`, with what is to be reserved; `later`, when attempts in flight have said what they used; or `never`: both
    with the reason."""

    when: Literal["now", "later", "never"]
    reserve: Limits = Limits()
    reason: str = ""


def afford(state: State, wanted: Limits) -> Verdict:
    """Whether an attempt that may use `wanted` can be given out."""
    if state.overrun:
        return Verdict("never", reason=_overrun(state))
    if state.budget == Limits():
        return Verdict("now", wanted)
    left, reserve = rest(state), {}
    verdict = Verdict("now")
    for name in DIMENSIONS:
        own, there = getattr(wanted, name), getattr(left, name)
        reserve[name] = own if own is not None or there is None else there
        if there is None or (own is not None and own <= there) or (own is None and there > 0):
            continue
        reason = _exhausted(state, name, own, there)
        if (own or 1) > there + _in_flight(state, name):
            return Verdict("never", reason=reason)
        verdict = Verdict("later", reason=reason)
    return verdict if verdict.when == "later" else Verdict("now", Limits(**reserve))


def for_bid(state: State, own: Limits) -> Limits:
    """What a bid may use: what the call says, else nothing of what the run has a budget for. So those who never answer
    keep nothing from those who do the work."""
    limits = {}
    for name in DIMENSIONS:
        said, limited = getattr(own, name), getattr(state.budget, name) is not None
        limits[name] = 0 if said is None and limited else said
    return Limits(**limits)


def _in_flight(state: State, name: str) -> int:
    """What attempts in flight may give back. Those whose end has not come in time keep what was reserved for them."""
    return sum(
        getattr(one.limits, name) or 0
        for task in state.tasks.values()
        if task.status == "dispatched"
        for one in task.open
        if one.attempt == task.attempt
    )


def _overrun(state: State) -> str:
    over = ", ".join(f"{value} {WORDS[name]}" for name in DIMENSIONS if (value := getattr(state.overrun, name)))
    return f"more was used than was reserved: {over}"


def _exhausted(state: State, name: str, own: int | None, there: int) -> str:
    limit, charged, reserved = (getattr(one, name) for one in (state.budget, state.charged, state.reserved))
    wanted = "1 or more" if own is None else own
    return f"{there} of {limit} {WORDS[name]} left ({charged} used, {reserved} reserved), {wanted} needed"
