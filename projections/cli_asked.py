"""What a person sees of a gate before answering it: the question, exactly what will be done and by whom, and of each
blob that it names size and first lines."""

import re
from collections.abc import Iterator
from itertools import islice
from typing import Any

import click

from blackboard.blobs import BlobDamaged, BlobMissing, BlobsUnavailable
from blackboard.board import Board
from projections.canonical import Gate
from projections.cli_text import clean, count, value, when
from projections.status import kind, question

FIRST_LINES = 5
LINE_WIDTH = 100
SHOWN = 2_000
"""Characters of one line of an action."""
BLOBS_SHOWN = 20
_SHA256 = re.compile(r"[0-9a-f]{64}")


async def show_gate(board: Board, run: str, name: str, gate: Gate) -> None:
    asks = f"{gate.task} asks at gate {name}" if gate.task else f"asks at gate {name}"
    ask = question(gate) if gate.schema is not None else gate.ask or "may this step begin?"
    click.echo(clean(f"run {run} {'task ' if gate.task else ''}{asks}: {ask}"))
    for line in _action(gate):
        click.echo(f"  {_whole(line, run)}")
    blobs = _blobs(gate.action)
    for label, blob in islice(blobs, BLOBS_SHOWN):
        await _show_blob(board, label, blob)
    if more := sum(1 for _ in blobs):
        click.echo(f"  and {count(more, 'blob')} more; `blackboard show {run} --json` has them all")
    for line in _terms(name, gate):
        click.echo(clean(f"  {line}"))


def _action(gate: Gate) -> Iterator[str]:
    """What will be done: the items of a step, or whatever a specialist says that it will do."""
    action = gate.action
    if isinstance(action, list) and all(isinstance(item, dict) and set(item) == {"key", "input"} for item in action):
        yield from (f"{item['key']}: {value(item['input'])}" for item in action)
    elif action is not None:
        yield value(action)


def _whole(line: str, run: str) -> str:
    """The line, or as much as is shown of it, and then where the rest is: nobody approves what was not to be seen."""
    line = clean(line)
    if len(line) <= SHOWN:
        return line
    return f"{line[:SHOWN]}… ({len(line) - SHOWN} characters more; `blackboard show {run} --json` has them)"


def _terms(name: str, gate: Gate) -> Iterator[str]:
    if gate.voices:
        done = ", ".join(f"{one.specialist} by its contract at {one.contract}" for one in gate.voices)
        yield f"done by {done}"
    if gate.who:
        yield f"for {' or '.join(gate.who)}"
    if gate.schema is not None:
        yield f"the answer fits {value(gate.schema, SHOWN)}"
    if kind(name, gate) == "loop":
        yield "approved, it goes on, and the same may come as often again; denied, the run ends"
    if gate.open:
        yield f"until {when(gate.opened + gate.expires_ms)} UTC"
    yield f"digest {gate.digest}"


def _blobs(value: Any, label: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Each blob inside of an action, with the name that stands beside it."""
    if isinstance(value, dict):
        if set(value) >= {"sha256", "size"} and _SHA256.fullmatch(str(value["sha256"])):
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
    except (BlobMissing, BlobDamaged, BlobsUnavailable) as error:
        click.echo(clean(f"    cannot be shown: {error}"), err=True)
        return
    for line in data.decode("utf-8", "replace").splitlines()[:FIRST_LINES]:
        click.echo(clean(f"    | {line[:LINE_WIDTH]}"))
