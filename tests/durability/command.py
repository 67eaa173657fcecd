"""The command, called in this process, which saves its imports."""

import asyncio

from click.testing import CliRunner

from blackboard.cli import cli
from tests.projections.called import Call


async def command(*words: str) -> Call:
    """In a thread, since it has an event loop of its own."""
    ended = await asyncio.to_thread(CliRunner().invoke, cli, words)
    if ended.exception and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    return Call(ended.exit_code, ended.stdout, ended.stderr)
