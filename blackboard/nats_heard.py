"""What comes on a subject of core NATS, as an iterator."""

import asyncio
from collections.abc import AsyncIterator, Callable

from nats.aio.msg import Msg

from blackboard.nats_connection import Connection, Listener
from blackboard.nats_errors import Disconnected


def heard(connection: Connection, subject: str) -> AsyncIterator[tuple[str, bytes]]:
    """(subject, data) of each message on `subject` from the call on; ends when the connection is closed."""
    messages: asyncio.Queue[Msg | None] = asyncio.Queue()

    async def hear(message: Msg) -> None:
        messages.put_nowait(message)

    # Subscribed now and not at the first step: what is said after this call must be heard.
    listening = asyncio.ensure_future(connection.listen(subject, hear))
    forget = connection.on_close(lambda: messages.put_nowait(None))
    return _heard(messages, listening, forget)


async def _heard(
    messages: "asyncio.Queue[Msg | None]", listening: "asyncio.Future[Listener]", forget: Callable[[], None]
) -> AsyncIterator[tuple[str, bytes]]:
    try:
        await listening
        while (message := await messages.get()) is not None:
            yield message.subject, message.data
    except Disconnected:
        return
    finally:
        forget()
        if listening.done() and not listening.cancelled() and not listening.exception():
            await listening.result().close()
