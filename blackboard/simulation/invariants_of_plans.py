"""What is promised of plans that specialists propose: committed before anything of them is given out, within what their
step grants, or refused, a bounded number of times.

Written from docs/planning.md, and worked out from events alone.
"""

from collections.abc import Iterator

from blackboard.simulation.known import Check, Known
from blackboard.simulation.parts import Broken
from schemas import events as e
from schemas.plan_events import PlanAsked, PlanExtended, PlanRefused
from schemas.steps import PlanStep

COMMITTED = "a plan is committed before it is gone through"
WITHIN = "a plan keeps to what its step grants"
BOUNDED = "plans are proposed a bounded number of times"


class Plans(Check):
    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._asked: set[str] = set()
        """Tasks that were told what a plan may be made of, and not given out since."""
        self._refused: dict[str, int] = {}
        self._over: set[str] = set()
        """Tasks of which no other plan is wanted."""
        self._fact: e.FactCommitted | None = None
        """A plan that is a fact, and whose steps are not in the plan of the run yet."""

    def see(self, event: e.Event) -> Iterator[Broken]:
        if self._fact and not isinstance(event, e.PlanRevised | PlanExtended):
            yield Broken(COMMITTED, f"{self._fact.key} is a fact, and what follows is {type(event).__name__}")
            self._fact = None
        match event:
            case PlanAsked(task=task):
                self._asked.add(task)
            case e.StepExpanded(step=step) | e.StepSkipped(step=step) if step not in self.known.steps:
                yield Broken(COMMITTED, f"{step} begins, and no plan has it")
            case e.TaskDispatched(task=task):
                yield from self._given_out(task)
            case e.FactCommitted(step=step) if self.known.steps[step].plans:
                self._fact = event
            case PlanExtended():
                yield from self._extended(event)
                self._fact = None
            case PlanRefused():
                yield from self._refusal(event)

    def _given_out(self, task: str) -> Iterator[Broken]:
        if task not in self.known.tasks:
            yield Broken(COMMITTED, f"{task} is given out, and no plan has it")
        elif self.known.tasks[task][0].plans and task not in self._asked:
            yield Broken(WITHIN, f"{task} is given out without a word of what its plan may be made of")
        if task in self._over:
            yield Broken(BOUNDED, f"{task} is given out again after its last plan was refused")
        self._asked.discard(task)

    def _extended(self, event: PlanExtended) -> Iterator[Broken]:
        fact, proposer = self._fact, self.known.steps[event.step]
        if fact is None or (fact.step, fact.task, fact.by) != (event.step, event.task, event.by):
            yield Broken(COMMITTED, f"the steps of {event.step} come without the fact that is their plan")
        elif len(fact.value["steps"]) != len(event.steps):
            yield Broken(COMMITTED, f"{event.step} has a plan of {len(fact.value['steps'])} steps, not these")
        if proposer.plans is None or not 0 < len(event.steps) <= proposer.plans.steps:
            yield Broken(WITHIN, f"{event.step} adds {len(event.steps)} steps")
        names = {step.id for step in event.steps}
        for step in event.steps:
            if problem := self._beyond(step, proposer, names):
                yield Broken(WITHIN, f"{step.id}: {problem}")

    def _beyond(self, step: PlanStep, proposer: PlanStep, names: set[str]) -> str:
        """How a planned step is not one that its proposer may plan."""
        grant = proposer.plans
        assert grant is not None
        rules = (
            (step.id in self.known.steps, "there is such a step already"),
            (proposer.id not in step.needs, "does not need the step that planned it"),
            (not set(step.needs) <= {proposer.id, *names}, "needs what is not of its plan"),
            (not step.fact.startswith(f"{grant.facts}."), f"has the key {step.fact}"),
            (step.where.only != grant.only, "may be given to who has other tools"),
            (step.where.authority == "effect" and step.gate is None, "may change the world, and nobody is asked"),
            (step.capability == proposer.capability, "is a plan"),
            (bool(grant.capabilities) and step.capability not in grant.capabilities, f"asks for {step.capability}"),
        )
        return next((problem for broken, problem in rules if broken), "")

    def _refusal(self, event: PlanRefused) -> Iterator[Broken]:
        grant, number = self.known.steps[event.step].plans, self._refused.get(event.task, 0) + 1
        self._refused[event.task] = number
        if not event.reasons:
            yield Broken(BOUNDED, f"plan {number} of {event.step} is refused without a reason")
        if grant is None or event.number != number or event.again != (number < grant.proposals):
            yield Broken(BOUNDED, f"plan {event.number} of {event.step} is the {number}th that is refused")
        if not event.again:
            self._over.add(event.task)
