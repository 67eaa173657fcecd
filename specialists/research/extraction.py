"""An answer without a model: sentences of the documents, word for word, those that speak most of the question.

Pure. Sentences are rated by BM25 over the question's terms and by how much of the question they cover; what their
headings say counts a little. Where nothing covers enough of the question the documents say nothing.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from specialists.research.answers import Citation, Passage, Proposal, Sentence
from specialists.research.sentences import Said, sentences
from specialists.research.terms import content, terms

SENTENCES = 4
"""Of an answer, at most."""
ENOUGH = 0.45
"""Of a question: what the best sentence covers, with its headings."""
NEAR = 0.7
"""Of the best rating: what another sentence must have."""
HEADING = 0.5
"""What a term counts that is only in the heading."""
K1, B, LENGTH = 1.2, 0.75, 18.0
"""Of BM25; a sentence has about LENGTH terms."""


class Rated(NamedTuple):
    rating: float
    covers: float
    passage: int
    place: int
    said: Said
    id: str


def extract(passages: Sequence[tuple[Passage, str]], weights: Mapping[str, float], note: str = "") -> Proposal:
    """The answer that passages, each with its text, give to the question of these weights."""
    chosen = _chosen(sorted(_rated(passages, weights), key=lambda one: (-one.rating, one.passage, one.place)))
    said = [
        Sentence(text=one.said.text, citations=[Citation(id=one.id, quote=one.said.quote)])
        for one in sorted(chosen, key=lambda one: (one.passage, one.place))
    ]
    return Proposal(sentences=said, final=True, note=note)


def _rated(passages: Sequence[tuple[Passage, str]], weights: Mapping[str, float]) -> list[Rated]:
    total = sum(weights.values())
    found: list[Rated] = []
    for number, (passage, text) in enumerate(passages):
        above = set(terms(passage.heading))
        for place, said in enumerate(sentences(text)):
            in_it = terms(said.text)
            covers = sum(
                weight * (1.0 if term in in_it else HEADING if term in above else 0.0)
                for term, weight in weights.items()
            )
            spoken = any(term in in_it for term in weights)
            if total and spoken:
                rating = covers / total + 0.3 * _bm25(in_it, weights) / total + 0.1 * passage.score
                found.append(Rated(rating, covers / total, number, place, said, passage.id))
    return found


def _bm25(said: Sequence[str], weights: Mapping[str, float]) -> float:
    norm = K1 * (1 - B + B * len(said) / LENGTH)
    return sum(
        weight * count * (K1 + 1) / (count + norm) for term, weight in weights.items() if (count := said.count(term))
    )


def _chosen(rated: Sequence[Rated]) -> list[Rated]:
    """The best, and what comes near it and says something else."""
    best = next((one for one in rated if one.covers >= ENOUGH), None)
    chosen: list[Rated] = []
    for one in rated:
        if best is None or len(chosen) == SENTENCES or one.rating < NEAR * best.rating or one.covers < ENOUGH:
            break
        terms_of_it = set(content(one.said.text))
        if not any(_alike(terms_of_it, set(content(other.said.text))) for other in chosen):
            chosen.append(one)
    return chosen


def _alike(one: set[str], other: set[str]) -> bool:
    return len(one & other) > 0.7 * min(len(one), len(other))
