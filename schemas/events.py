"""Events: what the supervisor decides and the log keeps for ever. Every state of a run is a fold of these.

Pure. An event's name and version never change their meaning: a change of fields is a new version, with an upcaster in
`codec`. Times are milliseconds since 1970, durations milliseconds, sizes bytes.
"""

from typing import Annotated, Any, Literal, get_args

from msgspec import Meta, Struct
from msgspec.structs import fields

StopCode = Literal[
    "INVALID_INPUT",
    "INVALID_OUTPUT",
    "LOW_CONFIDENCE",
    "INTERNAL",
    "TOOL_DOWN",
    "TIMEOUT",
    "BUDGET_EXCEEDED",
    "POLICY_BLOCKED",
]
"""Why a task ended without a result."""

End = Literal["DONE", "DEGRADED", "FAILED", "FAILED_RETRYABLE", "POLICY_BLOCKED", "CANCELLED"]
"""How a run ends."""

Digest = Annotated[str, Meta(min_length=64, max_length=64)]
"""SHA-256 in hex. Only its length is checked here: who trusts it compares it with what it is a digest of."""

COUNT_LIMIT = 2**53
Count = Annotated[int, Meta(ge=0, le=COUNT_LIMIT)]


class Cause(Struct, frozen=True):
    """The input that brought an event about: its sequence on the log and the SHA-256 of its bytes."""

    seq: int
    sha256: Digest


class Usage(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """What an execution used. Mandatory in every end of a task, zeros included."""

    input_tokens: Count = 0
    output_tokens: Count = 0
    tool_calls: Count = 0

    def __add__(self, other: "Usage") -> "Usage":
        """The sum, which stops at COUNT_LIMIT."""
        if not (other.input_tokens or other.output_tokens or other.tool_calls):
            return self
        return Usage(
            min(self.input_tokens + other.input_tokens, COUNT_LIMIT),
            min(self.output_tokens + other.output_tokens, COUNT_LIMIT),
            min(self.tool_calls + other.tool_calls, COUNT_LIMIT),
        )


class Claim(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A value that a specialist proposes for a fact key."""

    key: str
    value: Any
    confidence: float | None = None


class Silence(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A key for which a task has no value, and why."""

    key: str
    code: StopCode
    message: str = ""


class Merge(Struct, frozen=True, omit_defaults=True):
    """The named, versioned policy that decides between claims for one key. `order` belongs to `priority`."""

    policy: str = "only"
    order: tuple[str, ...] = ()
    version: int = 1


class GatePlan(Struct, frozen=True, omit_defaults=True):
    """A step that needs a person's approval first. `ask` is the question; it expires after `expires_ms`."""

    ask: str = ""
    expires_ms: int = 7 * 86_400_000


class PlanStep(Struct, frozen=True, omit_defaults=True):
    """One step of a plan, as committed. See schemas.playbooks.Step for what each field means to its author."""

    id: str
    needs: tuple[str, ...] = ()
    capability: str = ""
    team: str = ""
    specialist: str = ""
    when: str = ""
    for_each: str = ""
    tasks: int = 256
    input: dict[str, str] = {}
    reads: tuple[str, ...] = ()
    fact: str = ""
    merge: Merge = Merge()
    accept: str = ""
    missing: Literal["fail", "allow"] = "fail"
    silent: tuple[str, ...] = ()
    wait_ms: int = 60_000
    work_ms: int | None = None
    attempts: int | None = None
    await_ms: int = 3_600_000
    gate: GatePlan | None = None


class Parent(Struct, frozen=True):
    """The task of another run that asked for this run; `depth` counts the ancestors."""

    run: str
    task: str
    depth: int


class Voice(Struct, frozen=True, omit_defaults=True):
    """A specialist (or team, for child runs) that takes part in a step; `contract` is the sequence of its contract."""

    specialist: str
    contract: int = 0


class Event(Struct, tag_field="type", frozen=True, kw_only=True):
    """Common to all events. `at` is the time of the run after its cause: never smaller than before."""

    at: int
    cause: Cause


class RunOpened(Event, tag="run_opened", frozen=True, kw_only=True):
    """A goal was accepted. `playbook` is the sequence of the playbook that it follows; with `approve` the publisher
    has approved its gates in advance."""

    v: Literal[1] = 1
    rules: int
    publisher: str
    team: str
    playbook: int
    input: dict[str, Any]
    approve: bool = False
    parent: Parent | None = None


class PlanCommitted(Event, tag="plan_committed", frozen=True, kw_only=True):
    """The steps of the run, before anything is dispatched. `returns` maps result fields to expressions."""

    v: Literal[1] = 1
    steps: tuple[PlanStep, ...]
    returns: dict[str, str]
    result: dict[str, Any]
    parallel: int


class GateOpened(Event, tag="gate_opened", frozen=True, kw_only=True):
    """A step waits for a person, for `delay_ms` at most. `action` is what it will do, exactly; `digest` is over log,
    run, step and action, and an answer must cite it. The gate is named after its step."""

    v: Literal[1] = 1
    gate: str
    ask: str
    action: Any
    digest: str
    delay_ms: int


class GateAnswered(Event, tag="gate_answered", frozen=True, kw_only=True):
    """A person approved or denied the action; `in_advance` when the publisher did with the goal."""

    v: Literal[1] = 1
    gate: str
    by: str
    approved: bool
    in_advance: bool = False
    reason: str = ""


class CapabilityAwaited(Event, tag="capability_awaited", frozen=True, kw_only=True):
    """Nobody offers what a step asks for; the run waits for `delay_ms` at most."""

    v: Literal[1] = 1
    step: str
    capability: str
    delay_ms: int


class StepExpanded(Event, tag="step_expanded", frozen=True, kw_only=True):
    """A step became tasks: `items` items, `per_task` of them a task, each group of items once per voice.

    Task ids: the step's id when there is one task, else `<step>-<group * len(voices) + voice>`.
    """

    v: Literal[1] = 1
    step: str
    items: int
    per_task: int
    voices: tuple[Voice, ...]


class StepSkipped(Event, tag="step_skipped", frozen=True, kw_only=True):
    v: Literal[1] = 1
    step: str
    reason: str


class TaskDispatched(Event, tag="task_dispatched", frozen=True, kw_only=True):
    """An attempt of a task was given to a specialist, or, with `child`, to a run of its own.

    `read_version` is the version of the run whose facts the task sees. The attempt ends after `wait_ms + work_ms`.
    """

    v: Literal[1] = 1
    task: str
    attempt: int
    specialist: str
    contract: int
    read_version: int
    wait_ms: int
    work_ms: int
    child: str = ""


class TaskStarted(Event, tag="task_started", frozen=True, kw_only=True):
    """A worker has been at it for a second: from now the attempt has its `work_ms`."""

    v: Literal[1] = 1
    task: str
    attempt: int
    execution: str


class AttemptFailed(Event, tag="attempt_failed", frozen=True, kw_only=True):
    """An attempt ended without a result and the task goes on with another one. `lost` tells whether it counts against
    the attempts of the task: one that was never started does not."""

    v: Literal[1] = 1
    task: str
    attempt: int
    code: StopCode
    message: str = ""
    lost: bool = True
    execution: str = ""
    usage: Usage = Usage()


class TaskEnded(Event, tag="task_ended", frozen=True, kw_only=True):
    """A task has ended for good: with claims and silences (`code` empty), or with the code of its last attempt.
    Without a code, `message` says what its child run did without. `size`: bytes of claims, silences and message."""

    v: Literal[2] = 2
    task: str
    attempt: int
    specialist: str
    code: StopCode | Literal[""] = ""
    message: str = ""
    execution: str = ""
    claims: tuple[Claim, ...] = ()
    silences: tuple[Silence, ...] = ()
    size: int = 0
    usage: Usage = Usage()


class Loser(Struct, frozen=True, omit_defaults=True):
    """A claim that did not become the fact, and why. `reason` is empty where its value equals the fact's."""

    task: str
    by: str
    value: Any
    reason: str = ""


class Declined(Struct, frozen=True, omit_defaults=True):
    """A voice without a claim for a key, and why."""

    task: str
    by: str
    code: StopCode
    message: str = ""


class FactCommitted(Event, tag="fact_committed", frozen=True, kw_only=True):
    """A value under a key. `task` and `by` name the claim that won; the others are the losers; `declined` are the
    voices that claimed nothing."""

    v: Literal[1] = 1
    step: str
    key: str
    value: Any
    task: str
    by: str
    policy: str
    losers: tuple[Loser, ...] = ()
    declined: tuple[Declined, ...] = ()


class FactMissing(Event, tag="fact_missing", frozen=True, kw_only=True):
    """No value could be committed under a key that a step names; `losers` are the claims that were not taken."""

    v: Literal[1] = 1
    step: str
    key: str
    code: StopCode
    message: str
    losers: tuple[Loser, ...] = ()
    declined: tuple[Declined, ...] = ()


class InputLate(Event, tag="input_late", frozen=True, kw_only=True):
    """An input that the run did not await any more, or never did. `usage` is what it reports to have used."""

    v: Literal[1] = 1
    author: str
    reason: str
    task: str = ""
    execution: str = ""
    usage: Usage = Usage()


class InputRejected(Event, tag="input_rejected", frozen=True, kw_only=True):
    """An input that cannot be an input of the run that it names; only in the history of `_board`."""

    v: Literal[1] = 1
    author: str
    subject: str
    reason: str


class AuthorMuted(Event, tag="author_muted", frozen=True, kw_only=True):
    """From now on late and rejected inputs of this author are passed over without a record."""

    v: Literal[1] = 1
    author: str


class RulesChanged(Event, tag="rules_changed", frozen=True, kw_only=True):
    """A supervisor with newer rules goes on with the run."""

    v: Literal[1] = 1
    rules: int


class RunEnded(Event, tag="run_ended", frozen=True, kw_only=True):
    """`result` satisfies the result schema exactly when `end` is DONE or DEGRADED; `code` says why otherwise."""

    v: Literal[1] = 1
    end: End
    code: str = ""
    reason: str = ""
    result: dict[str, Any] | None = None


EventUnion = (
    RunOpened
    | PlanCommitted
    | GateOpened
    | GateAnswered
    | CapabilityAwaited
    | StepExpanded
    | StepSkipped
    | TaskDispatched
    | TaskStarted
    | AttemptFailed
    | TaskEnded
    | FactCommitted
    | FactMissing
    | InputLate
    | InputRejected
    | AuthorMuted
    | RulesChanged
    | RunEnded
)

EVENT_VERSIONS: dict[str, int] = {
    str(kind.__struct_config__.tag): next(field.default for field in fields(kind) if field.name == "v")
    for kind in get_args(EventUnion)
}
"""The version in which this release writes each type of event."""
