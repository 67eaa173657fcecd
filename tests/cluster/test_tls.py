"""TLS to clients: which server is spoken to, what is said of the others, and that they are told nothing."""

import asyncio
import json
import logging
import os
import signal
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from blackboard.board import open_board
from blackboard.certificates import CertificateError, open_authority
from blackboard.jetstream_heads import HeadsStream
from blackboard.log import Append, Stored
from blackboard.nats_connection import connect
from blackboard.nats_errors import ServerUnsuitable
from blackboard.server import EmbeddedServer
from tests.end_to_end.support import call, call_each

SOON_S = 4.0
"""Less than the five seconds after which a server counts as absent."""


@pytest.fixture(scope="module")
def certificates(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("certificates")


@pytest.fixture(scope="module")
def ca(certificates: Path) -> str:
    return str(open_authority(certificates).path)


def settings_with(certificate: Path, key: Path) -> str:
    return f"tls {{ cert_file: {json.dumps(str(certificate))}, key_file: {json.dumps(str(key))} }}"


@pytest.fixture(scope="module")
def secret(certificates: Path, tmp_path_factory: pytest.TempPathFactory) -> Iterator[EmbeddedServer]:
    """A server that speaks TLS and nothing else."""
    settings = settings_with(*open_authority(certificates).issue("127.0.0.1"))
    with EmbeddedServer(tmp_path_factory.mktemp("secret"), settings) as server:
        yield server


@pytest.fixture
def misnamed(certificates: Path, tmp_path: Path) -> Iterator[EmbeddedServer]:
    """A server whose certificate is for another name."""
    settings = settings_with(*open_authority(certificates).issue("elsewhere", also=()))
    with EmbeddedServer(tmp_path / "misnamed", settings) as server:
        yield server


async def test_a_board_works_over_tls_and_nobody_is_warned_of_anything(
    secret: EmbeddedServer, ca: str, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.WARNING):
        async with open_board(secret.url, "tls", create=True, ca=ca) as board:
            assert await board.log.append(Append(board.subjects.wake("run"), b"x")) == [Stored(1)]
            assert [m.data for batch in [b async for b in board.log.scan()] for m in batch] == [b"x"]
            digest = await board.blobs.put(b"y" * 300_000, "ann")
            assert await board.blobs.get(digest) == b"y" * 300_000
        await asyncio.sleep(0)
    assert caplog.messages == []


async def test_each_failure_is_one_sentence_that_says_what_to_do(
    secret: EmbeddedServer, misnamed: EmbeddedServer, server: EmbeddedServer, ca: str, tmp_path: Path
) -> None:
    other = str(open_authority(tmp_path / "other").path)
    empty = tmp_path / "empty.crt"
    empty.write_text("nothing")
    address, plain = (one.url.removeprefix("nats://") for one in (secret, server))
    tls = f"tls://{plain}"
    wanted = {
        ("--ca", other, secret.url): f"{address} is not vouched for by the authority in {other}",
        ("--nats", secret.url): f"{address} is not vouched for by an authority that this system knows",
        ("--ca", ca, server.url): f"{plain} does not speak TLS",
        ("--nats", tls): f"{plain} does not speak TLS",
        ("--ca", ca, misnamed.url): "is for another name",
        ("--ca", str(tmp_path / "none.crt"), secret.url): "there is no file",
        ("--ca", str(empty), secret.url): "holds no certificate of an authority",
    }
    began = time.monotonic()
    told = await call_each(
        [["runs", *words[:-1], "--nats", words[-1]] if len(words) == 3 else ["runs", *words] for words in wanted],
        within_s=50,
    )
    assert time.monotonic() - began < len(wanted) * SOON_S
    for (words, part), one in zip(wanted.items(), told, strict=True):
        assert (one.code, part in one.err, one.err.count("\n")) == (1, True, 1), (words, one)
        assert "--ca" in one.err or "use a name" in one.err, one


@pytest.mark.parametrize("scheme", ["nats", "tls"])
async def test_a_server_without_tls_hears_nothing(ca: str, scheme: str) -> None:
    heard = bytearray()
    gone = asyncio.Event()

    async def pose(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        writer.write(b'INFO {"version":"2.15.1","jetstream":true,"headers":true,"max_payload":1048576}\r\n')
        heard.extend(await reader.read())
        writer.close()
        gone.set()

    async with await asyncio.start_server(pose, "127.0.0.1") as posing:
        port = posing.sockets[0].getsockname()[1]
        with pytest.raises(ServerUnsuitable, match="does not speak TLS"):
            await connect(f"{scheme}://127.0.0.1:{port}", ca=ca, user="ann", password="secret")
        await asyncio.wait_for(gone.wait(), SOON_S)
    assert bytes(heard) == b""


async def test_a_silent_server_does_not_hold_up_the_end_of_a_connection(secret: EmbeddedServer, ca: str) -> None:
    connection = await connect(secret.url, ca=ca)
    os.kill(secret.pid, signal.SIGSTOP)
    try:
        began = time.monotonic()
        await connection.close()
        assert time.monotonic() - began < SOON_S
    finally:
        os.kill(secret.pid, signal.SIGCONT)


def keys_in(folder: Path) -> dict[str, int]:
    """The files of keys, each with who may do what with it."""
    return {path.name: path.stat().st_mode & 0o777 for path in folder.glob("*.key")}


async def test_the_verb_makes_what_a_server_and_its_clients_need(tmp_path: Path) -> None:
    told = await call("certificates", "nats-1", "10.0.0.7", "--dir", str(tmp_path), "--also", "board.example", "--json")
    assert (told.code, [one["host"] for one in told.lines]) == (0, ["nats-1", "10.0.0.7"]), told
    assert keys_in(tmp_path) == dict.fromkeys(["ca.key", "nats-1.key", "10.0.0.7.key"], 0o600)
    assert {one[name] for one in told.lines for name in ("certificate", "ca")} == {
        str(tmp_path / name) for name in ("ca.crt", "nats-1.crt", "10.0.0.7.crt")
    }
    before = (tmp_path / "ca.crt").read_bytes(), (tmp_path / "nats-1.crt").read_bytes()
    assert (await call("certificates", "nats-1", "--dir", str(tmp_path))).code == 0
    assert (tmp_path / "ca.crt").read_bytes() == before[0]
    assert (tmp_path / "nats-1.crt").read_bytes() != before[1]
    (tmp_path / "ca.key").unlink()
    failed = await call("certificates", "nats-1", "--dir", str(tmp_path))
    assert (failed.code, failed.err.count("\n"), "use another folder" in failed.err) == (1, 1, True), failed


@pytest.mark.parametrize("host", ["", "ca", "..", "a/b"])
def test_a_host_whose_files_would_lie_elsewhere_is_refused(host: str, tmp_path: Path) -> None:
    with pytest.raises(CertificateError, match="cannot be the name of a server"):
        open_authority(tmp_path).issue(host)


def test_a_key_of_another_authority_is_noticed(tmp_path: Path) -> None:
    one, two = (open_authority(tmp_path / name).folder for name in ("one", "two"))
    (one / "ca.key").write_bytes((two / "ca.key").read_bytes())
    with pytest.raises(CertificateError, match="is not the key of"):
        open_authority(one)


async def test_a_witness_on_a_server_with_an_authority_of_its_own(secret: EmbeddedServer, ca: str) -> None:
    with pytest.raises(ServerUnsuitable, match="authority with --ca"):
        await HeadsStream(secret.url, "heads").claim()
    witness = HeadsStream(f"{secret.url}?ca={ca}", "heads")
    try:
        await witness.claim()
        await witness.append(1, b"one")
        assert [line async for line in witness.read()] == [b"one"]
    finally:
        await witness.close()
