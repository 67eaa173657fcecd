"""Folding: how the mappings of a state change from one event to the next.

Pure. The exception to a state never changing is one that is `owned` by a fold: its mappings are changed in place.
"""

from typing import Any

from msgspec.structs import replace

from projections.canonical import State, StepState, Timer, late_name


class _Owned(dict[str, Any]):
    """A mapping of a state that one fold has for itself: `|` changes it instead of copying it."""

    def __or__(self, other: Any) -> "_Owned":  # type: ignore[override]
        self.update(other)
        return self


_GROWING = ("steps", "tasks", "facts", "missing", "gates", "timers", "late", "breakers", "repeats", "effects")


def owned(state: State) -> State:
    """A copy of `state` for one fold alone: evolving it changes its mappings in place, so only the latest state of the
    fold may be looked at, and `released` gives one to keep."""
    return replace(state, **{name: _Owned(getattr(state, name)) for name in _GROWING})


def is_owned(state: State) -> bool:
    return isinstance(state.facts, _Owned)


def released(state: State) -> State:
    """The latest state of a fold of an `owned` one, as one that never changes."""
    return replace(state, **{name: dict(getattr(state, name)) for name in _GROWING})


Next = dict[str, Any]
"""The fields that change, beginning with version and time."""


def with_step(state: State, name: str, **changes: Any) -> dict[str, StepState]:
    return state.steps | {name: replace(state.steps[name], **changes)}


def without(timers: dict[str, Timer], name: str) -> dict[str, Timer]:
    if name not in timers:
        return timers
    left = timers if isinstance(timers, _Owned) else dict(timers)
    del left[name]
    return left


def repeated(state: State, outcome: str) -> dict[str, int]:
    return state.repeats | {outcome: state.repeats.get(outcome, 0) + 1} if outcome else state.repeats


def counted(state: State, author: str) -> dict[str, int]:
    name = late_name(state, author)
    return state.late | {name: state.late.get(name, 0) + 1}
