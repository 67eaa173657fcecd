"""Each history ends well, on both logs, and goes wrong as it once did where its rule is taken out."""

import pytest

from tests.holes.conftest import Told
from tests.holes.removal import removed
from tests.holes.row import Hole, Removal
from tests.holes.rows import ROWS
from tests.holes.table import Table

HOLES = [pytest.param(hole, id=hole.scenario.__name__) for row in ROWS for hole in row.holes]
REMOVALS = [
    pytest.param(hole, removal, id=f"{hole.scenario.__name__}-without {removal.without}")
    for row in ROWS
    for hole in row.holes
    for removal in hole.removals
]


@pytest.mark.parametrize("hole", HOLES)
async def test_it_ends_well(hole: Hole, table: Table, told: Told) -> None:
    await hole.scenario(table)
    told.held.add((hole.scenario.__name__, table.kind))


@pytest.mark.parametrize(("hole", "removal"), REMOVALS)
async def test_it_goes_wrong_without_its_rule(hole: Hole, removal: Removal, table: Table, told: Told) -> None:
    with removed(*removal.edits), pytest.raises(AssertionError, match=removal.seen):
        await hole.scenario(table)
    told.caught.add((hole.scenario.__name__, removal.without, table.kind))
