"""Scenarios: what a team has to do with a goal, as data that ships with it; `blackboard eval` plays them.

Pure.
"""

from collections.abc import Callable
from typing import Any, Literal

from pydantic import BaseModel, ConfigDict, Field, field_validator

from schemas.expressions import check_expression
from schemas.goals import Budget


class _Plain(BaseModel):
    model_config = ConfigDict(frozen=True, extra="forbid", arbitrary_types_allowed=True)


class Expect(_Plain):
    """What every playing of a scenario has to come to.

    end, code: how the run ends. routed_to, not_routed_to: specialists that are given a task, or none. called,
    never_called: tools; a call that was refused is none. facts: values by key. result: the whole result. true:
    JMESPath expressions over {end, code, result, facts, usage} that hold. budget: what all executions together use at
    most. stable: end, result and facts are the same whatever goes wrong.
    """

    end: str = "DONE"
    code: str = ""
    routed_to: list[str] = []
    not_routed_to: list[str] = []
    called: list[str] = []
    never_called: list[str] = []
    facts: dict[str, Any] = {}
    result: dict[str, Any] | None = None
    true: list[str] = []
    budget: Budget = Budget()
    stable: bool = True

    @field_validator("true")
    @classmethod
    def _are_expressions(cls, value: list[str]) -> list[str]:
        return [check_expression(one) for one in value]


class Limits(_Plain):
    """What all playings of a scenario together may come to; None: no limit.

    p50_s, p95_s: latency of a run, in seconds (virtual ones where it is simulated). tokens, usd: of one run at most.
    retry_rate: attempts after the first one of a task, of all. tool_error_rate: calls of tools that failed, of all.
    """

    p50_s: float | None = Field(default=None, gt=0)
    p95_s: float | None = Field(default=None, gt=0)
    tokens: int | None = Field(default=None, ge=0)
    usd: float | None = Field(default=None, ge=0)
    retry_rate: float | None = Field(default=None, ge=0, le=1)
    tool_error_rate: float | None = Field(default=None, ge=0, le=1)


class Scenario(_Plain):
    """One goal and what is expected of it.

    models: what models say, by specialist or `specialist/step`: a list of the answers to the calls of one execution,
    the last for all that follow, each a text, a value, or an exception to be raised; or a function of the messages.
    recording: in place of them, a file that `blackboard conversation --export` wrote. Of specialists that neither
    names, models say what a live one would: they need --live.
    people: what whoever is asked says: `approve` (with `answer` where a value is wanted), `deny` or `nothing`.
    seeds: how many worlds it is simulated in; faults: how much goes wrong there, 0 for nothing. runs: how often it is
    played live.
    """

    name: str = Field(min_length=1)
    input: dict[str, Any] = {}
    budget: Budget = Budget()
    models: dict[str, list[Any] | Callable[..., Any]] = {}
    recording: str | None = None
    people: Literal["approve", "deny", "nothing"] = "approve"
    answer: Any = True
    expect: Expect = Expect()
    limits: Limits = Limits()
    seeds: int = Field(default=20, ge=1, le=10_000)
    faults: float = Field(default=1.0, ge=0, le=10)
    runs: int = Field(default=3, ge=1, le=1_000)
