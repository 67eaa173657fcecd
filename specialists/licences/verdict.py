"""What a policy makes of the answers about one distribution. Pure: the same claims and lists give the same row.

An entry of a list is an SPDX id, an expression, or a pattern such as `GPL-*`. An entry matches a licence it names;
one without `WITH` also matches that licence with any exception, since an exception only grants more. A longer entry
that names the exception goes first: with `GPL-*` denied and `GPL-2.0-only WITH Classpath-exception-2.0` allowed, only
the latter form passes. Otherwise deny goes first. A licence passes when one of its alternatives has no denied part.
Vendored code is shipped too, so its licences count like AND parts. What is not known asks: no answer, a conflict, a
text that is not recognised, a family whose members fare differently.
"""

from collections import Counter
from collections.abc import Iterable
from fnmatch import fnmatchcase
from typing import Literal

from pydantic import BaseModel

from specialists.licences.evidence import Evidence
from specialists.licences.expressions import Leaf, NotAnExpression, Tree, leaves, parse, weigh
from specialists.licences.families import is_family, members
from specialists.licences.relations import ORDER, Relation, narrowed, relation

Verdict = Literal["allow", "ask", "deny"]
_VERDICTS: tuple[Verdict, ...] = ("allow", "ask", "deny")
_ALLOW, _ASK, _DENY = 0, 1, 2
MAX_REASON = 400

DEFAULT_ALLOW = [
    *("0BSD", "AFL-2.1", "AFL-3.0", "Apache-1.1", "Apache-2.0", "BlueOak-1.0.0", "BSD-1-Clause", "BSD-2-Clause"),
    *("BSD-2-Clause-Patent", "BSD-3-Clause", "BSD-3-Clause-Clear", "BSD-3-Clause-LBNL", "BSD-3-Clause-Open-MPI"),
    *("BSL-1.0", "CC0-1.0", "CNRI-Python", "FTL", "HPND", "HPND-Markus-Kuhn", "ICU", "IJG", "ISC", "Libpng", "MIT"),
    *(
        "MIT-0",
        "MIT-CMU",
        "MIT-Modern-Variant",
        "MIT-open-group",
        "MPL-2.0",
        "NCSA",
        "OFL-1.1",
        "PSF-2.0",
        "PostgreSQL",
    ),
    *("Python-2.0", "Python-2.0.1", "TCL", "UPL-1.0", "Unicode-3.0", "Unicode-DFS-2016", "Unlicense", "W3C", "WTFPL"),
    *("X11", "ZPL-2.0", "ZPL-2.1", "Zlib", "bzip2-1.0.6", "libpng-1.6.35", "libpng-2.0", "libtiff"),
    *("GPL-2.0-only WITH Classpath-exception-2.0", "GPL-3.0-or-later WITH GCC-exception-3.1"),
]
"""Licences that ask for attribution, or, with MPL-2.0, for the source of changed files; and GNU runtime libraries by
exception."""
DEFAULT_DENY = ["AGPL-*", "GPL-*", "SSPL-1.0", "BUSL-1.1", "CC-BY-NC-*"]
"""Licences that reach the whole work, or that restrict its use."""


class Claim(BaseModel):
    """One source's answer; `won` where a merge policy chose it."""

    by: str
    value: Evidence
    won: bool = False


class Row(BaseModel):
    """The audit's line about one distribution."""

    name: str
    version: str
    licence: str
    """The expression, or the family where nobody says more; empty where nothing is known."""
    decided_from: list[str]
    """The sources that say so or agree with it."""
    relation: Relation
    verdict: Verdict
    reason: str
    bundled: list[str] = []


def judge(name: str, version: str, claims: list[Claim], allow: list[str], deny: list[str]) -> Row:
    """Decide one distribution. The winning answer is made precise by those that agree with it; a conflict is for a
    person."""
    claims = sorted(claims, key=lambda claim: (not claim.won, claim.by))
    speaking = [claim for claim in claims if claim.value.stated]
    worst = _worst(claims)
    tree = _decided(speaking)
    bundled = sorted({text for claim in claims for text in claim.value.bundled})
    verdict, reason = _verdict(speaking, worst, tree, bundled, allow, deny)
    unread = [claim.by for claim in claims if claim.value.kind == "unidentified" and claim.value.texts]
    if unread and worst != "conflict" and verdict != "deny":
        named = f"{tree} is named" if tree else "no licence is named"
        verdict, reason = "ask", f"{named}, and {' and '.join(unread)} found a text that is not recognised"
    return Row(
        name=name,
        version=version,
        licence=str(tree) if tree else "",
        decided_from=sorted(claim.by for claim in speaking if relation(claim.value, speaking[0].value) != "conflict"),
        relation=worst,
        verdict=verdict,
        reason=reason[:MAX_REASON],
        bundled=bundled,
    )


def summarise(rows: Iterable[Row]) -> dict[str, int]:
    """Counts: distributions, each verdict, conflicts, and those without a known licence."""
    rows = list(rows)
    verdicts = Counter(row.verdict for row in rows)
    return {
        "distributions": len(rows),
        **{verdict: verdicts[verdict] for verdict in _VERDICTS},
        "conflicts": sum(row.relation == "conflict" for row in rows),
        "unknown": sum(not row.licence for row in rows),
    }


def weigh_licence(tree: Tree, allow: list[str], deny: list[str]) -> Verdict:
    """What the lists say about an expression; of a family, what they say about all that it may mean, `ask` where that
    differs."""

    def weight(leaf: Leaf) -> int:
        weights = {_weight(Leaf(member, leaf.exception), allow, deny) for member in members(leaf.name)}
        return weights.pop() if len(weights) == 1 else _ASK

    return _VERDICTS[weigh(tree, weight)]


def _weight(leaf: Leaf, allow: list[str], deny: list[str]) -> int:
    if leaf.exception:
        for entries, weight in ((deny, _DENY), (allow, _ALLOW)):
            if any(" WITH " in entry and fnmatchcase(str(leaf), entry) for entry in entries):
                return weight
    if any(_matches(leaf, entry) for entry in deny):
        return _DENY
    return _ALLOW if any(_matches(leaf, entry) for entry in allow) else _ASK


def _matches(leaf: Leaf, entry: str) -> bool:
    return fnmatchcase(leaf.name, entry) or fnmatchcase(leaf.name.removesuffix("+"), entry)


def _worst(claims: list[Claim]) -> Relation:
    """The worst relation between any two; one answer alone agrees with itself."""
    pairs = [relation(a.value, b.value) for i, a in enumerate(claims) for b in claims[i + 1 :]]
    alone: Relation = "equal" if any(claim.value.stated for claim in claims) else "silent"
    return max([alone, *pairs], key=ORDER.index)


def _decided(speaking: list[Claim]) -> Tree | None:
    """The first answer, made precise by each later one that agrees."""
    if not speaking:
        return None
    tree = parse(speaking[0].value.stated)
    for claim in speaking[1:]:
        if relation(speaking[0].value, claim.value) != "conflict":
            tree = narrowed(tree, parse(claim.value.stated))
    return tree


def _verdict(
    speaking: list[Claim], worst: Relation, tree: Tree | None, bundled: list[str], allow: list[str], deny: list[str]
) -> tuple[Verdict, str]:
    if tree is None:
        return "ask", "no source names a licence"
    if worst == "conflict":
        every = {weigh_licence(parse(claim.value.stated), allow, deny) for claim in speaking}
        said = "; ".join(f"{claim.by} says {claim.value.stated}" for claim in speaking)
        return ("deny" if every == {"deny"} else "ask"), f"the sources disagree: {said}"
    verdict = _listed(tree, allow, deny)
    for text in bundled:
        found = _listed(parse(text), allow, deny)
        if _VERDICTS.index(found) > _VERDICTS.index(verdict):
            return found, f"it bundles code under {text}, which {_words(found, parse(text))}"
    return verdict, f"{tree} {_words(verdict, tree)}"


def _words(verdict: Verdict, tree: Tree) -> str:
    if verdict != "ask":
        return "is allowed" if verdict == "allow" else "is denied"
    if any(is_family(leaf.name) for leaf in leaves(tree)):
        return "leaves open which licence is meant, and not all that it can mean are allowed"
    return "is not on the list of what is allowed"


def _listed(tree: Tree, allow: list[str], deny: list[str]) -> Verdict:
    """As `weigh_licence`; an entry that is an expression matches the whole of it."""
    for entries, verdict in ((deny, _VERDICTS[_DENY]), (allow, _VERDICTS[_ALLOW])):
        if any(_is_expression(entry, tree) for entry in entries):
            return verdict
    return weigh_licence(tree, allow, deny)


def _is_expression(entry: str, tree: Tree) -> bool:
    if "*" in entry:
        return False
    try:
        return parse(entry) == tree and not isinstance(tree, Leaf)
    except NotAnExpression:
        return False
