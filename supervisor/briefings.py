"""Briefings: what whoever is asked for a plan is told beside the input of the step: of whom it may be made, what
expressions can name, what is left of the budget, why the plan before was refused. Never what went on in the run.

Pure. Which contracts is decided when the attempt is given out, and stands in its event; what they say is on the log
already, so a task message is the same whenever it is derived.
"""

import json
from collections.abc import Callable
from typing import Any

import msgspec

from projections.bookings import rest
from projections.canonical import State, TaskState
from schemas.catalogue import View
from schemas.codec import VALUE_LIMIT, encode
from schemas.contracts import Contract
from schemas.expressions import path, reads
from schemas.proposals import PROPOSAL_LIMIT
from schemas.steps import PlanStep, Voice
from schemas.usage import Limits
from supervisor.documents import visible
from supervisor.policy import is_open, lacks, least
from supervisor.proposals import may_ask_for, where

OFFERS_LIMIT = 100
"""Contracts of which one briefing tells."""
OFFERS_BYTES = 48 * 1024
"""Bytes of what it tells of them."""
SCHEMA_BYTES = 4 * 1024
"""Bytes of one schema that is shown."""
DESCRIPTION_CHARACTERS = 500
KNOWN_LIMIT = 500
"""Names for expressions of which one briefing tells."""
BRIEFING_BYTES = OFFERS_BYTES + 2 * PROPOSAL_LIMIT + 2 * VALUE_LIMIT
"""Bytes that a briefing adds to a task message, at most."""

ContractAt = Callable[[int], Contract | None]
"""The contract at a sequence of the log."""


def told_of(step: PlanStep, state: State, view: View) -> tuple[tuple[Voice, ...], int]:
    """Of whom a plan may be made, by name, as far as there is room; and how many more there are."""
    assert step.plans is not None
    found: list[Voice] = []
    size = more = 0
    for contract in view.contracts():
        offers = any(may_ask_for(step, capability) for capability in contract.offers)
        if not offers or is_open(state, contract.specialist) or lacks(contract, where(step.plans, gated=True)):
            continue
        size += len(encode(_offer(step, contract)))
        in_force = view.contract(contract.specialist)
        if in_force is None or size > OFFERS_BYTES or len(found) == OFFERS_LIMIT:
            more += 1
        else:
            found.append(Voice(contract.specialist, in_force[0]))
    return tuple(found), more


def _offer(step: PlanStep, contract: Contract) -> dict[str, Any]:
    """See schemas.proposals.Offer."""
    return {
        "specialist": contract.specialist,
        "description": contract.description[:DESCRIPTION_CHARACTERS],
        "offers": [capability for capability in contract.offers if may_ask_for(step, capability)],
        "authority": contract.authority,
        "input": _shown(contract.input),
        "output": _shown(contract.output),
        "budget": contract.budget.model_dump(),
        "micro_usd": contract.typical_micro_usd,
        "seconds": contract.typical_s,
    }


def _shown(schema: dict[str, Any]) -> dict[str, Any] | None:
    return schema if len(encode(schema)) <= SCHEMA_BYTES else None


def budget_for(state: State, step: PlanStep, asking: Limits) -> Limits:
    """What the planned steps may use together, once the attempt at the plan has used all that it may use: `asking`."""
    assert step.plans is not None
    now = rest(state)
    pairs = ((name, getattr(now, name), getattr(asking, name)) for name in Limits.__struct_fields__)
    after = {name: None if there is None else max(0, there - (own or 0)) for name, there, own in pairs}
    return least(Limits(**after), step.plans.budget)


def planning(step: PlanStep, state: State, task: TaskState, contract_at: ContractAt) -> dict[str, Any]:
    """See schemas.proposals.Planning."""
    assert step.plans is not None
    told, refused = task.briefing, task.refused
    contracts = [contract_at(voice.contract) for voice in told.contracts] if told else []
    previous = refused.value if refused else None
    return {
        "offers": [_offer(step, contract) for contract in contracts if contract],
        "left_out": told.left_out if told else 0,
        "known": _known(step, state, task.read_version),
        "facts": f"facts.{_short(step.plans.facts)}",
        "steps": step.plans.steps,
        "budget": msgspec.structs.asdict(told.budget if told else Limits()),
        "refused": list(refused.reasons) if refused else [],
        "previous": previous if len(encode(previous)) <= PROPOSAL_LIMIT else None,
    }


def _known(step: PlanStep, state: State, at: int) -> list[str]:
    """What expressions of planned steps can name: fields of the goal's input, and facts."""
    facts = visible(state, step, at if state.replaced else None)
    inputs = (f"input.{reads(name) or json.dumps(name)}" for name in state.input)
    names = [*inputs, *(f"facts.{_short(key)}" for key in facts)]
    told: list[str] = []
    room = VALUE_LIMIT
    for name in names[:KNOWN_LIMIT]:
        room -= len(encode(name))
        if room < 0:
            break
        told.append(name)
    return told


def _short(key: str) -> str:
    return reads(key) or path(key)
