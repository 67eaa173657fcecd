"""`blackboard inbox`: everything that waits for people, over all runs that go on.

Only runs that have not ended are folded; of the others the last message alone is looked at.
"""

import asyncio
import shlex
import sys
import time
from collections.abc import Sequence
from contextlib import aclosing
from typing import TYPE_CHECKING, Any

import click
from msgspec import Struct

from blackboard.board import Board
from blackboard.log import Message
from blackboard.options import BoardOptions
from projections.audit import Violation, take
from projections.canonical import Gate, State
from projections.cli_text import clean, console, count, lasting, when
from projections.history import Folded
from projections.live import messages
from projections.rebuild import rebuild
from projections.status import answered, answering, kind, may_answer, question
from schemas.access import Role
from schemas.codec import ends_run

if TYPE_CHECKING:
    from rich.console import RenderableType

FOLDED_AT_ONCE = 16
REDRAWN_PER_SECOND = 1 / 30
"""How often a list on a terminal is drawn again when nothing comes, because times go on."""
_OPENS_GATE = b'"type":"gate_opened"'


class Asked(Struct, frozen=True):
    """One gate that is open, of `run`."""

    run: str
    team: str
    name: str
    gate: Gate

    @property
    def expires_ms(self) -> int:
        return self.gate.opened + self.gate.expires_ms


class Inbox:
    """The open gates of a board. `closed` are those that were open here, with what became of them; `broken` says of
    runs that cannot be read, why not. Who has told of these takes them out. A gate that asks anew for something else is
    closed, and open with another digest."""

    def __init__(self, board: Board) -> None:
        self._board = board
        self._asking: dict[str, Folded] = {}
        self.closed: list[tuple[Asked, str]] = []
        self.broken: dict[str, str] = {}
        self.position = 0

    async def load(self) -> None:
        """What is open now; `position` is a sequence from behind which nothing was left out."""
        self.position = await self._board.log.head()
        going = [
            address.run
            async for message in self._board.log.last_per_subject(self._board.subjects.every("fact"))
            if (address := self._board.subjects.address(message.subject))
            and not ends_run(message.data, self._board.log.id, address.run)
        ]
        for start in range(0, len(going), FOLDED_AT_ONCE):
            await asyncio.gather(*map(self._read, going[start : start + FOLDED_AT_ONCE]))

    async def take(self, messages: Sequence[Message]) -> None:
        """Fact messages that follow, in order."""
        for message in messages:
            address = self._board.subjects.address(message.subject)
            if address is None:
                continue
            if known := self._asking.get(address.run):
                if message.seq > known.seq:
                    self._follow(known, message)
            elif _OPENS_GATE in message.data:  # a value may hold these bytes too
                await self._read(address.run)

    def asked(self) -> list[Asked]:
        """The oldest first."""
        found = [
            Asked(run, folded.state.team, name, gate)
            for run, folded in self._asking.items()
            for name, gate in folded.state.open_gates.items()
        ]
        return sorted(found, key=lambda one: (one.gate.opened, one.run, one.name))

    async def _read(self, run: str) -> None:
        try:
            self._keep(await rebuild(self._board, run))
        except Violation as violation:
            self.broken[run] = str(violation)

    def _follow(self, known: Folded, message: Message) -> None:
        try:
            self._keep(take(known, message))
        except Violation as violation:
            del self._asking[known.state.run]
            self.broken[known.state.run] = str(violation)

    def _keep(self, folded: Folded) -> None:
        state = folded.state
        before = self._asking.get(state.run)
        for name, gate in before.state.open_gates.items() if before else ():
            if how := _closed(state, name, gate):
                self.closed.append((Asked(state.run, state.team, name, gate), how))
        if state.open_gates:
            self._asking[state.run] = folded
        else:
            self._asking.pop(state.run, None)


def _closed(state: State, name: str, gate: Gate) -> str:
    """What became of a gate that was open; empty where it still is."""
    if now := state.open_gates.get(name):
        return "" if now.digest == gate.digest else "asked anew"
    return f"the run is {state.end}" if state.end and state.gates[name].open else answered(state, name)


class Reader(Struct, frozen=True):
    """For whom the inbox is shown: `only` leaves out what is for others. `options` are repeated in commands."""

    name: str
    only: bool
    options: tuple[str, ...]

    def choose(self, asked: list[Asked]) -> list[Asked]:
        """What this person may answer first."""
        mine = [one for one in asked if may_answer(one.gate, self.name)]
        return mine if self.only else mine + [one for one in asked if not may_answer(one.gate, self.name)]

    def record(self, one: Asked) -> dict[str, Any]:
        gate = one.gate
        return {
            "open": True,
            "run": one.run,
            "team": one.team,
            "gate": one.name,
            "kind": kind(one.name, gate),
            "task": gate.task,
            "ask": gate.ask,
            "action": gate.action,
            "schema": gate.schema,
            "who": list(gate.who),
            "mine": may_answer(gate, self.name),
            "since_ms": gate.opened,
            "expires_ms": one.expires_ms,
            "digest": gate.digest,
            "command": self.command(one),
        }

    def command(self, one: Asked) -> str:
        return shlex.join(["blackboard", *answering(one.run, one.name, one.gate).split(), *self.options])

    def lines(self, one: Asked, now_ms: int) -> list[str]:
        gate = one.gate
        since = f"since {when(gate.opened)} UTC ({lasting(max(0, now_ms - gate.opened))})"
        left = one.expires_ms - now_ms
        expires = f"expires in {lasting(left)}" if left > 0 else "expires now"
        whom = f"for {' or '.join(gate.who)}" if gate.who else "for anybody"
        task = f", asked by task {gate.task}" if gate.task else ""
        return [
            clean(f"{kind(one.name, gate)}  run {one.run}  team {one.team}  gate {one.name}{task}"),
            clean(f"    {question(gate)}"),
            clean(f"    {whom}, {since}, {expires}"),
            clean(f"    {self.command(one)}"),
        ]


def _reader(options: BoardOptions, name: str, person: str | None) -> Reader:
    given = {
        "--nats": options.nats,
        "--creds": options.creds,
        "--ca": options.ca,
        "--board": options.board,
        "--name": options.name,
    }
    return Reader(
        person or name, bool(person), tuple(word for key, said in given.items() if said for word in (key, said))
    )


# --- once -------------------------------------------------------------------------------------------------------------


async def list_asked(options: BoardOptions, person: str | None) -> int:
    """The exit code: 1 where a run cannot be read."""
    settings = options.settings()
    reader = _reader(options, settings.name, person)
    async with settings.open("inbox", Role.APPROVER) as board:
        inbox = Inbox(board)
        await inbox.load()
    _print(options, reader, reader.choose(inbox.asked()))
    return _say_broken(inbox)


def _print(options: BoardOptions, reader: Reader, asked: list[Asked]) -> None:
    if options.as_json:
        for one in asked:
            options.say(reader.record(one))
        return
    for one in asked:
        dim = not may_answer(one.gate, reader.name)
        for line in reader.lines(one, _now_ms()):
            click.secho(line, dim=dim)
    click.echo(_summary(reader, asked), err=True)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _summary(reader: Reader, asked: list[Asked]) -> str:
    if not asked:
        return clean(f"nothing waits for {reader.name if reader.only else 'a person'}")
    mine = sum(may_answer(one.gate, reader.name) for one in asked)
    waiting = "waits" if len(asked) == 1 else "wait"
    return clean(f"{count(len(asked), 'gate')} {waiting}, {mine} for {reader.name}")


def _say_broken(inbox: Inbox) -> int:
    for problem in inbox.broken.values():
        click.echo(clean(f"blackboard: left out: {problem}"), err=True)
    return 1 if inbox.broken else 0


# --- as it comes and goes ---------------------------------------------------------------------------------------------


async def watch_asked(options: BoardOptions, person: str | None) -> None:
    """Until it is told to stop."""
    settings = options.settings()
    reader = _reader(options, settings.name, person)
    async with settings.open("inbox", Role.APPROVER) as board:
        inbox = Inbox(board)
        await inbox.load()
        on_terminal = sys.stdout.isatty() and not options.as_json
        display = _Screen(reader) if on_terminal else _Stream(options, reader)
        try:
            display.show(inbox)
            async with aclosing(messages(board, [board.subjects.every("fact")], inbox.position)) as coming:
                async for batch in coming:
                    await inbox.take(batch)
                    display.show(inbox)
        finally:
            display.close()


class _Stream:
    """What comes and what goes, as lines or records."""

    def __init__(self, options: BoardOptions, reader: Reader) -> None:
        self._options, self._reader = options, reader
        self._shown: set[tuple[str, str]] = set()

    def show(self, inbox: Inbox) -> None:
        for one, how in inbox.closed:
            if (one.run, one.gate.digest) in self._shown:
                record = {"open": False, "run": one.run, "gate": one.name, "digest": one.gate.digest, "how": how}
                self._options.say(record, clean(f"closed  run {one.run}  gate {one.name}: {how}"))
        inbox.closed.clear()
        for one in self._reader.choose(inbox.asked()):
            if (one.run, one.gate.digest) not in self._shown:
                self._shown.add((one.run, one.gate.digest))
                text = "\n".join(self._reader.lines(one, _now_ms()))
                self._options.say(self._reader.record(one), text)
        _say_broken(inbox)
        inbox.broken.clear()

    def close(self) -> None:
        pass


class _Screen:
    """On a terminal: the list, drawn again with each change."""

    def __init__(self, reader: Reader) -> None:
        from rich.live import Live

        self._reader = reader
        self._asked: list[Asked] = []
        self._broken: list[str] = []
        self._live = Live(
            get_renderable=self._drawing,
            console=console(),
            refresh_per_second=REDRAWN_PER_SECOND,
            vertical_overflow="ellipsis",
        )
        self._live.start()

    def show(self, inbox: Inbox) -> None:
        self._asked, self._broken = self._reader.choose(inbox.asked()), list(inbox.broken.values())
        self._live.refresh()

    def close(self) -> None:
        self._live.stop()

    def _drawing(self) -> "RenderableType":
        from rich.console import Group
        from rich.text import Text

        drawn = [Text(clean(_summary(self._reader, self._asked)), style="bold")]
        for one in self._asked:
            style = "" if may_answer(one.gate, self._reader.name) else "dim"
            drawn += [Text(line, style=style) for line in self._reader.lines(one, _now_ms())]
        return Group(*drawn, *(Text(clean(f"left out: {problem}"), style="red") for problem in self._broken))
