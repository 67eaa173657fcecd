"""What tests of `blackboard up` look at: its server, its processes."""

import re

from tests.end_to_end.support import Program, children_of

SERVER = re.compile(r"server +pid (\d+) +(nats://\S+)")


async def server_of(up: Program) -> str:
    """The URL of its server, once a supervisor serves there."""
    await up.says("took over")
    found = SERVER.search(up.said)
    assert found is not None, up.said
    return found[2]


def process(up: Program, mark: str) -> int:
    """The pid of the one child of `up` whose command line has `mark`."""
    found = {pid: command for pid, command in children_of(up.pid).items() if mark in command}
    assert len(found) == 1, (mark, children_of(up.pid))
    return next(iter(found))
