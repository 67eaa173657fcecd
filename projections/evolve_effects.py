"""Evolving by what is known of effects, and by a run that ends once they are undone.

Pure. A part of `evolve`, as `evolve_tasks` is.
"""

from msgspec.structs import replace

from projections.canonical import Effect, Ending, Outcome, State, Timer
from projections.folding import Next
from schemas import events_of_effects as f


def effect_intended(state: State, event: f.EffectIntended, new: Next) -> State:
    known = state.effects.get(event.key)
    effect = Effect(
        task=event.task,
        specialist=event.specialist,
        contract=event.contract,
        tool=event.tool,
        arguments=event.arguments,
        round=event.round,
        undo=event.undo,
        undoes=event.undoes,
        intended=state.version + 1,
        outcomes=known.outcomes if known else (),
        undone=known.undone if known else False,
    )
    return replace(state, **new, effects=state.effects | {event.key: effect})


def effect_receipt(state: State, event: f.EffectReceipt, new: Next) -> State:
    effect = state.effects[event.key]
    outcome = Outcome(event.round, event.done, state.version + 1, event.source, event.result)
    changed = {event.key: replace(effect, outcomes=(*effect.outcomes, outcome))}
    if event.done and effect.undoes in state.effects:
        changed[effect.undoes] = replace(state.effects[effect.undoes], undone=True)
    return replace(state, **new, effects=state.effects | changed)


def run_ending(state: State, event: f.RunEnding, new: Next) -> State:
    """Nothing is awaited any more but the ends of those attempts: by now they have begun or never will, so each has the
    time of its work at most."""
    timers = {f"task.{name}": Timer(state.tasks[name].work_ms, event.at, state.version + 1) for name in event.waits}
    return replace(
        state,
        **new,
        ending=Ending(event.end, event.code, event.reason, event.waits),
        timers=timers,
        in_flight=len(event.waits),
        ready=(),
    )
