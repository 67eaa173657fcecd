"""What each view of runs promises, and what the one in a file does when the file is not its own."""

import sqlite3
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType

import pytest
from eventsourcing.persistence import IntegrityError, Tracking, TrackingRecorder
from msgspec.structs import replace

from projections.run_row import RunRow
from projections.views import MemoryRunsView, RunsView, SQLiteRunsView, ViewUnusable, view_path

if "eventsourcing.cipher" not in sys.modules:
    # The shipped suite imports a cipher, for recorders that encrypt, and with it a package that is not needed here.
    sys.modules["eventsourcing.cipher"] = ModuleType("eventsourcing.cipher")
    sys.modules["eventsourcing.cipher"].AESCipher = None  # type: ignore[attr-defined]

from eventsourcing.tests import persistence as shipped

ROW = RunRow("one", team="survey", phase="COLLECT", opened_ms=2, head="ab", seq=7)


class TestMemoryAsTrackingRecorder(shipped.TrackingRecorderTestCase):
    def create_recorder(self) -> TrackingRecorder:
        return MemoryRunsView()


class TestSQLiteAsTrackingRecorder(shipped.TrackingRecorderTestCase):
    def create_recorder(self) -> TrackingRecorder:
        view = SQLiteRunsView(":memory:")
        self.addCleanup(view.close)
        return view


@pytest.fixture(params=["memory", "sqlite in memory", "sqlite in a file"])
def view(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[RunsView]:
    make: dict[str, Callable[[], RunsView]] = {
        "memory": MemoryRunsView,
        "sqlite in memory": lambda: SQLiteRunsView(":memory:"),
        "sqlite in a file": lambda: SQLiteRunsView(tmp_path / "views" / "main.sqlite"),
    }
    made = make[request.param]()
    yield made
    made.close()


def test_empty(view: RunsView) -> None:
    assert (view.position("log"), view.rows("log"), view.row("log", "one")) == (0, [], None)


def test_rows_and_position(view: RunsView) -> None:
    earlier = RunRow("two", opened_ms=1)
    view.write([ROW, earlier], Tracking("log", 7))
    assert view.rows("log") == [earlier, ROW]
    assert (view.row("log", "one"), view.position("log")) == (ROW, 7)
    ended = replace(ROW, phase="DONE", ended_ms=9)
    view.write([ended], Tracking("log", 9))
    assert (view.row("log", "one"), view.row("log", "two")) == (ended, earlier)


@pytest.mark.parametrize("seq", [6, 7])
def test_position_does_not_go_back(view: RunsView, seq: int) -> None:
    view.write([ROW], Tracking("log", 7))
    with pytest.raises(IntegrityError):
        view.write([replace(ROW, phase="DONE")], Tracking("log", seq))
    assert (view.row("log", "one"), view.position("log")) == (ROW, 7)


def test_logs_do_not_mix(view: RunsView) -> None:
    view.write([ROW], Tracking("log", 7))
    view.write([replace(ROW, team="other")], Tracking("another", 1))
    assert view.rows("log") == [ROW]
    view.clear("log")
    assert (view.rows("log"), view.position("log")) == ([], 0)
    assert [row.team for row in view.rows("another")] == ["other"]
    view.write([ROW], Tracking("log", 3))
    assert view.position("log") == 3


def test_file_is_kept(tmp_path: Path) -> None:
    first = SQLiteRunsView(tmp_path / "main.sqlite")
    first.write([ROW], Tracking("log", 7))
    first.close()
    second = SQLiteRunsView(tmp_path / "main.sqlite")
    assert (second.rows("log"), second.position("log")) == ([ROW], 7)
    second.close()


def test_rows_and_position_move_together(tmp_path: Path) -> None:
    view = SQLiteRunsView(tmp_path / "main.sqlite")
    view.write([ROW], Tracking("log", 7))
    broken = replace(ROW, run="two", team=object())  # type: ignore[arg-type]  # SQLite cannot store it
    with pytest.raises(ViewUnusable):
        view.write([replace(ROW, phase="DONE"), broken], Tracking("log", 9))
    assert (view.rows("log"), view.position("log")) == ([ROW], 7)
    view.close()


def test_file_of_another_program(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    with sqlite3.connect(path) as other:
        other.execute("CREATE TABLE runs (distance INTEGER)")
    other.close()
    with pytest.raises(ViewUnusable, match=r"main\.sqlite cannot be used \(.*another program\): delete it"):
        SQLiteRunsView(path)


@pytest.mark.parametrize("content", [b"not a database, by any means" * 200, b"SQLite format 3\0" + b"\xff" * 5000])
def test_file_that_is_no_database(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "main.sqlite"
    path.write_bytes(content)
    with pytest.raises(ViewUnusable, match="delete it, it is made again from the log"):
        SQLiteRunsView(path)


def test_file_that_was_damaged_later(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    view = SQLiteRunsView(path)
    view.write([replace(ROW, run=f"run-{number}") for number in range(500)], Tracking("log", 7))
    view.close()
    data = bytearray(path.read_bytes())
    data[4096:] = b"\xff" * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(ViewUnusable, match="delete it"):
        SQLiteRunsView(path).rows("log")


def test_folder_that_cannot_be_made(tmp_path: Path) -> None:
    (tmp_path / "views").write_text("a file")
    with pytest.raises(ViewUnusable):
        SQLiteRunsView(tmp_path / "views" / "main.sqlite")


def test_view_in_an_older_form_is_made_again(tmp_path: Path) -> None:
    path = tmp_path / "main.sqlite"
    view = SQLiteRunsView(path)
    view.write([ROW], Tracking("log", 7))
    view.close()
    with sqlite3.connect(path) as older:
        older.execute("DROP TABLE runs")
        older.execute("CREATE TABLE runs (log TEXT, run TEXT)")
        older.execute("PRAGMA user_version = 0")
    older.close()
    again = SQLiteRunsView(path)
    assert (again.rows("log"), again.position("log")) == ([], 0)
    again.close()


def test_path_beside_the_embedded_server(tmp_path: Path) -> None:
    (tmp_path / ".blackboard").mkdir()
    (tmp_path / "deep" / "er").mkdir(parents=True)
    expected = tmp_path / ".blackboard" / "views" / "main-abc.sqlite"
    assert view_path("main", "abc", tmp_path) == view_path("main", "abc", tmp_path / "deep" / "er") == expected


def test_path_without_an_embedded_server(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert view_path("main", "abc", tmp_path) == tmp_path / "cache" / "blackboard" / "views" / "main-abc.sqlite"
