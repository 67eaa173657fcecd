"""MCP servers for tests, in processes of their own, over stdio and over HTTP."""

import asyncio
import socket
import sys
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from schemas.inputs import ToolCalled
from specialists.context import LocalContext
from specialists.mcp_tools import McpServer, mcp_server

SERVER = Path(__file__).with_name("files_server.py")
ALL = ("read", "count", "write", "variables", "picture", "die", "hang", "change", "ask_the_client")
PATIENCE_S = 40


def command(*options: str, how: str = "stdio") -> list[str]:
    return [sys.executable, str(SERVER), how, *options]


def files(*options: str, tools: Any = ALL, **more: Any) -> McpServer:
    """The server of ours over stdio."""
    return mcp_server("files", **({"command": command(*options), "tools": tools, "scopes": "files:read"} | more))


def free_port() -> int:
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return int(found.getsockname()[1])


@asynccontextmanager
async def listening(port: int, *options: str, env: Mapping[str, str] | None = None) -> AsyncIterator[str]:
    """The URL of the server of ours over HTTP; its process is ended at the end."""
    process = await asyncio.create_subprocess_exec(*command(*options, how=str(port)), env=env)
    try:
        async with asyncio.timeout(PATIENCE_S):
            while not await _answers(port):
                assert process.returncode is None
                await asyncio.sleep(0.02)
        yield f"http://127.0.0.1:{port}/mcp"
    finally:
        if process.returncode is None:
            process.kill()
        await process.wait()


async def _answers(port: int) -> bool:
    try:
        _, writer = await asyncio.open_connection("127.0.0.1", port)
    except OSError:
        return False
    writer.close()
    await writer.wait_closed()
    return True


def codes(context: LocalContext) -> list[tuple[str, str]]:
    return [(one.tool, one.code) for one in context.observations if isinstance(one, ToolCalled)]


def is_alive(pid: int) -> bool:
    state = Path(f"/proc/{pid}/stat")
    return state.exists() and state.read_text().rpartition(")")[2].split()[0] != "Z"


async def until(holds: Any, *arguments: Any) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not holds(*arguments):  # noqa: ASYNC110 - another process changes it
            await asyncio.sleep(0.02)


def names(tools: Sequence[Any]) -> list[str]:
    return [one.name for one in tools]
