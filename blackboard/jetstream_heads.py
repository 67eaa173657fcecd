"""A stream that keeps lines of text in their order, one message each, on any server or account: a notary's witness.

Nobody can delete or change a line there but the administrator of that server. Source: docs/auditing.md, section Heads.
"""

import contextlib
import os
from collections.abc import AsyncGenerator
from typing import Any
from urllib.parse import parse_qsl

from blackboard import jetstream_wire as wire
from blackboard.credentials import read_credentials
from blackboard.jetstream_append import BATCH_FROM, Appender
from blackboard.jetstream_read import Reader
from blackboard.log import Append, LogError, Stored
from blackboard.nats_connection import ANSWER_TIMEOUT_S, Connection, connect
from blackboard.nats_errors import ApiError
from blackboard.nats_tls import CA

DEADLINE_S = 5.0


class HeadsStream:
    """The stream of `subject` on the server at `url`; line n is its nth message. `url` may end in
    `?creds=FILE&ca=FILE`: who we are there, and the authorities for that server (else $BLACKBOARD_CA). Raises
    ValueError."""

    def __init__(self, url: str, subject: str) -> None:
        self.name = f"{url}#{subject}"
        self._url, _, query = url.partition("?")
        options = dict(parse_qsl(query, strict_parsing=True)) if query else {}
        self._credentials, self._ca = options.pop("creds", ""), options.pop("ca", "") or os.environ.get(CA, "")
        if options:
            raise ValueError(f"{', '.join(options)} is not known there")
        self._subject, self._stream = subject, f"HEADS_{subject.replace('.', '_')}"
        self._connection: Connection | None = None

    async def claim(self) -> None:
        """Make the stream where it does not exist. Raises LogUnavailable, LogError."""
        connection = await self._connected()
        config: dict[str, Any] = {
            "name": self._stream,
            "subjects": [self._subject],
            "storage": "file",
            "retention": "limits",
            "deny_delete": True,
            "deny_purge": True,
            "allow_direct": True,
        }
        with contextlib.suppress(ApiError):  # it may only append, or the stream is there with replicas
            await connection.api(f"STREAM.CREATE.{self._stream}", config)

    async def read(self) -> AsyncGenerator[bytes, None]:
        """Each line, the oldest first. Raises LogDamaged where one is missing, LogUnavailable, LogError."""
        connection = await self._connected()
        try:
            answer = await connection.api(f"STREAM.INFO.{self._stream}")
        except ApiError as error:
            if error.err_code == wire.NO_STREAM:
                raise LogError(f"no notary has left anything at {self.name}") from None
            raise
        end, reader = int(answer["state"]["last_seq"]), Reader(connection, self._stream)
        try:
            if end:
                await reader.open()
            while reader.position < end:
                messages = await reader.next()
                for message in messages:
                    yield message.data
                if not messages:
                    await reader.require(reader.position + 1)
        finally:
            await reader.close()

    async def append(self, number: int, line: bytes) -> None:
        """Keep `line` as the `number`th; the same one again changes nothing. Raises LogUnavailable, LogError."""
        connection = await self._connected()
        appender = Appender(
            connection, self._stream, batch_from=BATCH_FROM, ack_timeout_s=ANSWER_TIMEOUT_S, deadline_s=DEADLINE_S
        )
        (outcome,) = await appender.append([Append(self._subject, line, expected=number - 1)])
        if outcome != Stored(number):
            raise LogError(f"{self.name} has another head {number}: another notary writes there")

    async def close(self) -> None:
        if self._connection is not None:
            await self._connection.close()
            self._connection = None

    async def _connected(self) -> Connection:
        if self._connection is None:
            credentials = read_credentials(self._credentials) if self._credentials else None
            self._connection = await connect(self._url, "notary", credentials=credentials, ca=self._ca)
        return self._connection
