"""Merging: from the claims for one key to one fact, by a named, versioned policy.

Pure. Generic: what values mean is the business of the specialists, who normalise them. Two claims agree when their
canonical bytes are equal: the order of fields does not count, `1` and `1.0` differ. Of what a policy leaves open the
smaller bytes decide, then the lower name, and never who came first, but for `first` and `newest`. docs/merging.md says
what each policy takes; installed ones are code of others, so what they answer is not trusted.
"""

import inspect
import math
import re
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from schemas.bids import Bid, Rating
from schemas.catalogue import View
from schemas.codec import VALUE_LIMIT, canonical, encode, unstorable
from schemas.events import Loser
from schemas.expressions import evaluate, truth
from schemas.plans import BIDS
from schemas.playbooks import POLICY_PATTERN
from schemas.steps import Merge
from schemas.subjects import is_token

BIDS_LIMIT = 100
"""Bids that are ranked; the others are losers."""
REASON_LIMIT = 500
"""Characters of the reason that an installed policy gives."""


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
    """Raises BadExpression where an entry of a priority cannot be evaluated, PolicyMissing where the policy is neither
    one of ours nor installed."""
    claims = sorted((_Claim.of(c) for c in candidates if not c.refused), key=lambda claim: claim[:3])
    refused = tuple(Loser(c.task, c.by, c.value, c.refused) for c in sorted(candidates, key=_name) if c.refused)
    if not claims and policy.policy != BIDS:
        return Merged(False, None, None, refused, "no claim was accepted" if refused else "nobody claimed a value")
    if built_in := _POLICIES.get(policy.policy):
        merged = built_in(policy, claims)
    else:
        merged = _by_installed(policy, claims, view)
    return replace(merged, losers=merged.losers + refused)


class _Claim(NamedTuple):
    """An accepted claim; policies get them in the order of the first three fields."""

    canonical: bytes
    by: str
    task: str
    said: Candidate

    @classmethod
    def of(cls, candidate: Candidate) -> "_Claim":
        return cls(canonical(candidate.value), candidate.by, candidate.task, candidate)


def _name(one: _Claim | Candidate) -> tuple[str, str]:
    return one.by, one.task


def _won(winner: _Claim, claims: list[_Claim], reason: Callable[[_Claim], str]) -> Merged:
    others = [claim for claim in claims if claim is not winner]
    return Merged(True, winner.said.value, winner.said, _losers(others, winner.canonical, reason))


def _made(value: Any, claims: list[_Claim], reason: Callable[[_Claim], str]) -> Merged:
    """A value made of several claims. Too large, it is none."""
    if (size := len(encode(value))) > VALUE_LIMIT:
        return _none(claims, f"it would have {size} bytes; the limit of a value is {VALUE_LIMIT}")
    return Merged(True, value, None, _losers(claims, canonical(value), reason))


def _none(claims: list[_Claim], reason: str, conflict: bool = False) -> Merged:
    return Merged(False, None, None, _losers(claims, b"", lambda _: reason), reason, conflict)


def _losers(claims: list[_Claim], value: bytes, reason: Callable[[_Claim], str]) -> tuple[Loser, ...]:
    return tuple(
        Loser(claim.task, claim.by, claim.said.value, "" if claim.canonical == value else reason(claim))
        for claim in sorted(claims, key=_name)
    )


# --- policies that take a claim ---------------------------------------------------------------------------------------


def _only(policy: Merge, claims: list[_Claim]) -> Merged:
    values = len({claim.canonical for claim in claims})
    if values == 1:
        return _won(claims[0], claims, lambda _: "")
    reason = f"{values} different values, and the policy is `{policy.policy}`"
    return _none(claims, reason, conflict=policy.policy in {"reject", "reconcile"})


def _first(_: Merge, claims: list[_Claim]) -> Merged:
    winner = min(claims, key=lambda claim: (claim.said.order, *_name(claim)))
    return _won(winner, claims, lambda _: "its task ended later")


def _newest(_: Merge, claims: list[_Claim]) -> Merged:
    winner = min(claims, key=lambda claim: (-claim.said.order, *_name(claim)))
    return _won(winner, claims, lambda _: "its task ended earlier")


def _highest_confidence(_: Merge, claims: list[_Claim]) -> Merged:
    """A claim without a confidence comes after all that have one."""
    winner = min(claims, key=lambda claim: (claim.said.confidence is None, -(claim.said.confidence or 0.0)))
    highest = winner.said.confidence

    def reason(loser: _Claim) -> str:
        sure = loser.said.confidence
        if sure == highest:
            also = "also without a confidence" if sure is None else f"also confidence {sure}"
            return f"{also}, later in the order of values"
        return "without a confidence" if sure is None else f"confidence {sure} is below {highest}"

    return _won(winner, claims, reason)


def _priority(policy: Merge, claims: list[_Claim]) -> Merged:
    rank = {_name(claim): _rank(policy.order, claim.said) for claim in claims}
    winner = min(claims, key=lambda claim: rank[_name(claim)])

    def reason(loser: _Claim) -> str:
        place, first = rank[_name(loser)], rank[_name(winner)]
        if place == first:
            return f"also priority {first + 1}, later in the order of values"
        return f"priority {place + 1} comes after {first + 1}" if place < len(policy.order) else "in no priority"

    return _won(winner, claims, reason)


def _rank(order: Sequence[str], candidate: Candidate) -> int:
    scope = {"by": candidate.by, "value": candidate.value, "confidence": candidate.confidence}
    for place, entry in enumerate(order):
        if entry == candidate.by if is_token(entry) else truth(evaluate(entry, scope)):
            return place
    return len(order)


def _quorum(policy: Merge, claims: list[_Claim]) -> Merged:
    """Between two values with equally many tasks nothing is decided: no order of bytes makes a majority."""
    tasks: dict[bytes, set[str]] = {}
    for claim in claims:
        tasks.setdefault(claim.canonical, set()).add(claim.task)
    most = max(len(voices) for voices in tasks.values())
    if most < policy.n:
        return _none(claims, f"no value has {policy.n} tasks; the most that one has is {most}")
    leading = [claim for claim in claims if len(tasks[claim.canonical]) == most]
    if leading[0].canonical != leading[-1].canonical:
        return _none(claims, f"more than one value has {most} tasks, and none has more")
    every = len({claim.task for claim in claims})
    return _won(
        leading[0], claims, lambda loser: f"has {len(tasks[loser.canonical])} of {every} tasks; the fact has {most}"
    )


def _median(_: Merge, claims: list[_Claim]) -> Merged:
    if odd := _not_of(claims, int, float):
        return _none(claims, f"{odd}; a median takes numbers")
    ranked = sorted(claims, key=lambda claim: claim.said.value)
    middle = ranked[(len(ranked) - 1) // 2]
    winner = next(claim for claim in claims if claim.canonical == middle.canonical)

    def reason(loser: _Claim) -> str:
        if loser.said.value == winner.said.value:
            return "the same number, written otherwise"
        return f"{'below' if loser.said.value < winner.said.value else 'above'} the median"

    return _won(winner, claims, reason)


# --- policies that make a value of the claims -------------------------------------------------------------------------


def _union(_: Merge, claims: list[_Claim]) -> Merged:
    if odd := _not_of(claims, list):
        return _none(claims, f"{odd}; a union takes lists")
    items: dict[bytes, Any] = {}
    for claim in sorted(claims, key=_name):
        for item in claim.said.value:
            items.setdefault(canonical(item), item)
    return _made([items[key] for key in sorted(items)], claims, lambda _: "part of the union")


def _concat(_: Merge, claims: list[_Claim]) -> Merged:
    values = [claim.said.value for claim in sorted(claims, key=_name)]
    if not _not_of(claims, str):
        return _made("".join(values), claims, lambda _: "part of the whole")
    if odd := _not_of(claims, list):
        return _none(claims, f"{odd}; lists go together, and texts do")
    return _made([item for value in values for item in value], claims, lambda _: "part of the whole")


def _not_of(claims: list[_Claim], *types: type) -> str:
    """Which claim has a value of another type, else empty. A truth value is no number."""
    odd = [claim for claim in sorted(claims, key=_name) if type(claim.said.value) not in types]
    return f"{odd[0].by} claims {_KINDS[type(odd[0].said.value)]}" if odd else ""


_KINDS: dict[type, str] = {
    **{type(None): "null", bool: "a truth value", int: "a number", float: "a number"},
    **{str: "a text", list: "a list", dict: "an object"},
}


def _bids(policy: Merge, claims: list[_Claim]) -> Merged:
    """Who can do it, best score first. Nobody is an answer too."""
    rating = msgspec.convert(policy.arguments, Rating)
    ranked: list[dict[str, Any]] = []
    unfit: dict[str, str] = {}
    for claim in claims:
        bid = _bid(claim.said.value)
        if bid is None or not bid.can:
            unfit[claim.task] = "cannot do it" if bid else "is no bid"
        elif not math.isfinite(score := rating.score(bid)):
            unfit[claim.task] = "its score is not finite"
        else:
            said = {"confidence": bid.confidence, "micro_usd": bid.micro_usd, "seconds": bid.seconds}
            ranked.append({"by": claim.by, "score": score, **said})
    ranked.sort(key=lambda row: (-row["score"], row["by"]))
    first = {row["by"] for row in ranked[:BIDS_LIMIT]}

    def reason(loser: _Claim) -> str:
        placed = "part of the ranking" if loser.by in first else f"comes after the first {BIDS_LIMIT}"
        return unfit.get(loser.task, placed)

    return _made(ranked[:BIDS_LIMIT], claims, reason)


def _bid(value: Any) -> Bid | None:
    try:
        return msgspec.convert(value, Bid)
    except msgspec.ValidationError:
        return None


_POLICIES: dict[str, Callable[[Merge, list[_Claim]], Merged]] = {
    **{"only": _only, "reject": _only, "reconcile": _only, "first": _first, "newest": _newest},
    **{"highest_confidence": _highest_confidence, "priority": _priority, "quorum": _quorum, "median": _median},
    **{"union": _union, "concat": _concat, BIDS: _bids},
}


# --- installed policies -----------------------------------------------------------------------------------------------


class Value(Struct, frozen=True):
    """What an installed policy answers when it makes a value of its own: JSON, VALUE_LIMIT bytes at most."""

    value: Any


class Nothing(Struct, frozen=True):
    """What an installed policy answers when there is to be no value, and why."""

    reason: str


class Policy(Struct, frozen=True):
    """A merge policy to be installed: an entry point of the group `blackboard.policies`, named as the policy.

    `function(claims, arguments)` answers with one of the claims, which wins, with a Value or with Nothing. It gets
    copies: at least one claim, by specialist and then task, with `arrival` in the order in which the tasks ended, and
    the arguments of the playbook. It is pure: no clock, random, I/O, set or hash order, nothing remembered. What the
    same claims lead to never changes under one `version`. Raises ValueError where this cannot be a policy.
    """

    name: str
    version: int
    function: Callable[[list[Candidate], dict[str, Any]], Candidate | Value | Nothing]
    arrival: bool = False

    def __post_init__(self) -> None:
        if not (isinstance(self.name, str) and len(self.name) <= 64 and re.fullmatch(POLICY_PATTERN, self.name)):
            raise ValueError(f"{self.name!r:.80} is no name of a policy")
        if self.name in _POLICIES:
            raise ValueError(f"`{self.name}` is built in and stays as it is; choose another name")
        if type(self.version) is not int or self.version < 1:
            raise ValueError(f"version {self.version!r:.80} of `{self.name}` is no whole number from 1 on")
        if not callable(self.function) or inspect.iscoroutinefunction(self.function):
            raise ValueError(f"`{self.name}` has no plain function to call")


def _by_installed(policy: Merge, claims: list[_Claim], view: View) -> Merged:
    """What an installed policy says, asked twice: of one that draws lots or remembers, most are found out here."""
    installed: Policy | None = view.policy(policy.policy, policy.version)
    if installed is None:
        raise PolicyMissing(
            f"the policy `{policy.policy}` version {policy.version} is not installed beside this supervisor; install a "
            "package that offers it, and start the supervisor again"
        )
    says, again = (_said(installed, policy, claims) for _ in range(2))
    if _answer(says) != _answer(again):
        return _none(claims, f"`{policy.policy}` version {policy.version} says something else each time")
    return says


def _answer(merged: Merged) -> tuple[bool, str, bytes, str]:
    return merged.found, merged.winner.task if merged.winner else "", canonical(merged.value), merged.reason


def _said(installed: Policy, policy: Merge, claims: list[_Claim]) -> Merged:
    """One answer; an error or nonsense is no value. Texts of errors differ between releases, so they are not told."""
    ranked = sorted(claims, key=lambda claim: (claim.said.order if installed.arrival else 0, *_name(claim)))
    given = [replace(claim.said, value=_copy(claim.said.value)) for claim in ranked]
    if not installed.arrival:
        given = [replace(claim, order=0) for claim in given]
    who = f"`{policy.policy}` version {policy.version}"
    try:
        answer = installed.function(list(given), _copy(policy.arguments))
        match answer:
            case Candidate():
                won = next((own for own, copy in zip(ranked, given, strict=True) if copy is answer), None)
                if won:
                    return _won(won, claims, lambda _: f"{who} takes another claim")
                problem = "answers with a claim that it was not given"
            case Value(value):
                foreign = unstorable(value) or _not_json(value)
                if not foreign:
                    return _made(value, claims, lambda _: f"{who} makes another value")
                problem = f"makes {foreign}"
            case Nothing(str(reason)) if reason and not unstorable(reason):
                return _none(claims, f"{who}: {reason[:REASON_LIMIT]}")
            case _:
                problem = "answers with neither a claim nor Value(...) nor Nothing(reason)"
    except (Exception, SystemExit) as error:
        problem = f"raises {type(error).__name__[:80]}"
    return _none(claims, f"{who} {problem}")


def _copy(value: Any) -> Any:
    return msgspec.json.decode(encode(value))


def _not_json(value: Any) -> str:
    """What in a value is none of JSON's own types, else empty."""
    if type(value) is dict:
        if problem := next((problem for key in value if (problem := _no_key(key))), ""):
            return problem
        inner = list(value.values())
    elif type(value) is list:
        inner = value
    else:
        return "" if type(value) in _KINDS else f"a {type(value).__name__[:80]}"
    return next((problem for item in inner if (problem := _not_json(item))), "")


def _no_key(key: Any) -> str:
    return unstorable(key) if type(key) is str else "a key that is no text"
