"""Processes and ports, as the embedded server needs them: tied to their parent, recognised, ended."""

import ctypes
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

STOP_TIMEOUT_S = 10.0
POLL_S = 0.005

_PR_SET_PDEATHSIG = 1


def die_with_parent() -> Callable[[], None] | None:
    """What a child runs before it becomes its program (`preexec_fn`), so that the kernel ends it with the thread that
    started it. None where the kernel cannot (elsewhere than on Linux)."""
    if not sys.platform.startswith("linux"):
        return None
    libc = ctypes.CDLL(None)  # loaded before the fork: the child may only make the call
    parent = os.getpid()

    def prepare() -> None:
        libc.prctl(_PR_SET_PDEATHSIG, signal.SIGTERM)
        if os.getppid() != parent:  # it was killed before the call
            os._exit(1)

    return prepare


def is_alive(pid: int) -> bool:
    """Whether there is such a process, of whomever."""
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def command_of(pid: int) -> str:
    """The command line of a running process; empty when there is none, or it has ended."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    except OSError:
        if Path("/proc/self").exists():
            return ""
    shown = subprocess.run(["ps", "-o", "command=", "-p", str(pid)], capture_output=True, text=True, check=False)
    return shown.stdout


def end(pid: int, ended: Callable[[], bool]) -> None:
    """Ask the process to stop, wait until `ended` says so, and end it by force when it does not."""
    for number in (signal.SIGTERM, signal.SIGKILL):
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            return
        if wait_until(ended, STOP_TIMEOUT_S):
            return


def wait_until(true: Callable[[], bool], timeout_s: float) -> bool:
    """Whether it came true within `timeout_s`."""
    deadline = time.monotonic() + timeout_s
    while not true():
        if time.monotonic() > deadline:
            return False
        time.sleep(POLL_S)
    return True


def is_free(port: int) -> bool:
    """Whether a server could listen on that port of this machine."""
    with socket.socket() as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind(("127.0.0.1", port))
        except OSError:
            return False
    return True
