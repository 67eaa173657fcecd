"""Goals: what somebody wants from a team.

Pure. A goal is JSON on the log, written by people and their programs, so pydantic reads it.
"""

from typing import Annotated, Any, Literal

from pydantic import BaseModel, ConfigDict, Field, ValidationError
from pydantic_core import ErrorDetails

from schemas.codec import MESSAGE_DEPTH, too_deep, unstorable
from schemas.grants import Grant
from schemas.subjects import TOKEN_PATTERN
from schemas.taint import LABEL_CHARACTERS, LABELS_LIMIT
from schemas.usage import COUNT_LIMIT, Limits

Token = Annotated[str, Field(pattern=rf"^{TOKEN_PATTERN}$")]
"""A name that can stand in a subject."""

GOAL_LIMIT = 256 * 1024
"""Bytes of one goal; larger input goes into a blob, or stays where it is and is named."""


class Artefact(BaseModel):
    """Base of what people write: closed and immutable."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class ParentTask(Artefact):
    """The task that asked for a child run; `depth` counts the ancestors."""

    run: Token
    task: Token
    depth: int = Field(ge=1)


class Budget(Artefact):
    """What may be used at most: tokens (in and out), calls of tools, millionths of a US dollar. None: no limit."""

    tokens: int | None = Field(default=None, ge=0, le=COUNT_LIMIT)
    tool_calls: int | None = Field(default=None, ge=0, le=COUNT_LIMIT)
    micro_usd: int | None = Field(default=None, ge=0, le=COUNT_LIMIT)

    def limits(self) -> Limits:
        return Limits(self.tokens, self.tool_calls, self.micro_usd)


class Granted(Artefact):
    """What of their tools specialists may call: names of tools, and all that a tool may reach. It narrows what their
    contracts say, never widens it; None: whatever they say."""

    tools: list[Token] | None = Field(default=None, max_length=100)
    scopes: list[Annotated[str, Field(min_length=1, max_length=64)]] | None = Field(default=None, max_length=100)

    def grant(self) -> Grant:
        return Grant(_tuple(self.tools), _tuple(self.scopes))


def _tuple(names: list[str] | None) -> tuple[str, ...] | None:
    return None if names is None else tuple(sorted(set(names)))


class Goal(Artefact):
    """A request to a team: `input` must satisfy the input schema of the team's playbook. With `approve` the
    publisher approves in advance what the run would ask approval for. `budget` and `deadline_s` hold for the whole run,
    where they are less than what the playbook says; `grant` narrows what its tasks may call, `taint` says that the
    input may hold content from outside. `parent` is set only by the supervisor, for child runs."""

    type: Literal["goal"] = "goal"
    v: Literal[1] = 1
    team: Token
    input: dict[str, Any] = {}
    approve: bool = False
    budget: Budget = Budget()
    deadline_s: float | None = Field(default=None, gt=0, le=366 * 86_400)
    parent: ParentTask | None = None
    grant: Granted | None = None
    taint: list[Annotated[str, Field(max_length=LABEL_CHARACTERS)]] | None = Field(
        default=None, max_length=LABELS_LIMIT
    )


def read_goal(data: bytes) -> Goal | str:
    """The goal, or the reason why the bytes are none."""
    if len(data) > GOAL_LIMIT:
        return f"a goal of {len(data)} bytes; the limit is {GOAL_LIMIT}"
    if too_deep(data):
        return f"nested deeper than {MESSAGE_DEPTH}"
    try:
        goal = Goal.model_validate_json(data)
    except ValidationError as error:
        return explain(error)
    problem = unstorable(goal.input)
    return f"input: {problem}" if problem else goal


def explain(error: ValidationError) -> str:
    """What is wrong, for people and for the log: field paths and our own words, stable over releases of pydantic."""
    return _explained(error.errors(include_url=False)[0])


def explain_each(error: ValidationError) -> list[str]:
    """All that is wrong, as `explain` says it."""
    return list(dict.fromkeys(_explained(one) for one in error.errors(include_url=False)))


def _explained(first: ErrorDetails) -> str:
    path = ".".join(str(part) for part in first["loc"])
    match first["type"]:
        case "json_invalid":
            return "not JSON"
        case "missing":
            problem = "is missing"
        case "extra_forbidden":
            problem = "is not a known field"
        case "value_error":
            problem = str(first["ctx"]["error"]) if "ctx" in first else "is not allowed"
        case "literal_error" if path in {"v", "type"}:
            problem = f"unknown {'version' if path == 'v' else 'type'} {str(first['input'])[:64]!r}"
        case kind:
            problem = f"is not allowed ({kind})"
    return f"{path}: {problem}" if path else problem
