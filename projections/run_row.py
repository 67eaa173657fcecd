"""The row of a run in the read model: what somebody who looks over many runs wants to see of each.

Pure. Derived from a folded run, so it can be thrown away and made again.
"""

from msgspec import Struct

from projections.history import Folded
from projections.status import conflicts, waiting_for

BROKEN = "BROKEN"
"""The phase of a run whose history is not what was written; `reason` names the violation."""


class RunRow(Struct, frozen=True):
    """Times are milliseconds since 1970 by the run's own clock, 0 where it has not come to that. `phase` is the end of
    a run that has ended. `seq` is where its last message lies on the log and `head` its chain there."""

    run: str
    team: str = ""
    publisher: str = ""
    parent: str = ""
    phase: str = ""
    opened_ms: int = 0
    ended_ms: int = 0
    version: int = 0
    tasks: int = 0
    tasks_ended: int = 0
    in_flight: int = 0
    facts: int = 0
    missing: int = 0
    conflicts: int = 0
    input_tokens: int = 0
    output_tokens: int = 0
    tool_calls: int = 0
    micro_usd: int = 0
    waiting_for: str = ""
    reason: str = ""
    head: str = ""
    seq: int = 0


def row_of(folded: Folded, ended_ms: int) -> RunRow:
    state = folded.state
    return RunRow(
        run=state.run,
        team=state.team,
        publisher=state.publisher,
        parent=state.parent.run if state.parent else "",
        phase=state.phase,
        opened_ms=state.opened,
        ended_ms=ended_ms,
        version=state.version,
        tasks=len(state.tasks),
        tasks_ended=sum(task.status == "ended" for task in state.tasks.values()),
        in_flight=state.in_flight,
        facts=len(state.facts),
        missing=len(state.missing),
        conflicts=conflicts(state),
        input_tokens=state.usage.input_tokens,
        output_tokens=state.usage.output_tokens,
        tool_calls=state.usage.tool_calls,
        micro_usd=state.usage.micro_usd,
        waiting_for=", ".join(dict.fromkeys(waiting_for(state))),
        reason=f"{state.code}: {state.reason}" if state.code and state.reason else state.code or state.reason,
        head=folded.h,
        seq=folded.seq,
    )
