"""A merge policy: a vote in which some specialists have more weight than others, `{"weights": {"ann": 3}}`."""

from typing import Any

from schemas.codec import canonical
from supervisor.merge import Candidate, Nothing, Policy


def weighted(claims: list[Candidate], arguments: dict[str, Any]) -> Candidate | Nothing:
    """The value with the most weight behind it; who has no weight of their own has 1."""
    weights = arguments.get("weights", {})
    votes: dict[bytes, float] = {}
    for claim in claims:
        value = canonical(claim.value)
        votes[value] = votes.get(value, 0) + weights.get(claim.by, 1)
    most = max(votes.values())
    leading = [claim for claim in claims if votes[canonical(claim.value)] == most]
    if len({canonical(claim.value) for claim in leading}) > 1:
        return Nothing(f"no value has more weight than all others: {most:g} each")
    return leading[0]


WEIGHTED = Policy("weighted", version=1, function=weighted)
