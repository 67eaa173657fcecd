"""What the writer makes of a folder that is not as it should be."""

from pathlib import Path

import pytest

from specialists.licences.team import write_files
from specialists.specialist import Stop


def refused(files: dict[str, bytes], overwrite: bool = False) -> str:
    with pytest.raises(Stop) as stop:
        write_files(files, overwrite)
    assert stop.value.code == "INVALID_INPUT"
    return stop.value.message


def test_a_folder_where_a_file_belongs_is_in_the_way(tmp_path: Path) -> None:
    taken = tmp_path / "licences.md"
    taken.mkdir()
    assert "is in the way" in refused({str(tmp_path / "sbom.json"): b"1", str(taken): b"2"}, overwrite=True)
    assert not (tmp_path / "sbom.json").exists()


def test_a_file_where_a_folder_belongs_is_in_the_way(tmp_path: Path) -> None:
    (tmp_path / "out").write_bytes(b"mine")
    assert str(tmp_path / "out") in refused({str(tmp_path / "out" / "sbom.json"): b"1"})
    assert (tmp_path / "out").read_bytes() == b"mine"


def test_a_file_with_other_content_is_replaced_only_when_asked(tmp_path: Path) -> None:
    there = tmp_path / "sbom.json"
    there.write_bytes(b"old")
    assert "overwrite=true" in refused({str(there): b"new"})
    assert write_files({str(there): b"new"}, overwrite=True) == [str(there)]
    assert [path.read_bytes() for path in tmp_path.iterdir()] == [b"new"]
