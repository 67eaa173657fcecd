"""`blackboard rebuild`: runs from the log alone, their digests, and whether they are what was written."""

from collections.abc import AsyncIterator
from contextlib import nullcontext
from typing import Any

import msgspec

from blackboard.board import Board
from blackboard.find import NoSuchRun, find_run
from blackboard.options import BoardOptions
from projections.audit import Audited, Ledger, Violation
from projections.cli_text import console, count
from projections.history import Folded
from projections.rebuild import check, check_all, rebuild, rebuild_all
from projections.status import digests


async def rebuild_one(options: BoardOptions, text: str, version: int | None, checked: bool) -> None:
    settings = options.settings()
    async with settings.open("rebuild") as board:
        run = await find_run(board, text)
        record = (
            _audited(await check(board, run)) if checked else _record(await rebuild(board, run, version, Ledger().see))
        )
    if not record["version"]:
        raise NoSuchRun(f"run {run} has no events; `blackboard show {run}` says why")
    options.say(record, _line(record))


async def rebuild_each(options: BoardOptions, checked: bool) -> None:
    settings, done = options.settings(), 0
    async with settings.open("rebuild") as board:
        told = console(stderr=True)
        with told.status("reading the log") if told.is_terminal else nullcontext() as status:
            async for record in _records(board, checked):
                done += 1
                options.say(record, _line(record))
                if status:
                    status.update(f"reading the log: {count(done, 'run')}")
        told.print(f"{count(done, 'run')} {'checked' if checked else 'rebuilt'}")


async def _records(board: Board, checked: bool) -> AsyncIterator[dict[str, Any]]:
    if checked:
        async for result in check_all(board):
            yield _audited(result)
    else:
        async for folded in rebuild_all(board):
            yield _record(folded)


def _record(folded: Folded) -> dict[str, Any]:
    version = folded.state.version
    return {"run": folded.state.run, "version": version, "budget_kept": version, **digests(folded)}


def _audited(result: Audited | Violation) -> dict[str, Any]:
    if isinstance(result, Violation):
        raise result
    return msgspec.structs.asdict(result) | {"budget_kept": result.version}


def _line(record: dict[str, Any]) -> str:
    line = "{run}  version {version}  head {head}  state {state}  outcome {outcome}".format_map(record)
    line += f"  budget kept at {count(record['budget_kept'], 'version')}"
    return f"{line}  {record['inputs']} inputs and {record['states']} states as cited" if "inputs" in record else line
