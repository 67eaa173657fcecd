"""Breaches: what an end of a task must be like to be taken, by its contract, its step and the limits of the log.

Pure.
"""

from typing import Any

from projections.canonical import TaskState, group_span
from schemas import events as e
from schemas.bids import BID_SCHEMA
from schemas.codec import VALUE_LIMIT, encode, unstorable
from schemas.contracts import ALWAYS, Contract
from schemas.inputs import Ended, Question
from schemas.taint import LABELS_LIMIT, joined
from schemas.validation import check_schema, violation
from supervisor.draft import Draft

GOES_ON = frozenset({"NEEDS_INPUT", "HANDED_OFF", "EFFECT_UNKNOWN"})
"""Codes with which a whole task goes on, when somebody has said or done something."""


def breach(draft: Draft, task: TaskState, end: Ended) -> tuple[e.StopCode, str] | None:
    """How an end breaks the contract, with the code that it has instead."""
    contract = draft.view.contract_at(task.contract)
    if end.code:
        if problem := _unnamed(contract, end.code, end.message):
            return "INTERNAL", problem
        if end.code in {"NEEDS_INPUT", "EFFECT_UNKNOWN"} and end.question and (problem := _unaskable(end.question)):
            return "INVALID_OUTPUT", problem
        return None
    problem = _misnamed(keys_of(draft, task), end) or _unfit(_output(draft, task, contract), end) or _undecided(end)
    return ("INVALID_OUTPUT", problem) if problem else None


def _unnamed(contract: Contract | None, code: e.StopCode, message: str) -> str:
    """What is wrong with a code that the contract does not name; empty where it does."""
    if contract is None or code in {*contract.stops, *ALWAYS}:
        return ""
    return f"it stopped with {code}, which its contract does not name: {message}".removesuffix(": ")[:1000]


def silence_by(draft: Draft, task: TaskState, said: e.Silence) -> e.Silence:
    """A silence as it is taken: cut, and with a code that the contract names."""
    problem = _unnamed(draft.view.contract_at(task.contract), said.code, said.message)
    return e.Silence(said.key, "INTERNAL" if problem else said.code, (problem or said.message)[:1000])


def keys_of(draft: Draft, task: TaskState) -> list[str]:
    """The keys that a task has to say something about."""
    work = draft.work(draft.state.step(task.step))
    span = group_span(draft.state.steps[task.step], task.group) if task.index < 0 else [task.index]
    return [work.key(index) for index in span]


def _output(draft: Draft, task: TaskState, contract: Contract | None) -> dict[str, Any]:
    if draft.state.step(task.step).bid:
        return BID_SCHEMA
    if draft.state.step(task.step).undo:
        return {}
    return contract.output if contract else {}


def _misnamed(keys: list[str], end: Ended) -> str:
    """Which key is named twice, or not by the task, or not by the end."""
    named = [claim.key for claim in end.claims] + [silence.key for silence in end.silences]
    if sorted(named) == sorted(keys):
        return ""
    odd = next((key for key in named if key not in keys or named.count(key) > 1), None)
    if odd is None:
        return f"says nothing about {min(key for key in keys if key not in named)!r}"
    return f"names {odd[:200]!r} twice, or the task does not"


def _unfit(schema: dict[str, Any], end: Ended) -> str:
    """Which value cannot be stored, is too large or out of schema."""
    for claim in end.claims:
        if reason := unstorable(claim.value):
            return f"the value of {claim.key!r}: {reason}"
        if joined(claim.taint) != claim.taint:
            return f"the taint of {claim.key!r} is not {LABELS_LIMIT} short labels at most, sorted"
        if len(encode(claim.value)) > VALUE_LIMIT:
            return f"the value of {claim.key!r} is over {VALUE_LIMIT} bytes; store it with context.blob()"
        if problem := violation(schema, claim.value):
            return f"the value of {claim.key!r}: {problem}"
    return ""


def _undecided(end: Ended) -> str:
    """Which silence says what only a whole task can say: that it asks, or is somebody else's."""
    odd = next((silence for silence in end.silences if silence.code in GOES_ON), None)
    return f"is silent about {odd.key!r} with {odd.code}, which only a whole task can end with" if odd else ""


def _unaskable(question: Question) -> str:
    if reason := unstorable(question.action) or unstorable(question.schema):
        return f"what it asks: {reason}"
    if len(encode(question)) > VALUE_LIMIT:
        return f"what it asks is over {VALUE_LIMIT} bytes"
    try:
        check_schema(question.schema or {})
    except ValueError as error:
        return f"the schema of its question {error}"
    return ""
