"""Steps of a plan, as a run commits them: plain data, made of what a playbook says (schemas.playbooks, schemas.plans).

Pure.
"""

from typing import Any, Literal

from msgspec import Struct

from schemas.grants import Grant
from schemas.usage import Limits


class Merge(Struct, frozen=True, omit_defaults=True):
    """The named, versioned policy that decides between claims for one key. `order` belongs to `priority`, `n` to
    `quorum`, `specialist` to `reconcile`, `arguments` to installed policies."""

    policy: str = "only"
    order: tuple[str, ...] = ()
    version: int = 1
    n: int = 0
    specialist: str = ""
    arguments: dict[str, Any] = {}


class GatePlan(Struct, frozen=True, omit_defaults=True):
    """A step that needs a person's approval first, or with a `schema` a person's answer. `ask` is the question, `who`
    may answer (none: anybody); it expires after `expires_ms`."""

    ask: str = ""
    expires_ms: int = 7 * 86_400_000
    who: tuple[str, ...] = ()
    schema: dict[str, Any] | None = None


class Grants(Struct, frozen=True, omit_defaults=True):
    """Names of tools, and scopes of tools; `*` is any."""

    tools: tuple[str, ...] = ()
    scopes: tuple[str, ...] = ()


class PlanGrant(Struct, frozen=True, omit_defaults=True):
    """What the plan that a step proposes may hold. See schemas.playbooks.Plans; `facts` are the first segments of the
    keys of the planned steps."""

    facts: str
    steps: int
    proposals: int
    capabilities: tuple[str, ...] = ()
    authority: Literal["observe", "propose", "effect"] = "propose"
    only: Grants = Grants()
    budget: Limits = Limits()
    gate: GatePlan = GatePlan()
    missing: Literal["plan", "allow"] = "plan"


class Where(Struct, frozen=True, omit_defaults=True):
    """What a contract must promise to be given a step: typical price and time of a task at most, scopes of its tools,
    authority at most. `prefer`: who of several comes first. `only` are the tools and scopes that a contract may have at
    most (None: any)."""

    micro_usd: int | None = None
    latency_ms: int | None = None
    scopes: tuple[str, ...] = ()
    authority: Literal["observe", "propose", "effect"] = "propose"
    prefer: Literal["name", "cost", "latency"] = "name"
    only: Grants | None = None


class Backoff(Struct, frozen=True):
    """The delay before another attempt: `base_ms`, doubled each time, `max_ms` at most; half of it is jitter."""

    base_ms: int
    max_ms: int


class PlanStep(Struct, frozen=True, omit_defaults=True):
    """One step of a plan, as committed. See schemas.playbooks.Step for what each field means to its author. `origin` is
    the name of the step of the playbook that this one was made of, where it is not its own; `bid` asks for bids instead
    of results; `route` is an expression that names the specialists, first choice first; `sees` are
    keys of facts that the step sees whether or not it needs their steps; `grant` narrows what its tasks may call. A
    step with `plans` proposes further ones; one that was proposed names the step that did (`planned_by`). `undo` is the
    key of an effect that the step undoes."""

    id: str
    needs: tuple[str, ...] = ()
    capability: str = ""
    team: str = ""
    specialist: str = ""
    when: str = ""
    for_each: str = ""
    tasks: int = 256
    input: dict[str, str] = {}
    reads: tuple[str, ...] = ()
    fact: str = ""
    merge: Merge = Merge()
    accept: str = ""
    missing: Literal["fail", "allow"] = "fail"
    silent: tuple[str, ...] = ()
    wait_ms: int = 60_000
    work_ms: int | None = None
    attempts: int | None = None
    await_ms: int = 3_600_000
    gate: GatePlan | None = None
    origin: str = ""
    value: str = ""
    question: GatePlan | None = None
    route: str = ""
    bid: bool = False
    where: Where = Where()
    fallback: tuple[str, ...] = ()
    budget: Limits = Limits()
    backoff: Backoff | None = None
    stale: Literal["commit", "mark", "again"] = "commit"
    replaces: bool = False
    sees: tuple[str, ...] = ()
    hand_to: tuple[str, ...] = ()
    handoffs: int = 3
    grant: Grant | None = None
    plans: PlanGrant | None = None
    planned_by: str = ""
    undo: str = ""


class Voice(Struct, frozen=True, omit_defaults=True):
    """A specialist (or team, for child runs) that takes part in a step; `contract` is the sequence of its contract."""

    specialist: str
    contract: int = 0
