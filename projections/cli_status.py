"""`blackboard status`: who decides on this board, who stands by, and how far behind they are."""

import asyncio
import contextlib
import sys
import time
from collections import Counter
from collections.abc import Sequence
from typing import Any

import click

from blackboard.board import Board, floor_of
from blackboard.client import Client
from blackboard.log import NotPermitted
from blackboard.options import BoardOptions, board_options
from blackboard.queue import QueueGone
from projections.cli_text import clean, console, count, lasting
from schemas.announcements import Announcement, read_announcement
from schemas.codec import NotAFactMessage, UnknownEvent, decode_event, ends_run, facts_of
from schemas.subjects import BOARD_RUN

LISTEN_S = 0.8
"""Seconds within which each supervisor says several times that it is there."""
PATIENCE_S = 2.5
"""Seconds within which one is active again, where one can be."""
NOBODY = 1
"""Exit code."""
LEFT_SHOWN = 5
READ = ("goal", "signal", "obs", "wake", "fact")
"""Families that hold what is decided, and what was decided about it."""
_ORDER = {"active": 0, "standby": 1, "starting": 2, "leaving": 3}


@click.command()
@board_options
def status(options: BoardOptions) -> None:
    """Show which supervisor is active, which stand by, how far behind they are, and what waits.

    Listens for a second or two to what supervisors say of themselves. Exit code: 0, or 1 when none is active.
    """
    sys.exit(0 if options.run(_status(options)) else NOBODY)


async def _status(options: BoardOptions) -> bool:
    settings = options.settings()
    async with settings.open("status") as board:
        head = await board.log.head()
        said = await heard(board)
        record = {
            "board": board.subjects.board,
            "log": board.log.id,
            "head": head,
            "active": [one.name for one in said if one.role == "active"],
            "supervisors": [await _supervisor(board, one, head) for one in said],
            "undecided": await _undecided(board, said, head),
            "unfinished": await _unfinished(board, said),
            "queue": await _queue(board),
        }
    if options.as_json:
        options.say(record)
    else:
        _print(record)
    return bool(record["active"])


async def heard(board: Board) -> list[Announcement]:
    """What each supervisor of this log said last; the active one first, then by name."""
    said: dict[str, Announcement] = {}

    async def listen() -> None:
        assert board.announcements is not None, "a board on a server has them"
        async for data in board.announcements.heard():
            if (one := read_announcement(data)) and one.log == board.log.id:
                said[one.name] = one

    listening = asyncio.create_task(listen())
    loop = asyncio.get_running_loop()
    began_s = loop.time()
    while not listening.done() and (waited_s := loop.time() - began_s) < PATIENCE_S:
        if waited_s >= LISTEN_S and any(one.role == "active" for one in said.values()):
            break
        await asyncio.wait([listening], timeout=0.1)
    listening.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await listening
    there = [one for one in said.values() if one.role != "leaving"]
    return sorted(there, key=lambda one: (_ORDER[one.role], one.name))


async def _supervisor(board: Board, said: Announcement, head: int) -> dict[str, Any]:
    """`head` is as it was before the supervisor was heard: what it has not reached since then, it is behind. One that
    stands by folds, and is behind with that."""
    reached = said.position if said.role == "active" else said.read
    first = await board.log.get(reached + 1) if reached < head else None
    now_ms = round(time.time() * 1000)
    return {
        "name": said.name,
        "role": said.role,
        "host": said.host,
        "pid": said.pid,
        "since_ms": now_ms - said.held_ms,
        "rules": said.rules,
        "term": said.term,
        "position": said.position,
        "read": said.read,
        "lag": {"messages": max(0, head - reached), "seconds": max(0, now_ms - first.time_ms) / 1000 if first else 0},
        "left": list(said.left),
        "left_count": said.left_count,
        "unfinished": said.unfinished,
    }


async def _undecided(board: Board, said: Sequence[Announcement], head: int) -> dict[str, Any]:
    """The inputs that nobody has decided up to `head`, and for how many seconds the first of them has waited. What was
    decided is told by who decides, else by the log: by the floor of the last fact message, and by facts above it."""
    subjects = board.subjects
    floor = max([floor_of(await board.log.last(subjects.every("fact"))), *(one.position for one in said)])
    inputs: dict[int, tuple[str, int]] = {}
    cited, cursors = set[int](), Counter[str]()
    async for messages in board.log.scan([subjects.every(family) for family in READ], after=floor, upto=head):
        for message in messages:
            if (address := subjects.address(message.subject)) is None:
                continue
            if address.family != "fact":
                inputs[message.seq] = (address.run, message.time_ms)
                continue
            with contextlib.suppress(NotAFactMessage, UnknownEvent):
                causes = [
                    decode_event(one).cause.seq for one in facts_of(message.data, board.log.id, address.run).events
                ]
                cited.update(causes)
                cursors[address.run] = causes[-1]
    waiting = [at for seq, (run, at) in inputs.items() if seq not in cited and seq > cursors[run]]
    seconds = max(0, round(time.time() * 1000) - waiting[0]) / 1000 if waiting else 0
    return {"messages": len(waiting), "seconds": seconds}


async def _unfinished(board: Board, said: Sequence[Announcement]) -> int:
    """As who is furthest says; counted where nobody says it, with the goals that nobody has decided yet."""
    told = [one for one in said if one.role != "starting"]
    if told:
        furthest = max(told, key=lambda one: (one.role == "active", one.read))
        return furthest.unfinished + furthest.left_count
    known, ended, floor = {BOARD_RUN}, {BOARD_RUN}, 0
    async for message in board.log.last_per_subject(board.subjects.every("fact")):
        floor = max(floor, floor_of(message))
        if address := board.subjects.address(message.subject):
            known.add(address.run)
            if ends_run(message.data, board.log.id, address.run):
                ended.add(address.run)
    async for messages in board.log.scan([board.subjects.every("goal")], after=floor):
        known.update(address.run for one in messages if (address := board.subjects.address(one.subject)))
    return len(known - ended)


async def _queue(board: Board) -> dict[str, Any]:
    """How many tasks wait or are in work, by specialist; also specialists for whom there are none."""
    try:
        keys = await board.queue.keys()
    except QueueGone:
        return {"state": "absent", "tasks": 0, "specialists": {}}
    except NotPermitted:
        return {"state": "not readable", "tasks": 0, "specialists": {}}
    tasks = Counter(key.specialist for key in keys)
    view = await Client(board, "status").catalogue()
    names = sorted({contract.specialist for contract in view.contracts()} | set(tasks))
    return {"state": "there", "tasks": len(keys), "specialists": {name: tasks[name] for name in names}}


def _print(record: dict[str, Any]) -> None:
    from rich.table import Table

    if record["supervisors"]:
        table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0))
        for heading in ("supervisor", "role", "since", "where", "rules", "position", "behind"):
            table.add_column(heading, no_wrap=True)
        for one in record["supervisors"]:
            table.add_row(*map(clean, _row(one, record["head"])))
        console().print(table)
    for one in record["supervisors"]:
        if one["left_count"]:
            names = ", ".join(one["left"][:LEFT_SHOWN]) + (", ..." if one["left_count"] > LEFT_SHOWN else "")
            click.echo(clean(f"{one['name']} leaves {count(one['left_count'], 'run')} alone: {names}"))
    queue = record["queue"]
    tasks = ", ".join(f"{name} {number}" for name, number in queue["specialists"].items() if number)
    waiting = {
        "there": f"{count(queue['tasks'], 'task')} in the queue{f' ({tasks})' if tasks else ''}",
        "absent": "no task queue",
        "not readable": "a task queue that this identity may not read",
    }[queue["state"]]
    click.echo(clean(f"{count(record['unfinished'], 'unfinished run')}, {waiting}"))
    undecided = record["undecided"]
    if undecided["messages"]:
        since = lasting(round(undecided["seconds"] * 1000))
        click.echo(f"{count(undecided['messages'], 'message')} that nobody has decided, the first {since} ago")
    if not record["active"]:
        waits = "one that stands by takes over soon" if record["supervisors"] else "`blackboard supervise` runs one"
        click.echo(f"no supervisor is active: {waits}", err=True)


def _row(one: dict[str, Any], head: int) -> tuple[object, ...]:
    reached = one["position"] if one["role"] == "active" else one["read"]
    lag = one["lag"]
    behind = f"{count(lag['messages'], 'message')}, {lasting(round(lag['seconds'] * 1000))}" if lag["messages"] else "-"
    held = f"{lasting(round(time.time() * 1000) - one['since_ms'])} ago"
    return one["name"], one["role"], held, f"{one['host']} {one['pid']}", one["rules"], f"{reached}/{head}", behind
