"""Looks at the streams of a board as they are, and mends what can be mended in place."""

import asyncio
from typing import Any, NamedTuple

import msgspec
from nats.aio.msg import Msg

from blackboard import jetstream_wire as wire
from blackboard.jetstream_streams import board_configs
from blackboard.log import NotPermitted
from blackboard.nats_connection import Connection
from blackboard.nats_errors import ApiError
from blackboard.stream_deviations import Deviation, deviations, unknown_settings
from schemas.subjects import Subjects

SERVERS = "$SYS.REQ.SERVER.PING.JSZ"
GATHER_S = 1.0
"""How long servers have to say what they are."""
_NANOSECONDS = 1_000_000_000


class Found(NamedTuple):
    """A stream as it is. `config` is None where there is none, or where it may not be asked for: `refused` says so."""

    stream: str
    config: dict[str, Any] | None
    deviations: list[Deviation]
    unknown: list[str]
    refused: str = ""


class Disk(NamedTuple):
    """When a server writes to disk what it has acknowledged: before it does (`always`), or every so many seconds; and
    how many bytes its streams have of those that they may have, as it saw its disk when it started."""

    server: str
    always: bool
    interval_s: float
    used: int
    limit: int


async def look(connection: Connection, subjects: Subjects) -> list[Found]:
    """The log, the blobs and the task queue. Raises LogUnavailable, LogError."""
    found = []
    for expected in board_configs(subjects):
        try:
            config = await _config(connection, expected["name"])
        except NotPermitted as refused:
            found.append(Found(expected["name"], None, [], [], str(refused)))
            continue
        differs = list(deviations(expected, config)) if config else []
        found.append(Found(expected["name"], config, differs, unknown_settings(expected, config) if config else []))
    return found


async def _config(connection: Connection, stream: str) -> dict[str, Any] | None:
    try:
        return dict((await connection.api(f"STREAM.INFO.{stream}"))["config"])
    except ApiError as error:
        if error.err_code == wire.NO_STREAM:
            return None
        raise


async def mend(connection: Connection, subjects: Subjects) -> list[Deviation]:
    """Give the streams the settings that a board needs, one by one; what was mended. A task queue is removed, since it
    is made anew. Needs the administrator. Raises LogUnavailable, NotPermitted, LogError."""
    mended: list[Deviation] = []
    for found in await look(connection, subjects):
        if found.stream == subjects.task_stream:
            if found.deviations:
                await connection.api(f"STREAM.DELETE.{found.stream}")
                mended += found.deviations
            continue
        changes = [one for one in found.deviations if one.changeable]
        if changes and found.config:
            wanted = found.config | {one.setting: one.wanted for one in changes}
            wanted = {name: value for name, value in wanted.items() if value is not None}
            await connection.api(f"STREAM.UPDATE.{found.stream}", wanted)
            mended += changes
    return mended


async def disks(system: Connection) -> list[Disk]:
    """What the servers say, asked as the system account; of a cluster all that answer in time."""
    told: list[Disk] = []

    async def on_answer(message: Msg) -> None:
        answer = msgspec.json.decode(message.data)
        data = answer.get("data") or {}
        config = data.get("config") or {}
        told.append(
            Disk(
                answer["server"]["name"],
                bool(config.get("sync_always")),
                config.get("sync_interval", 0) / _NANOSECONDS,
                data.get("storage", 0),
                config.get("max_storage", 0),
            )
        )

    inbox = system.client.new_inbox()
    listener = await system.listen(inbox, on_answer)
    try:
        await system.publish(SERVERS, b"", inbox)
        await asyncio.sleep(GATHER_S)
    finally:
        await listener.close()
    return told
