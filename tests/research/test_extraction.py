"""Answers without a model, over this repository's own documentation."""

from pathlib import Path

import pytest

from specialists.research.answers import Passage, Proposal
from specialists.research.extraction import SENTENCES, extract
from specialists.research.index import search
from specialists.research.support import reviewed

DOCS = Path(__file__).parents[2] / "docs"


def answered(question: str, folder: Path = DOCS) -> tuple[Proposal, dict[str, tuple[str, str]]]:
    found = search(str(folder), question, 8)
    texts = {hit.chunk.id: (hit.chunk.heading, hit.chunk.text) for hit in found.hits}
    passages = [
        (Passage(id=hit.chunk.id, heading=hit.chunk.heading, text=hit.chunk.text, score=hit.score), hit.chunk.text)
        for hit in found.hits
    ]
    return extract(passages, found.weights), texts


@pytest.mark.parametrize(
    ("question", "path", "words"),
    [
        ("Which exit code does a denied gate give?", "protocol.md", "POLICY_BLOCKED"),
        ("How large may one value be?", "merging.md", "64 KiB"),
        ("Can I write a worker in another language?", "attach.md", "another language"),
        ("What does the reconcile policy do?", "merging.md", "reconcile"),
        ("When does a run end DEGRADED?", "", "DEGRADED"),
    ],
)
def test_it_answers_with_sentences_that_stand_there(question: str, path: str, words: str) -> None:
    proposal, texts = answered(question)
    assert 1 <= len(proposal.sentences) <= SENTENCES
    assert any(one.citations[0].id.startswith(path) and words in one.text for one in proposal.sentences), proposal
    assert reviewed(proposal.sentences, texts) == []
    assert (proposal.mode, proposal.final) == ("extractive", True)


@pytest.mark.parametrize(
    "question",
    ["What is the capital of Mongolia?", "Which recipe for apple pie is best?", "Wie spät ist es?", "?", "the of and"],
)
def test_it_says_nothing_where_the_documents_say_nothing(question: str) -> None:
    assert answered(question)[0].sentences == []


def test_the_same_documents_give_the_same_answer() -> None:
    assert answered("How large may one value be?") == answered("How large may one value be?")
