"""Silent drift at the boundary: whatever comes in, a valid fact or a typed rejection comes out, never an exception, and
the state can always be written down."""

from collections import Counter
from random import Random

import pytest

from projections.history import outcome_digest, state_digest
from schemas import events as e
from schemas.codec import canonical, unstorable
from schemas.validation import violation
from tests.coordination import fuzzed
from tests.coordination.stories import STORIES, places, play
from tests.plugins.figures import Figures
from tests.supervisor.scenario import Said, Scenario, given, goal, offer, step, teach

MESSAGES = 10_000
AT_ONCE = 4
"""Messages that come one after the other before the run is set back to where its story was."""


class Forked(Scenario):
    """Is set back again and again, so its messages are not those of one log."""

    forked = True


@pytest.mark.timeout(300)
def test_ten_thousand_fuzzed_outputs(figures: Figures) -> None:
    cut, random = list(places()), Random(20_260_101)
    found: Counter[str] = Counter()
    scenarios = {place: play(Forked(), STORIES[place[0]][: place[1]]) for place in cut}
    before = {place: dict(scenario.folded) for place, scenario in scenarios.items()}
    for number in range(MESSAGES // AT_ONCE):
        place = cut[number % len(cut)]
        scenario = scenarios[place]
        scenario.folded = dict(before[place])
        for _ in range(AT_ONCE):
            make = fuzzed.ended if random.random() < 0.8 else fuzzed.other
            said = make(random, scenario.state)
            scenario.say(said)
            found[_came_of(scenario, said)] += 1
            for folded in scenario.folded.values():
                assert (len(state_digest(folded.state)), len(outcome_digest(folded.state))) == (64, 64)
    assert found.total() == MESSAGES
    assert min(found[kind] for kind in ("fact", "refused", "rejected", "late", "asks", "goes on")) > 50, found
    figures.say(f"coordination: {MESSAGES} fuzzed messages at {len(cut)} places: {dict(found.most_common())}")


def _came_of(scenario: Scenario, said: Said) -> str:
    """What came of a message; each event is one of the typed ones."""
    kinds = {type(event) for event in scenario.last}
    for event in scenario.last:
        canonical(event)
        if isinstance(event, e.FactCommitted):
            assert not unstorable(event.value)
    if e.FactCommitted in kinds:
        return "fact"
    if e.InputRejected in kinds:
        assert scenario.rejections() != [""]
        return "rejected"
    if e.InputLate in kinds or e.AuthorMuted in kinds:
        return "late"
    if e.GateOpened in kinds:
        return "asks"
    failures = [event for event in scenario.last if isinstance(event, e.AttemptFailed | e.TaskEnded) and event.code]
    if failures:
        assert all(event.code in e.StopCode.__args__ for event in failures)
        return "refused"
    return "goes on" if kinds else "nothing"


def test_each_fact_of_a_fuzzed_run_satisfies_the_contract() -> None:
    """Random outputs of a specialist that promises an object with a number: what is committed is one, all else is a
    typed rejection, again and again until the attempts are used up."""
    schema = {
        "type": "object",
        "properties": {"n": {"type": "integer"}},
        "required": ["n"],
        "additionalProperties": False,
    }
    random, committed, rejected = Random(7), 0, 0
    for _ in range(250):
        scenario = given(offer("w", "work", output=schema, attempts=100), teach(step("a")), goal())
        for attempt in range(1, 60):
            if scenario.state.end:
                break
            body = fuzzed.value(random) if random.random() < 0.9 else {"n": random.choice((1, -(2**63), 2**64))}
            end = {"type": "ended", "task": "a", "attempt": attempt, "execution": f"x{attempt}", "usage": {}}
            data = fuzzed._bytes(end | {"claims": [{"key": "a", "value": body}]})
            scenario.say(Said("obs", "w", data))
            if scenario.state.tasks["a"].attempt == attempt and not scenario.state.end:
                assert scenario.rejections(), "it could not be read, so the attempt has not ended"
                break
            rejected += not scenario.state.end
        if fact := scenario.state.facts.get("a"):
            assert violation(schema, fact.value) is None
            committed += 1
    assert committed > 20
    assert rejected > 400
