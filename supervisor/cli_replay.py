"""`blackboard replay`: recorded runs decided again by the rules of this release, and the first event that is another.

From a board, or from a file that `blackboard export` wrote. Verdicts come as soon as a run was read; of each run the
first event that differs is shown with both versions.
"""

import json
import sys
from collections.abc import AsyncIterator, Iterator
from itertools import islice
from typing import Any

import click
import msgspec

from blackboard.board import Board, floor_of
from blackboard.find import NoSuchRun, find_run
from blackboard.history_file import HistoryFile
from blackboard.log import Message
from blackboard.options import BoardOptions
from schemas.subjects import Subjects
from supervisor.compare import Comparison, Divergence, Equal, NotDecidable, Verdict
from supervisor.installed import installed_policies

BATCH = 500
"""Messages of a file that are compared at once."""
SHOWN = 12
"""Differing fields of one event that are shown; --json has all."""
PROGRESS = 100
"""Runs between two lines of progress where stderr is no terminal."""
LAST_OF = ("goal", "signal", "obs", "wake", "fact")


async def replay_run(options: BoardOptions, text: str) -> bool:
    """Whether all of one run is decided today as it was."""
    settings = options.settings()
    async with settings.open("replay") as board:
        run = await find_run(board, text)
        verdicts = [verdict async for verdict in _of_run(board, run)]
    if not verdicts:
        raise NoSuchRun(f"run {run} has no events; `blackboard show {run}` says why")
    return _tell(options, verdicts[0])


async def replay_all(options: BoardOptions) -> bool:
    """Whether all runs are, in one read of the log."""
    settings, telling = options.settings(), _Telling(options)
    async with settings.open("replay") as board:
        async for verdict in _of_board(board):
            telling.add(verdict)
    return telling.close()


async def replay_file(options: BoardOptions, path: str) -> bool:
    """Whether all runs in a file are; the file is verified first."""
    telling = _Telling(options)
    for verdict in _of_file(HistoryFile(path)):
        telling.add(verdict)
    return telling.close()


# --- where messages come from -----------------------------------------------------------------------------------------


async def _of_run(board: Board, run: str) -> AsyncIterator[Verdict]:
    subjects = board.subjects
    comparison = Comparison(board.log.id, subjects, only=run, policies=installed_policies())
    floor = floor_of(await board.log.last(subjects.every("fact")))  # first: facts about what it names are read then
    catalogue = [subjects.every("contract"), subjects.every("playbook")]
    async for messages in board.log.scan([*catalogue, *subjects.of_run(run)]):
        for verdict in comparison.add(messages):
            yield verdict
    for verdict in [*comparison.add([], floor), *comparison.finish()]:
        yield verdict


async def _of_board(board: Board) -> AsyncIterator[Verdict]:
    head = await board.log.head()
    last: dict[str, int] = {}
    for family in LAST_OF:
        async for message in board.log.last_per_subject(board.subjects.every(family)):
            _remember(last, board.subjects, message)
    last = {run: seq for run, seq in last.items() if seq <= head}  # the others go on
    comparison = Comparison(board.log.id, board.subjects, last=last, policies=installed_policies())
    async for messages in board.log.scan(upto=head):
        for verdict in comparison.add(messages, max(map(floor_of, messages))):
            yield verdict
    for verdict in comparison.finish():
        yield verdict


def _of_file(file: HistoryFile) -> Iterator[Verdict]:
    header, subjects = file.header, Subjects(file.header.board)
    last: dict[str, int] = {}
    for message in file:
        _remember(last, subjects, message)
    only, last = header.run, {} if header.run else last
    comparison = Comparison(header.log, subjects, only=only, last=last, policies=installed_policies())
    messages = iter(file)
    while batch := list(islice(messages, BATCH)):
        yield from comparison.add(batch, max(map(floor_of, batch)))
    yield from comparison.add([], header.floor)
    yield from comparison.finish()


def _remember(last: dict[str, int], subjects: Subjects, message: Message) -> None:
    if (address := subjects.address(message.subject)) and address.run:
        last[address.run] = max(message.seq, last.get(address.run, 0))


# --- what is said -----------------------------------------------------------------------------------------------------


class _Telling:
    """Tells verdicts as they come, on stderr how many there were."""

    def __init__(self, options: BoardOptions) -> None:
        self._options = options
        self._equal = self._others = 0

    def add(self, verdict: Verdict) -> None:
        if _tell(self._options, verdict):
            self._equal += 1
        else:
            self._others += 1
        if (done := self._equal + self._others) % PROGRESS == 0:
            click.echo(f"{done} runs decided again, {self._others} of them otherwise", err=True)

    def close(self) -> bool:
        runs = self._equal + self._others
        told = f"{runs} run{'' if runs == 1 else 's'} decided again"
        click.echo(f"{told}: {self._equal} equal, {self._others} not", err=True)
        return not self._others


def _tell(options: BoardOptions, verdict: Verdict) -> bool:
    """Whether it is one of equality."""
    match verdict:
        case Equal():
            options.say({"equal": True, **msgspec.to_builtins(verdict)}, _equal(verdict))
        case Divergence():
            options.say({"equal": False, **_record(verdict)}, "\n".join(_diverging(verdict)))
        case NotDecidable(run=run, version=version, reason=reason):
            text = f"{_safe(run)}  event {version} cannot be decided again: {_safe(reason)}"
            options.say({"equal": False, **msgspec.to_builtins(verdict)}, text)
    return isinstance(verdict, Equal)


def _equal(verdict: Equal) -> str:
    rules = ", ".join(map(str, verdict.rules)) or "none"
    waiting = f"  {verdict.waiting} inputs wait for a supervisor" if verdict.waiting else ""
    return (
        f"{verdict.run}  equal  version {verdict.version}  head {verdict.head}  rules {rules}  inputs {verdict.inputs}"
        f"{waiting}"
    )


def _record(divergence: Divergence) -> dict[str, Any]:
    fields = [msgspec.to_builtins(one) for one in divergence.fields]
    return {**msgspec.to_builtins(divergence), "fields": fields}


def _diverging(divergence: Divergence) -> Iterator[str]:
    record = _record(divergence)
    fields = record["fields"]
    kind = (record["recorded"] or record["decided"])["type"]
    what = "is another today"
    if divergence.recorded is None or divergence.decided is None:
        what = "is not decided today" if divergence.recorded else "is decided today and was not"
    yield f"{divergence.run}  event {divergence.version} {what}: {kind}, about the input at sequence {divergence.seq}"
    for one in fields[:SHOWN]:
        yield f"  {_safe(one['field'])}"
        yield f"    recorded  {_json(one['recorded']) if 'recorded' in one else 'nothing'}"
        yield f"    decided   {_json(one['decided']) if 'decided' in one else 'nothing'}"
    if len(fields) > SHOWN:
        yield f"  and {len(fields) - SHOWN} more fields"
    for name in ("recorded", "decided"):
        yield f"  {name} event  {_json(record[name]) if record[name] else 'none'}"


def _json(value: Any) -> str:
    """On one line, in ASCII: what stands on the log was written by others, and a terminal obeys nothing of it."""
    return json.dumps(value)


def _safe(text: str) -> str:
    return text if text.isprintable() else json.dumps(text)


def end(equal: bool) -> None:
    """The exit code: 0 when all is decided as it was, else 1."""
    if not equal:
        sys.exit(1)
