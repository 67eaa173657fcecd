"""A TCP proxy between a client and a real server that can lose what the server says."""

import asyncio
import contextlib
from collections.abc import Callable


class Proxy:
    """Forwards to `port`. `lose` is asked for each message from the server, as raw protocol, whether to lose it; `cut`
    ends every connection, as a broken network does."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._server: asyncio.Server | None = None
        self._links: set[asyncio.Task[None]] = set()
        self.lose: Callable[[bytes], bool] = lambda _: False

    @property
    def url(self) -> str:
        assert self._server is not None
        return f"nats://127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def __aenter__(self) -> "Proxy":
        self._server = await asyncio.start_server(self._link, "127.0.0.1", 0)
        return self

    async def __aexit__(self, *_: object) -> None:
        assert self._server is not None
        self._server.close()
        await self.cut()

    async def cut(self) -> None:
        links = list(self._links)
        for link in links:
            link.cancel()
        await asyncio.gather(*links, return_exceptions=True)

    async def _link(self, client_reader: asyncio.StreamReader, client_writer: asyncio.StreamWriter) -> None:
        link = asyncio.current_task()
        assert link is not None
        self._links.add(link)
        server_reader, server_writer = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            forth = asyncio.create_task(_copy(client_reader, server_writer))
            back = asyncio.create_task(self._copy_messages(server_reader, client_writer))
            try:
                await asyncio.wait([forth, back], return_when=asyncio.FIRST_COMPLETED)
            finally:
                forth.cancel()
                back.cancel()
                await asyncio.gather(forth, back, return_exceptions=True)
        except asyncio.CancelledError:
            pass  # by `cut`; a stream server reports it as an error otherwise
        finally:
            self._links.discard(link)
            for writer in (server_writer, client_writer):
                writer.transport.abort()

    async def _copy_messages(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Forward line by line, a message together with its payload."""
        while line := await reader.readline():
            message = line
            if line.startswith((b"MSG", b"HMSG")):
                message += await reader.readexactly(int(line.split()[-1]) + 2)
            if not self.lose(message):
                writer.write(message)
                await writer.drain()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(ConnectionError):
        while data := await reader.read(65536):
            writer.write(data)
            await writer.drain()


class LoseAcks:
    """Loses the next `count` acknowledgements of the log, and what else `also` names."""

    def __init__(self, count: int) -> None:
        self.left = count

    def __call__(self, message: bytes) -> bool:
        if self.left and b'"stream":"BOARD_' in message and (b'"seq":' in message) and b'"type"' not in message:
            self.left -= 1
            return True
        return False
