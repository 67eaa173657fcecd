"""Events: what the supervisor decides and the log keeps for ever. Every state of a run is a fold of these.

Pure. An event's name and version never change their meaning: a change of fields is a new version, with an upcaster in
`codec`. Times are milliseconds since 1970, durations milliseconds, sizes bytes.
"""

from typing import Annotated, Any, Literal

from msgspec import UNSET, Meta, Struct, UnsetType

from schemas.grants import Grant
from schemas.steps import PlanStep, Voice
from schemas.taint import Labels
from schemas.usage import Limits, Usage

StopCode = Literal[
    "INVALID_INPUT",
    "INVALID_OUTPUT",
    "LOW_CONFIDENCE",
    "INTERNAL",
    "TOOL_DOWN",
    "TIMEOUT",
    "BUDGET_EXCEEDED",
    "POLICY_BLOCKED",
    "NEEDS_INPUT",
    "HANDED_OFF",
    "EFFECT_UNKNOWN",
]
"""Why an attempt ended without a result. After the last three the task goes on: when a person has answered, with the
specialist that it was handed to, or when it is known whether an effect was done."""

End = Literal["DONE", "DEGRADED", "FAILED", "FAILED_RETRYABLE", "POLICY_BLOCKED", "CANCELLED"]
"""How a run ends."""

Digest = Annotated[str, Meta(min_length=64, max_length=64)]
"""SHA-256 in hex. Only its length is checked here: who trusts it compares it with what it is a digest of."""


class Cause(Struct, frozen=True):
    """The input that brought an event about: its sequence on the log and the SHA-256 of its bytes."""

    seq: int
    sha256: Digest


class Claim(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A value that a specialist proposes for a fact key. `taint`: labels of the content from outside that it may rest
    on."""

    key: str
    value: Any
    confidence: float | None = None
    taint: Labels = ()


class Silence(Struct, frozen=True, omit_defaults=True, forbid_unknown_fields=True):
    """A key for which a task has no value, and why."""

    key: str
    code: StopCode
    message: str = ""


class Parent(Struct, frozen=True):
    """The task of another run that asked for this run; `depth` counts the ancestors."""

    run: str
    task: str
    depth: int


class Event(Struct, tag_field="type", frozen=True, kw_only=True):
    """Common to all events. `at` is the time of the run after its cause: never smaller than before."""

    at: int
    cause: Cause


class RunOpened(Event, tag="run_opened", frozen=True, kw_only=True):
    """A goal was accepted. `playbook` is the sequence of the playbook that it follows; with `approve` the publisher
    has approved its gates in advance. `grant` and `taint` hold for all of its tasks."""

    v: Literal[1] = 1
    rules: int
    publisher: str
    team: str
    playbook: int
    input: dict[str, Any]
    approve: bool = False
    parent: Parent | None = None
    grant: Grant | UnsetType = UNSET
    taint: Labels | UnsetType = UNSET


class PlanCommitted(Event, tag="plan_committed", frozen=True, kw_only=True):
    """The steps of the run, before anything is dispatched. `returns` maps result fields to expressions; `budget` is
    that of the whole run; the run ends `deadline_ms` after this (0: never). `breaker` failures of a specialist in a row
    open its breaker, an outcome that comes more than `repeats` times is a loop (0: never)."""

    v: Literal[1] = 1
    steps: tuple[PlanStep, ...]
    returns: dict[str, str]
    result: dict[str, Any]
    parallel: int
    budget: Limits = Limits()
    deadline_ms: int = 0
    breaker: int = 0
    repeats: int = 0
    on_loop: Literal["stop", "ask"] = "stop"


class PlanRevised(Event, tag="plan_revised", frozen=True, kw_only=True):
    """Steps were added to the plan: `instead_of` a step that failed, which is missed no longer (what needs it needs
    them too), or because a specialist is woken by a fact. `number` counts the revisions."""

    v: Literal[1] = 1
    number: int
    steps: tuple[PlanStep, ...]
    reason: str
    instead_of: str = ""


class GateOpened(Event, tag="gate_opened", frozen=True, kw_only=True):
    """The run waits for a person, for `delay_ms` at most. `action` is what will be done, exactly; `digest` is over log,
    run, gate, action and voices, and an answer must cite it.

    The gate is named after its step, or `<task>.<attempt>` for what a specialist asks (`task`), or `run.loop.<n>`. With
    a `schema` it asks for a value. `who` may answer (none: anybody). `voices` will do what is approved.
    """

    v: Literal[1] = 1
    gate: str
    ask: str
    action: Any
    digest: str
    delay_ms: int
    task: str = ""
    schema: dict[str, Any] | None = None
    who: tuple[str, ...] = ()
    voices: tuple[Voice, ...] = ()


class GateAnswered(Event, tag="gate_answered", frozen=True, kw_only=True):
    """A person approved or denied the action, or gave the `value` that was asked for; `in_advance` when the publisher
    did with the goal."""

    v: Literal[1] = 1
    gate: str
    by: str
    approved: bool
    in_advance: bool = False
    reason: str = ""
    value: Any = None


class CapabilityAwaited(Event, tag="capability_awaited", frozen=True, kw_only=True):
    """Nobody offers what a step asks for; the run waits for `delay_ms` at most."""

    v: Literal[1] = 1
    step: str
    capability: str
    delay_ms: int


class StepExpanded(Event, tag="step_expanded", frozen=True, kw_only=True):
    """A step became tasks: `items` items, `per_task` of them a task, each group of items once per voice; without a
    voice its facts come from an expression or a person. `fallback` names who takes over, in this order.

    Task ids: the step's id when there is one task, else `<step>-<group * len(voices) + voice>`.
    """

    v: Literal[1] = 1
    step: str
    items: int
    per_task: int
    voices: tuple[Voice, ...]
    fallback: tuple[str, ...] = ()


class StepSkipped(Event, tag="step_skipped", frozen=True, kw_only=True):
    v: Literal[1] = 1
    step: str
    reason: str


class TaskDispatched(Event, tag="task_dispatched", frozen=True, kw_only=True):
    """An attempt of a task was given to a specialist, or, with `child`, to a run of its own.

    `read_version` is the version of the run whose facts the task sees. The attempt ends after `wait_ms + work_ms`.
    `reserve` is set aside for it in the budget of the run.
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
    reserve: Limits = Limits()


class TaskStarted(Event, tag="task_started", frozen=True, kw_only=True):
    """A worker has been at it for a second: from now the attempt has its `work_ms`."""

    v: Literal[1] = 1
    task: str
    attempt: int
    execution: str


class AttemptFailed(Event, tag="attempt_failed", frozen=True, kw_only=True):
    """An attempt ended without a result and the task goes on. `lost` tells whether it counts against the attempts of
    the task: one that was never started, that asked a person or was handed on does not. `to` gets the task next, with
    attempts of its own, by the contract at `contract`. `outcome` is a digest of who did what with which result, where
    it could repeat."""

    v: Literal[1] = 1
    task: str
    attempt: int
    code: StopCode
    message: str = ""
    lost: bool = True
    execution: str = ""
    usage: Usage = Usage()
    to: str = ""
    contract: int = 0
    outcome: str = ""


class AttemptStale(Event, tag="attempt_stale", frozen=True, kw_only=True):
    """An attempt ended with a result that rests on facts of which there are newer versions (`keys`); the task is given
    out again."""

    v: Literal[1] = 1
    task: str
    attempt: int
    keys: tuple[str, ...]
    execution: str = ""
    usage: Usage = Usage()


class TaskDelayed(Event, tag="task_delayed", frozen=True, kw_only=True):
    """A task goes on after `delay_ms`; 0: as soon as there is room in `parallel` and in the budget."""

    v: Literal[1] = 1
    task: str
    delay_ms: int
    reason: str = ""


class TaskDropped(Event, tag="task_dropped", frozen=True, kw_only=True):
    """What a task would say is not needed any more."""

    v: Literal[1] = 1
    task: str
    reason: str


class ShareKept(Event, tag="share_kept", frozen=True, kw_only=True):
    """The child run of an attempt has ended before all attempts in it said what they used: so much of its share, which
    is `held` there for them, stays reserved here too."""

    v: Literal[1] = 1
    task: str
    attempt: int
    held: Limits


class BreakerOpened(Event, tag="breaker_opened", frozen=True, kw_only=True):
    """A specialist failed `failures` times in a row, last with `code`: this run gives it nothing more."""

    v: Literal[1] = 1
    specialist: str
    failures: int
    code: str


class ToolFailed(Event, tag="tool_failed", frozen=True, kw_only=True):
    """A tool that a specialist called has failed; `input` is the digest of its arguments, `outcome` one of all that
    must be equal to be called a repetition. `call` is the number of the call in its execution."""

    v: Literal[1] = 1
    task: str
    attempt: int
    specialist: str
    tool: str
    input: str
    code: StopCode
    outcome: str
    message: str = ""
    execution: str = ""
    call: int = 0


class LoopFound(Event, tag="loop_found", frozen=True, kw_only=True):
    """The same came `times` times: `what` names who did what with which result."""

    v: Literal[1] = 1
    outcome: str
    times: int
    task: str
    what: str


class ConflictFound(Event, tag="conflict_found", frozen=True, kw_only=True):
    """The claims for a key differ, and the policy of the step has a specialist reconcile them, in a task of its own
    that sees just these values. `index` is that of the item of the key."""

    v: Literal[1] = 1
    step: str
    key: str
    index: int
    task: str
    specialist: str
    contract: int


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
    outcome: str = ""


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
    """A value under a key. `task` and `by` name the claim that won, both empty where the value was made of several or
    of facts; the others are the losers; `declined` are the voices that claimed nothing. `stale` are the keys of newer
    facts that the claim does not know of; `replaces` is the version of the fact that this one takes the place of;
    `taint` the labels of all that was claimed."""

    v: Literal[1] = 1
    step: str
    key: str
    value: Any
    task: str
    by: str
    policy: str
    losers: tuple[Loser, ...] = ()
    declined: tuple[Declined, ...] = ()
    policy_version: int = 1
    stale: tuple[str, ...] = ()
    replaces: int = 0
    taint: Labels | UnsetType = UNSET


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
    attempt: int = 0


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
