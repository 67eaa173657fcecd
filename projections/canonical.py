"""The canonical state of a run: what its events add up to, and nothing else.

Pure. Everything here is deterministic, immutable data, which `evolve` folds from events.
"""

from typing import Any, Literal

from msgspec import Struct

from schemas import events as e
from schemas.steps import PlanStep, Voice
from schemas.usage import Usage

LATE_LIMIT = 100
"""Late or rejected inputs of one author that a run records before the author is muted."""
AUTHORS_LIMIT = 1_000
"""Authors that a run tells apart when it counts late inputs; more share the entry OTHERS."""
OTHERS = "*"


class Timer(Struct, frozen=True):
    """Due `delay_ms` after it was seen to be armed, by event number `armed`, at the time `at` of the run."""

    delay_ms: int
    at: int
    armed: int


class TaskState(Struct, frozen=True, omit_defaults=True):
    """`attempt` 0: not dispatched yet. `lost` counts attempts that failed, `waits` those that were never started.
    `executions` are those whose usage is booked, each with the specialist that named it: `<execution> <specialist>`."""

    step: str
    group: int
    specialist: str
    contract: int = 0
    status: Literal["planned", "dispatched", "ended"] = "planned"
    attempt: int = 0
    lost: int = 0
    waits: int = 0
    tried: tuple[str, ...] = ()
    started: bool = False
    read_version: int = 0
    wait_ms: int = 0
    work_ms: int = 0
    child: str = ""
    executions: tuple[str, ...] = ()
    code: e.StopCode | Literal[""] = ""
    message: str = ""
    claims: tuple[e.Claim, ...] = ()
    silences: tuple[e.Silence, ...] = ()


class StepState(Struct, frozen=True, omit_defaults=True):
    """Counts, from which the step's status follows: `items` is -1 before the step was expanded; one item is one key.
    `dispatched` and `ended` count tasks, `settled` keys."""

    items: int = -1
    per_task: int = 1
    voices: tuple[Voice, ...] = ()
    tasks: int = 0
    dispatched: int = 0
    ended: int = 0
    settled: int = 0
    awaiting: str = ""
    skipped: str = ""

    @property
    def status(self) -> Literal["waiting", "dispatched", "collected", "decided", "skipped"]:
        if self.skipped:
            return "skipped"
        if self.items < 0:
            return "waiting"
        if self.settled == self.items:
            return "decided"
        return "collected" if self.ended == self.tasks else "dispatched"

    @property
    def over(self) -> bool:
        return bool(self.skipped) or self.settled == self.items


class Gate(Struct, frozen=True, omit_defaults=True):
    """A step that waits, or waited, for a person. `digest` is that of the exact action; `by` is empty while the gate is
    open."""

    ask: str
    action: Any
    digest: str
    by: str = ""
    approved: bool = False
    in_advance: bool = False

    @property
    def open(self) -> bool:
        return not self.by


class Fact(Struct, frozen=True, omit_defaults=True):
    """`version` is the number of the event that committed it."""

    value: Any
    version: int
    step: str
    task: str
    by: str
    policy: str
    losers: tuple[e.Loser, ...] = ()
    declined: tuple[e.Declined, ...] = ()


class Missing(Struct, frozen=True, omit_defaults=True):
    """A key that a step names and that has no value."""

    step: str
    code: str
    message: str
    losers: tuple[e.Loser, ...] = ()
    declined: tuple[e.Declined, ...] = ()


class State(Struct, frozen=True, omit_defaults=True):
    """One run. `version` counts its events; `goal` is the digest of the goal's bytes, empty in a run without one;
    `claimed` counts the bytes that tasks ended with; `end` is empty while the run goes on."""

    log: str
    run: str
    version: int = 0
    now: int = 0
    rules: int = 0
    goal: str = ""
    publisher: str = ""
    team: str = ""
    playbook: int = 0
    opened: int = 0
    input: dict[str, Any] = {}
    approve: bool = False
    parent: e.Parent | None = None
    plan: tuple[PlanStep, ...] = ()
    returns: dict[str, str] = {}
    result_schema: dict[str, Any] = {}
    parallel: int = 0
    steps: dict[str, StepState] = {}
    tasks: dict[str, TaskState] = {}
    in_flight: int = 0
    facts: dict[str, Fact] = {}
    missing: dict[str, Missing] = {}
    gates: dict[str, Gate] = {}
    timers: dict[str, Timer] = {}
    late: dict[str, int] = {}
    usage: Usage = Usage()
    claimed: int = 0
    end: str = ""
    code: str = ""
    reason: str = ""
    result: dict[str, Any] | None = None

    @property
    def phase(self) -> str:
        """The earliest unfinished phase of the steps that can go on; never stored."""
        if self.end:
            return self.end
        if not self.plan:
            return "DECOMPOSE"
        if self.open_gates and not self.in_flight:
            return "NEEDS_INPUT"
        active = {
            self.steps[step.id].status
            for step in self.plan
            if not self.steps[step.id].over and all(self.steps[need].over for need in step.needs)
        }
        for status, phase in (("waiting", "DISPATCH"), ("dispatched", "COLLECT"), ("collected", "DECIDE")):
            if status in active:
                return phase
        return "COMMIT"

    @property
    def open_gates(self) -> dict[str, Gate]:
        """The gates, by step, that wait for a person; none once the run has ended."""
        return {} if self.end else {name: gate for name, gate in self.gates.items() if gate.open}

    def step(self, name: str) -> PlanStep:
        return next(step for step in self.plan if step.id == name)


def initial(log: str, run: str) -> State:
    return State(log=log, run=run)


def task_id(step: str, state: StepState, index: int) -> str:
    return step if state.tasks == 1 else f"{step}-{index}"


def group_tasks(step: str, state: StepState, group: int) -> list[str]:
    """The tasks, one a voice, that share the items of one group."""
    voices = len(state.voices)
    return [task_id(step, state, group * voices + voice) for voice in range(voices)]


def group_span(state: StepState, group: int) -> range:
    """The indices of the items of one group."""
    return range(group * state.per_task, min(state.items, (group + 1) * state.per_task))


def booking(specialist: str, execution: str) -> str:
    """One execution as tasks remember it: specialists draw their ids alone, so one cannot use up another's."""
    return f"{execution} {specialist}"


def late_name(state: State, author: str) -> str:
    """Under which name late inputs of `author` are counted."""
    return author if author in state.late or len(state.late) < AUTHORS_LIMIT else OTHERS
