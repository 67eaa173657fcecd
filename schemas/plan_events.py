"""Events about plans that specialists propose (schemas.proposals). As in `events` otherwise.

Pure.
"""

from typing import Literal

from schemas.events import Event
from schemas.steps import PlanStep, Voice
from schemas.usage import Limits


class PlanAsked(Event, tag="plan_asked", frozen=True, kw_only=True):
    """The next attempt of a task that proposes a plan is told of these contracts; for `left_out` more there was no
    room. `budget` is what the planned steps may use together."""

    v: Literal[1] = 1
    task: str
    contracts: tuple[Voice, ...]
    left_out: int = 0
    budget: Limits = Limits()


class PlanRefused(Event, tag="plan_refused", frozen=True, kw_only=True):
    """The plan that a task proposed cannot be committed, for these reasons. `number` counts the refusals; `again` tells
    whether the task is given out once more, with them."""

    v: Literal[1] = 1
    step: str
    task: str
    attempt: int
    by: str
    number: int
    reasons: tuple[str, ...]
    again: bool


class PlanExtended(Event, tag="plan_extended", frozen=True, kw_only=True):
    """The steps that `task` of `step` proposed are part of the plan now; what needs the step needs them too. `number`
    counts on with the revisions."""

    v: Literal[1] = 1
    number: int
    step: str
    task: str
    by: str
    steps: tuple[PlanStep, ...]
