"""Task messages: what a worker receives. Self-contained: nothing else has to be looked up, except blobs.

Pure. Derived from the stored state of a run, so the same task always has the same bytes.
"""

from typing import Any, Literal

import msgspec
from msgspec import Struct

from schemas.grants import Grant
from schemas.taint import Labels
from schemas.usage import Limits


class Item(Struct, frozen=True):
    """One call of the specialist: the value it returns is claimed under `key`."""

    key: str
    input: dict[str, Any]


class ReadFact(Struct, frozen=True):
    """A fact as the task sees it: its value and the version of the run that committed it."""

    value: Any
    version: int


class Answered(Struct, frozen=True):
    """What a person said to what this task asked: `digest` is that of the action, `value` what a question asked for."""

    ask: str
    action: Any
    digest: str
    by: str
    value: Any = None


class Receipt(Struct, frozen=True, omit_defaults=True):
    """What the run knew of a round of an effect when the attempt was given out."""

    key: str
    round: int
    done: bool
    result: Any = None


class Undo(Struct, frozen=True):
    """The input of a task of the kind `undo`: the effect that is to be undone, as it was called."""

    key: str
    round: int
    tool: str
    arguments: Any


class Task(Struct, frozen=True, kw_only=True):
    """One attempt of a task. `span` is a derived span id, 16 hex digits; durations are milliseconds.

    kind: `work`; `bid`: say for the one item what the work would cost and how sure the specialist is (schemas.bids);
      `reconcile`: the input of the one item is `{key, values}`, the different values that were claimed; `undo`: the
      input of the one item is an Undo.
    budget: what the attempt may use at most. answers: what people said to what earlier attempts asked. effects: what is
      known of effects that the task has begun. grant: which of its tools the specialist may call for this task, beside
      what its contract says. taint: labels of the content from outside that is, or may be, in what the task carries.
    """

    log: str
    run: str
    task: str
    attempt: int
    specialist: str
    contract: int
    items: tuple[Item, ...]
    facts: dict[str, ReadFact]
    read_version: int
    wait_ms: int
    work_ms: int
    span: str
    kind: Literal["work", "bid", "reconcile", "undo"] = "work"
    budget: Limits = Limits()
    answers: tuple[Answered, ...] = ()
    grant: Grant | None = None
    taint: Labels = ()
    effects: tuple[Receipt, ...] = ()


class BadTask(ValueError):
    """Bytes that are no task message."""


_decoder = msgspec.json.Decoder(Task)


def decode_task(data: bytes) -> Task:
    """Raises BadTask."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise BadTask(f"not a task message: {error}") from None
