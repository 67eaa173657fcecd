"""What a supervisor has read of the log and not handled yet. Reading pauses while it is too much."""

import asyncio
from collections.abc import Sequence

from blackboard.log import Message

BUFFER = 10_000
"""Messages read ahead before reading pauses."""


class Inbox:
    """`news` is set whenever something came."""

    def __init__(self, news: asyncio.Event) -> None:
        self._messages: list[Message] = []
        self._news, self._room = news, asyncio.Event()

    def __len__(self) -> int:
        return len(self._messages)

    async def on_messages(self, messages: Sequence[Message]) -> None:
        """The handler of a subscription."""
        self._messages += messages
        self._news.set()
        if len(self._messages) > BUFFER:
            self._room.clear()
            await self._room.wait()

    def first(self, count: int | None = None) -> list[Message]:
        """The next messages, all of them without `count`; they stay until they are dropped."""
        return self._messages[:count]

    def drop(self, count: int) -> None:
        """The first `count` messages are handled."""
        del self._messages[:count]
        self._room.set()
