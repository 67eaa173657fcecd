"""Announcements on core NATS, on a subject that no stream captures. Source: the promises in `announcements`."""

import contextlib
from collections.abc import AsyncIterator

from blackboard.nats_connection import Connection
from blackboard.nats_errors import Disconnected
from blackboard.nats_heard import heard, say
from schemas.subjects import Subjects


class NatsAnnouncements:
    """One board's announcements over one connection. An identity that may not announce is not told so: nobody hears
    it, itself among them."""

    def __init__(self, connection: Connection, subjects: Subjects) -> None:
        self._connection, self._subject = connection, subjects.lead

    async def announce(self, data: bytes) -> None:
        if self._connection.is_up:  # else nats-py keeps it, and sends later what was true now
            with contextlib.suppress(Disconnected):
                await say(self._connection, self._subject, data)

    def heard(self) -> AsyncIterator[bytes]:
        return self._data(heard(self._connection, self._subject))

    async def _data(self, messages: AsyncIterator[tuple[str, bytes]]) -> AsyncIterator[bytes]:
        async for _, data in messages:
            yield data
