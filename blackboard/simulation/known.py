"""What the events of a run have said so far, for checks that are told them one by one."""

from collections.abc import Iterator, Sequence

from msgspec.structs import replace

from blackboard.simulation.parts import Broken, History
from schemas import events as e
from schemas.plan_events import PlanExtended
from schemas.steps import PlanStep


class Known:
    """What the events of a run have said so far. `flying` are the attempts that have not ended, by task; `version` is
    the number of the event that is looked at."""

    def __init__(self, history: History) -> None:
        self.inputs = history.inputs
        self.log, self.run = history.folded.state.log, history.folded.state.run
        self.version = 0
        self.opened: e.RunOpened | None = None
        self.plan: e.PlanCommitted | None = None
        self.steps: dict[str, PlanStep] = {}
        self.expanded: dict[str, e.StepExpanded] = {}
        self.tasks: dict[str, tuple[PlanStep, int]] = {}
        """Step and number, among the tasks of its step, of each task; -1 of one that reconciles."""
        self.flying: dict[str, e.TaskDispatched] = {}

    def see(self, event: e.Event) -> None:
        match event:
            case e.RunOpened():
                self.opened = event
            case e.PlanCommitted(steps=steps) | e.PlanRevised(steps=steps):
                self.plan = event if isinstance(event, e.PlanCommitted) else self.plan
                self._add(steps, event.instead_of if isinstance(event, e.PlanRevised) else "")
            case PlanExtended(steps=steps, step=step):
                self._add(steps, step)
            case e.StepExpanded(step=step):
                self.expanded[step] = event
                count = -(-event.items // event.per_task) * len(event.voices)
                for number in range(count):
                    self.tasks[step if count == 1 else f"{step}-{number}"] = self.steps[step], number
            case e.ConflictFound(step=step, task=task):
                self.tasks[task] = self.steps[step], -1
            case e.TaskDispatched(task=task):
                self.flying[task] = event
            case e.AttemptFailed() | e.AttemptStale() | e.TaskEnded() | e.TaskDropped():
                self.flying.pop(event.task, None)

    def _add(self, steps: Sequence[PlanStep], needed_with: str) -> None:
        added = tuple(step.id for step in steps)
        for step in self.steps.values() if needed_with else ():
            if needed_with in step.needs:
                self.steps[step.id] = replace(step, needs=(*step.needs, *added))
        self.steps |= {step.id: step for step in steps}

    def items(self, task: str) -> range:
        """The items of a task that does not reconcile."""
        step, number = self.tasks[task]
        expanded = self.expanded[step.id]
        group = number // len(expanded.voices)
        return range(group * expanded.per_task, min(expanded.items, (group + 1) * expanded.per_task))


class Check:
    """One promise. `see` is told every event in order, `known` being what was known before it."""

    def __init__(self, known: Known) -> None:
        self.known = known

    def see(self, event: e.Event) -> Iterator[Broken]:
        raise NotImplementedError
