"""What is installed in an environment, read from its metadata folders (PyPA: 'Recording installed projects').

Nothing of the environment is executed: no interpreter, no `.pth` file, no import. Vendored metadata inside a package
is not found, because only the folders that hold distributions are listed, never walked.
"""

import json
import os
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from pydantic import BaseModel, Field

from specialists.licences.distribution import Distribution, MetadataFolder

MAX_BYTES = 60 * 1024
MAX_PROBLEMS = 100
_PATTERNS = (
    "",
    "lib*/python*/site-packages",
    "lib*/python*/dist-packages",
    "lib*/python3/dist-packages",
    "Lib/site-packages",
)


class InventoryError(ValueError):
    """The environment or distribution cannot be read as asked; the message says what to do."""


class Problem(BaseModel):
    """Something in the environment that an auditor should know and that does not stop the audit."""

    where: str = Field(max_length=160)
    problem: str = Field(max_length=160)


class Inventory(BaseModel):
    """The distributions of one environment, below 64 KiB as JSON."""

    path: str
    distributions: list[str]
    problems: list[Problem] = []
    """The first of them; `problem_count` says how many there are."""
    problem_count: int = 0


@dataclass(frozen=True)
class _Index:
    """All of an environment: token -> metadata folder in sorted order, and the problems in path order."""

    found: dict[str, Path]
    problems: tuple[Problem, ...]


def scan(path: str) -> Inventory:
    """List an environment: a venv, a prefix, or a folder that holds `*.dist-info`.

    Raises InventoryError when the path does not exist, holds no distribution, or holds more than a value may say.
    """
    index = _open(path)
    inventory = Inventory(
        path=os.path.abspath(path),
        distributions=list(index.found),
        problems=list(index.problems[:MAX_PROBLEMS]),
        problem_count=len(index.problems),
    )
    while inventory.problems and _size(inventory) > MAX_BYTES:
        inventory.problems.pop()
    if _size(inventory) > MAX_BYTES:
        count = len(index.found)
        raise InventoryError(
            f"{path} holds {count} distributions, too many for one audit: name its folders one by one."
        )
    return inventory


def open_distribution(path: str, token: str) -> Distribution:
    """The distribution `name==version` of an environment that `scan` listed.

    Raises InventoryError when it is not there (any more).
    """
    found = _open(path).found.get(token)
    if found is None:
        raise InventoryError(f"{path} holds no distribution {token}: scan the environment again, it may have changed.")
    return Distribution.read(MetadataFolder(found))


def site_folders(path: str) -> list[Path]:
    """The folders of an environment that may hold distributions, each once: `lib64` is often a link to `lib`."""
    root = Path(os.path.abspath(path))
    candidates = (folder for pattern in _PATTERNS for folder in (sorted(root.glob(pattern)) if pattern else [root]))
    once: dict[str, Path] = {}
    for folder in candidates:
        if folder.is_dir():
            once.setdefault(os.path.realpath(folder), folder)
    return list(once.values())


def _open(path: str) -> _Index:
    """The index, kept while the folders do not change: distributions are opened one by one, in calls of their own."""
    if not Path(path).is_dir():
        raise InventoryError(f"{path} is not a folder: give a virtual environment, a prefix or a site-packages folder.")
    folders = site_folders(path)
    index = _index(os.path.abspath(path), tuple((str(folder), folder.stat().st_mtime_ns) for folder in folders))
    if not index.found:
        raise InventoryError(
            f"{path} holds no distributions: give a virtual environment, a prefix or a folder with *.dist-info in it."
        )
    return index


@lru_cache(maxsize=8)
def _index(root: str, folders: tuple[tuple[str, int], ...]) -> _Index:
    found: dict[str, Path] = {}
    names: dict[str, Path] = {}
    problems: list[Problem] = []
    for folder, _ in folders:
        for entry in sorted(os.listdir(folder)):
            if not entry.endswith((".dist-info", ".egg-info")):
                continue
            one = MetadataFolder(Path(folder) / entry)
            where = os.path.relpath(one.folder, root)[-160:]
            token = one.token
            problems.extend(Problem(where=where, problem=text[:160]) for text in _problems(one))
            if not token:
                continue
            first = names.setdefault(token.partition("==")[0], one.folder)
            if first == one.folder:
                found[token] = one.folder
            else:
                text = f"shadowed: {os.path.relpath(first, root)} is the same distribution and comes first"
                problems.append(Problem(where=where, problem=text[:160]))
    return _Index(dict(sorted(found.items())), tuple(problems))


def _problems(one: MetadataFolder) -> list[str]:
    """What is wrong with a metadata folder that has just been read."""
    texts = []
    if one.unreadable:
        texts.append(one.unreadable)
    elif not one.token and not one.headers.keys():
        texts.append("has no METADATA: an interrupted installation or removal; install it again or remove the folder")
    elif not one.token:
        texts.append("METADATA names no distribution and version")
    if one.latin1:
        texts.append("METADATA is not UTF-8; read as Latin-1")
    return texts


def _size(inventory: Inventory) -> int:
    return len(json.dumps(inventory.model_dump()).encode())
