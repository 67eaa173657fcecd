"""Tracing: spans to an OTLP collector, over HTTP. The only module that knows OpenTelemetry.

Off, which is the default, it costs one `if` and imports nothing. On, where OTEL_EXPORTER_OTLP_ENDPOINT (or its form for
traces) names a collector, spans leave in batches from a thread of their own; what a collector that is away does not
take is lost, and nothing waits for it. The other OTEL_ variables mean what OpenTelemetry's documentation says.
"""

import logging
import os
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from msgspec.structs import replace

from schemas.spans import ERROR, Attributes, Place, Span

if TYPE_CHECKING:
    from opentelemetry.context import Context
    from opentelemetry.trace import SpanContext

ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
DELAY_MS = 1_000
"""Milliseconds that a span waits for others at most: what a process that is killed takes along."""
QUEUE = 16_384
"""Spans that wait at most; a run of the largest size is told at once."""
CLOSE_S = 3.0
"""Seconds that the last spans have to leave when a process ends."""
_logger = logging.getLogger(__name__)
_open: "list[_Exporter]" = []
"""The one exporter, while there is one."""


def on() -> bool:
    """Whether spans are recorded: ask before you make one."""
    return bool(_open)


def configured() -> bool:
    """Whether the environment names a collector, and does not say otherwise."""
    named = any(os.environ.get(name) for name in ENDPOINTS)
    disabled = os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true"
    return named and not disabled and os.environ.get("OTEL_TRACES_EXPORTER", "") != "none"


@contextmanager
def tracing(role: str) -> Iterator[None]:
    """Record spans inside the block as a process with this role, where the environment asks for it; at its end the last
    ones leave, or are given up. An empty role records nothing."""
    if not role or _open or not configured():
        yield
        return
    try:
        exporter = _Exporter(role)
    except ImportError as absent:
        _logger.warning(
            "nothing is traced: a collector is configured and %s is not installed; install opentelemetry-sdk and "
            "opentelemetry-exporter-otlp-proto-http, or unset %s",
            absent.name,
            next(name for name in ENDPOINTS if os.environ.get(name)),
        )
        yield
        return
    _open.append(exporter)
    try:
        yield
    finally:
        _open.clear()
        exporter.close()


def record(*spans: Span) -> None:
    """Hand over spans that have ended. Raises nothing."""
    for exporter in _open:
        for span in spans:
            exporter.record(span)


class Lasting:
    """When something began, by the wall clock, and until when it lasts, whatever becomes of that clock meanwhile."""

    def __init__(self) -> None:
        self.began_ns, self._monotonic_ns = time.time_ns(), time.monotonic_ns()

    def until_ns(self) -> int:
        return self.began_ns + time.monotonic_ns() - self._monotonic_ns


@contextmanager
def measured(begin: Callable[[], Span], sink: Callable[[Span], None] = record) -> Iterator[Attributes]:
    """Measure the block as the span that `begin` makes, whose times are replaced, and give it to `sink`. Inside the
    block it is the current span of OpenTelemetry, so what others instrument becomes part of the trace. What is put into
    the attributes goes along; an exception is noted there, by its code if it has one, and goes on."""
    if not _open:
        yield {}
        return
    span = begin()
    said: Attributes = dict(span.attributes)
    lasting = Lasting()
    try:
        with _open[0].current(span.place):
            yield said
    except BaseException as error:
        said.setdefault(ERROR, str(getattr(error, "code", "") or type(error).__name__))
        raise
    finally:
        sink(replace(span, start_ns=lasting.began_ns, end_ns=lasting.until_ns(), attributes=said))


class _Exporter:
    """Makes spans of OpenTelemetry with the ids that ours have. Raises ImportError where it is not installed."""

    def __init__(self, role: str) -> None:
        from opentelemetry import trace
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
        from opentelemetry.sdk.trace import TracerProvider
        from opentelemetry.sdk.trace.export import BatchSpanProcessor
        from opentelemetry.sdk.trace.id_generator import RandomIdGenerator

        self._next: ContextVar[Place | None] = ContextVar("next", default=None)
        exporter = self

        class Ids(RandomIdGenerator):
            """Ours where we say so; random for what specialists instrument."""

            def generate_trace_id(self) -> int:
                place = exporter._next.get()
                return int(place.trace, 16) if place else super().generate_trace_id()

            def generate_span_id(self) -> int:
                place = exporter._next.get()
                return int(place.span, 16) if place else super().generate_span_id()

        self._provider = TracerProvider(resource=_resource(role), id_generator=Ids(), shutdown_on_exit=False)
        delay_ms = None if "OTEL_BSP_SCHEDULE_DELAY" in os.environ else DELAY_MS
        queue = None if "OTEL_BSP_MAX_QUEUE_SIZE" in os.environ else QUEUE
        self._provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter(), queue, delay_ms))
        self._tracer = self._provider.get_tracer("blackboard")
        if not isinstance(trace.get_tracer_provider(), TracerProvider):  # so that specialists need not make one
            trace.set_tracer_provider(self._provider)

    def record(self, span: Span) -> None:
        from opentelemetry.trace import Link, SpanKind, Status, StatusCode

        if not self._is_sampled(span.place.trace):
            return
        mine = self._next.set(span.place)
        try:
            started = self._tracer.start_span(
                span.name,
                self._context(Place(span.place.trace, span.parent) if span.parent else None),
                SpanKind[span.kind.upper()],
                span.attributes,
                [Link(self._span_context(place)) for place in span.links],
                span.start_ns,
            )
        finally:
            self._next.reset(mine)
        if failure := span.attributes.get(ERROR):
            started.set_status(Status(StatusCode.ERROR, str(failure)))
        started.end(max(span.start_ns, span.end_ns))

    @contextmanager
    def current(self, place: Place) -> Iterator[None]:
        from opentelemetry import context

        token = context.attach(self._context(place))
        try:
            yield
        finally:
            context.detach(token)

    def close(self) -> None:
        """A collector that does not answer gets CLOSE_S seconds."""
        closing = threading.Thread(target=self._provider.shutdown, daemon=True)
        closing.start()
        closing.join(CLOSE_S)
        if closing.is_alive():
            _logger.warning("the collector did not take the last spans within %g s", CLOSE_S)

    def _is_sampled(self, trace: str) -> bool:
        """Asked of the trace alone, so that all processes keep or drop the same traces."""
        decision: Any = self._provider.sampler.should_sample(None, int(trace, 16), "").decision
        return bool(decision.is_sampled())

    def _context(self, place: Place | None) -> "Context":
        from opentelemetry.context import Context
        from opentelemetry.trace import NonRecordingSpan, set_span_in_context

        return set_span_in_context(NonRecordingSpan(self._span_context(place)), Context()) if place else Context()

    def _span_context(self, place: Place) -> "SpanContext":
        from opentelemetry.trace import SpanContext, TraceFlags

        flags = TraceFlags(TraceFlags.SAMPLED if self._is_sampled(place.trace) else TraceFlags.DEFAULT)
        return SpanContext(int(place.trace, 16), int(place.span, 16), is_remote=True, trace_flags=flags)


def _resource(role: str) -> Any:
    from opentelemetry.sdk.resources import Resource

    said: dict[str, str | int] = {"process.pid": os.getpid(), "service.namespace": "blackboard"}
    if not os.environ.get("OTEL_SERVICE_NAME"):
        said["service.name"] = f"blackboard-{role}"
    return Resource.create(said)
