"""The backup of a stream, and restoring it, as an administrator's tool does it: by the server's own interface.

Source: NATS documentation, JetStream API reference, sections Snapshots and Restores.
"""

import asyncio
from typing import Any, NamedTuple

import msgspec
from nats.aio.msg import Msg

from blackboard.nats_connection import Connection

PATIENCE_S = 10
CHUNK_BYTES = 64 * 1024


class Backup(NamedTuple):
    """`answer` is what the server said of the stream."""

    answer: dict[str, Any]
    chunks: list[bytes]


async def take_backup(connection: Connection, stream: str) -> Backup:
    """All messages of `stream`, without its consumers."""
    chunks: list[bytes] = []
    complete = asyncio.Event()

    async def on_chunk(message: Msg) -> None:
        if not message.data:
            complete.set()
            return
        chunks.append(message.data)
        await connection.publish(message.reply)

    inbox = connection.client.new_inbox()
    listener = await connection.listen(inbox, on_chunk)
    wanted = {"deliver_subject": inbox, "no_consumers": True, "chunk_size": CHUNK_BYTES}
    answer = await connection.api(f"STREAM.SNAPSHOT.{stream}", wanted)
    async with asyncio.timeout(PATIENCE_S):
        await complete.wait()
    await listener.close()
    return Backup(answer, chunks)


async def restore(connection: Connection, stream: str, backup: Backup) -> None:
    """Put the stream where none of that name is, as it was, sequences and times of its messages included."""
    told = {"config": backup.answer["config"], "state": backup.answer["state"]}
    where = (await connection.api(f"STREAM.RESTORE.{stream}", told))["deliver_subject"]
    for chunk in [*backup.chunks, b""]:
        message = await connection.request(where, chunk, PATIENCE_S)
        assert not message.data or "error" not in msgspec.json.decode(message.data), message.data
