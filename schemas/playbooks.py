"""Playbooks: how a team goes from a goal to a result.

Pure. A playbook is published on the log; `schemas.plans` turns it into the steps that a run commits.
"""

import re
from collections.abc import Callable
from graphlib import CycleError, TopologicalSorter
from typing import Any, Literal

from pydantic import Field, field_validator, model_validator

from schemas.contracts import read_artefact
from schemas.events import StopCode
from schemas.expressions import check_expression, check_template
from schemas.goals import Artefact, Budget, Granted, Token
from schemas.subjects import TOKEN_PATTERN, check_patterns, is_key, is_token
from schemas.validation import check_schema

TASKS_LIMIT = 2_000
"""Tasks of one run; larger work goes into child runs."""
STEP_NAME_LIMIT = 59
"""Characters of a step's name: with the index of a task after it, it is still a token."""
PLANNER_NAME_LIMIT = 24
"""Characters of a planning step's name, which those of its plan begin with."""
ROUNDS_LIMIT = 20
"""Rounds of propose and critique at most."""
POLICIES = frozenset(
    {"only", "first", "newest", "highest_confidence", "priority", "quorum", "median", "union", "concat", "reject"}
    | {"reconcile"}
)
"""The merge policies that every supervisor has."""
POLICY_PATTERN = rf"^{TOKEN_PATTERN}(\.{TOKEN_PATTERN})*$"


class MergePolicy(Artefact):
    """How claims for one key become one fact.

    only: all claims are equal, else the key has no value. reject: as `only`, and the run ends where they differ.
    priority: the claim that the first matching entry of `order` names; an entry is a specialist's name, or an
      expression over the claim `{by, value, confidence}`.
    quorum: the value that at least `n` tasks claim. highest_confidence: the claim with the highest confidence.
    median: of numbers, the middle claim; of an even count the lower one.
    union, concat: all items of lists, without repetition and in canonical order, or one list after the other.
    reconcile: where claims differ, `specialist` is asked in a task of its own that sees just these values.
    first, newest: the claim whose task ended first, or last. They depend on arrival: the same goal may end otherwise.
    Any other name is that of an installed policy (entry point group `blackboard.policies`), in that `version`, with
      `arguments`.
    """

    policy: str = Field(default="only", pattern=POLICY_PATTERN, max_length=64)
    order: list[str] = []
    version: int = Field(default=1, ge=1)
    n: int | None = Field(default=None, ge=1, le=TASKS_LIMIT)
    specialist: Token | Literal[""] = ""
    arguments: dict[str, Any] = {}

    @field_validator("order")
    @classmethod
    def _expressions(cls, order: list[str]) -> list[str]:
        return [entry if is_token(entry) else check_expression(entry) for entry in order]

    @model_validator(mode="after")
    def _only_its_own(self) -> "MergePolicy":
        for field, owner in (("order", "priority"), ("n", "quorum"), ("specialist", "reconcile")):
            if (self.policy == owner) != bool(getattr(self, field)):
                raise ValueError(f"{field}: `{owner}` needs one, the other policies have none")
        if self.arguments and self.policy in POLICIES:
            raise ValueError("arguments: only installed policies take them")
        if self.version != 1 and self.policy in POLICIES:
            raise ValueError(f"version: there is one `{self.policy}`, 1")
        if self.policy == "bids":
            raise ValueError("policy: `bids` belongs to open calls")
        return self


class Gate(Artefact):
    """A person approves the step's exact action before it is dispatched, or denies it; then, or after `expires_s`, the
    run ends POLICY_BLOCKED. `who` may answer: names of people; none: anybody."""

    ask: str = ""
    expires_s: float = Field(default=7 * 86_400, gt=0, le=366 * 86_400)
    who: list[Token] = []


class Question(Gate):
    """A person does the step: the answer, which satisfies the JSON Schema `answer`, becomes its fact."""

    ask: str = Field(min_length=1)
    answer: dict[str, Any] = {}

    _schema = field_validator("answer")(check_schema)


class Where(Artefact):
    """What a contract must promise to be given the step: typical cost and time of a task at most, and scopes that the
    grants of its tools have. `prefer`: who of several comes first; of equal ones the lowest name. `authority` at most;
    without a gate a step never goes to somebody with the authority `effect`."""

    micro_usd: int | None = Field(default=None, ge=0)
    latency_s: float | None = Field(default=None, ge=0)
    scopes: list[str] = []
    prefer: Literal["name", "cost", "latency"] = "name"
    authority: Literal["observe", "propose", "effect"] = "effect"


class Critique(Artefact):
    """Propose and critique: each proposal is judged by whoever offers `capability` (or by `specialist`), and proposed
    again until `accept` is true, in `rounds` rounds at most.

    accept: expression over `{proposal, critique}`. input: what the critic receives beside `proposal`, as expressions;
    the proposer receives, from the second round on, the `previous` proposal and its `critique` beside its input.
    Without a proposal that was accepted the step has no value.
    """

    capability: Token
    specialist: Token | Literal[""] = ""
    accept: str = Field(min_length=1)
    rounds: int = Field(default=3, ge=1, le=ROUNDS_LIMIT)
    input: dict[str, str] = {}

    _accept = field_validator("accept")(check_expression)
    _inputs = field_validator("input")(lambda value: check_each(value, check_expression))


class Call(Artefact):
    """An open call: everyone who offers the capability may bid within `bids_s`: can I, how sure, at what cost, in which
    time. The highest score does the step, `confidence * <confidence> - dollars * <usd> - seconds * <seconds>`; the
    others, in order, take over when it fails. `budget` is what one bid may use; without it
    a bid may use nothing of what the run has a budget for."""

    bids_s: float = Field(default=2, gt=0, le=3_600)
    budget: Budget = Budget()
    confidence: float = Field(default=1, ge=0, le=1e6)
    usd: float = Field(default=1, ge=0, le=1e6)
    seconds: float = Field(default=0.01, ge=0, le=1e6)


class Plans(Artefact):
    """What a step proposes is a plan (schemas.proposals): steps that are checked, committed and gone through before
    what needs the step begins. Each is one task, and its fact has the key `<facts>.<name>`.

    facts: the first segments of those keys; default the step's id with `_facts` after it.
    steps: how many a plan may have. proposals: how many plans may be proposed before the run ends with PLAN_REFUSED.
    capabilities: what the steps may ask for (none named: all that is offered, but for the planning one).
    authority, tools, scopes: what those who do them may have at most, `*` for any; `effect` only with a gate.
    budget: what the steps may use together, each counted once. gate: who approves those that ask for it, until when.
    missing: `allow`, and no value of a step that is missing ends the run, whatever the plan says: a later step may plan
      again.
    """

    facts: str = ""
    steps: int = Field(default=20, ge=1, le=200)
    proposals: int = Field(default=3, ge=1, le=20)
    capabilities: list[Token] = []
    authority: Literal["observe", "propose", "effect"] = "propose"
    tools: list[Token | Literal["*"]] = []
    scopes: list[str] = []
    budget: Budget = Budget()
    gate: Gate = Gate()
    missing: Literal["plan", "allow"] = "plan"

    @field_validator("facts")
    @classmethod
    def _key(cls, facts: str) -> str:
        if facts and not is_key(f"{facts}.x"):
            raise ValueError(f"{facts[:80]!r} cannot be the beginning of fact keys")
        return facts


class Step(Artefact):
    """One step.

    needs: steps that must be decided first.
    capability, specialist: who does it: the specialist with the lowest name that offers the capability, the one named,
      or with "all" everyone who offers it, each with a voice. `team` instead: a child run of that team. `value`
      instead: an expression, whose value becomes the fact. `question` instead: a person.
    route: expression that gives the specialist's name, or a list of names: the first does it, the others take over.
    where: what a contract must promise. call: ask for bids first. critique: propose and critique. plans: the value is
      a plan, whose steps the run goes through.
    when: expression; the step is skipped when it is not true.
    for_each: expression that gives a list; each item becomes a fact. At most `tasks` tasks a voice share the items.
    input: what one item receives, field by field, as expressions.
    reads: keys (or `prefix.*`) of facts that the task may read beside its input.
    stale: when one of these, or the input, changed before the result is committed: `commit` it, `mark` the fact, or ask
      `again`.
    fact: template of the fact's key; default the step's id, with `.{index}` after it for `for_each`.
    replaces: the key may be one that another step has decided; this step gives it a newer version.
    accept: expression over `{value, confidence, by, item, input}`; claims for which it is not true are not taken.
    missing: whether the run may end (DEGRADED) when a key of this step has no value.
    silent: codes with which a voice may decline without its key being missed while another voice has a value.
    wait_s: time for a task to wait for a worker; deadline_s, attempts, backoff_s, budget: instead of the contract's;
      for a team the share of the run's budget that the child run gets.
    fallback: specialists who take over, in this order, when the one before has used up its attempts or gave up.
    hand_to: capabilities or specialists that the task may be handed to, `handoffs` times at most.
    await_s: time to wait for somebody who offers the capability.
    gate: ask a person first.
    grant: narrows what of their tools those who do it may call, also in a child run and after a hand-off.
    """

    id: Token = Field(max_length=STEP_NAME_LIMIT)
    needs: list[Token] = []
    capability: Token | Literal[""] = ""
    team: Token | Literal[""] = ""
    value: str = ""
    question: Question | None = None
    specialist: Token | Literal[""] = ""
    route: str = ""
    where: Where = Where()
    call: Call | None = None
    critique: Critique | None = None
    plans: Plans | None = None
    when: str = ""
    for_each: str = ""
    tasks: int = Field(default=256, ge=1, le=TASKS_LIMIT)
    input: dict[str, str] = {}
    reads: list[str] = []
    stale: Literal["commit", "mark", "again"] = "commit"
    fact: str = ""
    replaces: bool = False
    merge: MergePolicy = MergePolicy()
    accept: str = ""
    missing: Literal["fail", "allow"] = "fail"
    silent: list[StopCode] = []
    wait_s: float = Field(default=60, gt=0, le=86_400)
    deadline_s: float | None = Field(default=None, gt=0, le=86_400)
    attempts: int | None = Field(default=None, ge=1, le=100)
    backoff_s: float | None = Field(default=None, ge=0, le=3_600)
    budget: Budget = Budget()
    fallback: list[Token] = Field(default=[], max_length=20)
    hand_to: list[Token] = Field(default=[], max_length=100)
    handoffs: int = Field(default=3, ge=1, le=20)
    await_s: float = Field(default=3_600, gt=0, le=30 * 86_400)
    gate: Gate | None = None
    grant: Granted | None = None

    _expressions = field_validator("when", "for_each", "accept", "value", "route")(check_expression)
    _template = field_validator("fact")(check_template)
    _reads = field_validator("reads")(check_patterns)

    @field_validator("input")
    @classmethod
    def _inputs(cls, value: dict[str, str]) -> dict[str, str]:
        return check_each(value, check_expression)

    @model_validator(mode="after")
    def _one_doer(self) -> "Step":
        doers = [name for name in ("capability", "team", "value", "question") if getattr(self, name)]
        if len(doers) != 1:
            raise ValueError(f"step {self.id!r} needs one of capability, team, value and question")
        if problem := _misplaced(self, doers[0]):
            raise ValueError(f"step {self.id!r}: {problem}")
        return self


_FOR_CAPABILITIES = ("specialist", "route", "call", "critique", "plans", "fallback", "hand_to")
PLANNING = "planning"
"""The field of a planning task's input that says what a plan may be made of (schemas.proposals.Planning)."""


def _misplaced(step: Step, doer: str) -> str:
    """What of a step does not go together, else an empty text."""
    if doer != "capability" and (odd := next((name for name in _FOR_CAPABILITIES if getattr(step, name)), None)):
        return f"{odd}: only a step with a capability has it"
    rules = (
        (doer in {"value", "question"} and step.gate, f"gate: a {doer} does nothing that needs an approval"),
        (doer in {"value", "question"} and step.grant, f"grant: a {doer} calls no tools"),
        (doer == "question" and step.for_each, "for_each: a question is asked once"),
        (step.call and step.specialist, "specialist: the bids say who does it"),
        (step.route and step.specialist, "specialist: the route says who does it"),
        (step.call and step.route, "route: the bids say who does it"),
        ((step.call or step.critique) and step.for_each, "for_each: let a child run do this for each item"),
        (
            step.specialist == "all" and (step.fallback or step.hand_to),
            "fallback and hand_to: with `all` there is nobody left to take over",
        ),
        (step.critique and "{" in step.fact, "fact: of propose and critique it is a plain key"),
        *_of_planning(step),
    )
    return next((problem for broken, problem in rules if broken), "")


def facts_of(step: str, plans: Plans) -> str:
    """The first segments of the keys of what a planning step plans."""
    return plans.facts or f"{step}_facts"


def _of_planning(step: Step) -> tuple[tuple[Any, str], ...]:
    if step.plans is None:
        return ()
    own, facts = step.fact or step.id, facts_of(step.id, step.plans)
    return (
        (step.call or step.critique or step.for_each, "plans: one plan is asked for, once, and of one"),
        (step.specialist == "all", "plans: a plan is asked of one specialist"),
        (step.replaces, "replaces: a plan is not taken back"),
        (step.merge != MergePolicy(), "merge: there is one plan"),
        ("{" in step.fact, "fact: of a plan it is a plain key"),
        (
            f"{own}.".startswith(f"{facts}.") or f"{facts}.".startswith(f"{own}."),
            f"plans.facts: {facts!r} and the key of the plan, {own!r}, would lie inside each other",
        ),
        (PLANNING in step.input, f"input: {PLANNING!r} is what the supervisor says"),
        (len(step.id) > PLANNER_NAME_LIMIT, f"id: of a planning step it has {PLANNER_NAME_LIMIT} characters at most"),
    )


class Replan(Artefact):
    """Steps that take the place of `step` when a key of it has no value: the run goes on with them instead of ending.
    What needs the step needs them too. Each is used once."""

    step: Token
    steps: list[Step] = Field(min_length=1, max_length=50)


class Playbook(Artefact):
    """`input` and `result` are JSON Schemas; `returns` gives each field of the result as an expression.

    parallel: caps the tasks in flight of one run. budget, deadline_s: of a whole run; a goal may set less.
    replans: what takes the place of steps that fail, `revisions` times a run at most.
    breaker: failures of one specialist in a row, in one run, after which it gets nothing more (0: never).
    repeats: how often the same specialist may come to the same result from the same input, or the same call of a tool
      fail (0: always); then the run ends with LOOP, or a person is asked (`on_loop`).
    wakes: whether facts of the run wake specialists whose contracts ask for it.
    """

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
    budget: Budget = Budget()
    deadline_s: float | None = Field(default=None, gt=0, le=366 * 86_400)
    replans: list[Replan] = Field(default=[], max_length=50)
    revisions: int = Field(default=5, ge=0, le=100)
    breaker: int = Field(default=10, ge=0, le=1_000)
    repeats: int = Field(default=3, ge=0, le=1_000)
    on_loop: Literal["stop", "ask"] = "stop"
    wakes: bool = False

    _schemas = field_validator("input", "result")(check_schema)

    @field_validator("returns")
    @classmethod
    def _returns(cls, value: dict[str, str]) -> dict[str, str]:
        return check_each(value, check_expression)

    @field_validator("steps")
    @classmethod
    def _ordered(cls, steps: list[Step]) -> list[Step]:
        return _in_order(steps, [])

    @model_validator(mode="after")
    def _replans_fit(self) -> "Playbook":
        ids = [step.id for step in self.steps]
        for replan in self.replans:
            if replan.step not in ids:
                raise ValueError(f"replans: {replan.step!r} is no step")
            _in_order(replan.steps, ids)
            if circle := sorted(
                _needing(replan.step, self.steps) & {need for step in replan.steps for need in step.needs}
            ):
                raise ValueError(
                    f"replans: {circle[0]!r} needs {replan.step!r}, and what takes its place needs {circle[0]!r}"
                )
        replaced = [replan.step for replan in self.replans]
        if len(set(replaced)) < len(replaced):
            raise ValueError("replans: each step has one at most")
        every = [*self.steps, *(step for replan in self.replans for step in replan.steps)]
        _check_names([name for step in every for name in made_of(step)])
        return self


def made_of(step: Step) -> list[str]:
    """The names of the steps of a plan that one step of a playbook becomes, its own as the last."""
    rounds = range(1, step.critique.rounds + 1) if step.critique else ()
    numbered = [name for n in rounds for name in (f"{step.id}_{n}", f"{step.id}_review_{n}")]
    return [*([f"{step.id}_bids"] if step.call else []), *numbered, step.id]


def _check_names(names: list[str]) -> None:
    if doubled := sorted({name for name in names if names.count(name) > 1}):
        raise ValueError(f"step {doubled[0]!r} stands twice")
    for name in names:
        if len(name) > STEP_NAME_LIMIT:
            raise ValueError(f"step {name!r} has {len(name)} characters; one of a plan has {STEP_NAME_LIMIT} at most")
        if clash := next((other for other in names if re.fullmatch(rf"{re.escape(other)}-\d+", name)), None):
            raise ValueError(f"step {name!r} is named like a task of step {clash!r}")


def _in_order(steps: list[Step], before: list[str]) -> list[Step]:
    """The steps, each after those that it needs; `before` are the names that they may need beside each other."""
    ids = [step.id for step in steps]
    _check_names(ids)
    for step in steps:
        if unknown := sorted(set(step.needs) - {*ids, *before}):
            raise ValueError(f"step {step.id!r} needs {unknown[0]!r}, which is no step")
    try:
        order = list(TopologicalSorter({step.id: sorted(step.needs) for step in steps}).static_order())
    except CycleError as error:
        raise ValueError(f"steps need each other in a circle: {' -> '.join(error.args[1])}") from None
    return sorted(steps, key=lambda step: order.index(step.id))


def _needing(name: str, steps: list[Step]) -> set[str]:
    """The steps, of those that are in order, that need `name`, directly or not."""
    found: set[str] = set()
    for step in steps:
        if {name, *found} & set(step.needs):
            found.add(step.id)
    return found


def check_each(value: dict[str, str], check: Callable[[str], str]) -> dict[str, str]:
    return {name: check(expression) for name, expression in value.items()}


def read_playbook(data: bytes, team: str) -> Playbook | str:
    """The playbook of `team`, or the reason why the bytes are none."""
    return read_artefact(Playbook, data, "team", team)
