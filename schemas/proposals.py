"""Proposals: the plan that a planning step claims, in a form that is small and strict enough for a model to fill.

Pure. Every property is required and no object is open. What only a run can tell (who is there, what is left of the
budget, which names are taken) is checked by `supervisor.proposals`.
"""

import json
import re
from graphlib import CycleError, TopologicalSorter
from typing import Annotated, Any, Literal

from pydantic import ConfigDict, Field, ValidationError, field_validator

from schemas.codec import encode, unstorable
from schemas.expressions import BadExpression, check_expression, path
from schemas.goals import Artefact, Token, explain_each
from schemas.subjects import is_token
from schemas.usage import COUNT_LIMIT

PROPOSAL_LIMIT = 48 * 1024
"""Bytes of one proposal."""
PROPOSED_STEPS_LIMIT = 200
"""Steps of one proposal; a playbook may allow less."""
NAME_LIMIT = 32
"""Characters of the name of a proposed step."""
VALUE_CHARACTERS = 2_000
"""Characters of one field of a step's input; larger values are read from facts."""
REASONS_LIMIT = 10
"""Reasons that are given for one refusal."""
REASON_CHARACTERS = 300

_STRICT = ConfigDict(extra="forbid", frozen=True, strict=True)
Count = Annotated[int, Field(ge=0, le=COUNT_LIMIT)]


class Given(Artefact):
    """One field of a step's input. kind: `text`, the value as it is; `json`, the value that it spells; `step`, the
    value of that step of the plan, which is then needed; `expression`, JMESPath over `input` (of the goal) and `facts`
    (by key)."""

    model_config = _STRICT

    field: str = Field(min_length=1, max_length=64)
    kind: Literal["text", "json", "step", "expression"]
    value: str = Field(max_length=VALUE_CHARACTERS)

    def as_expression(self, keys: dict[str, str]) -> str:
        """As a step of a playbook says it; `keys` are those of the facts, by step."""
        match self.kind:
            case "text":
                return literal(self.value)
            case "json":
                return literal(json.loads(self.value))
            case "step":
                return f"facts.{path(keys[self.value])}"
        return self.value


class Share(Artefact):
    """What an attempt at a step may use at most; null: what the contract of whoever does it says."""

    model_config = _STRICT

    tokens: Count | None
    tool_calls: Count | None
    micro_usd: Count | None


class ProposedStep(Artefact):
    """One task. `needs` are steps of the same plan. `capability`, or `specialist`, or both, say who does it; the other
    one may be empty. `fact` names the value, by default as the step. `gate` is what a person is asked before, empty:
    nobody. `missing`: whether the run goes on where it has no value."""

    model_config = _STRICT

    id: Token = Field(max_length=NAME_LIMIT)
    needs: list[str] = Field(max_length=PROPOSED_STEPS_LIMIT)
    capability: str = Field(max_length=64)
    specialist: str = Field(max_length=64)
    input: list[Given] = Field(max_length=50)
    fact: str = Field(max_length=64)
    budget: Share
    gate: str = Field(max_length=1_000)
    missing: Literal["fail", "allow"]

    @field_validator("fact")
    @classmethod
    def _name(cls, fact: str) -> str:
        if fact and not is_token(fact):
            raise ValueError("is neither empty nor made of letters, digits, '_' and '-'")
        return fact

    @property
    def named(self) -> str:
        """The last segment of the key of its fact."""
        return self.fact or self.id

    @property
    def after(self) -> list[str]:
        """The steps that must be decided first."""
        return list(dict.fromkeys([*self.needs, *(one.value for one in self.input if one.kind == "step")]))


class Proposal(Artefact):
    """A plan. The run commits it as a whole, or refuses it with reasons."""

    model_config = _STRICT

    steps: list[ProposedStep] = Field(min_length=1, max_length=PROPOSED_STEPS_LIMIT)


class Left(Artefact):
    """What may be used at most; null: there is no limit."""

    tokens: int | None
    tool_calls: int | None
    micro_usd: int | None


class Offer(Artefact):
    """A specialist that a planned step may be given to: what it takes and gives (null where its schema is too large to
    be shown), what an attempt may use, and what a task usually costs and takes (null: it does not say)."""

    specialist: str
    description: str
    offers: list[str]
    authority: Literal["observe", "propose", "effect"]
    input: dict[str, Any] | None
    output: dict[str, Any] | None
    budget: Left
    micro_usd: int | None
    seconds: float | None


class Planning(Artefact):
    """What a planning task is told beside the input that its step gives it, in the field `planning`.

    offers: who is there; `left_out` counts those for whom there was no room. known: what expressions can name; `facts`
      is where those of the plan will be, each under its name. steps: how many a plan may have. budget: what they may
      use together. refused: why the proposal before this one, `previous`, was refused; empty at first.
    """

    offers: list[Offer]
    left_out: int
    known: list[str]
    facts: str
    steps: int
    budget: Left
    refused: list[str]
    previous: Any


def read_proposal(value: Any) -> Proposal | list[str]:
    """The proposal, or what is wrong with it as it stands, alone: its form, names, order and expressions."""
    if not isinstance(value, dict):
        return ["a plan is an object with `steps`"]
    if (size := len(encode(value))) > PROPOSAL_LIMIT:
        return [f"the plan has {size} bytes; the limit is {PROPOSAL_LIMIT}"]
    try:
        proposal = Proposal.model_validate(value)
    except ValidationError as error:
        return bounded(explain_each(error))
    return bounded(_flaws(proposal)) or proposal


def bounded(reasons: list[str]) -> list[str]:
    """The reasons as they are told: not too many, none too long."""
    return [reason[:REASON_CHARACTERS] for reason in reasons[:REASONS_LIMIT]]


def _flaws(proposal: Proposal) -> list[str]:
    steps = proposal.steps
    names, facts = [step.id for step in steps], [step.named for step in steps]
    found = [f"step {name!r} stands twice" for name in _doubled(names)]
    found += [f"two steps name the fact {fact!r}" for fact in _doubled(facts)]
    for step in steps:
        found += [f"step {step.id!r}: {problem}" for problem in _flaws_of(step, set(names))]
    if found:
        return found
    try:
        TopologicalSorter({step.id: sorted(step.after) for step in steps}).prepare()
    except CycleError as error:
        return [f"steps need each other in a circle: {' -> '.join(error.args[1])}"]
    return []


def _doubled(names: list[str]) -> list[str]:
    return sorted({name for name in names if names.count(name) > 1})


def _flaws_of(step: ProposedStep, names: set[str]) -> list[str]:
    found = [f"needs {need[:64]!r}, which is no step of the plan" for need in step.needs if need not in names]
    if not step.capability and not step.specialist:
        found.append("names neither a capability nor a specialist")
    found += [f"gives the field {field[:64]!r} twice" for field in _doubled([one.field for one in step.input])]
    return found + [f"input {one.field[:64]!r}: {problem}" for one in step.input if (problem := _unfit(one, names))]


def _unfit(given: Given, names: set[str]) -> str:
    """What is wrong with one field of an input, else an empty text."""
    match given.kind:
        case "step":
            return "" if given.value in names else f"{given.value[:64]!r} is no step of the plan"
        case "json":
            return _not_json(given.value)
        case "expression" if not given.value:
            return "an expression is not empty"
    try:
        check_expression(given.value if given.kind == "expression" else literal(given.value))
    except BadExpression as error:
        return str(error)
    return ""


def _not_json(text: str) -> str:
    try:
        value = json.loads(text, parse_constant=_no_number)
    except (ValueError, RecursionError):
        return f"{text[:64]!r} is not JSON"
    if problem := unstorable(value):
        return problem
    try:
        check_expression(literal(value))
    except BadExpression:
        return "has too many lists and objects; give it as text, or as the value of a step"
    return ""


def _no_number(name: str) -> Any:
    raise ValueError(name)


_TEXT = re.compile(r'"(?:[^"\\]|\\.)*"')
_MARKS = re.compile(r"[(\[{!|&*<>=?`]")


def literal(value: Any) -> str:
    """A JSON value as an expression. The marks that an expression is measured by, and the one that ends a literal, are
    written as escapes inside of texts."""
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return f"`{_TEXT.sub(lambda one: _MARKS.sub(_escaped, one[0]), text)}`"


def _escaped(mark: re.Match[str]) -> str:
    return f"\\u{ord(mark[0]):04x}"
