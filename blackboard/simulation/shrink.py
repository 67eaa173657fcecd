"""Shrinking: from a world in which something breaks to the least that still breaks it.

Deterministic: what is left out is tried in one order, and each try is a simulation of its own.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace

from blackboard.simulation.faults import Fault
from blackboard.simulation.parts import Broken, Plan

Again = Callable[[Plan, Sequence[Fault]], tuple[Sequence[Fault], Broken | None, int]]
"""Simulates a plan with these faults and no others: those that came about, what broke, and how many steps it took."""
TRIES = 400
STEPS = 5_000_000
"""Steps of all tries together: worlds that hang take many."""


def shrunk(plan: Plan, faults: Sequence[Fault], found: Broken, again: Again) -> tuple[Plan, Sequence[Fault], Broken]:
    """The least plan and faults that were found, and what breaks there."""
    search = _Search(plan, faults, found, again)
    while not search.is_over and (search.fewer_faults() or search.less_of_a_plan()):
        pass
    return search.plan, search.faults, search.found


class _Search:
    def __init__(self, plan: Plan, faults: Sequence[Fault], found: Broken, again: Again) -> None:
        self.plan, self.faults, self.found, self._again = plan, list(faults), found, again
        self._tries = self._steps = 0

    @property
    def is_over(self) -> bool:
        return self._tries >= TRIES or self._steps >= STEPS

    def _still(self, plan: Plan, faults: Sequence[Fault]) -> bool:
        """Whether the same invariant breaks; then this is what is kept."""
        if self.is_over:
            return False
        made, found, steps = self._again(plan, faults)
        self._tries, self._steps = self._tries + 1, self._steps + steps
        if found is None or found.invariant != self.found.invariant:
            return False
        self.plan, self.faults, self.found = plan, list(made), found
        return True

    def fewer_faults(self) -> bool:
        """Leave out halves, then quarters, and so on; whether any could go."""
        before, size = len(self.faults), len(self.faults)
        while size >= 1 and self.faults:
            start = 0
            while start < len(self.faults):
                if not self._still(self.plan, self.faults[:start] + self.faults[start + size :]):
                    start += size
            size //= 2
        return len(self.faults) < before

    def less_of_a_plan(self) -> bool:
        return any(self._still(plan, self.faults) for plan in _less(self.plan))


def _less(plan: Plan) -> Iterator[Plan]:
    """Plans with one thing less. Specialists stay: what waits for one in vain takes long."""
    if plan.supervisors > 1:
        yield replace(plan, supervisors=1)
    for number in range(len(plan.goals) if len(plan.goals) > 1 else 0):
        yield replace(plan, goals=plan.goals[:number] + plan.goals[number + 1 :])
    for number in range(len(plan.people)):
        yield replace(plan, people=plan.people[:number] + plan.people[number + 1 :])
    for number, one in enumerate(plan.staff):
        for simpler in (replace(one, workers=1), replace(one, lies=())):
            if simpler != one:
                yield replace(plan, staff=(*plan.staff[:number], simpler, *plan.staff[number + 1 :]))
