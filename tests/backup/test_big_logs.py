"""The memory of a backup and of a restore does not grow with the board."""

import sys
from pathlib import Path

from blackboard.board import open_board
from blackboard.server import EmbeddedServer
from tests.backup.conftest import NewServer, fill, noise, unsynced
from tests.end_to_end.support import _run, messages_on
from tests.plugins.figures import Figures

COUNT, SIZE = 100_000, 300
SMALL_COUNT = 100
GROWTH_MB = 12
"""More than what is under way and the buffers of a connection; much less than the log."""
WITHIN_S = 50.0

MEASURED = """
import re, sys
from blackboard.cli import cli
try:
    cli(sys.argv[1:])
finally:
    print(re.search("VmHWM:\\s*([0-9]+)", open("/proc/self/status").read())[1], file=sys.stderr)
"""
"""`ru_maxrss` would not do: it begins with what the process had that started this one."""


async def peak_mb(*words: str) -> float:
    """Run the command; the most memory that it had."""
    told = await _run([sys.executable, "-c", MEASURED, *words], None, WITHIN_S, {})
    assert told.code == 0, told.err
    return int(told.err.split()[-1]) / 1024


async def test_memory_stays_flat(
    source: EmbeddedServer, new_server: NewServer, tmp_path: Path, figures: Figures
) -> None:
    peaks: dict[str, float] = {}
    async with open_board(source.url, create=True) as board:
        await fill(board, SMALL_COUNT, SIZE)
        peaks["backup, small"] = await peak_mb("backup", str(tmp_path / "small"), "--nats", source.url)
        await fill(board, COUNT, SIZE)
        blob = await board.blobs.put(noise(2, 8_000_000), "ann")
        head = await board.log.head()
        peaks["backup"] = await peak_mb("backup", str(tmp_path / "big"), "--nats", source.url)
    size_mb = (tmp_path / "big").stat().st_size / 1e6
    for name in ("small", "big"):
        server = new_server(unsynced(tmp_path / f"of-{name}"), f"of-{name}")
        peaks[f"restore, {name}"] = await peak_mb("restore", str(tmp_path / name), "--nats", server.url)
    async with open_board(server.url) as board:
        assert await board.log.head() == head
        assert await board.blobs.get(blob) == noise(2, 8_000_000)
        assert len(await messages_on(board)) == head
    figures.say(
        f"backup of {head:,} messages, {size_mb:.0f} MB: at most {peaks['backup']:.0f} MB of memory "
        f"({peaks['backup, small']:.0f} for {SMALL_COUNT} messages), restore {peaks['restore, big']:.0f} MB "
        f"({peaks['restore, small']:.0f})"
    )
    assert size_mb > 3 * GROWTH_MB
    assert peaks["backup"] - peaks["backup, small"] < GROWTH_MB
    assert peaks["restore, big"] - peaks["restore, small"] < GROWTH_MB
