"""Settling: from what the voices of a group said to a fact under each of its keys, or to its absence.

Pure. The policy of the step decides (`merge`); what did not win stays with the fact.
"""

from projections.canonical import TaskState, group_span, group_tasks
from schemas import events as e
from schemas.codec import canonical
from schemas.plan_events import PlanRefused
from schemas.playbooks import TASKS_LIMIT
from schemas.steps import PlanStep
from supervisor.candidates import claimed_with, voices_on
from supervisor.documents import Work
from supervisor.draft import Draft
from supervisor.facts import Value, commit, extend, lack
from supervisor.merge import Candidate, Merged, merge
from supervisor.proposals import judged

STALE_LIMIT = 3
"""How often a task is given out again because facts have changed; then its result is taken, and marked."""


def settle(draft: Draft, name: str) -> None:
    """Decide the keys of a group when the last of its voices, task `name`, has ended. Raises BadExpression where
    another step came first, PolicyMissing."""
    task = draft.state.tasks[name]
    step = draft.state.step(task.step)
    if draft.over(step):
        return
    if task.index >= 0:
        _reconciled(draft, step, name, task)
        return
    state = draft.state.steps[task.step]
    names = group_tasks(task.step, state, task.group)
    if step.merge.policy == "first":
        _drop_others(draft, step, names, task.group)
    if any(draft.state.tasks[one].status != "ended" for one in names) or _asked_again(draft, step, names):
        return
    work = draft.work(step)
    for index in group_span(state, task.group):
        if not draft.over(step):
            _settle_key(draft, step, work, names, index)


def _drop_others(draft: Draft, step: PlanStep, names: list[str], group: int) -> None:
    """Where the first claim wins, nobody waits for the others once there is one that the step accepts for each key."""
    work, span = draft.work(step), group_span(draft.state.steps[step.id], group)
    claimed = (voices_on(work, draft.state, names, index)[0] for index in span)
    if all(any(not candidate.refused for candidate in candidates) for candidates in claimed):
        for name in names:
            if draft.state.tasks[name].status != "ended":
                draft.emit(e.TaskDropped, task=name, reason="another claim came first")


def to_ask_again(draft: Draft, step: PlanStep, task: TaskState) -> list[str]:
    """The keys of newer facts for which the step wants the task to be given out again, instead of its result. What was
    approved is done once."""
    if step.stale != "again" or step.gate or task.stale >= STALE_LIMIT:
        return []
    return draft.work(step).changed(task)


def _asked_again(draft: Draft, step: PlanStep, names: list[str]) -> bool:
    """Whether facts have changed since some of the voices ended, so that these are asked again; `advance` gives their
    tasks out."""
    behind = {name: to_ask_again(draft, step, task) for name in names if (task := draft.state.tasks[name]).claims}
    for name in [name for name, keys in behind.items() if keys]:
        attempt, keys = draft.state.tasks[name].attempt, behind[name]
        draft.emit(e.AttemptStale, task=name, attempt=attempt, keys=tuple(keys))
        draft.emit(e.TaskDelayed, task=name, delay_ms=0, reason="stale")
    return any(behind.values())


def _settle_key(draft: Draft, step: PlanStep, work: Work, names: list[str], index: int) -> None:
    key = work.key(index)
    candidates, declined = voices_on(work, draft.state, names, index)
    merged = merge(step.merge, candidates, draft.view)
    refusing = [voice for voice in declined if voice.code not in step.silent]
    taken = step.bid or not (refusing and step.missing == "fail")
    if taken and merged.conflict and step.merge.policy == "reconcile":
        _reconcile(draft, step, key, index, merged, declined)
    elif taken and step.plans and merged.winner:
        _plan(draft, step, work, key, merged.winner)
    elif taken and merged.found:
        winner = merged.winner
        task, by = (winner.task, winner.by) if winner else ("", "")
        stale = _stale(draft, step, work, [winner] if winner else candidates)
        taint = claimed_with(draft.state, names, key)
        value = Value(merged.value, step.merge, task, by, merged.losers, declined, stale, taint)
        commit(draft, step, key, value)
    else:
        _lack(draft, step, key, merged, refusing, declined)


def _plan(draft: Draft, step: PlanStep, work: Work, key: str, said: Candidate) -> None:
    """A plan that was proposed is committed, with its steps, or refused, and asked for again with the reasons. Only one
    voice is asked, so nobody declined."""
    assert step.plans is not None
    planned = judged(draft, step, said.value)
    if isinstance(planned, tuple):
        stale, taint = _stale(draft, step, work, [said]), claimed_with(draft.state, [said.task], key)
        value = Value(said.value, step.merge, said.task, said.by, stale=stale, taint=taint)
        commit(draft, step, key, value)
        extend(draft, step, said.task, said.by, planned)
        return
    task = draft.state.tasks[said.task]
    number = task.refused.number + 1 if task.refused else 1
    again = number < step.plans.proposals
    draft.emit(
        PlanRefused,
        step=step.id,
        task=said.task,
        attempt=task.attempt,
        by=said.by,
        number=number,
        reasons=tuple(planned),
        again=again,
    )
    if again:
        draft.emit(e.TaskDelayed, task=said.task, delay_ms=0, reason="its plan was refused")
        return
    reason = f"{number} plans were refused, the last because {'; '.join(planned)}"[:1000]
    losers = (e.Loser(said.task, said.by, said.value, f"refused: {'; '.join(planned)}"[:1000]),)
    lack(draft, step, key, "INVALID_OUTPUT", reason, losers)


def _lack(
    draft: Draft,
    step: PlanStep,
    key: str,
    merged: Merged,
    refusing: list[e.Declined],
    declined: tuple[e.Declined, ...],
) -> None:
    rejected = merged.conflict and step.merge.policy == "reject"
    code: e.StopCode = "LOW_CONFIDENCE"
    message = merged.reason
    if (voices := refusing or list(declined)) and not rejected:
        code, message = voices[0].code, f"{voices[0].by}: {voices[0].message}"
    losers = merged.losers
    if merged.winner:
        losers += (e.Loser(merged.winner.task, merged.winner.by, merged.winner.value),)
    lack(draft, step, key, code, message, losers, declined, final=rejected)


def _stale(draft: Draft, step: PlanStep, work: Work, claims: list[Candidate]) -> tuple[str, ...]:
    """The keys of newer facts that a value made of these claims does not know of, where the step wants to know."""
    if step.stale == "commit":
        return ()
    tasks = [draft.state.tasks[claim.task] for claim in claims if not claim.refused]
    return tuple(dict.fromkeys(key for task in tasks for key in work.outdated(task)))


# --- reconciling ------------------------------------------------------------------------------------------------------


def _reconcile(
    draft: Draft, step: PlanStep, key: str, index: int, merged: Merged, declined: tuple[e.Declined, ...]
) -> None:
    """Have a specialist decide between claims that differ, in a task of its own; `advance` gives it out."""
    contract = draft.view.contract(step.merge.specialist)
    if contract is None or contract[1].authority == "effect":
        why = "has the authority to effect, which nobody has approved" if contract else "is not attached"
        message = f"{merged.reason}; {step.merge.specialist}, who should reconcile them, {why}"
        lack(draft, step, key, "LOW_CONFIDENCE", message, merged.losers, declined)
        return
    if len(draft.state.tasks) >= TASKS_LIMIT:
        draft.end("FAILED", "BUDGET_EXCEEDED", f"claims for {key} differ; a run has {TASKS_LIMIT} tasks at most")
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
    made, _ = voices_on(work, draft.state, [name], task.index)
    claim = next((claim for claim in made if not claim.refused), None)
    value = canonical(claim.value) if claim else b""
    losers = tuple(
        e.Loser(one.task, one.by, one.value, "" if canonical(one.value) == value else one.refused or "reconciled")
        for one in candidates
    )
    if claim:
        stale = _stale(draft, step, work, candidates)
        taint = claimed_with(draft.state, [*names, name], key)
        commit(draft, step, key, Value(claim.value, step.merge, name, claim.by, losers, declined, stale, taint))
        return
    silence = next(iter(task.silences), None)
    code = task.code or (silence.code if silence else "LOW_CONFIDENCE")
    said = made[0].refused if made else task.message or (silence.message if silence else "")
    losers += tuple(e.Loser(one.task, one.by, one.value, one.refused) for one in made)
    lack(draft, step, key, code, f"{task.specialist} did not reconcile the claims: {said}", losers, declined)
