"""Merging: from the claims for one key to one fact, by a named, versioned policy.

Pure. A policy is a total order over claims that does not know who came first. Generic: what values mean is the business
of the specialists, who normalise them. Two claims agree when their canonical bytes are equal.
"""

from collections.abc import Callable, Sequence
from typing import Any

from msgspec import Struct
from msgspec.structs import replace

from schemas.catalogue import View
from schemas.codec import canonical
from schemas.events import Loser
from schemas.expressions import evaluate, truth
from schemas.steps import Merge
from schemas.subjects import is_token


class PolicyMissing(Exception):
    """The plan names a policy that is not installed beside this supervisor; leave the run alone."""


class Candidate(Struct, frozen=True):
    """A claim for one key. `refused` is the reason why the step does not accept it, else empty. `order` is the number
    of the event that ended its task: when it came."""

    task: str
    by: str
    value: Any
    confidence: float | None = None
    refused: str = ""
    order: int = 0


class Merged(Struct, frozen=True):
    """What a policy made of the claims: `found` tells whether there is a `value`, else `reason` says why there is none.

    `winner` is None where the value was made of several claims, or there is none. All other claims are among the
    losers. `conflict`: the claims differ, and the policy is `reject` (the run ends, whatever the step says) or
    `reconcile` (somebody has to be asked).
    """

    found: bool
    value: Any
    winner: Candidate | None
    losers: tuple[Loser, ...]
    reason: str = ""
    conflict: bool = False


def merge(policy: Merge, candidates: Sequence[Candidate], view: View) -> Merged:
    """Raises BadExpression where an entry of a priority cannot be evaluated, PolicyMissing where the policy is not one
    of ours and not installed."""
    accepted = sorted((c for c in candidates if not c.refused), key=lambda c: (canonical(c.value), c.by, c.task))
    refused = tuple(Loser(c.task, c.by, c.value, c.refused) for c in sorted(candidates, key=_name) if c.refused)
    if not accepted:
        return Merged(False, None, None, refused, "no claim was accepted" if refused else "nobody claimed a value")
    if policy.policy not in _POLICIES:
        raise PolicyMissing(
            f"policy {policy.policy!r} version {policy.version} is not installed beside this supervisor"
        )
    merged = _POLICIES[policy.policy](policy, accepted)
    return replace(merged, losers=merged.losers + refused)


def _name(candidate: Candidate) -> tuple[str, str]:
    return candidate.by, candidate.task


def _only(policy: Merge, accepted: list[Candidate]) -> Merged:
    values = {canonical(candidate.value) for candidate in accepted}
    if len(values) == 1:
        winner = min(accepted, key=_name)
        return Merged(True, winner.value, winner, _losers(winner, accepted, lambda loser: ""))
    reason = f"{len(values)} different values, and the policy is `only`"
    return Merged(
        False, None, None, tuple(Loser(c.task, c.by, c.value, reason) for c in sorted(accepted, key=_name)), reason
    )


def _priority(policy: Merge, accepted: list[Candidate]) -> Merged:
    rank = {(c.by, c.task): _rank(policy.order, c) for c in accepted}
    winner = min(accepted, key=lambda c: rank[c.by, c.task])

    def reason(loser: Candidate) -> str:
        place, first = rank[loser.by, loser.task], rank[winner.by, winner.task]
        if place == first:
            return f"also priority {first + 1}, later in the order of values"
        return f"priority {place + 1} comes after {first + 1}" if place < len(policy.order) else "in no priority"

    return Merged(True, winner.value, winner, _losers(winner, accepted, reason))


def _rank(order: Sequence[str], candidate: Candidate) -> int:
    scope = {"by": candidate.by, "value": candidate.value, "confidence": candidate.confidence}
    for place, entry in enumerate(order):
        if entry == candidate.by if is_token(entry) else truth(evaluate(entry, scope)):
            return place
    return len(order)


def _losers(winner: Candidate, accepted: list[Candidate], reason: Callable[[Candidate], str]) -> tuple[Loser, ...]:
    value = canonical(winner.value)
    return tuple(
        Loser(c.task, c.by, c.value, "" if canonical(c.value) == value else reason(c))
        for c in sorted(accepted, key=_name)
        if c is not winner
    )


_POLICIES: dict[str, Callable[[Merge, list[Candidate]], Merged]] = {"only": _only, "priority": _priority}
