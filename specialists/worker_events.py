"""What a worker tells of its day to whoever runs it.

Pure.
"""

from dataclasses import dataclass
from typing import Literal

from blackboard.queue import TaskKey
from schemas.contracts import Contract
from schemas.usage import Usage


@dataclass(frozen=True)
class Offered:
    """The contract stands in the catalogue, at `seq`."""

    contract: Contract
    seq: int


@dataclass(frozen=True)
class Begun:
    """A task was taken."""

    key: TaskKey
    execution: str


@dataclass(frozen=True)
class Finished:
    """A task is out of the worker's hands. `how`: its end is stored, the run has no use for it any more, or another
    worker will have it. `code` is empty where the end holds values; `to` is whom the task was handed to."""

    key: TaskKey
    execution: str
    how: Literal["stored", "cancelled", "released"]
    code: str
    message: str
    latency_ms: int
    usage: Usage
    to: str = ""


WorkerEvent = Offered | Begun | Finished
