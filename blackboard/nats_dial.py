"""Getting connected: nats-py's client with a board's settings, once the server is known to suit."""

import asyncio
import re
import ssl
from collections.abc import Awaitable, Callable
from typing import Any

from nats import errors
from nats.aio.client import Client, Srv
from nats.aio.msg import Msg
from nats.protocol.parser import PERMISSIONS_ERR, STALE_CONNECTION

from blackboard import nats_tls as tls
from blackboard.log import LogUnavailable, NotPermitted
from blackboard.nats_errors import BadAddress, ServerUnsuitable

OLDEST_SERVER = (2, 15)
"""Earlier servers can lose acknowledged writes on power failure even with `sync_interval: always`."""

SCHEMES = ("nats", "tls", "ws", "wss")
PING_INTERVAL_S = 5
RECONNECT_PAUSE_S = 0.1
_TOLD_BY_NATS = (PERMISSIONS_ERR, STALE_CONNECTION)
"""Complaints of the server that nats-py hands on itself."""


class FastClient(Client):
    """nats-py's client with its header parser made fast, since reading the log spends most of its time there, and able
    to read what anybody can publish: with bytes that are no text in a subject or a header, nats-py drops the
    connection, and again at each delivery of a stored message. `tls_only`: it speaks to no server without TLS."""

    tls_only = False

    async def _connect_to_server(self, s: Srv) -> None:
        if self._transport is None and s.uri.scheme in ("nats", "tls"):
            self._transport = tls.CutTransport()
        await super()._connect_to_server(s)

    async def _process_info(self, info: dict[str, Any], initial_connection: bool = False) -> None:
        if initial_connection and self.tls_only and not info.get("tls_required"):
            raise tls.NotTls(
                f"the server at {address_of(self)} does not speak TLS, and nothing is sent to it without: "
                "turn TLS on there, or leave out --ca and tls://"
            )
        await super()._process_info(info, initial_connection)

    @staticmethod
    def _parse_header_lines(raw: bytes) -> dict[str, str]:
        lines = (line.partition(":") for line in raw.decode("utf-8", "replace").split("\r\n"))
        return {name.strip(): value.strip() for name, colon, value in lines if colon}

    async def _process_err(self, err_msg: str) -> None:
        if self.is_connected and not any(one in err_msg for one in _TOLD_BY_NATS):
            await self._error_cb(errors.Error(err_msg.strip("'")))  # nats-py closes for good, and says why to nobody
        await super()._process_err(err_msg)

    async def _process_headers(self, headers: bytes) -> dict[str, str] | None:
        try:
            return await super()._process_headers(headers)
        except (ValueError, LookupError):  # a status line that is none
            return None

    def _build_message(
        self, sid: int, subject: bytes, reply: bytes, data: bytes, headers: dict[str, str] | None
    ) -> Msg:
        message: Msg = super()._build_message(sid, _text(subject), _text(reply), data, headers)
        return message

    async def _close(self, status: int, do_cbs: bool = True) -> None:
        try:
            await super()._close(status, do_cbs)
        except OSError:  # it still had something to say when the server went away, and stopped half-way
            self._status = Client.DISCONNECTED
            await super()._close(status, do_cbs)


def _text(raw: bytes) -> bytes:
    """`raw`, with a replacement character for what is no UTF-8."""
    return raw if raw.isascii() else raw.decode("utf-8", "replace").encode()


def address_of(client: Client) -> str:
    """The host and port of the server that the client speaks to."""
    server = client._current_server
    return server.uri.netloc.rpartition("@")[2] if server else "no address"


async def dial(
    client: FastClient,
    url: str,
    name: str,
    timeout_s: float,
    on_error: Callable[[Exception], None],
    *,
    ca: str,
    **options: Any,
) -> None:
    """Connect `client` and check the server. `on_error` hears of every error, then and later. `ca`: see `connect`.
    Raises LogUnavailable, NotPermitted, ServerUnsuitable, BadAddress."""
    _check_address(client, url)
    if tls.is_required(url, ca):  # else nats-py makes one where the server asks for TLS
        client.tls_only = True
        try:
            options["tls"] = tls.context(ca)
        except tls.CaUnreadable as error:
            raise ServerUnsuitable(str(error)) from error
    refused: asyncio.Future[None] = asyncio.get_running_loop().create_future()
    last: list[Exception] = []

    async def hear(error: Exception) -> None:
        last[:] = [error]
        if "authorization" in str(error).lower() and not refused.done():
            refused.set_exception(
                NotPermitted(_refusal(url, name, bool({"user_credentials", "user"} & options.keys())))
            )
        elif not refused.done() and "maximum control line" in str(error).lower():
            hint = "give it `max_control_line: 65536`"
            refused.set_exception(NotPermitted(f"{url} takes no credentials as long as those of {name}: {hint}"))
        elif not refused.done() and (why := _distrust(client, ca, error)):
            refused.set_exception(ServerUnsuitable(why))
        on_error(error)

    connecting = asyncio.create_task(_connect(client, url, name, hear, options))
    try:
        await asyncio.wait([connecting, refused], timeout=timeout_s, return_when=asyncio.FIRST_COMPLETED)
    finally:
        if not connecting.done():  # nats-py itself would go on for ever
            connecting.cancel()
            await asyncio.wait([connecting])
            await client.close()
    if refused.done():
        refused.result()
    if connecting.cancelled():
        why = str(last[-1]) or type(last[-1]).__name__ if last else "it is silent"
        raise LogUnavailable(f"no NATS server answers at {url} within {timeout_s:g} s ({why})")
    refused.cancel()
    connecting.result()
    await _check_server(client, url)


def _check_address(client: Client, url: str) -> None:
    """Raises BadAddress; nats-py would look for a host with the name of a scheme that it does not know."""
    schemes = set()
    for one in url.split(","):
        scheme, there, _ = one.strip().partition("://")
        if there and scheme not in SCHEMES:
            raise BadAddress(
                f"{one!r} is no address of a NATS server: {scheme!r} is none of {', '.join(SCHEMES)}; write "
                "nats://host:port"
            )
        try:
            schemes.add(client._parse_server_uri(one).scheme)
        except errors.Error:
            raise BadAddress(f"{one!r} is no address of a NATS server: write nats://host:port") from None
    if schemes & {"ws", "wss"} and schemes & {"nats", "tls"}:
        raise BadAddress(f"{url!r} names servers with WebSocket and without: name those of one kind")


def _distrust(client: Client, ca: str, error: Exception) -> str:
    """Why the server may not be spoken to; empty for any other error."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return tls.distrusted(address_of(client), ca, error)
    return str(error) if isinstance(error, tls.NotTls) else ""


def _refusal(url: str, name: str, with_credentials: bool) -> str:
    if with_credentials:
        return f"{url} does not accept the credentials of {name}: they were revoked, have expired, or are not of there"
    return (
        f"{url} asks who is there: give --creds FILE (`blackboard access grant` makes one), or name the operator's "
        "directory in $BLACKBOARD_ACCESS"
    )


async def _connect(
    client: Client, url: str, name: str, hear: Callable[[Exception], Awaitable[None]], options: dict[str, Any]
) -> None:
    await client.connect(
        url.split(","),
        name=name,
        error_cb=hear,
        max_reconnect_attempts=-1,  # the default gives up after 60 and never comes back
        reconnect_time_wait=RECONNECT_PAUSE_S,  # type: ignore[arg-type]  # it only sleeps for that long
        ping_interval=PING_INTERVAL_S,
        max_outstanding_pings=2,
        pending_size=0,  # else what timed out while disconnected is sent after the reconnect
        **options,
    )


async def _check_server(client: Client, url: str) -> None:
    info = client._server_info
    version = str(info.get("version", "0"))
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    why = None
    if numbers < OLDEST_SERVER:
        why = f"is version {version}, and a board needs 2.15 or newer: upgrade it"
    elif not info.get("jetstream"):
        why = "runs without JetStream, which holds the log: start it with JetStream enabled"
    if why:
        await client.close()
        raise ServerUnsuitable(f"the NATS server at {url} {why}")
