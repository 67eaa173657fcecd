"""`blackboard export`: a recorded log, or one run of it, as a file.

Messages go from the log to the file as they come; versions and chains are checked on the way. A file without its last
line was cut off, or the log was found to be damaged: it is not read.
"""

import sys
from collections.abc import AsyncIterator
from contextlib import AbstractContextManager, nullcontext
from pathlib import Path
from typing import BinaryIO

import click
from msgspec.structs import asdict

from blackboard.board import Board, floor_of
from blackboard.find import find_run
from blackboard.history_file import Header, HistoryWriter, Trailer
from blackboard.log import Message
from blackboard.options import BoardOptions
from projections.audit import Chains
from projections.cli_text import count

STDOUT = "-"


async def export_history(options: BoardOptions, text: str | None, path: str) -> None:
    """`text` names the run; None: all of the log. Without a run that is found, no file is made. Raises Violation,
    LogDamaged at the first event or message that is not what was written, and then the file has no last line."""
    settings = options.settings()
    async with settings.open("export") as board:
        run = await find_run(board, text) if text else ""
        header = await _header(board, run)
        with _opened(path) as out:
            trailer = await _write(board, header, out)
    said = f"{count(trailer.messages, 'message')} in {path}, sha256 {trailer.sha256}"
    if path == STDOUT:
        click.echo(said, err=True)
    else:
        options.say({"file": path, "run": run, "log": header.log, "upto": header.upto, **asdict(trailer)}, said)


def _opened(path: str) -> AbstractContextManager[BinaryIO]:
    return nullcontext(sys.stdout.buffer) if path == STDOUT else Path(path).open("wb")


async def _header(board: Board, run: str) -> Header:
    """Of a run: up to its last message, with as much of the catalogue as was below it."""
    floor = floor_of(await board.log.last(board.subjects.every("fact")))  # first: facts about what it names are there
    upto = await board.log.head()
    if run:
        last = [await board.log.last(subject) for subject in board.subjects.of_run(run)]
        upto = min(upto, max(message.seq for message in last if message))
    return Header(log=board.log.id, board=board.subjects.board, run=run, upto=upto, floor=min(floor, upto))


async def _write(board: Board, header: Header, out: BinaryIO) -> Trailer:
    writer, chains = HistoryWriter(out, header), Chains(board.log.id, board.subjects)
    async for message in _messages(board, header):
        chains.add(message)
        writer.add(message)
    return writer.close()


async def _messages(board: Board, header: Header) -> AsyncIterator[Message]:
    subjects = board.subjects
    catalogue = [subjects.every("contract"), subjects.every("playbook")]
    wanted = [*catalogue, *subjects.of_run(header.run)] if header.run else []
    async for messages in board.log.scan(wanted, upto=header.upto):
        for message in messages:
            yield message
