"""Task messages: what a worker receives. Self-contained: nothing else has to be looked up, except blobs.

Pure. Derived from the stored state of a run, so the same task always has the same bytes.
"""

from typing import Any

import msgspec
from msgspec import Struct


class Item(Struct, frozen=True):
    """One call of the specialist: the value it returns is claimed under `key`."""

    key: str
    input: dict[str, Any]


class ReadFact(Struct, frozen=True):
    """A fact as the task sees it: its value and the version of the run that committed it."""

    value: Any
    version: int


class Task(Struct, frozen=True, kw_only=True):
    """One attempt of a task. `span` is a derived span id, 16 hex digits; durations are milliseconds."""

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


class BadTask(ValueError):
    """Bytes that are no task message."""


_decoder = msgspec.json.Decoder(Task)


def decode_task(data: bytes) -> Task:
    """Raises BadTask."""
    try:
        return _decoder.decode(data)
    except msgspec.MsgspecError as error:
        raise BadTask(f"not a task message: {error}") from None
