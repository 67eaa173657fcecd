"""Documents in pieces that can be cited: each some lines of a file, with an id that says which.

Pure. `docs/guide.md:10-24` are the lines 10 to 24 of that file, and stay so as long as the file stays as it is.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass

from markdown_it import MarkdownIt

CHARACTERS = 1_200
"""Of a piece, about; a line is never cut."""
MARKDOWN = (".md", ".markdown", ".mdx")
_HEADING = re.compile(r"h([1-6])")


@dataclass(frozen=True)
class Chunk:
    """Lines `start` to `end` of a file, from 1. `heading` are the headings that it stands under, outermost first."""

    path: str
    start: int
    end: int
    heading: str
    text: str

    @property
    def id(self) -> str:
        return f"{self.path}:{self.start}-{self.end}"


@dataclass(frozen=True)
class _Block:
    """Lines that belong together, counted from 0, the last one excluded. `opens`: a heading stands on top."""

    start: int
    end: int
    heading: str
    opens: bool = False


def chunks(path: str, text: str) -> list[Chunk]:
    lines = text.split("\n")
    blocks = _markdown(text) if path.lower().endswith(MARKDOWN) else _paragraphs(lines, 0, len(lines), "")
    made: list[Chunk] = []
    for start, end, heading in _packed(lines, blocks):
        if said := [number for number in range(start, end) if lines[number].strip()]:
            first, last = said[0], said[-1]
            made.append(Chunk(path, first + 1, last + 1, heading, "\n".join(lines[first : last + 1])))
    return made


def _packed(lines: list[str], blocks: Iterator[_Block]) -> Iterator[tuple[int, int, str]]:
    """Blocks under one heading together, as long as they fit; what is too large for one piece in several."""
    start, end, heading, size = 0, 0, "", 0
    for block in blocks:
        length = sum(len(line) + 1 for line in lines[block.start : block.end])
        if size and (block.opens or size + length > CHARACTERS):
            yield start, end, heading
            size = 0
        if not size:
            start, heading = block.start, block.heading
        end, size = block.end, size + length
        if length > CHARACTERS:
            *parts, (start, end) = _cut(lines, start, end)
            for part in parts:
                yield *part, heading
            size = sum(len(line) + 1 for line in lines[start:end])
    if size:
        yield start, end, heading


def _cut(lines: list[str], start: int, end: int) -> list[tuple[int, int]]:
    parts: list[tuple[int, int]] = []
    begin, size = start, 0
    for number in range(start, end):
        if size and size + len(lines[number]) > CHARACTERS:
            parts.append((begin, number))
            begin, size = number, 0
        size += len(lines[number]) + 1
    return [*parts, (begin, end)]


def _paragraphs(lines: list[str], start: int, end: int, heading: str) -> Iterator[_Block]:
    begin = start
    for number in range(start, end):
        if not lines[number].strip():
            if begin < number:
                yield _Block(begin, number, heading)
            begin = number + 1
    if begin < end:
        yield _Block(begin, end, heading)


def _markdown(text: str) -> Iterator[_Block]:
    """Top-level blocks, each under its headings. Comments are for nobody who reads."""
    trail: dict[int, str] = {}
    tokens = MarkdownIt("commonmark").enable("table").parse(text)
    for token, after in zip(tokens, [*tokens[1:], None], strict=False):
        if token.level or token.map is None or token.nesting < 0:
            continue
        if token.type == "html_block" and token.content.lstrip().startswith("<!--"):
            continue
        heading = _HEADING.fullmatch(token.tag) if token.type == "heading_open" else None
        if heading and after is not None:
            depth = int(heading[1])
            trail = {level: said for level, said in trail.items() if level < depth} | {depth: after.content}
        yield _Block(token.map[0], token.map[1], " > ".join(trail.values()), opens=heading is not None)
