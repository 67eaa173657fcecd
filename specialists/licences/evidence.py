"""What one source says about the licence of a distribution, as a small value. Three sources: the field, the
classifiers, the texts.

Sources that mean the same give equal values: nothing in a value tells where it is from, expressions are written in
one canonical way, and texts are never part of it, only their digests.

Several classifiers, or several texts, do not say whether one may choose or must keep all. They are read as AND, the
cautious reading, except for the combinations of `_DUAL`, which are well known for being a choice. `relations` counts
an author's explicit OR over the same licences as the more precise statement, so the cautious reading never makes a
conflict.
"""

import re
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal, Self

from pydantic import BaseModel, Field, SerializerFunctionWrapHandler, model_serializer, model_validator

from specialists.licences import names
from specialists.licences.distribution import Distribution
from specialists.licences.expressions import Leaf, NotAnExpression, Operator, Tree, declared, join, leaves, parse
from specialists.licences.families import is_family, narrower, overlap
from specialists.licences.texts import LicenceText, identify, licence_texts

MAX_TEXTS = 20
MAX_BUNDLED = 40
MAX_VENDORED = 100
_TEXT_IN_FIELD = 200
_POINTER = 1_000
_CHOICE = re.compile(r"\beither\b|\bdual\b|\btri-?licen|\bat your (option|choice)\b|\bor\b", re.I)

# Combinations that are offered as a choice: Perl's licence, and Mozilla's former tri-licence. One pattern for each
# licence.
_DUAL = (("Artistic*", "GPL*"), ("GPL*", "LGPL*", "MPL-1.1"))


class Evidence(BaseModel, frozen=True):
    """The answer of one source; what is empty is left out of its JSON.

    `expression` is canonical SPDX; `family` is set instead when something in it is only a family, as in `Artistic OR
    MIT`.
    """

    kind: Literal["expression", "vague", "unidentified", "absent"]
    expression: str = ""
    family: str = ""
    texts: list[str] = Field(default=[], max_length=MAX_TEXTS)
    """SHA-256 of texts that were not recognised, sorted."""
    bundled: list[str] = Field(default=[], max_length=MAX_BUNDLED)
    """Expressions of vendored code's texts, sorted."""
    note: str = Field(default="", max_length=200)

    @model_serializer(mode="wrap")
    def _compact(self, serialize: SerializerFunctionWrapHandler):  # type: ignore[no-untyped-def]  # keeps the schema
        return {name: value for name, value in serialize(self).items() if value}

    @model_validator(mode="after")
    def _canonical(self) -> Self:
        """Refuse what could not be compared: a kind that does not fit, or expressions in another form."""
        if bool(self.expression) != (self.kind == "expression") or bool(self.family) != (self.kind == "vague"):
            raise ValueError(
                "an `expression` needs kind 'expression', a `family` needs kind 'vague'; others have neither"
            )
        for text in filter(None, (self.expression, self.family, *self.bundled)):
            if str(parse(text)) != text:
                raise ValueError(f"{text!r} is not canonical: write {str(parse(text))!r}")
        return self

    @property
    def stated(self) -> str:
        """The expression or family; empty where nothing is known."""
        return self.expression or self.family


def from_field(distribution: Distribution) -> Evidence:
    """What `License-Expression` says (PEP 639), else the free text of `License`, which may be a name or a whole
    licence text."""
    if distribution.license_expression:
        try:
            return _stating(declared(distribution.license_expression))
        except NotAnExpression:
            return _from_words(distribution.license_expression)
    return _from_words(distribution.license)


def from_classifiers(distribution: Distribution) -> Evidence:
    """What the `License ::` classifiers say together."""
    found = [tree for text in sorted(distribution.classifiers) if (tree := names.from_classifier(text)) is not None]
    return _stating(_combined(found)) if found else Evidence(kind="absent")


def from_texts(distribution: Distribution) -> Evidence:
    """What the shipped licence texts say. A short text that only points at the others says how they combine."""
    texts = list(licence_texts(distribution))
    vendored = [text for text in texts if not text.own]
    pointers = [text for text in texts if _is_pointer(text, texts)]
    findings = [(text, identify(text.content)) for text in texts if text.own or text in vendored[:MAX_VENDORED]]
    own = [part for text, finding in findings if text.own for part in finding.own]
    others = [part for text, finding in findings for part in (*finding.bundled, *(() if text.own else finding.own))]
    silent = {text.sha256 for text in texts if text in pointers or _is_notice(text)}
    unknown = {text.sha256 for text, finding in findings if finding.unknown} - silent
    parts = {
        "texts": sorted(unknown)[:MAX_TEXTS],
        "bundled": _expressions(others),
        "note": _left_out(len(vendored) - MAX_VENDORED),
    }
    if own:
        operator: Operator | None = "OR" if any(_CHOICE.search(text.content) for text in pointers) else None
        return _stating(_combined(_without_contained(own), operator)).model_copy(update=parts)
    return Evidence.model_validate({"kind": "unidentified" if unknown else "absent", **parts})


def _left_out(count: int) -> str:
    return f"{count} more licence texts of vendored code were not looked at" if count > 0 else ""


def _from_words(words: str) -> Evidence:
    if names.is_silent(words):
        return Evidence(kind="absent")
    if len(words) > _TEXT_IN_FIELD or words.count("\n") > 1:
        return _from_text_in_field(words)
    if tree := names.from_words(words):
        return _stating(tree)
    return Evidence(kind="unidentified", note=f"the field says: {' '.join(words.split())}"[:200])


def _from_text_in_field(text: str) -> Evidence:
    """Some distributions put the whole licence into the field: it is read like a file."""
    finding = identify(text)
    bundled = _expressions(finding.bundled)
    if finding.own:
        return _stating(_combined(_without_contained(list(finding.own)))).model_copy(update={"bundled": bundled})
    return Evidence(kind="unidentified", texts=[LicenceText.digest(text)], bundled=bundled)


def _stating(tree: Tree) -> Evidence:
    try:
        parse(str(tree))
    except NotAnExpression:
        return Evidence(kind="unidentified", note="more licences than one expression can hold")
    if any(is_family(leaf.name) for leaf in leaves(tree)):
        return Evidence(kind="vague", family=str(tree))
    return Evidence(kind="expression", expression=str(tree))


def _combined(parts: list[Tree], operator: Operator | None = None) -> Tree:
    """All parts together, each family dropped that another part makes precise: `GPL` beside `GPL-2.0-or-later`."""
    singles = [part for part in parts if isinstance(part, Leaf)]
    kept = [part for part in parts if not (isinstance(part, Leaf) and _made_precise(part, singles))]
    return join(operator or ("OR" if _is_dual(kept) else "AND"), kept)


def _made_precise(leaf: Leaf, others: Iterable[Leaf]) -> bool:
    return any(overlap(leaf.name, other.name) and narrower(other.name, leaf.name) for other in others)


def _is_dual(parts: list[Tree]) -> bool:
    """Whether the parts are, one by one, a combination that is known as a choice."""
    texts = sorted(str(part) for part in dict.fromkeys(parts))
    return any(
        len(texts) == len(patterns)
        and all(fnmatchcase(text, pattern) for text, pattern in zip(texts, patterns, strict=True))
        for patterns in _DUAL
    )


def _without_contained(parts: list[Tree]) -> list[Tree]:
    """LGPL-3.0 is written as additions to GPL-3.0, so its users ship both texts and mean the first."""
    stated = {str(part) for part in parts}
    if any(text.startswith("LGPL-3.0") for text in stated):
        return [part for part in parts if str(part) != "GPL-3.0"]
    return parts


def _is_pointer(text: LicenceText, texts: list[LicenceText]) -> bool:
    """Whether a short own text names at least two of the other licence files."""
    others = {other.path.rsplit("/", 1)[-1] for other in texts if other.path != text.path}
    named = [name for name in others if name in text.content]
    return text.own and len(text.content) < _POINTER and len(named) > 1 and identify(text.content).unknown


def _is_notice(text: LicenceText) -> bool:
    """NOTICE files carry attributions (Apache-2.0, section 4d): one that is no licence is not an unknown licence."""
    return text.path.rsplit("/", 1)[-1].upper().startswith("NOTICE")


def _expressions(parts: Iterable[Tree]) -> list[str]:
    return sorted({str(part) for part in parts})[:MAX_BUNDLED]
