"""Words as they are searched and compared: without case, endings, and those that every text has.

Pure.
"""

import re
import unicodedata
from collections.abc import Iterator
from functools import lru_cache

import snowballstemmer

_WORD = re.compile(r"[\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]|[^\W_\u3040-\u30ff\u3400-\u9fff\uac00-\ud7af]+")
"""Characters of scripts without blanks stand alone."""
_CAMEL = re.compile(r"(?<=[a-z0-9])(?=[A-Z])")
_NUMBER = re.compile(r"\d+(?:[.,]\d+)*")
WORD_LIMIT = 64
"""Characters of a word; longer ones are no words."""
STOPWORDS = frozenset(
    """
    a about after all also am an and any are as at be because been before being between both but by can cannot could
    did do does doing done each either for from further get gets give given gives had has have having he her here
    him his how i if in into is it its itself just know let like long many may me might mine more most much must my need
    needs no nor not now of off on once one only or other others our out over own please same say says she should
    show since so some such tell tells than that the their them themselves then there these they this those through
    to too under until up upon us use used uses using very was way we were what when where whether which while who
    whom whose why will with within without would you your
    """.split()  # noqa: SIM905 - one can read it
)
"""Words that say nothing about what a text is about. `not` and its like are looked at elsewhere."""
NEGATIONS = frozenset(["not", "no", "never", "none", "nobody", "nothing", "neither", "nor", "without", "cannot"])
_stemmer = snowballstemmer.stemmer("english")


def words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        if len(match[0]) <= WORD_LIMIT:
            yield match[0]


def terms(text: str) -> list[str]:
    """All stems of a text, in order, also those of parts of a name such as `readFile`."""
    found: list[str] = []
    for word in words(text):
        found.append(_stem(word.casefold()))
        parts = _CAMEL.split(word)
        if len(parts) > 1:
            found += (_stem(part.casefold()) for part in parts)
    return found


def content(text: str) -> list[str]:
    """The stems of the words that say something, each once."""
    said = [folded for word in words(text) if (folded := word.casefold()) not in STOPWORDS]
    return list(dict.fromkeys(map(_stem, said)))


def numbers(text: str) -> set[str]:
    return set(_NUMBER.findall(unicodedata.normalize("NFKC", text)))


def negates(text: str) -> bool:
    said = text.casefold().replace("\u2019", "'")
    return "n't" in said or any(word in NEGATIONS for word in words(said))


@lru_cache(maxsize=65_536)
def _stem(word: str) -> str:
    return str(_stemmer.stemWord(word))
