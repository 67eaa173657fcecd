"""`blackboard supervise`: one supervisor as a process."""

import asyncio
import logging
import os
import signal

import click

from blackboard.options import BoardOptions, board_options


@click.command()
@board_options
def supervise(options: BoardOptions) -> None:
    """Run a supervisor of the board until it is told to stop.

    Any number may run at once: they write the same history. Stop it with SIGINT or SIGTERM; a killed one loses nothing.
    """
    options.run(_supervise(options))


async def _supervise(options: BoardOptions) -> None:
    from blackboard.board import open_board
    from supervisor.service import Supervisor

    logging.basicConfig(level=logging.INFO, format="%(levelname)s %(name)s: %(message)s")
    settings = options.settings()
    stop = asyncio.Event()
    for received in (signal.SIGINT, signal.SIGTERM):
        asyncio.get_running_loop().add_signal_handler(received, stop.set)
    async with open_board(settings.nats, settings.board, name="supervisor", create=True) as board:
        options.say({"role": "supervisor", "pid": os.getpid(), "board": settings.board, "nats": settings.nats})
        await Supervisor(board).run(stop)
