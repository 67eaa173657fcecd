"""What is not a whole backup is refused before anything is sent, whatever is wrong with it."""

import random
import shutil
from pathlib import Path

import pytest

from blackboard.backup_file import BackupFile, BadBackupFile
from blackboard.jetstream_restore import restore
from blackboard.server import EmbeddedServer
from tests.backup.conftest import Copy, streams_at
from tests.durability.command import command
from tests.end_to_end.support import past_the_client
from tests.plugins.figures import Figures


def refusal(path: Path) -> str:
    """Why the file is refused; empty where it is not."""
    try:
        BackupFile(path).check()
    except BadBackupFile as error:
        return str(error)
    return ""


def test_a_flipped_bit_anywhere(copy: Copy, tmp_path: Path, figures: Figures) -> None:
    whole, damaged = copy.path.read_bytes(), tmp_path / "damaged"
    assert refusal(copy.path) == ""
    drawn = random.Random(1)
    places = {*range(400), *range(len(whole) - 400, len(whole)), *(drawn.randrange(len(whole)) for _ in range(400))}
    accepted = []
    for place in sorted(places):
        bit = 1 << drawn.randrange(8)
        damaged.write_bytes(whole[:place] + bytes([whole[place] ^ bit]) + whole[place + 1 :])
        if not refusal(damaged):
            accepted.append((place, bit))
    figures.say(f"bits of a backup flipped: {len(places)}, not noticed: {len(accepted)}")
    assert accepted == []


def test_cut_off_anywhere(copy: Copy, tmp_path: Path, figures: Figures) -> None:
    whole, damaged = copy.path.read_bytes(), tmp_path / "damaged"
    drawn = random.Random(1)
    sizes = {*range(300), *range(len(whole) - 300, len(whole)), *(drawn.randrange(len(whole)) for _ in range(300))}
    accepted = []
    for size in sorted(sizes):
        damaged.write_bytes(whole[:size])
        if not refusal(damaged):
            accepted.append(size)
    figures.say(f"backups cut off: {len(sizes)}, not noticed: {len(accepted)}")
    assert accepted == []


def test_more_at_its_end(copy: Copy) -> None:
    with copy.path.open("ab") as file:
        file.write(b"x")
    assert "digest" in refusal(copy.path)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"", "no backup"),
        (b"some text that is longer than the first line of a backup\n" * 9, "no backup"),
        (b"blackboard backup\n", "cut off"),
        (b"blackboard backup\n\xff\xff\xff\xff", "too large"),
        (b'blackboard backup\n\x00\x00\x00\x0c{"format":2}', "newer release"),
    ],
)
def test_another_file(tmp_path: Path, content: bytes, says: str) -> None:
    (tmp_path / "file").write_bytes(content)
    assert says in refusal(tmp_path / "file")


async def test_the_command_says_so_and_changes_nothing(copy: Copy, target: EmbeddedServer) -> None:
    whole = copy.path.read_bytes()
    good = await command("restore", str(copy.path), "--check", "--json")
    assert (good.code, good.record["log"], good.record["last"]) == (0, copy.log, copy.messages)
    copy.path.write_bytes(whole[: len(whole) // 2] + b"!" + whole[len(whole) // 2 + 1 :])
    for more in ([], ["--check"]):
        told = await command("restore", str(copy.path), *more, "--nats", target.url)
        assert (told.code, told.out, "digest" in told.err, told.err.count("\n")) == (1, "", True, 1), told
    assert await streams_at(target.url) == set()


async def test_one_that_changes_after_it_was_checked(copy: Copy, target: EmbeddedServer) -> None:
    file = BackupFile(copy.path)
    file.check()
    whole, place = copy.path.read_bytes(), file.parts[0].offset + 1000
    copy.path.write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
    async with past_the_client(target.url) as connection:
        with pytest.raises(Exception, match=r"changed while|gave up"):
            await restore(connection, file)
    assert await streams_at(target.url) == set()


async def test_another_name_for_its_board(copy: Copy, target: EmbeddedServer) -> None:
    told = await command("restore", str(copy.path), "--board", "other", "--nats", target.url)
    assert (told.code, "board 'main'" in told.err) == (1, True), told
    assert await streams_at(target.url) == set()


async def test_parts_of_another_board(copy: Copy, target: EmbeddedServer, tmp_path: Path) -> None:
    """A header that names other streams than a board has."""
    whole = copy.path.read_bytes()
    shutil.copy(copy.path, tmp_path / "other")
    (tmp_path / "other").write_bytes(whole.replace(b'"board":"main"', b'"board":"maim"', 1))
    told = await command("restore", str(tmp_path / "other"), "--nats", target.url)
    assert (told.code, told.err.count("\n")) == (1, 1), told
    assert await streams_at(target.url) == set()
