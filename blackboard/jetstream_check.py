"""Looks at the streams of a board as they are, and mends what can be mended in place."""

import asyncio
from collections.abc import Mapping
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
SILENT_S = 4.0
"""A server that the leader has not heard for so long is away: each says every second that it is there."""
_NANOSECONDS = 1_000_000_000


class Copies(NamedTuple):
    """How a stream lies on the servers of a cluster, as one of them sees it: `wanted` servers, of which some are `away`
    and some `behind`. Without a leader, or with a majority away, nothing can be written."""

    wanted: int
    has_leader: bool
    away: list[str]
    behind: list[str]

    @property
    def writable(self) -> bool:
        return self.has_leader and 2 * len(self.away) < self.wanted


class Found(NamedTuple):
    """A stream as it is. `config` is None where there is none, or where it may not be asked for: `refused` says so.
    `copies` is None where `config` is."""

    stream: str
    config: dict[str, Any] | None
    deviations: list[Deviation]
    unknown: list[str]
    refused: str = ""
    copies: Copies | None = None


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
            info = await _info(connection, expected["name"])
        except NotPermitted as refused:
            found.append(Found(expected["name"], None, [], [], str(refused)))
            continue
        if info is None:
            found.append(Found(expected["name"], None, [], []))
            continue
        config, copies = info["config"], copies_of(info, connection.server_name)
        differs, unknown = list(deviations(expected, config)), unknown_settings(expected, config)
        found.append(Found(expected["name"], config, differs, unknown, copies=copies))
    return found


def copies_of(info: Mapping[str, Any], asked: str) -> Copies:
    """What the answer about a stream says of its servers, of which `asked` is there. The one that leads tells of the
    others, and for how long it has heard nothing of each; where none leads, one tells of all whom it heard last.
    Source: ClusterInfo and PeerInfo of nats-server 2.15."""
    wanted, cluster = int(info["config"].get("num_replicas", 1)), info.get("cluster") or {}
    has_leader = not cluster or bool(cluster.get("leader"))
    away, behind = [], []
    for one in cluster.get("replicas") or ():
        current, silent_ns = bool(one.get("current")), one.get("active", 0)
        if one["name"] == asked:
            gone = False
        elif has_leader:
            gone = silent_ns > SILENT_S * _NANOSECONDS or not (current or silent_ns)
        else:
            gone = not current
        if gone or one.get("offline"):
            away.append(str(one["name"]))
        elif not current and has_leader:
            behind.append(str(one["name"]))
    return Copies(wanted, has_leader, sorted(away), sorted(behind))


async def _info(connection: Connection, stream: str) -> dict[str, Any] | None:
    try:
        return await connection.api(f"STREAM.INFO.{stream}")
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
