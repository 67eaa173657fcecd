"""Contracts: what a specialist promises. One versioned artefact, on the log, readable as JSON Schema.

Pure.
"""

from typing import Any, Literal, TypeVar, get_args

from pydantic import Field, ValidationError, field_validator

from schemas.codec import MESSAGE_DEPTH, too_deep
from schemas.events import StopCode
from schemas.goals import Artefact, Token, explain
from schemas.validation import check_schema

STOP_CODES: frozenset[str] = frozenset(get_args(StopCode))
RETRIED: frozenset[str] = frozenset({"TOOL_DOWN", "TIMEOUT", "INTERNAL", "INVALID_OUTPUT"})
"""Codes after which another attempt may help. The others end the task at once."""
EXECUTIONS_LIMIT = 8
"""Executions of one attempt; a task that kills its worker ends here."""
CONTRACT_LIMIT = 256 * 1024
"""Bytes of one contract or playbook."""


A = TypeVar("A", bound=Artefact)


class ToolGrant(Artefact):
    """A tool that the specialist may use, and within which scopes."""

    tool: Token
    scopes: list[str] = []


class Contract(Artefact):
    """Input and output are JSON Schemas of one item. `deadline_s` is the time that one attempt may work, `attempts`
    how often a task is tried; a step may say otherwise. A contract that offers nothing withdraws the specialist."""

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

    _schemas = field_validator("input", "output")(check_schema)


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
