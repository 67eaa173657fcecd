"""A team with tools of an MCP server, attached as processes on a real board: what comes from the server taints, what
writes waits for a person who sees why, and the end of the worker is the end of the server."""

import json
from pathlib import Path

from blackboard.board import Board
from tests.end_to_end.support import Start, call, offered, run_until
from tests.mcp.servers import SERVER, is_alive, until

TEAM = f"""
import sys
from pathlib import Path

import pytest
from pydantic import BaseModel
from schemas.playbooks import Playbook, Step
from specialists.mcp_tools import Allow, mcp_server
from specialists.specialist import Context, Team, specialist

FILES = mcp_server(
    "files",
    command=[sys.executable, {str(SERVER)!r}, "stdio"],
    env={{"WRITTEN": str(Path(__file__).with_name("written"))}},
    tools={{"read": "files:read", "count": "files:read", "write": Allow("files:write", taint="confirm")}},
)

class Note(BaseModel):
    path: str = "notes.txt"
    text: str = ""

@specialist("note-reader", offers="reading", tools=[FILES])
async def reader(note: Note, context: Context) -> dict[str, str]:
    pid = (await context.tool("files-count", path=note.path))["pid"]
    return {{"text": await context.tool("files-read", path=note.path), "pid": str(pid)}}

@specialist("note-writer", offers="writing", tools=[FILES])
async def writer(note: Note, context: Context) -> dict[str, str]:
    reply = await context.requested("files-write", {{"path": "copy.txt", "text": note.text}})
    return {{"code": reply.code, "text": reply.text}}

STEPS = [
    Step(id="read", capability="reading"),
    Step(id="write", needs=["read"], capability="writing", input={{"text": "facts.read.text"}}),
]
TEAM = Team(Playbook(team="notes", steps=STEPS, returns={{"written": "facts.write.text"}}), [reader, writer])
"""


async def test_what_a_server_says_reaches_its_writer_through_a_person_only(
    shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    (tmp_path / "notes.py").write_text(TEAM)
    start("supervise", *there)
    worker = start("attach", "./notes.py", *there, cwd=tmp_path)
    await offered(shared, "note-reader", "note-writer")
    assert (await call("publish", "notes", "--run", "r1", *there)).code == 0
    folded = await run_until(shared, "r1", lambda state: state.end or state.open_gates)
    ((name, gate),) = folded.state.open_gates.items()
    assert gate.action == {
        "tool": "files-write",
        "arguments": {"path": "copy.txt", "text": "Buy tea."},
        "outside": ["mcp:files"],
    }
    shown = await call("inbox", "--json", *there)
    assert shown.lines[0]["action"]["outside"] == ["mcp:files"]
    assert not (tmp_path / "written").exists()
    assert (await call("approve", "r1", "--gate", name, "--digest", gate.digest, *there)).code == 0
    folded = await run_until(shared, "r1", lambda state: state.end)
    assert folded.state.result == {"written": json.dumps({"result": "written"}, separators=(",", ":"))}
    assert (tmp_path / "written").read_text() == "copy.txt\n"

    why = await call("why", "r1", "write", *there)
    assert "it may rest on content from outside: mcp:files" in why.out
    assert "2 facts may rest on content from outside (mcp:files)" in (await call("show", "r1", *there)).out
    assert (await call("show", "r1", "--json", *there)).json["taint"] == {"read": ["mcp:files"], "write": ["mcp:files"]}
    replayed = await call("replay", "r1", *there)
    assert (replayed.code, "equal" in replayed.out) == (0, True)
    assert (await call("rebuild", "r1", "--check", *there)).code == 0

    pid = int(folded.state.facts["read"].value["pid"])
    assert is_alive(pid)
    worker.kill()
    await until(lambda: not is_alive(pid))


async def test_try_starts_the_server_too(tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(TEAM)
    tried = await call("try", "./notes.py:note-reader", "{}", cwd=tmp_path)
    assert (tried.code, "Buy tea." in tried.out) == (0, True), tried
    assert "tool files-read: ok" in tried.out
    tried = await call("try", "./notes.py:note-writer", "{}", cwd=tmp_path)
    assert tried.code == 0, tried


async def test_server_that_cannot_be_started_is_one_sentence(shared: Board, there: list[str], tmp_path: Path) -> None:
    (tmp_path / "notes.py").write_text(TEAM.replace("[sys.executable", '["/no/such/program"'))
    attached = await call("attach", "./notes.py", *there, cwd=tmp_path)
    assert attached.code == 2
    assert attached.err.startswith("blackboard: MCP server 'files' cannot be started: FileNotFoundError")
    assert len(attached.err.splitlines()) == 1
