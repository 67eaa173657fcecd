"""What lies in the directory of an embedded server beside its data: the lock, the state, the configuration.

Whoever holds the lock runs the server. The state keeps the port from start to start, so that clients reconnect, and the
pid, so that a server whose parent was killed can be ended.
"""

import fcntl
import json
import os
import stat
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


def is_anothers(directory: Path) -> bool:
    """Whether it is there, and this user may not look into it."""
    try:
        with (directory / STATE_FILE).open("rb"):
            return False
    except PermissionError:
        return os.path.isdir(directory)  # Path.is_dir raises where it may not look
    except OSError:
        return False


def is_writable(directory: Path) -> bool:
    """Whether it is a directory in which this user may make files."""
    effective = os.access in os.supports_effective_ids
    return os.path.isdir(directory) and os.access(directory, os.W_OK | os.X_OK, effective_ids=effective)


def make_private(directory: Path) -> None:
    """Make the directory, for this user alone, who is the operator of what is in it. Raises ServerError."""
    try:
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        about = directory.stat()
        if about.st_uid == os.geteuid() and stat.S_IMODE(about.st_mode) != 0o700:
            directory.chmod(0o700)
    except (FileExistsError, NotADirectoryError):
        raise ServerError(
            f"{directory} cannot be a directory, since a file is there: move it away, or name another with --dir"
        ) from None
    except OSError as error:
        raise ServerError(f"{directory} cannot be made ({error.strerror}): name another with --dir") from None
    if not is_writable(directory):
        raise ServerError(
            f"{directory} belongs to another user: use the board in it with --nats and --creds, or name another "
            "directory with --dir"
        )


def lock(directory: Path) -> IO[str]:
    """Take the directory, until what is returned is closed or the process ends. Raises ServerError naming the process
    that has it, or saying why there is none."""
    make_private(directory)
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
