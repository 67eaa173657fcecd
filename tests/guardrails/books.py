"""A board whose books are checked after every event, not only after every input; what a supervisor would derive from
its state follows at once: goals of child runs, wakes for parents and children.

The reckoning here is the test's own: what was reported is added up from the messages, not from the state.
"""

from collections import Counter
from collections.abc import Iterator
from typing import Any

from projections.canonical import State
from projections.evolve import evolve
from schemas import events as e
from schemas.inputs import ChildEnded, Ended, Input, Wake
from schemas.subjects import SUPERVISOR
from schemas.usage import Amount, Limits, Usage, amount
from supervisor import effects
from tests.supervisor.scenario import Due, Said, Scenario, check_budget

DIMENSIONS = ("tokens", "tool_calls", "micro_usd")


class Books(Scenario):
    """`happened` counts events by kind, `reported` is the usage that each run has to have booked by now, `spent` what
    each attempt has used of what was reserved for it, by (run, task, attempt)."""

    def __init__(self, *said: Said | Due) -> None:
        self.happened: Counter[str] = Counter()
        self.reported: dict[str, Usage] = {}
        self.reserved: dict[tuple[str, str, int], Limits] = {}
        self.spent: dict[tuple[str, str, int], Usage] = {}
        self._had: dict[tuple[str, str], set[str]] = {}
        self._seen: set[tuple[str, str, str, str]] = set()
        super().__init__(*said)

    # -- what follows --

    def follow(self) -> "Books":
        """Do what a supervisor does on the log until there is nothing more to do."""
        while (said := next(self._due(), None)) is not None:
            self.say(said)
        return self

    def _due(self) -> Iterator[Said]:
        for run, folded in list(self.folded.items()):
            for goal in effects.child_goals(folded.state):
                child = self.folded.get(goal.run)
                if child is None or not child.state.goal:
                    yield Said("goal", SUPERVISOR, goal.data, goal.run)
                elif wake := effects.wake_about_child(goal, child.state, child.h, folded.state):
                    yield self._wake(run, wake)
            parent = folded.state.parent and self.folded.get(folded.state.parent.run)
            if parent and (told := effects.wake_for_child(parent.state, folded.state)):
                yield self._wake(run, told)

    def _wake(self, run: str, wake: Wake) -> Said:
        return Said("wake", "", wake, run)

    # -- what is checked --

    def _decide(self, cause: Input) -> list[e.Event]:
        run = cause.address.run
        self._report(run, cause)
        decided = super()._decide(cause)
        state = self.of(run)
        if state.goal:
            assert state.usage == self.reported.get(run, Usage()), "all that was reported is booked, once"
        return decided

    def _report(self, run: str, cause: Input) -> None:
        """An execution of whoever has or had the task counts once, that of a child run when its end is awaited."""
        state, body = self.of(run), cause.body
        if isinstance(body, Ended) and (task := state.tasks.get(body.task)):
            author = cause.address.author
            name = (run, body.task, author, body.execution)
            had = self._had.get((run, body.task), {task.specialist})
            if not task.child and author in had and name not in self._seen:
                self._seen.add(name)
                self._add(run, body.usage)
                self.spent.setdefault((run, body.task, body.attempt), body.usage)
        elif isinstance(body, ChildEnded) and body.child in effects.children(state) and not state.end:
            self._add(run, body.usage)

    def _add(self, run: str, usage: Usage) -> None:
        self.reported[run] = self.reported.get(run, Usage()) + usage

    def _store(self, run: str, state: State, decided: list[e.Event], cause: Input) -> None:
        before = state
        for event in decided:
            after = evolve(before, event)
            self.happened[str(type(event).__struct_config__.tag)] += 1
            self._check(run, before, event, after)
            before = after
        super()._store(run, state, decided, cause)

    def _check(self, run: str, before: State, event: e.Event, after: State) -> None:
        check_budget(after)
        used = getattr(event, "usage", Usage())
        assert after.usage == before.usage + used, "an event books what it says"
        assert after.in_flight <= max(after.parallel, before.in_flight)
        match event:
            case e.StepExpanded():
                for name in set(after.tasks) - set(before.tasks):
                    self._had[run, name] = {after.tasks[name].specialist}
            case e.AttemptFailed() if event.to:
                self._had[run, event.task].add(event.to)
            case e.TaskDispatched():
                self._had.setdefault((run, event.task), set()).add(event.specialist)
                self._check_dispatch(run, before, event)

    def _check_dispatch(self, run: str, before: State, event: e.TaskDispatched) -> None:
        """Nothing is given out after an overrun, nor what could not be paid in full."""
        assert not before.end
        assert not before.overrun, "nothing is given out after an overrun"
        assert before.tasks[event.task].status == "planned"
        breaker = before.breakers.get(event.specialist)
        assert event.child or breaker is None or not breaker.open
        for name in DIMENSIONS:
            limit, reserve = getattr(before.budget, name), getattr(event.reserve, name)
            if limit is not None:
                held = getattr(before.charged, name) + getattr(before.reserved, name)
                assert reserve is not None, "what the run limits every attempt has a limit of"
                assert held + reserve <= limit
        if not event.child:
            self.reserved[run, event.task, event.attempt] = event.reserve


def within(spent: dict[Any, Usage], reserved: dict[Any, Limits]) -> Amount:
    """What attempts have used of what was set aside for them; of one that has not ended, all of it."""
    total = Amount()
    for attempt, limits in reserved.items():
        used = amount(spent[attempt]) if attempt in spent else None
        parts = [(getattr(limits, name), None if used is None else getattr(used, name)) for name in DIMENSIONS]
        total += Amount(*((u or 0) if r is None else r if u is None else min(u, r) for r, u in parts))
    return total
