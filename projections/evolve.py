"""Evolving: the state of a run with one more event.

Pure: no clock, random, I/O or set order. `evolve(state, event) -> state` never changes the state it is given, so one
may be kept, compared and evolved twice; the exception is an `owned` one, which belongs to its fold. Rules are in
`supervisor.decide`; this file only remembers.
"""

from collections.abc import Callable
from typing import Any

from msgspec.structs import replace

from projections import evolve_effects as effects
from projections import evolve_tasks as tasks
from projections.canonical import (
    Breaker,
    Earlier,
    Fact,
    Gate,
    Missing,
    State,
    StepState,
    TaskState,
    Timer,
    loop_gate,
    task_id,
)
from projections.folding import Next, counted, repeated, with_step, without
from schemas import events as e
from schemas import events_of_effects as f
from schemas.plan_events import PlanAsked, PlanExtended, PlanRefused
from schemas.steps import PlanStep


def evolve(state: State, event: e.Event) -> State:
    return _EVOLVE[type(event)](state, event, {"version": state.version + 1, "now": event.at})


def _run_opened(state: State, event: e.RunOpened, new: Next) -> State:
    return replace(
        state,
        **new,
        rules=event.rules,
        goal=event.cause.sha256,
        publisher=event.publisher,
        team=event.team,
        playbook=event.playbook,
        opened=event.at,
        input=event.input,
        approve=event.approve,
        parent=event.parent,
        grant=event.grant or None,
        taint=event.taint or (),
    )


def _plan_committed(state: State, event: e.PlanCommitted, new: Next) -> State:
    deadline = Timer(event.deadline_ms, event.at, state.version + 1)
    return replace(
        state,
        **new,
        plan=event.steps,
        returns=event.returns,
        result_schema=event.result,
        parallel=event.parallel,
        budget=event.budget,
        breaker=event.breaker,
        repeats_allowed=event.repeats,
        on_loop=event.on_loop,
        steps={step.id: StepState() for step in event.steps},
        timers=state.timers | {"run.deadline": deadline} if event.deadline_ms else state.timers,
    )


def _plan_revised(state: State, event: e.PlanRevised, new: Next) -> State:
    plan, steps = _with_steps(state, event.steps, event.instead_of)
    if event.instead_of:
        steps = steps | {event.instead_of: replace(steps[event.instead_of], revised=True)}
    return replace(state, **new, plan=plan, steps=steps, revisions=event.number)


def _plan_extended(state: State, event: PlanExtended, new: Next) -> State:
    plan, steps = _with_steps(state, event.steps, event.step)
    return replace(state, **new, plan=plan, steps=steps, revisions=event.number)


def _with_steps(
    state: State, added: tuple[PlanStep, ...], needed_with: str
) -> tuple[tuple[PlanStep, ...], dict[str, StepState]]:
    """The plan and its steps with `added`, which all need that need the step `needed_with`."""
    names = tuple(step.id for step in added)
    plan = (replace(step, needs=(*step.needs, *names)) if needed_with in step.needs else step for step in state.plan)
    return (*plan, *added), state.steps | {name: StepState() for name in names}


def _gate_opened(state: State, event: e.GateOpened, new: Next) -> State:
    gate = Gate(
        ask=event.ask,
        action=event.action,
        digest=event.digest,
        opened=event.at,
        expires_ms=event.delay_ms,
        task=event.task,
        schema=event.schema,
        who=event.who,
        voices=event.voices,
    )
    timer = Timer(event.delay_ms, event.at, state.version + 1)
    steps = state.steps
    if event.gate in steps and not event.task:
        steps = with_step(state, event.gate, awaiting="")
    return replace(
        state,
        **new,
        steps=steps,
        gates=state.gates | {event.gate: gate},
        timers=without(state.timers, f"await.{event.gate}") | {f"gate.{event.gate}": timer},
    )


def _gate_answered(state: State, event: e.GateAnswered, new: Next) -> State:
    gate = replace(
        state.gates[event.gate],
        by=event.by,
        approved=event.approved,
        in_advance=event.in_advance,
        value=event.value,
    )
    timers = without(state.timers, f"gate.{event.gate}")
    again = event.approved and event.gate == loop_gate(state.loops)
    return replace(
        state,
        **new,
        gates=state.gates | {event.gate: gate},
        timers=timers,
        repeats={} if again else state.repeats,
    )


def _capability_awaited(state: State, event: e.CapabilityAwaited, new: Next) -> State:
    timer = Timer(event.delay_ms, event.at, state.version + 1)
    return replace(
        state,
        **new,
        steps=with_step(state, event.step, awaiting=event.capability),
        timers=state.timers | {f"await.{event.step}": timer},
    )


def _step_expanded(state: State, event: e.StepExpanded, new: Next) -> State:
    groups = -(-event.items // event.per_task)
    step = StepState(
        items=event.items,
        per_task=event.per_task,
        voices=event.voices,
        fallback=event.fallback,
        at=state.version,
        tasks=groups * len(event.voices),
    )
    planned = {
        task_id(event.step, step, group * len(event.voices) + index): TaskState(
            step=event.step, group=group, specialist=voice.specialist, contract=voice.contract
        )
        for group in range(groups)
        for index, voice in enumerate(event.voices)
    }
    return replace(
        state,
        **new,
        steps=state.steps | {event.step: step},
        tasks=state.tasks | planned,
        timers=without(without(state.timers, f"await.{event.step}"), f"gate.{event.step}"),
    )


def _step_skipped(state: State, event: e.StepSkipped, new: Next) -> State:
    timers = without(state.timers, f"await.{event.step}")
    return replace(state, **new, steps=with_step(state, event.step, skipped=event.reason, awaiting=""), timers=timers)


def _breaker_opened(state: State, event: e.BreakerOpened, new: Next) -> State:
    return replace(state, **new, breakers=state.breakers | {event.specialist: Breaker(event.failures, open=True)})


def _tool_failed(state: State, event: e.ToolFailed, new: Next) -> State:
    tasks = state.tasks
    if event.call:
        told = replace(tasks[event.task], calling=event.execution, calls=event.call)
        tasks = tasks | {event.task: told}
    return replace(state, **new, tasks=tasks, repeats=repeated(state, event.outcome))


def _loop_found(state: State, event: e.LoopFound, new: Next) -> State:
    return replace(state, **new, loops=state.loops + 1)


def _fact_committed(state: State, event: e.FactCommitted, new: Next) -> State:
    before = state.facts.get(event.key)
    previous: tuple[Earlier, ...] = ()
    if before:
        previous = (
            *before.previous,
            Earlier(before.value, before.version, before.step, before.by, before.losers, before.taint),
        )
    fact = Fact(
        value=event.value,
        version=state.version + 1,
        step=event.step,
        task=event.task,
        by=event.by,
        policy=event.policy,
        losers=event.losers,
        declined=event.declined,
        policy_version=event.policy_version,
        stale=event.stale,
        previous=previous,
        taint=event.taint or (),
    )
    replaced = state.replaced + (before is not None)
    return replace(state, **new, facts=state.facts | {event.key: fact}, replaced=replaced, **_settled(state, event))


def _fact_missing(state: State, event: e.FactMissing, new: Next) -> State:
    known = state.missing.get(event.key)
    before = (*known.before, known.step) if known else ()
    missing = Missing(event.step, event.code, event.message, event.losers, event.declined, before)
    return replace(state, **new, missing=state.missing | {event.key: missing}, **_settled(state, event))


def _settled(state: State, event: e.FactCommitted | e.FactMissing) -> Next:
    """The step counts the key, and its claims live in the fact from now on, not in the tasks."""
    tasks = state.tasks
    changed: dict[str, TaskState] = {}
    named = [loser.task for loser in event.losers] + [voice.task for voice in event.declined]
    for name in [event.task, *named] if isinstance(event, e.FactCommitted) else named:
        if (task := tasks.get(name)) and (task.claims or task.silences):
            changed[name] = replace(
                task,
                claims=tuple(claim for claim in task.claims if claim.key != event.key),
                silences=tuple(silence for silence in task.silences if silence.key != event.key),
            )
    steps = state.steps
    if event.step in steps:
        steps = with_step(state, event.step, settled=steps[event.step].settled + 1)
    return {"steps": steps, "tasks": tasks | changed if changed else tasks}


def _input_rejected(state: State, event: e.InputRejected, new: Next) -> State:
    return replace(state, **new, late=counted(state, event.author))


def _author_muted(state: State, event: e.AuthorMuted, new: Next) -> State:
    return replace(state, **new, late=counted(state, event.author))


def _rules_changed(state: State, event: e.RulesChanged, new: Next) -> State:
    return replace(state, **new, rules=event.rules)


def _run_ended(state: State, event: e.RunEnded, new: Next) -> State:
    return replace(
        state, **new, end=event.end, code=event.code, reason=event.reason, result=event.result, timers={}, in_flight=0
    )


_EVOLVE: dict[type[e.Event], Callable[[State, Any, Next], State]] = {
    e.RunOpened: _run_opened,
    e.PlanCommitted: _plan_committed,
    e.PlanRevised: _plan_revised,
    PlanAsked: tasks.plan_asked,
    PlanRefused: tasks.plan_refused,
    PlanExtended: _plan_extended,
    e.GateOpened: _gate_opened,
    e.GateAnswered: _gate_answered,
    e.CapabilityAwaited: _capability_awaited,
    e.StepExpanded: _step_expanded,
    e.StepSkipped: _step_skipped,
    e.TaskDispatched: tasks.task_dispatched,
    e.TaskStarted: tasks.task_started,
    e.AttemptFailed: tasks.attempt_failed,
    e.AttemptStale: tasks.attempt_stale,
    e.TaskDelayed: tasks.task_delayed,
    e.TaskDropped: tasks.task_dropped,
    e.TaskEnded: tasks.task_ended,
    e.BreakerOpened: _breaker_opened,
    e.ToolFailed: _tool_failed,
    e.LoopFound: _loop_found,
    e.ConflictFound: tasks.conflict_found,
    e.FactCommitted: _fact_committed,
    e.FactMissing: _fact_missing,
    e.ShareKept: tasks.share_kept,
    e.InputLate: tasks.input_late,
    e.InputRejected: _input_rejected,
    e.AuthorMuted: _author_muted,
    e.RulesChanged: _rules_changed,
    e.RunEnded: _run_ended,
    f.EffectIntended: effects.effect_intended,
    f.EffectReceipt: effects.effect_receipt,
    f.RunEnding: effects.run_ending,
}
