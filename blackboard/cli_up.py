"""`blackboard up`: a whole board on this machine, one process a role."""

import asyncio
import contextlib
import importlib
import json
import logging
import os
import signal
import sys
from collections.abc import Sequence
from pathlib import Path

import click

from blackboard.options import USAGE, BoardOptions, board_options
from schemas.access import Role

LOADING = "specialists.loading"
"""Knows what TEAMS may be; by name, as the table of verbs names the upper folders."""


@click.command()
@click.argument("teams", nargs=-1)
@click.option("--dir", "directory", default=".blackboard", show_default=True, help="Where the server keeps its data.")
@board_options
def up(teams: tuple[str, ...], directory: str, options: BoardOptions) -> None:
    """Start a server, a supervisor and one worker process for each of TEAMS, and keep them running.

    TEAMS are names of reference teams (licences, research), ./file.py or package.module:name. With --nats, that server
    is used and none is started. The server enforces who may say what: whoever can read the directory is its operator,
    all others need credentials (`blackboard access grant`). Ctrl-C stops all of it in order; what lies in the directory
    stays.
    """
    sys.exit(options.run(_up(options, teams, Path(directory))))


class _Printer:
    """Lines of several processes on one terminal, each with the name of who says it; where log lines are JSON, each is
    one object with the name in it."""

    def __init__(self, options: BoardOptions, as_json: bool) -> None:
        self._options, self._as_json = options, as_json

    def __call__(self, name: str, line: str) -> None:
        if self._as_json:
            print(_object(name, line), flush=True)
            return
        self._options.say({"process": name, "line": line}, f"{name:<12} {line}")


def _object(name: str, line: str) -> str:
    try:
        said = json.loads(line)
    except ValueError:
        said = None
    return json.dumps({"process": name, **(said if isinstance(said, dict) else {"message": line})})


async def _up(options: BoardOptions, teams: Sequence[str], directory: Path) -> int:
    """The exit code."""
    from blackboard import access, logs
    from blackboard.server import EmbeddedServer
    from blackboard.server_files import make_private

    for team in teams:
        importlib.import_module(LOADING).check_there(team)
    stop = asyncio.Event()
    for received in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(received, stop.set)
    logs.set_up(logging.WARNING)
    say = _Printer(options, logs.as_json())
    if options.nats:
        return await _run(options, teams, options.nats, say, stop)
    make_private(directory)  # before anything is in it
    operator = access.of_server(directory)
    os.environ[access.ENVIRONMENT] = str(operator.directory)  # for the processes that are started here
    with EmbeddedServer(directory, lambda: operator.server_settings(directory.absolute() / "jwt")) as server:
        say("server", f"pid {server.pid}  {server.url}  data in {directory}")
        watching = asyncio.create_task(server.keep_running())
        watching.add_done_callback(lambda _: stop.set())  # it ends by itself only when the server cannot be started
        try:
            return await _run(options, teams, server.url, say, stop)
        finally:
            watching.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await watching


async def _run(options: BoardOptions, teams: Sequence[str], url: str, say: _Printer, stop: asyncio.Event) -> int:
    """Keep supervisor and workers running until `stop`, or until one of them was called wrongly; the exit code."""
    from blackboard.processes import KeptProcess
    from blackboard.settings import load

    settings = load(url, options.board, options.name, options.creds, options.ca)
    async with settings.open("up", Role.ADMIN, create=True):
        pass
    common = ["--nats", url, "--board", settings.board]
    if settings.creds:
        common += ["--creds", str(settings.creds)]
    if settings.ca:
        common += ["--ca", settings.ca]
    blackboard = [sys.executable, "-m", "blackboard.cli"]
    processes = [KeptProcess("supervisor", [*blackboard, "supervise", *common], say)]
    processes += [KeptProcess(team, [*blackboard, "attach", team, *common], say) for team in teams]
    keeping = {asyncio.create_task(process.keep_running()) for process in processes}
    stopping = asyncio.create_task(stop.wait())
    running = set(keeping)
    while running and not stopping.done():  # one that was given up does not end the others
        done, _ = await asyncio.wait({*running, stopping}, return_when=asyncio.FIRST_COMPLETED)
        running -= done
        if any(process.called_wrongly for process in processes):
            break
    for task in (*keeping, stopping):
        task.cancel()
    for process in reversed(processes):
        await process.stop()
    await asyncio.gather(*keeping, return_exceptions=True)
    if any(process.called_wrongly for process in processes):
        return USAGE
    return 1 if any(process.given_up for process in processes) else 0
