"""What the team says to each other: passages of documents, a proposed answer, its review, the report.

Pure.
"""

from typing import Literal

from pydantic import BaseModel, ConfigDict

from schemas.blobs import Blob

PASSAGES = "passages"
"""Key of the fact that all citations name."""


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class Passage(Closed):
    """Lines of a document. `id` is `path:first-last`; `text` is empty where it lies in a `blob`. `coverage` is how much
    of the question it speaks of, 0 to 1."""

    id: str
    heading: str = ""
    text: str = ""
    blob: Blob | None = None
    score: float = 0.0
    coverage: float = 0.0


class Passages(Closed):
    """What a folder has on a question, best first. `digest` is over the names and contents of its `files`; `passed`
    counts by reason what could not be read, and `passed_names` are some of that. `weights` says of each term of the
    question how much it tells."""

    folder: str
    digest: str
    files: int
    chunks: int
    passed: dict[str, int] = {}
    passed_names: list[str] = []
    weights: dict[str, float] = {}
    passages: list[Passage] = []


class Citation(Closed):
    """`quote` stands, word for word, in the passage `id` of the fact `fact`."""

    fact: str = PASSAGES
    id: str
    quote: str


class Sentence(Closed):
    text: str
    citations: list[Citation]


class Dropped(Closed):
    """A sentence that was proposed and whose citations do not hold."""

    text: str
    reason: str


class Proposal(Closed):
    """An answer; with no sentences it is that the documents say nothing. `final`: it will not be proposed again, what
    does not hold of it is left out. `model` is empty where none was asked."""

    sentences: list[Sentence] = []
    dropped: list[Dropped] = []
    mode: Literal["extractive", "model"] = "extractive"
    model: str = ""
    round: int = 1
    final: bool = False
    note: str = ""


class Rejected(Closed):
    """The sentence of this number, from 0, and why it does not hold."""

    sentence: int
    text: str
    reason: str


class Review(Closed):
    """`by` is `code`, or the name of the model that was asked about what code had let pass."""

    round: int
    checked: int
    rejected: list[Rejected] = []
    by: str = "code"
