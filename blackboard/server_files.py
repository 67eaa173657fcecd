"""What lies in the directory of an embedded server beside its data: the lock, the state, the configuration.

Whoever holds the lock runs the server. The state keeps the port from start to start, so that clients reconnect, and the
pid, so that a server whose parent was killed can be ended.
"""

import fcntl
import json
import os
from pathlib import Path
from typing import IO

import msgspec

STATE_FILE = "server.json"
MAX_PAYLOAD_BYTES = 1024 * 1024 + 256 * 1024
"""A message of 1 MiB and its headers."""


class ServerError(Exception):
    """The embedded server cannot be started or found; the text says why and what to do."""


class State(msgspec.Struct):
    """What `server.json` holds. `pid` is None while no server runs."""

    port: int
    pid: int | None = None

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self.port}"


def read_state(directory: Path) -> State | None:
    """What `server.json` in `directory` says; None when there is none or it cannot be read."""
    try:
        return msgspec.json.decode((directory / STATE_FILE).read_bytes(), type=State)
    except (OSError, msgspec.DecodeError):
        return None


def write_state(directory: Path, state: State) -> None:
    """Replace `server.json` in one step, so that no reader sees half of it."""
    fresh = directory / (STATE_FILE + ".new")
    fresh.write_bytes(msgspec.json.encode(state))
    fresh.replace(directory / STATE_FILE)


def lock(directory: Path) -> IO[str]:
    """Take the directory, until what is returned is closed or the process ends. Raises ServerError naming the process
    that has it."""
    directory.mkdir(parents=True, exist_ok=True)
    held = (directory / "lock").open("a+")
    try:
        fcntl.flock(held, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        held.seek(0)
        holder = held.read().strip() or "unknown"
        held.close()
        raise ServerError(
            f"the board in {directory} is run by process {holder}: stop that one, or use another directory"
        ) from None
    held.truncate(0)
    held.write(str(os.getpid()))
    held.flush()
    return held


def write_config(path: Path, port: int, settings: str) -> None:
    """The configuration of the server: reachable from this machine only, and every write synced before its ack."""
    lines = [
        'host: "127.0.0.1"',
        f"port: {port}",
        f"max_payload: {MAX_PAYLOAD_BYTES}",
        "jetstream {",
        f"  store_dir: {json.dumps(str(path.parent / 'data'))}",
        "  sync_interval: always",
        "}",
        settings,
    ]
    path.write_text("\n".join(lines) + "\n")
    path.chmod(0o600)


def read_port(ports: Path) -> int | None:
    """The client port in the file that the server writes when it is ready; None while it is not complete."""
    try:
        return int(json.loads(ports.read_text())["nats"][0].rpartition(":")[2])
    except (OSError, ValueError, KeyError, IndexError):
        return None


def last_line(log: Path) -> str:
    """The last thing that the server said."""
    lines = log.read_text(errors="replace").strip().splitlines()
    return lines[-1] if lines else "it gave no reason"
