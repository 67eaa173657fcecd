"""Proposals: a plan that a specialist proposed becomes steps of the run, or is refused with reasons.

Pure. Judged as of the state and the catalogue below the input that brought it: who is there and may be given what the
step grants, names and keys that nobody has, number, budget, and what the steps read. What is granted travels with the
planned steps (`Where`), so it holds for whoever takes over later, too.
"""

from collections.abc import Iterator
from typing import Any, NamedTuple

from msgspec.structs import replace

from projections.bookings import DIMENSIONS, rest
from projections.canonical import State
from schemas.codec import encode
from schemas.contracts import Contract
from schemas.expressions import evaluate, reads
from schemas.playbooks import STEP_NAME_LIMIT, TASKS_LIMIT, made_of
from schemas.proposals import Proposal, ProposedStep, bounded, read_proposal
from schemas.steps import PlanGrant, PlanStep, Where
from schemas.subjects import is_key
from schemas.usage import Limits
from schemas.validation import violation
from supervisor.budget import WORDS
from supervisor.documents import visible
from supervisor.draft import Draft
from supervisor.policy import broken, is_open, lacks, least

WRITTEN_LIMIT = 80 * 1024
"""Bytes of the steps of one plan as they are committed."""


class _Doer(NamedTuple):
    """Who would do a planned step now: what it is asked for, and the contract of the first who offers that."""

    capability: str
    contract: Contract


def judged(draft: Draft, step: PlanStep, value: Any) -> tuple[PlanStep, ...] | list[str]:
    """The steps that the plan `value` of `step` adds to the run, or why it adds none."""
    proposal = read_proposal(value)
    if isinstance(proposal, list):
        return proposal
    judge = _Judge(draft, step, proposal)
    if flaws := bounded(list(judge.flaws())):
        return flaws
    planned = tuple(map(judge.planned, proposal.steps))
    if (size := len(encode(planned))) > WRITTEN_LIMIT:
        return [f"the plan has {size} bytes when it is written out; the limit is {WRITTEN_LIMIT}"]
    return planned


def where(grant: PlanGrant, gated: bool) -> Where:
    """What a contract may have at most to be given a planned step. Who may change the world is asked about first."""
    authority = "propose" if grant.authority == "effect" and not gated else grant.authority
    return Where(authority=authority, only=grant.only)


def may_ask_for(step: PlanStep, capability: str) -> bool:
    """Whether a planned step may ask for it: what is granted, and never for another plan."""
    granted = step.plans.capabilities if step.plans else ()
    return capability != step.capability and (capability in granted or not granted)


class _Judge:
    """Looks at one proposal whose form is right."""

    def __init__(self, draft: Draft, step: PlanStep, proposal: Proposal) -> None:
        assert step.plans is not None
        self._state, self._view, self._step, self._grant = draft.state, draft.view, step, step.plans
        self._steps = proposal.steps
        self._by_name = {one.id: one for one in proposal.steps}
        self._keys = {one.id: f"{step.plans.facts}.{one.named}" for one in proposal.steps}
        self._doers: dict[str, _Doer] = {}

    def planned(self, one: ProposedStep) -> PlanStep:
        """As the run commits it. Only of a proposal without flaws."""
        doer, gate = self._doers[one.id], self._grant.gate
        return PlanStep(
            id=self._name(one),
            needs=(self._step.id, *(self._name(self._by_name[need]) for need in one.after)),
            capability=doer.capability,
            specialist=one.specialist,
            input={given.field: given.as_expression(self._keys) for given in one.input},
            fact=self._keys[one.id],
            missing="allow" if self._grant.missing == "allow" else one.missing,
            wait_ms=self._step.wait_ms,
            await_ms=self._step.await_ms,
            gate=replace(gate, ask=": ".join(filter(None, (gate.ask, one.gate)))) if one.gate else None,
            where=where(self._grant, bool(one.gate)),
            grant=self._step.grant,
            budget=_limits(one, doer.contract),
            planned_by=self._step.id,
        )

    def flaws(self) -> Iterator[str]:
        """What is wrong; of money nothing is said before the rest is right."""
        found = [*self._too_many(), *self._taken()]
        for one in self._steps:
            doer = self._doer(one)
            problems = [doer] if isinstance(doer, str) else [*_unfit(one, doer.contract), *self._unread(one)]
            found += [f"step {one.id!r}: {problem}" for problem in problems]
        yield from found or self._unpaid()

    def _name(self, one: ProposedStep) -> str:
        return f"{self._step.id}_{one.id}"

    def _too_many(self) -> Iterator[str]:
        if (count := len(self._steps)) > self._grant.steps:
            yield f"the plan has {count} steps; {self._grant.steps} at most"
        if (tasks := len(self._state.tasks)) + count > TASKS_LIMIT:
            yield f"the run has {tasks} tasks and would have {count} more; {TASKS_LIMIT} at most"

    # -- names and keys --

    def _taken(self) -> Iterator[str]:
        playbook = self._view.playbook_at(self._state.playbook)
        replans = [step for replan in playbook.replans for step in replan.steps] if playbook else []
        there = {*self._state.steps, *(name for step in replans for name in made_of(step))}
        every = there | {self._name(one) for one in self._steps}
        like_tasks = {head for name in every if (head := _numbered(name))}
        keys = _keys_of(self._state)
        for one in self._steps:
            name, key = self._name(one), self._keys[one.id]
            if name in there:
                yield f"step {one.id!r}: the run has a step {name!r} already"
            elif len(name) > STEP_NAME_LIMIT or _numbered(name) in every or name in like_tasks:
                yield f"step {one.id!r}: choose a shorter name, or one that does not end in a hyphen and a number"
            if not is_key(key) or (holder := next((have for have in keys if _inside(have, key)), "")):
                yield f"step {one.id!r}: the key {key!r} " + (f"clashes with {holder!r}" if is_key(key) else "is none")

    # -- who does it --

    def _doer(self, one: ProposedStep) -> str | _Doer:
        """Who would do a step, or why nobody may."""
        found = self._named(one) if one.specialist else self._offering(one)
        if isinstance(found, _Doer):
            self._doers[one.id] = found
            return _wider(one, found.contract) or found
        return found

    def _named(self, one: ProposedStep) -> str | _Doer:
        name, in_force = one.specialist, self._view.contract(one.specialist)
        if in_force is None:
            return f"there is no specialist {name!r}"
        contract = in_force[1]
        allowed = [offered for offered in contract.offers if may_ask_for(self._step, offered)]
        capability = one.capability or next(iter(allowed), "")
        if one.capability and one.capability not in contract.offers:
            return f"{name} does not offer {one.capability!r}"
        if capability not in allowed:
            return f"a plan may not ask {name} for {capability or ' or '.join(contract.offers)!r} here"
        if problem := self._barred(contract, one):
            return f"{name} {problem}"
        return _Doer(capability, contract)

    def _offering(self, one: ProposedStep) -> str | _Doer:
        offering = self._view.offering(one.capability)
        if not offering:
            return f"nobody offers {one.capability!r}"
        if not may_ask_for(self._step, one.capability):
            return f"a plan may not ask for {one.capability!r} here"
        barred = {name: self._barred(contract, one) for name, _, contract in offering}
        fit = next((contract for name, _, contract in offering if not barred[name]), None)
        if fit:
            return _Doer(one.capability, fit)
        return f"nobody may do {one.capability!r} here: {'; '.join(f'{name} {why}' for name, why in barred.items())}"

    def _barred(self, contract: Contract, one: ProposedStep) -> str:
        """Why somebody may not do a step, in words; empty where it may."""
        if is_open(self._state, contract.specialist):
            return broken(self._state, contract.specialist)
        problem = lacks(contract, where(self._grant, bool(one.gate)))
        if problem and not one.gate and not lacks(contract, where(self._grant, gated=True)):
            return "may change the world, so a person has to be asked first: say what in `gate`"
        return problem

    # -- what it reads and costs --

    def _unread(self, one: ProposedStep) -> Iterator[str]:
        """Paths that lead nowhere."""
        known = [*visible(self._state, self._step), self._step.fact, *(self._keys[name] for name in self._before(one))]
        for given in one.input:
            read = reads(given.value) if given.kind == "expression" else ""
            first, _, below = read.partition(".")
            if first == "input" and evaluate(read, {"input": self._state.input}) is None:
                yield f"input {given.field!r}: {read!r} is nothing in this run"
            if first == "facts" and below and not any(_inside(key, below) for key in known):
                yield f"input {given.field!r}: {read!r} is no fact of a step that it needs"
            if first not in {"", "input", "facts", "claims", "missing"}:
                yield f"input {given.field!r}: {read!r} begins with neither `input` nor `facts`"

    def _before(self, one: ProposedStep) -> set[str]:
        """The steps of the plan that a step needs, directly or not."""
        found: set[str] = set()
        waiting = list(one.after)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += self._by_name[name].after
        return found

    def _unpaid(self) -> Iterator[str]:
        """Each step is counted once, though it may be tried again: the budget of the run holds for that, too."""
        shares = {one.id: _limits(one, self._doers[one.id].contract) for one in self._steps}
        available = least(rest(self._state), self._grant.budget)
        for name in DIMENSIONS:
            limit, granted = getattr(available, name), getattr(self._grant.budget, name)
            wanted = {step: getattr(share, name) for step, share in shares.items()}
            silent = [step for step, share in wanted.items() if share is None]
            if limit is None:
                continue
            if silent and granted is not None:
                yield f"step {silent[0]!r}: say how many {WORDS[name]} it may use; the contract does not"
            elif (total := sum(share or 0 for share in wanted.values()) + len(silent)) > limit:
                yield f"the steps may use {total} {WORDS[name]} together; {limit} are left"


def _numbered(name: str) -> str:
    """The step that a task of this name would belong to; empty where the name is not like one."""
    head, _, number = name.rpartition("-")
    return head if number.isascii() and number.isdigit() else ""


def _keys_of(state: State) -> list[str]:
    """The keys that are decided, and those that steps are sure to decide."""
    return [*state.facts, *state.missing, *(step.fact for step in state.plan if "{" not in step.fact)]


def _inside(one: str, other: str) -> bool:
    """Whether two keys are the same, or one lies inside the other."""
    return f"{one}.".startswith(f"{other}.") or f"{other}.".startswith(f"{one}.")


def _limits(one: ProposedStep, contract: Contract) -> Limits:
    """Of each limit the one that the plan sets, else that of the contract."""
    own, other = one.budget, contract.budget
    return Limits(*(getattr(other if getattr(own, name) is None else own, name) for name in DIMENSIONS))


def _wider(one: ProposedStep, contract: Contract) -> str:
    """Which limit is more than whoever does it promises to keep to."""
    for name in DIMENSIONS:
        own, most = getattr(one.budget, name), getattr(contract.budget, name)
        if own is not None and most is not None and own > most:
            return f"{own} {WORDS[name]} are more than {contract.specialist} may use, {most}"
    return ""


def _unfit(one: ProposedStep, contract: Contract) -> Iterator[str]:
    """What of an input whoever does the step does not take. Values that are not known yet are not looked at."""
    schema, given = contract.input, {field.field: field for field in one.input}
    who = contract.specialist
    required = schema.get("required", [])
    lacking = [name for name in required if name not in given] if isinstance(required, list) else []
    yield from (f"{who} needs the input {name!r}" for name in lacking)
    if schema.get("additionalProperties") is False:
        odd = sorted(set(given) - set(schema.get("properties", {})))
        yield from (f"{who} takes no input {name!r}" for name in odd)
    if not lacking and all(field.kind in {"text", "json"} for field in one.input):
        value = {name: evaluate(field.as_expression({}), {}) for name, field in given.items()}
        if problem := violation(schema, value):
            yield f"the input of {who}: {problem}"
