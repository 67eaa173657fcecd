"""Log lines of the processes that go on: for people by default, one JSON object a line with BLACKBOARD_LOG=json.

Modules use the standard library's logging and pass what they know as `extra`; FIELDS are those that are written. The
trace id of a line that names a run is derived, as everywhere.
"""

import json
import logging
import os
from datetime import UTC, datetime

from schemas.spans import trace_id

VARIABLE = "BLACKBOARD_LOG"
FIELDS = ("run", "task", "attempt", "specialist", "execution", "latency_ms", "tokens", "micro_usd", "code", "trace_id")


def as_json() -> bool:
    return os.environ.get(VARIABLE, "").strip().lower() == "json"


def set_up(level: int = logging.INFO) -> "Lines":
    """Write log lines to stderr: from `level` on for people, from INFO on as JSON. Tell the result which log the runs
    belong to, once that is known."""
    lines = JsonLines() if as_json() else Lines()
    handler = logging.StreamHandler()
    handler.setFormatter(lines)
    logging.basicConfig(level=logging.INFO if as_json() else level, handlers=[handler])
    return lines


class Lines(logging.Formatter):
    """`LEVEL module: message  field value  field value`. `log` is the log's id; without it no trace is named."""

    def __init__(self) -> None:
        super().__init__("%(levelname)s %(name)s: %(message)s")
        self.log = ""

    def fields(self, record: logging.LogRecord) -> dict[str, object]:
        """What the line is about; what is empty is left out."""
        known = {name: value for name in FIELDS if (value := getattr(record, name, None)) not in (None, "")}
        if self.log and isinstance(run := known.get("run"), str):
            known["trace_id"] = trace_id(self.log, run)
        return known

    def formatMessage(self, record: logging.LogRecord) -> str:
        known = self.fields(record)
        known.pop("trace_id", None)
        return "  ".join([super().formatMessage(record), *(f"{name} {value}" for name, value in known.items())])


class JsonLines(Lines):
    def format(self, record: logging.LogRecord) -> str:
        line = {
            "time": datetime.fromtimestamp(record.created, UTC).isoformat(timespec="milliseconds"),
            "level": record.levelname,
            "logger": record.name,
            "message": record.getMessage(),
            **self.fields(record),
        }
        if record.exc_info:
            line["exception"] = self.formatException(record.exc_info)
        return json.dumps(line, default=str)
