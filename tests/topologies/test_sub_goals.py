"""Sub-goals: a step that is a run of another team, with a share of the budget, down to grandchildren."""

from typing import Any

import pytest

from schemas.events import Parent
from supervisor.policy import child_run
from tests.supervisor.scenario import RUN, Due, Said, Scenario, cancel, ended, event, failed, given, goal, offer, teach
from tests.supervisor.scenario import step as capable
from tests.supervisor.test_children import relatives, settle


def step(name: str, team: str = "", **fields: Any) -> dict[str, Any]:
    return capable(name, **({"team": team} if team else {}), **fields)


def family(
    *said: Said | Due, book: dict[str, Any] | None = None, team: dict[str, Any] | None = None, **chapter: Any
) -> Scenario:
    """A book has chapters, which are child runs, and a chapter has pages, which are grandchildren."""
    page = teach(step("write", attempts=1), team="page", returns={"text": "facts.write"})
    pages = step("page", "page", attempts=1)
    chapters = teach(pages, team="chapter", returns={"page": "facts.page.text"}, **team or {})
    books = teach(step("one", "chapter", attempts=1, **chapter), returns={"one": "facts.one.page"}, **book or {})
    return settle(given(offer("w", "work"), page, chapters, books, goal(), *said))


CHAPTER = child_run(RUN, "one", 1)
PAGE = child_run(CHAPTER, "page", 1)


def written(text: str, **fields: Any) -> Said:
    return ended("write", {"write": text}, run=PAGE, **fields)


def test_result_comes_up_from_the_grandchild() -> None:
    scenario = settle(family().say(written("once upon a time")))
    assert [scenario.of(run).end for run in (PAGE, CHAPTER, RUN)] == ["DONE"] * 3
    assert scenario.state.result == {"one": "once upon a time"}
    assert (scenario.of(PAGE).parent, scenario.state.facts["one"].by) == (Parent(CHAPTER, "page", 2), "chapter")


def test_parent_waits_for_its_child_and_for_nothing_else() -> None:
    scenario = family()
    assert (scenario.state.phase, sorted(scenario.state.timers)) == ("COLLECT", ["task.one"])
    assert relatives(scenario) == []


# --- budgets ----------------------------------------------------------------------------------------------------------


def test_child_gets_its_share_and_its_child_no_more_than_that() -> None:
    scenario = family(book={"budget": {"tokens": 1_000}}, budget={"tokens": 300})
    assert [scenario.of(run).budget.tokens for run in (RUN, CHAPTER, PAGE)] == [1_000, 300, 300]
    assert scenario.state.reserved.tokens == 300


def test_smaller_of_the_share_and_the_own_budget_of_the_team_counts() -> None:
    scenario = family(book={"budget": {"tokens": 1_000}}, budget={"tokens": 300}, team={"budget": {"tokens": 200}})
    assert [scenario.of(run).budget.tokens for run in (RUN, CHAPTER, PAGE)] == [1_000, 200, 200]


def test_use_of_the_grandchild_is_charged_all_the_way_up() -> None:
    scenario = family(book={"budget": {"tokens": 1_000}}, budget={"tokens": 300})
    settle(scenario.say(written("once", usage={"input_tokens": 90, "output_tokens": 30, "tool_calls": 2})))
    for run in (PAGE, CHAPTER, RUN):
        state = scenario.of(run)
        assert (state.charged.tokens, state.charged.tool_calls, state.reserved.tokens) == (120, 2, 0)


def test_child_that_overspends_is_charged_its_share_and_the_rest_is_overrun() -> None:
    scenario = family(book={"budget": {"tokens": 1_000}}, budget={"tokens": 300})
    settle(scenario.say(written("once", usage={"input_tokens": 450})))
    for run in (PAGE, CHAPTER, RUN):
        state = scenario.of(run)
        assert (state.charged.tokens, state.overrun.tokens) == (300, 150)


def test_nothing_more_is_given_out_after_a_child_that_overspent() -> None:
    steps = (step("one", "page", budget={"tokens": 300}), step("two", "page", needs=["one"]))
    team = teach(step("write"), team="page", returns={"text": "facts.write"})
    scenario = settle(given(offer("w", "work"), team, teach(*steps, budget={"tokens": 1_000}), goal()))
    settle(scenario.say(ended("write", {"write": "x"}, run=child_run(RUN, "one", 1), usage={"input_tokens": 450})))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "BUDGET_EXCEEDED")
    assert "more was used than was reserved: 150 tokens" in scenario.state.reason


def test_child_that_its_share_is_too_small_for_fails_and_says_so() -> None:
    """The work below it would need more than the share."""
    worker = offer("w", "work", budget={"tokens": 500})
    team = teach(step("write"), team="page", returns={"text": "facts.write"})
    asking = teach(step("one", "page", budget={"tokens": 300}), budget={"tokens": 1_000})
    scenario = settle(given(worker, team, asking, goal()))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "BUDGET_EXCEEDED")
    assert "300 of 300 tokens left (0 used, 0 reserved), 500 needed" in scenario.state.reason


def test_shares_that_do_not_fit_together_come_one_after_the_other() -> None:
    steps = (step("one", "page", budget={"tokens": 600}), step("two", "page", budget={"tokens": 600}))
    team = teach(step("write"), team="page", returns={"text": "facts.write"})
    scenario = settle(given(offer("w", "work"), team, teach(*steps, budget={"tokens": 1_000}), goal()))
    assert [name for name, task in scenario.state.tasks.items() if task.child] == ["one"]
    settle(scenario.say(ended("write", {"write": "x"}, run=child_run(RUN, "one", 1), usage={"input_tokens": 100})))
    assert scenario.of(child_run(RUN, "two", 1)).budget.tokens == 600


# --- ends that cascade ------------------------------------------------------------------------------------------------


def test_cancel_cascades_to_grandchildren() -> None:
    scenario = settle(family().say(cancel(reason="enough")))
    assert [(scenario.of(run).end, scenario.of(run).reason) for run in (RUN, CHAPTER, PAGE)] == [
        ("CANCELLED", "ann: enough"),
        ("CANCELLED", f"the run {RUN} that asked for it has ended"),
        ("CANCELLED", f"the run {CHAPTER} that asked for it has ended"),
    ]
    scenario.when(written("late")).then(event("input_late", reason="the run has ended"))


def test_cancelled_grandchild_blocks_those_above_it() -> None:
    """Somebody does not want it; nobody asks for it again."""
    scenario = settle(family().say(cancel(run=PAGE)))
    assert [scenario.of(run).end for run in (PAGE, CHAPTER, RUN)] == ["CANCELLED", "POLICY_BLOCKED", "POLICY_BLOCKED"]


def test_child_that_takes_too_long_is_cancelled_with_all_below_it() -> None:
    scenario = family(deadline_s=60)
    settle(scenario.say(Due("task.one")))
    assert (scenario.state.end, scenario.state.reason) == (
        "FAILED_RETRYABLE",
        "no value for one: chapter: not ended within 60000 ms of work",
    )
    assert [scenario.of(run).end for run in (CHAPTER, PAGE)] == ["CANCELLED", "CANCELLED"]


# --- partial results --------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", ["TOOL_DOWN", "LOW_CONFIDENCE"])
def test_what_a_child_could_not_do_is_said_at_the_top(code: str) -> None:
    scenario = settle(family(missing="allow").say(failed("write", code, run=PAGE, message="no pen")))
    assert (scenario.state.end, scenario.state.reason) == ("DEGRADED", f"without one ({code})")
    assert "no value for write: w: no pen" in scenario.state.missing["one"].message


def test_child_that_is_found_to_repeat_itself_is_not_asked_for_again() -> None:
    write = step("write", critique={"capability": "review", "accept": "critique", "rounds": 20})
    team = teach(write, team="page", returns={"text": "facts.write"}, repeats=1)
    asking = teach(step("one", "page", attempts=3))
    scenario = settle(given(offer("w", "work"), offer("c", "review"), team, asking, goal()))
    child = child_run(RUN, "one", 1)
    for number in (1, 2):
        scenario.say(ended(f"write_{number}", {f"write_{number}": "always this"}, run=child))
        scenario.say(ended(f"write_review_{number}", {f"write_review_{number}": False}, by="c", run=child))
    assert (scenario.of(child).end, scenario.of(child).code) == ("FAILED", "LOOP")
    settle(scenario)
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "BUDGET_EXCEEDED")
    assert "c came to the same result, 2 times with the same input" in scenario.state.reason


def test_degraded_grandchild_degrades_those_above_it() -> None:
    pages = teach(step("write"), step("draw", missing="allow"), team="page", returns={"text": "facts.write"})
    chapter = teach(step("page", "page"), team="chapter", returns={"page": "facts.page.text"})
    book = teach(step("one", "chapter"), returns={"one": "facts.one.page"})
    scenario = settle(given(offer("w", "work"), pages, chapter, book, goal()))
    scenario.say(failed("draw", "LOW_CONFIDENCE", run=PAGE), written("once"))
    settle(scenario)
    assert [scenario.of(run).end for run in (PAGE, CHAPTER, RUN)] == ["DEGRADED"] * 3
    assert scenario.state.result == {"one": "once"}
    assert "without draw (LOW_CONFIDENCE)" in scenario.state.reason
