"""The read model of runs: one row a run, and the position on the log up to which the rows are true.

Rows and position move in one transaction, so a view that was interrupted goes on where it was. A view may be deleted at
any time: `runner` makes it again from the log. Positions are kept a log (`Tracking(log id, sequence)`), and so are
rows, so nothing of a board that was created anew mixes with what was there before.
"""

import os
import sqlite3
from abc import abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from eventsourcing.persistence import IntegrityError, PersistenceError, Tracking, TrackingRecorder
from eventsourcing.popo import POPOTrackingRecorder
from eventsourcing.sqlite import SQLiteCursor, SQLiteDatastore, SQLiteTrackingRecorder
from msgspec.structs import asdict, fields

from blackboard.server_files import is_writable
from projections.run_row import RunRow

FOLDER = Path("views")
"""Below `.blackboard`, or below the folder of this program in the user's cache."""
APPLICATION_ID = 0x62626F61
"""Marks an SQLite file as one of ours."""
SCHEMA = 2
"""The form of the tables. A view in another form is emptied and made again."""

__all__ = ["IntegrityError", "MemoryRunsView", "RunsView", "SQLiteRunsView", "Tracking", "ViewUnusable", "view_path"]


class ViewUnusable(Exception):
    """The file of a view cannot be used; the text says why and what to do."""

    exit_code = 1


class RunsView(TrackingRecorder):
    """What each view of runs promises. One writer at a time gets further: who comes second gets IntegrityError."""

    @abstractmethod
    def write(self, rows: Sequence[RunRow], tracking: Tracking) -> None:
        """Put rows, in place of those of the same runs, and move the position, or do neither. Raises IntegrityError
        when the view is at that position already, or beyond it."""

    @abstractmethod
    def row(self, log: str, run: str) -> RunRow | None: ...

    @abstractmethod
    def rows(self, log: str) -> list[RunRow]:
        """All rows of one log, the run that was opened last at the end."""

    @abstractmethod
    def clear(self, log: str) -> None:
        """Forget the rows and the position of one log."""

    def position(self, log: str) -> int:
        """The sequence up to which the rows are true; 0 for an empty view."""
        return self.max_tracking_id(log) or 0

    def close(self) -> None:
        """Give back what is held open."""


class MemoryRunsView(POPOTrackingRecorder, RunsView):
    """Rows in memory, for tests and for readers that live as long as the process."""

    def __init__(self) -> None:
        super().__init__()
        self._rows: dict[tuple[str, str], RunRow] = {}

    def write(self, rows: Sequence[RunRow], tracking: Tracking) -> None:
        with self._database_lock:
            self._assert_tracking_uniqueness(tracking)
            self._insert_tracking(tracking)
            self._rows |= {(tracking.application_name, row.run): row for row in rows}

    def row(self, log: str, run: str) -> RunRow | None:
        return self._rows.get((log, run))

    def rows(self, log: str) -> list[RunRow]:
        with self._database_lock:
            return sorted((row for (of, _), row in self._rows.items() if of == log), key=_order)

    def clear(self, log: str) -> None:
        with self._database_lock:
            self._rows = {key: row for key, row in self._rows.items() if key[0] != log}
            self._max_tracking_ids.pop(log, None)


def _order(row: RunRow) -> tuple[int, str]:
    return row.opened_ms, row.run


_COLUMNS = [field.name for field in fields(RunRow)]
_TYPES = {field.name: "INTEGER" if field.type is int else "TEXT" for field in fields(RunRow)}
_PUT = (
    f"INSERT INTO runs (log, {', '.join(_COLUMNS)}) VALUES (:log, {', '.join(f':{name}' for name in _COLUMNS)}) "
    f"ON CONFLICT (log, run) DO UPDATE SET {', '.join(f'{name} = :{name}' for name in _COLUMNS)}"
)
_SELECT = f"SELECT {', '.join(_COLUMNS)} FROM runs WHERE log = ?"


class SQLiteRunsView(SQLiteTrackingRecorder, RunsView):
    """Rows in an SQLite file, or in SQLite's memory with `:memory:`. Every method may raise ViewUnusable."""

    def __init__(self, path: Path | str) -> None:
        self._path = path
        with self._explained():
            if path != ":memory:":
                Path(path).parent.mkdir(parents=True, exist_ok=True)
            super().__init__(SQLiteDatastore(str(path)))
            self._claim_file()
            self.create_table()

    def construct_create_table_statements(self) -> list[str]:
        columns = ", ".join(f"{name} {_TYPES[name]} NOT NULL" for name in _COLUMNS)
        return [
            *super().construct_create_table_statements(),
            f"CREATE TABLE IF NOT EXISTS runs (log TEXT NOT NULL, {columns}, PRIMARY KEY (log, run)) WITHOUT ROWID",
        ]

    def write(self, rows: Sequence[RunRow], tracking: Tracking) -> None:
        with self._explained(), self.datastore.transaction(commit=True) as cursor:
            self._insert_tracking(cursor, tracking)
            cursor.executemany(_PUT, [asdict(row) | {"log": tracking.application_name} for row in rows])

    def row(self, log: str, run: str) -> RunRow | None:
        found = self._select(f"{_SELECT} AND run = ?", log, run)
        return found[0] if found else None

    def rows(self, log: str) -> list[RunRow]:
        return self._select(f"{_SELECT} ORDER BY opened_ms, run", log)

    def clear(self, log: str) -> None:
        with self._explained(), self.datastore.transaction(commit=True) as cursor:
            cursor.execute("DELETE FROM runs WHERE log = ?", (log,))
            cursor.execute("DELETE FROM tracking WHERE application_name = ?", (log,))

    def position(self, log: str) -> int:
        with self._explained():
            return super().position(log)

    def close(self) -> None:
        self.datastore.close()

    def _select(self, statement: str, *parameters: str) -> list[RunRow]:
        with self._explained(), self.datastore.transaction(commit=False) as cursor:
            cursor.execute(statement, parameters)
            return [RunRow(*row) for row in cursor.fetchall()]

    def _claim_file(self) -> None:
        """Mark an empty file as ours, empty one of ours in another form, refuse any other."""
        with self.datastore.transaction(commit=True) as cursor:
            tables = _values(cursor, "SELECT name FROM sqlite_master WHERE type = 'table'")
            if tables and _values(cursor, "PRAGMA application_id") != [APPLICATION_ID]:
                raise PersistenceError("the file belongs to another program")
            if tables and _values(cursor, "PRAGMA user_version") != [SCHEMA]:
                for table in ("runs", "tracking"):
                    cursor.execute(f"DROP TABLE IF EXISTS {table}")
            cursor.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            cursor.execute(f"PRAGMA user_version = {SCHEMA}")

    @contextmanager
    def _explained(self) -> Iterator[None]:
        try:
            yield
        except IntegrityError:
            raise
        except (PersistenceError, sqlite3.Error, OSError) as error:
            raise ViewUnusable(
                f"the view of runs in {self._path} cannot be used ({error}): delete it, it is made again from the log"
            ) from error


def _values(cursor: SQLiteCursor, statement: str) -> list[Any]:
    cursor.execute(statement)
    return [row[0] for row in cursor.fetchall()]


def view_path(board: str, log: str, cwd: Path | str = ".") -> Path:
    """Where the view of a board's log lies: with the data of the embedded server of `cwd` or the nearest parent; where
    there is none, or it is another user's, in the user's cache."""
    here, name = Path(cwd).absolute(), f"{board}-{log}.sqlite"
    for directory in [here, *here.parents]:
        if is_writable(directory / ".blackboard"):
            return directory / ".blackboard" / FOLDER / name
    cache = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(cache) / "blackboard" / FOLDER / name
