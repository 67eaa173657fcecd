"""One session with an MCP server, over stdio or streamable HTTP: the only importer of the SDK on the side of clients.

A session is opened and closed in one task, by `opened`; calls may come from others. What a server may ask of its client
(sampling, elicitation, roots) is not offered to it.
"""

import asyncio
import os
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import dataclass
from typing import Any

import anyio
import httpx
from anyio.streams.memory import MemoryObjectReceiveStream, MemoryObjectSendStream
from mcp import ClientSession, McpError, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.message import SessionMessage

from schemas.codec import digest
from specialists.stop import Stop, bounded

PAGES = 100
"""Pages of a list of tools that are read, at most."""
CONNECT_S = 30.0

Received = SessionMessage | Exception


@dataclass(frozen=True)
class Definition:
    """A tool as its server defines it. `digest` is over all that a model may see of it, and what it takes and gives."""

    name: str
    description: str
    input_schema: dict[str, Any]
    digest: str


@dataclass(frozen=True)
class Address:
    """Where a server is: a command that is started, or a URL. `env` is all that the command gets beside PATH, HOME and
    the like; `headers` go along with each request."""

    command: Sequence[str] = ()
    env: Mapping[str, str] | None = None
    cwd: str | None = None
    url: str = ""
    headers: Mapping[str, str] | None = None


class Session:
    """`lost` is set when the server is gone, `changed` when it said that its list of tools has changed."""

    def __init__(self, client: ClientSession, lost: asyncio.Event, changed: asyncio.Event) -> None:
        self._client, self.lost, self.changed = client, lost, changed

    async def definitions(self) -> dict[str, Definition]:
        """All tools of the server, by name. Raises ValueError where two have one name."""
        found: dict[str, Definition] = {}
        cursor = None
        for _ in range(PAGES):
            page = await self._client.list_tools(params=types.PaginatedRequestParams(cursor=cursor))
            for tool in page.tools:
                if tool.name in found:
                    raise ValueError(f"it has two tools {tool.name!r}")
                found[tool.name] = _definition(tool)
            cursor = page.nextCursor
            if not cursor:
                break
        return found

    async def call(self, name: str, arguments: dict[str, Any]) -> Any:
        """What the tool gives: its structured content where it has some, else its text, else its content as JSON.
        Raises Stop: TOOL_DOWN for what the server calls an error, INVALID_OUTPUT for what breaks its own schema."""
        try:
            result = await self._client.call_tool(name, arguments)
        except McpError as error:
            raise Stop("TOOL_DOWN", bounded(f"{name}: {error.error.message}")) from error
        except RuntimeError as error:  # what the SDK raises where the structured content is not as its schema says
            raise Stop("INVALID_OUTPUT", bounded(f"{name}: {error}")) from error
        text = _text(result.content)
        if result.isError:
            said = text if text is not None else "it failed and does not say why"
            raise Stop("TOOL_DOWN", bounded(f"{name}: {said}"))
        if result.structuredContent is not None:
            return result.structuredContent
        return text if text is not None else [one.model_dump(mode="json", exclude_none=True) for one in result.content]

    async def answers(self, within_s: float) -> bool:
        """Whether the server answers a ping in time."""
        try:
            async with asyncio.timeout(within_s):
                await self._client.send_ping()
        except TimeoutError:
            return False
        except McpError:  # an answer too
            return True
        return True


@asynccontextmanager
async def opened(address: Address) -> AsyncIterator[Session]:
    """A session with the server at `address`, which is started where it is a command, and stopped at the end."""
    lost, changed = asyncio.Event(), asyncio.Event()

    async def received(message: Any) -> None:
        if isinstance(message, types.ServerNotification) and isinstance(
            message.root, types.ToolListChangedNotification
        ):
            changed.set()

    async with AsyncExitStack() as stack:
        stack.callback(lost.set)
        source, sink = await _streams(address, stack)
        forward, messages = anyio.create_memory_object_stream[Received](0)
        for stream in (source, sink, forward, messages):  # the SDK closes some of them, and those again does no harm
            stack.callback(stream.close)
        group = await stack.enter_async_context(anyio.create_task_group())
        group.start_soon(_forward, source, forward, lost)
        stack.callback(group.cancel_scope.cancel)
        client = await stack.enter_async_context(ClientSession(messages, sink, message_handler=received))
        async with asyncio.timeout(CONNECT_S):
            await client.initialize()
        yield Session(client, lost, changed)


async def _streams(
    address: Address, stack: AsyncExitStack
) -> tuple[MemoryObjectReceiveStream[Received], MemoryObjectSendStream[SessionMessage]]:
    if address.url:
        timeout = httpx.Timeout(CONNECT_S, read=None)  # each tool has a time-out of its own
        http = await stack.enter_async_context(
            httpx.AsyncClient(headers=dict(address.headers or {}), timeout=timeout, trust_env=False)
        )
        source, sink, _ = await stack.enter_async_context(streamable_http_client(address.url, http_client=http))
        return source, sink
    command, *arguments = address.command
    parameters = StdioServerParameters(
        command=command, args=arguments, env=dict(address.env or {}), cwd=address.cwd or os.getcwd()
    )
    return await stack.enter_async_context(stdio_client(parameters))


async def _forward(
    source: MemoryObjectReceiveStream[Received], sink: MemoryObjectSendStream[Received], lost: asyncio.Event
) -> None:
    """Hand on what the server says, and notice when it says nothing more for good."""
    async with sink:
        try:
            async for message in source:
                await sink.send(message)
        except (anyio.BrokenResourceError, anyio.ClosedResourceError):  # the session is closed already
            pass
        finally:
            lost.set()


def _definition(tool: types.Tool) -> Definition:
    seen = tool.model_dump(mode="json", exclude_none=True, include=set(SEEN))
    return Definition(tool.name, tool.description or "", tool.inputSchema, digest(seen))


SEEN = ("name", "title", "description", "inputSchema", "outputSchema", "annotations")
"""What a definition consists of: what models see of a tool, and what it takes and gives."""


def _text(content: Sequence[types.ContentBlock]) -> str | None:
    """The text of a content that is nothing but text."""
    texts = [one.text for one in content if isinstance(one, types.TextContent)]
    return "\n".join(texts) if len(texts) == len(content) else None
