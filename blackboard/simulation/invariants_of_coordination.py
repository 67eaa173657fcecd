"""What coordination promises of each run: order, attempts, times, budgets, breakers, loops, gates, and that no claim is
lost.

Written from docs/coordination.md and docs/protocol.md, and worked out from events and inputs alone: neither states nor
anything else that the supervisor remembers is asked.
"""

from collections.abc import Iterator, Sequence
from typing import Any

from blackboard.simulation.invariants_of_plans import Plans
from blackboard.simulation.known import Check, Known
from blackboard.simulation.parts import Broken, History
from schemas import events as e
from schemas import events_of_effects as f
from schemas.codec import canonical, digest
from schemas.contracts import RETRIED
from schemas.effects import asked_about
from schemas.inputs import Answer, Approve, Deny, EffectReceipt, TimerDue
from schemas.plan_events import PlanRefused
from schemas.steps import PlanStep
from schemas.usage import Limits, Usage, amount

DIMENSIONS = ("tokens", "tool_calls", "micro_usd")
WAITS_LIMIT = 3
"""Attempts in a row that nobody started."""
ATTEMPTS_OF_A_TEAM = 3
ROUNDING_S = 0.005
LOOP_GATES = "run.loop."


def promises(run: str, history: History, stored_s: Sequence[float]) -> Iterator[Broken]:
    """`stored_s`: when each message of the log was stored, in virtual seconds."""
    known = Known(history)
    checks = [kind(known) for kind in CHECKS] + [Timers(known, stored_s)]
    for event in history.events:
        known.version += 1
        for check in checks:
            for broken in check.see(event):
                yield Broken(broken.invariant, f"run {run}, event {known.version}: {broken.problem}")
        known.see(event)


# --- order, attempts and times ----------------------------------------------------------------------------------------


class Order(Check):
    """A step begins, or asks, when all that it needs is decided."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._settled: dict[str, int] = {}
        self._skipped: set[str] = set()

    def see(self, event: e.Event) -> Iterator[Broken]:
        match event:
            case e.StepSkipped(step=step):
                self._skipped.add(step)
            case e.FactCommitted(step=step) | e.FactMissing(step=step):
                self._settled[step] = self._settled.get(step, 0) + 1
            case e.StepExpanded(step=step) | e.GateOpened(gate=step) if step in self.known.steps:
                if early := [need for need in self.known.steps[step].needs if not self._is_over(need)]:
                    yield Broken("steps begin when what they need is decided", f"{step} before {', '.join(early)}")

    def _is_over(self, step: str) -> bool:
        expanded = self.known.expanded.get(step)
        return step in self._skipped or (expanded is not None and self._settled.get(step, 0) == expanded.items)


class Attempts(Check):
    """A task is given out as often as its step lets, and each time for as long as its step says."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._lost: dict[str, int] = {}
        self._waits: dict[str, int] = {}
        self._with: dict[str, str] = {}

    def see(self, event: e.Event) -> Iterator[Broken]:
        match event:
            case e.AttemptFailed(task=task, to=to) if to:
                self._lost[task] = self._waits[task] = 0
            case e.AttemptFailed(task=task, lost=True):
                self._lost[task] = self._lost.get(task, 0) + 1
            case e.AttemptFailed(task=task, code="TIMEOUT"):
                self._waits[task] = self._waits.get(task, 0) + 1
            case e.TaskDispatched(task=task, specialist=specialist):
                if self._with.setdefault(task, specialist) != specialist:
                    self._lost[task] = self._waits[task] = 0
                self._with[task] = specialist
                yield from self._tries(event)
                yield from self._times(event)

    def _tries(self, event: e.TaskDispatched) -> Iterator[Broken]:
        step, _ = self.known.tasks[event.task]
        allowed = step.attempts or (ATTEMPTS_OF_A_TEAM if step.team else None)
        lost, waits = self._lost.get(event.task, 0), self._waits.get(event.task, 0)
        if allowed is not None and lost >= allowed:
            yield Broken("a task has the attempts that its step lets", f"{event.task}: {lost} of {allowed} failed")
        if waits >= WAITS_LIMIT:
            yield Broken("a task has the attempts that its step lets", f"{event.task}: nobody began {waits}")

    def _times(self, event: e.TaskDispatched) -> Iterator[Broken]:
        step, number = self.known.tasks[event.task]
        items = 1 if number < 0 or step.team else len(self.known.items(event.task))
        if not step.team and event.wait_ms != step.wait_ms:
            what = f"{event.task}: {event.wait_ms} ms to wait, the step says {step.wait_ms}"
            yield Broken("an attempt has the time that its step lets", what)
        if step.work_ms is not None and event.work_ms != items * step.work_ms:
            what = f"{event.task}: {event.work_ms} ms for {items} items of {step.work_ms} ms"
            yield Broken("an attempt has the time that its step lets", what)


class Timers(Check):
    """A timer ends what it was armed for, and never early: by the clock of the world, not by that of the log."""

    def __init__(self, known: Known, stored_s: Sequence[float]) -> None:
        super().__init__(known)
        self._stored_s = stored_s
        self._armed: dict[str, tuple[int, int, int]] = {}
        """Of each timer the event that armed it, its delay and the sequence of the cause."""
        self._cause = 0

    def see(self, event: e.Event) -> Iterator[Broken]:
        _, body = self.known.inputs.get(event.cause.seq, ("", None))
        if isinstance(body, TimerDue) and event.cause.seq != self._cause:
            yield from self._due(body, event.cause.seq)
        self._cause = event.cause.seq
        match event:
            case e.PlanCommitted(deadline_ms=delay_ms) if delay_ms:
                self._arm("run.deadline", delay_ms, event)
            case e.GateOpened(gate=gate, delay_ms=delay_ms):
                self._arm(f"gate.{gate}", delay_ms, event)
            case e.GateAnswered(gate=gate):
                self._armed.pop(f"gate.{gate}", None)
            case e.CapabilityAwaited(step=step, delay_ms=delay_ms):
                self._arm(f"await.{step}", delay_ms, event)
            case e.TaskDelayed(task=task, delay_ms=delay_ms) if delay_ms:
                self._arm(f"retry.{task}", delay_ms, event)
            case e.TaskDispatched(task=task, wait_ms=wait_ms, work_ms=work_ms):
                self._arm(f"task.{task}", wait_ms + work_ms, event)
            case f.RunEnding(waits=waits):
                for task in waits:
                    self._arm(f"task.{task}", self.known.flying[task].work_ms, event)
            case e.TaskStarted(task=task) if task in self.known.flying:
                self._arm(f"task.{task}", self.known.flying[task].work_ms, event)
            case e.AttemptFailed(task=task) | e.AttemptStale(task=task) | e.TaskEnded(task=task):
                self._armed.pop(f"task.{task}", None)

    def _arm(self, timer: str, delay_ms: int, event: e.Event) -> None:
        self._armed[timer] = self.known.version, delay_ms, event.cause.seq

    def _due(self, due: TimerDue, seq: int) -> Iterator[Broken]:
        version, delay_ms, cause = self._armed.get(due.timer, (0, 0, 0))
        if version != due.armed:
            what = f"{due.timer}, armed by event {due.armed}; what goes on was armed by event {version}"
            yield Broken("a timer ends what it was armed for", what)
            return
        passed_s = self._stored_s[seq - 1] - self._stored_s[cause - 1]
        if passed_s < delay_ms / 1000 - ROUNDING_S:
            yield Broken("no timer is due early", f"{due.timer}: after {passed_s:.3f} s of {delay_ms} ms")


# --- budgets and breakers ---------------------------------------------------------------------------------------------


class Budgets(Check):
    """Each attempt reserves before it is given out, out of what is neither used nor reserved, and keeps that until it
    says what it used. After more was used than was reserved nothing is given out."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._held: dict[tuple[str, int, str], Limits] = {}
        self._charged = dict.fromkeys(DIMENSIONS, 0)
        self._overrun = ""

    def see(self, event: e.Event) -> Iterator[Broken]:
        match event:
            case e.TaskDispatched(task=task, attempt=attempt, specialist=specialist, reserve=reserve):
                self._held[task, attempt, specialist] = reserve
                yield from self._affordable(task, reserve)
            case e.AttemptFailed(task=task) | e.AttemptStale(task=task) | e.TaskEnded(task=task) if event.execution:
                if made := self.known.flying.get(task):
                    self._settle((task, event.attempt, made.specialist), event.usage)
            case e.InputLate(task=task, attempt=attempt, author=author) if event.execution:
                self._settle((task, attempt, author), event.usage)

    def _settle(self, attempt: tuple[str, int, str], usage: Usage) -> None:
        """Ends of further executions of an attempt are left out, so that what is worked out here is never too much."""
        if (held := self._held.pop(attempt, None)) is None:
            return
        for name in DIMENSIONS:
            limit, used = getattr(held, name), getattr(amount(usage), name)
            self._charged[name] += used if limit is None else min(used, limit)
            if limit is not None and used > limit:
                self._overrun = f"attempt {attempt[1]} of {attempt[0]} used {used} {name} of {limit}"

    def _affordable(self, task: str, reserve: Limits) -> Iterator[Broken]:
        if self.known.tasks[task][0].undo and not amount(reserve):
            return  # what is undone is undone whatever is left, and reserves nothing
        if self._overrun:
            yield Broken("nothing is given out after an overrun", f"{task}, and {self._overrun}")
        for name in DIMENSIONS:
            budget = getattr(self.known.plan.budget, name) if self.known.plan else None
            if budget is None:
                continue
            if getattr(reserve, name) is None:
                yield Broken("an attempt reserves what it may use", f"{task} reserves no {name} of {budget}")
            held = sum(getattr(one, name) or 0 for one in self._held.values())
            if held + self._charged[name] > budget:
                sums = f"{held} reserved and {self._charged[name]} used of {budget} {name}"
                yield Broken("an attempt reserves what is left of the budget", f"{task}: {sums}")


class Breakers(Check):
    """A breaker opens when a specialist has failed so often in a row, then and not before; it gets nothing more.
    Attempts that nobody began do not count."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._failures: dict[str, int] = {}
        self._started: set[tuple[str, int]] = set()

    def see(self, event: e.Event) -> Iterator[Broken]:
        limit = self.known.plan.breaker if self.known.plan else 0
        match event:
            case e.TaskStarted(task=task, attempt=attempt):
                self._started.add((task, attempt))
            case e.AttemptFailed(task=task, code=code, lost=True) | e.TaskEnded(task=task, code=code):
                begun = bool(event.execution) or (task, event.attempt) in self._started
                made = self.known.flying.get(task)
                if made and begun and not made.child:
                    self._count(made.specialist, code, limit)
            case e.AttemptStale(task=task) if made := self.known.flying.get(task):
                self._count(made.specialist, "", limit)
            case e.TaskDispatched(task=task, specialist=specialist, child=""):
                undoes = bool(self.known.tasks[task][0].undo)
                if limit and not undoes and (failures := self._failures.get(specialist, 0)) >= limit:
                    what = f"{task} is given to {specialist} after {failures} failures in a row; the limit is {limit}"
                    yield Broken("an open breaker lets nothing through", what)
            case e.BreakerOpened(specialist=specialist):
                if (failures := self._failures.get(specialist, 0)) < limit:
                    what = f"of {specialist} after {failures} failures in a row; the limit is {limit}"
                    yield Broken("a breaker opens after failures in a row", what)

    def _count(self, specialist: str, code: str, limit: int) -> None:
        failures = self._failures.get(specialist, 0)
        if code in RETRIED:
            self._failures[specialist] = failures + 1
        elif not code and failures < limit:
            self._failures[specialist] = 0


# --- people -----------------------------------------------------------------------------------------------------------


class Gates(Check):
    """What is asked has a digest that anybody can work out; an answer is by somebody who is asked and cites it; what
    needs an approval is given out when it has one."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._open: dict[str, e.GateOpened] = {}
        self._approved: set[str] = set()

    def see(self, event: e.Event) -> Iterator[Broken]:
        match event:
            case e.GateOpened(gate=gate):
                self._open[gate] = event
                self._approved.discard(gate)
                if event.digest != self._digest(event):
                    yield Broken("a gate has the digest of what it asks", gate)
            case e.GateAnswered(gate=gate):
                if problem := self._wrong(event, self._open.pop(gate, None)):
                    yield Broken("a gate is answered by whom it asks", f"{gate}, by {event.by}: {problem}")
                if event.approved:
                    self._approved.add(gate)
            case e.StepExpanded(step=step) if event.items and event.voices and self.known.steps[step].gate:
                if step not in self._approved:
                    yield Broken("what needs an approval has it", step)

    def _digest(self, gate: e.GateOpened) -> str:
        by = [[voice.specialist, voice.contract] for voice in gate.voices]
        said = {"action": gate.action, "ask": gate.ask, "by": by, "gate": gate.gate, "schema": gate.schema}
        return digest(said | {"log": self.known.log, "run": self.known.run})

    def _wrong(self, answer: e.GateAnswered, gate: e.GateOpened | None) -> str:
        opened = self.known.opened
        author, body = self.known.inputs.get(answer.cause.seq, ("", None))
        if gate is None or opened is None:
            return "it was not open"
        if answer.in_advance:
            return "" if opened.approve and gate.schema is None else "nobody approved it in advance"
        if isinstance(body, EffectReceipt) and author == answer.by:
            return "" if asked_about(gate.action) == (body.key, body.round) else "the receipt is that of another effect"
        if not isinstance(body, Approve | Deny | Answer) or author != answer.by:
            return f"its cause is no answer of {answer.by}"
        rules = (
            (body.gate != gate.gate, f"the answer is to {body.gate}"),
            (body.digest != gate.digest, "the answer cites another digest"),
            (gate.who and author not in gate.who, f"it asks {', '.join(gate.who)}"),
            (isinstance(body, Deny) == answer.approved, "it says the contrary"),
            (isinstance(body, Approve) and gate.schema is not None, "a value is asked for"),
            (isinstance(body, Answer) and (gate.schema is None or body.value != answer.value), "another value"),
        )
        return next((problem for wrong, problem in rules if wrong), "")


# --- claims and loops -------------------------------------------------------------------------------------------------


class Claims(Check):
    """An accepted end speaks of the keys of its task, each once; what was claimed for a key is its fact, or stays with
    it as a loser."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._claims: dict[tuple[str, str], dict[str, bytes]] = {}
        """Of each step and key the claims, as canonical bytes, by task."""

    def see(self, event: e.Event) -> Iterator[Broken]:
        match event:
            case e.TaskEnded(task=task, claims=claims, code=""):
                step, number = self.known.tasks[task]
                for claim in claims:
                    self._claims.setdefault((step.id, claim.key), {})[task] = canonical(claim.value)
                said = sorted([claim.key for claim in claims] + [silence.key for silence in event.silences])
                keys = _keys(step, self.known.items(task)) if number >= 0 else None
                if keys is not None and said != sorted(keys):
                    yield Broken("an end speaks of the keys of its task", f"{task} of {sorted(keys)}: {said}")
            case e.AttemptStale(task=task) | PlanRefused(task=task, again=True):  # it is asked again
                for claimed in self._claims.values():
                    claimed.pop(task, None)
            case e.FactCommitted(step=step, key=key):
                yield from self._kept(event, step, key, {event.task} - {""})
                yield from self._agreed(event, self.known.steps[step])
            case e.FactMissing(step=step, key=key):
                yield from self._kept(event, step, key, set())

    def _kept(self, event: e.FactCommitted | e.FactMissing, step: str, key: str, won: set[str]) -> Iterator[Broken]:
        claimed = self._claims.get((step, key), {})
        named = won | {loser.task for loser in event.losers}
        if lost := sorted(set(claimed) - named):
            yield Broken("what was claimed stays with the fact", f"{key}: the claim of {', '.join(lost)} is gone")

    def _agreed(self, event: e.FactCommitted, step: PlanStep) -> Iterator[Broken]:
        if event.policy == "quorum":
            value = canonical(event.value)
            voices = sum(claim == value for claim in self._claims.get((step.id, event.key), {}).values())
            if voices < step.merge.n:
                yield Broken("a quorum is reached by as many tasks", f"{event.key}: {voices} of {step.merge.n}")


def _keys(step: PlanStep, items: range) -> list[str] | None:
    """None where the key depends on more than the index of the item."""
    if "{" in step.fact.replace("{index}", ""):
        return None
    return [step.fact.replace("{index}", str(index)) for index in items]


class Loops(Check):
    """The rounds of propose and critique stop when the same comes of the same more often than the playbook lets."""

    def __init__(self, known: Known) -> None:
        super().__init__(known)
        self._said: dict[str, list[bytes]] = {}
        """Of each step of the playbook, `<step>` and `<step>_review`, what came of its rounds so far."""
        self._times: dict[tuple[Any, ...], int] = {}
        self._expected = ""
        self._asking = False

    def see(self, event: e.Event) -> Iterator[Broken]:
        if self._expected and not isinstance(event, e.LoopFound):
            yield Broken("a run that repeats itself is stopped", self._expected)
        self._expected = ""
        match event:
            case e.TaskEnded(task=task, code="", specialist=specialist):
                step, _ = self.known.tasks[task]
                limit = self.known.plan.repeats if self.known.plan else 0
                if step.origin and not step.bid and not step.reads and limit:
                    what = self._round(step.origin, specialist, [claim.value for claim in event.claims])
                    times = self._times[what] = self._times.get(what, 0) + 1
                    if times > limit and not self._asking:
                        self._expected = f"{task} came to the same {times} times, over {limit}"
            case e.GateOpened(gate=gate) if gate.startswith(LOOP_GATES):
                self._asking = True
            case e.GateAnswered(gate=gate, approved=True) if gate.startswith(LOOP_GATES):
                self._asking = False
                self._times.clear()

    def _round(self, origin: str, specialist: str, values: list[Any]) -> tuple[Any, ...]:
        """What came of a round, and of what: a proposal of the round before, a critique of its proposal."""
        said = canonical(values)
        before = self._said.setdefault(origin, [])
        if origin.endswith("_review"):
            of = self._said.get(origin.removesuffix("_review"), [])[-1:]
        else:
            of = before[-1:] + self._said.get(f"{origin}_review", [])[-1:]
        before.append(said)
        return origin, specialist, *of, said


CHECKS: tuple[type[Check], ...] = (Plans, Order, Attempts, Budgets, Breakers, Gates, Claims, Loops)
