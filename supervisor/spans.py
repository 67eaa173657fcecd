"""The spans of a run, folded from its events. Nothing else goes into them, so they are the same whoever folds them, and
a run can be told again from its log at any time.

Pure. A span comes out with the event that ends it, so none is open while people or specialists take their time. Tokens
stand on the attempts that they are booked to, late ones included: their sum is the usage of the state.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from schemas import events as e
from schemas import spans as s
from schemas.inputs import Ended, Input, Started
from schemas.spans import Attributes, Place, Span
from schemas.usage import Usage
from supervisor.policy import child_run, span_id

ABANDONED = "ABANDONED"
"""The outcome of an attempt or a gate that nobody waits for any more."""
LATE = "LATE"
STALE = "STALE"
"""The outcome of an attempt whose result rests on facts that have changed."""
GOES_ON = frozenset({"NEEDS_INPUT", "HANDED_OFF"})
"""Codes that are no errors."""
AttemptEnd = e.AttemptFailed | e.AttemptStale | e.TaskDropped | e.TaskEnded | e.RunEnded
ATTEMPTS_LOOKED_FOR = 100
"""Attempts of a parent's task among which that of a child run is looked for."""


class RunSpans:
    """One run, told event by event. `version` counts the events."""

    def __init__(self, log: str, run: str) -> None:
        self.log, self.run, self.version, self.ended = log, run, 0, False
        self._trace, self._root = s.trace_id(log, run), s.run_span(run)
        self._opened: e.RunOpened | None = None
        self._dispatched: dict[str, e.TaskDispatched] = {}
        self._gates: dict[str, e.GateOpened] = {}
        self._usage = Usage()

    def add(self, event: e.Event) -> Iterator[Span]:
        """The spans that end with the next event of the run."""
        self.version += 1
        self._usage += getattr(event, "usage", Usage())
        match event:
            case e.RunOpened():
                self._opened = event
            case e.TaskDispatched(task=task):
                self._dispatched[task] = event
            case (
                e.AttemptFailed(task=task)
                | e.AttemptStale(task=task)
                | e.TaskDropped(task=task)
                | e.TaskEnded(task=task)
            ) if task in self._dispatched:
                yield self._attempt(self._dispatched.pop(task), event)
            case e.GateOpened(gate=gate):
                if gate in self._gates:  # it asks for something else by now
                    yield self._gate(self._gates[gate], event)
                self._gates[gate] = event
            case e.GateAnswered(gate=gate) if gate in self._gates:
                yield self._gate(self._gates.pop(gate), event)
            case e.InputLate() if event.execution or event.usage != Usage():
                yield self._late(event)
            case e.RunEnded():
                self.ended = True
                yield from (self._attempt(dispatched, event) for dispatched in self._dispatched.values())
                yield from (self._gate(gate, event) for gate in self._gates.values())
                if self._opened:
                    yield self._whole(self._opened, event)

    def _attempt(self, dispatched: e.TaskDispatched, end: AttemptEnd) -> Span:
        """From dispatch to end: what the supervisor waited for. The worker's part is a child of it."""
        agent, task, attempt = dispatched.specialist, dispatched.task, dispatched.attempt
        what = "invoke_workflow" if dispatched.child else "invoke_agent"
        attributes: Attributes = {
            s.OPERATION: what,
            s.WORKFLOW if dispatched.child else s.AGENT: agent,
            s.RUN: self.run,
            s.TASK: task,
            s.ATTEMPT: attempt,
            s.CONTRACT: dispatched.contract,
            s.WAIT_LIMIT: dispatched.wait_ms,
            s.WORK_LIMIT: dispatched.work_ms,
        }
        match end:
            case e.RunEnded() | e.TaskDropped():
                attributes[s.OUTCOME] = ABANDONED
            case e.AttemptStale():
                attributes |= {s.OUTCOME: STALE, s.EXECUTION: end.execution, **_used(end.usage)}
            case _:
                attributes |= {s.OUTCOME: end.code or "DONE", s.EXECUTION: end.execution, **_used(end.usage)}
                if end.code and end.code not in GOES_ON:
                    attributes[s.ERROR] = end.code
        links = (_root_of(self.log, dispatched.child),) if dispatched.child else ()
        return self._span(
            f"{what} {agent}", span_id(self.run, task, attempt), dispatched.at, end.at, attributes, "client", links
        )

    def _late(self, late: e.InputLate) -> Span:
        """What was used for an end that came too late."""
        attributes: Attributes = {
            s.OPERATION: "invoke_agent",
            s.AGENT: late.author,
            s.RUN: self.run,
            s.TASK: late.task,
            s.EXECUTION: late.execution,
            s.OUTCOME: LATE,
            **_used(late.usage),
        }
        own = s.span_id("late", self.run, late.cause.seq)
        return self._span(f"invoke_agent {late.author}", own, late.at, late.at, attributes, "client")

    def _gate(self, opened: e.GateOpened, end: e.GateAnswered | e.GateOpened | e.RunEnded) -> Span:
        """As long as a person was waited for, with a link to what the person sent."""
        attributes: Attributes = {s.RUN: self.run, "blackboard.gate": opened.gate, "blackboard.digest": opened.digest}
        links: tuple[Place, ...] = ()
        if isinstance(end, e.GateAnswered):
            said = "DENIED" if not end.approved else "APPROVED" if opened.schema is None else "ANSWERED"
            attributes |= {s.OUTCOME: said, s.AUTHOR: end.by}
            links = (Place(self._trace, s.sent_span(self.log, end.cause.seq)),)
        else:
            attributes[s.OUTCOME] = ABANDONED
        own = s.span_id("gate", self.run, opened.gate, opened.digest)
        return self._span(f"gate {opened.gate}", own, opened.at, end.at, attributes, "internal", links)

    def _whole(self, opened: e.RunOpened, end: e.RunEnded) -> Span:
        attributes: Attributes = {
            s.OPERATION: "invoke_workflow",
            s.WORKFLOW: opened.team,
            s.RUN: self.run,
            s.AUTHOR: opened.publisher,
            s.OUTCOME: end.end,
            s.EVENTS: self.version,
            "blackboard.run.input_tokens": self._usage.input_tokens,
            "blackboard.run.output_tokens": self._usage.output_tokens,
            "blackboard.run.tool_calls": self._usage.tool_calls,
            "blackboard.run.micro_usd": self._usage.micro_usd,
        }
        if end.end not in {"DONE", "DEGRADED"}:
            attributes[s.ERROR] = end.code or end.end
        links = [Place(self._trace, s.sent_span(self.log, opened.cause.seq))]
        links += _asked_by(self.log, self.run, opened.parent) if opened.parent else []
        name = f"invoke_workflow {opened.team}"
        return self._span(name, self._root, opened.at, end.at, attributes, "internal", tuple(links))

    def _span(
        self, name: str, own: str, start_ms: int, end_ms: int, attributes: Attributes, kind: Any, links: Any = ()
    ) -> Span:
        parent = "" if own == self._root else self._root
        place = Place(self._trace, own)
        return Span(name, place, parent, start_ms * 1_000_000, end_ms * 1_000_000, attributes, kind, links)


def decision(log: str, run: str, cause: Input, events: Sequence[e.Event], stored_ms: int) -> Span:
    """What one input brought about: from when the log had it to when the log had its events. Linked to who sent it."""
    body, trace = cause.body, s.trace_id(log, run)
    sent = s.sent_span(log, cause.seq)
    if isinstance(body, Started | Ended):
        sent = span_id(run, body.task, body.attempt)
    kind = input_kind(cause)
    attributes: Attributes = {s.RUN: run, s.CAUSE: cause.seq, s.EVENTS: len(events), "blackboard.input": kind}
    if cause.address.author:
        attributes[s.AUTHOR] = cause.address.author
    place = Place(trace, s.span_id("decide", run, cause.seq))
    start_ns = cause.time_ms * 1_000_000
    end_ns = max(start_ns, stored_ms * 1_000_000)  # the log's clock may have been set back in between
    return Span(
        f"decide {kind}", place, s.run_span(run), start_ns, end_ns, attributes, "internal", (Place(trace, sent),)
    )


def input_kind(cause: Input) -> str:
    """goal, ended, started, approve, timer_due, ..."""
    config = getattr(type(cause.body), "__struct_config__", None)
    return str(config.tag) if config and config.tag else cause.address.family


def _used(usage: Usage) -> Attributes:
    return {
        s.INPUT_TOKENS: usage.input_tokens,
        s.OUTPUT_TOKENS: usage.output_tokens,
        s.TOOL_CALLS: usage.tool_calls,
        s.MICRO_USD: usage.micro_usd,
    }


def _root_of(log: str, run: str) -> Place:
    return Place(s.trace_id(log, run), s.run_span(run))


def _asked_by(log: str, run: str, parent: e.Parent) -> list[Place]:
    """The attempt of the parent's task that this child run is."""
    for attempt in range(1, ATTEMPTS_LOOKED_FOR + 1):
        if child_run(parent.run, parent.task, attempt) == run:
            return [Place(s.trace_id(log, parent.run), span_id(parent.run, parent.task, attempt))]
    return []
