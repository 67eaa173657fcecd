"""Bookings: what the reservations of attempts and the ends that they come to do to the budget of a run.

Pure. Of each attempt its limits are reserved when it is dispatched, where the run has a budget for them. Its end
settles that: what it used is charged, up to what was reserved; what exceeds it is overrun. Until that end comes,
however late, all of it stays reserved. So `charged + reserved <= budget` at every version, and what was reported is
`charged + overrun`.
"""

from typing import Any

from msgspec.structs import replace

from projections.canonical import Reservation, State, TaskState
from schemas.usage import Amount, Limits, Usage, amount

DIMENSIONS = ("tokens", "tool_calls", "micro_usd")
KEPT = 0
"""The number of no attempt: under it stays reserved what attempts of a child run have not accounted for."""


def set_aside(budget: Limits, limits: Limits) -> Amount:
    """What of the budget an attempt with these limits takes up; where there is no budget, it takes up nothing."""
    if budget == Limits():
        return Amount()
    return Amount(*(getattr(limits, name) or 0 if getattr(budget, name) is not None else 0 for name in DIMENSIONS))


def reservation(task: TaskState, attempt: int, specialist: str) -> Reservation | None:
    """What is still set aside for an attempt: its end has not come yet."""
    return next((one for one in task.open if (one.attempt, one.specialist) == (attempt, specialist)), None)


def settled(
    state: State, task: TaskState | None, attempt: int, specialist: str, usage: Usage
) -> tuple[TaskState | None, dict[str, Any]]:
    """The task without the reservation of this attempt, and the fields of the state that change with what was used.

    An attempt may end more than once, each time by another execution: after the first, what is left of the budget is
    all that the others can be charged to.
    """
    opened = reservation(task, attempt, specialist) if task else None
    if opened is None and usage == Usage():
        return task, {}
    room = opened.limits if opened else rest(state)
    charged, over = _split(amount(usage), room)
    changes: dict[str, Any] = {"usage": state.usage + usage}
    if charged:
        changes["charged"] = state.charged + charged
    if over:
        changes["overrun"] = state.overrun + over
    if task and opened:
        changes["reserved"] = state.reserved - set_aside(state.budget, opened.limits)
        task = released(task, opened)
    return task, changes


def released(task: TaskState, opened: Reservation) -> TaskState:
    return replace(task, open=tuple(one for one in task.open if one is not opened))


def kept(task: TaskState, held: Limits) -> TaskState:
    """The task whose child run has ended before all of its attempts have: `held`, which is set aside for them there,
    is told apart from the rest of its share, and stays reserved here when that is settled."""
    share = reservation(task, task.attempt, task.specialist)
    if share is None:
        return task
    left, stays = {}, {}
    for name in DIMENSIONS:
        limit, part = getattr(share.limits, name), getattr(held, name)
        stays[name] = None if limit is None else min(part or 0, limit)
        left[name] = None if limit is None else limit - stays[name]
    parts = (replace(share, limits=Limits(**left)), Reservation(KEPT, share.specialist, Limits(**stays)))
    return replace(task, open=(*(one for one in task.open if one is not share), *parts))


def held(state: State) -> Limits:
    """What is still set aside for attempts whose end has not come."""
    return Limits(*(getattr(state.reserved, name) or None for name in DIMENSIONS))


def rest(state: State) -> Limits:
    """What of the budget is neither charged nor reserved."""
    if state.budget == Limits():
        return Limits()
    found: dict[str, int | None] = {}
    for name in DIMENSIONS:
        limit = getattr(state.budget, name)
        used = getattr(state.charged, name) + getattr(state.reserved, name)
        found[name] = None if limit is None else max(0, limit - used)
    return Limits(**found)


def _split(used: Amount, room: Limits) -> tuple[Amount, Amount]:
    """What fits into `room`, and what does not."""
    if room == Limits():
        return used, Amount()
    inside: dict[str, int] = {}
    for name in DIMENSIONS:
        limit, value = getattr(room, name), getattr(used, name)
        inside[name] = value if limit is None else min(value, limit)
    charged = Amount(**inside)
    return charged, used - charged
