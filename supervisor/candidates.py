"""Candidates: what the voices of a group said about one key, as merge policies see it.

Pure.
"""

from typing import Any

from projections.canonical import State, TaskState
from schemas import events as e
from schemas.codec import canonical
from schemas.expressions import truth
from schemas.taint import Labels, joined
from supervisor.documents import Work
from supervisor.merge import Candidate


def voices_on(work: Work, state: State, names: list[str], index: int) -> tuple[list[Candidate], tuple[e.Declined, ...]]:
    """The claims of the tasks `names` for the key of one item, and the voices that declined. Raises BadExpression."""
    key = work.key(index)
    candidates: list[Candidate] = []
    declined: list[e.Declined] = []
    for name in names:
        task = state.tasks[name]
        by = task.specialist
        candidates += [_candidate(work, name, task, claim, index) for claim in task.claims if claim.key == key]
        declined += [e.Declined(name, by, said.code, said.message) for said in task.silences if said.key == key]
        if task.code:
            declined.append(e.Declined(name, by, task.code, task.message))
    return candidates, tuple(declined)


def _candidate(work: Work, name: str, task: TaskState, claim: e.Claim, index: int) -> Candidate:
    refused = ""
    if work.step.accept:
        scope = {"value": claim.value, "confidence": claim.confidence, "by": task.specialist}
        if not truth(work.accepts(index, task.read_version, scope)):
            refused = f"not accepted: {work.step.accept[:200]}"
    return Candidate(name, task.specialist, claim.value, claim.confidence, refused, task.ended)


def claimed_with(state: State, names: list[str], key: str) -> Labels:
    """The labels of all that the tasks `names` claim for a key: also of what did not win, which expressions see."""
    return joined(*(claim.taint for name in names for claim in state.tasks[name].claims if claim.key == key))


def conflicting(candidates: list[Candidate]) -> list[Any]:
    """The different values of those candidates that the step accepts, in the order of their canonical bytes."""
    values = {canonical(candidate.value): candidate.value for candidate in candidates if not candidate.refused}
    return [value for _, value in sorted(values.items())]
