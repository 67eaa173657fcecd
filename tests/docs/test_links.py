"""Links of the documents lead to files and headings that exist."""

import re
from pathlib import Path

import pytest
from markdown_it import MarkdownIt

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_links_lead_somewhere(document: Path) -> None:
    for link in links(document.read_text()):
        name, _, heading = link.partition("#")
        target = document.parent / name if name else document
        assert target.exists(), link
        assert not heading or heading in headings(target.read_text()), link


def links(text: str) -> list[str]:
    """Those within the repository."""
    tokens = [child for token in MarkdownIt().parse(text) for child in token.children or ()]
    found = [str(token.attrs["href"]) for token in tokens if token.type == "link_open"]
    return [link for link in found if "://" not in link]


def headings(text: str) -> set[str]:
    """As a forge makes anchors of them."""
    lines = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    return {re.sub(r"[^\w -]", "", line.lower()).replace(" ", "-") for line in lines}
