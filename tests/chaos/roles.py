"""The three roles of a board as processes that can be killed: each is started again as soon as it has ended."""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import time
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from blackboard.server import EmbeddedServer
from blackboard.server_files import read_state
from blackboard.server_process import die_with_parent
from tests.end_to_end.support import COMMAND, ROOT, environment_with, is_alive

TEAM = str(Path(__file__).with_name("team.py"))
WATCH_S = 0.02
ROLES = ("server", "supervisor", "worker")


@dataclass
class Life:
    """One process: when it was started and when it first gave a sign of being up, in milliseconds since 1970."""

    pid: int
    began_ms: float
    up_ms: float | None = None


class Role(Protocol):
    """`lives` are those of all processes that have had the role, in order."""

    lives: list["Life"]

    async def kill(self) -> int:
        """Kill the process that has the role now; another one takes its place at once. Returns the number of its
        life."""
        ...


class Kept:
    """A verb of the command, kept running. The output of each process lies in a file of its own."""

    def __init__(self, name: str, words: list[str], folder: Path) -> None:
        self.name, self._words, self._folder = name, words, folder
        self.lives: list[Life] = []
        self.unasked: list[str] = []
        """Ends that nobody asked for."""
        self._start()

    def output(self, number: int) -> Path:
        """What the process of life `number` says."""
        return self._folder / f"{self.name}-{number}.out"

    def _start(self) -> None:
        with self.output(len(self.lives)).open("wb") as said:
            self._process = subprocess.Popen(
                [*COMMAND, *self._words],
                cwd=ROOT,
                env=environment_with(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
                preexec_fn=die_with_parent(),  # noqa: PLW1509 - it makes one system call
            )
        self.lives.append(Life(self._process.pid, now_ms()))

    def _mend(self) -> None:
        life, output = self.lives[-1], self.output(len(self.lives) - 1)
        if life.up_ms is None and output.stat().st_size:
            life.up_ms = now_ms()
        if (code := self._process.poll()) is not None:
            last = output.read_text(errors="replace").splitlines()[-1:]
            self.unasked.append(f"{self.name} {life.pid} ended by itself with code {code}: {''.join(last)}")
            self._start()

    async def keep_running(self) -> None:
        while True:
            self._mend()
            await asyncio.sleep(WATCH_S)

    async def kill(self) -> int:
        self._mend()
        self.end()
        self._start()
        return len(self.lives) - 2

    def end(self) -> None:
        self._process.kill()
        self._process.wait()


class Worker(Kept):
    """What its processes say tells which executions they have begun, and of which they know that the end is stored."""

    def said(self, first: int = 0) -> Iterator[dict[str, Any]]:
        """What the processes from life `first` on said about executions; a last line may be cut short."""
        for number in range(first, len(self.lives)):
            for line in self.output(number).read_text(errors="replace").splitlines():
                with contextlib.suppress(ValueError):
                    record = json.loads(line)
                    if isinstance(record, dict) and "event" in record and "execution" in record:
                        yield record

    def in_hand(self) -> int:
        """Executions that the process has begun and not ended."""
        open_ones: set[str] = set()
        for record in self.said(len(self.lives) - 1):
            (open_ones.add if record["event"] == "begun" else open_ones.discard)(record["execution"])
        return len(open_ones)


def now_ms() -> float:
    return time.time() * 1000


class Server:
    """The embedded server, which keeps itself running."""

    def __init__(self, server: EmbeddedServer) -> None:
        self._server = server
        self.lives = [Life(server.pid, now_ms(), now_ms())]

    def _look(self) -> None:
        if self._server.pid != self.lives[-1].pid:
            self.lives.append(Life(self._server.pid, now_ms()))
        if (life := self.lives[-1]).up_ms is None:
            state = read_state(self._server.directory)  # it names the process once that is ready
            life.up_ms = now_ms() if state and state.pid == life.pid else None

    async def keep_running(self) -> None:
        keeping = asyncio.ensure_future(self._server.keep_running())
        try:
            while not keeping.done():
                self._look()
                await asyncio.wait([keeping], timeout=WATCH_S)
            keeping.result()
        finally:
            keeping.cancel()

    async def kill(self) -> int:
        while not is_alive(self._server.pid):  # noqa: ASYNC110 - it was killed, and is not back yet
            await asyncio.sleep(WATCH_S)
        self._look()
        os.kill(self._server.pid, signal.SIGKILL)
        return len(self.lives) - 1


class Roles:
    """All three, over a server whose data lie in `folder`."""

    def __init__(self, server: EmbeddedServer, folder: Path) -> None:
        there = ["--nats", server.url]
        self.server = Server(server)
        self.supervisor = Kept("supervisor", ["supervise", *there], folder)
        self.worker = Worker("worker", ["attach", TEAM, "--json", *there], folder)

    def __getitem__(self, role: str) -> Role:
        found: dict[str, Role] = {"server": self.server, "supervisor": self.supervisor, "worker": self.worker}
        return found[role]

    @property
    def unasked(self) -> list[str]:
        return [*self.supervisor.unasked, *self.worker.unasked]


@asynccontextmanager
async def running(server: EmbeddedServer, folder: Path) -> AsyncIterator[Roles]:
    """All three roles, kept running until the end of the block."""
    roles = Roles(server, folder)
    keeping = [asyncio.ensure_future(role.keep_running()) for role in (roles.server, roles.supervisor, roles.worker)]
    try:
        yield roles
    finally:
        for one in keeping:
            one.cancel()
        roles.worker.end()
        roles.supervisor.end()
        for one in keeping:
            with suppress(asyncio.CancelledError):
                await one
