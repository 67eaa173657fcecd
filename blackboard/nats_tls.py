"""TLS of a NATS connection: which servers are trusted, and what is said of one that is not.

nats-py encrypts when the server asks for it and otherwise sends credentials in the clear, whatever the client was told;
here a client that was told to use TLS goes away before it has said who it is. It also waits for a peer that has gone
silent to take part in the closing of a connection, half a minute by default, before it tries the next server; here the
connection is cut.
Source: NATS architecture decision record 40 (connecting), and asyncio's and OpenSSL's documentation.
"""

import asyncio
import ssl
from pathlib import Path
from urllib.parse import ParseResult

from nats import errors
from nats.aio.transport import TcpTransport

CA = "BLACKBOARD_CA"
"""The environment variable that names the file with the certificates of trusted authorities."""

SHUTDOWN_S = 1.0


class NotTls(errors.Error):
    """The server does not offer TLS, and the client was told to use nothing else. For nats-py it is a failure to
    connect as any other."""


class CaUnreadable(OSError):
    """The file of trusted authorities cannot be used; the text says why."""


def is_required(url: str, ca: str) -> bool:
    """Whether a client of `url` (several, separated by commas) may speak to no server without TLS."""
    return bool(ca) or any(one.strip().startswith("tls://") for one in url.split(","))


def context(ca: str) -> ssl.SSLContext:
    """A context that trusts the authorities in the file `ca`; where it is empty, those of this system. Raises
    CaUnreadable."""
    if ca and not Path(ca).is_file():
        raise CaUnreadable(f"there is no file {ca} with the certificate of an authority: correct --ca or ${CA}")
    try:
        return ssl.create_default_context(cafile=ca or None)
    except (OSError, ValueError) as error:
        raise CaUnreadable(f"{ca} holds no certificate of an authority ({error}): correct --ca or ${CA}") from error


def distrusted(address: str, ca: str, error: ssl.SSLCertVerificationError) -> str:
    """What to say of a server at `address` whose certificate was refused."""
    why = error.verify_message.rstrip(".")
    if error.verify_code in (62, 64):  # X509_V_ERR_HOSTNAME_MISMATCH, _IP_ADDRESS_MISMATCH
        return f"the certificate of the server at {address} is for another name ({why}): use a name that it carries"
    if ca:
        return f"the server at {address} is not vouched for by the authority in {ca} ({why}): correct --ca or ${CA}"
    return (
        f"the server at {address} is not vouched for by an authority that this system knows ({why}): "
        f"name the file of its authority with --ca or ${CA}"
    )


class _Protocol(asyncio.StreamReaderProtocol):
    """Does not ask to go on writing when the peer has closed: under TLS that cannot be, and asyncio warns of it."""

    def eof_received(self) -> bool:
        super().eof_received()
        return False


class CutTransport(TcpTransport):
    """nats-py's transport: it waits at most SHUTDOWN_S for the peer when it is closed, and leaves no attempt open."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]

    def __bool__(self) -> bool:
        """Whether it may be connected, which nats-py asks before it makes one of its own."""
        return True

    async def connect(self, uri: ParseResult, buffer_size: int, connect_timeout: int) -> None:
        self.close()  # type: ignore[no-untyped-call]  # what the server refused, and nats-py forgot
        await super().connect(uri, buffer_size, connect_timeout)

    async def connect_tls(
        self, uri: str | ParseResult, ssl_context: ssl.SSLContext, buffer_size: int, connect_timeout: int
    ) -> None:
        assert self._io_writer, "it is connected before it is made secret"
        loop = asyncio.get_running_loop()
        reader = asyncio.StreamReader()
        protocol = _Protocol(reader)
        transport = await asyncio.wait_for(
            loop.start_tls(
                self._io_writer.transport,
                protocol,
                ssl_context,
                server_hostname=uri if isinstance(uri, str) else uri.hostname,
                ssl_shutdown_timeout=SHUTDOWN_S,
            ),
            connect_timeout,
        )
        assert transport
        self._io_reader = reader
        self._io_writer = asyncio.StreamWriter(transport, protocol, reader, loop)

    async def wait_closed(self) -> None:
        if self._io_writer is None:
            return
        try:
            await asyncio.wait_for(asyncio.shield(asyncio.ensure_future(self._io_writer.wait_closed())), SHUTDOWN_S)
        except TimeoutError:
            self._io_writer.transport.abort()
