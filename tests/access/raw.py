"""A connection that speaks the protocol byte by byte, with valid credentials: for what no client library would send.
Source: the client protocol in NATS's documentation."""

import asyncio
import base64
import contextlib
import json
from collections.abc import AsyncIterator
from typing import Self
from urllib.parse import urlsplit

from blackboard.credentials import Credentials, Key

PATIENCE_S = 5.0


class Raw:
    """An open connection. `said` are the lines of the server that complain."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader, self._writer = reader, writer
        self.said: list[str] = []

    @classmethod
    @contextlib.asynccontextmanager
    async def connected(cls, url: str, credentials: Credentials) -> AsyncIterator[Self]:
        address = urlsplit(url)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        raw = cls(reader, writer)
        try:
            info = json.loads((await reader.readline()).removeprefix(b"INFO "))
            signature = base64.urlsafe_b64encode(Key(credentials.seed).sign(info["nonce"].encode())).decode()
            options = {"jwt": credentials.jwt, "sig": signature.rstrip("="), "verbose": False, "pedantic": False}
            options |= {"headers": True, "no_responders": True, "protocol": 1, "lang": "raw", "version": "0"}
            assert await raw.say(b"CONNECT " + json.dumps(options).encode() + b"\r\n"), raw.said
            yield raw
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()

    async def publish(self, subject: bytes, data: bytes = b"", reply: bytes = b"") -> bool:
        """See `say`."""
        words = b" ".join(word for word in (subject, reply) if word)
        return await self.say(b"PUB %b %d\r\n%b\r\n" % (words, len(data), data))

    async def say(self, line: bytes) -> bool:
        """Send `line`, and wait until the server has taken it. Whether the connection is still open then."""
        try:
            self._writer.write(line + b"PING\r\n")
            await self._writer.drain()
            async with asyncio.timeout(PATIENCE_S):
                while heard := await self._reader.readline():
                    if heard.startswith(b"-ERR"):
                        self.said.append(heard.decode().strip().lower())
                    if heard.startswith(b"PONG"):
                        return True
        except (OSError, TimeoutError):
            pass
        return False
