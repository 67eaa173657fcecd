"""Plans: the steps of a playbook in the form in which a run commits them.

Pure. What a playbook says in one step may be several in the plan, made of the same parts: an open call is a step that
collects bids and one that is routed by them; propose and critique is a pair of steps for each round.
"""

from msgspec.structs import replace

from schemas.expressions import path
from schemas.playbooks import Critique, Gate, MergePolicy, Plans, Playbook, Question, Step, facts_of
from schemas.steps import Backoff, GatePlan, Grants, Merge, PlanGrant, PlanStep, Where

BACKOFF_MAX_MS = 60_000
"""The longest delay where a step sets the first one."""
BIDS = "bids"
"""The merge policy that ranks bids; it belongs to open calls and cannot be chosen by a step."""


def plan_steps(playbook: Playbook) -> tuple[PlanStep, ...]:
    return planned(playbook.steps)


def planned(steps: list[Step]) -> tuple[PlanStep, ...]:
    return tuple(made for step in steps for made in _made(step))


def _made(step: Step) -> list[PlanStep]:
    plain = _plan_step(step)
    if step.critique:
        return _rounds(plain, step.critique, _bids(plain, step) if step.call else None)
    if step.call:
        bids = _bids(plain, step)
        return [bids, _granted(plain, bids)]
    return [plain]


# --- open calls -------------------------------------------------------------------------------------------------------


def _bids(plain: PlanStep, step: Step) -> PlanStep:
    """The step that collects bids: a task of the kind `bid` for each who may do the work. Nobody has to answer."""
    assert step.call is not None
    arguments = {"confidence": step.call.confidence, "usd": step.call.usd, "seconds": step.call.seconds}
    return PlanStep(
        id=f"{plain.id}_bids",
        origin=plain.id,
        needs=plain.needs,
        capability=plain.capability,
        specialist="all",
        when=plain.when,
        input=plain.input,
        fact=f"{plain.id}_bids",
        merge=Merge(BIDS, arguments=arguments),
        missing="allow",
        wait_ms=0,  # a bid is due in `bids_s`, whenever its bidder begins
        work_ms=round(step.call.bids_s * 1000),
        attempts=1,
        await_ms=plain.await_ms,
        bid=True,
        budget=step.call.budget.limits(),
        where=plain.where,
        grant=plain.grant,
    )


def _granted(plain: PlanStep, bids: PlanStep) -> PlanStep:
    return replace(plain, needs=(*plain.needs, bids.id), route=f"facts.{path(bids.fact)}[].by")


# --- propose and critique ---------------------------------------------------------------------------------------------


def _rounds(plain: PlanStep, critique: Critique, bids: PlanStep | None) -> list[PlanStep]:
    """Pairs of proposal and review, each skipped once one was accepted; then the fact that the others name."""
    made = [bids] if bids else []
    pairs: list[str] = []
    for number in range(1, critique.rounds + 1):
        propose, review = f"{plain.id}_{number}", f"{plain.id}_review_{number}"
        before = pairs[-1] if pairs else ""
        refused = f"{before} | (proposal != `null` && critique != `null` && !({critique.accept}))"
        earlier = {"previous": f"{before}.proposal", "critique": f"{before}.critique"} if before else {}
        proposal = replace(
            plain,
            id=propose,
            origin=plain.id,
            needs=(*plain.needs, *((f"{plain.id}_review_{number - 1}",) if before else ())),
            when=refused if before else plain.when,
            input=plain.input | earlier,
            fact=propose,
            missing="allow",
        )
        made.append(_granted(proposal, bids) if bids else proposal)
        made.append(
            PlanStep(
                id=review,
                origin=f"{plain.id}_review",
                needs=(*plain.needs, propose),
                capability=critique.capability,
                specialist=critique.specialist,
                when=f"facts.{path(propose)} != `null`",
                input=critique.input | {"proposal": f"facts.{path(propose)}"},
                fact=review,
                missing="allow",
                wait_ms=plain.wait_ms,
                await_ms=plain.await_ms,
                grant=plain.grant,
            )
        )
        pairs.append(f"{{proposal: facts.{path(propose)}, critique: facts.{path(review)}}}")
    accepted = f"[{', '.join(pairs)}][?critique != `null` && ({critique.accept})] | [-1].proposal"
    made.append(
        PlanStep(
            id=plain.id,
            needs=(*plain.needs, *(step.id for step in made)),
            when=plain.when,
            value=accepted,
            fact=plain.fact,
            missing=plain.missing,
            replaces=plain.replaces,
        )
    )
    return made


# --- one step ---------------------------------------------------------------------------------------------------------


def _plan_step(step: Step) -> PlanStep:
    backoff_ms = None if step.backoff_s is None else round(step.backoff_s * 1000)
    return PlanStep(
        id=step.id,
        needs=tuple(step.needs),
        capability=step.capability,
        team=step.team,
        specialist=step.specialist,
        when=step.when,
        for_each=step.for_each,
        tasks=step.tasks,
        input=step.input,
        reads=tuple(step.reads),
        fact=step.fact or (f"{step.id}.{{index}}" if step.for_each else step.id),
        merge=_merge(step.merge),
        accept=step.accept,
        missing=step.missing,
        silent=tuple(step.silent),
        wait_ms=round(step.wait_s * 1000),
        work_ms=None if step.deadline_s is None else round(step.deadline_s * 1000),
        attempts=step.attempts,
        await_ms=round(step.await_s * 1000),
        gate=_gate(step.gate),
        value=step.value,
        question=_gate(step.question),
        route=step.route,
        where=_where(step),
        fallback=tuple(step.fallback),
        budget=step.budget.limits(),
        backoff=None if backoff_ms is None else Backoff(backoff_ms, max(backoff_ms, BACKOFF_MAX_MS)),
        stale=step.stale,
        replaces=step.replaces,
        hand_to=tuple(step.hand_to),
        handoffs=step.handoffs,
        grant=step.grant.grant() if step.grant else None,
        plans=None if step.plans is None else _grant(step.id, step.plans),
    )


def _grant(step: str, plans: Plans) -> PlanGrant:
    return PlanGrant(
        facts=facts_of(step, plans),
        steps=plans.steps,
        proposals=plans.proposals,
        capabilities=tuple(plans.capabilities),
        authority=plans.authority,
        only=Grants(tuple(plans.tools), tuple(plans.scopes)),
        budget=plans.budget.limits(),
        gate=GatePlan(plans.gate.ask, round(plans.gate.expires_s * 1000), tuple(plans.gate.who)),
        missing=plans.missing,
    )


def _merge(merge: MergePolicy) -> Merge:
    return Merge(merge.policy, tuple(merge.order), merge.version, merge.n or 0, merge.specialist, merge.arguments)


def _gate(gate: Gate | None) -> GatePlan | None:
    if gate is None:
        return None
    schema = gate.answer if isinstance(gate, Question) else None
    return GatePlan(gate.ask, round(gate.expires_s * 1000), tuple(gate.who), schema)


def _where(step: Step) -> Where:
    """Without a gate a step does not go to somebody who may change the world."""
    where = step.where
    authority = "propose" if where.authority == "effect" and step.gate is None else where.authority
    latency_ms = None if where.latency_s is None else round(where.latency_s * 1000)
    return Where(where.micro_usd, latency_ms, tuple(where.scopes), authority, where.prefer)
