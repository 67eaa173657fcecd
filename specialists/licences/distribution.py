"""One installed distribution, read as files: nothing of it is imported, so nothing of it can run."""

import json
import re
from dataclasses import dataclass
from email import message_from_string
from email.message import Message
from functools import cached_property
from hashlib import sha256
from importlib import metadata
from pathlib import Path

from packaging.utils import canonicalize_name

MAX_METADATA_BYTES = 4 * 1024 * 1024
_TOKEN = 64
_VERSION = re.compile(r"[A-Za-z0-9.+!_-]{1,64}")


class MetadataFolder(metadata.Distribution):
    """A `.dist-info` or `.egg-info` (folder, or the single file that distutils wrote).

    `importlib.metadata` finds the recorded files. Its own reader insists on UTF-8, and old METADATA is in Latin-1.
    """

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.latin1 = False
        self.unreadable = ""

    def read_text(self, filename: str) -> str | None:
        """The text of a file in the folder; None where it is absent or cannot be read, which `unreadable` then says."""
        path = self.folder / filename if filename else self.folder
        if self.folder.is_file() != (not filename):
            return None
        try:
            if path.is_symlink() and not path.exists():
                raise OSError("a link to a file that does not exist")
            if path.is_dir():
                raise OSError("a folder")
            if not path.is_file():
                return None
            if path.stat().st_size > MAX_METADATA_BYTES:
                raise OSError("too large")
            content = path.read_bytes()
        except OSError as error:
            self.unreadable = f"{path.name} is not readable: {error.strerror or error}"
            return None
        try:
            return content.decode("utf-8")
        except UnicodeDecodeError:
            self.latin1 = True
            return content.decode("latin-1")

    def locate_file(self, path: object) -> Path:
        """The file of a RECORD entry: entries are relative to the folder that holds the metadata folder."""
        return self.folder.parent / str(path)

    @cached_property
    def headers(self) -> Message:
        """The parsed METADATA or PKG-INFO; empty where there is none."""
        text = next((text for name in ("METADATA", "PKG-INFO", "") if (text := self.read_text(name))), "")
        return message_from_string(text)

    @property
    def token(self) -> str:
        """`name==version`, the name normalised (PEP 503) and fit to be a token; empty without name and version."""
        name, version = self.headers.get("Name"), self.headers.get("Version")
        if not name or not version:
            return ""
        return f"{name_token(name)}=={version_token(version)}"

    @property
    def editable(self) -> bool:
        """Whether PEP 610's `direct_url.json` says that the code lies elsewhere."""
        try:
            origin = json.loads(self.read_text("direct_url.json") or "{}")
        except ValueError:
            return False
        info = origin.get("dir_info") if isinstance(origin, dict) else None
        return isinstance(info, dict) and info.get("editable") is True


@dataclass(frozen=True)
class Distribution:
    """What one distribution says about its licence. Its licence texts come from `texts.licence_texts`."""

    name: str
    version: str
    license_expression: str
    license: str
    classifiers: tuple[str, ...]
    license_files: tuple[str, ...]
    editable: bool
    folder: Path
    """The metadata folder."""

    @classmethod
    def read(cls, found: MetadataFolder) -> "Distribution":
        """Read the headers that concern the licence; classifiers are those that begin with `License ::`."""
        headers = found.headers
        name, _, version = found.token.partition("==")
        return cls(
            name=name,
            version=version,
            license_expression=(headers.get("License-Expression") or "").strip(),
            license=(headers.get("License") or "").strip(),
            classifiers=tuple(c for c in headers.get_all("Classifier") or () if c.startswith("License ::")),
            license_files=tuple(headers.get_all("License-File") or ()),
            editable=found.editable,
            folder=found.folder,
        )


def name_token(name: str) -> str:
    """A token `[a-z0-9-]{1,64}`: the normalised name; if something had to be cut, with a short hash so that names
    stay different."""
    normal = str(canonicalize_name(name))
    clean = re.sub(r"[^a-z0-9-]+", "-", normal)
    if clean == normal and len(clean) <= _TOKEN:
        return clean
    digest = sha256(normal.encode()).hexdigest()[:8]
    return f"{clean[: _TOKEN - 9]}-{digest}"


def version_token(version: str) -> str:
    """The version as written; characters that no version holds become `-`."""
    return version if _VERSION.fullmatch(version) else re.sub(r"[^A-Za-z0-9.+!_-]+", "-", version)[:_TOKEN]
