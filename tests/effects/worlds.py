"""Worlds in which somebody pays: the real supervisor, worker and context over the log in memory, in virtual time, with
a till outside of them, and a moment at which the worker's process is disturbed."""

from collections.abc import Callable, Coroutine, Generator
from dataclasses import dataclass, replace
from typing import Any

from pydantic import BaseModel

from blackboard import testing
from blackboard.simulation.faults import Chance, Faults
from blackboard.simulation.invariants import examined
from blackboard.simulation.parts import Broken, Happened, History, Parts, Person, Plan, Published, Staff
from blackboard.simulation.processes import Process
from blackboard.simulation.world import simulate
from schemas.playbooks import Gate, Playbook, Step
from specialists.specialist import Context, Specialist, Stop, specialist
from specialists.tools import SETTLE_S
from specialists.worker import Worker
from tests.effects.service import Service

DAY_S = 86_400.0
PATIENCE_S = 120.0
"""After which a run that waits for somebody who does not answer is left."""
CALM = replace(Faults.none(), latency_s=0.01, restart_s=1.0)
"""Nothing goes wrong but what is made to; calls take as long as the seed says."""
DISTURBED = replace(Faults(), redelivered=0.5, pause=0.02)
"""All that may go wrong, and half of the tasks are given to two workers at the same time."""
PAUSE_S = 20.0
"""Longer than a worker may be silent before its task is given to another one."""


class Asked(BaseModel):
    amount: int = 5


class Paid(BaseModel):
    booked: int


@dataclass(frozen=True)
class Case:
    """A world: what the till and the tool can do, who answers, whether a later step fails, and what is done to the
    worker at a moment of the effect path."""

    name: str
    probe: bool = True
    undo: bool = False
    keeps_keys: bool = False
    loses: int = 0
    answers: str = "truth"
    """truth: somebody who has looked; wrong: somebody who always says that it was not done; nobody."""
    fails: bool = False
    workers: int = 1
    disturb: str = "crash"
    settle_s: float = SETTLE_S
    faults: Faults = CALM


@dataclass
class Moments:
    """The suspensions of the effect path, counted over all processes; `at` are those at which the worker is
    disturbed."""

    at: frozenset[int] = frozenset()
    disturb: str = "crash"
    count: int = 0
    made: int = 0

    def passed(self, process: Process) -> None:
        """One await of the effect path is suspended now."""
        if not process.alive:
            return
        self.count += 1
        if self.count not in self.at:
            return
        self.made += 1
        if self.disturb == "crash":
            process.kill()
        else:
            process._paused_until_s = process.loop.time() + PAUSE_S


class _Stepped:
    """Awaits `work`, and tells of each moment at which it is suspended."""

    def __init__(self, work: Coroutine[Any, Any, Any], passed: Callable[[], None]) -> None:
        self._work, self._passed = work, passed

    def __await__(self) -> Generator[Any, Any, Any]:
        step: Callable[[], Any] = lambda: self._work.send(None)  # noqa: E731
        while True:
            try:
                waited_for = step()
            except StopIteration as end:
                return end.value
            self._passed()
            try:
                value = yield waited_for
                step = lambda value=value: self._work.send(value)  # noqa: E731
            except BaseException as error:
                step = lambda error=error: self._work.throw(error)  # noqa: E731


def parts_with(moments: Moments) -> Parts:
    """The real parts, with a worker that tells of its awaits: of all that it does with a task, and of the calls of
    tools in it."""
    real = testing._parts()

    class SteppedWorker(Worker):
        def __init__(self, board: Any, *arguments: Any, context: Any, **options: Any) -> None:
            process = board.log._process

            def passed() -> None:
                moments.passed(process)

            def made(*given: Any) -> Any:
                found = context(*given)
                call = found._gateway._call
                found._gateway._call = lambda *asked, **how: _Stepped(call(*asked, **how), passed)
                return found

            super().__init__(board, *arguments, context=made, **options)
            self._process = process

        async def _handle(self, job: Any) -> None:
            await _Stepped(super()._handle(job), lambda: moments.passed(self._process))

    return replace(real, worker=SteppedWorker)


def payer(service: Service, case: Case) -> Specialist:
    tools = service.tools(probe=case.probe, undo=case.undo, settle_s=case.settle_s)

    @specialist("payer", offers="pay", authority="effect", tools=tools, deadline_s=60, attempts=3, concurrency=1)
    async def pay(item: Asked, context: Context) -> Paid:
        return Paid(**await context.tool("pay", amount=item.amount))

    return pay


@specialist("checker", offers="check", attempts=1, concurrency=1)
async def checker(item: Asked, context: Context) -> Paid:
    raise Stop("LOW_CONFIDENCE", "it does not fit")


def playbook(case: Case) -> Playbook:
    steps = [Step(id="pay", capability="pay", input={"amount": "input.amount"}, gate=Gate())]
    if case.fails:
        steps.append(Step(id="check", capability="check", needs=["pay"], input={"amount": "input.amount"}))
    return Playbook(team="shop", steps=steps, returns={"paid": "facts.pay"})


@dataclass
class Lived:
    """What came of one world."""

    case: Case
    seed: int
    at: tuple[int, ...]
    service: Service
    happened: Happened
    history: History
    moments: Moments
    broken: Broken | None

    @property
    def end(self) -> str:
        return str(self.history.folded.state.end)

    @property
    def where(self) -> str:
        at = " and ".join(map(str, self.at)) or "none"
        return f"{self.case.name}, seed {self.seed}, {self.case.disturb} at await {at}"


def live(case: Case, seed: int, *at: int, cancel_after_s: float | None = None) -> Lived:
    """The world of `case`, disturbed at the awaits `at` of its effect path."""
    service, moments = Service(case.keeps_keys, case.loses), Moments(frozenset(at), case.disturb)
    staff = [Staff(payer(service, case), case.workers)]
    if case.fails:
        staff.append(Staff(checker))
    said: dict[str, Any] = {"truth": service.truth, "wrong": {"done": False}}
    people = (Person(value=said[case.answers]),) if case.answers in said else ()
    plan = Plan(
        playbooks=(playbook(case),),
        staff=tuple(staff),
        goals=(Published("shop", {"amount": 5}, approve=True, cancel_after_s=cancel_after_s),),
        people=people,
        supervisors=1 + seed % 2,
        limit_s=PATIENCE_S if case.answers == "nobody" else DAY_S,
        limit_steps=5_000_000,
    )
    parts = parts_with(moments)
    happened = simulate(plan, Chance(seed, case.faults), parts)
    happened.undisturbed = happened.undisturbed and not moments.made
    runs, broken = examined(happened, parts, batches=(7,))
    return Lived(case, seed, at, service, happened, runs["r1"], moments, broken)
