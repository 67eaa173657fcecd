"""`blackboard runs`: the table of runs, from the view."""

from msgspec.structs import asdict

from blackboard.board import Board
from blackboard.options import BoardOptions
from projections.cli_text import clean, console, dollars, lasting, when
from projections.run_row import RunRow
from projections.runner import Runner
from projections.status import NEEDS_INPUT
from projections.views import SQLiteRunsView, view_path
from schemas.subjects import BOARD_RUN

LONG = 5_000
"""Messages behind from which on catching up shows that it goes on."""
REASON_SHOWN = 60
"""Characters of why a run ended."""


async def list_runs(options: BoardOptions) -> None:
    settings = options.settings()
    async with settings.open("runs") as board:
        rows = [row for row in await _rows(board) if row.run != BOARD_RUN]
    if options.as_json:
        for row in rows:
            options.say(asdict(row))
    elif rows:
        _print(rows)
    else:
        console(stderr=True).print("no runs on this board yet; `blackboard publish` starts one")


async def _rows(board: Board) -> list[RunRow]:
    view = SQLiteRunsView(view_path(board.subjects.board, board.log.id))
    try:
        behind = await board.log.head() - view.position(board.log.id)
        if behind < LONG:
            await Runner(board, view).catch_up()
        else:
            with console(stderr=True).status("reading the log") as told:
                await Runner(board, view, lambda seq: told.update(f"reading the log: {seq}")).catch_up()
        return view.rows(board.log.id)
    finally:
        view.close()


def _print(rows: list[RunRow]) -> None:
    from rich.table import Table

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column("run", no_wrap=True)
    for heading in ("team", "phase", "opened", "took"):
        table.add_column(heading, no_wrap=True)
    headings = ["tasks", "facts", "missing", "conflicts", "tokens", "tools", "dollars"]
    unused = {"tools": not any(row.tool_calls for row in rows), "dollars": not any(row.micro_usd for row in rows)}
    for heading in headings:
        if not unused.get(heading):
            table.add_column(heading, justify="right", no_wrap=True)
    table.add_column("waits for / why", overflow="ellipsis", no_wrap=True, ratio=1)
    for row in rows:
        counts = [
            f"{row.tasks_ended}/{row.tasks}",
            str(row.facts),
            str(row.missing),
            str(row.conflicts),
            str(row.input_tokens + row.output_tokens),
            str(row.tool_calls),
            dollars(row.micro_usd),
        ]
        table.add_row(
            row.run,
            row.team,
            row.phase,
            when(row.opened_ms),
            lasting(row.ended_ms - row.opened_ms) if row.ended_ms else "",
            *(said for heading, said in zip(headings, counts, strict=True) if not unused.get(heading)),
            _short(clean(row.waiting_for or row.reason)),
            style="bold yellow" if row.phase == NEEDS_INPUT else "",
        )
    console().print(table)


def _short(reason: str) -> str:
    """A longer one would take the room of the other columns; `show` has the whole."""
    return reason if len(reason) <= REASON_SHOWN else f"{reason[: REASON_SHOWN - 1]}…"
