"""The sentences of a passage, each as it stands there and as one reads it.

Pure.
"""

import re
from collections.abc import Iterator
from typing import NamedTuple

LONGEST = 600
"""Characters of a sentence; a longer one is no sentence."""
_ENDS = re.compile(r"(?<=[.!?])[\"')\]*`]*\s+(?=[\"'(\[*`]*[A-Z0-9\u00c0-\u00de])")
_ABBREVIATED = re.compile(r"(?:\b(?:e\.g|i\.e|etc|cf|vs|Mr|Mrs|Dr|No|Fig)|\b[A-Z])\.$")
_ITEM = re.compile(r"^\s*(?:[-*+]|\d{1,3}[.)])\s+")
_FENCE = re.compile(r"\s*(?:```|~~~)")
_RULE = re.compile(r"\s*\|?[\s:|=*_-]{3,}$")
_LINK = re.compile(r"!?\[([^\]\n]*)\]\([^)\s]*\)")
_MARKS = re.compile(r"\*\*|__|(?<!\w)[*_](?=\S)|(?<=\S)[*_](?!\w)|`+")


class Said(NamedTuple):
    """`quote` is a part of the passage, `text` the same without marks."""

    quote: str
    text: str


def sentences(passage: str) -> Iterator[Said]:
    """Sentences, items of lists, rows of tables and lines of code; no headings."""
    for block, is_code in _blocks(passage):
        start = 0
        for end in [*(() if is_code else _ends(block)), len(block)]:
            quote = block[start:end].strip()
            start = end
            text = " ".join(quote.split()) if is_code else plain(quote)
            if text and len(text) <= LONGEST and re.search(r"\w", text):
                yield Said(quote, text)


def plain(quote: str) -> str:
    text = _LINK.sub(r"\1", _ITEM.sub("", quote, count=1))
    if text.strip().startswith("|"):
        cells = [cell.strip() for cell in text.strip().strip("|").split("|")]
        text = " | ".join(cell for cell in cells if cell)
    text = re.sub(r"(?m)^\s*(?:>|#+|//+|/?\*+|<!--)\s?", "", text)
    return " ".join(_MARKS.sub("", text).split())


def _ends(block: str) -> Iterator[int]:
    for match in _ENDS.finditer(block):
        if not _ABBREVIATED.search(block, max(match.start() - 8, 0), match.start()):
            yield match.end()


def _blocks(passage: str) -> Iterator[tuple[str, bool]]:
    """Runs of lines that belong together, each a part of the passage, and whether it is code."""
    lines = passage.split("\n")
    code, held = False, list[str]()
    for line in lines:
        if _FENCE.match(line):
            code = not code
            yield from _let_go(held)
        elif code or line.lstrip().startswith("|"):
            yield from _let_go(held)
            if line.strip() and not _RULE.fullmatch(line):
                yield line, code
        elif not line.strip() or line.lstrip().startswith("#") or _RULE.fullmatch(line):
            yield from _let_go(held)
        else:
            if _ITEM.match(line):
                yield from _let_go(held)
            held.append(line)
    yield from _let_go(held)


def _let_go(held: list[str]) -> Iterator[tuple[str, bool]]:
    if held:
        yield "\n".join(held), False
        held.clear()
