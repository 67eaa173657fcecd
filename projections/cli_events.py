"""Events in words: a few for each on a line of `tail`, and a sentence about what was not to be expected, for those who
watch a run."""

from collections.abc import Callable
from typing import Any

from projections.cli_text import count, dollars, lasting, value
from schemas import events as e
from schemas import events_of_effects as f
from schemas.plan_events import PlanAsked, PlanExtended, PlanRefused
from schemas.steps import PlanStep
from schemas.usage import Limits

STEPS_SHOWN = 10
ANSWER_SHOWN = 80
"""Characters of a person's answer."""
_ABOUT = ("key", "task", "gate", "specialist", "step", "end", "team", "author")
"""What an event is about: the first of these that it has."""


def words(event: e.Event) -> str:
    """The type of an event, what it is about, and for some what matters most."""
    names = _ABOUT[1:] if isinstance(event, f.EffectIntended | f.EffectReceipt) else _ABOUT  # their keys are digests
    about = next((str(value) for name in names if (value := getattr(event, name, ""))), "")
    more = _MORE.get(type(event), lambda _: "")(event)
    return " ".join(filter(None, [str(type(event).__struct_config__.tag), about, more]))


def sentence(event: e.Event) -> str:
    """What happened, for people; empty for what is as the plan has it."""
    return _SENTENCES.get(type(event), lambda _: "")(event)


def _answer(event: e.GateAnswered) -> str:
    if event.value is not None:
        return f"answered by {event.by}: {value(event.value, ANSWER_SHOWN)}"
    return f"{'approved' if event.approved else 'denied'}{' in advance' if event.in_advance else ''} by {event.by}"


def _revision(event: e.PlanRevised) -> str:
    names = ", ".join(step.id for step in event.steps)
    what = f"step {event.instead_of} was replaced by {names}" if event.instead_of else f"{names} was added"
    return f"{what} because {event.reason}" if event.reason else what


def _named(steps: tuple[PlanStep, ...]) -> str:
    return ", ".join(step.id for step in steps[:STEPS_SHOWN]) + (", …" if len(steps) > STEPS_SHOWN else "")


def _refusal(event: PlanRefused) -> str:
    asked = f"{event.by} is asked for another" if event.again else "no other is asked for"
    return f"plan {event.number} of {event.step} was refused: {'; '.join(event.reasons)}; {asked}"


def _handed(event: e.AttemptFailed) -> str:
    return f"task {event.task} is handed to {event.to}{_colon(event.message)}" if event.to else ""


def _delayed(event: e.TaskDelayed) -> str:
    return f"after {lasting(event.delay_ms)}" if event.delay_ms else "when there is room"


def _newer(event: e.FactCommitted) -> str:
    newer = f"takes the place of version {event.replaces}" if event.replaces else ""
    stale = f"rests on older values of {', '.join(event.stale)}" if event.stale else ""
    return " and ".join(filter(None, [newer, stale]))


_HOW = {"call": "", "probe": ", as the tool reads back", "person": ", as a person said"}


def _again(event: f.EffectIntended) -> str:
    return f", round {event.round}" if event.round > 1 else ""


def _came_of(event: f.EffectReceipt) -> str:
    return "was done" if event.done else "was not done"


def _held(limits: Limits) -> str:
    amounts = {"tokens": limits.tokens, "calls of tools": limits.tool_calls}
    told = [f"{amount} {name}" for name, amount in amounts.items() if amount]
    return ", ".join([*told, f"${dollars(limits.micro_usd)}"] if limits.micro_usd else told) or "0 tokens"


def _colon(text: str) -> str:
    return f": {text}" if text else ""


_MORE: dict[type[e.Event], Callable[[Any], str]] = {
    e.PlanRevised: lambda event: str(event.number) + (f" instead of {event.instead_of}" if event.instead_of else ""),
    PlanAsked: lambda event: f"of {count(len(event.contracts), 'specialist')}",
    PlanRefused: lambda event: f"{event.number} of {event.by}",
    PlanExtended: lambda event: f"{event.number} by {event.by}: {_named(event.steps)}",
    e.GateOpened: lambda event: f"for {', '.join(event.who)}" if event.who else "",
    e.GateAnswered: _answer,
    e.AttemptFailed: lambda event: f"{event.code} to {event.to}" if event.to else event.code,
    e.AttemptStale: lambda event: f"behind {', '.join(event.keys)}",
    e.TaskDelayed: _delayed,
    e.TaskEnded: lambda event: event.code,
    e.BreakerOpened: lambda event: f"{event.failures} times {event.code}",
    e.ShareKept: lambda event: _held(event.held),
    e.ToolFailed: lambda event: f"{event.tool} of {event.specialist} {event.code}",
    e.LoopFound: lambda event: f"{event.times} times",
    e.ConflictFound: lambda event: f"for {event.specialist}",
    e.FactCommitted: _newer,
    f.EffectIntended: lambda event: f"{event.tool} of {event.specialist}{_again(event)}",
    f.EffectReceipt: lambda event: f"{event.tool} {_came_of(event)}",
    f.RunEnding: lambda event: event.code,
}
_SENTENCES: dict[type[e.Event], Callable[[Any], str]] = {
    e.PlanRevised: _revision,
    PlanRefused: _refusal,
    PlanExtended: lambda event: f"step {event.step} was planned by {event.by}: {_named(event.steps)}",
    e.GateAnswered: lambda event: f"gate {event.gate}: {_answer(event)}{_colon(event.reason)}",
    e.AttemptFailed: _handed,
    e.AttemptStale: lambda event: f"task {event.task} is given out again: {', '.join(event.keys)} changed meanwhile",
    e.TaskDelayed: lambda event: f"task {event.task} goes on {_delayed(event)}{_colon(event.reason)}",
    e.TaskDropped: lambda event: f"task {event.task} is not needed any more{_colon(event.reason)}",
    e.BreakerOpened: lambda event: (
        f"{event.specialist} is given nothing more: it failed {count(event.failures, 'time')} in a row, "
        f"last with {event.code}"
    ),
    e.ShareKept: lambda event: f"{_held(event.held)} stay set aside for the child run of task {event.task}",
    e.ToolFailed: lambda event: (
        f"{event.specialist} could not use {event.tool} in task {event.task}: {event.code}{_colon(event.message)}"
    ),
    e.LoopFound: lambda event: f"a loop in task {event.task}: {event.what}",
    e.ConflictFound: lambda event: (
        f"claims for {event.key} differ: {event.specialist} reconciles them in task {event.task}"
    ),
    e.FactCommitted: lambda event: f"{event.key} {_newer(event)}" if _newer(event) else "",
    f.EffectIntended: lambda event: f"{event.specialist} begins {event.tool} in task {event.task}{_again(event)}",
    f.EffectReceipt: lambda event: (
        f"{event.tool} in task {event.task} {_came_of(event)}{_HOW[event.source]}{_colon(event.message)}"
    ),
    f.RunEnding: lambda event: f"the run will end {event.end} once its effects are undone{_colon(event.reason)}",
}
