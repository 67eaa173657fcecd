"""Tools of MCP servers: who may be called there, and servers that are started with the worker and stopped with it.

`mcp_server` stands in `tools=` of a specialist. Its list says which tools of the server there are, by exactly the names
that the server has for them; whatever else the server has, or comes to have, cannot be called. What the server says of
a listed tool (description and schemas) goes into the contract as a digest, and may not change under one version of it.
"""

import asyncio
import contextlib
import logging
import os
import re
from collections.abc import AsyncIterator, Callable, Iterable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from pydantic_core import PydanticSerializationError, to_jsonable_python

from blackboard.board import Board
from blackboard.log import NotPermitted
from schemas.contracts import Contract, ToolGrant, read_contract
from schemas.subjects import BadName, is_token, token
from schemas.validation import check_schema, validator_for
from specialists.budget import Usd
from specialists.signature import BadSpecialist
from specialists.stop import Stop, bounded, describe
from specialists.tools import OUTPUT_LIMIT, Described, Tool, ToolSource, WhenTainted, tool

if TYPE_CHECKING:
    from specialists.mcp_session import Address, Definition, Session
    from specialists.specialist import Specialist

RESTARTS = 5
"""How often a command is started anew when it dies, unless it then lives for STEADY_S. A URL is asked for ever."""
STEADY_S = 60.0
BACKOFF_S = (0.2, 5.0)
READY_S = 20.0
"""How long a call waits for a server that is being started anew."""
PING_S = 5.0
_logger = logging.getLogger(__name__)


@dataclass(frozen=True)
class Allow:
    """A tool of a server that may be called, and within what; as `specialists.tools.tool`."""

    scopes: str | Sequence[str]
    confirm: bool = False
    usd: Usd = 0
    timeout_s: float | None = None
    output_limit: int = OUTPUT_LIMIT
    outside: bool = True
    taint: WhenTainted = "refuse"


@dataclass(frozen=True, eq=False)
class RemoteTool(Tool):
    """`remote` is the name that the server has for it."""

    server: "McpServer | None" = field(default=None, repr=False)
    remote: str = ""

    @property
    def label(self) -> str:
        return f"mcp:{self._server.name}"

    @property
    def foreign(self) -> bool:
        return True

    def grant(self) -> ToolGrant:
        found = self._server.definitions.get(self.remote)
        return ToolGrant(
            tool=self.name, scopes=list(self.scopes), confirm=self.confirm, definition=found.digest if found else None
        )

    def arguments(self, given: dict[str, Any]) -> dict[str, Any]:
        try:
            arguments: dict[str, Any] = to_jsonable_python(given)
        except (PydanticSerializationError, ValueError) as error:
            raise TypeError(f"tool {self.name}: its arguments cannot be JSON: {error}") from None
        schema = self._server.defined(self.remote).input_schema
        if problem := next(iter(validator_for(schema).iter_errors(arguments)), None):
            path = ".".join(str(part) for part in problem.instance_path)
            raise TypeError(bounded(f"tool {self.name}: {f'{path}: ' if path else ''}{problem.message}"))
        return arguments

    def described(self) -> Described:
        defined = self._server.defined(self.remote)
        return Described(self.name, defined.description, defined.input_schema)

    @property
    def _server(self) -> "McpServer":
        assert self.server is not None, "made by McpServer.tools"
        return self.server


class McpServer(ToolSource):
    """See `mcp_server`. Several workers of one process share it: it runs from the first `start` to the last `stop`."""

    def __init__(
        self, name: str, address: Callable[[], "Address"], allowed: Mapping[str, Allow], is_ours: bool
    ) -> None:
        self.name, self._address, self._allowed, self._is_ours = name, address, allowed, is_ours
        self.definitions: dict[str, Definition] = {}
        """Those of the listed tools, by the server's names, once it was started."""
        self._users = 0
        self._serving: asyncio.Task[None] | None = None
        self._session: Session | None = None
        self._refused: Stop | None = None
        self._suspects: set[asyncio.Future[None]] = set()

    def tools(self) -> list[Tool]:
        return [self._tool(remote, allow) for remote, allow in self._allowed.items()]

    def _tool(self, remote: str, allow: Allow) -> Tool:
        async def call(**arguments: Any) -> Any:
            return await self.call(remote, arguments)

        call.__name__ = f"{self.name}-{re.sub(r'[^A-Za-z0-9_-]', '_', remote)}"
        if not is_token(call.__name__):
            raise BadSpecialist(f"tool {remote!r} of MCP server {self.name!r} has too long a name")
        made = tool(
            call,
            scopes=allow.scopes,
            confirm=allow.confirm,
            usd=allow.usd,
            timeout_s=allow.timeout_s,
            output_limit=allow.output_limit,
            outside=allow.outside,
            taint=allow.taint,
        )
        return RemoteTool(**vars(made), server=self, remote=remote)

    def defined(self, remote: str) -> "Definition":
        """Raises Stop TOOL_DOWN where the server was never started."""
        if remote not in self.definitions:
            raise Stop("TOOL_DOWN", f"MCP server {self.name!r} is not started: a worker does that, or serving()")
        return self.definitions[remote]

    # --- calling ------------------------------------------------------------------------------------------------------

    async def call(self, remote: str, arguments: dict[str, Any]) -> Any:
        """What a tool gives. A call is made once: whether it was done when the server died meanwhile, nobody knows.
        Raises Stop."""
        session = await self._ready()
        call = asyncio.ensure_future(session.call(remote, arguments))
        try:
            await _first(session.lost, call)
            if call.done():
                return call.result()
            raise Stop("TOOL_DOWN", f"MCP server {self.name!r} ended before it answered")
        except asyncio.CancelledError:  # at its time-out, as a rule: does it answer anything any more?
            if not self._suspects:
                self._suspects.add(suspect := asyncio.ensure_future(self._suspect(session)))
                suspect.add_done_callback(self._suspects.discard)
            raise
        finally:
            call.cancel()
            call.add_done_callback(lambda done: done.cancelled() or done.exception())

    async def _ready(self) -> "Session":
        """The session, waited for while the server is started anew, or what it says of its tools is looked at."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(READY_S):
                while self._serving and not self._ended.is_set():
                    if self._session and not self._session.changed.is_set():
                        return self._session
                    await _first(self._up, self._ended)
        raise self._refused or Stop("TOOL_DOWN", f"MCP server {self.name!r} is not up")

    async def _suspect(self, session: "Session") -> None:
        """A server that answers nothing any more is started anew."""
        if not session.lost.is_set() and not await session.answers(PING_S):
            _logger.warning("MCP server %s does not answer; it is started anew", self.name)
            session.lost.set()

    # --- its life -----------------------------------------------------------------------------------------------------

    async def start(self) -> None:
        """Raises BadSpecialist where it cannot be started, lacks a listed tool, or has changed one."""
        self._users += 1
        if self._users == 1:
            self.definitions, self._refused = {}, None
            self._up, self._ended, self._stopping = asyncio.Event(), asyncio.Event(), asyncio.Event()
            self._serving = asyncio.create_task(self._serve())
        await _first(self._up, self._ended)
        if self._ended.is_set():
            self._users -= 1
            raise BadSpecialist(self._refused.message if self._refused else f"MCP server {self.name!r} has ended")

    async def stop(self) -> None:
        self._users -= 1
        if self._users == 0 and self._serving:
            self._stopping.set()
            await asyncio.wait({self._serving})
            self._serving = None

    async def _serve(self) -> None:
        """Keep a session open, in a task of its own, as it is closed where it was opened."""
        try:
            await self._keep_open()
        except Stop as stop:
            self._refused = stop
        except BadSpecialist as error:
            self._refused = Stop("POLICY_BLOCKED", str(error))
        except Exception as error:
            self._refused = Stop("TOOL_DOWN", f"MCP server {self.name!r}: {describe(error)}")
        finally:
            self._ended.set()

    async def _keep_open(self) -> None:
        """Raises BadSpecialist where what the server says is not taken, and Stop where it cannot be kept up."""
        loop, failures = asyncio.get_running_loop(), 0
        while not self._stopping.is_set():
            began, why = loop.time(), "it ended"
            try:
                async with self._opened() as session:
                    await self._attend(session)
            except Exception as error:  # a group of what the SDK raises in its tasks, too
                if isinstance(root := _root(error), BadSpecialist):
                    raise root from None
                why = describe(root)
            if self._stopping.is_set():
                return
            if not self.definitions:
                raise BadSpecialist(f"MCP server {self.name!r} cannot be started: {why}")
            failures = 1 if loop.time() - began > STEADY_S else failures + 1
            if failures > RESTARTS and self._is_ours:
                raise Stop("TOOL_DOWN", f"MCP server {self.name!r} died {failures} times, last: {why}; attach again")
            _logger.warning("MCP server %s is gone (%s); it is started anew", self.name, why)
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._stopping.wait(), min(BACKOFF_S[0] * 2 ** min(failures, 9), BACKOFF_S[1]))

    async def _attend(self, session: "Session") -> None:
        """Until the server is lost or to be stopped; at first, and when it says that its tools have changed, look what
        it says of them."""
        try:
            while not session.lost.is_set() and not self._stopping.is_set():
                session.changed.clear()
                self._admit(await session.definitions())
                self._session = session
                self._up.set()
                await _first(session.lost, session.changed, self._stopping)
                self._session = None  # nothing is called before what it says now was looked at
                self._up.clear()
        finally:
            self._session = None
            self._up.clear()

    def _opened(self) -> AbstractAsyncContextManager["Session"]:
        try:
            from specialists import mcp_session
        except ImportError as error:
            raise BadSpecialist(
                f"MCP server {self.name!r} needs the SDK ({error}): pip install 'blackboard[mcp]'"
            ) from None
        return mcp_session.opened(self._address())

    def _admit(self, found: "Mapping[str, Definition]") -> None:
        """Take over what the server says of the listed tools, the first time; afterwards it may not say anything else.
        Raises BadSpecialist."""
        for remote in self._allowed:
            if remote not in found:
                there = ", ".join(repr(name) for name in sorted(found)) or "none"
                raise BadSpecialist(f"MCP server {self.name!r} has no tool {remote!r}; it has {there}"[:1000])
            defined = found[remote]
            before = self.definitions.get(remote)
            if before and before.digest != defined.digest:
                raise BadSpecialist(_changed(f"{self.name}: {remote}", defined.description))
            try:
                check_schema(defined.input_schema)
            except ValueError as error:
                raise BadSpecialist(f"the input schema of tool {remote!r} of {self.name!r} {error}") from None
        self.definitions = self.definitions or {remote: found[remote] for remote in self._allowed}


def _changed(what: str, description: str) -> str:
    return (
        f"an MCP server has changed a tool under its name ({what}), which the contract pinned as it was. It now says: "
        f"{description[:300]!r}. Look at the server; to take the tool as it is now, raise version= of the specialist "
        "and attach it again"
    )


async def _first(*awaited: asyncio.Event | asyncio.Future[Any]) -> None:
    """Return when one of them is set or done."""
    waits = [asyncio.ensure_future(one.wait()) for one in awaited if isinstance(one, asyncio.Event)]
    futures = [one for one in awaited if not isinstance(one, asyncio.Event)]
    try:
        await asyncio.wait([*waits, *futures], return_when=asyncio.FIRST_COMPLETED)
    finally:
        for one in waits:
            one.cancel()


def _root(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error


def mcp_server(  # noqa: PLR0913 - an address and a list
    name: str,
    *,
    tools: Mapping[str, Allow | str | Sequence[str]] | Sequence[str],
    scopes: str | Sequence[str] = (),
    command: Sequence[str] = (),
    env: Mapping[str, str] | Sequence[str] = (),
    cwd: str | None = None,
    url: str = "",
    headers: Mapping[str, str] | None = None,
    timeout_s: float = 30,
) -> McpServer:
    """An MCP server for `tools=` of a specialist; its tool `read` is called `<name>-read` there.

    command: starts it (stdio). env: what the command gets beside PATH, HOME, USER and the like: names of variables of
    the worker, or names and values. url, headers: where it listens instead (streamable HTTP). tools: the tools that may
    be called, by the names that the server has for them, each with its scopes or an `Allow`; or a list, all within
    `scopes`. timeout_s: how long a call may take, unless its `Allow` says otherwise. Raises BadSpecialist.
    """
    try:
        token(name, "MCP server")
    except BadName as error:
        raise BadSpecialist(str(error)) from None
    if bool(command) == bool(url):
        raise BadSpecialist(f"MCP server {name!r} needs command= or url=")
    if isinstance(command, str) or isinstance(tools, str):
        raise BadSpecialist(f"MCP server {name!r}: command= and tools= are lists of words")
    listed = tools if isinstance(tools, Mapping) else dict.fromkeys(tools, scopes)
    allowed = {remote: _allow(name, remote, one, timeout_s) for remote, one in listed.items()}
    if not allowed:
        raise BadSpecialist(f"MCP server {name!r}: tools= lists those of its tools that may be called; it lists none")

    def address() -> "Address":
        from specialists.mcp_session import Address

        return Address(tuple(command), _environment(name, env), cwd, url, headers)

    return McpServer(name, address, allowed, is_ours=not url)


def _allow(server: str, remote: str, said: Allow | str | Sequence[str], timeout_s: float) -> Allow:
    allow = said if isinstance(said, Allow) else Allow(said)
    if not allow.scopes:
        raise BadSpecialist(
            f"MCP server {server!r}: say in scopes= what {remote!r} reaches, as files:read or web:write"
        )
    if allow.timeout_s is not None:
        return allow
    return replace(allow, timeout_s=timeout_s)


def _environment(server: str, env: Mapping[str, str] | Sequence[str]) -> dict[str, str]:
    """Raises BadSpecialist for a variable that the worker does not have."""
    if isinstance(env, Mapping):
        return dict(env)
    if absent := [name for name in env if name not in os.environ]:
        raise BadSpecialist(f"MCP server {server!r} is to get the variable {absent[0]}, which is not set here")
    return {name: os.environ[name] for name in env}


# --- with a worker ----------------------------------------------------------------------------------------------------


class Servers:
    """The MCP servers of some specialists, started and stopped together."""

    def __init__(self, specialists: "Iterable[Specialist]") -> None:
        tools = (one for specialist in specialists for one in specialist.tools.values())
        found = {id(one.server): one.server for one in tools if isinstance(one, RemoteTool) and one.server}
        self._servers = list(found.values())
        self._started: list[McpServer] = []

    async def start(self) -> None:
        """All of them or none. Raises BadSpecialist."""
        outcomes = await asyncio.gather(*(one.start() for one in self._servers), return_exceptions=True)
        self._started = [one for one, out in zip(self._servers, outcomes, strict=True) if out is None]
        if failures := [one for one in outcomes if isinstance(one, BaseException)]:
            await self.stop()
            raise failures[0]

    async def stop(self) -> None:
        started, self._started = self._started, []
        await asyncio.gather(*(one.stop() for one in started))


@asynccontextmanager
async def serving(*specialists: "Specialist") -> AsyncIterator[None]:
    """With the MCP servers of these specialists, for work without a board. Raises BadSpecialist."""
    servers = Servers(specialists)
    await servers.start()
    try:
        yield
    finally:
        await servers.stop()


async def check_pinned(board: Board, contract: Contract) -> None:
    """Whether servers say of their tools what the contract on the board, of the same version, says that they said.
    Raises BadSpecialist where one does not."""
    if not any(grant.definition for grant in contract.tools):
        return
    pinned: dict[str, str] = {}
    with contextlib.suppress(NotPermitted):
        async for messages in board.log.scan([board.subjects.contract(contract.specialist)]):
            for message in messages:
                before = read_contract(message.data, contract.specialist)
                if isinstance(before, Contract) and before.version == contract.version:
                    pinned |= {grant.tool: grant.definition for grant in before.tools if grant.definition}
    for grant in contract.tools:
        if grant.definition and pinned.get(grant.tool, grant.definition) != grant.definition:
            raise BadSpecialist(f"specialist {contract.specialist!r}: {_changed(grant.tool, 'see the server')}")
