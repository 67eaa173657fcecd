"""Contracts: what a specialist promises. One versioned artefact, on the log, readable as JSON Schema.

Pure.
"""

from typing import Any, Literal, TypeVar, get_args

from pydantic import Field, ValidationError, field_validator

from schemas.codec import MESSAGE_DEPTH, too_deep
from schemas.events import StopCode
from schemas.goals import Artefact, Budget, Token, explain
from schemas.subjects import check_patterns
from schemas.usage import COUNT_LIMIT
from schemas.validation import check_schema

STOP_CODES: frozenset[str] = frozenset(get_args(StopCode))
RETRIED: frozenset[str] = frozenset({"TOOL_DOWN", "TIMEOUT", "INTERNAL", "INVALID_OUTPUT"})
"""Codes after which another attempt may help. The others end the task at once."""
ALWAYS: frozenset[str] = frozenset({"INVALID_INPUT", "INVALID_OUTPUT", "INTERNAL", "TIMEOUT", "BUDGET_EXCEEDED"})
"""Codes with which every attempt may end, whatever its contract says."""
EXECUTIONS_LIMIT = 8
"""Executions of one attempt; a task that kills its worker ends here."""
CONTRACT_LIMIT = 256 * 1024
"""Bytes of one contract or playbook."""


A = TypeVar("A", bound=Artefact)


class EffectGrant(Artefact):
    """What a tool that changes the world promises: `probe` tells afterwards whether it was done; `undo` names the tool
    that undoes it."""

    probe: bool = False
    undo: Token | None = None


class ToolGrant(Artefact):
    """A tool that the specialist may use, and within which scopes. With `confirm` a person approves each call.
    `definition`: SHA-256 of what a server of tools says of it: its description and schemas, which may not change.
    `effect` is set where a call changes the world."""

    tool: Token
    scopes: list[str] = []
    confirm: bool = False
    definition: str | None = Field(default=None, pattern=r"^[0-9a-f]{64}$")
    effect: EffectGrant | None = None


class Contract(Artefact):
    """What one specialist promises: input and output, JSON Schemas of one item; authority; tools; budget; stops.

    authority: `observe` says what it found, `propose` may also hand its task on, `effect` may change the world, which a
      person approves first.
    budget: what one attempt may use at most. deadline_s: the time that it may work on one item.
    attempts: how often a task is tried, the next time after `backoff_s`, doubled each time, `backoff_max_s` at most; a
      step may say otherwise.
    stops: codes with which it may end without a result, beside those that every attempt may end with (ALWAYS).
    typical_micro_usd, typical_s: what one task usually costs and takes, for steps that choose by it.
    wakes_on: keys (or `prefix.*`) of facts; the specialist is given a task when one is committed, in a run whose
      playbook lets it.
    A contract that offers nothing withdraws the specialist.
    """

    type: Literal["contract"] = "contract"
    v: Literal[1] = 1
    specialist: Token
    version: int = Field(default=1, ge=1)
    description: str = ""
    offers: list[Token]
    input: dict[str, Any] = {}
    output: dict[str, Any] = {}
    authority: Literal["observe", "propose", "effect"] = "observe"
    tools: list[ToolGrant] = []
    stops: list[StopCode] = list(get_args(StopCode))
    deadline_s: float = Field(default=30, gt=0, le=86_400)
    attempts: int = Field(default=3, ge=1, le=100)
    budget: Budget = Budget()
    backoff_s: float = Field(default=0.5, ge=0, le=3_600)
    backoff_max_s: float = Field(default=60, ge=0, le=86_400)
    typical_micro_usd: int | None = Field(default=None, ge=0, le=COUNT_LIMIT)
    typical_s: float | None = Field(default=None, ge=0, le=86_400)
    wakes_on: list[str] = Field(default=[], max_length=100)

    _schemas = field_validator("input", "output")(check_schema)
    _patterns = field_validator("wakes_on")(check_patterns)


def read_contract(data: bytes, specialist: str) -> Contract | str:
    """The contract of `specialist`, or the reason why the bytes are none."""
    return read_artefact(Contract, data, "specialist", specialist)


def read_artefact(kind: type[A], data: bytes, field: str, author: str) -> A | str:
    if len(data) > CONTRACT_LIMIT:
        return f"{len(data)} bytes; the limit is {CONTRACT_LIMIT}"
    if too_deep(data):
        return f"nested deeper than {MESSAGE_DEPTH}"
    try:
        artefact = kind.model_validate_json(data)
    except ValidationError as error:
        return explain(error)
    named = getattr(artefact, field)
    return artefact if named == author else f"{field}: names {named!r}, the subject names {author!r}"
