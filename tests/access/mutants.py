"""The table with one fault in it, and whether the matrix sees it on a live server."""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

from blackboard import access
from schemas.access import RULES, Export, Role, Rule, exports
from tests.access.matrix import Bench, Wrong


class Mutant(NamedTuple):
    """`rules` in place of the table, tried by one identity of each of `roles`."""

    name: str
    rules: Sequence[Rule]
    roles: Sequence[Role]


def mutants() -> Iterator[Mutant]:
    """The table without one rule, for each; and with one rule that says less of whom it is for, for each that can."""
    for number, rule in enumerate(RULES):
        before, after = RULES[:number], RULES[number + 1 :]
        yield Mutant(f"without: {rule.action} {rule.subject}", (*before, *after), sorted(rule.roles))
        for part in ("{name}", "{board}"):
            if part in rule.subject and rule.subject != "bb.{board}.lead":
                parts = ["*" if part in one else one for one in rule.subject.split(".")]
                wider = rule._replace(subject=".".join(parts))
                yield Mutant(
                    f"for any {part}: {rule.action} {rule.subject}", (*before, wider, *after), [min(rule.roles)]
                )


async def survivors_of_rules(bench: Bench) -> tuple[int, list[str]]:
    """How many mutants were tried, and those that an identity did not see."""
    tried, survived = 0, []
    for mutant in mutants():
        for role in mutant.roles:
            tried += 1
            _, wrong = await bench.wrong(role, mutant.rules)
            if not wrong:
                survived.append(f"{mutant.name} ({role})")
    return tried, survived


async def survivors_of_imports(bench: Bench) -> tuple[int, list[str]]:
    """The same for what one account gives the other: each import taken away, and seen by one identity or another."""
    whole = list(exports())
    survived = []
    try:
        for gone in whole:
            await _give(bench, [one for one in whole if one != gone])
            if not [wrong for role in Role for wrong in await _wrong(bench, role)]:
                survived.append(f"without: import {gone.subject}")
    finally:
        await _give(bench, whole)
    return len(whole), survived


async def _wrong(bench: Bench, role: Role) -> list[Wrong]:
    return (await bench.wrong(role))[1] if role in (Role.SPECIALIST, Role.CONSOLE, Role.CURATOR) else []


async def _give(bench: Bench, given: Sequence[Export]) -> None:
    before = access.exports
    access.exports = lambda: iter(given)  # type: ignore[assignment,misc]
    try:
        for name in ("BUS", "AGENTS"):
            await bench.tell(name, bench.access._account(name))
    finally:
        access.exports = before  # type: ignore[misc]
