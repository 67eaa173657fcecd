"""Waking: a committed fact gives a task to each specialist whose contract asks for facts of its kind."""

from typing import Any

import pytest

from supervisor.facts import WOKEN_LIMIT
from tests.supervisor.scenario import Due, Said, Scenario, ended, event, failed, given, goal, offer, step, teach

ALARM = offer("alarm", "watching", wakes_on=["reading.*"])


def readings(*others: Said, steps: tuple[dict[str, Any], ...] = (), **playbook: Any) -> Scenario:
    """A run that reads two sensors, `hall` and `roof`, one after the other by one worker."""
    read = step("read", "reading", for_each="input.sensors", fact="reading.{item}", input={"sensor": "item"})
    return given(
        offer("w", "reading"),
        *others,
        teach(read, *steps, **{"wakes": True, "returns": {"woken": "facts.woken"}} | playbook),
        goal({"sensors": ["hall", "roof"]}),
    )


def read(number: int, value: Any) -> Said:
    return ended(f"read-{number}", {f"reading.{('hall', 'roof')[number]}": value})


def woken(number: int, value: Any, by: str = "alarm") -> Said:
    return ended(f"woken_{number}", {f"woken.{by}.{number}": value}, by=by)


def test_fact_wakes_who_asks_for_facts_of_its_kind() -> None:
    scenario = readings(ALARM, offer("other", "watching", wakes_on=["weather.*"]))
    scenario.when(read(0, 17)).then(
        event("task_ended"),
        event("fact_committed", key="reading.hall"),
        event("plan_revised", number=1, reason="reading.hall wakes alarm"),
        event("step_expanded", step="woken_1"),
        event("task_dispatched", task="woken_1", specialist="alarm"),
    )
    (task,) = (task for task in scenario.tasks_in_flight() if task.specialist == "alarm")
    assert [(item.key, item.input) for item in task.items] == [("woken.alarm.1", {"key": "reading.hall", "value": 17})]


def test_run_ends_when_all_that_it_woke_have_answered() -> None:
    scenario = readings(ALARM).say(read(0, 17), read(1, 99))
    assert not scenario.state.end
    scenario.say(woken(2, "roof is hot"), woken(1, "fine"))
    assert (scenario.state.end, scenario.state.result) == (
        "DONE",
        {"woken": {"alarm": {"1": "fine", "2": "roof is hot"}}},
    )


@pytest.mark.parametrize("wakes", [False, True])
def test_playbook_says_whether_its_facts_wake(wakes: bool) -> None:
    scenario = readings(ALARM, wakes=wakes).say(read(0, 17))
    assert [one.id for one in scenario.state.plan] == ["read", *(["woken_1"] if wakes else [])]


def test_woken_facts_wake_nobody() -> None:
    echo = offer("echo", "watching", wakes_on=["woken.*", "reading.*"])
    scenario = readings(ALARM, echo).say(read(0, 17))
    scenario.say(woken(1, "fine"), woken(2, "fine", by="echo"))
    assert [one.id for one in scenario.state.plan] == ["read", "woken_1", "woken_2"]


def test_every_kind_of_fact_wakes() -> None:
    """Of a worker, of an expression, of a person, and one that takes the place of another."""
    steps = (
        step("sum", "", value="length(values(facts.reading))", needs=["read"], fact="reading.count"),
        step("asked", "", question={"ask": "how many?"}, fact="reading.asked"),
        step("again", "reading", needs=["sum"], fact="reading.hall", replaces=True),
    )
    scenario = readings(ALARM, steps=steps)
    digest = scenario.state.gates["asked"].digest
    scenario.say(Said("signal", "ann", {"type": "answer", "gate": "asked", "digest": digest, "value": 2}))
    scenario.say(read(0, 17), read(1, 18), ended("again", {"reading.hall": 19}))
    waking = [one.input["key"].strip("'") for one in scenario.state.plan if one.origin == "woken.alarm"]
    assert waking == ["reading.asked", "reading.hall", "reading.roof", "reading.count", "reading.hall"]
    seen = {task.task: task.items[0].input["value"] for task in scenario.tasks_in_flight()}
    assert (seen["woken_2"], seen["woken_5"]) == (17, 19), "each sees the fact that woke it"


def test_limit() -> None:
    sensors = [f"s{number}" for number in range(WOKEN_LIMIT + 20)]
    steps = [step("read", "reading", for_each="input.sensors", fact="reading.{item}", tasks=1)]
    scenario = given(offer("w", "reading"), ALARM, teach(*steps, wakes=True, parallel=500), goal({"sensors": sensors}))
    scenario.say(ended("read", {f"reading.{name}": 1 for name in sensors}))
    assert len(scenario.state.plan) == 1 + WOKEN_LIMIT
    assert len(scenario.tasks_in_flight()) == WOKEN_LIMIT


def test_one_that_is_woken_and_down_is_missed_and_named() -> None:
    scenario = readings(ALARM).say(read(0, 17), read(1, 18))
    for _ in range(20):
        if timers := list(scenario.state.timers):
            scenario.say(Due(timers[0]))
    assert (scenario.state.end, scenario.state.reason) == (
        "DEGRADED",
        "without woken.alarm.1 (TIMEOUT), woken.alarm.2 (TIMEOUT)",
    )


def test_who_may_change_the_world_is_not_woken() -> None:
    """No gate stands before it; the run neither waits an hour for somebody who may do it, nor ends because of it."""
    scenario = readings(offer("sprinkler", "watching", authority="effect", wakes_on=["reading.*"]))
    scenario.say(read(0, 17), read(1, 18))
    assert (scenario.state.end, scenario.state.revisions) == ("DONE", 0)


def test_attached_during_the_run_is_woken_by_the_next_fact_and_withdrawn_by_none() -> None:
    scenario = readings()
    scenario.say(read(0, 17)).say(ALARM).say(read(1, 18))
    assert [one.input["key"] for one in scenario.state.plan[1:]] == ["'reading.roof'"]
    scenario = readings(ALARM).say(offer("alarm")).say(read(0, 17), read(1, 18))
    assert scenario.state.end == "DONE"


def test_waking_leaves_the_revisions_for_replans() -> None:
    """Four specialists are woken, the plan may be revised once: the step that fails is still replaced."""
    names = ("a", "b", "c", "d")
    steps = (step("sum", "adding", needs=["read"]),)
    replans = [{"step": "sum", "steps": [step("count", "", value="length(values(facts.reading))", needs=["read"])]}]
    watchers = (offer(name, "watching", wakes_on=["reading.hall"]) for name in names)
    scenario = readings(offer("adder", "adding"), *watchers, steps=steps, replans=replans, revisions=1)
    scenario.say(read(0, 17), read(1, 18)).when(failed("sum", "LOW_CONFIDENCE", by="adder", message="cannot")).then(
        event("task_ended"),
        event("fact_missing", key="sum"),
        event("plan_revised", number=5, instead_of="sum"),
        event("step_expanded", step="count"),
        event("fact_committed", key="count", value=2),
    )


def test_replans_are_limited_by_themselves() -> None:
    replans = [{"step": name, "steps": [step(f"{name}2", "reading")]} for name in ("a", "b")]
    steps = [step("a", "reading"), step("b", "reading")]
    scenario = given(offer("w", "reading"), teach(*steps, replans=replans, revisions=1), goal())
    scenario.say(failed("a", "LOW_CONFIDENCE")).say(failed("b", "LOW_CONFIDENCE", message="cannot"))
    assert (scenario.state.end, scenario.state.reason) == ("FAILED", "no value for b: w: cannot")


@pytest.mark.parametrize("where", ["steps", "replans"])
def test_names_of_woken_steps_are_those_that_nobody_else_has(where: str) -> None:
    own = step("woken_1", "", value="'mine'", needs=["read"])
    steps = (own,) if where == "steps" else (step("other", "other", needs=["read"]),)
    replans = [] if where == "steps" else [{"step": "other", "steps": [own]}]
    scenario = readings(ALARM, offer("o", "other"), steps=steps, replans=replans)
    scenario.say(read(0, 17), read(1, 18))
    if where == "replans":
        scenario.say(failed("other", "LOW_CONFIDENCE", by="o"))
    scenario.say(woken(2, "fine"), woken(3, "fine"))
    assert scenario.state.end == "DONE"
    assert scenario.state.facts["woken_1"].value == "mine"
