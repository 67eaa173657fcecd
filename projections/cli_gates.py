"""`blackboard approve` and `deny`: what a person sees of a gate, and the answer bound to it.

The question, each item of the action, and of each blob that it names size and first lines are shown before anything is
appended. The answer cites the digest of what was shown; what became of it is read back from the run.
"""

from collections.abc import Iterator
from typing import Any

import click

from blackboard.blobs import BlobDamaged, BlobMissing
from blackboard.board import Board, open_board
from blackboard.client import Client
from blackboard.find import find_run
from blackboard.options import BoardOptions
from projections.canonical import Gate
from projections.cli_text import clean, value
from projections.live import follow_to
from projections.rebuild import history, rebuild
from schemas.events import InputLate

FIRST_LINES = 5
LINE_WIDTH = 100
SHA256_DIGITS = 64


class NoGate(LookupError):
    """There is nothing to answer."""

    exit_code = 1


class Refused(Exception):
    """The answer was appended and not taken."""

    exit_code = 1


async def answer_gate(
    options: BoardOptions, text: str, name: str | None, cited: str | None, approve: bool, sure: bool, reason: str
) -> None:
    """`cited` or `sure` answer without asking; `cited` must be the digest of the open gate."""
    settings = options.settings()
    async with open_board(settings.nats, settings.board, name="approve") as board:
        run = await find_run(board, text)
        gate_name, gate = await _open_gate(board, run, name)
        if not options.as_json:
            await _show(board, run, gate_name, gate)
        verb = "approve" if approve else "deny"
        if not (cited or sure):
            click.confirm(f"{verb} {gate_name} of {run}?", abort=True, err=True)
        client, digest = Client(board, settings.name), cited or gate.digest
        seq = await (client.approve(run, gate_name, digest) if approve else client.deny(run, gate_name, digest, reason))
        await _read_back(board, run, seq)
        record = {"run": run, "gate": gate_name, "digest": digest, "approved": approve, "seq": seq}
        options.say(record, f"{gate_name} of {run} is {'approved' if approve else 'denied'}, at sequence {seq}")


async def _open_gate(board: Board, run: str, name: str | None) -> tuple[str, Gate]:
    """The gate that is meant. An answered gate is returned as well when it is named: the run says what it thinks."""
    state = (await rebuild(board, run)).state
    if name and name in state.gates:
        return name, state.gates[name]
    gates = state.open_gates
    if name or not gates:
        answered = ", ".join(f"{key} ({_answered(gate)})" for key, gate in state.gates.items()) or "none"
        raise NoGate(f"run {run} has no open gate{f' {name!r}' if name else ''}; its gates: {answered}")
    if len(gates) > 1:
        raise NoGate(f"run {run} has {len(gates)} open gates: name one of {', '.join(gates)} with --gate")
    return next(iter(gates.items()))


def _answered(gate: Gate) -> str:
    if gate.open:
        return "open"
    return f"{'approved' if gate.approved else 'denied'} by {gate.by}{' in advance' if gate.in_advance else ''}"


async def _show(board: Board, run: str, name: str, gate: Gate) -> None:
    click.echo(clean(f"run {run} asks at gate {name}: {gate.ask or 'may this step begin?'}"))
    for item in gate.action:
        click.echo(clean(f"  {item['key']}: {value(item['input'], 2_000)}"))
    for label, blob in _blobs(gate.action):
        await _show_blob(board, label, blob)
    click.echo(f"  digest {gate.digest}")


def _blobs(value: Any, label: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each blob inside of an action, with the name that stands beside it."""
    if isinstance(value, dict):
        if set(value) >= {"sha256", "size"} and len(str(value["sha256"])) == SHA256_DIGITS:
            yield label, value
            return
        label = str(value.get("name", label))
    parts = value.values() if isinstance(value, dict) else value if isinstance(value, list) else []
    for part in parts:
        yield from _blobs(part, label)


async def _show_blob(board: Board, label: str, blob: dict[str, Any]) -> None:
    click.echo(clean(f"  {label or 'blob'}  {blob['size']} bytes  sha256 {blob['sha256']}"))
    try:
        data = await board.blobs.get(blob["sha256"])
    except (BlobMissing, BlobDamaged) as error:
        click.echo(clean(f"    cannot be shown: {error}"), err=True)
        return
    for line in data.decode("utf-8", "replace").splitlines()[:FIRST_LINES]:
        click.echo(clean(f"    | {line[:LINE_WIDTH]}"))


async def _read_back(board: Board, run: str, seq: int) -> None:
    """Wait for what the run made of the answer. Raises Refused with the run's reason."""
    await follow_to(board, run, seq)
    _, events = await history(board, run)
    for recorded in events:
        event = recorded.event
        if event.cause.seq == seq and isinstance(event, InputLate):
            raise Refused(f"not taken: {event.reason} (sequence {seq})")
