"""A collector: takes spans by OTLP over HTTP and keeps them, with kinds and links."""

import gzip
import threading
from collections import Counter
from collections.abc import Iterable
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, NamedTuple

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest


class Received(NamedTuple):
    """A span as it arrived; `process` are the attributes of the process that made it."""

    name: str
    kind: int
    trace: str
    id: str
    parent: str
    start_ns: int
    end_ns: int
    attributes: dict[str, Any]
    links: list[tuple[str, str]]
    failed: bool
    process: dict[str, Any]


INTERNAL, CLIENT, PRODUCER = 1, 3, 4


class Receiver:
    """Listens on a free port of this machine. `refuse` requests that come next are answered with 503."""

    def __init__(self, refuse: int = 0) -> None:
        self.spans: list[Received] = []
        self.refuse, self.refused = refuse, 0
        self._server = ThreadingHTTPServer(("127.0.0.1", 0), partial(_Handler, self))
        self.url = f"http://127.0.0.1:{self._server.server_port}"

    def __enter__(self) -> "Receiver":
        threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.05}, daemon=True).start()
        return self

    def __exit__(self, *_: object) -> None:
        self._server.shutdown()
        self._server.server_close()

    def take(self, body: bytes) -> None:
        for group in ExportTraceServiceRequest.FromString(body).resource_spans:
            process = _attributes(group.resource.attributes)
            self.spans += [_received(span, process) for scope in group.scope_spans for span in scope.spans]

    def of(self, trace: str) -> list[Received]:
        """The spans of one trace, each once; fails where a span came twice with another content."""
        found: dict[str, Received] = {}
        for span in [span for span in self.spans if span.trace == trace]:
            other = found.setdefault(span.id, span)
            assert other[:-1] == span[:-1], (other, span)
        return list(found.values())

    @property
    def repeated(self) -> int:
        return sum(count - 1 for count in Counter((span.trace, span.id) for span in self.spans).values())


class _Handler(BaseHTTPRequestHandler):
    def __init__(self, receiver: Receiver, *rest: Any) -> None:
        self.receiver = receiver
        super().__init__(*rest)

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        if self.receiver.refused < self.receiver.refuse:
            self.receiver.refused += 1
            self.send_response(503)
        else:
            self.receiver.take(gzip.decompress(body) if self.headers["Content-Encoding"] == "gzip" else body)
            self.send_response(200)
        self.send_header("Content-Length", "0")
        self.end_headers()

    def log_message(self, *_: Any) -> None:
        pass


def _received(span: Any, process: dict[str, Any]) -> Received:
    return Received(
        span.name,
        span.kind,
        span.trace_id.hex(),
        span.span_id.hex(),
        span.parent_span_id.hex(),
        span.start_time_unix_nano,
        span.end_time_unix_nano,
        _attributes(span.attributes),
        [(link.trace_id.hex(), link.span_id.hex()) for link in span.links],
        span.status.code == 2,
        process,
    )


def _attributes(pairs: Iterable[Any]) -> dict[str, Any]:
    return {pair.key: getattr(pair.value, pair.value.WhichOneof("value")) for pair in pairs}
