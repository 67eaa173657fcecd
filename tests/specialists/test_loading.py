"""What a person names on a command line becomes specialists, or one sentence that says why not."""

import itertools
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from specialists.loading import TEAMS, LoadError, check_there, load, load_specialist, load_team

_numbers = itertools.count()

ONE = """
from specialists.specialist import specialist

@specialist("from-one", offers="words")
async def one(item: dict[str, str]) -> dict[str, str]:
    return item
"""
TWO = (
    ONE
    + """
@specialist("from-two", offers="words")
async def two(item: dict[str, str]) -> dict[str, str]:
    return item

nothing = 7
both = [one, two]
again = one
"""
)
TEAM = (
    TWO
    + """
from schemas.playbooks import Playbook, Step
from specialists.specialist import Team

TEAM = Team(Playbook(team="writers", steps=[Step(id="a", capability="words")]), [one, two])
"""
)


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The current folder; what is imported from it is forgotten afterwards."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", list(sys.path))
    before = set(sys.modules)
    yield tmp_path
    for name in set(sys.modules) - before:
        del sys.modules[name]


def written(folder: Path, text: str, name: str = "") -> str:
    """A new file with this text; its name."""
    name = name or f"written_{next(_numbers)}.py"
    (folder / name).parent.mkdir(parents=True, exist_ok=True)
    (folder / name).write_text(text)
    return name


def names(target: str) -> list[str]:
    return [one.name for one in load(target).specialists]


def refusal(target: str) -> str:
    with pytest.raises(LoadError) as error:
        load(target)
    assert error.value.exit_code == 2
    assert "\n" not in str(error.value)
    return str(error.value)


def test_file_and_variable(folder: Path) -> None:
    file = written(folder, TWO)
    assert names(f"{file}:two") == names(f"./{file}:two") == names(f"{folder}/{file}:two") == ["from-two"]


def test_file_and_name_of_a_specialist(folder: Path) -> None:
    assert names(f"{written(folder, TWO)}:from-two") == ["from-two"]
    assert names(f"{written(folder, TEAM)}:from-two") == ["from-two"]


def test_file_alone_is_all_of_its_specialists(folder: Path) -> None:
    assert names(written(folder, TWO)) == ["from-one", "from-two"]
    assert names(f"{written(folder, TWO)}:both") == ["from-one", "from-two"]


def test_file_alone_is_its_team(folder: Path) -> None:
    loaded = load(written(folder, TEAM))
    assert loaded.team is not None
    assert loaded.team.name == "writers"
    assert [one.name for one in loaded.specialists] == ["from-one", "from-two"]


def test_module(folder: Path) -> None:
    written(folder, "", "shop/__init__.py")
    written(folder, TEAM, "shop/words.py")
    assert names("shop.words:one") == ["from-one"]
    assert load_team("shop.words").name == "writers"


def test_file_finds_its_neighbours(folder: Path) -> None:
    written(folder, ONE, "deep/neighbour_of_file.py")
    assert names(written(folder, "from neighbour_of_file import one", "deep/file.py")) == ["from-one"]


def test_annotations_may_be_text(folder: Path) -> None:
    text = "from __future__ import annotations\nfrom pydantic import BaseModel\nclass Item(BaseModel):\n    x: int\n"
    file = written(folder, text + ONE.replace("dict[str, str]) ->", "Item) ->"))
    assert load_specialist(file).contract().input["required"] == ["x"]


def test_reference_team_is_known_by_name(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = written(folder, TEAM)
    monkeypatch.setitem(TEAMS, "writers", f"{file}:TEAM")
    assert load_team("writers").name == "writers"
    assert load_specialist("writers:from-two").name == "from-two"


def test_one_specialist_is_wanted(folder: Path) -> None:
    file = written(folder, TWO)
    with pytest.raises(LoadError, match=rf"has 2 specialists, choose one: {file}:from-one, {file}:from-two"):
        load_specialist(file)
    with pytest.raises(LoadError, match="names specialists, not a team"):
        load_team(file)


def test_what_is_not_there(folder: Path) -> None:
    assert refusal("./no.py:x") == "there is no file ./no.py"
    assert refusal(":x").startswith("':x' names no file and no module")
    assert refusal("./folder/x:name").startswith("there is no file")
    assert "there is no module 'nowhere'" in refusal("nowhere:x")
    assert "a reference team one of: licences" in refusal("nowhere")
    assert "there is no module 'json.nowhere'" in refusal("json.nowhere:x")
    assert refusal("json") == "json has no specialist; decorate a function with @specialist(name, offers=...)"
    file = written(folder, TEAM)
    assert refusal(f"{file}:three") == f"{file} has no 'three'; it has TEAM, from-one, from-two, one, two"


def test_what_is_no_specialist(folder: Path) -> None:
    file = written(folder, TWO)
    assert refusal(f"{file}:nothing").startswith(f"{file}:nothing is no specialist and no team but of type int;")
    assert "of type type" in refusal(f"{written(folder, 'class A: pass')}:A")
    assert "two specialists with the name 'from-one'" in refusal(f"{written(folder, TWO + 'x = [one, again]')}:x")
    assert "written.txt is no Python file" in refusal(f"./{written(folder, '', 'written.txt')}")


def test_several_teams_are_listed(folder: Path) -> None:
    file = written(folder, TEAM + "\nOTHER = Team(TEAM.playbook, [one])\n")
    assert refusal(file) == f"{file} has several teams, choose one: {file}:TEAM, {file}:OTHER"


def test_what_cannot_be_imported_names_its_line(folder: Path) -> None:
    broken = written(folder, "\nx = (\n")
    assert refusal(broken) == f"{broken} cannot be read: '(' was never closed ({broken}, line 2)"
    failing = written(folder, "\n\nimport nowhere_at_all\n")
    message = f"{failing} cannot be loaded: ModuleNotFoundError: No module named 'nowhere_at_all' ({failing}, line 3)"
    assert refusal(failing) == message
    written(folder, "def f():\n    return 1 / 0\nf()\n", "dividing_by_zero.py")
    assert refusal("dividing_by_zero").endswith("ZeroDivisionError: division by zero (dividing_by_zero.py, line 2)")
    leaving = written(folder, "import sys\nsys.exit(3)\n")
    assert refusal(leaving).endswith(f"SystemExit: 3 ({leaving}, line 2)")


def test_bad_specialist_names_its_line(folder: Path) -> None:
    file = written(folder, ONE.replace(") -> dict[str, str]", ")"))
    assert refusal(file) == (
        f"{file} cannot be loaded: specialist 'from-one': one(item) does not say what it returns: add `-> ` and a type "
        f"({file}, line 4)"
    )


def test_failed_import_leaves_nothing_behind(folder: Path) -> None:
    before = set(sys.modules)
    refusal(written(folder, "1 / 0"))
    assert set(sys.modules) == before


def test_whether_a_target_is_there_is_known_before_it_runs(folder: Path) -> None:
    exits = written(folder, "raise SystemExit(7)")
    for there in ("licences", "licences:any", f"./{exits}:any", exits.removesuffix(".py"), "os.path", "..x"):
        check_there(there)
    for missing in ("nowhere", "nowhere.at.all", "./nowhere.py", "./", ""):
        with pytest.raises(LoadError) as found:
            load(missing)
        with pytest.raises(LoadError) as checked:
            check_there(missing)
        assert str(checked.value) == str(found.value)
