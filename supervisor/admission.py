"""Admission: whether the attempt that a task would be given now may be made as it would be now.

Pure. What a step was expanded with was checked then; since then facts may have got newer values, people may have
answered, claims may differ, and who was approved may have another contract.
"""

from schemas.events import StopCode
from schemas.expressions import BadExpression
from schemas.steps import PlanStep, Voice
from supervisor import gates
from supervisor.documents import Work
from supervisor.draft import Draft
from supervisor.messages import carried, carried_at_most


def refusal(draft: Draft, step: PlanStep, name: str, voice: Voice) -> tuple[StopCode, str] | None:
    """Why the next attempt of a task may not be given to `voice`: the code and the message to end the task with."""
    task = draft.state.tasks[name]
    try:
        if problem := gates.strays(draft, step, task, voice):
            return "POLICY_BLOCKED", problem
        if draft.state.replaced or task.index >= 0 or any(gate.task == name for gate in draft.state.gates.values()):
            size = carried(Work(draft.state, step), name)
            if size > (limit := carried_at_most(step)):
                return "BUDGET_EXCEEDED", f"it would carry {size} bytes of input, facts and answers; {limit} at most"
    except BadExpression as error:
        return "INVALID_INPUT", str(error)
    return None
