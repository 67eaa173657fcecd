"""`blackboard supervise`: one supervisor as a process. `blackboard replay`: what was decided, decided again."""

import asyncio
import os
import signal

import click

from blackboard.options import BoardOptions, board_options
from schemas.access import Role


@click.command()
@board_options
def supervise(options: BoardOptions) -> None:
    """Run a supervisor of the board until it is told to stop.

    Any number may run at once: they write the same history. Stop it with SIGINT or SIGTERM; a killed one loses nothing.
    """
    options.run(_supervise(options), role="supervisor")


async def _supervise(options: BoardOptions) -> None:
    from blackboard import logs
    from blackboard.log import NotPermitted
    from supervisor.installed import installed_policies
    from supervisor.service import Supervisor

    lines = logs.set_up()
    settings = options.settings()
    if (given := settings.credentials([Role.SUPERVISOR])) and given.in_agents:  # else it stands by until it is needed
        raise NotPermitted(
            f"{given.name!r} may not commit facts: `blackboard access grant NAME --role supervisor` makes credentials "
            "of whoever may"
        )
    stop = asyncio.Event()
    for received in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(received, stop.set)
    async with settings.open("supervisor", Role.SUPERVISOR, create=True) as board:
        lines.log = board.log.id
        options.say({"role": "supervisor", "pid": os.getpid(), "board": settings.board, "nats": settings.nats})
        await Supervisor(board, policies=installed_policies()).run(stop)


@click.command(epilog="RUN is a run's id, the beginning of it, or @last. A word with a dot or a slash is a FILE.")
@click.argument("what", metavar="[RUN|FILE]", required=False)
@click.option("--all", "everything", is_flag=True, help="Every run of the board, in one read of the log.")
@board_options
def replay(what: str | None, everything: bool, options: BoardOptions) -> None:
    """Decide recorded inputs again with the rules of this release, and compare every event with the recorded one.

    Nothing is appended. Of each run the first event that is another today is shown with both versions. FILE is what
    `blackboard export` wrote, and needs no board. Exit code: 0 when all events are equal, else 1.
    """
    from supervisor import cli_replay

    if everything == bool(what):
        raise click.UsageError("name a RUN or a FILE, or --all")
    if what is None:
        work = cli_replay.replay_all(options)
    elif "." in what or "/" in what:
        work = cli_replay.replay_file(options, what)
    else:
        work = cli_replay.replay_run(options, what)
    cli_replay.end(options.run(work))
