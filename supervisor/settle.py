"""Settling: from what the voices of a group said to a fact under each of its keys, or to its absence.

Pure. The policy of the step decides (`merge`); what did not win stays with the fact.
"""

from projections.canonical import TaskState, group_span, group_tasks
from schemas import events as e
from schemas.expressions import BadExpression
from schemas.steps import PlanStep
from supervisor.candidates import voices_on
from supervisor.documents import Work
from supervisor.draft import Draft
from supervisor.facts import Value, commit, lack
from supervisor.merge import Merged, merge


def settle(draft: Draft, name: str) -> None:
    """Decide the keys of a group when the last of its voices, task `name`, has ended. Raises BadExpression where
    another step came first, PolicyMissing."""
    task = draft.state.tasks[name]
    if draft.state.end:
        return
    step = draft.state.step(task.step)
    if task.index >= 0:
        _reconciled(draft, step, name, task)
        return
    state = draft.state.steps[task.step]
    names = group_tasks(task.step, state, task.group)
    if step.merge.policy == "first":
        _drop_others(draft, step, names, task.group)
    if any(draft.state.tasks[one].status != "ended" for one in names):
        return
    work = draft.work(step)
    for index in group_span(state, task.group):
        if not draft.state.end:
            _settle_key(draft, step, work, names, index)


def _drop_others(draft: Draft, step: PlanStep, names: list[str], group: int) -> None:
    """Where the first claim wins, nobody waits for the others once there is one that the step accepts for each key."""
    work, span = draft.work(step), group_span(draft.state.steps[step.id], group)
    claimed = (voices_on(work, draft.state, names, index)[0] for index in span)
    if all(any(not candidate.refused for candidate in candidates) for candidates in claimed):
        for name in names:
            if draft.state.tasks[name].status != "ended":
                draft.emit(e.TaskDropped, task=name, reason="another claim came first")


def _settle_key(draft: Draft, step: PlanStep, work: Work, names: list[str], index: int) -> None:
    key = work.key(index)
    if key in draft.state.facts or key in draft.state.missing:
        by = draft.state.facts[key].step if key in draft.state.facts else draft.state.missing[key].step
        if not step.replaces or by == step.id:
            raise BadExpression(f"step {step.id!r} names the key {key!r}, which another step has decided")
    candidates, declined = voices_on(work, draft.state, names, index)
    merged = merge(step.merge, candidates, draft.view)
    if merged.conflict and step.merge.policy == "reconcile":
        _reconcile(draft, step, key, index, merged)
        return
    refusing = [voice for voice in declined if voice.code not in step.silent]
    if step.bid or (merged.found and not (refusing and step.missing == "fail")):
        winner = merged.winner
        task, by = (winner.task, winner.by) if winner else ("", "")
        stale = _stale(draft, step, work, task) if winner else ()
        value = Value(merged.value, step.merge, task, by, merged.losers, declined, stale)
        commit(draft, step, key, value)
        return
    _lack(draft, step, key, merged, refusing, declined)


def _lack(
    draft: Draft,
    step: PlanStep,
    key: str,
    merged: Merged,
    refusing: list[e.Declined],
    declined: tuple[e.Declined, ...],
) -> None:
    conflict = merged.reason if merged.conflict else ""
    code: e.StopCode = "LOW_CONFIDENCE"
    message = merged.reason
    if (voices := refusing or list(declined)) and not conflict:
        code, message = voices[0].code, f"{voices[0].by}: {voices[0].message}"
    losers = merged.losers
    if merged.winner:
        losers += (e.Loser(merged.winner.task, merged.winner.by, merged.winner.value),)
    lack(draft, step, key, code, message, losers, declined)
    if conflict and not draft.state.end:
        draft.fail(code, f"claims for {key} conflict: {conflict}")


def _stale(draft: Draft, step: PlanStep, work: Work, name: str) -> tuple[str, ...]:
    """The keys of newer facts that the claim of task `name` does not know of, where the step wants to know."""
    return () if step.stale == "commit" else tuple(work.changed(draft.state.tasks[name]))


# --- reconciling ------------------------------------------------------------------------------------------------------


def _reconcile(draft: Draft, step: PlanStep, key: str, index: int, merged: Merged) -> None:
    """Have a specialist decide between claims that differ, in a task of its own; `advance` gives it out."""
    contract = draft.view.contract(step.merge.specialist)
    if contract is None:
        message = f"{merged.reason}; {step.merge.specialist}, who should reconcile them, is not attached"
        lack(draft, step, key, "LOW_CONFIDENCE", message, merged.losers)
        return
    task = f"{step.id}-{draft.state.steps[step.id].tasks + index}"
    draft.emit(
        e.ConflictFound,
        step=step.id,
        key=key,
        index=index,
        task=task,
        specialist=step.merge.specialist,
        contract=contract[0],
    )
    draft.emit(e.TaskDelayed, task=task, delay_ms=0, reason="reconcile")


def _reconciled(draft: Draft, step: PlanStep, name: str, task: TaskState) -> None:
    """The end of a task that reconciles decides its key, whatever it says."""
    work = draft.work(step)
    key = work.key(task.index)
    names = group_tasks(step.id, draft.state.steps[step.id], task.group)
    candidates, declined = voices_on(work, draft.state, names, task.index)
    losers = tuple(e.Loser(one.task, one.by, one.value, one.refused or "reconciled") for one in candidates)
    claim = next((claim for claim in task.claims if claim.key == key), None)
    if claim is not None:
        value = Value(claim.value, step.merge, name, task.specialist, losers, declined)
        commit(draft, step, key, value)
        return
    silence = next(iter(task.silences), None)
    code = task.code or (silence.code if silence else "LOW_CONFIDENCE")
    message = task.message or (silence.message if silence else "")
    lack(draft, step, key, code, f"{task.specialist} did not reconcile the claims: {message}", losers, declined)
