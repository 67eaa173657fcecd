"""From the words on a command line to specialists: reference teams by name, files, and modules.

Loading a target imports it, so it runs with the rights of whoever names it. Whatever goes wrong there is one sentence.
"""

import contextlib
import hashlib
import importlib
import importlib.util
import os
import sys
import traceback
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any, TypeVar

from specialists.signature import BadSpecialist
from specialists.specialist import Specialist, Team

TEAMS = {"licences": "specialists.licences.team:TEAM", "research": "specialists.research.team:TEAM"}
"""Names of the reference teams."""


T = TypeVar("T")


class LoadError(Exception):
    """A target cannot be loaded; the text says why, and what there is instead."""

    exit_code = 2


@dataclass(frozen=True)
class Loaded:
    """What a target names: specialists, and the team that they are, if they are one."""

    specialists: tuple[Specialist, ...]
    team: Team | None = None


def load(target: str) -> Loaded:
    """Load `./file.py:name`, `package.module:name` or `team:name` of a reference team; `name` is that of a variable or
    of a specialist. Without it: the one team of the module, else all of its specialists. Raises LoadError."""
    place, name = _parts(target)
    module = _import_file(place) if _is_file(place) else _import_module(place)
    return _named(module, place, name) if name else _everything(module, place)


def check_there(target: str) -> None:
    """Raise the LoadError of `load` where there is no such file or module. Nothing of it runs."""
    place, _ = _parts(target)
    if _is_file(place):
        _file(place)
        return
    top = place.partition(".")[0]  # to look further would run it
    _search_first(str(Path.cwd()))
    with contextlib.suppress(ValueError):  # a name that is none, of which `load` says more
        if top and importlib.util.find_spec(top) is None:
            raise _no_module(place, top)


def load_specialist(target: str) -> Specialist:
    """The one specialist that `target` names. Raises LoadError."""
    found = load(target).specialists
    if len(found) == 1:
        return found[0]
    raise LoadError(f"{target} has {len(found)} specialists, choose one: {_choices(target, found)}")


def load_team(target: str) -> Team:
    """The team that `target` names. Raises LoadError."""
    team = load(target).team
    if team is None:
        raise LoadError(f"{target} names specialists, not a team: make one with Team(playbook, specialists)")
    return team


def _parts(target: str) -> tuple[str, str]:
    """File or module, and name; `licences:name` is one of that team's specialists."""
    place, _, name = target.partition(":")
    if not place:
        raise LoadError(f"{target!r} names no file and no module; write ./file.py:name or package.module:name")
    if place not in TEAMS:
        return place, name
    module, _, variable = TEAMS[place].rpartition(":")
    return module, name or variable


def _is_file(place: str) -> bool:
    return place.endswith(".py") or "/" in place


def _choices(target: str, found: Iterable[Specialist]) -> str:
    place = target.partition(":")[0]
    return ", ".join(sorted(f"{place}:{one.name}" for one in found))


# --- importing --------------------------------------------------------------------------------------------------------


def _file(place: str) -> Path:
    path = Path(place).expanduser().absolute()
    if not path.is_file():
        raise LoadError(f"there is no file {place}")
    if path.suffix != ".py":
        raise LoadError(f"{place} is no Python file; its name must end in .py")
    return path


def _import_file(place: str) -> ModuleType:
    path = _file(place)
    name = f"{path.stem}_{hashlib.sha256(os.fsencode(path)).hexdigest()[:8]}"
    spec = importlib.util.spec_from_file_location(name, path)
    assert spec is not None, "a name that ends in .py has a loader"
    assert spec.loader is not None, "a name that ends in .py has a loader"
    _search_first(str(path.parent))  # so that it finds its neighbours, as when Python runs it
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module  # annotations are looked up there
    try:
        spec.loader.exec_module(module)
    except (Exception, SystemExit) as error:
        del sys.modules[name]
        raise _failed(place, error, str(path)) from error
    return module


def _import_module(place: str) -> ModuleType:
    _search_first(str(Path.cwd()))  # as `python -m` does
    try:
        return importlib.import_module(place)
    except ModuleNotFoundError as error:
        if error.name is not None and f"{place}.".startswith(f"{error.name}."):
            raise _no_module(place, error.name) from None
        raise _failed(place, error, "") from error
    except (Exception, SystemExit) as error:
        raise _failed(place, error, "") from error


def _no_module(place: str, name: str) -> LoadError:
    known = ", ".join(sorted(TEAMS))
    advice = f"a file is ./{place}.py, a module package.module, a reference team one of: {known}"
    return LoadError(f"there is no module {name!r}; {advice}")


def _search_first(folder: str) -> None:
    if folder not in sys.path:
        sys.path.insert(0, folder)


def _failed(place: str, error: BaseException, path: str) -> LoadError:
    if isinstance(error, SyntaxError):
        return LoadError(f"{place} cannot be read: {error.msg} ({_shown(error.filename)}, line {error.lineno})")
    lines = [one for one in traceback.extract_tb(error.__traceback__) if not _is_machinery(one.filename)]
    inside = [one for one in lines if one.filename == path] if isinstance(error, BadSpecialist) and path else lines
    where = f" ({_shown(inside[-1].filename)}, line {inside[-1].lineno})" if inside else ""
    what = str(error) if isinstance(error, BadSpecialist) else f"{type(error).__name__}: {error}"
    return LoadError(f"{place} cannot be loaded: {what}{where}")


def _is_machinery(filename: str) -> bool:
    return filename.startswith("<frozen") or filename in (__file__, importlib.__file__)


def _shown(filename: str | None) -> str:
    """Relative to the current folder where it lies below it."""
    path = Path(filename or "?")
    return str(path.relative_to(Path.cwd())) if path.is_relative_to(Path.cwd()) else str(path)


# --- finding what was meant -------------------------------------------------------------------------------------------


def _named(module: ModuleType, place: str, name: str) -> Loaded:
    if name in vars(module):
        return _loaded(vars(module)[name], f"{place}:{name}")
    teams, specialists = _teams(module), _specialists(module)
    members = [one for team in teams.values() for one in team.specialists]
    by_name = {one.name: one for one in (*members, *specialists.values())}
    if name in by_name:
        return Loaded((by_name[name],))
    there = ", ".join(sorted({*teams, *specialists, *by_name})) or "no team and no specialist"
    raise LoadError(f"{place} has no {name!r}; it has {there}")


def _everything(module: ModuleType, place: str) -> Loaded:
    teams, specialists = _teams(module), _specialists(module)
    if len(teams) > 1:
        raise LoadError(f"{place} has several teams, choose one: {', '.join(f'{place}:{name}' for name in teams)}")
    if teams:
        return _loaded(next(iter(teams.values())), place)
    if not specialists:
        raise LoadError(f"{place} has no specialist; decorate a function with @specialist(name, offers=...)")
    return _loaded(list(specialists.values()), place)


def _loaded(value: Any, what: str) -> Loaded:
    team = value if isinstance(value, Team) else None
    values = team.specialists if team else value if isinstance(value, list | tuple) else [value]
    found = [one for one in values if isinstance(one, Specialist)]
    if not found or len(found) < len(values):
        odd = next((one for one in values if not isinstance(one, Specialist)), value)
        kind = type(odd).__name__
        raise LoadError(f"{what} is no specialist and no team but of type {kind}; decorate it with @specialist(...)")
    names = [one.name for one in found]
    if twice := sorted({name for name in names if names.count(name) > 1}):
        raise LoadError(f"{what} has two specialists with the name {twice[0]!r}; a name is one specialist's")
    return Loaded(tuple(found), team)


def _teams(module: ModuleType) -> dict[str, Team]:
    return _variables(module, Team)


def _specialists(module: ModuleType) -> dict[str, Specialist]:
    return _variables(module, Specialist)


def _variables(module: ModuleType, kind: type[T]) -> dict[str, T]:
    """By name; of several names for one value, the first."""
    found: dict[int, tuple[str, T]] = {}
    for name, value in vars(module).items():
        if isinstance(value, kind):
            found.setdefault(id(value), (name, value))
    return dict(found.values())
