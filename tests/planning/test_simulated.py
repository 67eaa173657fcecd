"""Random worlds in which specialists propose plans: what is promised of them holds; where it is broken, it shows."""

from collections import Counter

import pytest

from blackboard.testing import random_simulation
from schemas import events as e
from schemas.plan_events import PlanAsked, PlanExtended, PlanRefused
from tests.mutation.faults import Fault
from tests.mutation.planting import simulated
from tests.plugins.figures import Figures

SEEDS = 25
PROPOSALS, SETTLE = "supervisor/proposals.py", "supervisor/settle.py"
FAULTS = {
    "the steps are not part of the plan": (SETTLE, "        extend(draft, step, said.task, said.by, planned)\n", ""),
    "what needs the plan does not wait for it": (
        "projections/evolve.py",
        "_with_steps(state, event.steps, event.step)",
        '_with_steps(state, event.steps, "")',
    ),
    "there is no end of refusals": (SETTLE, "    again = number < step.plans.proposals\n", "    again = True\n"),
    "a plan that was refused goes on": (
        SETTLE,
        "    planned = judged(draft, step, said.value)\n    if isinstance(planned, tuple):",
        "    planned = judged(draft, step, said.value)\n"
        "    planned = planned if isinstance(planned, tuple) else ()\n    if isinstance(planned, tuple):",
    ),
    "nobody is asked": (PROPOSALS, '"propose" if grant.authority == "effect" and not gated else ', ""),
    "all tools will do": (PROPOSALS, "Where(authority=authority, only=grant.only)", "Where(authority=authority)"),
    "plans make plans": (PROPOSALS, "capability != step.capability and (capability in", "(capability in"),
    "it is told nothing": (
        "supervisor/attempts.py",
        "        draft.emit(PlanAsked, task=name, contracts=contracts, left_out=more, budget=budget)\n",
        "        assert (contracts, more, budget) is not None\n",
    ),
}


@pytest.mark.timeout(240)
def test_plans_are_committed_and_refused_in_random_worlds(figures: Figures) -> None:
    kinds, ends = Counter[str](), Counter[str]()
    for seed in range(40):
        for run in random_simulation(seed, "plans").run().runs.values():
            kinds.update(type(event).__name__ for event in run.events)
            ends.update(event.code or event.end for event in run.events if isinstance(event, e.RunEnded))
    asked, refused, extended = (kinds[kind.__name__] for kind in (PlanAsked, PlanRefused, PlanExtended))
    figures.say(f"simulated: {asked} plans asked for, {refused} refused, {extended} committed: {dict(ends)}")
    assert min(refused, extended) > 10
    assert ends["PLAN_REFUSED"] > 3
    assert ends["DONE"] > 10


@pytest.mark.timeout(240)
@pytest.mark.parametrize("what", FAULTS)
def test_where_a_promise_is_broken_it_is_seen(what: str, figures: Figures) -> None:
    path, old, new = FAULTS[what]
    found = simulated(Fault("plans", path, old, new, what), "plans", SEEDS)
    assert found.verdict == "caught", found
    figures.say(f"{what}: seed {found.seed}: {found.invariant}")
