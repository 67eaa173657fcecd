"""What a simulation is composed of: the parts of the upper packages, which `blackboard.testing` finds by name, and what
a simulated world is given to do."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple, Protocol

from blackboard.log import Message
from blackboard.queue import TaskKey
from schemas import events as e
from schemas.contracts import Contract
from schemas.goals import Budget
from schemas.playbooks import Playbook


class Folded(Protocol):
    """A run as folded from its facts; `state` is that of `projections.canonical`."""

    @property
    def state(self) -> Any: ...
    @property
    def h(self) -> str: ...
    @property
    def cursor(self) -> int: ...
    @property
    def seq(self) -> int: ...


Chains = Callable[[str, Sequence[Message], int], Mapping[str, str]]
"""Decides a log again, in batches of some size: the chain of each run."""


class Broken(NamedTuple):
    """An invariant that does not hold: which one, and how."""

    invariant: str
    problem: str


class History(NamedTuple):
    """One run as the log has it: its events, and its inputs by sequence as (author, body). `problems` are what was
    found wrong while it was folded; `stored` are the sequences of the messages that hold the events."""

    folded: Folded
    events: list[e.Event]
    inputs: dict[int, tuple[str, Any]]
    problems: list[Broken]
    stored: list[int]


class SpecialistLike(Protocol):
    """`specialists.specialist.Specialist`, as far as it is needed here."""

    @property
    def name(self) -> str: ...

    def contract(self) -> Contract: ...


@dataclass(frozen=True)
class Parts:
    """The real code: how to make a supervisor and a worker, how to decide a log again, how to fold it."""

    supervisor: Callable[..., Any]
    worker: Callable[..., Any]
    begun: type[Any]
    timing: Callable[..., Any]
    context: type[Any]
    redecide: Callable[..., Mapping[str, Folded]]
    unwritten: Callable[[str, str], Folded]
    fold: Callable[..., Folded]
    state_digest: Callable[[Any], str]
    outcome_digest: Callable[[Any], str]

    def chains(self, log_id: str, messages: Sequence[Message], batch: int) -> Mapping[str, str]:
        return {run: folded.h for run, folded in self.redecide(log_id, messages, batch).items()}


@dataclass(frozen=True)
class Published:
    """A goal: who wants what, from which virtual second on. It is cancelled `cancel_after_s` later. `budget` and
    `deadline_s` as of any goal."""

    team: str
    input: Mapping[str, Any] = field(default_factory=dict)
    run: str = "r1"
    by: str = "ann"
    after_s: float = 0.0
    approve: bool = False
    cancel_after_s: float | None = None
    budget: Budget = field(default_factory=Budget)
    deadline_s: float | None = None


@dataclass(frozen=True)
class Person:
    """Somebody who answers every gate within `after_s` seconds, or with "nothing" none. `value` is the answer where one
    is asked for, or a function of the event that asks, as JSON. `mistaken`: how often an answer first cites another
    digest."""

    name: str = "bob"
    says: Literal["approve", "deny", "nothing"] = "approve"
    after_s: tuple[float, float] = (1.0, 60.0)
    value: Any = True
    mistaken: float = 0.0


@dataclass(frozen=True)
class Staff:
    """A specialist with `workers` processes. `lies`: what its processes append beside the truth (see `lies`). `down`:
    it has a contract and never takes a task. Raises ValueError for one with tools of a server: servers have no place in
    virtual time."""

    specialist: SpecialistLike
    workers: int = 1
    lies: tuple[str, ...] = ()
    lie_rate: float = 0.3
    down: bool = False

    def __post_init__(self) -> None:
        tools = getattr(self.specialist, "tools", {})
        if foreign := [name for name, tool in tools.items() if tool.foreign]:
            raise ValueError(
                f"tool {foreign[0]!r} of {self.specialist.name!r} is one of a server, which has no place in virtual "
                "time: simulate the specialist with functions of these names"
            )


@dataclass(frozen=True)
class Plan:
    """Everything that a simulated world begins with, beside the seed and the faults. `attached`: goals are published
    when every specialist has offered. `punctual`: there is so much time that no attempt may end because nobody began or
    ended it. `announced`: supervisors hear each other, and one of them is active; else all of them are."""

    playbooks: tuple[Playbook, ...]
    staff: tuple[Staff, ...]
    goals: tuple[Published, ...]
    people: tuple[Person, ...] = ()
    supervisors: int = 2
    attached: bool = True
    punctual: bool = False
    announced: bool = False
    limit_s: float = 4 * 3600.0
    limit_steps: int = 2_000_000


class Call(NamedTuple):
    """A specialist was given an attempt of a task, by the queue; `execution` tells tries at one attempt apart."""

    specialist: str
    run: str
    task: str
    attempt: int
    execution: str
    at_s: float


class ToolUse(NamedTuple):
    """A tool was called; with a `refused` call it was not, since it is none of the specialist's."""

    specialist: str
    run: str
    task: str
    tool: str
    refused: bool


class Enqueued(NamedTuple):
    """A supervisor put a task into the queue when the log's head was `head`; when it last looked at what is in the
    queue, the head was `looked`."""

    key: TaskKey
    head: int
    looked: int


class Acknowledged(NamedTuple):
    """A worker took a task out of the queue when the log's head was `head`."""

    key: TaskKey
    head: int


@dataclass
class Happened:
    """What came of a simulated world. `problems` are what processes died of; `hung` says why it did not come to its
    end, else it is empty. `held` are the runs as the supervisors hold them at the end. `stored_s` is when each message
    of the log was stored; `undisturbed`: nothing went wrong."""

    log_id: str
    plan: Plan
    messages: Sequence[Message] = ()
    duration_s: float = 0.0
    steps: int = 0
    calls: list[Call] = field(default_factory=list)
    tools: list[ToolUse] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    hung: str = ""
    held: list[Folded] = field(default_factory=list)
    processes: int = 0
    stored_s: Sequence[float] = ()
    undisturbed: bool = False
    enqueued: list[Enqueued] = field(default_factory=list)
    acknowledged: list[Acknowledged] = field(default_factory=list)
