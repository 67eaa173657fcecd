"""What end-to-end tests need: processes of the command, what lies on a log, and waiting until it says something.

Nobody sleeps for a while and hopes: every wait reads the log or the output of a process, and has a deadline.
"""

import asyncio
import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from blackboard.board import Board
from blackboard.client import Client
from blackboard.log import Message
from blackboard.nats_connection import Connection, connect
from projections.canonical import State
from projections.history import Folded, decoded, fold, outcome_digest, state_digest, unwritten
from schemas import events as e
from schemas.codec import decode_facts

ROOT = Path(__file__).parents[2]
COMMAND = [sys.executable, "-m", "blackboard.cli"]
PATIENCE_S = 30.0
LOOK_S = 0.05


class Finished(NamedTuple):
    """What a command said, and how it ended."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        """The one JSON document that stdout is; fails where anything else stands there."""
        return json.loads(self.out)

    @property
    def lines(self) -> list[Any]:
        """Stdout as lines of JSON; fails where one is something else."""
        return [json.loads(line) for line in self.out.splitlines()]


async def call(*words: str, cwd: Path | None = None, within_s: float = PATIENCE_S, **environment: str) -> Finished:
    """Run the command to its end."""
    return await _run([*COMMAND, *words], cwd, within_s, environment)


async def call_python(script: str) -> Finished:
    """Run Python code to its end."""
    return await _run([sys.executable, "-c", script], None, PATIENCE_S, {})


ONE_BY_ONE = """
import json, sys
from click.testing import CliRunner
from blackboard.cli import cli

told = []
for words in json.loads(sys.argv[1]):
    ended = CliRunner().invoke(cli, words)
    told.append([ended.exit_code, ended.stdout, ended.stderr or (repr(ended.exception) if ended.exit_code else "")])
print(json.dumps(told))
"""


async def call_each(calls: Sequence[Sequence[str]], within_s: float = PATIENCE_S) -> list[Finished]:
    """Run the command once for each list of words, all in one process, which saves their imports."""
    told = await _run([sys.executable, "-c", ONE_BY_ONE, json.dumps(calls)], None, within_s, {})
    assert told.code == 0, told
    return [Finished(*one) for one in told.json]


async def _run(command: Sequence[str], cwd: Path | None, within_s: float, environment: dict[str, str]) -> Finished:
    process = await asyncio.create_subprocess_exec(
        *command,
        cwd=cwd or ROOT,
        env=environment_with(**environment),
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
    )
    telling = asyncio.ensure_future(process.communicate())
    try:
        await asyncio.wait([telling], timeout=within_s)
        in_time = telling.done()
    finally:
        if process.returncode is None:
            process.kill()
        out, err = await telling
    assert in_time, f"{command} did not end: {out.decode()} {err.decode()}"
    assert process.returncode is not None
    return Finished(process.returncode, out.decode(), err.decode())


def environment_with(**changes: str) -> dict[str, str]:
    """The environment, without what names another board, and with our packages in reach from any folder."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("BLACKBOARD_")}
    return kept | {"PYTHONPATH": str(ROOT), "PYTHONUNBUFFERED": "1"} | changes


class Program:
    """A process of the command that goes on, with all that it says in a file."""

    def __init__(self, words: Sequence[str], output: Path, cwd: Path | None = None) -> None:
        self.words, self.output, self.cwd = list(words), output, cwd or ROOT
        with output.open("ab") as said:
            self._process = subprocess.Popen(
                [*COMMAND, *words],
                cwd=self.cwd,
                env=environment_with(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def code(self) -> int | None:
        """The exit code; None while it runs."""
        return self._process.poll()

    @property
    def said(self) -> str:
        return self.output.read_text(errors="replace")

    async def says(self, text: str, times: int = 1, within_s: float = PATIENCE_S) -> str:
        """All that it said, once `text` stands there `times` times."""

        def said() -> bool:
            assert self.code is None or self.said.count(text) >= times, f"it ended with {self.code}: {self.said}"
            return self.said.count(text) >= times

        await until(said, f"{' '.join(self.words)} to say {text!r}: ", within_s, lambda: self.said)
        return self.said

    def kill(self) -> None:
        if self.code is None:
            os.kill(self.pid, signal.SIGKILL)
            self._process.wait()

    async def stop(self, within_s: float = PATIENCE_S) -> int:
        """Ask it to stop; its exit code."""
        if self.code is None:
            os.kill(self.pid, signal.SIGTERM)
        await until(lambda: self.code is not None, f"{self.words} to stop", within_s, lambda: self.said)
        assert self.code is not None
        return self.code


class PatchedProgram(Program):
    """The same of another release: `patch` is Python that runs first."""

    def __init__(self, patch: str, words: Sequence[str], output: Path) -> None:
        self.words, self.output, self.cwd = list(words), output, ROOT
        with output.open("ab") as said:
            self._process = subprocess.Popen(
                [sys.executable, "-c", f"{patch}\nfrom blackboard.cli import main\nmain()", *words],
                cwd=ROOT,
                env=environment_with(),
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=subprocess.STDOUT,
            )


Start = Callable[..., Program]
"""The fixture `start`: starts the command with these words."""


async def until(
    true: Callable[[], bool] | Callable[[], Awaitable[bool]],
    what: str,
    within_s: float = PATIENCE_S,
    detail: Callable[[], object] = str,
) -> None:
    """Return when it is true; fail with `what` and the last detail when that takes too long."""
    deadline = time.monotonic() + within_s
    while True:
        answer = true()
        if await answer if not isinstance(answer, bool) else answer:
            return
        assert time.monotonic() < deadline, f"waited {within_s:g} s for {what} {detail()}"
        await asyncio.sleep(LOOK_S)


def is_alive(pid: int) -> bool:
    """Whether the process runs: it exists and is no zombie."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def children_of(pid: int) -> dict[int, str]:
    """The running children of a process, by pid, with their command lines."""
    found: dict[int, str] = {}
    for folder in Path("/proc").iterdir():
        if not folder.name.isdigit():
            continue
        with contextlib.suppress(OSError):
            parent = int((folder / "stat").read_text().rpartition(")")[2].split()[1])
            if parent == pid and is_alive(int(folder.name)):
                found[int(folder.name)] = (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode()
    return found


# --- the log ----------------------------------------------------------------------------------------------------------


async def messages_on(board: Board, *subjects: str) -> list[Message]:
    return [message async for messages in board.log.scan(list(subjects)) for message in messages]


async def history_of(board: Board, run: str) -> tuple[Folded, list[tuple[Message, list[e.Event]]]]:
    """The run as folded, which verifies versions and chain, and its fact messages with their events."""
    folded, told = unwritten(board.log.id, run), list[tuple[Message, list[e.Event]]]()
    for message in await messages_on(board, board.subjects.fact(run)):
        facts = decode_facts(message.data)
        folded = fold(folded, facts, message.seq)
        told.append((message, [event for _, event in decoded(facts)]))
    return folded, told


async def events_of(board: Board, run: str) -> list[e.Event]:
    _, told = await history_of(board, run)
    return [event for _, events in told for event in events]


async def runs_on(board: Board) -> list[str]:
    found = [message.subject async for message in board.log.last_per_subject(board.subjects.every("fact"))]
    return sorted(address.run for subject in found if (address := board.subjects.address(subject)))


async def run_until(board: Board, run: str, true: Callable[[State], object], within_s: float = PATIENCE_S) -> Folded:
    """Follow the run until `true` of its state; as folded then."""
    folded, reached = unwritten(board.log.id, run), asyncio.Event()

    async def on_messages(messages: Sequence[Message]) -> None:
        nonlocal folded
        for message in messages:
            if not reached.is_set():
                folded = fold(folded, decode_facts(message.data), message.seq)
                if true(folded.state):
                    reached.set()

    reading = await board.log.subscribe(on_messages, [board.subjects.fact(run)])
    try:
        async with asyncio.timeout(within_s):
            await reached.wait()
    except TimeoutError:
        raise AssertionError(f"run {run} did not get there within {within_s:g} s: {brief(folded.state)}") from None
    finally:
        await reading.close()
    return folded


async def ended(board: Board, run: str, within_s: float = PATIENCE_S) -> State:
    return (await run_until(board, run, lambda state: state.end, within_s)).state


def brief(state: State) -> str:
    steps = {name: f"{step.status} {step.ended}/{step.tasks}" for name, step in state.steps.items()}
    timers = sorted(state.timers)[:5]
    return f"version {state.version} {state.phase} {state.code} {state.reason} {steps} timers {timers}"


def digests(folded: Folded) -> tuple[int, str, str, str]:
    """(version, head, state, outcome)"""
    return folded.state.version, folded.h, state_digest(folded.state), outcome_digest(folded.state)


async def all_digests(board: Board) -> dict[str, tuple[int, str, str, str]]:
    return {run: digests((await history_of(board, run))[0]) for run in await runs_on(board)}


async def offered(board: Board, *names: str) -> None:
    """Return when all of these specialists and teams stand in the catalogue."""

    async def there() -> bool:
        view = await Client(board, "test").catalogue()
        known = {contract.specialist for contract in view.contracts()} | {one.team for one in view.teams()}
        return known >= set(names)

    await until(there, f"{names} to be in the catalogue")


# --- past the client --------------------------------------------------------------------------------------------------


@contextlib.asynccontextmanager
async def past_the_client(url: str) -> AsyncIterator[Connection]:
    """A connection that publishes what it likes."""
    connection = await connect(url, "stranger")
    try:
        yield connection
    finally:
        await connection.close()


async def publish_raw(
    board: Board, connection: Connection, subject: str, data: bytes, headers: dict[str, str] | None = None
) -> int:
    """Publish as any program could; the sequence under which the log stored it."""
    _, answer = await connection.ask(subject, data, headers)
    stored = json.loads((await asyncio.wait_for(answer, PATIENCE_S)).data)
    assert "error" not in stored, stored
    return int(stored["seq"])


async def publish_packets(url: str, *packets: tuple[bytes, bytes, bytes]) -> None:
    """Publish (subject, headers, data), each as the very bytes that go over the wire, and wait until they are taken."""
    host, _, port = url.removeprefix("nats://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(b'CONNECT {"verbose":false,"pedantic":false,"headers":true}\r\n')
    for subject, headers, data in packets:
        sizes = b" %d %d" % (len(headers), len(headers) + len(data)) if headers else b" %d" % len(data)
        writer.write((b"HPUB " if headers else b"PUB ") + subject + sizes + b"\r\n" + headers + data + b"\r\n")
    writer.write(b"PING\r\n")
    while not (line := await asyncio.wait_for(reader.readline(), PATIENCE_S)).startswith(b"PONG"):
        assert line.startswith(b"INFO"), line
    writer.close()
    await writer.wait_closed()


async def verdict_on(board: Board, seq: int, run: str, within_s: float = PATIENCE_S) -> e.Event:
    """The first event of `run` that the message at `seq` brought about."""
    found: list[e.Event] = []

    async def look() -> bool:
        found.extend(event for event in await events_of(board, run) if event.cause.seq == seq)
        return bool(found)

    await until(look, f"an event of {run} that cites {seq}", within_s)
    return found[0]


def task_events(events: Sequence[e.Event]) -> Iterator[e.TaskEnded | e.AttemptFailed]:
    return (event for event in events if isinstance(event, e.TaskEnded | e.AttemptFailed))
