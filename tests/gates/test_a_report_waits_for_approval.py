"""The licences team over real processes: a person sees what is asked, and what is written is what was approved."""

import asyncio
import hashlib
from base64 import b64decode
from pathlib import Path

import pytest

from blackboard.board import Board
from blackboard.client import Client
from blackboard.jetstream_streams import make_blobs
from blackboard.log import Append, Stored
from blackboard.nats_connection import Connection, connect
from blackboard.server import EmbeddedServer
from projections.canonical import Gate
from projections.rebuild import rebuild
from schemas import events as e
from schemas.codec import encode
from schemas.inputs import Approve
from schemas.subjects import Subjects
from tests.end_to_end.support import call, ended, events_of, verdict_on
from tests.gates.conftest import REPORT, Audit

NOT_WAITED_S = 4.0


def files_of(gate: Gate) -> dict[str, str]:
    """SHA-256 by name, as the action has them."""
    return {file["name"]: file["blob"]["sha256"] for file in gate.action[0]["input"]["files"]}


def written(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in sorted(folder.iterdir())}


async def test_approved_by_digest_the_stored_bytes_are_written(
    shared: Board, there: list[str], audit: Audit, tmp_path: Path
) -> None:
    run, gate = await audit("audit", tmp_path / "out")
    assert set(files_of(gate)) == set(REPORT)

    shown = await call("show", run, *there)
    assert f"gate write: open; digest {gate.digest}" in shown.out
    declined = await call("approve", run, *there, "--name", "ann")  # stdin is empty: nobody says yes
    assert declined.code == 1
    for name in REPORT:
        blob = next(file["blob"] for file in gate.action[0]["input"]["files"] if file["name"] == name)
        assert f"{name}  {blob['size']} bytes  sha256 {blob['sha256']}" in declined.out
    assert "    | # " in declined.out, "the first lines"
    assert f"digest {gate.digest}" in declined.out
    assert not (tmp_path / "out").exists()

    approved = await call("approve", run, *there, "--name", "ann", "--digest", gate.digest, "--json")
    assert approved.json | {"seq": 0} == {
        "run": run,
        "gate": "write",
        "digest": gate.digest,
        "approved": True,
        "seq": 0,
    }
    state = await ended(shared, run)
    assert (state.end, state.gates["write"].by) == ("DONE", "ann")
    assert state.result is not None
    assert state.result["written"] == [str(tmp_path / "out" / name) for name in REPORT]
    assert written(tmp_path / "out") == files_of(gate)


async def test_denied_or_with_no_input_nothing_is_written(
    shared: Board, there: list[str], audit: Audit, environment: str, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    goal = ("licences", f"path={environment}", f"out={out}", "--run", "audit")
    waiting = await call("publish", *goal, "--wait", "--no-input", *there)
    assert waiting.code == 7, waiting
    assert (await call("watch", "audit", "--no-input", *there)).code == 7
    denied = await call("deny", "audit", "--yes", "--reason", "not there", *there, "--name", "ann")
    assert denied.code == 0, denied
    state = await ended(shared, "audit")
    assert (state.end, state.reason) == ("POLICY_BLOCKED", "ann denied 'write': not there")
    assert (await call("watch", "audit", *there)).code == 5
    assert not out.exists()


async def test_approved_in_advance_by_the_publisher(
    shared: Board, there: list[str], audit: Audit, environment: str, tmp_path: Path
) -> None:
    goal = ("licences", f"path={environment}", f"out={tmp_path / 'out'}", "--run", "audit")
    done = await call("publish", *goal, "--yes", "--wait", "--no-input", *there, "--name", "pat")
    assert done.code == 0, done
    gate = (await ended(shared, "audit")).gates["write"]
    assert (gate.by, gate.approved, gate.in_advance) == ("pat", True, True)
    assert "gate write: approved in advance by pat" in (await call("show", "audit", *there)).out
    assert written(tmp_path / "out") == files_of(gate)


async def test_answers_to_something_else_are_refused_with_the_reason_and_recorded(
    shared: Board, there: list[str], audit: Audit, tmp_path: Path
) -> None:
    run, gate = await audit("audit", tmp_path / "out")
    other, other_gate = await audit("other", tmp_path / "out")
    assert gate.action == other_gate.action
    assert gate.digest != other_gate.digest, "the same action in another run is another question"

    async def refused(reason: str, *words: str) -> None:
        said = await call(*words, *there, "--name", "bob")
        assert said.code == 1, said
        assert said.err.startswith(f"blackboard: not taken: {reason} (sequence "), said.err
        assert any(isinstance(event, e.InputLate) and event.reason == reason for event in await events_of(shared, run))

    not_that = "the digest is not that of what gate 'write' asks for"
    await refused(not_that, "approve", run, "--digest", "0" * 64)
    await refused(not_that, "approve", run, "--digest", other_gate.digest)
    unknown = await Client(shared, "bob").approve(run, "nothing", gate.digest)
    verdict = await verdict_on(shared, unknown, run)
    assert isinstance(verdict, e.InputLate)
    assert verdict.reason == "the run has no gate 'nothing'"
    nowhere = await call("approve", run, "--gate", "nothing", *there)
    assert (nowhere.code, "has no open gate 'nothing'; its gates: write (open)" in nowhere.err) == (1, True)
    assert not (tmp_path / "out").exists()

    answer, subjects = encode(Approve(gate="write", digest=gate.digest)), shared.subjects
    both = [Append(subjects.signal(person, run), answer) for person in ("ann", "bob")]  # one right after the other
    first, second = await shared.log.append(*both)
    assert isinstance(first, Stored)
    assert isinstance(second, Stored)
    assert isinstance(await verdict_on(shared, first.seq, run), e.GateAnswered)
    verdict = await verdict_on(shared, second.seq, run)
    assert isinstance(verdict, e.InputLate)
    assert verdict.reason == "gate 'write' was approved by ann already"
    await ended(shared, run)
    await refused("the run has ended", "deny", run, "--gate", "write", "--yes")
    late = [event for event in await events_of(shared, run) if isinstance(event, e.InputLate)]
    assert [event.author for event in late] == ["bob"] * 5
    assert (await ended(shared, run)).end == "DONE"
    assert (await asked_still(shared, other)) == ["write"]


async def asked_still(board: Board, run: str) -> list[str]:
    return list((await rebuild(board, run)).state.open_gates)


async def test_existing_file_with_other_content_is_refused_unless_overwritten(
    shared: Board, there: list[str], audit: Audit, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "licences.md").write_text("somebody else's")
    run, gate = await audit("kept", out)
    assert (await call("approve", run, "--digest", gate.digest, *there)).code == 0
    state = await ended(shared, run)
    assert (state.end, state.code) == ("FAILED", "INVALID_INPUT")
    assert "exists with other content; choose another `out`, or overwrite=true" in state.reason
    assert [path.name for path in out.iterdir()] == ["licences.md"]
    assert (out / "licences.md").read_text() == "somebody else's"

    run, gate = await audit("replaced", out, overwrite=True)
    assert gate.action[0]["input"]["overwrite"] is True, "a person sees that it replaces"
    assert (await call("approve", run, "--digest", gate.digest, *there)).code == 0
    assert (await ended(shared, run)).end == "DONE"
    assert written(out) == files_of(gate)
    run, gate = await audit("again", out)
    assert (await call("approve", run, "--digest", gate.digest, *there)).code == 0
    assert (await ended(shared, run)).end == "DONE", "the same content may be there"


@pytest.mark.parametrize("how", ["changed", "lost"])
async def test_one_byte_of_the_stored_report_changed_and_nothing_is_written(
    how: str, server: EmbeddedServer, shared: Board, there: list[str], audit: Audit, tmp_path: Path
) -> None:
    """As only an administrator can, who makes the stream of the blobs anew."""
    out = tmp_path / "out"
    run, gate = await audit("audit", out)
    digest = files_of(gate)["licences.md"]
    before = await shared.blobs.get(digest)
    left = before[:10] + bytes([before[10] ^ 1]) + before[11:] if how == "changed" else b""
    admin = await connect(server.url, "admin")
    try:
        await replaced(admin, shared.subjects, digest, left)
    finally:
        await admin.close()

    shown = await call("approve", run, "--digest", gate.digest, *there)
    assert shown.code == 0, shown
    assert f"cannot be shown: what is stored as {digest} is {len(left)} bytes with another digest" in shown.err
    state = await ended(shared, run)
    assert (state.end, state.code) == ("POLICY_BLOCKED", "POLICY_BLOCKED")
    assert "licences.md is not what was approved: what is stored as" in state.reason
    assert not out.exists()


async def replaced(admin: Connection, subjects: Subjects, digest: str, content: bytes) -> None:
    """Make the stream of the blobs anew, with `content` in place of the first part of one."""
    stream = subjects.blob_stream
    count = (await admin.api(f"STREAM.INFO.{stream}"))["state"]["messages"]
    kept = [await admin.api(f"STREAM.MSG.GET.{stream}", {"seq": seq}) for seq in range(1, count + 1)]
    await admin.api(f"STREAM.DELETE.{stream}")
    await make_blobs(admin, subjects)
    for message in (one["message"] for one in kept):
        is_it = message["subject"].endswith(f".{digest}.1")
        await admin.request(message["subject"], content if is_it else b64decode(message.get("data", "")))


async def test_what_a_stranger_stores_under_the_digest_of_a_report_changes_nothing(
    server: EmbeddedServer, shared: Board, there: list[str], audit: Audit, tmp_path: Path
) -> None:
    out = tmp_path / "out"
    run, gate = await audit("audit", out)
    digest = files_of(gate)["licences.md"]
    stranger = await connect(server.url, "stranger")
    try:
        for part, content in ((1, b"wrong"), (0, b'{"size":5,"parts":1}')):
            await stranger.request(shared.subjects.blob("aaa", digest, part), content)
    finally:
        await stranger.close()
    assert (await call("approve", run, "--digest", gate.digest, *there)).code == 0
    assert (await ended(shared, run)).end == "DONE"
    assert (out / "licences.md").read_bytes() == await shared.blobs.get(digest)


async def test_gate_costs_nothing_while_it_waits(shared: Board, there: list[str], audit: Audit, tmp_path: Path) -> None:
    run, gate = await audit("audit", tmp_path / "out")
    head = await shared.log.head()
    await asyncio.sleep(NOT_WAITED_S)
    assert await shared.log.head() == head, "no message while it waits"
    shown = await call("show", run, "--json", *there)
    assert [timer["timer"] for timer in shown.json["timers"]] == ["gate.write"]
    assert shown.json["in_flight"] == []
    assert await shared.queue.keys() == set()
    assert (await call("approve", run, "--digest", gate.digest, *there)).code == 0
    assert (await ended(shared, run)).end == "DONE"
