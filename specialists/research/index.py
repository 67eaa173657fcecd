"""Full-text search over a folder: an SQLite file of its own in the user's cache, brought up to date before each search.

A file is read again when its size or time has changed, or when it was changed so shortly before it was read that the
time says nothing. The cache may be lost, damaged or not writable at any time: it is made anew, at worst in memory.
"""

import contextlib
import hashlib
import math
import os
import sqlite3
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from specialists.research.chunks import Chunk, chunks
from specialists.research.documents import File, Listing, NothingToRead, Unread, listing, read
from specialists.research.terms import content, terms

CACHE = "BLACKBOARD_CACHE"
"""Environment variable: the folder of the cache."""
KEPT = 20
"""Indexes of folders that are kept; the one that was used longest ago goes first."""
WAIT_S = 60.0
"""For another process that brings the same index up to date."""
FRESH_NS = 2_000_000_000
"""A file that was changed so shortly before it was read may change again within the same tick of its clock."""
CANDIDATES = 60
"""Chunks that full-text search proposes, of which the best are taken."""
QUESTION_TERMS = 40
LEAST_WEIGHT = 1.0
"""Of a term: among few documents, or very common words, rarity says little."""
_VERSION = "1"
_SCHEMA = """
CREATE TABLE meta (name TEXT PRIMARY KEY, value TEXT);
CREATE TABLE files (path TEXT PRIMARY KEY, size INT, stamp_ns INT, read_ns INT, sha256 TEXT, unread TEXT);
CREATE TABLE chunks (id INTEGER PRIMARY KEY, path TEXT, first INT, last INT, heading TEXT, text TEXT);
CREATE INDEX chunks_path ON chunks (path);
CREATE VIRTUAL TABLE words USING fts5 (heading, body);
"""


@dataclass(frozen=True)
class Hit:
    """`coverage` is how much of the question the chunk speaks of, 0 to 1; `score` orders hits."""

    chunk: Chunk
    score: float
    coverage: float


@dataclass
class Found:
    """What a folder has on a question. `digest` is over the names and contents of its files; `weights` are those of the
    question's terms: a rare one weighs more, and most one that no document has."""

    digest: str
    files: int
    chunks: int
    passed: dict[str, list[str]]
    weights: dict[str, float] = field(default_factory=dict)
    hits: list[Hit] = field(default_factory=list)


def search(folder: str, question: str, limit: int) -> Found:
    """The chunks of a folder that speak of a question, best first. Raises NothingToRead."""
    listed = listing(folder)
    path = _place(listed.folder)
    for _ in range(2):
        try:
            return _searched(path, listed, question, limit)
        except sqlite3.DatabaseError as error:
            damaged = error.sqlite_errorcode & 0xFF in {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB}
            if path is None or not damaged:
                break
            with contextlib.suppress(OSError):
                path.unlink(missing_ok=True)
    return _searched(None, listing(folder), question, limit)


def _searched(path: Path | None, listed: Listing, question: str, limit: int) -> Found:
    with contextlib.closing(_opened(path)) as database:
        found = _refreshed(database, listed)
        found.weights = _weights(database, question, found.chunks)
        found.hits = _hits(database, found.weights, limit)
    return found


# --- the file ---------------------------------------------------------------------------------------------------------


def cache_folder() -> Path:
    if told := os.environ.get(CACHE):
        return Path(told)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "blackboard"


def _place(folder: Path) -> Path | None:
    """Where the index of a folder lies; None where nothing can be kept."""
    try:
        place = cache_folder() / "research"
        place.mkdir(parents=True, exist_ok=True, mode=0o700)
        found = place / f"{hashlib.sha256(os.fsencode(folder)).hexdigest()[:32]}.sqlite"
        found.touch(mode=0o600)
        others = sorted((one for one in place.glob("*.sqlite") if one != found), key=lambda one: one.stat().st_mtime)
        for old in others[: max(len(others) + 1 - KEPT, 0)]:
            old.unlink(missing_ok=True)
    except (OSError, RuntimeError):
        return None
    return found


def _opened(path: Path | None) -> sqlite3.Connection:
    database = sqlite3.connect(path or ":memory:", timeout=WAIT_S, isolation_level=None)
    try:
        database.execute("BEGIN IMMEDIATE")
        known = database.execute("SELECT count(*) FROM sqlite_master WHERE name = 'meta'").fetchone()[0]
        version = database.execute("SELECT value FROM meta WHERE name = 'version'").fetchone() if known else None
        if version != (_VERSION,):
            for name in ("words", "chunks", "files", "meta"):
                database.execute(f"DROP TABLE IF EXISTS {name}")
            for statement in _SCHEMA.split(";"):
                database.execute(statement)
            database.execute("INSERT INTO meta VALUES ('version', ?)", (_VERSION,))
    except BaseException:
        database.close()
        raise
    return database


def _refreshed(database: sqlite3.Connection, listed: Listing) -> Found:
    """Bring the index up to date, in the transaction that `_opened` began."""
    rows = database.execute("SELECT path, size, stamp_ns, read_ns, sha256, unread FROM files")
    known = {row[0]: row[1:] for row in rows}
    for gone in known.keys() - {file.name for file in listed.files}:
        _forget(database, gone)
        database.execute("DELETE FROM files WHERE path = ?", (gone,))
    total = hashlib.sha256()
    files = 0
    for file in listed.files:
        before = known.get(file.name)
        same = before and before[:2] == (file.size, file.stamp_ns) and before[1] < before[2] - FRESH_NS
        sha256, unread = before[3:] if before and same else _read_in(database, file, before and before[3])
        if unread:
            listed.pass_over(file.name, unread)
            continue
        files += 1
        total.update(f"{file.name}\0{sha256}\n".encode())
    database.execute("COMMIT")
    count = database.execute("SELECT count(*) FROM chunks").fetchone()[0]
    if not files:
        raise NothingToRead(_nothing(listed))
    return Found(total.hexdigest(), files, count, listed.passed)


def _read_in(database: sqlite3.Connection, file: File, before: str | None) -> tuple[str, str]:
    """Digest of the text, or why there is none. What has the same text as before keeps its chunks."""
    now_ns = time.time_ns()
    sha256 = unread = text = ""
    try:
        text = read(file)
        sha256 = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()
    except Unread as why:
        unread = str(why)
    row = (file.name, file.size, file.stamp_ns, now_ns, sha256, unread)
    database.execute("INSERT OR REPLACE INTO files VALUES (?, ?, ?, ?, ?, ?)", row)
    if sha256 != before:
        _forget(database, file.name)
        for chunk in chunks(file.name, text):
            fields = (chunk.path, chunk.start, chunk.end, chunk.heading, chunk.text)
            sql = "INSERT INTO chunks (path, first, last, heading, text) VALUES (?, ?, ?, ?, ?)"
            number = database.execute(sql, fields).lastrowid
            heading = " ".join(terms(f"{chunk.heading} {chunk.path}"))
            sql = "INSERT INTO words (rowid, heading, body) VALUES (?, ?, ?)"
            database.execute(sql, (number, heading, " ".join(terms(chunk.text))))
    return sha256, unread


def _forget(database: sqlite3.Connection, path: str) -> None:
    database.execute("DELETE FROM words WHERE rowid IN (SELECT id FROM chunks WHERE path = ?)", (path,))
    database.execute("DELETE FROM chunks WHERE path = ?", (path,))


def _nothing(listed: Listing) -> str:
    if not listed.passed:
        return f"there is nothing to read in {listed.folder}: it has no files, or only hidden and ignored ones"
    reasons = ", ".join(f"{len(names)} {why}" for why, names in sorted(listed.passed.items()))
    return f"there is nothing to read in {listed.folder}; passed over: {reasons}"


# --- searching --------------------------------------------------------------------------------------------------------


def _weights(database: sqlite3.Connection, question: str, count: int) -> dict[str, float]:
    """Of each term of the question how much it tells, by how few chunks have it (as in BM25)."""
    found: dict[str, float] = {}
    for term in content(question)[:QUESTION_TERMS]:
        sql = "SELECT count(*) FROM words WHERE words MATCH ?"
        having = database.execute(sql, (_quoted([term]),)).fetchone()[0]
        found[term] = round(max(math.log(1 + (count - having + 0.5) / (having + 0.5)), LEAST_WEIGHT), 4)
    return found


def _hits(database: sqlite3.Connection, weights: dict[str, float], limit: int) -> list[Hit]:
    if not weights:
        return []
    sql = (
        "SELECT chunks.path, first, last, chunks.heading, text, bm25(words, 2.0, 1.0), words.heading, body FROM words "
        "JOIN chunks ON chunks.id = words.rowid WHERE words MATCH ? ORDER BY 6, 1, 2 LIMIT ?"
    )
    rows = database.execute(sql, (_quoted(list(weights)), CANDIDATES)).fetchall()
    best = max((-row[5] for row in rows), default=0.0) or 1.0
    hits = []
    for *place, rank, heading, body in rows:
        coverage = covered(weights, {*heading.split(), *body.split()})
        hits.append(Hit(Chunk(*place), round(coverage + 0.5 * -rank / best, 4), round(coverage, 4)))
    return sorted(hits, key=lambda hit: (-hit.score, hit.chunk.path, hit.chunk.start))[:limit]


def covered(weights: dict[str, float], said: set[str]) -> float:
    """How much of a question is spoken of where these terms are said, 0 to 1."""
    total = sum(weights.values())
    return sum(weight for term, weight in weights.items() if term in said) / total if total else 0.0


def _quoted(said: Sequence[str]) -> str:
    return " OR ".join(_phrases(said))


def _phrases(said: Sequence[str]) -> Iterator[str]:
    for term in said:
        yield '"' + term.replace('"', '""') + '"'
