"""Policies of the control plane: who does it, how long it may take, whether it is tried again, what is too much.

Pure. Each function answers one question from a state and the catalogue below the input that is being decided.
"""

import hashlib
from typing import get_args

from msgspec import Struct

from projections.canonical import State, StepState, TaskState
from schemas.catalogue import View
from schemas.codec import STATE_LIMIT, encode
from schemas.contracts import RETRIED
from schemas.events import StopCode
from schemas.steps import PlanStep, Voice

WAITS_LIMIT = 3
"""Attempts in a row that nobody started before the task ends."""
DEPTH_LIMIT = 8
"""Child runs below each other."""
CHILD_WORK_MS = 24 * 3_600_000
"""Time for a child run where its step sets no limit; the child has limits of its own."""
ATTEMPTS = 3
"""Attempts of a child run's task where its step does not say."""


class Allowance(Struct, frozen=True):
    """What one attempt gets, in milliseconds, and how many attempts may fail."""

    wait_ms: int
    work_ms: int
    attempts: int


def voices(step: PlanStep, view: View) -> list[Voice]:
    """Who takes part in a step; none when nobody offers what it asks for."""
    if step.team:
        return [Voice(step.team)] if view.playbook(step.team) else []
    offering = [Voice(name, seq) for name, seq, _ in view.offering(step.capability)]
    match step.specialist:
        case "all":
            return offering
        case "":
            return offering[:1]
        case named:
            return [voice for voice in offering if voice.specialist == named]


def awaited(step: PlanStep) -> str:
    """What a step waits for while nobody offers it."""
    return step.team or (step.capability if step.specialist in {"", "all"} else f"{step.capability}@{step.specialist}")


def substitute(step: PlanStep, task: TaskState, view: View) -> Voice:
    """Who gets a task that was never started: the next who offers the capability and has not been tried; where the
    step names its specialists, or there is nobody else, the same again."""
    if step.capability and not step.specialist:
        for name, seq, _ in view.offering(step.capability):
            if name != task.specialist and name not in task.tried:
                return Voice(name, seq)
    return Voice(task.specialist, task.contract)


def allowance(step: PlanStep, state: StepState, task: TaskState, voice: Voice, view: View) -> Allowance:
    if step.team:
        return Allowance(0, step.work_ms or CHILD_WORK_MS, step.attempts or ATTEMPTS)
    contract = view.contract_at(voice.contract)
    per_item = step.work_ms or (round(contract.deadline_s * 1000) if contract else 30_000)
    items = min(state.per_task, state.items - task.group * state.per_task)
    return Allowance(step.wait_ms, per_item * items, step.attempts or (contract.attempts if contract else ATTEMPTS))


def tried_again(code: str, task: TaskState, attempts: int) -> bool:
    """Whether a task whose attempt has just failed with `code` gets another one."""
    return code in RETRIED and task.lost + 1 < attempts


def child_code(end: str, code: str) -> StopCode:
    """The code with which the task of a child run fails: its own, so that each level tries again only what may help.
    What a person cancelled is not asked for again, nor what waited in vain for somebody who offers a capability."""
    if end in {"POLICY_BLOCKED", "CANCELLED"}:
        return "POLICY_BLOCKED"
    if end == "FAILED_RETRYABLE":
        return "TOOL_DOWN"
    if code == "STUCK":
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


def oversized(state: State) -> int:
    """The size of the state in bytes when it is over its limit, else 0. A bound comes first: the exact size is taken
    only where tasks and values could come near the limit. What was said may stand at three places at once."""
    bound = 300 * (len(state.tasks) + len(state.facts) + len(state.missing)) + 3 * state.claimed
    if bound < STATE_LIMIT // 2:
        return 0
    size = len(encode(state))
    return size if size > STATE_LIMIT else 0
