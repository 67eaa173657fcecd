"""One specialist of each example is down: its contract stands in the catalogue, and it never takes a task. Every run
ends all the same, with what could be done, or saying who was not there. In virtual time, with the files' own times."""

from typing import Any, NamedTuple

import pytest

from tests.plugins.figures import Figures
from tests.topologies.cases import CASES, LEDGER, Case
from tests.topologies.casts import TEAMS
from tests.topologies.worlds import RUN, members, world


class Down(NamedTuple):
    """A case, who is down in it, and what comes of it; `result` None: none. `reason` is a part of the run's."""

    case: str
    who: str
    end: str
    reason: str = ""
    result: dict[str, Any] | None = None


def retryable(case: str, who: str, reason: str) -> Down:
    return Down(case, who, "FAILED_RETRYABLE", reason)


NOT_BEGUN = "not begun within 90000 ms, 3 times"
OFFER = "3 x lamp, 2 x chair for 387.00, delivered on a day to be agreed"
CAT = {"title": "die Katze", "text": "die Katze drinks milk", "by": ["pocket-german", "pocket-german"]}
SCHOLAR = {"title": "die Katze", "text": "die Katze trinkt Milch", "by": ["scholar-german", "scholar-german"]}
WITHOUT_STORIES = "without story.0 (TOOL_DOWN), story.1 (TOOL_DOWN)"

DOWN = [
    retryable("dependent steps", "order-reader", f"no value for order: order-reader: {NOT_BEGUN}"),
    retryable("dependent steps", "price-list", f"no value for cents: price-list: {NOT_BEGUN}"),
    Down("dependent steps", "storehouse", "DEGRADED", "without days (TIMEOUT)", {"offer": OFFER}),
    retryable("dependent steps", "offer-writer", f"no value for offer: offer-writer: {NOT_BEGUN}"),
    retryable("fan-out", "mood-reader", "without mood.0 (TIMEOUT), mood.1 (TIMEOUT), mood.2 (TIMEOUT)"),
    retryable("critique, round 3", "headline-writer", f"round 1 has no proposal: headline-writer: {NOT_BEGUN}"),
    retryable("critique, round 3", "headline-editor", f"round 1 has no critique: headline-editor: {NOT_BEGUN}"),
    retryable("router, handed on", "clerk", f"no value for sort: clerk: {NOT_BEGUN}"),
    retryable("router, handed on", "billing-desk", f"no value for answer: billing-desk: {NOT_BEGUN}"),
    retryable("router, handed on", "delivery-desk", f"no value for answer: delivery-desk: {NOT_BEGUN}"),
    Down("router, handed on", "legal-desk", "DONE", "", CASES["router, handed on"].result),
    Down("open call", "scholar-german", "DONE", "", CAT),
    Down("open call", "pocket-german", "DONE", "", SCHOLAR),
    Down("open call", "french", "DONE", "", CASES["open call"].result),
    Down(
        "waking",
        "bookkeeper",
        "DEGRADED",
        "without booking.0 (TIMEOUT), booking.1 (TIMEOUT)",
        {"bookings": None, "remarks": []},
    ),
    Down(
        "waking, the auditor is there",
        "auditor",
        "DEGRADED",
        "without woken.auditor.1 (TIMEOUT)",
        {"bookings": {"0": LEDGER["1"]}, "remarks": []},
    ),
    retryable("sub-goals", "headline-writer", WITHOUT_STORIES),
    retryable("sub-goals", "headline-editor", WITHOUT_STORIES),
    retryable("sub-goals", "typesetter", f"no value for page: typesetter: {NOT_BEGUN}"),
]


@pytest.mark.parametrize("down", DOWN, ids=lambda down: f"{down.case}, {down.who}")
def test_run_ends_and_says_what_is_missing(down: Down) -> None:
    report = world(CASES[down.case], [down.who]).run()
    run = report.run(RUN).ended_as(down.end)
    assert down.reason in run.reason
    assert run.result == down.result
    assert bool(down.reason) == (down.end != "DONE")
    assert report.duration_s < 3_600, "an hour of virtual time is long enough for each of them"


def test_everybody_is_down_once() -> None:
    """Each specialist of each example, and the guests."""
    asked = {(CASES[down.case].file, down.who) for down in DOWN}
    everybody = {(case.file, one.name) for case in CASES.values() for one in members(case)}
    assert asked == everybody


@pytest.mark.parametrize("case", {case.file: case for case in CASES.values()}.values(), ids=lambda case: case.file)
def test_nobody_is_there(case: Case) -> None:
    run = world(case, [one.name for one in members(case)]).run().run(RUN)
    assert run.end in {"FAILED_RETRYABLE", "DEGRADED"}, run.reason
    assert "TIMEOUT" in f"{run.code} {run.reason}" or "TOOL_DOWN" in run.reason


def test_calls_wait_for_bids_no_longer_than_they_say() -> None:
    """Two calls of two seconds each, and a person who answers within a minute."""
    report = world(CASES["open call"], ["french"]).run()
    assert report.duration_s < 2 * 2 + 60 + 5


def test_figures(figures: Figures) -> None:
    figures.say(f"topologies: {len(TEAMS)} examples, {len(CASES)} cases, {len(DOWN)} with one specialist down")
