"""A table for a scenario, once on the memory log and once on a nats-server."""

from collections.abc import AsyncIterator, Iterator

import pytest

from schemas.subjects import Subjects
from tests.holes.rows import ROWS
from tests.holes.table import MemoryTable, ServerTable, Table
from tests.plugins.figures import Figures

LOGS = ("memory", "nats-server")


class Told:
    """What was shown, for the closing figure: scenarios and removals, each with a log."""

    def __init__(self) -> None:
        self.held: set[tuple[str, str]] = set()
        self.caught: set[tuple[str, str, str]] = set()


@pytest.fixture(scope="session")
def told(figures: Figures) -> Iterator[Told]:
    told = Told()
    yield told
    scenarios = {name for name, _ in told.held}
    logs = {log for _, log in told.held}
    figures.say(
        f"holes: {len(ROWS)} rows, {len(scenarios)} scenarios on {len(logs)} logs, {len(told.caught)} removals caught"
    )


@pytest.fixture(params=LOGS)
async def table(request: pytest.FixtureRequest, subjects: Subjects) -> AsyncIterator[Table]:
    made: Table
    if request.param == "memory":
        made = MemoryTable(subjects)
    else:
        made = await ServerTable.make(request.getfixturevalue("server").url, subjects)
    try:
        yield made
    finally:
        await made.close()
