"""How two answers about one distribution relate.

An answer names licences; it is *open* when it also holds texts that were not recognised, for then it may name more.
Two answers agree when each licence of one is found in the other: as itself, as its family, among the vendored code,
or possibly among the unrecognised texts. An answer that names one alternative of the other's choice agrees as well.
Anything else is a conflict: a licence that one source names and the other denies by leaving it out.
"""

from typing import Literal

from specialists.licences.evidence import Evidence
from specialists.licences.expressions import Group, Leaf, Tree, leaves, parse, replace
from specialists.licences.families import is_family, narrower, overlap

Relation = Literal["silent", "equal", "refines", "extra", "conflict"]
"""From best to worst. `silent`: one of the two names no licence, so it contradicts nothing."""
ORDER: tuple[Relation, ...] = ("silent", "equal", "refines", "extra", "conflict")


def relation(one: Evidence, other: Evidence) -> Relation:
    """How two answers relate; the same in both directions."""
    if not one.stated or not other.stated:
        return "extra" if one.bundled or other.bundled else "silent"
    first, second = parse(one.stated), parse(other.stated)
    if first == second:
        return "equal" if one.bundled == other.bundled else "extra"
    missing = _not_in(first, second), _not_in(second, first)
    if missing == ((), ()) or _is_alternative(first, second) or _is_alternative(second, first):
        return "refines" if one.bundled == other.bundled else "extra"
    if _explained(missing[0], other) and _explained(missing[1], one):
        return "extra"
    return "conflict"


def narrowed(one: Tree, other: Tree) -> Tree:
    """`one`, with its families made precise by `other`, and combined as `other` says where that is an explicit
    choice."""
    precise = replace(one, lambda leaf: _most_precise(leaf, leaves(other)))
    offers_choice = isinstance(other, Group) and "OR" in str(other).split()
    if offers_choice and not _not_in(precise, other) and not _not_in(other, precise) and " OR " not in str(precise):
        return replace(other, lambda leaf: _most_precise(leaf, leaves(precise)))
    return precise


def same(one: Leaf, other: Leaf) -> bool:
    """Whether two names can mean the same grant. A licence text cannot say that an exception is granted with it."""
    exceptions_meet = one.exception == other.exception or not one.exception or not other.exception
    return exceptions_meet and overlap(one.name, other.name)


def _not_in(tree: Tree, other: Tree) -> tuple[Leaf, ...]:
    return tuple(leaf for leaf in leaves(tree) if not any(same(leaf, found) for found in leaves(other)))


def _explained(missing: tuple[Leaf, ...], other: Evidence) -> bool:
    """Whether the licences that `other` does not name may be among its vendored code or its unrecognised texts."""
    if other.texts:
        return True
    bundled = [leaf for text in other.bundled for leaf in leaves(parse(text))]
    return all(any(same(leaf, found) for found in bundled) for leaf in missing)


def _is_alternative(one: Tree, other: Tree) -> bool:
    """Whether `one` is what may be chosen from `other`."""
    if not isinstance(other, Group) or other.operator != "OR":
        return False
    return any(not _not_in(one, part) and not _not_in(part, one) for part in other.parts)


def _most_precise(leaf: Leaf, candidates: tuple[Leaf, ...]) -> Leaf:
    """The narrowest of the leaf and what it may mean. Two that are equally narrow leave it open."""
    better = [found for found in candidates if same(leaf, found) and _is_better(found, leaf)]
    exact = [found for found in better if not is_family(found.name)] or better
    return exact[0] if len(exact) == 1 else leaf


def _is_better(found: Leaf, leaf: Leaf) -> bool:
    return narrower(found.name, leaf.name) or (found.name == leaf.name and bool(found.exception) and not leaf.exception)
