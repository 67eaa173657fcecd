"""`blackboard mcp`, a process of its own on a real board, used by the official client over both transports."""

import asyncio
import contextlib
import json
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import httpx
import pytest
from mcp import ClientSession, StdioServerParameters, types
from mcp.client.stdio import stdio_client
from mcp.client.streamable_http import streamable_http_client

from blackboard.board import Board
from blackboard.client import Client
from projections.mcp_server import BoardTools
from schemas.inputs import read_input
from schemas.playbooks import Playbook, Step
from tests.end_to_end.support import run_until
from tests.mcp.servers import PATIENCE_S

HOWS = ("stdio", "http")
pytestmark = pytest.mark.timeout(180)  # servers import for seconds where the machine is busy
READING = {"teams", "wait", "show", "facts", "why", "inbox"}
ANSWERING = {"approve", "deny", "answer"}


class Used:
    """What a client has of the server."""

    def __init__(self, session: ClientSession) -> None:
        self.session = session
        self.progress: list[str] = []

    async def __call__(self, name: str, **arguments: Any) -> dict[str, Any]:
        """The structured content of a result that is no error."""
        result = await self._call(name, arguments)
        assert not result.isError, result.content
        assert result.structuredContent is not None
        return result.structuredContent

    async def fails(self, name: str, **arguments: Any) -> str:
        result = await self._call(name, arguments)
        assert result.isError
        (text,) = result.content
        assert isinstance(text, types.TextContent)
        return text.text

    async def _call(self, name: str, arguments: dict[str, Any]) -> types.CallToolResult:
        async def told(progress: float, total: float | None, message: str | None) -> None:
            self.progress.append(message or "")

        async with asyncio.timeout(PATIENCE_S):
            return await self.session.call_tool(name, arguments, progress_callback=told)

    async def tools(self) -> set[str]:
        return {tool.name for tool in (await self.session.list_tools()).tools}


@asynccontextmanager
async def used(how: str, there: list[str], *options: str) -> AsyncIterator[Used]:
    words = ["-m", "blackboard.cli", "mcp", *there, "--name", "pat", *options]
    async with contextlib.AsyncExitStack() as stack:
        if how == "stdio":
            server = StdioServerParameters(command=sys.executable, args=words)
            reading, writing = await stack.enter_async_context(stdio_client(server))
        else:
            url = await stack.enter_async_context(_listening(words))
            http = await stack.enter_async_context(httpx.AsyncClient(timeout=PATIENCE_S, trust_env=False))
            reading, writing, _ = await stack.enter_async_context(streamable_http_client(url, http_client=http))
            stack.push_async_callback(reading.aclose)
        session = await stack.enter_async_context(ClientSession(reading, writing))
        await session.initialize()
        yield Used(session)


@asynccontextmanager
async def _listening(words: list[str]) -> AsyncIterator[str]:
    process = await asyncio.create_subprocess_exec(
        sys.executable, *words, "--http", "0", "--json", stdout=asyncio.subprocess.PIPE
    )
    assert process.stdout is not None
    try:
        line = await asyncio.wait_for(process.stdout.readline(), PATIENCE_S)
        yield json.loads(line)["url"]
    finally:
        process.send_signal(signal.SIGTERM)
        await asyncio.wait_for(process.wait(), PATIENCE_S)


# --- goals and facts --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", HOWS)
async def test_goal_is_published_waited_for_and_read(how: str, pat: Client, there: list[str]) -> None:
    async with used(how, there) as board:
        assert await board.tools() == READING | {"publish"}
        teams = {one["team"]: one for one in (await board("teams"))["teams"]}
        assert teams["signed"]["input"] == {}
        run = (await board("publish", team="choice", input={}))["run"]
        now = await board("wait", run=run)
        assert (now["phase"], now["end"]) == ("NEEDS_INPUT", "")
        assert "which colour?" in now["waits"][0]
        (asked,) = (await board("inbox"))["asked"]
        assert (asked["run"], asked["gate"], asked["kind"]) == (run, "colour", "answer")
        waiting = asyncio.create_task(board("wait", run=run, seconds=PATIENCE_S))
        await Client(pat.board, "ann").answer(run, "colour", asked["digest"], "red")
        await waiting
        await run_until(pat.board, run, lambda state: state.end)
        ended = await board("wait", run=run, seconds=PATIENCE_S)
        assert (ended["end"], ended["result"]) == ("DONE", {"colour": "red"})
        assert board.progress
        facts = await board("facts", run=run)
        assert facts["facts"]["colour"]["value"] == "red"
        assert facts["facts"]["colour"]["taint"] == []
        assert (await board("facts", run=run, keys=["other.*"]))["facts"] == {}
        explained = await board("why", run=run, key="colour")
        assert (explained["value"], explained["answer"]["by"]) == ("red", "ann")
        shown = await board("show", run="@last")
        assert (shown["run"], shown["publisher"], len(shown["digests"]["head"])) == (run, "pat", 64)


async def test_waiting_has_an_end(pat: Client, there: list[str]) -> None:
    async with used("stdio", there) as board:
        run = (await board("publish", team="dug", input={}, run="dug-1"))["run"]
        assert (await board("publish", team="dug", input={}, run="dug-1"))["run"] == run == "dug-1"
        assert (await board("wait", run=run, seconds=0.05))["run"] == run
        assert (await board("wait", run="dug-"))["phase"] == "NEEDS_INPUT"


async def test_mistakes_are_sentences(pat: Client, there: list[str]) -> None:
    async with used("stdio", there) as board:
        assert "no team 'nobody' on this board (teams: agreed, both" in await board.fails(
            "publish", team="nobody", input={}
        )
        assert "no run on this board begins with 'nothing'" in await board.fails("show", run="nothing")
        assert "run id 'a b'" in await board.fails("publish", team="dug", input={}, run="a b")
        assert "Field required" in await board.fails("publish", team="dug")
        assert "less than or equal" in await board.fails("publish", team="dug", input={}, budget={"tokens": 10**30})
        run = (await board("publish", team="dug", input={}, budget={"tokens": 10}))["run"]
        await board("wait", run=run)
        assert "nothing" in await board.fails("why", run=run, key="nothing")
        assert (await board("show", run=run))["budget"]["tokens"]["limit"] == 10


async def test_long_facts_are_left_out_and_named(pat: Client, monkeypatch: pytest.MonkeyPatch) -> None:
    await pat.teach(Playbook(team="long", steps=[Step(id="a", value="item", for_each="input.texts")]))
    run = await pat.publish("long", {"texts": ["one", "two", "three", "four"]})
    await run_until(pat.board, run, lambda state: state.end)
    monkeypatch.setattr("projections.mcp_server.FACTS_LIMIT", 12)
    tools = BoardTools(pat.board, "pat")
    found = await tools.facts(run)
    assert [one["value"] for one in found["facts"].values()] == ["one", "two"]
    assert found["left_out"] == ["a.2", "a.3"]
    assert list((await tools.facts(run, ["a.2"]))["facts"]) == ["a.2"]


# --- in the name of a person ------------------------------------------------------------------------------------------


async def test_without_a_name_nothing_is_approved_or_answered(pat: Client, there: list[str]) -> None:
    async with used("stdio", there) as board:
        run = (await board("publish", team="signed", input={}))["run"]
        await board("wait", run=run)
        (asked,) = (await board("inbox"))["asked"]
        for verb in sorted(ANSWERING):
            given = {"run": run, "gate": "write", "digest": asked["digest"], "value": 1}
            assert f"Unknown tool: {verb}" in await board.fails(verb, **given)
        assert "approve" not in str((await board.session.list_tools()).tools[0].inputSchema)
    assert await _signals(pat.board, run) == []


async def _signals(board: Board, run: str) -> list[Any]:
    subjects = board.subjects
    found = [one async for one in board.log.read(subjects.signal("*", run))]
    return [read_input(one.seq, one.subject, subjects.parse(one.subject), one.time_ms, one.data) for one in found]


@pytest.mark.parametrize("how", HOWS)
async def test_in_the_name_of_a_person_it_approves_and_answers_what_the_digest_says(
    how: str, pat: Client, there: list[str]
) -> None:
    async with used(how, there, "--as", "ann") as board:
        assert await board.tools() == READING | ANSWERING | {"publish"}
        run = (await board("publish", team="signed", input={}))["run"]
        await board("wait", run=run)
        (asked,) = (await board("inbox"))["asked"]
        assert asked["mine"] is True
        given = {"run": run, "gate": "write", "digest": asked["digest"]}
        assert "asks for something else by now" in await board.fails("approve", **(given | {"digest": "0" * 64}))
        assert "has no open gate 'other'" in await board.fails("approve", **(given | {"gate": "other"}))
        assert "asks for an approval" in await board.fails("answer", **given, value="yes")
        became = await board("approve", **given)
        assert became["became"] == "approved by ann"
        assert (await board("wait", run=run, seconds=PATIENCE_S))["result"] == {"write": "written"}
        assert [one.address.author for one in await _signals(pat.board, run)] == ["ann"]

        run = (await board("publish", team="choice", input={}))["run"]
        await board("wait", run=run)
        (asked,) = (await board("inbox"))["asked"]
        given = {"run": run, "gate": "colour", "digest": asked["digest"]}
        assert "breaks" in await board.fails("answer", **given, value="blue")
        assert "asks for a value" in await board.fails("approve", **given)
        assert (await board("answer", **given, value=3))["became"] == "answered by ann"

        run = (await board("publish", team="both", input={}))["run"]
        await board("wait", run=run)
        gates = {one["gate"]: one["digest"] for one in (await board("inbox"))["asked"]}
        assert (await board("deny", run=run, gate="write", digest=gates["write"], reason="no"))["became"] == (
            "denied by ann"
        )
    folded = await run_until(pat.board, run, lambda state: state.end)
    assert folded.state.end == "POLICY_BLOCKED"


async def test_what_is_for_others_is_not_answered(pat: Client, there: list[str]) -> None:
    async with used("stdio", there, "--as", "carol") as board:
        run = (await board("publish", team="signed", input={}))["run"]
        await board("wait", run=run)
        (asked,) = (await board("inbox"))["asked"]
        assert asked["mine"] is False
        given = {"run": run, "gate": "write", "digest": asked["digest"]}
        assert "gate 'write' is for ann, not for carol" in await board.fails("approve", **given)
    assert await _signals(pat.board, run) == []


# --- the transport ----------------------------------------------------------------------------------------------------


async def test_page_of_another_site_cannot_use_it(pat: Client, there: list[str]) -> None:
    """A name that resolves to this machine, or a script of a page, is no client."""
    words = ["-m", "blackboard.cli", "mcp", *there]
    async with _listening(words) as url, httpx.AsyncClient(trust_env=False) as http:
        body = {"jsonrpc": "2.0", "id": 1, "method": "ping"}
        kind = {"Accept": "application/json, text/event-stream"}
        for headers in ({"Host": "evil.example"}, {"Origin": "https://evil.example"}):
            answer = await http.post(url, json=body, headers=kind | headers)
            assert answer.status_code in {403, 421}
        assert "//127.0.0.1:" in url


async def test_no_board_is_an_error_before_anything_is_served(there: list[str]) -> None:
    words = [sys.executable, "-m", "blackboard.cli", "mcp", "--nats", "nats://127.0.0.1:9"]
    process = await asyncio.create_subprocess_exec(
        *words, stdin=asyncio.subprocess.PIPE, stdout=asyncio.subprocess.PIPE, stderr=asyncio.subprocess.PIPE
    )
    out, error = await asyncio.wait_for(process.communicate(), PATIENCE_S)
    assert (process.returncode, out) == (69, b"")
    assert error.startswith(b"blackboard: ")
