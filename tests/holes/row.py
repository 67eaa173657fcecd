"""What a row of the table says."""

from collections.abc import Awaitable, Callable
from typing import NamedTuple

from tests.holes.removal import Edit
from tests.holes.table import Table

Scenario = Callable[[Table], Awaitable[None]]


class Removal(NamedTuple):
    """A rule taken out: `edits` do it, and what then happens is what the history tells: the scenario fails and says so
    with words that match `seen`."""

    without: str
    seen: str
    edits: tuple[Edit, ...]


class Hole(NamedTuple):
    scenario: Scenario
    removals: tuple[Removal, ...]


class Row(NamedTuple):
    """A history in which an earlier wording of `rule` lost, doubled or changed something. `rule` begins with the number
    that docs/protocol.md or the design gives it."""

    history: str
    rule: str
    holes: tuple[Hole, ...]
