"""SPDX licence expressions as small trees: read, written in one canonical way, and walked.

Grammar: SPDX specification, annex 'SPDX license expressions'. Validity of what an author declares: PEP 639. Both by
library; this module keeps the only imports of `license_expression`, which has no types.
"""

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from functools import cache, lru_cache
from typing import Any, Literal

import license_expression as spdx
from packaging.licenses import InvalidLicenseExpression, canonicalize_license_expression

MAX_CHARACTERS = 1_000
MAX_PARENTHESES = 40
Operator = Literal["AND", "OR"]


class NotAnExpression(ValueError):
    """The text is no licence expression, or a longer or deeper one than anybody means seriously."""


@dataclass(frozen=True)
class Leaf:
    """One licence, with the exception it is granted `WITH`, if any. `name` may be a family."""

    name: str
    exception: str = ""

    def __str__(self) -> str:
        return f"{self.name} WITH {self.exception}" if self.exception else self.name


@dataclass(frozen=True)
class Group:
    """Two or more different parts under one operator, in canonical order. Made by `join` only."""

    operator: Operator
    parts: tuple["Tree", ...]

    def __str__(self) -> str:
        return f" {self.operator} ".join(f"({part})" if isinstance(part, Group) else str(part) for part in self.parts)


Tree = Leaf | Group


def join(operator: Operator, parts: Iterable[Tree]) -> Tree:
    """The canonical combination: nested groups of the same operator are flattened, repetitions dropped, licences
    before groups, by name.

    At least one part. Nothing is simplified beyond that: `MIT AND (MIT OR X)` keeps its X, an auditor wants to see it.
    """
    flat: dict[Tree, None] = {}
    for part in parts:
        inner = part.parts if isinstance(part, Group) and part.operator == operator else (part,)
        flat.update(dict.fromkeys(inner))
    ordered = sorted(flat, key=lambda part: (isinstance(part, Group), str(part).casefold(), str(part)))
    return ordered[0] if len(ordered) == 1 else Group(operator, tuple(ordered))


@lru_cache(maxsize=4_096)
def parse(text: str) -> Tree:
    """Read an expression whose names may be SPDX ids, `LicenseRef-` names or families; names are not checked.

    Raises NotAnExpression.
    """
    if len(text) > MAX_CHARACTERS or text.count("(") > MAX_PARENTHESES:
        raise NotAnExpression("longer than any licence expression should be")
    try:
        parsed = _plain().parse(text)
    except (spdx.ExpressionError, spdx.ParseError) as error:
        raise NotAnExpression(str(error)) from error
    if parsed is None:
        raise NotAnExpression("empty")
    return _tree(parsed)


@lru_cache(maxsize=4_096)
def declared(text: str) -> Tree:
    """Read what an author declares as `License-Expression`: valid by PEP 639, deprecated ids replaced by what SPDX
    says they mean.

    Raises NotAnExpression.
    """
    if len(text) > MAX_CHARACTERS or text.count("(") > MAX_PARENTHESES:
        raise NotAnExpression("longer than any licence expression should be")
    try:
        valid = canonicalize_license_expression(text)
        tree = parse(str(_known().parse(valid).render()))
        return parse(str(tree))  # so that what is written canonically can be read again, within the same limits
    except (InvalidLicenseExpression, spdx.ExpressionError, spdx.ParseError) as error:
        raise NotAnExpression(str(error)) from error


def leaves(tree: Tree) -> tuple[Leaf, ...]:
    """The different licences of the tree, in its order."""
    if isinstance(tree, Leaf):
        return (tree,)
    return tuple(dict.fromkeys(leaf for part in tree.parts for leaf in leaves(part)))


def replace(tree: Tree, change: Callable[[Leaf], Leaf]) -> Tree:
    """The canonical tree with every leaf changed."""
    if isinstance(tree, Leaf):
        return change(tree)
    return join(tree.operator, (replace(part, change) for part in tree.parts))


def weigh(tree: Tree, weight: Callable[[Leaf], int]) -> int:
    """The highest weight among parts that all hold (AND), the lowest among those one may choose from (OR).

    That is the same as weighing each alternative of the expression written out, without writing it out: it can be
    exponentially long.
    """
    if isinstance(tree, Leaf):
        return weight(tree)
    weights = (weigh(part, weight) for part in tree.parts)
    return max(weights) if tree.operator == "AND" else min(weights)


@cache
def _plain() -> Any:
    return spdx.Licensing()


@cache
def _known() -> Any:
    """Ready when it is returned: its first reading builds what all others use, and specialists read in threads."""
    licensing = spdx.get_spdx_licensing()
    licensing.parse("MIT")
    return licensing


def _tree(parsed: Any) -> Tree:
    """The library's tree as ours."""
    if isinstance(parsed, spdx.LicenseWithExceptionSymbol):
        return Leaf(str(parsed.license_symbol.key), str(parsed.exception_symbol.key))
    if isinstance(parsed, spdx.LicenseSymbol):
        return Leaf(str(parsed.key))
    operator: Operator = "AND" if isinstance(parsed, _plain().AND) else "OR"
    return join(operator, (_tree(part) for part in parsed.args))
