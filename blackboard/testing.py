"""Simulation, for tests of teams: the real supervisor, workers and log in virtual time, with faults that a seed draws.

    reader = ScriptedSpecialist("reader", offers="read", answers={"text": "..."})
    Simulation(playbook, [reader], [{"path": "x"}]).run().run("r1").ended_as("DONE").routed_to("reader")

A simulation checks on its own that every run ends, that its history can be decided again, and that nothing is counted
or accepted twice; SimulationFailed then names the seed and the fewest faults that still break it. Same seed, same
bytes.
`python -m blackboard.testing --seeds 1000` simulates random task graphs.

This module composes both sides of the log by name, as the command does.
"""

import importlib
import sys
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache, cached_property
from typing import Any, Literal

from pydantic import JsonValue

from blackboard.board import Board
from blackboard.log import Message
from blackboard.simulation.families import world
from blackboard.simulation.faults import Chance, Fault, Faults
from blackboard.simulation.graph_steps import Source, T
from blackboard.simulation.graph_steps import playbooks as random_playbooks
from blackboard.simulation.graphs import Graph, Seeded
from blackboard.simulation.invariants import BATCHES, examined
from blackboard.simulation.lies import LyingLog, check_lies
from blackboard.simulation.live import live
from blackboard.simulation.parts import Broken, Chains, Parts, Person, Plan, Published, Staff, ToolUse
from blackboard.simulation.report import Report, RunReport, make_report
from blackboard.simulation.scripted import Asked, Asks, Fails, Hands, OneOf, Proposes, Script, scripted_tool
from blackboard.simulation.shrink import shrunk
from blackboard.simulation.world import simulate
from schemas.bids import Bid
from schemas.events import StopCode
from schemas.goals import Budget
from schemas.playbooks import Playbook

__all__ = [
    "Asks",
    "Bid",
    "Budget",
    "Fails",
    "Faults",
    "Hands",
    "OneOf",
    "Person",
    "Proposes",
    "Published",
    "Report",
    "RunReport",
    "ScriptedSpecialist",
    "Simulation",
    "SimulationFailed",
    "playbooks",
    "random_simulation",
    "simulations",
]

REDECIDE = "supervisor.replay:redecide"
_NAMES = {
    "Supervisor": "supervisor.service:Supervisor",
    "redecide": REDECIDE,
    "Worker": "specialists.worker:Worker",
    "Begun": "specialists.worker_events:Begun",
    "Timing": "specialists.worker:Timing",
    "WorkContext": "specialists.context:WorkContext",
    "Gateway": "specialists.gateway:Gateway",
    "specialist": "specialists.specialist:specialist",
    "Stop": "specialists.stop:Stop",
    "HandOff": "specialists.stop:HandOff",
    "unwritten": "projections.history:unwritten",
    "fold": "projections.history:fold",
    "state_digest": "projections.history:state_digest",
    "outcome_digest": "projections.history:outcome_digest",
}
"""The parts of the upper folders, as data: nothing below imports them."""


def _part(name: str) -> Any:
    module, _, attribute = _NAMES[name].partition(":")
    return getattr(importlib.import_module(module), attribute)


@cache
def _parts() -> Parts:
    return Parts(
        supervisor=_part("Supervisor"),
        worker=_part("Worker"),
        begun=_part("Begun"),
        timing=_part("Timing"),
        context=_context(),
        redecide=_part("redecide"),
        unwritten=_part("unwritten"),
        fold=_part("fold"),
        state_digest=_part("state_digest"),
        outcome_digest=_part("outcome_digest"),
    )


def _context() -> type[Any]:
    """The real context of a specialist, with two differences: plain functions run at once, for threads have no place in
    virtual time, and what tools are asked for is noted where it happens."""

    class NotingGateway(_part("Gateway")):  # type: ignore[misc]
        def _note(self, name: str, refused: bool) -> None:
            task = self._desk.task
            self._desk.note(ToolUse(task.specialist, task.run, task.task, name, refused))

        async def _call(self, tool: Any, *arguments: Any) -> Any:
            self._note(tool.name, refused=False)
            return await super()._call(tool, *arguments)

        async def _refuse(self, name: str, *arguments: Any) -> Any:
            self._note(name, refused=True)
            await super()._refuse(name, *arguments)

    class SimulatedContext(_part("WorkContext")):  # type: ignore[misc]
        gateway = NotingGateway

        def __init__(self, *arguments: Any, note: Any) -> None:
            super().__init__(*arguments)
            self.note = note

        async def in_thread(self, function: Any, /, *arguments: Any, **keywords: Any) -> Any:
            return function(*arguments, **keywords)

    return SimulatedContext


@dataclass(frozen=True)
class ScriptedSpecialist:
    """A specialist that says what a test wants. `specialist` is a real one: give it to a Worker, or attach it.

    answers: a function of the item's input, or one value for all; a tuple holds one answer for each attempt, the last
    for all that follow; an answer may be Fails(code), Asks(question), Hands(to), Proposes(steps) or OneOf(answers).
    failure_rate: how often an attempt fails instead, with one of `codes`. delay_s: least and most seconds that an item
    takes. tokens, micro_usd: used for each item; overspend: half of the items use that many times as much. uses: tools
    that it calls for each item; `tools` are those that it has: functions, or names of tools that do nothing. bid: what
    it answers to an open call, a Bid or its fields. output: the type of the answers, for the contract. seed: of what is
    drawn. The others are as of any specialist.

    In a Simulation: workers: processes that do its work. lies: what its processes append that no real worker would
    (blackboard.simulation.lies), also by `board_of_a_liar`. down: it offers and never takes a task.
    """

    name: str
    offers: str | Sequence[str]
    answers: Any = "answer"
    failure_rate: float = 0.0
    codes: Sequence[StopCode] = ("TOOL_DOWN",)
    delay_s: tuple[float, float] = (0.0, 0.0)
    tokens: int = 0
    micro_usd: int = 0
    overspend: float = 1.0
    uses: Sequence[str] = ()
    tools: Sequence[Any] = ()
    bid: Any = None
    output: Any = JsonValue
    deadline_s: float = 30.0
    attempts: int = 3
    backoff_s: float = 0.5
    budget: Budget = field(default_factory=Budget)
    authority: Literal["observe", "propose", "effect"] = "observe"
    typical_micro_usd: int | None = None
    typical_s: float | None = None
    wakes_on: Sequence[str] = ()
    concurrency: int = 2
    seed: int = 0
    workers: int = 1
    lies: Sequence[str] = ()
    down: bool = False

    def __post_init__(self) -> None:
        """Raises ValueError where there is no such lie."""
        check_lies(self.lies)

    @cached_property
    def specialist(self) -> Any:
        """The `specialists.specialist.Specialist`."""
        script = self._script()

        async def answer(item: dict[str, Any], context: Any) -> Any:
            return await script.work(_asked(item, context), context)

        async def bid(item: dict[str, Any], context: Any) -> Bid:
            return script.bids(_asked(item, context))

        made = replace(
            _prototype(self.output, tuple(self.tools)),
            name=self.name,
            offers=(self.offers,) if isinstance(self.offers, str) else tuple(self.offers),
            make=lambda: answer,
            bid=None if self.bid is None else bid,
            budget=self.budget,
            backoff_max_s=max(60.0, self.backoff_s),
            wakes_on=tuple(self.wakes_on),
            **{name: getattr(self, name) for name in _AS_ANY},
        )
        made.contract()  # raises ValidationError where one of these cannot stand in a contract
        return made

    def board_of_a_liar(self, board: Board) -> Board:
        """`board` for a Worker whose ends tell `lies`, each every third time."""
        told: Counter[str] = Counter()

        def share(lie: str) -> float:
            told[lie] += 1
            return self._script().share("lie", lie, told[lie])

        return replace(board, log=LyingLog(board.log, self.lies, 1 / 3, share))

    def _script(self) -> Script:
        return Script(
            codes=tuple(self.codes),
            uses=tuple(self.uses),
            stop=_part("Stop"),
            hand_off=_part("HandOff"),
            **{name: getattr(self, name) for name in _IN_SCRIPT},
        )

    def _staff(self) -> Staff:
        return Staff(self.specialist, self.workers, tuple(self.lies), down=self.down)


_AS_ANY = ("deadline_s", "attempts", "backoff_s", "authority", "typical_micro_usd", "typical_s", "concurrency")
_IN_SCRIPT = ("name", "answers", "failure_rate", "delay_s", "tokens", "micro_usd", "overspend", "bid", "seed")


def _asked(item: dict[str, Any], context: Any) -> Asked:
    task = context.task
    key = next((one.key for one in task.items if one.input == item), "")
    return Asked(item, task.run, task.task, task.attempt, context.execution, key)


@cache
def _prototype(output: Any, tools: tuple[Any, ...]) -> Any:
    """A specialist with that type of output and these tools: reading a signature costs more than a small simulation."""

    async def answer(item: dict[str, Any], context: Any) -> Any:
        raise NotImplementedError

    answer.__annotations__ |= {"return": output}
    functions = [scripted_tool(one) if isinstance(one, str) else one for one in tools]
    description = "says what a test wants"
    return _part("specialist")("prototype", offers="prototype", tools=functions, description=description)(answer)


class SimulationFailed(AssertionError):
    """An invariant did not hold in a simulated world. `seed` makes the same world again, in which there were all the
    faults of `trace`; `faults` are the fewest that still break it, `plan` says who took part then."""

    def __init__(
        self, seed: int, broken: Broken, faults: Sequence[Fault], plan: Plan, trace: Sequence[Fault] = ()
    ) -> None:
        self.seed, self.invariant, self.problem = seed, broken.invariant, broken.problem
        self.faults, self.plan, self.trace = tuple(faults), plan, tuple(trace)
        lines = [f"seed {seed}: {broken.invariant}: {broken.problem}", f"with {_shown(plan)}"]
        lines += [f"and {len(faults)} faults:" if faults else "and no fault at all", *(f"  {one}" for one in faults)]
        super().__init__("\n".join(lines))


def _shown(plan: Plan) -> str:
    goals = ", ".join(goal.run for goal in plan.goals)
    staff = ", ".join(one.specialist.name for one in plan.staff)
    return f"{plan.supervisors} supervisors; runs {goals}; specialists {staff}"


@dataclass(frozen=True)
class Simulation:
    """A world to be simulated.

    playbooks: of the teams that take part; a Team brings its specialists along. specialists: real ones and scripted
    ones. goals: `Published`, or the input of a goal to the first team. people: who answers gates. supervisors: how many
    serve the board at once. faults: what goes wrong, and how often. limit_s: virtual seconds within which all runs must
    have ended. attached: goals are published when every specialist has offered, so that who takes part in a step does
    not depend on who came first. punctual: steps have so much time that no attempt may end because nobody began or
    ended it.
    """

    playbooks: Any
    specialists: Sequence[Any] = ()
    goals: Sequence[Published | Mapping[str, Any]] = ({},)
    people: Sequence[Person] = ()
    seed: int = 0
    faults: Faults = field(default_factory=Faults)
    supervisors: int = 2
    limit_s: float = 4 * 3600.0
    attached: bool = True
    punctual: bool = False

    @cached_property
    def plan(self) -> Plan:
        alone = hasattr(self.playbooks, "team") or hasattr(self.playbooks, "playbook")
        given = [self.playbooks] if alone else [*self.playbooks]
        playbooks: list[Playbook] = [getattr(one, "playbook", one) for one in given]
        members = [*self.specialists, *(one for team in given for one in getattr(team, "specialists", ()))]
        return Plan(
            playbooks=tuple(playbooks),
            staff=tuple(_staff(one, self.seed) for one in members),
            goals=tuple(_published(goal, playbooks[0].team, number) for number, goal in enumerate(self.goals, 1)),
            people=tuple(self.people),
            supervisors=self.supervisors,
            limit_s=self.limit_s,
            attached=self.attached,
            punctual=self.punctual,
        )

    def run(self, shrink: bool = True) -> Report:
        """Simulate, and check what always holds. Raises SimulationFailed, with the least that fails where it is to
        `shrink`."""
        report, found = self.attempt(self.plan)
        if found is None:
            return report
        raise self.failure(report, found, shrink)

    async def live(self, within_s: float = 600.0) -> Sequence[Message]:
        """The log of the same world in real time, with nothing going wrong on purpose: for specialists with models.
        Raises TimeoutError."""
        return await live(self.plan, _parts(), within_s)

    def failure(self, report: Report, found: Broken, shrink: bool = True) -> "SimulationFailed":
        """What is to be raised about a report of `plan`, in which `found` is broken."""
        plan, faults = self.plan, report.faults
        if shrink:
            plan, faults, found = shrunk(plan, faults, found, self._again)
        return SimulationFailed(self.seed, found, faults, plan, report.faults)

    def attempt(
        self,
        plan: Plan,
        only: Mapping[str, str] | None = None,
        batches: Sequence[int] = BATCHES,
        chains: Chains | None = None,
    ) -> tuple[Report, Broken | None]:
        """Simulate `plan`, with the faults that the seed draws, or `only` with those. The report, and the first
        invariant that is broken. The log is decided again in `batches`, by `chains` (None: in this process)."""
        chance = Chance(self.seed, self.faults, only)
        happened = simulate(plan, chance, _parts())
        runs, found = examined(happened, _parts(), batches, chains)
        return make_report(self.seed, happened, runs, chance.made, _parts()), found

    def _again(self, plan: Plan, faults: Sequence[Fault]) -> tuple[Sequence[Fault], Broken | None, int]:
        report, found = self.attempt(plan, {fault.place: fault.kind for fault in faults})
        return report.faults, found, report.steps

    def stable(self, seeds: Iterable[int] = range(50)) -> Report:
        """Every published run has the same outcome (end, result, facts) under each of `seeds`; the report of the first.
        Raises AssertionError, which says what differs, and SimulationFailed."""
        first: Report | None = None
        for seed in seeds:
            report = self.seeded(seed).run()
            first = first or report
            for run in first.outcomes:
                if difference := report.run(run).differs_from(first.run(run)):
                    raise AssertionError(difference)
        if first is None:
            raise AssertionError("name at least one seed")
        return first

    def seeded(self, seed: int) -> "Simulation":
        """The same with another seed."""
        return replace(self, seed=seed)


def _staff(one: Any, seed: int) -> Staff:
    if isinstance(one, Staff):
        return one
    if isinstance(one, ScriptedSpecialist):
        return replace(one, seed=one.seed + seed)._staff()
    return Staff(one)


def _published(goal: Published | Mapping[str, Any], team: str, number: int) -> Published:
    return goal if isinstance(goal, Published) else Published(team, goal, f"r{number}")


def random_simulation(seed: int, family: str = "") -> Simulation:
    """The random task graph and world of `seed`, of `family` (see blackboard.simulation.families) or of any."""
    return _of_graph(world(Seeded(seed), family), seed)


def _of_graph(made: Graph, seed: int) -> Simulation:
    return Simulation(
        playbooks=made.playbooks,
        specialists=[ScriptedSpecialist(**one) for one in made.specialists],
        goals=made.goals,
        people=made.people,
        seed=seed,
        faults=made.faults,
        supervisors=made.supervisors,
        attached=made.attached,
        punctual=made.punctual,
    )


def simulations() -> Any:
    """A Hypothesis strategy: random task graphs, and the worlds around them, as Simulations."""
    return _strategy(lambda source, seed: _of_graph(world(source), seed))


def playbooks() -> Any:
    """A Hypothesis strategy: tuples of playbooks, of which later ones may ask for child runs of those before them."""
    return _strategy(lambda source, seed: random_playbooks(source))


def _strategy(make: Callable[[Source, int], Any]) -> Any:
    from hypothesis import strategies

    @strategies.composite
    def made(draw: Any) -> Any:
        return make(_Drawn(draw, strategies), draw(strategies.integers(0, 2**32)))

    return made()


class _Drawn:
    """Choices of Hypothesis; what shrinks becomes the first of several, the lowest number, and false."""

    def __init__(self, draw: Any, strategies: Any) -> None:
        self._draw, self._strategies = draw, strategies

    def pick(self, options: Sequence[T]) -> T:
        picked: T = self._draw(self._strategies.sampled_from(options))
        return picked

    def number(self, low: int, high: int) -> int:
        return int(self._draw(self._strategies.integers(low, high)))

    def chance(self, rate: float) -> bool:
        return bool(self._draw(self._strategies.integers(0, 99)) >= 100 - 100 * rate)


def _main() -> int:
    from blackboard.simulation.command import main

    return main(sys.argv[1:])


if __name__ == "__main__":
    sys.exit(_main())
