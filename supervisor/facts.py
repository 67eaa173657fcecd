"""Facts: a value is committed under a key, or it is said that there is none, with all that follows from either.

Pure. A fact may wake specialists whose contracts ask for it; a key without a value ends the run, unless its step may be
missed, or the playbook has other steps that take its place.
"""

from typing import Any

from msgspec import UNSET, Struct
from msgspec.structs import replace

from projections.canonical import State
from schemas import events as e
from schemas.codec import VALUE_LIMIT, encode
from schemas.contracts import Contract
from schemas.expressions import BadExpression
from schemas.plan_events import PlanExtended
from schemas.plans import planned
from schemas.playbooks import Playbook
from schemas.steps import Merge, PlanStep
from schemas.subjects import key_matches
from schemas.taint import Labels
from supervisor.draft import Draft

WOKEN_LIMIT = 100
"""Steps of one run that facts may add by waking specialists."""
WOKEN = "woken"
"""First segment of the keys under which woken specialists claim."""

REFUSED = "PLAN_REFUSED"
"""The code of a run that ends because its plans were refused."""


class Value(Struct, frozen=True):
    """A value to be committed: who claimed it, in which task, what else was claimed, who declined, and the keys of
    newer facts that the claim does not know of; `taint`: the labels of what it may rest on."""

    value: Any
    policy: Merge
    task: str = ""
    by: str = ""
    losers: tuple[e.Loser, ...] = ()
    declined: tuple[e.Declined, ...] = ()
    stale: tuple[str, ...] = ()
    taint: Labels = ()


def commit(draft: Draft, step: PlanStep, key: str, value: Value) -> None:
    """Raises BadExpression where the key is another step's."""
    if other := _decided_by(draft, step, key):
        lost = (e.Loser(value.task, value.by, value.value, f"{other!r} took the place of {step.id!r}"),)
        lack(draft, step, key, "LOW_CONFIDENCE", lost[0].reason, value.losers + lost, value.declined)
        return
    before = draft.state.facts.get(key)
    draft.emit(
        e.FactCommitted,
        step=step.id,
        key=key,
        value=value.value,
        task=value.task,
        by=value.by,
        policy=value.policy.policy,
        losers=value.losers,
        declined=value.declined,
        policy_version=value.policy.version,
        stale=value.stale,
        replaces=before.version if before else 0,
        taint=value.taint or UNSET,
    )
    _wake(draft, step, key)


def decided(draft: Draft, step: PlanStep, key: str, value: Any, by: str, policy: str, taint: Labels = ()) -> None:
    """A fact that no task claims: a person's answer, or the value of an expression. None is no value."""
    if value is None:
        lack(draft, step, key, "LOW_CONFIDENCE", "the answer is nothing")
    elif len(encode(value)) > VALUE_LIMIT:
        lack(draft, step, key, "INVALID_OUTPUT", f"the value is over {VALUE_LIMIT} bytes")
    else:
        commit(draft, step, key, Value(value, Merge(policy), by=by, taint=taint))


def lack(
    draft: Draft,
    step: PlanStep,
    key: str,
    code: e.StopCode,
    message: str,
    losers: tuple[e.Loser, ...] = (),
    declined: tuple[e.Declined, ...] = (),
    final: bool = False,
) -> None:
    """There is no value for a key; with `final` the run ends of it, whatever its playbook says. Raises BadExpression
    where the key is another step's."""
    _decided_by(draft, step, key)
    draft.emit(
        e.FactMissing, step=step.id, key=key, code=code, message=message[:1000], losers=losers, declined=declined
    )
    reason = f"no value for {key}: {message}"
    if final:
        draft.fail(code, reason)
        return
    if draft.state.steps[step.id].revised or _replan(draft, step, reason[:1000]):
        return
    if step.missing == "fail":
        draft.fail(REFUSED if _plans_refused(draft.state, step) else code, reason)


def _plans_refused(state: State, step: PlanStep) -> bool:
    """Whether a step has no plan because no more may be proposed."""
    task = state.tasks.get(step.id)
    return bool(step.plans and task and task.refused and task.refused.number >= step.plans.proposals)


def _decided_by(draft: Draft, step: PlanStep, key: str) -> str:
    """The step that has decided the key instead of this one, whose place it took; empty where the key is free, or this
    step replaces what others decided. Raises BadExpression where it must not be decided twice."""
    holder = holder_of(draft.state, key)
    if not holder or (holder != step.id and step.replaces):
        return ""
    if holder != step.id and draft.state.steps[step.id].revised:
        return holder
    raise BadExpression(f"step {step.id!r} names the key {key!r}, which another step has decided")


def holder_of(state: State, key: str) -> str:
    """The step that has decided a key; empty while it is free, also of a value that a step did not come to whose place
    others took."""
    if fact := state.facts.get(key):
        return fact.step
    missing = state.missing.get(key)
    return missing.step if missing and not state.steps[missing.step].revised else ""


def _replan(draft: Draft, step: PlanStep, reason: str) -> bool:
    """Whether other steps of the playbook have taken the place of `step`."""
    playbook = draft.view.playbook_at(draft.state.playbook)
    replan = next((one for one in playbook.replans if one.step == step.id), None) if playbook else None
    taken = sum(one.revised for one in draft.state.steps.values())  # specialists that were woken are no replans
    if playbook is None or replan is None or taken >= playbook.revisions:
        return False
    _revise(draft, planned(replan.steps), reason, step.id)
    return True


def _wake(draft: Draft, step: PlanStep, key: str) -> None:
    """Give a task to each who is to be woken by the fact under `key`. Who may change the world is not: nobody would
    have approved it."""
    playbook = draft.view.playbook_at(draft.state.playbook)
    if playbook is None or not playbook.wakes or draft.state.ending or key.startswith(f"{WOKEN}."):
        return
    for contract in draft.view.contracts():
        woken = sum(one.origin.startswith(f"{WOKEN}.") for one in draft.state.plan)
        wanted = contract.authority != "effect" and any(key_matches(pattern, key) for pattern in contract.wakes_on)
        if wanted and woken < WOKEN_LIMIT:
            made = _woken(contract, key, _free_number(draft, playbook, woken + 1))
            _revise(draft, (made,), f"{key} wakes {contract.specialist}")


def _free_number(draft: Draft, playbook: Playbook, number: int) -> int:
    """The next number whose step has a name that neither the plan has nor what may still come into it."""
    replans = (step for replan in playbook.replans for step in planned(replan.steps))
    taken = {*draft.state.steps, *(step.id for step in replans)}
    while f"{WOKEN}_{number}" in taken:
        number += 1
    return number


def _woken(contract: Contract, key: str, number: int) -> PlanStep:
    path = ".".join(f'"{segment}"' for segment in key.split("."))
    return PlanStep(
        id=f"{WOKEN}_{number}",
        origin=f"{WOKEN}.{contract.specialist}",
        capability=contract.offers[0],
        specialist=contract.specialist,
        input={"key": f"'{key}'", "value": f"facts.{path}"},
        sees=(key,),
        fact=f"{WOKEN}.{contract.specialist}.{number}",
        missing="allow",
    )


def _revise(draft: Draft, steps: tuple[PlanStep, ...], reason: str, instead_of: str = "") -> None:
    number, steps = draft.state.revisions + 1, tuple(_after_plans(draft.state, step) for step in steps)
    draft.emit(e.PlanRevised, number=number, steps=steps, reason=reason, instead_of=instead_of)


def _after_plans(state: State, step: PlanStep) -> PlanStep:
    """The step, which needs what was planned by those that it needs."""
    planned = [one.id for one in state.plan if one.planned_by and one.planned_by in step.needs]
    return replace(step, needs=(*step.needs, *planned)) if planned else step


def extend(draft: Draft, step: PlanStep, task: str, by: str, planned: tuple[PlanStep, ...]) -> None:
    """The steps that were planned are part of the plan, before any of them is dispatched."""
    if not draft.state.over:
        number = draft.state.revisions + 1
        draft.emit(PlanExtended, number=number, step=step.id, task=task, by=by, steps=planned)
