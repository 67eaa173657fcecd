"""A board out of a file that `jetstream_backup` wrote, on a server that has no such board.

The server stores a snapshot message by message, so a restore that is cut off leaves a stream that looks like a shorter
one. Therefore each is made under a mark, in its metadata, and on subjects that nobody uses, the log first; when all are
complete they get their true configuration, the log last. Until then no board is there and none can be made, and what
has the mark is removed by the next restore.
"""

import asyncio
import contextlib
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from blackboard import jetstream_wire as wire
from blackboard.backup_file import BackupFile, BadBackupFile, Part
from blackboard.jetstream_backup import Tell
from blackboard.jetstream_streams import RESTORING, board_configs, log_id_of, read_log_id
from blackboard.log import LogError
from blackboard.nats_connection import Connection
from blackboard.nats_errors import ApiError, status_of
from schemas.subjects import Subjects

CHUNK_TIMEOUT_S = 30.0
LAST_TIMEOUT_S = 120.0
"""The answer to the end of a snapshot comes when all of it is stored, on a cluster on all servers."""
CLEAN_UP_S = 5.0


class BoardExists(LogError):
    """There is a board of that name, or a part of one, and nothing was changed."""


class RestoreFailed(LogError):
    """There is no board of that name now; the text says why."""


async def restore(
    connection: Connection, file: BackupFile, *, replicas: int | None = None, tell: Tell = lambda *_: None
) -> None:
    """Make the board that `file`, which was checked, holds. `replicas`: None for as many as there were. All or nothing.
    Raises BoardExists, BadBackupFile, RestoreFailed, LogUnavailable."""
    subjects = Subjects(file.header.board)
    _check_parts(file, subjects)
    await clear_place(connection, subjects)
    mark = secrets.token_hex(16)
    try:
        for part in file.parts:  # the log first: while it is there, marked, nobody else makes it
            await _send(connection, file, part, mark, replicas, tell)
        await _delete(connection, subjects.task_stream)  # tasks of a log that was here before
        for part in reversed(file.parts):
            await _release(connection, subjects, part, replicas)
        if await read_log_id(connection, subjects) != file.header.log:
            raise RestoreFailed(f"the log of board {subjects.board!r} was made by somebody else meanwhile")
    except BaseException as error:
        undone = await asyncio.shield(_undo(connection, subjects, mark))
        if isinstance(error, LogError) and not undone:
            raise RestoreFailed(
                f"{error}; what was begun is still there, marked, and the next restore removes it"
            ) from error
        raise


async def clear_place(connection: Connection, subjects: Subjects) -> None:
    """Raise BoardExists unless the board's streams are absent; what a restore left that was cut off is removed."""
    marks = {stream: await _mark_of(connection, stream) for stream in subjects.kept}
    there = [stream for stream, mark in marks.items() if mark is not None]
    # The log is made first and released last, so while it has the mark, all of it is the rest of one restore.
    if there and not marks[subjects.log_stream]:
        raise BoardExists(
            f"board {subjects.board!r} exists at {connection.url} ({', '.join(there)}), and a restore replaces "
            "nothing: use another server, or remove those streams as its administrator"
        )
    for stream in reversed(there):
        await _delete(connection, stream)


def _check_parts(file: BackupFile, subjects: Subjects) -> None:
    streams = [part.stream for part in file.parts]
    log = file.parts[0].beginning if file.parts else None
    if streams != subjects.kept or log is None:
        raise BadBackupFile(f"{file.path}: it holds {', '.join(streams) or 'nothing'}, not {', '.join(subjects.kept)}")
    if (log_id_of(subjects, log.config), log.state.get("last_seq")) != (file.header.log, file.header.last):
        raise BadBackupFile(f"{file.path}: its header tells of another log than it holds")


async def _send(
    connection: Connection, file: BackupFile, part: Part, mark: str, replicas: int | None, tell: Tell
) -> None:
    """Send one snapshot, and see that all of it is there."""
    subjects = Subjects(file.header.board)
    stream, state = part.stream, part.beginning.state
    config = _config(subjects, part, replicas) | {"subjects": [f"restoring.{stream}"], "metadata": {RESTORING: mark}}
    try:
        told = await connection.api(f"STREAM.RESTORE.{stream}", {"config": config, "state": state})
    except ApiError as error:
        raise RestoreFailed(f"the server does not take {stream}: {error.description}") from None
    where, done = told["deliver_subject"], 0
    for chunk in file.chunks(part):
        await _tell_server(connection, where, chunk, CHUNK_TIMEOUT_S)
        done += len(chunk)
        tell(stream, done, part.ending.bytes)
    await _tell_server(connection, where, b"", LAST_TIMEOUT_S)
    found = (await connection.api(f"STREAM.INFO.{stream}"))["state"]
    for what in ("messages", "last_seq", "num_deleted"):
        if found.get(what, 0) != state.get(what, 0):
            raise RestoreFailed(
                f"{stream} has {what} {found.get(what, 0)} after the restore, and {state.get(what, 0)} before"
            )


async def _tell_server(connection: Connection, where: str, chunk: bytes, timeout_s: float) -> None:
    message = await connection.request(where, chunk, timeout_s)
    answer = msgspec.json.decode(message.data) if message.data else {}
    if "error" in answer or status_of(message):
        why = answer.get("error", {}).get("description") or status_of(message)
        raise RestoreFailed(f"the server gave up the restore: {why}")


async def _release(connection: Connection, subjects: Subjects, part: Part, replicas: int | None) -> None:
    """Give the stream its true configuration."""
    await connection.api(f"STREAM.UPDATE.{part.stream}", _config(subjects, part, replicas))


def _config(subjects: Subjects, part: Part, replicas: int | None) -> dict[str, Any]:
    """What the stream was, but for what a board needs otherwise."""
    config = dict(part.beginning.config)
    metadata: Mapping[str, str] = config.get("metadata") or {}
    config["metadata"] = {key: value for key, value in metadata.items() if not key.startswith("_nats.")}
    for needed in board_configs(subjects):
        if needed["name"] == part.stream:
            config |= needed
    config |= {} if replicas is None else {"num_replicas": replicas}
    return {key: value for key, value in config.items() if value is not None}


async def _mark_of(connection: Connection, stream: str) -> str | None:
    """The mark of the restore that makes the stream; empty when it is complete, None when there is no such stream."""
    try:
        config = (await connection.api(f"STREAM.INFO.{stream}"))["config"]
    except ApiError as error:
        if error.err_code == wire.NO_STREAM:
            return None
        raise
    return str((config.get("metadata") or {}).get(RESTORING, ""))


async def _undo(connection: Connection, subjects: Subjects, mark: str) -> bool:
    """Remove what this restore made unless it is complete; whether there is nothing left of it."""
    with contextlib.suppress(LogError, TimeoutError):
        async with asyncio.timeout(CLEAN_UP_S):
            if await _mark_of(connection, subjects.log_stream) == mark:
                for stream in reversed(subjects.kept):
                    await _delete(connection, stream)
            return True
    return False


async def _delete(connection: Connection, stream: str) -> None:
    try:
        await connection.api(f"STREAM.DELETE.{stream}")
    except ApiError as error:
        if error.err_code != wire.NO_STREAM:
            raise
