"""Settling: from what the voices of a group said to a fact under each of its keys, or to its absence.

Pure. The policy of the step decides (`merge`); what did not win stays with the fact.
"""

from projections.canonical import TaskState, group_span, group_tasks
from schemas import events as e
from schemas.expressions import BadExpression, truth
from schemas.steps import PlanStep
from supervisor.documents import Work
from supervisor.draft import Draft
from supervisor.merge import Candidate, merge


def settle(draft: Draft, task: TaskState) -> None:
    """Decide the keys of a group when its last voice has ended. Raises BadExpression where another step came first."""
    state = draft.state.steps[task.step]
    names = group_tasks(task.step, state, task.group)
    if draft.state.end or any(draft.state.tasks[name].status != "ended" for name in names):
        return
    step = draft.state.step(task.step)
    work = draft.work(step)
    for index in group_span(state, task.group):
        if not draft.state.end:
            _settle_key(draft, step, work, names, index)


def _settle_key(draft: Draft, step: PlanStep, work: Work, names: list[str], index: int) -> None:
    key = work.key(index)
    if key in draft.state.facts or key in draft.state.missing:
        raise BadExpression(f"step {step.id!r} names the key {key!r}, which another step has decided")
    candidates, declined = _voices_on(draft, work, names, key, index)
    merged = merge(step.merge, candidates, draft.view)
    refusing = [voice for voice in declined if voice.code not in step.silent]
    if not merged.found or (refusing and step.missing == "fail"):
        voice = (refusing or declined or [e.Declined("", "", "LOW_CONFIDENCE", merged.reason)])[0]
        message = merged.reason if not declined else f"{voice.by}: {voice.message}"
        losers = merged.losers + (
            (e.Loser(merged.winner.task, merged.winner.by, merged.winner.value),) if merged.winner else ()
        )
        draft.emit(
            e.FactMissing,
            step=step.id,
            key=key,
            code=voice.code,
            message=message,
            losers=losers,
            declined=declined,
        )
        if step.missing == "fail":
            draft.fail(voice.code, f"no value for {key}: {message}")
        return
    draft.emit(
        e.FactCommitted,
        step=step.id,
        key=key,
        value=merged.value,
        task=merged.winner.task if merged.winner else "",
        by=merged.winner.by if merged.winner else "",
        policy=step.merge.policy,
        policy_version=step.merge.version,
        losers=merged.losers,
        declined=declined,
    )


def _voices_on(
    draft: Draft, work: Work, names: list[str], key: str, index: int
) -> tuple[list[Candidate], tuple[e.Declined, ...]]:
    """The claims for one key, and the voices that declined."""
    candidates: list[Candidate] = []
    declined: list[e.Declined] = []
    for name in names:
        task = draft.state.tasks[name]
        by = task.specialist
        candidates += [_candidate(work, name, by, claim, index) for claim in task.claims if claim.key == key]
        declined += [e.Declined(name, by, said.code, said.message) for said in task.silences if said.key == key]
        if task.code:
            declined.append(e.Declined(name, by, task.code, task.message))
    return candidates, tuple(declined)


def _candidate(work: Work, task: str, by: str, claim: e.Claim, index: int) -> Candidate:
    refused = ""
    if work.step.accept:
        scope = {"value": claim.value, "confidence": claim.confidence, "by": by}
        if not truth(work.accepts(index, scope)):
            refused = f"not accepted: {work.step.accept[:200]}"
    return Candidate(task, by, claim.value, claim.confidence, refused)
