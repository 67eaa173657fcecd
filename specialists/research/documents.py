"""What there is to read in a folder: text in any encoding, Markdown, code, HTML and PDF.

What is hidden or named by .gitignore is not there. Symbolic links, binaries and what is too large are passed over, and
counted by the reason. Lines are counted as editors do; those of a PDF are the lines of its text.
"""

import codecs
import io
import logging
import os
import stat
from collections.abc import Iterator
from dataclasses import dataclass, field
from html.parser import HTMLParser
from pathlib import Path

import charset_normalizer
import pypdf
from pathspec import GitIgnoreSpec

ALLOWED = "BLACKBOARD_DOCS"
"""Environment variable: the folders that may be read, as in PATH; unset or empty: all."""
FILES_LIMIT = 20_000
FILE_BYTES, PDF_BYTES, TOTAL_BYTES = 4 << 20, 64 << 20, 128 << 20
"""Of one file, of one PDF, and of all files together."""
PDF_PAGES = 1_000
HEAD_BYTES = 8_192
"""By these a binary is told from a text."""
LOOKED_AT = 65_536
"""Bytes by which an encoding is guessed."""
HTML, PDF = frozenset({".html", ".htm", ".xhtml"}), ".pdf"
logging.getLogger("pypdf").setLevel(logging.CRITICAL)


class NothingToRead(Exception):
    """A folder has nothing to be read; the text says why."""


class Unread(Exception):
    """A file is passed over; the text is the reason, a few words that others may have too."""


class NotAllowed(Exception):
    """A folder may not be read here."""


@dataclass(frozen=True)
class File:
    """`name` is relative to the folder, with slashes; `stamp_ns` is when it was changed."""

    path: Path
    name: str
    size: int
    stamp_ns: int


@dataclass
class Listing:
    """The files of a folder, by name, and those passed over, by reason."""

    folder: Path
    files: list[File] = field(default_factory=list)
    passed: dict[str, list[str]] = field(default_factory=dict)

    def pass_over(self, name: str, why: str) -> None:
        self.passed.setdefault(why, []).append(name)


def listing(folder: str) -> Listing:
    """What is in a folder. Raises NothingToRead where there is no such folder, or it cannot be listed; NotAllowed."""
    root, name = Path(folder).expanduser(), folder if folder.isprintable() else ascii(folder)
    try:
        if not root.exists():
            raise NothingToRead(f"there is no folder {name}")
        if not root.is_dir():
            raise NothingToRead(f"{name} is a file; name the folder that it is in")
        os.listdir(root)
    except (OSError, ValueError) as error:
        raise NothingToRead(f"the folder {name} cannot be read: {_reason(error)}") from None
    root = root.resolve()
    allowed = [Path(one).resolve() for one in os.environ.get(ALLOWED, "").split(os.pathsep) if one]
    if allowed and not any(root.is_relative_to(one) for one in allowed):
        raise NotAllowed(f"the folder {name} is not among those that may be read here ({ALLOWED})")
    found = Listing(root)
    total = 0
    for path in _walk(root, found):
        name = shown(path.relative_to(root))
        try:
            about = path.lstat()
        except OSError as error:
            found.pass_over(name, f"unreadable ({_reason(error)})")
            continue
        limit = PDF_BYTES if path.suffix.lower() == PDF else FILE_BYTES
        if not stat.S_ISREG(about.st_mode):
            found.pass_over(name, "a symbolic link" if stat.S_ISLNK(about.st_mode) else "no regular file")
        elif about.st_size > limit:
            found.pass_over(name, f"over {limit >> 20} MiB")
        elif len(found.files) >= FILES_LIMIT or total + about.st_size > TOTAL_BYTES:
            found.pass_over(name, "beyond the limits of one folder")
        else:
            total += about.st_size
            found.files.append(File(path, name, about.st_size, about.st_mtime_ns))
    return found


def read(file: File) -> str:
    """The text of a file, its lines ended by a newline. Raises Unread."""
    try:
        with file.path.open("rb") as opened:
            head = opened.read(HEAD_BYTES)
            is_pdf = head.startswith(b"%PDF-")
            if b"\0" in head and not _marked(head) and not is_pdf:
                raise Unread("binary")
            data = head + opened.read(PDF_BYTES if is_pdf else FILE_BYTES)
    except OSError as error:
        raise Unread(f"unreadable ({_reason(error)})") from None
    if is_pdf:
        return _pdf(data)
    text = _decoded(data).replace("\r\n", "\n").replace("\r", "\n")
    return _html(text) if file.path.suffix.lower() in HTML else text


def shown(path: Path) -> str:
    """A relative path as it may stand in a message: UTF-8, no control characters."""
    name = os.fsencode(path.as_posix()).decode("utf-8", "backslashreplace")
    return "".join(one if one.isprintable() else "?" for one in name)


# --- walking ----------------------------------------------------------------------------------------------------------


def _walk(root: Path, found: Listing) -> Iterator[Path]:
    """Files below `root`, in order of their names, without what is hidden or ignored."""
    rules = dict(_above(root))

    def failed(error: OSError) -> None:
        name = shown(Path(error.filename).relative_to(root)) if error.filename else "?"
        found.pass_over(name, f"unreadable ({_reason(error)})")

    for place, folders, names in os.walk(root, onerror=failed):
        here = Path(place)
        if spec := _ignored(here):
            rules[here] = spec
        kept = sorted(name for name in folders if not name.startswith("."))
        folders[:] = [name for name in kept if not _is_ignored(here / name, True, rules)]
        for name in sorted(names):
            if not name.startswith(".") and not _is_ignored(here / name, False, rules):
                yield here / name


def _above(root: Path) -> Iterator[tuple[Path, GitIgnoreSpec]]:
    """The rules of the folders between the repository that `root` lies in and `root` itself."""
    for folder in [root, *root.parents]:
        if folder != root and (spec := _ignored(folder)):
            yield folder, spec
        if (folder / ".git").exists():
            return


def _ignored(folder: Path) -> GitIgnoreSpec | None:
    try:
        with (folder / ".gitignore").open(errors="replace") as opened:
            lines = opened.read(FILE_BYTES).splitlines()
    except OSError:
        return None
    good = [line for line in lines if _is_rule(line)]
    return GitIgnoreSpec.from_lines(good) if good else None


def _is_rule(line: str) -> bool:
    try:
        GitIgnoreSpec.from_lines([line])
    except ValueError:  # git passes over what is no pattern, too
        return False
    return bool(line.strip()) and not line.startswith("#")


def _is_ignored(path: Path, is_folder: bool, rules: dict[Path, GitIgnoreSpec]) -> bool:
    """The deepest .gitignore that says something about a path decides."""
    for folder in path.parents:
        if spec := rules.get(folder):
            name = path.relative_to(folder).as_posix() + ("/" if is_folder else "")
            said = spec.check_file(name).include
            if said is not None:
                return said
    return False


# --- reading ----------------------------------------------------------------------------------------------------------

_MARKS = (
    (codecs.BOM_UTF8, "utf-8"),
    (codecs.BOM_UTF32_LE, "utf-32-le"),
    (codecs.BOM_UTF32_BE, "utf-32-be"),
    (codecs.BOM_UTF16_LE, "utf-16-le"),
    (codecs.BOM_UTF16_BE, "utf-16-be"),
)


def _marked(data: bytes) -> tuple[bytes, str] | None:
    return next(((mark, name) for mark, name in _MARKS if data.startswith(mark)), None)


def _decoded(data: bytes) -> str:
    if marked := _marked(data):
        mark, name = marked
        return data[len(mark) :].decode(name, "replace")
    try:
        return data.decode()
    except UnicodeDecodeError:
        guess = charset_normalizer.from_bytes(data[:LOOKED_AT]).best()
        if guess is None:
            raise Unread("in no known encoding") from None
        return data.decode(guess.encoding, "replace")


def _pdf(data: bytes) -> str:
    try:
        reader = pypdf.PdfReader(io.BytesIO(data))
        if reader.is_encrypted and not reader.decrypt(""):
            raise Unread("a PDF with a password")
        return "\n".join(page.extract_text() for page in reader.pages[:PDF_PAGES])
    except Unread:
        raise
    except Exception:  # damaged in one of many ways
        raise Unread("a damaged PDF") from None


def _html(text: str) -> str:
    """The text of a page, each part on the line on which it stands in the source."""
    parser = _Page()
    parser.feed(text)
    parser.close()
    lines = [""] * (text.count("\n") + 1)
    for number, part in parser.parts:
        for offset, piece in enumerate(part.split("\n")):
            lines[number - 1 + offset] += piece
    return "\n".join(" ".join(line.split()) for line in lines)


class _Page(HTMLParser):
    UNSEEN = frozenset({"script", "style", "template", "noscript", "head"})
    APART = frozenset({"p", "div", "li", "br", "td", "th", "tr", "h1", "h2", "h3", "h4", "h5", "h6", "pre", "section"})

    def __init__(self) -> None:
        super().__init__()
        self.parts: list[tuple[int, str]] = []
        self._unseen = 0

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self._unseen += tag in self.UNSEEN
        self._apart(tag)

    def handle_endtag(self, tag: str) -> None:
        self._unseen = max(self._unseen - (tag in self.UNSEEN), 0)
        self._apart(tag)

    def handle_data(self, data: str) -> None:
        if not self._unseen:
            self.parts.append((self.getpos()[0], data))

    def _apart(self, tag: str) -> None:
        if tag in self.APART:
            self.parts.append((self.getpos()[0], " "))


def _reason(error: Exception) -> str:
    return (error.strerror if isinstance(error, OSError) else None) or type(error).__name__
