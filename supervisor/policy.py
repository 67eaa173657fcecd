"""Policies of the control plane: who does it, how long it may take, whether it is tried again, what is too much.

Pure. Each function answers one question from a state and the catalogue below the input that is being decided.
"""

import hashlib
from typing import get_args

from msgspec import Struct
from msgspec.structs import astuple

from projections.canonical import State, StepState, TaskState
from schemas.catalogue import View
from schemas.codec import STATE_LIMIT, encode
from schemas.contracts import RETRIED, Contract
from schemas.events import StopCode
from schemas.steps import Grants, PlanStep, Voice, Where
from schemas.usage import COUNT_LIMIT, Limits
from supervisor.documents import Work

AUTHORITIES = ("observe", "propose", "effect")
WAITS_LIMIT = 3
"""Attempts in a row that nobody started before the task ends."""
DEPTH_LIMIT = 8
"""Child runs below each other."""
CHILD_WORK_MS = 400 * 86_400_000
"""Time for a child run where its step sets no limit; the child has limits of its own."""
ATTEMPTS = 3
"""Attempts of a child run's task where its step does not say."""
LOOK_EVERY = 64
"""Events of a run after which the size of its state is looked at; after a few where it could be large."""
LOOK_BYTES = 2_048
"""Bytes of the events of one input after which it is looked at in any case."""


class Allowance(Struct, frozen=True):
    """What one attempt gets: times in milliseconds, how many attempts may fail, what it may use."""

    wait_ms: int
    work_ms: int
    attempts: int
    limits: Limits


class Chosen(Struct, frozen=True):
    """Who takes part in a step, and who takes over. `nobody`: the route of the step leads to nobody, so that there is
    nothing to wait for."""

    voices: tuple[Voice, ...]
    fallback: tuple[str, ...] = ()
    nobody: bool = False


def chosen(work: Work, state: State, view: View) -> Chosen:
    """Raises BadExpression."""
    step = work.step
    if step.team:
        return Chosen((Voice(step.team),) if view.playbook(step.team) else ())
    offering = offers(step, state, view)
    if step.route:
        return _routed(step, work.route(), offering)
    match step.specialist:
        case "all":
            voices = offering
        case "":
            voices = offering[:1]
        case named:
            voices = [voice for voice in offering if voice.specialist == named]
    return Chosen(tuple(voices), step.fallback)


def _routed(step: PlanStep, names: list[str], offering: list[Voice]) -> Chosen:
    there = {voice.specialist: voice for voice in offering}
    found = [there[name] for name in names if name in there]
    others = tuple(voice.specialist for voice in found[1:])
    return Chosen(tuple(found[:1]), (*others, *step.fallback), nobody=not names)


def offers(step: PlanStep, state: State, view: View) -> list[Voice]:
    """Who offers the step's capability and promises what it asks for, those that it prefers first; last those to whom
    the run gives nothing more."""
    found = [
        (_rank(step.where, contract), name, seq)
        for name, seq, contract in view.offering(step.capability)
        if not lacks(contract, step.where)
    ]
    found.sort(key=lambda one: (is_open(state, one[1]), one[0], one[1]))
    return [Voice(name, seq) for _, name, seq in found]


def lacks(contract: Contract, where: Where) -> str:
    """What a contract does not promise of what a step asks for, in words; empty when it promises all of it."""
    if AUTHORITIES.index(contract.authority) > AUTHORITIES.index(where.authority):
        return f"has the authority to {contract.authority}, where {where.authority} is the most"
    typical_ms = None if contract.typical_s is None else round(contract.typical_s * 1000)
    granted = {scope for grant in contract.tools for scope in grant.scopes}
    lacking = [scope for scope in where.scopes if scope not in granted]
    return (
        _over("costs", contract.typical_micro_usd, where.micro_usd, "millionths of a dollar")
        or _over("takes", typical_ms, where.latency_ms, "ms")
        or (f"has no tool with the scope {lacking[0]!r}" if lacking else "")
        or _beyond(contract, where.only)
    )


def _beyond(contract: Contract, only: Grants | None) -> str:
    """Which tool or scope a contract has that it may not have."""
    if only is None:
        return ""
    for grant in contract.tools:
        if grant.tool not in only.tools and "*" not in only.tools:
            return f"has the tool {grant.tool!r}, which is not granted"
        if odd := [scope for scope in grant.scopes if scope not in only.scopes and "*" not in only.scopes]:
            return f"has a tool with the scope {odd[0]!r}, which is not granted"
    return ""


def _over(verb: str, typical: int | None, most: int | None, unit: str) -> str:
    """What is not said is not promised."""
    if most is None or (typical is not None and typical <= most):
        return ""
    return f"does not say what it {verb}" if typical is None else f"{verb} {typical} {unit}, where {most} is the most"


def refused(step: PlanStep, view: View) -> str:
    """Who offers what a step asks for and is not given it, and why."""
    found = [
        f"{name} {problem}"
        for name, _, contract in view.offering(step.capability)
        if step.specialist in {"", "all", name} and (problem := lacks(contract, step.where))
    ]
    return "; ".join(found[:5])


def _rank(where: Where, contract: Contract) -> float:
    """What is not known comes last."""
    known = {"name": 0, "cost": contract.typical_micro_usd, "latency": contract.typical_s}[where.prefer]
    return COUNT_LIMIT if known is None else known


def is_open(state: State, specialist: str) -> bool:
    """Whether the run gives nothing more to this specialist."""
    breaker = state.breakers.get(specialist)
    return breaker is not None and breaker.open


def awaited(step: PlanStep) -> str:
    """What a step waits for while nobody offers it."""
    return step.team or (step.capability if step.specialist in {"", "all"} else f"{step.capability}@{step.specialist}")


def substitute(step: PlanStep, task: TaskState, state: State, view: View) -> Voice | None:
    """Who else may do a task of a step that leaves it open: the next who offers the capability and has not had it."""
    if not step.capability or step.specialist or step.route or task.index >= 0:
        return None
    others = offers(step, state, view)
    return next((voice for voice in others if not passed_over(step, task, voice.specialist, state, view)), None)


def fallback(step: PlanStep, task: TaskState, state: State, view: View) -> Voice | None:
    """Who takes over, of those that the step names: the first who is there and has not had the task."""
    if task.index >= 0:
        return None
    for name in state.steps[task.step].fallback:
        if not passed_over(step, task, name, state, view) and (contract := view.contract(name)):
            approved = state.gates[step.id].voices if step.gate and step.id in state.gates else ()
            return next((voice for voice in approved if voice.specialist == name), Voice(name, contract[0]))
    return None


def passed_over(step: PlanStep, task: TaskState, name: str, state: State, view: View) -> str:
    """Why `name` does not take a task over, in words; empty when it may."""
    contract = view.contract(name)
    if contract is None:
        return "is not attached"
    if name == task.specialist or name in task.tried:
        return "has had it"
    if is_open(state, name):
        return broken(state, name)
    return _forbidden(step, name, contract[1], state)


def _forbidden(step: PlanStep, name: str, contract: Contract, state: State) -> str:
    """Why somebody may not go on with what another had begun. What a person has approved is done by whom it was
    approved for, and who may change the world does nothing else."""
    gate = state.gates.get(step.id)
    approved = gate is not None and any(voice.specialist == name for voice in gate.voices)
    if not approved and (step.gate or contract.authority == "effect"):
        return f"has the authority to {contract.authority}, and nobody has approved that it does this"
    return lacks(contract, step.where)


def handed_to(step: PlanStep, task: TaskState, to: str, state: State, view: View) -> Voice | tuple[StopCode, str]:
    """Who gets a task that is handed to a specialist or a capability, or why nobody does; it need not be one who has
    not had it."""
    named = view.contract(to)
    there = [(to, *named)] if named else [one for one in view.offering(to) if one[0] != task.specialist]
    problems = {name: _forbidden(step, name, contract, state) for name, _, contract in there}
    fit = [Voice(name, seq) for name, seq, _ in there if not problems[name]]
    if fit:
        return next((voice for voice in fit if not is_open(state, voice.specialist)), fit[0])
    if there:
        return "POLICY_BLOCKED", f"it was handed to {to!r}: " + "; ".join(f"{n} {p}" for n, p in problems.items())
    return "TOOL_DOWN", f"nobody who may do it offers {to!r}, to which it was handed"


def broken(state: State, specialist: str) -> str:
    """What an open breaker says."""
    return f"failed {state.breakers[specialist].failures} times in a row and gets nothing more in this run"


def allowance(step: PlanStep, state: StepState, task: TaskState, voice: Voice, view: View) -> Allowance:
    if step.team:
        return Allowance(0, step.work_ms or CHILD_WORK_MS, step.attempts or ATTEMPTS, step.budget)
    contract = view.contract_at(voice.contract)
    per_item = step.work_ms or (round(contract.deadline_s * 1000) if contract else 30_000)
    items = 1 if task.index >= 0 else min(state.per_task, state.items - task.group * state.per_task)
    limits = _narrower(step.budget, contract.budget.limits() if contract else Limits())
    attempts = step.attempts or (contract.attempts if contract else ATTEMPTS)
    return Allowance(step.wait_ms, per_item * items, attempts, limits)


def _narrower(own: Limits, other: Limits) -> Limits:
    """Of each limit the one that the step sets, else that of the contract."""
    if Limits() in (own, other):
        return other if own == Limits() else own
    return Limits(*(o if s is None else s for s, o in zip(astuple(own), astuple(other), strict=True)))


def least(one: Limits, other: Limits) -> Limits:
    """Of each limit the lower one."""
    pairs = zip(astuple(one), astuple(other), strict=True)
    return Limits(*(min((limit for limit in pair if limit is not None), default=None) for pair in pairs))


def backoff_ms(state: State, name: str, voice: Voice, view: View) -> int:
    """The delay before the next attempt of a task that has just failed: doubled with each, and between half and all of
    it, by a jitter that is derived."""
    task = state.tasks[name]
    plan = state.step(task.step).backoff
    contract = view.contract_at(voice.contract)
    base_ms = plan.base_ms if plan else round(contract.backoff_s * 1000) if contract else 0
    max_ms = plan.max_ms if plan else round(contract.backoff_max_s * 1000) if contract else 0
    delay_ms = min(base_ms << min(max(task.lost - 1, 0), 30), max_ms)
    half_ms = delay_ms - delay_ms // 2
    jitter_ms = half_ms * int(_derived(state.run, name, task.attempt)[:8], 16) // 0x1_0000_0000
    return delay_ms // 2 + jitter_ms


def tried_again(code: str, task: TaskState, attempts: int) -> bool:
    """Whether a task whose attempt has just failed with `code` gets another one."""
    return code in RETRIED and task.lost + 1 < attempts


def child_code(end: str, code: str) -> StopCode:
    """The code with which the task of a child run fails: its own, so that each level tries again only what may help.
    What a person cancelled is not asked for again, nor what waited in vain for somebody who offers a capability, was
    found to repeat itself or had its plans refused."""
    if end in {"POLICY_BLOCKED", "CANCELLED"}:
        return "POLICY_BLOCKED"
    if end == "FAILED_RETRYABLE":
        return "TOOL_DOWN"
    if code in {"STUCK", "LOOP", "PLAN_REFUSED"}:
        return "BUDGET_EXCEEDED"
    return next((known for known in get_args(StopCode) if known == code), "INTERNAL")


def child_run(run: str, task: str, attempt: int) -> str:
    """The id of a child run: the same whenever it is derived, and a token."""
    return f"{run[:40]}-{_derived(run, task, attempt)[:20]}"


def span_id(run: str, task: str, attempt: int) -> str:
    """The span id that travels with a task: looks random, is derived."""
    return _derived("span", run, task, attempt)[:16]


def _derived(*parts: str | int) -> str:
    return hashlib.sha256("\n".join(map(str, parts)).encode()).hexdigest()


def oversized(state: State, grown: int, size: int) -> int:
    """The size of the state in bytes when it is over its limit, else 0. `grown` events of `size` bytes made it what it
    is. It is looked at after large events, and after every few: what comes in between adds little. What was said may
    stand at three places at once."""
    bound = 300 * (len(state.tasks) + len(state.facts) + len(state.missing)) + 3 * state.claimed
    every = LOOK_EVERY if bound < STATE_LIMIT // 2 else LOOK_EVERY // 4
    due = state.version // every > (state.version - grown) // every
    exact = len(encode(state)) if due or size >= LOOK_BYTES else 0
    limit = STATE_LIMIT * 5 // 4 if state.ending else STATE_LIMIT  # what is undone adds a little
    return exact if exact > limit else 0
