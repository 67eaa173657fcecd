"""A board that was recorded once, with a notary at work, and stopped: what the attacks begin with."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from msgspec import Struct
from nacl.signing import SigningKey

from blackboard.board import Board, open_board
from blackboard.client import Client
from blackboard.jetstream import JetStreamLog
from blackboard.log import Append, Message
from blackboard.server import EmbeddedServer
from projections.audit import recorded as events_of
from projections.live import follow
from projections.notary import public_of
from projections.notary_service import Notary
from projections.verify import Verdict, verify
from projections.witness_file import FileWitness
from schemas.inputs import Progress
from schemas.playbooks import Playbook
from schemas.subjects import Subjects
from tests.projections.world import ended, serving, teach

GATED = {
    "team": "gated",
    "returns": {"total": "facts.add"},
    "steps": [{"id": "add", "capability": "add", "input": {"seen": "input.names"}, "gate": {"ask": "Add them up?"}}],
}
KEY = SigningKey(b"notary".ljust(32, b"."))
PUBLIC = public_of(KEY)
SERVER, WITNESS = "server", "heads.jsonl"


class Place(Struct, frozen=True):
    """Where a message belongs: `version` is its first event, or the first event that cites it; 0: none does."""

    run: str
    version: int


class Recorded(Struct, frozen=True):
    """`folder` holds the server's files and the witness's; `signed` are the sequences at which heads end."""

    folder: Path
    log_id: str
    messages: list[Message]
    places: dict[int, Place]
    signed: list[int]

    def message(self, seq: int) -> Message:
        return self.messages[seq - 1]

    def run_of(self, seq: int) -> str:
        """As the subject says."""
        address = Subjects().address(self.message(seq).subject)
        return address.run if address else ""

    def sequences(self, part: str, holding: bytes = b"") -> list[int]:
        """Of the messages with `part` in their subjects and `holding` in their data."""
        return [one.seq for one in self.messages if part in one.subject and holding in one.data]

    @asynccontextmanager
    async def restored(self, folder: Path, edit: Callable[[Path], None] | None = None) -> AsyncIterator[str]:
        """A server over a copy of the files, `edit`ed before it starts; its URL."""
        shutil.copytree(self.folder / SERVER, folder)
        if edit:
            edit(stream_of(folder))
        with EmbeddedServer(folder) as server:
            yield server.url


def stream_of(folder: Path) -> Path:
    (found,) = folder.glob("data/jetstream/*/streams/BOARD_main")
    return found


async def record(folder: Path) -> Recorded:
    """Runs that go on beside each other, a gate that is approved, a cancel, a late input, a rejected goal."""
    await asyncio.to_thread(folder.mkdir, parents=True, exist_ok=True)
    with EmbeddedServer(folder / SERVER) as server:
        async with open_board(server.url, create=True) as board:
            witness = FileWitness(folder / WITNESS)
            notary = Notary(board, KEY, [witness], lambda: 1_700_000_000_000)
            await notary.begin()
            await teach(board)
            await Client(board, "teacher").teach(Playbook.model_validate(GATED))
            signed = [one.head.seq for one in await notary.turn()]
            async with serving(board):
                for part in (_together(board), _gated(board), _rejected(board)):
                    await part
                    signed += [one.head.seq for one in await notary.turn()]
            signed += [one.head.seq for one in await notary.turn()]
            await witness.close()
            messages = [message async for batch in board.log.scan() for message in batch]
            return Recorded(folder, board.log.id, messages, _places(board, messages), signed)


async def _together(board: Board) -> None:
    client = Client(board, "me")
    for number, run in enumerate(("one", "two", "three")):
        await client.publish("survey", {"names": ["x", "y", f"z{number}"]}, run)
    await Client(board, "alice").observe("two", Progress(task="nothing", attempt=1, execution="e", message="so far"))
    for run in ("one", "two", "three"):
        await ended(board, run)


async def _gated(board: Board) -> None:
    client = Client(board, "me")
    for run in ("approved", "cancelled"):
        await client.publish("gated", {"names": ["a", "b"]}, run)
        gate = await _gate(board, run)
        if run == "approved":
            await Client(board, "ann").approve(run, "add", gate.digest)
        else:
            await Client(board, "bob").cancel(run, "never mind")
        await ended(board, run)


async def _gate(board: Board, run: str) -> Any:
    async for folded in follow(board, run):
        if folded.state.open_gates:
            return folded.state.open_gates["add"]
    raise AssertionError(f"run {run} asked nothing")


async def _rejected(board: Board) -> None:
    await board.log.append(Append(board.subjects.goal("stranger", "none"), b"no goal"))
    await Client(board, "bob").cancel("one")
    async with asyncio.timeout(10):
        while await board.log.last(board.subjects.fact("_board")) is None:  # noqa: ASYNC110 - the log says it
            await asyncio.sleep(0.01)


def _places(board: Board, messages: list[Message]) -> dict[int, Place]:
    found: dict[int, Place] = {}
    for message in messages:
        address = board.subjects.parse(message.subject)
        found[message.seq] = Place(address.run, 0)
        if address.family != "fact":
            continue
        events = list(events_of(message, board.log.id, address.run))
        found[message.seq] = Place(address.run, events[0].version)
        for item in events:
            cause = item.event.cause.seq
            if not found[cause].version:
                found[cause] = Place(address.run, item.version)
    return found


async def verdict_on(url: str, heads: Path | None, run: str = "", direct: bool = False) -> Verdict:
    """`direct`: as an identity reads that may make no consumer."""
    async with open_board(url) as board:
        if direct:
            assert isinstance(board.log, JetStreamLog)
            board.log._direct = True
        witnesses = [FileWitness(heads)] if heads else []
        return await verify(board, run, witnesses, PUBLIC)
