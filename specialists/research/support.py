"""Whether the citations of a sentence hold: they exist, the quotes stand where they are said to, and say it.

Pure. This is a check of words, not of meaning: a sentence may say nothing that its quotes do not speak of, no number
that is not in them, and may not deny where they do not. A model may reject more than this, never less.
"""

import itertools
import re
from collections.abc import Iterable, Mapping

from specialists.research.answers import Citation, Rejected, Sentence
from specialists.research.sentences import sentences
from specialists.research.terms import content, negates, numbers

SPOKEN_OF = 0.6
"""Of the words of a sentence that say something: what its quotes and their headings must have."""
QUOTE = 700
"""Characters of a quote."""
SHORTEST = 12
"""Characters of a quote that says something by itself."""


def holds(sentence: Sentence, texts: Mapping[str, tuple[str, str]]) -> str:
    """Why the citations of a sentence do not hold, else an empty text. `texts`: heading and text of each passage."""
    if not sentence.citations:
        return "it cites nothing"
    quoted: list[str] = []
    for citation in sentence.citations:
        if citation.id not in texts:
            return f"it cites {citation.id[:200]}, which was not retrieved"
        heading, text = texts[citation.id]
        if not is_quoted(citation.quote, text):
            return f"its quote does not stand in {citation.id[:200]}"
        quoted += [heading, citation.quote]
    return _supported(sentence.text, sentence.citations, " \n ".join(quoted))


def is_quoted(quote: str, text: str) -> bool:
    said = _flat(quote)
    return (len(said) >= SHORTEST or said == _flat(text)) and len(quote) <= QUOTE * 4 and said in _flat(text)


def _supported(text: str, citations: Iterable[Citation], quoted: str) -> str:
    said = content(text)
    if not said:
        return "it says nothing"
    known = set(content(quoted))
    if unknown := sorted(numbers(text) - numbers(quoted)):
        return f"{unknown[0]} is not in what it cites"
    missing = [term for term in said if term not in known]
    if len(missing) > (1 - SPOKEN_OF) * len(said):
        return f"what it cites does not speak of {', '.join(missing[:5])}"
    if negates(text) != any(negates(citation.quote) for citation in citations):
        return "it denies what it cites does not deny, or the other way round"
    return ""


def best_quote(text: str, passage: str) -> str:
    """The one or two sentences of a passage that speak most of what `text` says; the rest of them counts less."""
    wanted = set(content(text)) | numbers(text)
    said = [one.quote for one in sentences(passage) if len(one.quote) <= QUOTE]
    pairs = [
        passage[start:end]
        for first, second in itertools.pairwise(said)
        if (start := passage.find(first)) >= 0 and (end := passage.find(second, start) + len(second)) > start
    ]

    def speaks(quote: str) -> tuple[float, int]:
        known = set(content(quote)) | numbers(quote)
        return len(wanted & known) - 0.02 * len(known), -len(quote)

    usable = [quote for quote in (*said, *pairs) if SHORTEST <= len(quote) <= QUOTE]
    return max(usable, key=speaks, default=passage[:QUOTE])


def reviewed(sentences: list[Sentence], texts: Mapping[str, tuple[str, str]]) -> list[Rejected]:
    """Those whose citations do not hold."""
    return [
        Rejected(sentence=number, text=sentence.text, reason=why)
        for number, sentence in enumerate(sentences)
        if (why := holds(sentence, texts))
    ]


def _flat(text: str) -> str:
    return re.sub(r"\s+", " ", text).strip()
