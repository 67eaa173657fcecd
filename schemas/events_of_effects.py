"""Events of effects: what the history of a run keeps of the calls that change the world, and of undoing them.

Pure. The other events stand in `events`; what holds for those holds for these.
"""

from typing import Any, Literal

from schemas.events import End, Event

Source = Literal["call", "probe", "person"]
"""How it is known whether an effect was done: by the call itself, by reading back, or by what a person said."""


class EffectIntended(Event, tag="effect_intended", frozen=True, kw_only=True):
    """The log gave an execution, and no other, the right to do an effect for the `round`th time. `undo` names the tool
    that undoes it, by the contract at `contract`; `undoes` is the key of the effect that this one undoes."""

    v: Literal[1] = 1
    task: str
    attempt: int
    specialist: str
    contract: int
    execution: str
    tool: str
    key: str
    round: int
    arguments: Any
    undo: str = ""
    undoes: str = ""


class EffectReceipt(Event, tag="effect_receipt", frozen=True, kw_only=True):
    """It is known whether a round of an effect was done, and with which result."""

    v: Literal[1] = 1
    task: str
    specialist: str
    execution: str
    tool: str
    key: str
    round: int
    done: bool
    source: Source = "call"
    result: Any = None
    message: str = ""


class RunEnding(Event, tag="run_ending", frozen=True, kw_only=True):
    """The run will end like that, once its effects are undone. Nothing else is given out any more; the attempts of
    `waits` may be in the middle of an effect, so that their ends are awaited first."""

    v: Literal[1] = 1
    end: End
    code: str = ""
    reason: str = ""
    waits: tuple[str, ...] = ()
