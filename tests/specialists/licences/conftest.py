"""Environments as files: what an installer leaves behind, written by the test."""

from collections.abc import Mapping
from importlib import metadata
from pathlib import Path

import pytest

from specialists.licences.distribution import Distribution
from specialists.licences.evidence import from_classifiers, from_field, from_texts
from specialists.licences.inventory import open_distribution
from specialists.licences.verdict import DEFAULT_ALLOW, DEFAULT_DENY, Claim, Row, judge

HERE = Path(__file__).parent


def installed_text(distribution: str, file: str) -> str:
    """A licence text of a distribution that this project depends on."""
    entry = next(entry for entry in metadata.files(distribution) or () if entry.name == file)
    return Path(str(entry.locate())).read_text(encoding="utf-8")


class Environment:
    """A virtual environment in the making."""

    def __init__(self, root: Path) -> None:
        self.path = str(root)
        self.site = root / "lib" / "python3.11" / "site-packages"
        self.site.mkdir(parents=True)

    def add(
        self,
        name: str,
        version: str = "1.0",
        headers: str = "",
        texts: Mapping[str, str] | None = None,
        site: Path | None = None,
    ) -> Path:
        """Install; `texts` are paths below the metadata folder's `licenses`, with `/` in front below site-packages."""
        folder = (site or self.site) / f"{name}-{version}.dist-info"
        folder.mkdir(parents=True)
        about = f"Metadata-Version: 2.4\nName: {name}\nVersion: {version}\n{headers}\n\nLong description.\n"
        (folder / "METADATA").write_text(about, encoding="utf-8")
        record = []
        for path, text in (texts or {}).items():
            file = folder.parent / path[1:] if path.startswith("/") else folder / "licenses" / path
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text, encoding="utf-8")
            record.append(f"{file.relative_to(folder.parent)},,\n")
        (folder / "RECORD").write_text("".join(record), encoding="utf-8")
        return folder

    def open(self, token: str) -> Distribution:
        return open_distribution(self.path, token)

    def judge(self, token: str, allow: list[str] = DEFAULT_ALLOW, deny: list[str] = DEFAULT_DENY) -> Row:
        """Audit one distribution, the first source that names a licence winning."""
        return audit_one(self.path, token, allow, deny)


def audit_one(path: str, token: str, allow: list[str] = DEFAULT_ALLOW, deny: list[str] = DEFAULT_DENY) -> Row:
    distribution = open_distribution(path, token)
    sources = {"field": from_field, "classifiers": from_classifiers, "texts": from_texts}
    claims = [Claim(by=by, value=read(distribution)) for by, read in sources.items()]
    winner = next((claim for claim in claims if claim.value.stated), claims[0])
    winner.won = True
    return judge(distribution.name, distribution.version, claims, allow, deny)


@pytest.fixture
def environment(tmp_path: Path) -> Environment:
    return Environment(tmp_path / "venv")


@pytest.fixture
def audit():  # type: ignore[no-untyped-def]
    return audit_one


@pytest.fixture
def mit() -> str:
    return installed_text("uvloop", "LICENSE-MIT")


@pytest.fixture
def apache() -> str:
    return installed_text("uvloop", "LICENSE-APACHE")


@pytest.fixture
def bsd() -> str:
    return installed_text("click", "LICENSE.txt")


@pytest.fixture
def mpl() -> str:
    return installed_text("orjson", "LICENSE-MPL-2.0")


@pytest.fixture
def gpl() -> str:
    return (HERE / "texts" / "GPL-2.0.txt").read_text(encoding="utf-8")


@pytest.fixture
def lgpl() -> str:
    return (HERE / "texts" / "LGPL-2.1.txt").read_text(encoding="utf-8")


@pytest.fixture
def artistic() -> str:
    return (HERE / "texts" / "Artistic.txt").read_text(encoding="utf-8")
