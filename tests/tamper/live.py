"""What the administrator can do to the stream of a server that runs: change its settings, or delete it and make it
again. Deleting or purging messages is refused by the server itself.
"""

import asyncio
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

from msgspec import Struct

from blackboard.jetstream_streams import LOG_ID, log_config
from blackboard.nats_connection import Connection
from schemas.subjects import Subjects
from tests.end_to_end.support import past_the_client
from tests.tamper.recorded import Recorded

STREAM = "BOARD_main"
ANEW = "created anew"
WINDOW_NS = 100_000_000
"""Of duplicates: as short as an age may be."""


class LiveAttack(Struct, frozen=True):
    """`do` is called with the administrator's connection. Each of `changed` must be named, and `says` stand there.
    `anew`: every message is another one, and it is enough to say that the log is another."""

    kind: str
    do: Callable[[Connection], Awaitable[None]]
    changed: tuple[int, ...]
    says: str
    anew: bool = False

    async def on(self, url: str) -> None:
        async with past_the_client(url) as connection:
            await self.do(connection)


def attacks(recorded: Recorded) -> Iterator[LiveAttack]:
    everything = range(1, len(recorded.messages) + 1)
    for kept in (1, len(everything) // 2, len(everything) - 1):
        gone = tuple(everything[: len(everything) - kept])
        yield LiveAttack("max_msgs shrunk, and set back", _limited("max_msgs", kept), gone, "missing")
    last = {message.subject: message.seq for message in recorded.messages}
    gone = tuple(seq for seq in everything if seq not in last.values())
    yield LiveAttack("max_msgs_per_subject set to 1, and back", _limited("max_msgs_per_subject", 1), gone, "missing")
    gone = tuple(everything)
    yield LiveAttack("max_age set to 0.1 s, and back", _limited("max_age", WINDOW_NS, 0, 1.0), gone, "missing")
    yield LiveAttack("deleted and made again", _made_again(recorded, "another", []), (1,), ANEW, True)
    yield LiveAttack("deleted and made again, with all messages", _made_again(recorded, "another"), (1,), ANEW, True)
    empty = _made_again(recorded, recorded.log_id, [])
    yield LiveAttack("made again under its id, empty", empty, gone, "cut off")
    whole = _made_again(recorded, recorded.log_id)
    yield LiveAttack("made again under its id, with all messages", whole, gone, "not the one that the notary signed")
    for seq in (1, len(everything) // 2, len(everything)):
        without = _made_again(recorded, recorded.log_id, [one for one in everything if one != seq])
        yield LiveAttack("made again under its id, without one", without, gone, "the log ends at sequence")


def _limited(name: str, value: int, before: int = -1, after_s: float = 0.0) -> Callable[[Connection], Awaitable[None]]:
    async def do(connection: Connection) -> None:
        await set_limit(connection, name, value)
        if after_s:
            await _emptied(connection, after_s)
        await set_limit(connection, name, before)

    return do


async def set_limit(connection: Connection, name: str, value: int) -> None:
    config: dict[str, Any] = (await connection.api(f"STREAM.INFO.{STREAM}"))["config"]
    await connection.api(f"STREAM.UPDATE.{STREAM}", config | {name: value, "duplicate_window": WINDOW_NS})


async def _emptied(connection: Connection, within_s: float) -> None:
    """The server looks at ages now and then."""
    async with asyncio.timeout(10 * within_s):
        while (await connection.api(f"STREAM.INFO.{STREAM}"))["state"]["messages"]:  # noqa: ASYNC110
            await asyncio.sleep(0.02)


def _made_again(
    recorded: Recorded, log_id: str, seqs: list[int] | None = None
) -> Callable[[Connection], Awaitable[None]]:
    """The messages at `seqs` (None: all) are published again."""

    async def do(connection: Connection) -> None:
        await connection.api(f"STREAM.DELETE.{STREAM}")
        config = {key: value for key, value in log_config(Subjects()).items() if value not in (None, False)}
        await connection.api(f"STREAM.CREATE.{STREAM}", config | {"metadata": {LOG_ID: log_id}})
        for message in recorded.messages:
            if seqs is None or message.seq in seqs:
                _, answer = await connection.ask(message.subject, message.data, message.headers)
                await asyncio.wait_for(answer, 10)

    return do
