"""`blackboard watch`: one run while it goes on."""

from collections import deque
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import click

from blackboard.find import find_run
from blackboard.options import BoardOptions
from projections.audit import Recorded
from projections.canonical import State
from projections.cli_events import sentence
from projections.cli_text import clean, console, count, lasting, value
from projections.live import follow
from projections.status import EXIT_CODES, NEEDS_INPUT, ending, progress, steps

if TYPE_CHECKING:
    from rich.console import RenderableType
    from rich.live import Live

NOTES_SHOWN = 8
"""Of what did not go as the plan has it, the newest."""


async def watch_run(options: BoardOptions, text: str, no_input: bool) -> int:
    """The exit code that says how the run ended; with `no_input`, or that it waits for a person."""
    settings = options.settings()
    async with settings.open("watch") as board:
        run = await find_run(board, text)
        newest = await board.log.last(board.subjects.fact(run))
        display = _Json(options) if options.as_json else _Lines() if not console(stderr=True).is_terminal else _Table()
        state: State | None = None
        try:
            async for folded in follow(board, run, display.hear):
                state = folded.state
                display.show(state)
                if no_input and state.phase == NEEDS_INPUT and (newest is None or folded.seq >= newest.seq):
                    break  # it waits now, and not only once upon a time
        finally:
            display.close()
        assert state is not None, "a run that is followed to its end has a state"
        if not state.end:
            return EXIT_CODES[NEEDS_INPUT]
        if not options.as_json:
            _say_end(state)
        return EXIT_CODES[state.end]


def _say_end(state: State) -> None:
    told = " ".join(filter(None, (state.code, clean(state.reason))))
    reason = f": {told}" if told else ""
    facts = f"{count(len(state.facts), 'fact')}, {len(state.missing)} missing, {lasting(state.now - state.opened)}"
    click.echo(f"{state.run} is {state.end}{reason} ({facts})", err=True)
    if state.result is not None:
        click.echo(value(state.result))


class _Json:
    """Each change is a line on stdout; the last one tells the end."""

    def __init__(self, options: BoardOptions) -> None:
        self._options = options
        self._notes: list[str] = []

    def hear(self, item: Recorded) -> None:
        self._notes += filter(None, [sentence(item.event)])

    def show(self, state: State) -> None:
        record: dict[str, Any] = progress(state) | {"notes": self._notes} | (ending(state) if state.end else {})
        self._options.say(record)
        self._notes = []

    def close(self) -> None:
        pass


class _Lines:
    """Where stderr is no terminal: a line for each change that one can see."""

    def __init__(self) -> None:
        self._last = ""

    def hear(self, item: Recorded) -> None:
        if note := sentence(item.event):
            click.echo(clean(note), err=True)

    def show(self, state: State) -> None:
        line = progress_line(state)
        if line != self._last:
            click.echo(line, err=True)
        self._last = line

    def close(self) -> None:
        pass


class _Table:
    """On a terminal: the steps, redrawn with each change."""

    def __init__(self) -> None:
        self._live: Live | None = None
        self._notes: deque[str] = deque(maxlen=NOTES_SHOWN)

    def hear(self, item: Recorded) -> None:
        if note := sentence(item.event):
            self._notes.append(clean(note))

    def show(self, state: State) -> None:
        from rich.live import Live

        if self._live is None:
            self._live = Live(console=console(stderr=True), auto_refresh=False)
            self._live.start()
        self._live.update(_drawing(state, self._notes), refresh=True)

    def close(self) -> None:
        if self._live is not None:
            self._live.stop()


def progress_line(state: State) -> str:
    """The run on one line: phase, keys decided of each step, facts, tasks in flight, what it waits for."""
    now = progress(state)
    counts = [f"{name} {done}" for name, done in now["steps"].items()]
    line = "  ".join([now["phase"], *counts, f"facts {now['facts']}", _going(now["tasks"])])
    return clean("; ".join([line, *now["waits"]]))


def _going(tasks: dict[str, int]) -> str:
    counts = [("in flight", tasks["in_flight"]), ("delayed", tasks["delayed"]), ("waiting for room", tasks["ready"])]
    return ", ".join(f"{what} {number}" for what, number in counts if number or what == "in flight")


def _drawing(state: State, notes: Iterable[str]) -> "RenderableType":
    from rich.console import Group
    from rich.table import Table
    from rich.text import Text

    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
    for heading in ("step", "status", "keys", "tasks", "by"):
        table.add_column(heading, overflow="ellipsis", no_wrap=True)
    for step in steps(state):
        keys = f"{step['settled']}/{step['items']}" if step["items"] is not None else ""
        tasks = f"{step['ended']}/{step['tasks']}" if step["tasks"] else ""
        table.add_row(step["step"], step["status"], keys, tasks, clean(", ".join(step["voices"]) or step["by"]))
    now = progress(state)
    head = f"{state.run}  {state.phase}  {count(len(state.facts), 'fact')}, {_going(now['tasks'])}"
    waiting = [Text(clean(line), style="yellow") for line in now["waits"]]
    return Group(Text(head, style="bold"), table, *(Text(note, style="dim") for note in notes), *waiting)
