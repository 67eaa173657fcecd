"""The index of a folder: built once, brought up to date file by file, and never needed."""

import contextlib
import os
import sqlite3
import threading
from pathlib import Path

import pytest

from specialists.research import documents, index
from specialists.research.documents import NothingToRead
from specialists.research.index import KEPT, search
from tests.research.conftest import Folder

DOCS: dict[str, str | bytes] = {
    "a.md": "# Leases\n\nA lease lasts nine days.",
    "b.md": "Boards are green.",
    "c.bin": b"\0\1",
}


@pytest.fixture
def reads(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The names of the files that are read."""
    seen: list[str] = []

    def noted(file: documents.File) -> str:
        seen.append(file.name)
        return documents.read(file)

    monkeypatch.setattr(index, "read", noted)
    return seen


def settle(root: Path) -> None:
    """Files that were changed long before they are read."""
    for path in root.rglob("*"):
        os.utime(path, ns=(10**18, 10**18))


def ids(root: Path, question: str) -> list[str]:
    return [hit.chunk.id for hit in search(str(root), question, 8).hits]


def test_it_finds_words_whatever_their_case_and_ending(folder: Folder) -> None:
    assert ids(folder(DOCS), "How long do LEASES last?") == ["a.md:1-3"]
    assert ids(folder(DOCS), "Mongolia") == []
    assert ids(folder(DOCS), "what is it?") == []


def test_it_is_built_once_and_then_follows_changes(folder: Folder, reads: list[str]) -> None:
    root = folder(DOCS)
    settle(root)
    first = search(str(root), "lease", 8)
    assert sorted(reads) == ["a.md", "b.md", "c.bin"]
    reads.clear()
    again = search(str(root), "lease", 8)
    assert (reads, again) == ([], first)
    (root / "b.md").write_text("A lease may be renewed.")
    (root / "c.bin").unlink()
    changed = search(str(root), "lease", 8)
    assert reads == ["b.md"]
    assert sorted(hit.chunk.id for hit in changed.hits) == ["a.md:1-3", "b.md:1-1"]
    assert (changed.passed, first.passed) == ({}, {"binary": ["c.bin"]})
    assert changed.digest != first.digest
    (root / "a.md").unlink()
    assert ids(root, "lease") == ["b.md:1-1"]


def test_a_change_within_the_tick_of_the_clock_is_seen(folder: Folder) -> None:
    root = folder({"a.md": "one lease"})
    search(str(root), "lease", 8)
    stamp = (root / "a.md").stat().st_mtime_ns
    (root / "a.md").write_text("two boats")
    os.utime(root / "a.md", ns=(stamp, stamp))
    assert (ids(root, "lease"), ids(root, "boats")) == ([], ["a.md:1-1"])


def test_the_digest_is_of_names_and_contents(folder: Folder) -> None:
    digests = {search(str(folder({"a.md": "x", "b.md": "y"}, name)), "x", 1).digest for name in ("one", "two")}
    assert len(digests) == 1
    digests.add(search(str(folder({"a.md": "y", "b.md": "x"}, "three")), "x", 1).digest)
    assert len(digests) == 2


@pytest.mark.parametrize("damage", ["garbage", "empty", "older", "folder"])
def test_a_damaged_cache_is_made_anew(folder: Folder, cache: Path, damage: str) -> None:
    root = folder(DOCS)
    assert ids(root, "lease") == ["a.md:1-3"]
    (kept,) = (cache / "research").glob("*.sqlite")
    if damage == "garbage":
        kept.write_bytes(b"no database at all" * 500)
    elif damage == "empty":
        kept.write_bytes(b"")
    elif damage == "older":
        with sqlite3.connect(kept) as database:
            database.execute("UPDATE meta SET value = '0'")
        database.close()
    else:
        kept.unlink()
        kept.mkdir()
    assert ids(root, "lease") == ["a.md:1-3"]
    if damage != "folder":  # in whose place nothing can be kept
        with contextlib.closing(sqlite3.connect(kept)) as database:
            assert database.execute("SELECT count(*) FROM chunks").fetchone() == (2,)


def test_a_flipped_byte_in_the_cache_gives_the_answer_all_the_same(folder: Folder, cache: Path) -> None:
    root = folder({f"{number}.md": f"word{number} and a lease, nothing more" * 20 for number in range(40)})
    expected = ids(root, "word7")
    (kept,) = (cache / "research").glob("*.sqlite")
    whole = kept.read_bytes()
    for place in range(0, min(4_096, len(whole)), 512):
        kept.write_bytes(whole[:place] + bytes([whole[place] ^ 0xFF]) + whole[place + 1 :])
        assert ids(root, "word7") == expected


def test_where_nothing_can_be_kept_it_works_in_memory(
    folder: Folder, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("BLACKBOARD_CACHE", str(tmp_path / "file" / "below"))
    assert ids(folder(DOCS), "lease") == ["a.md:1-3"]


def test_an_index_that_another_holds_too_long_is_done_without(
    folder: Folder, cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    root = folder(DOCS)
    ids(root, "lease")
    (kept,) = (cache / "research").glob("*.sqlite")
    monkeypatch.setattr(index, "WAIT_S", 0.05)
    before = kept.stat().st_ino
    holder = sqlite3.connect(kept, isolation_level=None)
    try:
        holder.execute("BEGIN IMMEDIATE")
        assert ids(root, "lease") == ["a.md:1-3"]
    finally:
        holder.close()
    assert kept.stat().st_ino == before, "what another works with is not taken away"


def test_several_at_once_find_the_same(folder: Folder) -> None:
    root = folder({f"{number}.md": f"A lease of kind {number}." for number in range(200)})
    found: list[list[str]] = []
    threads = [threading.Thread(target=lambda: found.append(ids(root, "kind 77 lease"))) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(found) == 4
    assert all(one == found[0] and one[0] == "77.md:1-1" for one in found)


def test_only_so_many_indexes_are_kept(folder: Folder, cache: Path) -> None:
    for number in range(KEPT + 3):
        search(str(folder({"a.md": "x"}, f"folder-{number}")), "x", 1)
    assert len(list((cache / "research").glob("*.sqlite"))) == KEPT


@pytest.mark.parametrize(
    ("files", "says"),
    [
        ({}, "it has no files, or only hidden and ignored ones"),
        ({".hidden": "x"}, "it has no files, or only hidden and ignored ones"),
        ({"a.bin": b"\0", "b.bin": b"\0"}, "passed over: 2 binary"),
    ],
)
def test_a_folder_with_nothing_to_read_says_why(folder: Folder, files: dict[str, str | bytes], says: str) -> None:
    with pytest.raises(NothingToRead, match=says):
        search(str(folder(files)), "x", 8)


@pytest.mark.parametrize(
    "question", ['"', "a OR b AND NOT (c", "NEAR(x y)", "*", "heading: x", "\0", "☃ 漢字", "x" * 4_000, "- -- ;"]
)
def test_no_question_is_read_as_a_query(folder: Folder, question: str) -> None:
    search(str(folder(DOCS)), question, 8)


def test_other_scripts_are_found_by_their_characters(folder: Folder) -> None:
    root = folder({"a.md": "租约持续九天。", "b.md": "Der Vertrag läuft über neun Tage."})
    assert ids(root, "租约多长") == ["a.md:1-1"]
    assert ids(root, "VERTRAG läuft") == ["b.md:1-1"]
