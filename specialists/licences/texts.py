"""The licence texts that a distribution ships: which files they are, whose code they speak of, and what they say.

Texts are identified by `licenseclassifier`: word patterns of the SPDX matching guidelines, offline, and silent below
75 % coverage. What it does not know stays unidentified; it is never guessed from a name or a first line.
"""

import os
import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import lru_cache
from hashlib import file_digest, sha256
from pathlib import Path, PurePosixPath

from licenseclassifier import identify_license

from specialists.licences.distribution import Distribution, MetadataFolder
from specialists.licences.expressions import Leaf, NotAnExpression, Tree, declared
from specialists.licences.names import from_words

MAX_TEXT_BYTES = 512 * 1024
_NAME = re.compile(r"(licen[cs]es?|copying|notice|unlicense)(?P<rest>[-_. ].*)?", re.I)
_CODE = (".py", ".pyc", ".pyi", ".so", ".pyd", ".json", ".html", ".js", ".css")
_PLAIN_ENDINGS = ("", "txt", "md", "rst", "lesser")
_OWN_FOLDERS = ("licenses", "licences", "license", "licence")
_VENDORED = re.compile(r"_?vendor(ed)?|third[-_]?part(y|ies)|extern(al)?s?|bundled|deps|submodules", re.I)
_OTHERS_CODE = re.compile(
    r"\bbundle|third[- ]part|\bvendor|incorporat|portions of|derived from|(taken|copied|adapted) from"
    r"|\bincludes? (code|software|files)|\blicen[cs]e for |for code in",
    re.I,
)
_STATED = re.compile(r"^[ \t#*]*(?:SPDX-License-Identifier|License):[ \t]*(?P<expression>\S.*?)[ \t]*$", re.M)


@dataclass(frozen=True)
class LicenceText:
    """One licence text. `path` is relative to the folder that holds the distribution; `own` is false for vendored
    code."""

    path: str
    content: str
    own: bool
    sha256: str

    @staticmethod
    def digest(text: str) -> str:
        """The name under which a text that nobody recognises is reported."""
        return sha256(text.encode("utf-8", errors="replace")).hexdigest()


@dataclass(frozen=True)
class Finding:
    """What one text says: its licences in the order of the text, and those of code that it says is others'."""

    own: tuple[Tree, ...] = ()
    bundled: tuple[Tree, ...] = ()
    unknown: bool = True
    """Whether the text, or its beginning, is not recognised."""


def licence_texts(distribution: Distribution) -> Iterator[LicenceText]:
    """The texts in path order: `License-File` entries, the metadata folder's, and those that RECORD lists.

    A text further down in the source tree speaks of that part only, so it is vendored code's unless there is none
    above it. Unreadable files are left out; AUTHORS and the like hold no licence.
    """
    paths = _paths(distribution)
    own = _own(distribution, paths)
    for path in paths:
        read = _read(distribution.folder.parent / path)
        if read is not None:
            yield LicenceText(path, read[0], path in own, read[1])


@lru_cache(maxsize=32)
def identify(content: str) -> Finding:
    """What a licence text says. A part whose heading states an SPDX expression is what it states.

    The first recognised part is the text's own, unless an unrecognised licence stands before it. A later part belongs
    to others' code once the words before it say so. A notice `GPL-3.0-or-later` after the whole text of GPL-3.0 is
    the pattern from its appendix 'How to apply these terms', nobody's statement.
    """
    own: list[Tree] = []
    bundled: list[Tree] = []
    whole: set[str] = set()
    last, heading, foreign = 0, "", False
    for match in identify_license(content):
        heading += content[last : match.start]
        last = match.end
        if match.id.removesuffix("-or-later").removesuffix("-only") in whole:
            continue
        whole.add(match.id)
        if not own and not bundled:
            foreign = "WARRANT" in heading.upper()
        elif not foreign:
            foreign = _OTHERS_CODE.search(heading) is not None
        (bundled if foreign else own).append(_stated(heading) or Leaf(match.id))
    return Finding(_different(own), _different(bundled), unknown=not own)


def _stated(heading: str) -> Tree | None:
    """The expression on the last `License:` or `SPDX-License-Identifier:` line of the words before a part."""
    lines = _STATED.findall(heading)
    try:
        return declared(lines[-1]) if lines else None
    except NotAnExpression:
        return None


def _different(parts: list[Tree]) -> tuple[Tree, ...]:
    return tuple(dict.fromkeys(parts))


def _paths(distribution: Distribution) -> list[str]:
    """The relative paths of all licence texts. Entries that leave the folder are not followed: a RECORD can say
    anything."""
    folder, root = distribution.folder, distribution.folder.parent
    recorded = (PurePosixPath(str(entry)) for entry in MetadataFolder(folder).files or ())
    found = {root / entry for entry in recorded if _is_licence(entry)}
    if folder.is_dir():
        found.update(path for path in folder.iterdir() if _is_licence(path))
        found.update(path for path in (folder / "licenses").rglob("*") if path.suffix not in _CODE)
        found.update(base / entry for entry in distribution.license_files for base in (folder, folder / "licenses"))
    inside = (os.path.relpath(path, root) for path in found if path.is_file() and not _is_about(path))
    return sorted(path for path in inside if not path.startswith(".."))


def _is_licence(path: PurePosixPath | Path) -> bool:
    return _NAME.fullmatch(path.name) is not None and path.suffix.lower() not in _CODE


def _is_about(path: Path) -> bool:
    """Whether the file tells of the project rather than of its licence, though it may be listed with the licences."""
    return path.name.upper().startswith(("AUTHORS", "CONTRIBUTORS", "README", "CHANGE"))


def _own(distribution: Distribution, paths: list[str]) -> set[str]:
    """Those that speak of the distribution's own code."""
    candidates = {path: _depth(path) for path in paths if not _for_others(path)}
    in_metadata = [path for path in candidates if path.startswith(f"{distribution.folder.name}/")]
    level = {path: candidates[path] for path in in_metadata or candidates}
    return {path for path, depth in level.items() if depth == min(level.values())}


def _depth(path: str) -> int:
    """How deep in the source tree a text lies; folders that only collect licences do not count."""
    return sum(part.lower() not in _OWN_FOLDERS for part in PurePosixPath(path).parts[:-1])


def _for_others(path: str) -> bool:
    """Whether a folder or the file's name says that the text is for somebody else's code, as LICENSE_geos does."""
    parts = PurePosixPath(path).parts
    if any(_VENDORED.fullmatch(part) for part in parts[:-1]):
        return True
    match = _NAME.fullmatch(parts[-1])
    if match is None or match[1].lower() == "notice":
        return match is not None
    rest = re.sub(r"[._-](txt|md|rst)$", "", (match["rest"] or "").lower()).lstrip("-_. ")
    named = from_words(rest) or from_words(re.sub(r"[-_. ]?v?[\d.]+$", "", rest))
    return rest not in _PLAIN_ENDINGS and named is None


def _read(path: Path) -> tuple[str, str] | None:
    """A file's text and digest. One that is larger than any licence is not read: its text stays empty."""
    try:
        with path.open("rb") as file:
            digest = file_digest(file, "sha256").hexdigest()
            file.seek(0)
            content = file.read(MAX_TEXT_BYTES + 1)
    except OSError:
        return None
    return "" if len(content) > MAX_TEXT_BYTES else content.decode("utf-8", errors="replace"), digest
