"""Names of licences as people write them: a classifier, or words in the `License` field.

Exact names come from the maintained map of `licenselynx`. What it must not decide is taken out before: names without
a version or variant are families, and a GNU licence named without `only` or `or later` leaves that open, whatever a
map says. Which classifiers are ambiguous: PEP 639, appendix 'Mapping license classifiers to SPDX identifiers'. One of
them is read as exact: `Apache Software License` has meant Apache-2.0 for longer than the classifier exists.
"""

import re
from functools import lru_cache

from licenselynx.licenselynx import LicenseLynx  # type: ignore[import-untyped,unused-ignore]

from specialists.licences.expressions import Leaf, NotAnExpression, Tree, declared, join

PUBLIC_DOMAIN = "LicenseRef-Public-Domain"

# The classifiers, without `License ::` and `OSI Approved ::`, which are ambiguous or which the map lacks.
_CLASSIFIERS = {
    "Academic Free License (AFL)": "AFL",
    "Apache Software License": "Apache-2.0",
    "Apple Public Source License": "APSL",
    "Artistic License": "Artistic",
    "BSD License": "BSD",
    "CC0 1.0 Universal (CC0 1.0) Public Domain Dedication": "CC0-1.0",
    "CeCILL-B Free Software License Agreement (CECILL-B)": "CECILL-B",
    "CeCILL-C Free Software License Agreement (CECILL-C)": "CECILL-C",
    "Eiffel Forum License": "EFL",
    "Eiffel Forum License (EFL)": "EFL",
    "GNU Affero General Public License v3": "AGPL-3.0",
    "GNU Free Documentation License (FDL)": "GFDL",
    "GNU General Public License (GPL)": "GPL",
    "GNU General Public License v2 (GPLv2)": "GPL-2.0",
    "GNU General Public License v3 (GPLv3)": "GPL-3.0",
    "GNU Lesser General Public License v2 (LGPLv2)": "LGPL-2.x",
    "GNU Lesser General Public License v2 or later (LGPLv2+)": "LGPL-2.x-or-later",
    "GNU Lesser General Public License v3 (LGPLv3)": "LGPL-3.0",
    "GNU Library or Lesser General Public License (LGPL)": "LGPL",
    "GUST Font License 1.0": "LicenseRef-GUST-Font-License-1.0",
    "GUST Font License 2006-09-30": "LicenseRef-GUST-Font-License-2006-09-30",
    "Netscape Public License (NPL)": "NPL",
    "Nokia Open Source License (NOKOS)": "Nokia",
    "Other/Proprietary License": "Proprietary",
    "Public Domain": PUBLIC_DOMAIN,
    "Python Software Foundation License": "PSF",
    "Zope Public License": "ZPL",
}

# What is left of a name when the words that say nothing are taken out, and the family (or licence) that it names.
_PLAIN_NAMES = {
    "academic free": "AFL",
    "apache": "Apache",
    "apple public source": "APSL",
    "artistic": "Artistic",
    "asl": "Apache",
    "bsd": "BSD",
    "commercial": "Proprietary",
    "closed source": "Proprietary",
    "mit x11": "MIT-X11",
    "mozilla public": "MPL",
    "mpl": "MPL",
    "new bsd": "BSD-3-Clause",
    "other proprietary": "Proprietary",
    "proprietary": "Proprietary",
    "psf": "PSF",
    "psfl": "PSF",
    "public domain": PUBLIC_DOMAIN,
    "python": "PSF",
    "python foundation": "PSF",
    "revised bsd": "BSD-3-Clause",
    "simplified bsd": "BSD-2-Clause",
    "zope public": "ZPL",
    "zpl": "ZPL",
}

# What fills the field without naming a licence.
_SILENT = re.compile(
    r"|unknown|none|n/?a|tbd|todo|(see )?(the )?(files? )?(licen[cs]e|copying|readme)([-. ]?(file|txt|md|rst))?", re.I
)
_EMPTY_WORDS = re.compile(
    r"\b(the|a|an|and|licen[cs]ed?|licen[cs]es|software|style|like|under|terms?|of|with|exceptions?|version)\b"
)
_GNU = re.compile(
    r"(?:gnu )?(?P<kind>[al]?gpl) ?v?(?P<version>[123](?:\.[0-3])?)?"
    r"(?P<later> ?\+| or (?:any )?(?:later|newer|greater))?(?P<only> only)?"
)
_GNU_WORDS = {"lesser general public": "lgpl", "library or lesser gpl": "lgpl", "library general public": "lgpl"} | {
    "affero general public": "agpl",
    "general public": "gpl",
}
_ALTERNATIVES = re.compile(r"\s+or\s+", re.I)
_SEVERAL = re.compile(r"\s+and\s+|\s*[,/;&]\s*", re.I)


def from_classifier(classifier: str) -> Tree | None:
    """The licence or family of a `License ::` classifier; None where it names none (`OSI Approved`, `Freeware`, one
    of a private list)."""
    name = classifier.removeprefix("License :: ").removeprefix("OSI Approved :: ")
    if name in _CLASSIFIERS:
        return Leaf(_CLASSIFIERS[name])
    return _mapped(classifier) or _mapped(name)


@lru_cache(maxsize=4_096)
def from_words(words: str) -> Tree | None:
    """The licence, family or combination that the `License` field names; None where that cannot be said.

    Pieces joined by `or` are alternatives. Pieces joined by `and`, a comma or a slash all hold: the author did not
    offer a choice. A combination counts only when each piece is known, so `GPLv2 or later` is one name.
    """
    words = " ".join(words.strip().strip("\"'").split())
    if is_silent(words):
        return None
    return _one_name(words) or _pieces(words)


def is_silent(words: str) -> bool:
    """Whether the words name no licence at all: empty, `UNKNOWN`, `see LICENSE`."""
    return _SILENT.fullmatch(words.strip()) is not None


def _one_name(words: str) -> Tree | None:
    plain = _plain_name(words)
    if name := _gnu(plain) or _PLAIN_NAMES.get(plain) or _CLASSIFIERS.get(words):
        return Leaf(name)
    if found := _mapped(words):
        return found
    try:
        return declared(words)
    except NotAnExpression:
        return None


def _pieces(words: str) -> Tree | None:
    for pattern, operator in ((_ALTERNATIVES, "OR"), (_SEVERAL, "AND")):
        pieces = [piece for piece in pattern.split(words) if piece]
        found = [tree for piece in pieces if (tree := _one_name(piece)) is not None]
        if 1 < len(pieces) == len(found):
            return join("OR" if operator == "OR" else "AND", found)
    return None


def _mapped(words: str) -> Tree | None:
    """What the map says, if that is a valid SPDX id; it also knows names that are none."""
    found = LicenseLynx.map(words)
    if found is None:
        return None
    try:
        return declared(str(found.id))
    except NotAnExpression:
        return None


def _plain_name(words: str) -> str:
    """Lower case, without brackets, punctuation and the words that say nothing."""
    spaced = re.sub(r"[^a-z0-9.+]+", " ", re.sub(r"\(.*?\)", " ", words.lower()))
    return " ".join(_EMPTY_WORDS.sub(" ", spaced).split())


def _gnu(plain: str) -> str | None:
    """The GNU licence that the plain name means: a family unless it says `only` or `or later`."""
    for phrase, short in _GNU_WORDS.items():
        plain = plain.replace(phrase, short)
    match = _GNU.fullmatch(plain)
    if match is None:
        return None
    kind, version = match["kind"].upper(), match["version"]
    if version is None:
        return kind
    if kind == "LGPL" and version == "2":
        version = "2.x"
    ending = "-or-later" if match["later"] else "-only" if match["only"] and version != "2.x" else ""
    return f"{kind}-{version if '.' in version else version + '.0'}{ending}"
