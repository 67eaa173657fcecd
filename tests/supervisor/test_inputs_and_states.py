"""Every kind of input against every state of a run: what is not awaited yields nothing, or is recorded as late."""

import pytest

from tests.supervisor.scenario import (
    Due,
    Said,
    Scenario,
    came,
    cancel,
    ended,
    failed,
    given,
    goal,
    offer,
    started,
    step,
    teach,
)

TEAM = (teach(step("a")),)
STATES: dict[str, tuple[Said | Due, ...]] = {
    "none": (offer("w", "work"), *TEAM),
    "awaiting": (*TEAM, goal()),
    "dispatched": (offer("w", "work"), *TEAM, goal()),
    "started": (offer("w", "work"), *TEAM, goal(), started("a")),
    "retried": (offer("w", "work"), *TEAM, goal(), failed("a", "TOOL_DOWN")),
    "over": (offer("w", "work"), *TEAM, goal(), ended("a", {"a": 1})),
}
OPENED = "run_opened plan_committed step_expanded task_dispatched"
DONE = "task_ended fact_committed run_ended"
AGAIN = "attempt_failed task_dispatched"
REJECTED = "input_rejected"
LATE = "input_late"
NOTHING = ""
CHILD_ENDED = {
    "type": "child_ended",
    "task": "a",
    "child": "c",
    "end": "DONE",
    "code": "",
    "reason": "",
    "result": {},
    "usage": {},
    "version": 9,
    "h": "00",
}
TOOL_CALLED = {"type": "tool_called", "task": "a", "attempt": 1, "execution": "x", "tool": "t", "input": "00"}
PROGRESS = {"type": "progress", "task": "a", "attempt": 1, "execution": "x", "message": "half"}

# fmt: off
TABLE: list[tuple[str, Said | Due, tuple[str, ...]]] = [
    #                                                             none, awaiting, dispatched, started, retried, over
    ("goal", goal(),                                    (OPENED, NOTHING, NOTHING, NOTHING, NOTHING, NOTHING)),
    ("other goal", goal({"x": 1}),                      (OPENED, LATE, LATE, LATE, LATE, LATE)),
    ("goal of another client", goal(by="eve", v=1),     (OPENED, LATE, LATE, LATE, LATE, LATE)),
    ("end", ended("a", {"a": 1}, execution="x"),        (REJECTED, LATE, DONE, DONE, LATE, LATE)),
    ("end of attempt 2", ended("a", {"a": 1}, 2),       (REJECTED, LATE, LATE, LATE, DONE, LATE)),
    ("end of attempt 0", ended("a", {"a": 1}, 0),       (REJECTED, LATE, LATE, LATE, LATE, LATE)),
    ("failure", failed("a", "TOOL_DOWN", execution="x"), (REJECTED, LATE, AGAIN, AGAIN, LATE, LATE)),
    ("stranger's end", ended("a", {"a": 1}, by="v"),    (REJECTED, LATE, LATE, LATE, LATE, LATE)),
    ("unknown task", ended("b", {"b": 1}),              (REJECTED, LATE, LATE, LATE, LATE, LATE)),
    ("started", started("a"),                           (REJECTED, NOTHING, "task_started", NOTHING, NOTHING, NOTHING)),
    ("started 2", started("a", 2),                      (REJECTED, NOTHING, NOTHING, NOTHING, "task_started", NOTHING)),
    ("stranger's start", started("a", by="v"),          (REJECTED, *[NOTHING] * 5)),
    ("unknown start", started("b"),                     (REJECTED, *[NOTHING] * 5)),
    ("progress", Said("obs", "w", PROGRESS),            (REJECTED, *[NOTHING] * 5)),
    ("tool call", Said("obs", "w", TOOL_CALLED),        (REJECTED, *[NOTHING] * 5)),
    ("cancel", cancel(),                                (REJECTED, *["run_ended"] * 4, LATE)),
    ("timer 4", Due("task.a", 4),                       (REJECTED, NOTHING, AGAIN, NOTHING, NOTHING, NOTHING)),
    ("timer 5", Due("task.a", 5),                       (REJECTED, NOTHING, NOTHING, AGAIN, NOTHING, NOTHING)),
    ("timer 6", Due("task.a", 6),                       (REJECTED, NOTHING, NOTHING, NOTHING, AGAIN, NOTHING)),
    ("await timer", Due("await.a", 3),                  (REJECTED, "run_ended", *[NOTHING] * 4)),
    ("unknown timer", Due("other.b", 1),                (REJECTED, *[NOTHING] * 5)),
    ("capability came", came("work"),                   (REJECTED, *[NOTHING] * 5)),
    ("child ended", Said("wake", "", CHILD_ENDED),      (REJECTED, *[NOTHING] * 5)),
    ("parent ended", Said("wake", "", {"type": "parent_ended", "parent": "p"}), (REJECTED, *[NOTHING] * 5)),
    ("garbage of a worker", Said("obs", "w", b"{"),     (REJECTED,) * 6),
    ("garbage of a client", Said("goal", "me", b"{"),   (REJECTED,) * 6),
    ("garbage of a person", Said("signal", "ann", b"{}"), (REJECTED,) * 6),
    ("garbage of nobody", Said("wake", "", b"[]"),      (REJECTED,) * 6),
]
# fmt: on
CASES = [
    pytest.param(said, state, expected, id=f"{name}, {state}")
    for name, said, row in TABLE
    for state, expected in zip(STATES, row, strict=True)
]


def kinds(scenario: Scenario) -> str:
    return " ".join(event.__struct_config__.tag for event in scenario.last)


@pytest.mark.parametrize(("said", "state", "expected"), CASES)
def test_input(said: Said | Due, state: str, expected: str) -> None:
    assert kinds(given(*STATES[state]).when(said)) == expected


@pytest.mark.parametrize(("said", "state", "expected"), CASES)
def test_second_time_changes_nothing(said: Said | Due, state: str, expected: str) -> None:
    """Except that what is wrong each time is recorded each time, unless an execution says it again."""
    again = kinds(given(*STATES[state], said).when(said))
    assert again in {REJECTED: {REJECTED}, LATE: {LATE, NOTHING}}.get(expected, {NOTHING, LATE})


def test_table_is_complete() -> None:
    assert all(len(row) == len(STATES) for _, _, row in TABLE)
