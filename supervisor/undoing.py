"""Undoing: before a run ends in vain, what it has done to the world is undone, the newest first, one after the other.

Pure. A run that cannot be DONE is `ending`: it gives nothing out any more but one step for each effect that a tool
undoes. Attempts that may be in the middle of such an effect are heard out first. The run then ends as it would have,
and says what was undone and what was not.
"""

from projections.canonical import Effect, State, TaskState
from schemas import events as e
from schemas.playbooks import TASKS_LIMIT
from schemas.steps import PlanStep, Voice
from supervisor.attempts import give
from supervisor.draft import Draft

UNDO = "undo"
"""How the names of steps begin that undo effects, and the first segment of their keys."""


def go_on(draft: Draft) -> None:
    """Take a run that is ending as far as it goes without another input."""
    while draft.state.ending and not draft.state.end and not _is_waiting(draft.state):
        found = _next(draft.state)
        if found is None or len(draft.state.tasks) >= TASKS_LIMIT:
            ending = draft.state.ending
            draft.end_at_once(ending.end, ending.code, ending.reason)
        elif not give(draft, _plan(draft, *found)):
            return


def _is_waiting(state: State) -> bool:
    """Whether ends are awaited, or a step that undoes is not over."""
    if state.ending and any(state.tasks[name].status == "dispatched" for name in state.ending.waits):
        return True
    return any(step.undo and not state.steps[step.id].over for step in state.plan)


def _next(state: State) -> tuple[str, Effect] | None:
    """The newest effect that can be undone and for which no step was made."""
    tried = {step.undo for step in state.plan if step.undo}
    left = [(key, effect) for key, effect in state.effects.items() if is_to_be_undone(effect) and key not in tried]
    return max(left, key=lambda one: one[1].intended, default=None)


def is_to_be_undone(effect: Effect) -> bool:
    """Done, or perhaps done, by a tool that says how it is undone."""
    return bool(effect.undo) and not effect.undoes and (effect.done is not None or effect.unknown)


def _plan(draft: Draft, key: str, effect: Effect) -> str:
    """Make the step that undoes an effect, by whom it was done; its one task has the name of the step."""
    number = sum(bool(step.undo) for step in draft.state.plan) + 1
    while (name := f"{UNDO}_{number}") in draft.state.steps or _key(effect, number) in _keys(draft.state):
        number += 1
    step = PlanStep(id=name, specialist=effect.specialist, fact=_key(effect, number), missing="allow", undo=key)
    revision = draft.state.revisions + 1
    reason = f"the run ends, and {effect.undo} undoes {effect.tool} of {effect.task}"
    draft.emit(e.PlanRevised, number=revision, steps=(step,), reason=reason)
    voices = (Voice(effect.specialist, effect.contract),)
    draft.emit(e.StepExpanded, step=name, items=1, per_task=1, voices=voices)
    return name


def _key(effect: Effect, number: int) -> str:
    return f"{UNDO}.{effect.tool}.{number}"


def _keys(state: State) -> set[str]:
    return {*state.facts, *state.missing}


def heard_out(draft: Draft, name: str, reason: str) -> None:
    """An attempt that may have been in the middle of an effect is over, whatever came of it."""
    draft.emit(e.TaskDropped, task=name, reason=reason)


def awaits(state: State, name: str, task: TaskState) -> bool:
    """Whether the end of the attempt in flight is awaited though the run is ending."""
    return state.ending is not None and name in state.ending.waits and task.status == "dispatched"
