"""Beside what every scenario checks, for all scenarios here: the bytes of an attempt's task are the same whenever they
are derived, and what was decided is decided again from the inputs alone, in batches of 1, 7 and 500."""

from collections.abc import Iterator
from typing import Any

import pytest

from blackboard.log import Message
from projections.history import outcome_digest, state_digest
from supervisor import effects
from supervisor.replay import redecide
from tests.supervisor.scenario import LOG, Due, Said, Scenario

BATCHES = (1, 7, 500)
SCENARIOS = 60
"""Of a test that has more, so many are decided again."""


class Kept:
    """What the scenarios of one test have said, and the tasks and goals that they led to."""

    def __init__(self) -> None:
        self.scenarios: list[Scenario] = []
        self.messages: dict[int, list[Message]] = {}
        self.carried: dict[tuple[Any, ...], bytes] = {}

    def take(self, scenario: Scenario, said: Said) -> None:
        if getattr(scenario, "forked", False):
            return
        kept = self.messages.setdefault(id(scenario), [])
        if not kept:
            self.scenarios.append(scenario)
        kept.append(Message(scenario.seq + 1, said.subject, scenario.time_ms, said.data))

    def look(self, scenario: Scenario) -> None:
        """Whatever has been committed since, an attempt is what it was."""
        if getattr(scenario, "forked", False):
            return
        for run in scenario.folded:
            state = scenario.of(run)
            keys = effects.in_flight(state)
            if len(keys) > 20:
                continue
            found: dict[Any, bytes] = {
                entry.key: entry.data for entry in effects.entries(state, keys, scenario.contract_at)
            }
            found |= {child.run: child.data for child in effects.child_goals(state)}
            for key, data in found.items():
                assert self.carried.setdefault((id(scenario), run, key), data) == data, "the same attempt, other bytes"

    def decide_again(self) -> None:
        for scenario in self.scenarios[:: max(1, len(self.scenarios) // SCENARIOS)]:
            if getattr(scenario, "forked", False):
                continue
            have = {run: _digests(folded) for run, folded in scenario.folded.items()}
            for batch in BATCHES:
                again = redecide(LOG, self.messages[id(scenario)], batch)
                assert {run: _digests(folded) for run, folded in again.items()} == have, f"in batches of {batch}"


def _digests(folded: Any) -> tuple[str, str, str]:
    return folded.h, state_digest(folded.state), outcome_digest(folded.state)


@pytest.fixture(autouse=True)
def decided_again(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    kept, take = Kept(), Scenario._take

    def remembering(scenario: Scenario, said: Said | Due) -> Any:
        if isinstance(said, Due):
            said = scenario.wake(said)
        kept.take(scenario, said)
        events = take(scenario, said)
        kept.look(scenario)
        return events

    monkeypatch.setattr(Scenario, "_take", remembering)
    yield
    kept.decide_again()
