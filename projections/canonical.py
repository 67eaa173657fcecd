"""The canonical state of a run: what its events add up to, and nothing else.

Pure. Everything here is deterministic, immutable data, which `evolve` folds from events.
"""

from typing import Any, Literal

from msgspec import Struct
from msgspec.structs import replace

from schemas import events as e
from schemas.events_of_effects import Source
from schemas.grants import Grant
from schemas.steps import PlanStep, Voice
from schemas.taint import Labels
from schemas.usage import Amount, Limits, Usage

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


class Reservation(Struct, frozen=True):
    """What is set aside in the budget for one attempt, until its end says what it used."""

    attempt: int
    specialist: str
    limits: Limits


class Briefing(Struct, frozen=True, omit_defaults=True):
    """What an attempt at a plan is told: of which contracts, how many more there are, and what is left."""

    contracts: tuple[Voice, ...]
    left_out: int = 0
    budget: Limits = Limits()


class Refused(Struct, frozen=True, omit_defaults=True):
    """The plan that was proposed last, with the labels of its claim, why it was refused, and how many were."""

    value: Any
    reasons: tuple[str, ...]
    number: int
    taint: Labels = ()


class TaskState(Struct, frozen=True, omit_defaults=True):
    """`attempt` 0: not dispatched yet. `lost` counts attempts that failed, `waits` those that were never started,
    `hops` those after which it was handed on, `fallbacks` those after which another specialist took over, `stale` those
    whose facts had changed. `tried` are the specialists who had it before.

    `executions` are those whose usage is booked, each with the specialist that named it: `<execution> <specialist>`.
    `open` are the reservations of attempts that have not said what they used. `ended` is the number of the event with
    which it ended. A task that reconciles has the `index` of the item whose claims differ, any other -1. `calls` is the
    number of the last call of a tool that failed in the execution `calling`. One that proposes a plan has a `briefing`,
    and where its last plan was refused it is told why.
    """

    step: str
    group: int
    specialist: str
    contract: int = 0
    status: Literal["planned", "dispatched", "ended"] = "planned"
    attempt: int = 0
    lost: int = 0
    waits: int = 0
    hops: int = 0
    fallbacks: int = 0
    stale: int = 0
    tried: tuple[str, ...] = ()
    started: bool = False
    read_version: int = 0
    wait_ms: int = 0
    work_ms: int = 0
    child: str = ""
    executions: tuple[str, ...] = ()
    open: tuple[Reservation, ...] = ()
    ended: int = 0
    index: int = -1
    calling: str = ""
    calls: int = 0
    briefing: Briefing | None = None
    refused: Refused | None = None
    code: e.StopCode | Literal[""] = ""
    message: str = ""
    claims: tuple[e.Claim, ...] = ()
    silences: tuple[e.Silence, ...] = ()


class StepState(Struct, frozen=True, omit_defaults=True):
    """Counts, from which the step's status follows: `items` is -1 before the step was expanded; one item is one key.
    `dispatched` and `ended` count tasks, without those that reconcile, `settled` keys. `at` is the version of the run
    that the step was expanded at; `fallback` names who takes over; `revised` says that other steps took its place."""

    items: int = -1
    per_task: int = 1
    voices: tuple[Voice, ...] = ()
    fallback: tuple[str, ...] = ()
    at: int = 0
    tasks: int = 0
    dispatched: int = 0
    ended: int = 0
    settled: int = 0
    awaiting: str = ""
    skipped: str = ""
    revised: bool = False

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
    """Something that waits, or waited, for a person: a step, or what a specialist asks while it works on `task`.
    `digest` is that of the exact action; `by` is empty while the gate is open. With a `schema` a `value` is asked for.
    `who` may answer (none: anybody), until `expires_ms` after the time `opened` of the run."""

    ask: str
    action: Any
    digest: str
    opened: int = 0
    expires_ms: int = 0
    task: str = ""
    schema: dict[str, Any] | None = None
    who: tuple[str, ...] = ()
    voices: tuple[Voice, ...] = ()
    value: Any = None
    by: str = ""
    approved: bool = False
    in_advance: bool = False

    @property
    def open(self) -> bool:
        return not self.by


class Earlier(Struct, frozen=True, omit_defaults=True):
    """A value that a fact had before, with what was claimed beside it; `version` as in the fact."""

    value: Any
    version: int
    step: str
    by: str
    losers: tuple[e.Loser, ...] = ()
    taint: Labels = ()


class Fact(Struct, frozen=True, omit_defaults=True):
    """`version` is the number of the event that committed it. `previous` are the values that it took the place of, the
    oldest first; `stale` the keys of newer facts that the claim did not know of; `taint` the labels of content from
    outside that it may rest on."""

    value: Any
    version: int
    step: str
    task: str
    by: str
    policy: str
    losers: tuple[e.Loser, ...] = ()
    declined: tuple[e.Declined, ...] = ()
    policy_version: int = 1
    stale: tuple[str, ...] = ()
    previous: tuple[Earlier, ...] = ()
    taint: Labels = ()


class Breaker(Struct, frozen=True):
    """Failures of a specialist in a row; an open breaker lets nothing more through to it in this run."""

    failures: int
    open: bool = False


class Outcome(Struct, frozen=True, omit_defaults=True):
    """Whether a round of an effect was done, as event `version` of the run says."""

    round: int
    done: bool
    version: int
    source: Source = "call"
    result: Any = None


class Effect(Struct, frozen=True, omit_defaults=True):
    """A call that changes the world, by its key: begun for the `round`th time by event `intended`. `undo` names the
    tool that undoes it, `undoes` is the key of the effect that this one undoes, `undone` says that it is."""

    task: str
    specialist: str
    contract: int
    tool: str
    arguments: Any
    round: int
    intended: int
    undo: str = ""
    undoes: str = ""
    outcomes: tuple[Outcome, ...] = ()
    undone: bool = False

    @property
    def done(self) -> Outcome | None:
        """The first receipt that says that it was done."""
        return next((one for one in self.outcomes if one.done), None)

    @property
    def times(self) -> int:
        """In how many rounds it was done, by the receipts; more than once where an execution went on after its time."""
        return len({one.round for one in self.outcomes if one.done})

    @property
    def unknown(self) -> bool:
        """Whether nobody knows if it was done."""
        return not self.done and all(one.round != self.round for one in self.outcomes)


class Ending(Struct, frozen=True, omit_defaults=True):
    """How a run will end, once its effects are undone. The attempts of `waits` are in flight, and their ends are
    awaited."""

    end: e.End
    code: str = ""
    reason: str = ""
    waits: tuple[str, ...] = ()


class Missing(Struct, frozen=True, omit_defaults=True):
    """A key that a step names and that has no value; another step may have given it one since. `before` are the steps
    that had none for it either."""

    step: str
    code: str
    message: str
    losers: tuple[e.Loser, ...] = ()
    declined: tuple[e.Declined, ...] = ()
    before: tuple[str, ...] = ()


class State(Struct, frozen=True, omit_defaults=True):
    """One run. `version` counts its events; `goal` is the digest of the goal's bytes, empty in a run without one;
    `claimed` counts the bytes that tasks ended with; `end` is empty while the run goes on.

    Of the budget `reserved` is set aside for attempts whose end has not come, `charged` is used, and `overrun` is what
    was used beyond it: `charged + reserved <= budget` where there is one, and what specialists reported is
    `charged + overrun`. `ready` are the tasks that go on as soon as there is room, beside those never dispatched;
    `repeats` counts equal outcomes, `replaced` the facts that got a newer version. `grant` narrows what tasks may call,
    `taint` are the labels that all of them begin with. `effects` are by their keys; `ending` says how a run will end
    that still undoes them.
    """

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
    grant: Grant | None = None
    taint: Labels = ()
    plan: tuple[PlanStep, ...] = ()
    returns: dict[str, str] = {}
    result_schema: dict[str, Any] = {}
    parallel: int = 0
    budget: Limits = Limits()
    breaker: int = 0
    repeats_allowed: int = 0
    on_loop: str = "stop"
    steps: dict[str, StepState] = {}
    tasks: dict[str, TaskState] = {}
    in_flight: int = 0
    facts: dict[str, Fact] = {}
    missing: dict[str, Missing] = {}
    gates: dict[str, Gate] = {}
    timers: dict[str, Timer] = {}
    late: dict[str, int] = {}
    usage: Usage = Usage()
    reserved: Amount = Amount()
    charged: Amount = Amount()
    overrun: Amount = Amount()
    ready: tuple[str, ...] = ()
    breakers: dict[str, Breaker] = {}
    repeats: dict[str, int] = {}
    effects: dict[str, Effect] = {}
    ending: Ending | None = None
    revisions: int = 0
    loops: int = 0
    replaced: int = 0
    claimed: int = 0
    end: str = ""
    code: str = ""
    reason: str = ""
    result: dict[str, Any] | None = None

    @property
    def over(self) -> bool:
        """Whether the run has ended, or does nothing any more but undo its effects."""
        return bool(self.end) or self.ending is not None

    @property
    def phase(self) -> str:
        """The earliest unfinished phase of the steps that can go on; never stored."""
        if self.end:
            return self.end
        if not self.plan:
            return "DECOMPOSE"
        if self.open_gates and not self.in_flight and not self._tries_again:
            return "NEEDS_INPUT"
        if self.ending:
            return "UNDO"
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
        """The gates, by name, that wait for a person; none once the run has ended, or the task that asks, or what the
        step asked for was decided without an answer."""
        if self.end or not self.gates:
            return {}
        return {name: gate for name, gate in self.gates.items() if gate.open and not self._is_over(name, gate.task)}

    @property
    def _tries_again(self) -> bool:
        """Whether a task goes on by itself after a delay."""
        return any(name.startswith("retry.") for name in self.timers)

    def _is_over(self, gate: str, task: str) -> bool:
        if self.ending and not (task and self.step(self.tasks[task].step).undo):
            return True
        if task:
            return self.tasks[task].status == "ended"
        return gate in self.steps and (self.steps[gate].items >= 0 or bool(self.steps[gate].skipped))

    def step(self, name: str) -> PlanStep:
        for step in self.plan:
            if step.id == name:
                return step
        raise LookupError(name)


def initial(log: str, run: str) -> State:
    return State(log=log, run=run)


def as_first_rules(state: State) -> State:
    """The state without what runs have only remembered since version 2 of the rules: what supervisors held of runs that
    version 1 decided, so that their digests stay what they were."""
    unset = initial(state.log, state.run)
    later = ("budget", "reserved", "charged", "overrun")
    return replace(
        state,
        tasks={name: replace(task, open=(), ended=0) for name, task in state.tasks.items()},
        steps={name: replace(step, at=0) for name, step in state.steps.items()},
        gates={name: replace(gate, opened=0, expires_ms=0) for name, gate in state.gates.items()},
        **{name: getattr(unset, name) for name in later},
    )


def task_id(step: str, state: StepState, index: int) -> str:
    return step if state.tasks == 1 else f"{step}-{index}"


def group_tasks(step: str, state: StepState, group: int) -> list[str]:
    """The tasks, one a voice, that share the items of one group."""
    voices = len(state.voices)
    return [task_id(step, state, group * voices + voice) for voice in range(voices)]


def group_span(state: StepState, group: int) -> range:
    """The indices of the items of one group."""
    return range(group * state.per_task, min(state.items, (group + 1) * state.per_task))


def loop_gate(number: int) -> str:
    """The name of the gate that asks whether a run may go on after it was found to repeat itself; no task's gate has
    two dots."""
    return f"run.loop.{number}"


def booking(specialist: str, execution: str) -> str:
    """One execution as tasks remember it: specialists draw their ids alone, so one cannot use up another's."""
    return f"{execution} {specialist}"


def late_name(state: State, author: str) -> str:
    """Under which name late inputs of `author` are counted."""
    return author if author in state.late or len(state.late) < AUTHORS_LIMIT else OTHERS
