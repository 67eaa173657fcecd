"""Inputs: the messages that can change a run, as their authors write them and as the supervisor reads them.

Pure. Observations, signals and wakes are msgspec Structs; goals are written by people and validated by pydantic
(schemas.goals). `read_input` never raises: what cannot be read becomes Unreadable, with a reason that is the same on
every machine, since it ends up on the log.
"""

import re
from typing import Annotated, Any, Literal

import msgspec
from msgspec import UNSET, Meta, Struct, UnsetType

from schemas.codec import MESSAGE_DEPTH, digest, sha256, too_deep
from schemas.effects import ROUNDS_LIMIT
from schemas.events import Claim, Silence, StopCode
from schemas.events_of_effects import Source
from schemas.goals import Goal, read_goal
from schemas.subjects import Address
from schemas.taint import Labels
from schemas.usage import Count, Limits, Usage

ExecutionId = Annotated[str, Meta(min_length=1, max_length=64)]
"""As long as what a run remembers of it: no two are taken for one, and none for the lack of one."""

EffectKey = Annotated[str, Meta(pattern="^[0-9a-f]{32}$")]
ToolName = Annotated[str, Meta(min_length=1, max_length=64)]


class Observed(Struct, frozen=True, kw_only=True, tag_field="type"):
    """Common to all observations. `execution` is a random id that a worker draws for each try at an attempt."""

    task: str
    attempt: Count
    execution: ExecutionId


class Started(Observed, tag="started", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Sent once the work has taken a second."""

    v: Literal[1] = 1


class Progress(Observed, tag="progress", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """For people who watch; changes nothing. `fraction` is 0 to 1."""

    v: Literal[1] = 1
    message: str
    fraction: float | None = None


class ToolCalled(Observed, tag="tool_called", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A tool was used: `input` and `output` are digests of canonical bytes; `code` is empty when it went well. `call`
    numbers the calls that an execution tells of, from 1: by it one that is told twice counts once (0: each counts)."""

    v: Literal[1] = 1
    tool: str
    call: Count = 0
    input: str
    output: str = ""
    code: StopCode | Literal[""] = ""
    message: str = ""
    duration_ms: int = 0


class ModelCalled(Observed, tag="model_called", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A model was asked. `request` is the digest of how (model, parameters), `messages` that of the last message that
    it was given, `answer` that of its answer: blobs, of which each message names the one before it. `finish` is why the
    answer ended; `code` says why there is none. `usage` is what the endpoint counted: cached tokens are among the
    input's, reasoning among the output's. It counts with the end of the execution, not here. `uncounted`: more may have
    been used than the endpoint said, which nobody knows."""

    v: Literal[1] = 1
    model: str
    call: Count = 0
    request: str
    messages: str
    answer: str = ""
    finish: str = ""
    usage: Usage = Usage()
    cached_tokens: Count = 0
    reasoning_tokens: Count = 0
    uncounted: bool = False
    code: StopCode | Literal[""] = ""
    message: str = ""
    duration_ms: int = 0


class Question(Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a specialist asks people: a value that satisfies `schema`, or without one their approval of `action`."""

    ask: str
    schema: dict[str, Any] | None = None
    action: Any = None
    expires_ms: Count = 7 * 86_400_000

    @property
    def digest(self) -> str:
        """What is asked, exactly: by it a later attempt finds the answer."""
        return digest({"ask": self.ask, "schema": self.schema, "action": self.action})


class EffectIntended(Observed, tag="effect_intended", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """An execution is about to do an effect: appended on a subject of its own for this key and round, as the first
    message there, so that the log lets one execution have it. `arguments` are those of the tool, as JSON."""

    v: Literal[1] = 1
    tool: ToolName
    key: EffectKey
    round: Annotated[int, Meta(ge=1, le=ROUNDS_LIMIT)]
    arguments: Any = None


class EffectReceipt(Observed, tag="effect_receipt", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Whether a round of an effect was done, with its result, and how that is known."""

    v: Literal[1] = 1
    tool: ToolName
    key: EffectKey
    round: Annotated[int, Meta(ge=1, le=ROUNDS_LIMIT)]
    done: bool
    source: Source = "call"
    result: Any = None
    message: str = ""


class Ended(Observed, tag="ended", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The end of an execution: claims and silences, or a `code` that says why there are none. NEEDS_INPUT and
    EFFECT_UNKNOWN come with a `question`, HANDED_OFF with who should have the task (`to`): specialist or capability."""

    v: Literal[1] = 1
    usage: Usage
    code: StopCode | Literal[""] = ""
    message: str = ""
    claims: tuple[Claim, ...] = ()
    silences: tuple[Silence, ...] = ()
    question: Question | None = None
    to: str = ""


class Cancel(Struct, tag_field="type", tag="cancel", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person ends the run."""

    v: Literal[1] = 1
    reason: str = ""


class Approve(Struct, tag_field="type", tag="approve", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person approves the action of an open gate; `digest` says which action that is."""

    v: Literal[1] = 1
    gate: str
    digest: str


class Deny(Struct, tag_field="type", tag="deny", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person denies the action of an open gate."""

    v: Literal[1] = 1
    gate: str
    digest: str
    reason: str = ""


class Answer(Struct, tag_field="type", tag="answer", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A person answers the question of an open gate; `digest` says which question that is."""

    v: Literal[1] = 1
    gate: str
    digest: str
    value: Any


class TimerDue(Struct, tag_field="type", tag="timer_due", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The timer `timer`, armed by event `armed` of the run, is due."""

    v: Literal[1] = 1
    timer: str
    armed: int


class CapabilityCame(
    Struct, tag_field="type", tag="capability_came", frozen=True, kw_only=True, forbid_unknown_fields=True
):
    """A contract that offers an awaited capability is in the catalogue."""

    v: Literal[1] = 1
    capability: str


class ChildEnded(Struct, tag_field="type", tag="child_ended", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The child run of a task has ended; `version` and `h` cite its history. `held` is what is still reserved there for
    attempts that have not said what they used; `taint` the labels of its facts."""

    v: Literal[1] = 1
    task: str
    child: str
    end: str
    code: str
    reason: str
    result: dict[str, Any] | None
    usage: Usage
    version: int
    h: str
    held: Limits = Limits()
    taint: Labels | UnsetType = UNSET


class ParentEnded(Struct, tag_field="type", tag="parent_ended", frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The run that asked for this one has ended without it."""

    v: Literal[1] = 1
    parent: str


Observation = Started | Progress | ToolCalled | ModelCalled | EffectReceipt | Ended
Signal = Cancel | Approve | Deny | Answer
Wake = TimerDue | CapabilityCame | ChildEnded | ParentEnded


class Unreadable(Struct, frozen=True):
    reason: str


class Input(Struct, frozen=True):
    """One message of the log that can change a run, read. `time_ms` is the log's clock."""

    seq: int
    sha256: str
    time_ms: int
    subject: str
    address: Address
    body: Goal | Observation | EffectIntended | Signal | Wake | Unreadable


_DECODERS: dict[str, msgspec.json.Decoder[Any]] = {
    "obs": msgspec.json.Decoder(Observation),
    "intent": msgspec.json.Decoder(EffectIntended),
    "signal": msgspec.json.Decoder(Signal),
    "wake": msgspec.json.Decoder(Wake),
}
_TYPES: dict[str, dict[str, int]] = {
    "obs": {"started": 1, "progress": 1, "tool_called": 1, "model_called": 1, "effect_receipt": 1, "ended": 1},
    "intent": {"effect_intended": 1},
    "signal": {"cancel": 1, "approve": 1, "deny": 1, "answer": 1},
    "wake": {"timer_due": 1, "capability_came": 1, "child_ended": 1, "parent_ended": 1},
}
_PATH = re.compile(r"`(\$[^`]*)`$")


def read_input(seq: int, subject: str, address: Address, time_ms: int, data: bytes) -> Input:
    body = read_goal(data) if address.family == "goal" else _read(address.family, data)
    if isinstance(body, EffectIntended) and not subject.endswith(f".{body.key}.{body.round}"):
        body = "names another effect than its subject"
    return Input(seq, sha256(data), time_ms, subject, address, Unreadable(body) if isinstance(body, str) else body)


def _read(family: str, data: bytes) -> Observation | EffectIntended | Signal | Wake | str:
    if too_deep(data):
        return f"nested deeper than {MESSAGE_DEPTH}"
    try:
        body: Observation | EffectIntended | Signal | Wake = _DECODERS[family].decode(data)
    except msgspec.MsgspecError as error:
        return _reason(family, data, error)
    if isinstance(body, Cancel | EffectIntended) and "type" not in msgspec.json.decode(data):  # optional where only
        return f"unknown type 'None' of {family}"  # one type is known
    return body


def _reason(family: str, data: bytes, error: msgspec.MsgspecError) -> str:
    try:
        raw = msgspec.json.decode(data)
    except msgspec.MsgspecError:
        return "not JSON"
    if not isinstance(raw, dict):
        return "not a JSON object"
    name, version, known = raw.get("type"), raw.get("v", 1), _TYPES[family]
    if not isinstance(name, str) or name not in known:
        return f"unknown type {str(name)[:64]!r} of {family}"
    if version != known[name]:
        return f"unknown version {str(version)[:64]!r} of {name}"
    path = _PATH.search(str(error))
    return f"does not fit the form of {name}{f' at {path[1][:200]}' if path else ''}"
