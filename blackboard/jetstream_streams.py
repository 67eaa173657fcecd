"""The streams of a board: what they must be, how they are made, and how an existing one is checked.

Source: docs/protocol.md, sections Subjects and Streams.
"""

import secrets
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from blackboard import jetstream_wire as wire
from blackboard.log import LogError
from blackboard.nats_connection import Connection
from blackboard.nats_errors import ApiError
from blackboard.queue import DEDUPE_WINDOW_S
from blackboard.stream_deviations import deviations
from schemas.subjects import Subjects

LOG_ID = "blackboard-log"
"""The key in the log stream's metadata that holds the log's id."""

RESTORING = "blackboard-restoring"
"""The key in a stream's metadata that says that a restore is not complete."""

_NANOSECONDS = 1_000_000_000

Api = Callable[[str, dict[str, Any]], Awaitable[dict[str, Any]]]
"""Asks JetStream's API: the verb with what it is about, and the body."""

_NEVER = {
    # Each of these is a way around the permissions: a header of a message would write, replace or remove another one.
    "allow_msg_schedules": False,
    "allow_msg_ttl": False,
    "allow_rollup_hdrs": False,
    "allow_msg_counter": False,
    "subject_delete_marker_ttl": 0,
    "allow_batched": False,
}
_NO_LIMITS = {
    "max_msgs": -1,
    "max_bytes": -1,
    "max_age": 0,
    "max_msgs_per_subject": -1,
    "max_msg_size": -1,
    "max_consumers": -1,
}
_ACKNOWLEDGED = {"no_ack": False, "persist_mode": None}
_ALONE = {"mirror": None, "sources": None, "republish": None, "subject_transform": None, "sealed": False}

_KEPT = {
    # What cannot be worked out again.
    "storage": "file",
    "retention": "limits",
    "deny_delete": True,
    "deny_purge": True,
    "allow_direct": True,
    **_NEVER,
    **_ALONE,
    **_ACKNOWLEDGED,
}


class NoBoard(LogError):
    """The server has no board of that name."""

    exit_code = 69


class StreamMismatch(LogError):
    """A stream of that name exists and is not what a board needs."""


def log_config(subjects: Subjects) -> dict[str, Any]:
    """What the log's stream must be. Families are listed one by one: cancels must not be captured."""
    return {
        "name": subjects.log_stream,
        "subjects": subjects.log,
        "discard": "old",
        "allow_atomic": True,
        **_NO_LIMITS,
        **_KEPT,
    }


def blob_config(subjects: Subjects) -> dict[str, Any]:
    """What the stream of the blobs must be: each part of a blob is stored once, and never another in its place."""
    return {
        "name": subjects.blob_stream,
        "subjects": [subjects.blobs],
        "discard": "new",
        "discard_new_per_subject": True,
        **_NO_LIMITS,
        "max_msgs_per_subject": 1,
        **_KEPT,
    }


def task_config(subjects: Subjects) -> dict[str, Any]:
    """What the task queue's stream must be: one message a subject, and a second one refused, not taken instead."""
    return {
        "name": subjects.task_stream,
        "subjects": [subjects.tasks],
        "storage": "memory",
        "retention": "workqueue",
        "discard": "new",
        "discard_new_per_subject": True,
        "duplicate_window": int(DEDUPE_WINDOW_S * _NANOSECONDS),
        **_NO_LIMITS,
        **_NEVER,
        **_ALONE,
        **_ACKNOWLEDGED,
        "max_msgs_per_subject": 1,
    }


def board_configs(subjects: Subjects) -> list[dict[str, Any]]:
    """What all streams of a board must be: the log, the blobs, the task queue."""
    return [log_config(subjects), blob_config(subjects), task_config(subjects)]


async def make_stream(
    connection: Connection,
    config: Mapping[str, Any],
    *,
    replicas: int = 1,
    fixed: Mapping[str, Any],
    deadline_s: float | None = None,
) -> dict[str, Any]:
    """Create the stream unless it exists, and return its config. `fixed` is given to it when it is created, and an
    existing one may have other values. Raises StreamMismatch, LogUnavailable, LogError."""
    wanted = {key: value for key, value in config.items() if value not in (None, False, 0)}
    wanted |= {"num_replicas": replicas, **fixed}
    for _ in range(2):
        try:
            existing = await connection.api(f"STREAM.INFO.{config['name']}", None, deadline_s)
            break
        except ApiError as error:
            if error.err_code != wire.NO_STREAM:
                raise
        try:
            existing = await connection.api(f"STREAM.CREATE.{config['name']}", wanted, deadline_s)
            break
        except ApiError as error:
            if error.err_code != wire.NAME_TAKEN:
                raise  # else somebody created it between our two requests
    else:
        raise LogError(f"stream {config['name']} is created and removed by somebody else all the time")
    check_stream(config, existing["config"])
    return dict(existing["config"])


def check_stream(expected: Mapping[str, Any], actual: Mapping[str, Any]) -> None:
    """Raise StreamMismatch when the stream deviates from what it must be."""
    if (actual.get("metadata") or {}).get(RESTORING):
        raise StreamMismatch(
            f"stream {expected['name']} is no board yet: a restore of it was not completed, or goes on; "
            "do it again with `blackboard restore`"
        )
    found = list(deviations(expected, actual))
    if found:
        said = "; ".join(f"{one.what} ({one.why})" for one in found)
        raise StreamMismatch(
            f"stream {expected['name']} is not what a board needs: {said}; `blackboard doctor` says how to mend it"
        )


async def subjects_of(api: Api, stream: str, pattern: str) -> list[str]:
    """The subjects below `pattern` of which the stream has messages, a page of them at a time."""
    found: list[str] = []
    total = 1
    while len(found) < total:
        answer = await api(f"STREAM.INFO.{stream}", {"subjects_filter": pattern, "offset": len(found)})
        page = answer["state"].get("subjects") or {}
        total = int(answer.get("total", 0))
        found += page
        if not page:
            break  # the stream lost some while its pages were turned
    return found


async def make_log(connection: Connection, subjects: Subjects, replicas: int = 1) -> str:
    """Create the board's log unless it exists, and return its id."""
    fixed = {"metadata": {LOG_ID: secrets.token_hex(16)}}
    config = await make_stream(connection, log_config(subjects), replicas=replicas, fixed=fixed)
    return log_id_of(subjects, config)


async def make_blobs(connection: Connection, subjects: Subjects, replicas: int = 1) -> None:
    """Create the stream of the board's blobs unless it exists."""
    await make_stream(connection, blob_config(subjects), replicas=replicas, fixed={})


async def read_log_id(connection: Connection, subjects: Subjects, deadline_s: float | None = None) -> str:
    """The id of the board's log. Raises NoBoard, StreamMismatch, LogUnavailable."""
    try:
        answer = await connection.api(f"STREAM.INFO.{subjects.log_stream}", None, deadline_s)
    except ApiError as error:
        if error.err_code == wire.NO_STREAM:
            raise NoBoard(f"there is no board {subjects.board!r} at {connection.url}: its log does not exist") from None
        raise
    check_stream(log_config(subjects), answer["config"])
    return log_id_of(subjects, answer["config"])


def log_id_of(subjects: Subjects, config: Mapping[str, Any]) -> str:
    log_id = (config.get("metadata") or {}).get(LOG_ID)
    if not log_id:
        raise StreamMismatch(f"stream {subjects.log_stream} has no log id in its metadata ({LOG_ID}): it is no board")
    return str(log_id)
