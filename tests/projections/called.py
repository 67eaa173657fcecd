"""What a call of the command gave."""

import json
from collections.abc import Callable
from typing import Any, NamedTuple


class Call(NamedTuple):
    code: int
    out: str
    err: str

    @property
    def records(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.out.splitlines()]

    @property
    def record(self) -> dict[str, Any]:
        (only,) = self.records
        return only


Blackboard = Callable[..., Call]
