"""Announcements between processes of one event loop. Source: the promises in `announcements`."""

import asyncio
from collections.abc import AsyncIterator


class MemoryAnnouncements:
    def __init__(self) -> None:
        self._listening: list[asyncio.Queue[bytes]] = []

    async def announce(self, data: bytes) -> None:
        for one in self._listening:
            one.put_nowait(data)

    def heard(self) -> AsyncIterator[bytes]:
        said: asyncio.Queue[bytes] = asyncio.Queue()
        self._listening.append(said)
        return self._heard(said)

    async def _heard(self, said: "asyncio.Queue[bytes]") -> AsyncIterator[bytes]:
        try:
            while True:
                yield await said.get()
        finally:
            self._listening.remove(said)
