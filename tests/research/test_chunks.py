"""A piece of a document is exactly the lines that its id says, and nothing that is written is in none."""

import re

from hypothesis import given
from hypothesis import strategies as st

from specialists.research.chunks import CHARACTERS, chunks
from specialists.research.sentences import sentences

MARKDOWN = """# Guide

Some words.

## Leases

<!-- a note
to nobody -->
A lease lasts nine days. It ends early.

- one
- two

```
code here
```

# Other

| a | b |
| --- | --- |
| 1 | 2 |
"""
LINES = st.lists(
    st.sampled_from(
        [
            "",
            "# One",
            "## Two",
            "- item",
            "| a | b |",
            "| --- | --- |",
            "```",
            "text " * 30,
            "x" * 3_000,
            "  in",
            "> q",
            "1. n",
            "***",
        ]
    ),
    max_size=60,
)


def test_pieces_stand_under_their_headings() -> None:
    found = [(one.id, one.heading) for one in chunks("docs/guide.md", MARKDOWN)]
    assert found == [
        ("docs/guide.md:1-3", "Guide"),
        ("docs/guide.md:5-16", "Guide > Leases"),
        ("docs/guide.md:18-22", "Other"),
    ]


def test_the_ids_of_other_lines_stay_when_lines_are_added_below() -> None:
    before = {one.id: one.text for one in chunks("a.md", MARKDOWN)}
    after = {one.id: one.text for one in chunks("a.md", f"{MARKDOWN}\n# More\n\nWords.\n")}
    assert before.items() <= after.items()


@given(LINES, st.sampled_from(["a.md", "a.py", "a.txt"]))
def test_a_piece_is_the_lines_that_its_id_says(lines: list[str], name: str) -> None:
    text = "\n".join(lines)
    said: set[int] = set()
    for one in chunks(name, text):
        match = re.fullmatch(r"(.*):(\d+)-(\d+)", one.id)
        assert match is not None
        start, end = int(match[2]), int(match[3])
        assert one.text.split("\n") == lines[start - 1 : end]
        assert not said & set(range(start, end + 1)), "two pieces have a line in common"
        assert (
            len(one.text) <= 2 * CHARACTERS
            or "\n" not in one.text
            or any(len(line) > CHARACTERS for line in one.text.split("\n"))
        )
        said |= set(range(start, end + 1))
    written = {number for number, line in enumerate(lines, 1) if line.strip()}
    assert name == "a.md" or written <= said


@given(LINES)
def test_a_sentence_is_a_part_of_its_passage(lines: list[str]) -> None:
    passage = "\n".join(lines)
    for one in sentences(passage):
        assert one.quote in passage
        assert one.text


def test_sentences_are_told_apart() -> None:
    passage = "# Top\nIt lasts 3.5 days, e.g. from Monday on. Then *it* [ends](x.md)! Does it?\n"
    passage += "- an `item`\n| a | **b** |\n|---|---|\n```\ncall(*all). More\n```"
    assert [one.text for one in sentences(passage)] == [
        "It lasts 3.5 days, e.g. from Monday on.",
        "Then it ends!",
        "Does it?",
        "an item",
        "a | b",
        "call(*all). More",
    ]
