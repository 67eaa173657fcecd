"""Which events there are, and in which version this release writes each.

Pure.
"""

from typing import get_args

from msgspec.structs import fields

from schemas import events as e
from schemas import events_of_effects as f
from schemas.plan_events import PlanAsked, PlanExtended, PlanRefused

EventUnion = (
    e.RunOpened
    | e.PlanCommitted
    | e.PlanRevised
    | PlanAsked
    | PlanRefused
    | PlanExtended
    | e.GateOpened
    | e.GateAnswered
    | e.CapabilityAwaited
    | e.StepExpanded
    | e.StepSkipped
    | e.TaskDispatched
    | e.TaskStarted
    | e.AttemptFailed
    | e.AttemptStale
    | e.TaskDelayed
    | e.TaskDropped
    | e.TaskEnded
    | e.ShareKept
    | e.BreakerOpened
    | e.ToolFailed
    | e.LoopFound
    | e.ConflictFound
    | e.FactCommitted
    | e.FactMissing
    | e.InputLate
    | e.InputRejected
    | e.AuthorMuted
    | e.RulesChanged
    | e.RunEnded
    | f.EffectIntended
    | f.EffectReceipt
    | f.RunEnding
)

EVENT_VERSIONS: dict[str, int] = {
    str(kind.__struct_config__.tag): next(field.default for field in fields(kind) if field.name == "v")
    for kind in get_args(EventUnion)
}
"""The version in which this release writes each type of event."""
