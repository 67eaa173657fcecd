"""Loops: a run that does the same again and again is stopped, or a person is asked, with the evidence.

Pure. Counted is what may come more than once by design: rounds, hand-offs, and calls of tools within one attempt.
Retries and questions are not: they have limits of their own.
"""

from typing import Any

from projections.canonical import TaskState, loop_gate
from schemas import events as e
from schemas.codec import canonical, digest, encode, sha256
from schemas.inputs import ToolCalled
from schemas.steps import GatePlan, PlanStep
from supervisor.draft import Draft
from supervisor.gates import open_gate

OUTCOMES_LIMIT = 1_000
"""Outcomes that a run tells apart; what comes after them is not counted."""


def outcome_of(draft: Draft, name: str, what: str | tuple[e.Claim, ...]) -> str:
    """The digest of who did what, to what end (a code, or claims); empty where it cannot come twice, or too much is
    told apart already. Raises BadExpression."""
    task = draft.state.tasks[name]
    step = draft.state.step(task.step)
    if not draft.state.repeats_allowed or not _may_repeat(step) or task.index >= 0:
        return ""
    work = draft.work(step)
    items = work.items(draft.state.steps[step.id], task.group, task.read_version)
    outcome = _short(
        {
            "specialist": task.specialist,
            "step": step.origin or step.id,
            "group": task.group,
            "input": [item.input for item in items],
            "facts": {key: fact.value for key, fact in work.read_facts(task.read_version).items()},
            "outcome": what if isinstance(what, str) else result(what),
        }
    )
    return outcome if _is_counted(draft, outcome) else ""


def _is_counted(draft: Draft, outcome: str) -> bool:
    return outcome in draft.state.repeats or len(draft.state.repeats) < OUTCOMES_LIMIT


def _may_repeat(step: PlanStep) -> bool:
    return bool(step.origin or step.hand_to)


def result(claims: tuple[e.Claim, ...]) -> list[Any]:
    """What a task said, without the keys, which differ from round to round."""
    values = [claim.value for claim in claims]
    return sorted(values, key=canonical) if len(values) > 1 else values


def _short(value: Any) -> str:
    return digest(value)[:32]


def tool_failed(draft: Draft, task: TaskState, called: ToolCalled) -> None:
    """Record that a tool has failed, and stop what calls it again and again in vain."""
    if not called.code or not draft.state.repeats_allowed:
        return
    if called.call and called.execution == task.calling and called.call <= task.calls:
        return  # the same message again: its append was repeated, because nobody knew whether it was stored
    same = (called.task, called.attempt, task.specialist, called.tool, called.input, called.code)
    outcome = sha256("\n".join(map(str, same)).encode())[:32]
    if not _is_counted(draft, outcome):
        return
    draft.emit(
        e.ToolFailed,
        task=called.task,
        attempt=called.attempt,
        specialist=task.specialist,
        tool=called.tool[:64],
        input=called.input[:64],
        code=called.code,
        outcome=outcome,
        message=called.message[:1000],
        execution=called.execution if called.call else "",
        call=called.call,
    )
    check(
        draft,
        called.task,
        outcome,
        f"{task.specialist} called {called.tool[:64]} in vain ({called.code})",
        called.message,
    )


def check(draft: Draft, name: str, outcome: str, what: str, said: Any) -> None:
    """Stop the run, or ask, when `outcome` has just come more often than the playbook allows. `said` is what came out
    of it, for people. Who has approved all in advance is not there to be asked."""
    times, allowed = draft.state.repeats.get(outcome, 0), draft.state.repeats_allowed
    if not outcome or times <= allowed or draft.state.over or is_asking(draft):
        return
    evidence = f"{what}, {times} times with the same input; {allowed} are allowed"
    if said:
        evidence += f"; the last: {encode(said)[:300].decode(errors='ignore')}"
    draft.emit(e.LoopFound, outcome=outcome, times=times, task=name, what=evidence)
    if draft.state.on_loop == "stop" or draft.state.approve:
        draft.end("FAILED", "LOOP", f"{name}: {evidence}")
        return
    ask = f"The run repeats itself: in {name} {what}, {times} times with the same input. May it go on?"
    open_gate(draft, loop_gate(draft.state.loops), GatePlan(ask), {"task": name, "what": evidence})


def is_asking(draft: Draft) -> bool:
    """Whether the run waits for a person to say if it may go on; until then nothing is given out."""
    return bool(draft.state.loops) and loop_gate(draft.state.loops) in draft.state.open_gates
