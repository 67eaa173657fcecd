"""Spans: what a trace says about a run, in our own words; `blackboard.telemetry` hands them to OpenTelemetry.

Pure. The ids are derived, so everybody who knows the log's id and the run names the same trace and the same spans:
client, supervisor, worker, the supervisor that takes over, and an auditor a year later. Hex, lower case.
Source of the names: OpenTelemetry's semantic conventions for generative AI and for messaging. The constants of the
package `opentelemetry-semantic-conventions` for the former are deprecated, so they stand here.
"""

import hashlib
from typing import Literal, NamedTuple

from msgspec import Struct

OPERATION = "gen_ai.operation.name"
RUN = "gen_ai.conversation.id"
AGENT, AGENT_VERSION = "gen_ai.agent.name", "gen_ai.agent.version"
WORKFLOW = "gen_ai.workflow.name"
TOOL = "gen_ai.tool.name"
MODEL = "gen_ai.request.model"
INPUT_TOKENS, OUTPUT_TOKENS = "gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens"
"""On the span of the attempt to which the supervisor booked them, and on no other of ours: they add up to the run's."""
ERROR = "error.type"
"""A span with this attribute has failed."""
SYSTEM, MESSAGING_OPERATION = "messaging.system", "messaging.operation.name"
MESSAGING_TYPE = "messaging.operation.type"
DESTINATION, DESTINATION_TEMPLATE = "messaging.destination.name", "messaging.destination.template"
TASK, ATTEMPT, EXECUTION = "blackboard.task", "blackboard.attempt", "blackboard.execution"
CONTRACT = "blackboard.contract.seq"
OUTCOME = "blackboard.outcome"
TOOL_CALLS = "blackboard.tool_calls"
MICRO_USD = "blackboard.micro_usd"
WAIT_LIMIT, WORK_LIMIT = "blackboard.limit.wait_ms", "blackboard.limit.work_ms"
CAUSE, EVENTS, AUTHOR = "blackboard.cause.seq", "blackboard.events", "blackboard.author"

Value = str | int | bool
Attributes = dict[str, Value]


class Place(NamedTuple):
    """Where a span is: what a link points to."""

    trace: str
    span: str


class Span(Struct, frozen=True):
    """A span that has ended, in nanoseconds since 1970. Without `parent` it is the root of its trace. `links` may name
    spans that nobody recorded."""

    name: str
    place: Place
    parent: str
    start_ns: int
    end_ns: int
    attributes: Attributes
    kind: Literal["internal", "client", "producer"] = "internal"
    links: tuple[Place, ...] = ()


def trace_id(log: str, run: str) -> str:
    """The trace of a run: the same whoever asks, and a new one for a run of the same name on another log."""
    return _derived("trace", log, run)[:32]


def span_id(kind: str, *parts: str | int) -> str:
    """A span id that looks random."""
    return _derived(kind, *parts)[:16]


def run_span(run: str) -> str:
    """The root of a run's trace."""
    return span_id("run", run)


def sent_span(log: str, seq: int) -> str:
    """The sending of the message that the log stored at `seq`."""
    return span_id("sent", log, seq)


def _derived(*parts: str | int) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()
