"""Bookings: what the reservations of attempts and the ends that they come to do to the budget of a run.

Pure. Of each attempt its limits are reserved when it is dispatched. Its end settles that: what it used is charged, up
to what was reserved; what exceeds it is overrun. Until that end comes, however late, all of it stays reserved. So
`charged + reserved <= budget` at every version, and what was reported is `charged + overrun`.
"""

from typing import Any

from msgspec.structs import replace

from projections.canonical import Reservation, State, TaskState
from schemas.usage import Amount, Limits, Usage, amount

DIMENSIONS = ("tokens", "tool_calls", "micro_usd")


def settled(
    state: State, task: TaskState | None, attempt: int, specialist: str, usage: Usage
) -> tuple[TaskState | None, dict[str, Any]]:
    """The task without the reservation of this attempt, and the fields of the state that change with what was used.

    An attempt may end more than once, each time by another execution: after the first, what is left of the budget is
    all that the others can be charged to.
    """
    opened = next(
        (one for one in task.open if (one.attempt, one.specialist) == (attempt, specialist)) if task else iter(()), None
    )
    if opened is None and usage == Usage():
        return task, {}
    left = state.reserved - amount(opened.limits) if opened else state.reserved
    room = opened.limits if opened else rest(state)
    charged, over = _split(amount(usage), room)
    changes = {"usage": state.usage + usage, "reserved": left, "charged": state.charged + charged}
    changes["overrun"] = state.overrun + over
    if task and opened:
        task = _without(task, opened)
    return task, changes


def _without(task: TaskState, opened: Reservation) -> TaskState:
    return replace(task, open=tuple(one for one in task.open if one is not opened))


def rest(state: State) -> Limits:
    """What of the budget is neither charged nor reserved."""
    found: dict[str, int | None] = {}
    for name in DIMENSIONS:
        limit = getattr(state.budget, name)
        used = getattr(state.charged, name) + getattr(state.reserved, name)
        found[name] = None if limit is None else max(0, limit - used)
    return Limits(**found)


def _split(used: Amount, room: Limits) -> tuple[Amount, Amount]:
    """What fits into `room`, and what does not."""
    inside: dict[str, int] = {}
    for name in DIMENSIONS:
        limit, value = getattr(room, name), getattr(used, name)
        inside[name] = value if limit is None else min(value, limit)
    charged = Amount(**inside)
    return charged, used - charged
