"""What is said on core NATS, and heard as an iterator.

Whoever asks the server something may name any subject for the answer, also one on which others of his account listen;
and a direct get answers with bytes that he chose and stored before. So what is said carries one header and no other,
and nothing else is heard: to a stored message's headers the server adds its own, or it leaves all of them out.
"""

import asyncio
from collections.abc import AsyncIterator, Callable

from nats.aio.msg import Msg

from blackboard.log import NotPermitted
from blackboard.nats_connection import Connection, Listener
from blackboard.nats_errors import Disconnected

SAID = {"Blackboard": "said"}
"""The only headers of what is said."""


async def say(connection: Connection, subject: str, data: bytes) -> None:
    """Tell whoever listens on `subject` now. Raises Disconnected."""
    await connection.publish(subject, data, headers=dict(SAID))


def heard(connection: Connection, subject: str) -> AsyncIterator[tuple[str, bytes]]:
    """(subject, data) of each message that was said on `subject` from the call on; ends when the connection is closed.
    Raises NotPermitted."""
    messages: asyncio.Queue[Msg | NotPermitted | None] = asyncio.Queue()

    async def hear(message: Msg) -> None:
        if message.headers == SAID:
            messages.put_nowait(message)

    # Subscribed now and not at the first step: what is said after this call must be heard.
    listening = asyncio.ensure_future(connection.listen(subject, hear, messages.put_nowait))
    forget = connection.on_close(lambda: messages.put_nowait(None))
    return _heard(messages, listening, forget)


async def _heard(
    messages: "asyncio.Queue[Msg | NotPermitted | None]",
    listening: "asyncio.Future[Listener]",
    forget: Callable[[], None],
) -> AsyncIterator[tuple[str, bytes]]:
    try:
        await listening
        while (message := await messages.get()) is not None:
            if isinstance(message, NotPermitted):
                raise message
            yield message.subject, message.data
    except Disconnected:
        return
    finally:
        forget()
        if listening.done() and not listening.cancelled() and not listening.exception():
            await listening.result().close()
