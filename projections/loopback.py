"""HTTP for programs on this machine: an app on 127.0.0.1, which pages of other sites cannot use."""

import socket
from typing import Any
from urllib.parse import urlsplit

import uvicorn

HOSTS = ("127.0.0.1", "localhost")


class LoopbackOnly:
    """Refuses requests that name another host, as a name does that was made to mean this machine, and those of a page
    from anywhere else."""

    def __init__(self, app: Any) -> None:
        self._app = app

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] == "http" and not _is_ours(dict(scope["headers"])):
            await send({"type": "http.response.start", "status": 403, "headers": [(b"content-length", b"0")]})
            await send({"type": "http.response.body", "body": b""})
            return
        await self._app(scope, receive, send)


def _is_ours(headers: dict[bytes, bytes]) -> bool:
    host = urlsplit(f"//{headers.get(b'host', b'').decode('latin-1')}").hostname
    origin = headers.get(b"origin")
    return host in HOSTS and (origin is None or urlsplit(origin.decode("latin-1")).hostname in HOSTS)


def listening(port: int) -> socket.socket:
    """A socket that listens on 127.0.0.1; `port` 0 is a free one."""
    bound = socket.socket()
    bound.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    bound.bind(("127.0.0.1", port))
    bound.listen()
    return bound


async def serve(app: Any, bound: socket.socket) -> None:
    """Until the process is told to end."""
    await uvicorn.Server(uvicorn.Config(LoopbackOnly(app), log_level="warning")).serve(sockets=[bound])
