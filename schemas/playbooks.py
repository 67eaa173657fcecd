"""Playbooks: how a team goes from a goal to a result.

Pure. A playbook is published on the log; `plan_steps` gives the steps in the form in which a run commits them.
"""

import re
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.contracts import read_artefact
from schemas.events import GatePlan, Merge, PlanStep, StopCode
from schemas.expressions import check_expression, check_template
from schemas.goals import Artefact, Token
from schemas.subjects import is_token
from schemas.validation import check_schema

TASKS_LIMIT = 2_000
"""Tasks of one run; larger work goes into child runs."""
STEP_NAME_LIMIT = 59
"""Characters of a step's name: with the index of a task after it, it is still a token."""


class MergePolicy(Artefact):
    """How claims for one key become one fact.

    `only`: all claims are equal. `priority`: the claim that the first matching entry of `order` names; an entry is a
    specialist's name, or an expression over the claim `{by, value, confidence}`.
    """

    policy: Literal["only", "priority"] = "only"
    order: list[str] = []

    @field_validator("order")
    @classmethod
    def _expressions(cls, order: list[str]) -> list[str]:
        return [entry if is_token(entry) else check_expression(entry) for entry in order]

    @model_validator(mode="after")
    def _order_belongs_to_priority(self) -> "MergePolicy":
        if (self.policy == "priority") != bool(self.order):
            raise ValueError("order: `priority` needs one, `only` has none")
        return self


class Gate(Artefact):
    """A person approves the step's exact action before it is dispatched, or denies it; then, or after `expires_s`, the
    run ends POLICY_BLOCKED."""

    ask: str = ""
    expires_s: float = Field(default=7 * 86_400, gt=0, le=366 * 86_400)


class Step(Artefact):
    """One step.

    needs: steps that must be decided first.
    capability, specialist: who does it: the specialist with the lowest name that offers the capability, the one named,
      or with "all" everyone who offers it, each with a voice. `team` instead: a child run of that team.
    when: expression; the step is skipped when it is not true.
    for_each: expression that gives a list; each item becomes a fact. At most `tasks` tasks a voice share the items.
    input: what one item receives, field by field, as expressions.
    reads: keys (or `prefix.*`) of facts that the task may read beside its input.
    fact: template of the fact's key; default the step's id, with `.{index}` after it for `for_each`.
    accept: expression over `{value, confidence, by, item, input}`; claims for which it is not true are not taken.
    missing: whether the run may end (DEGRADED) when a key of this step has no value.
    silent: codes with which a voice may decline without its key being missed while another voice has a value.
    wait_s: time for a task to wait for a worker; deadline_s and attempts: instead of the contract's.
    await_s: time to wait for somebody who offers the capability.
    gate: ask a person first.
    """

    id: Token = Field(max_length=STEP_NAME_LIMIT)
    needs: list[Token] = []
    capability: Token | Literal[""] = ""
    team: Token | Literal[""] = ""
    specialist: Token | Literal[""] = ""
    when: str = ""
    for_each: str = ""
    tasks: int = Field(default=256, ge=1, le=TASKS_LIMIT)
    input: dict[str, str] = {}
    reads: list[str] = []
    fact: str = ""
    merge: MergePolicy = MergePolicy()
    accept: str = ""
    missing: Literal["fail", "allow"] = "fail"
    silent: list[StopCode] = []
    wait_s: float = Field(default=60, gt=0, le=86_400)
    deadline_s: float | None = Field(default=None, gt=0, le=86_400)
    attempts: int | None = Field(default=None, ge=1, le=100)
    await_s: float = Field(default=3_600, gt=0, le=30 * 86_400)
    gate: Gate | None = None

    _expressions = field_validator("when", "for_each", "accept")(check_expression)
    _template = field_validator("fact")(check_template)

    @field_validator("input")
    @classmethod
    def _inputs(cls, value: dict[str, str]) -> dict[str, str]:
        return _check_each(value, check_expression)

    @model_validator(mode="after")
    def _one_doer(self) -> "Step":
        if bool(self.capability) == bool(self.team):
            raise ValueError(f"step {self.id!r} needs either a capability or a team")
        return self


class Playbook(Artefact):
    """`input` and `result` are JSON Schemas; `returns` gives each field of the result as an expression.
    `parallel` caps the tasks in flight of one run."""

    type: Literal["playbook"] = "playbook"
    v: Literal[1] = 1
    team: Token
    version: int = Field(default=1, ge=1)
    description: str = ""
    input: dict[str, Any] = {}
    result: dict[str, Any] = {}
    returns: dict[str, str] = {}
    steps: list[Step] = Field(min_length=1, max_length=200)
    parallel: int = Field(default=32, ge=1, le=500)

    _schemas = field_validator("input", "result")(check_schema)

    @field_validator("returns")
    @classmethod
    def _returns(cls, value: dict[str, str]) -> dict[str, str]:
        return _check_each(value, check_expression)

    @field_validator("steps")
    @classmethod
    def _ordered(cls, steps: list[Step]) -> list[Step]:
        ids = [step.id for step in steps]
        if doubled := sorted({name for name in ids if ids.count(name) > 1}):
            raise ValueError(f"step {doubled[0]!r} stands twice")
        for name in ids:
            if clash := next((other for other in ids if re.fullmatch(rf"{re.escape(other)}-\d+", name)), None):
                raise ValueError(f"step {name!r} is named like a task of step {clash!r}")
        for step in steps:
            if unknown := sorted(set(step.needs) - set(ids)):
                raise ValueError(f"step {step.id!r} needs {unknown[0]!r}, which is no step")
        try:
            order = list(TopologicalSorter({step.id: sorted(step.needs) for step in steps}).static_order())
        except CycleError as error:
            raise ValueError(f"steps need each other in a circle: {' -> '.join(error.args[1])}") from None
        return sorted(steps, key=lambda step: order.index(step.id))


def _check_each(value: dict[str, str], check: Callable[[str], str]) -> dict[str, str]:
    return {name: check(expression) for name, expression in value.items()}


def read_playbook(data: bytes, team: str) -> Playbook | str:
    """The playbook of `team`, or the reason why the bytes are none."""
    return read_artefact(Playbook, data, "team", team)


def plan_steps(playbook: Playbook) -> tuple[PlanStep, ...]:
    return tuple(_plan_step(step) for step in playbook.steps)


def _plan_step(step: Step) -> PlanStep:
    return PlanStep(
        id=step.id,
        needs=tuple(step.needs),
        capability=step.capability,
        team=step.team,
        specialist=step.specialist,
        when=step.when,
        for_each=step.for_each,
        tasks=step.tasks,
        input=step.input,
        reads=tuple(step.reads),
        fact=step.fact or (f"{step.id}.{{index}}" if step.for_each else step.id),
        merge=Merge(step.merge.policy, tuple(step.merge.order)),
        accept=step.accept,
        missing=step.missing,
        silent=tuple(step.silent),
        wait_ms=round(step.wait_s * 1000),
        work_ms=None if step.deadline_s is None else round(step.deadline_s * 1000),
        attempts=step.attempts,
        await_ms=round(step.await_s * 1000),
        gate=GatePlan(step.gate.ask, round(step.gate.expires_s * 1000)) if step.gate else None,
    )
