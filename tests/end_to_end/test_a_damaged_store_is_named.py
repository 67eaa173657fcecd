"""The stream's folder alone gives the same runs again; one flipped bit there is found and named."""

import asyncio
import shutil
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import aclosing, asynccontextmanager
from pathlib import Path
from typing import NamedTuple

import pytest
from msgspec.structs import replace

from blackboard.board import Board, open_board
from blackboard.client import Client
from blackboard.jetstream_streams import LOG_ID, log_config, make_stream
from blackboard.log import LogDamaged, Message
from blackboard.server import EmbeddedServer
from projections.audit import Audited, Violation
from projections.history import BrokenHistory, Folded
from projections.live import follow
from projections.rebuild import check, check_all, rebuild, rebuild_all
from projections.verify import verify
from schemas.codec import decode_facts
from schemas.subjects import Subjects
from tests.end_to_end import teams
from tests.end_to_end.support import (
    PATIENCE_S,
    Program,
    all_digests,
    call,
    digests,
    ended,
    messages_on,
    offered,
    past_the_client,
    publish_raw,
)
from tests.tamper import blocks

STREAM = Path("data/jetstream/$G/streams/BOARD_main")
RUNS = ["first", "second", "third"]


class Recorded(NamedTuple):
    """A board that was stopped: its folder, its messages and the digests of its runs."""

    folder: Path
    messages: list[Message]
    digests: dict[str, tuple[int, str, str, str]]
    log_id: str

    def last(self, subject: str, holding: bytes) -> Message:
        return next(one for one in reversed(self.messages) if one.subject == subject and holding in one.data)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """Three runs, and a goal that was rejected."""
    return asyncio.run(record(tmp_path_factory.mktemp("recorded")))


async def record(folder: Path) -> Recorded:
    with EmbeddedServer(folder / ".blackboard") as server:
        here = ["--nats", server.url]
        team = teams.write(folder, "squares", teams.SQUARES)
        programs = [
            Program(["supervise", *here], folder / "supervise.out"),
            Program(["attach", team, *here], folder / "attach.out"),
        ]
        try:
            async with open_board(server.url, create=True) as board, past_the_client(server.url) as stranger:
                await offered(board, "squares", "squarer", "adder")
                await publish_raw(board, stranger, board.subjects.goal("stranger", "none"), b"no goal")
                for number, run in enumerate(RUNS):
                    await Client(board, "publisher").publish("squares", {"numbers": [1, 2, 3, number]}, run)
                for run in RUNS:
                    assert (await ended(board, run)).end == "DONE"
                for program in programs:
                    await program.stop()
                return Recorded(folder, await messages_on(board), await all_digests(board), board.log.id)
        finally:
            for program in programs:
                program.kill()


@asynccontextmanager
async def restored(
    recorded: Recorded, folder: Path, damage: Callable[[Path], None] | None = None
) -> AsyncIterator[str]:
    """A server over a copy of the stream's folder and nothing else; its URL."""
    shutil.copytree(recorded.folder / ".blackboard" / STREAM, folder / STREAM)
    if damage:
        damage(folder / STREAM)
    with EmbeddedServer(folder) as server:
        yield server.url


def flipped_at(data: bytes, holding: bytes) -> bytes:
    """`data` with one bit changed, in the last place that holds `holding`."""
    at = data.rindex(holding) + len(holding) - 1
    return data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]


def flip_in_block(message: Message, holding: bytes) -> Callable[[Path], None]:
    def flip(stream: Path) -> None:
        block = stream / "msgs" / "1.blk"
        stored = block.read_bytes()
        assert stored.count(message.data) == 1
        block.write_bytes(stored.replace(message.data, flipped_at(message.data, holding)))

    return flip


async def test_everything_but_the_streams_folder_may_go(recorded: Recorded, tmp_path: Path) -> None:
    async with restored(recorded, tmp_path) as url:
        async with open_board(url) as board:
            assert await all_digests(board) == recorded.digests
        told = await call("rebuild", "--all", "--check", "--json", "--nats", url)
        assert (told.code, told.err) == (0, "4 runs checked\n")
        found = {one["run"]: (one["version"], one["head"], one["state"], one["outcome"]) for one in told.lines}
        assert found == recorded.digests
        assert set(found) == {*RUNS, "_board"}


async def words_of(reading: Awaitable[object]) -> str:
    """What a read of a damaged log says."""
    try:
        found = await reading
    except (BrokenHistory, LogDamaged) as damage:
        return str(damage)
    return str(found) if isinstance(found, Violation) else f"nothing wrong: {found}"


async def every(reading: AsyncIterator[Folded | Audited | Violation]) -> object:
    """The last of what it gives."""
    return [one async for one in reading][-1]


async def readings(board: Board, run: str) -> dict[str, str]:
    """What each way to read all of a run says, without and with its inputs, alone and with all others."""
    return {
        "rebuild": await words_of(rebuild(board, run)),
        "rebuild --all": await words_of(every(rebuild_all(board))),
        "check": await words_of(check(board, run)),
        "check --all": await words_of(every(check_all(board))),
    }


def run_of(message: Message) -> str:
    return message.subject.rpartition(".")[2]


CLAIM = b'"claims":[{"key":"square.n1","value":4'
FACT = b'"key":"square.n1","value":4'
COMMITTED, END = b'"type":"fact_committed"', b'"type":"run_ended"'
WITH_INPUTS, ALL_INPUTS = ("check", "check --all"), ("check --all",)


@pytest.mark.parametrize(
    ("subject", "holding", "ways"),
    [
        ("fact.second", FACT, ("rebuild", "rebuild --all", "check", "check --all")),
        ("fact.second", END, ("rebuild", "rebuild --all", "check", "check --all")),
        ("obs.squarer.second", CLAIM, WITH_INPUTS),
        ("goal.publisher.second", b'"numbers":[', WITH_INPUTS),
        ("fact._board", b'"type":"input_rejected"', ALL_INPUTS),
        ("contract.adder", b'"offers":["add', ALL_INPUTS),
    ],
)
async def test_a_message_that_the_server_skips_is_named(
    recorded: Recorded, tmp_path: Path, subject: str, holding: bytes, ways: tuple[str, ...]
) -> None:
    """The server keeps a checksum of each message, and passes over in silence what does not match."""
    message = recorded.last(f"bb.main.{subject}", holding)
    names = [f"sequence {message.seq}"]
    if subject.startswith("fact."):
        names.append(f"run {run_of(message)}, event {decode_facts(message.data).first}")
    async with restored(recorded, tmp_path, flip_in_block(message, holding)) as url:
        async with open_board(url) as board:
            said = await readings(board, "second")
        told = await call("rebuild", "--all", "--check", "--nats", url)
    silent = {way: words for way, words in said.items() if not any(name in words for name in names)}
    assert not {way: words for way, words in silent.items() if way in ways}
    assert (told.code, any(name in told.err for name in names)) == (1, True), told


@asynccontextmanager
async def forged(recorded: Recorded, folder: Path, damaged: Message, holding: bytes) -> AsyncIterator[str]:
    """A server whose log has the same messages under the same sequences, but for one bit of one message: what somebody
    leaves who can write the store and makes the checksums fit. Its URL."""
    with EmbeddedServer(folder) as server:
        async with past_the_client(server.url) as connection:
            fixed = {"metadata": {LOG_ID: recorded.log_id}}
            await make_stream(connection, log_config(Subjects()), fixed=fixed)
        async with open_board(server.url) as board, past_the_client(server.url) as connection:
            for message in recorded.messages:
                data = flipped_at(message.data, holding) if message.seq == damaged.seq else message.data
                assert await publish_raw(board, connection, message.subject, data, message.headers) == message.seq
        yield server.url


async def test_a_changed_fact_breaks_the_chain_at_the_event_after_it(recorded: Recorded, tmp_path: Path) -> None:
    subject = "bb.main.fact.second"
    message = recorded.last(subject, FACT)
    following = next(one for one in recorded.messages if one.subject == subject and one.seq > message.seq)
    async with forged(recorded, tmp_path, message, FACT) as url:
        async with open_board(url) as board:
            said = await readings(board, "second")
        told = await call("rebuild", "second", "--nats", url)
    event = decode_facts(following.data).first
    expected = f"run second, event {event}, in the message at sequence {following.seq}: the chain does not continue"
    assert {way for way, words in said.items() if expected not in words} == set()
    assert (told.code, expected in told.err) == (1, True), told


async def test_a_changed_last_fact_is_not_what_the_supervisor_held(recorded: Recorded, tmp_path: Path) -> None:
    result = b'"result":{"total":15'
    message = recorded.last("bb.main.fact.second", result)
    async with forged(recorded, tmp_path, message, result) as url:
        async with open_board(url) as board:
            said = await readings(board, "second")
        told = await call("rebuild", "second", "--check", "--nats", url)
    expected = f"run second, event {recorded.digests['second'][0]}, in the message at sequence {message.seq}"
    assert {way for way in WITH_INPUTS if expected not in said[way]} == set()
    assert (told.code, expected in told.err) == (1, True), told


async def test_a_changed_input_is_not_what_its_events_cite(recorded: Recorded, tmp_path: Path) -> None:
    message = recorded.last("bb.main.obs.squarer.second", CLAIM)
    async with forged(recorded, tmp_path, message, CLAIM) as url:
        async with open_board(url) as board:
            said = await readings(board, "second")
        told = await call("rebuild", "second", "--check", "--nats", url)
    expected = f"cites the input at sequence {message.seq} by another digest"
    assert {way for way in WITH_INPUTS if expected not in said[way]} == set()
    assert (told.code, "run second, event" in told.err, expected in told.err) == (1, True, True), told


async def test_a_damaged_last_fact_message_is_written_again(recorded: Recorded, tmp_path: Path) -> None:
    """One byte on the disk turns over, under a checksum that fits, and the message is no JSON any more: whoever takes
    over decides again what it was about, and the same events follow behind it. It is named where it lies."""
    message = recorded.last("bb.main.fact.second", END)

    def damaged(stream: Path) -> None:
        blocks.change(
            stream,
            lambda stored: [
                replace(one, data=bytes([one.data[0] ^ 1]) + one.data[1:]) if one.seq == message.seq else one
                for one in stored
            ],
        )

    async with restored(recorded, tmp_path, damaged) as url:
        program = Program(["supervise", "--nats", url], tmp_path / "supervise.out")
        try:
            async with open_board(url) as board:
                async with asyncio.timeout(PATIENCE_S), aclosing(follow(board, "second")) as following:
                    found = [folded.state.end async for folded in following][-1]
                assert {one.state.run: digests(one) async for one in rebuild_all(board)} == recorded.digests
                again = (await messages_on(board, "bb.main.fact.second"))[-1]
                verdict = await verify(board)
            assert await program.stop() == 0
        finally:
            program.kill()
    assert found == "DONE"
    assert (again.seq > message.seq, again.data) == (True, message.data)
    assert [(one.seq, one.run) for one in verdict.findings] == [(message.seq, "second")]
    assert program.said.count(f"passed over at sequence {message.seq}") == 1
