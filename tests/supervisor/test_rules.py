"""Which rules decide a run, and whose clock."""

import pytest
from msgspec.structs import replace

from projections.history import Folded
from supervisor import decide as deciding
from supervisor.decide import NewerRules
from tests.supervisor.scenario import (
    RUN,
    Said,
    Scenario,
    cancel,
    ended,
    event,
    failed,
    given,
    goal,
    offer,
    run_with,
    started,
    step,
    teach,
)


def two_steps() -> Scenario:
    return run_with(steps=[step("a"), step("b")])


def test_newer_supervisor_goes_on_and_records_it_before_its_first_event(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario = two_steps()
    monkeypatch.setattr(deciding, "RULES", deciding.RULES + 1)
    scenario.when(ended("a", {"a": 1})).then(
        event("rules_changed", rules=deciding.RULES), event("task_ended"), event("fact_committed")
    )
    scenario.when(ended("b", {"b": 1})).then(event("task_ended"), event("fact_committed"), event("run_ended"))
    assert scenario.state.rules == deciding.RULES


def test_newer_supervisor_records_nothing_about_what_changes_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    scenario, before = two_steps(), deciding.RULES
    monkeypatch.setattr(deciding, "RULES", deciding.RULES + 1)
    scenario.when(goal()).then()
    scenario.when(started("a", 9)).then()
    assert scenario.state.rules == before


def test_newer_supervisor_records_it_also_when_the_run_outgrew_its_limits(monkeypatch: pytest.MonkeyPatch) -> None:
    steps = [step("a", for_each="input.n", fact="v.k{item}", tasks=1)]
    scenario = given(offer("w", "work"), teach(*steps), goal({"n": list(range(5))}))
    monkeypatch.setattr(deciding, "RULES", deciding.RULES + 1)
    scenario.when(ended("a", {f"v.k{index}": "x" * 60_000 for index in range(5)})).then(
        event("rules_changed"), event("input_late"), event("run_ended", code="BUDGET_EXCEEDED")
    )


@pytest.mark.parametrize(
    "said", [ended("a", {"a": 1}), failed("a", "INTERNAL"), cancel(), goal({"x": 1}), started("a")]
)
def test_older_supervisor_leaves_the_run_alone(said: Said) -> None:
    scenario = two_steps()
    folded = scenario.folded[RUN]
    scenario.folded[RUN] = Folded(replace(folded.state, rules=deciding.RULES + 1), folded.h, folded.cursor)
    with pytest.raises(
        NewerRules, match=f"run {RUN} is decided by rules {deciding.RULES + 1}, this supervisor has {deciding.RULES}"
    ):
        scenario.say(said)


def test_older_supervisor_rejects_garbage_all_the_same() -> None:
    """It does not depend on the run, and the order of `_board` must not depend on who writes it."""
    scenario = two_steps()
    folded = scenario.folded[RUN]
    scenario.folded[RUN] = Folded(replace(folded.state, rules=deciding.RULES + 1), folded.h, folded.cursor)
    scenario.when(ended("a")._replace(body=b"{")).then(event("input_rejected", reason="not JSON"))


def test_clock_that_is_set_back_does_not_set_the_run_back() -> None:
    scenario = two_steps().later(-500_000)
    before = scenario.state.now
    scenario.when(started("a")).then(event("task_started", at=before))
    assert scenario.state.timers["task.a"].at == before
    scenario.later(500_001).when(ended("a", {"a": 1})).then(
        event("task_ended", at=before + 1), event("fact_committed", at=before + 1)
    )


def test_clock_that_is_set_back_before_the_run_began() -> None:
    scenario = given(offer("w", "work"), teach(step("a")))
    scenario.later(-2_000_000).when(goal()).then(
        event("run_opened", at=0), event("plan_committed"), event("step_expanded"), event("task_dispatched", at=0)
    )
