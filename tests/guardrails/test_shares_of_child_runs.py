"""Child runs and the budget: a share is set aside for each, and nobody spends what an attempt below may still use."""

from typing import Any

import pytest

from schemas.usage import Limits
from tests.guardrails.books import Books
from tests.supervisor.scenario import RUN, Due, Said, cancel, ended, event, goal, offer, step, teach


def tree(
    *said: Said | Due, below: list[dict[str, Any]] | None = None, own: int | None = 10, tokens: int = 100, **fields: Any
) -> Books:
    """`a` of the first run is a child run of the team `u`, whose steps `w` does, with `own` tokens an attempt."""
    contract = offer("w", "work", budget={} if own is None else {"tokens": own})
    asked = teach(*(below or [step("x")]), team="u", parallel=10)
    playbook = {name: fields.pop(name) for name in ("parallel", "steps") if name in fields}
    steps = playbook.pop("steps", [step("a", team="u", **fields)])
    books = Books(contract, asked, teach(*steps, budget={"tokens": tokens}, **playbook), goal())
    books.follow()
    for one in said:
        books.say(one)
        books.follow()
    return books


def child(books: Books, task: str = "a") -> str:
    """The run that the last attempt of a task asked for."""
    return books.of(RUN).tasks[task].child


def say(books: Books, *said: Said | Due) -> Books:
    for one in said:
        books.say(one)
        books.follow()
    return books


def books_of(books: Books, run: str = RUN) -> tuple[int, int, int]:
    """(charged, reserved, overrun) tokens of a run."""
    state = books.of(run)
    return state.charged.tokens, state.reserved.tokens, state.overrun.tokens


def tokens(count: int) -> dict[str, int]:
    return {"input_tokens": count}


@pytest.mark.parametrize(("share", "given"), [({"tokens": 30}, 30), ({}, 100), ({"tool_calls": 3}, 100)])
def test_share_of_a_child_run_is_the_step_s_or_all_the_rest(share: dict[str, int], given: int) -> None:
    books = tree(budget=share)
    assert books_of(books) == (0, given, 0)
    assert books.of(child(books)).budget == Limits(**{"tokens": given} | share)


def test_what_a_child_run_did_not_use_comes_back() -> None:
    books = tree(budget={"tokens": 30})
    say(books, ended("x", {"x": 1}, run=child(books), usage=tokens(7)))
    assert (books.of(RUN).end, books_of(books)) == ("DONE", (7, 0, 0))


def test_share_too_small_for_an_attempt_ends_the_child_run_and_says_so() -> None:
    books = tree(budget={"tokens": 5})
    assert (books.of(RUN).end, books.of(RUN).code) == ("FAILED", "BUDGET_EXCEEDED")
    assert books.of(RUN).reason.endswith("w: 5 of 5 tokens left (0 used, 0 reserved), 10 needed")


def test_overrun_below_is_overrun_above_and_nothing_more_is_given_out() -> None:
    steps = [step("a", team="u", budget={"tokens": 30}), step("b", needs=["a"], missing="allow")]
    books = tree(steps=steps)
    say(books, ended("x", {"x": 1}, run=child(books), usage=tokens(45)))
    assert books_of(books, child(books)) == (10, 0, 35)
    assert books_of(books) == (30, 0, 15), "of the share of 30 all is charged, 15 is beyond it"
    assert books.of(RUN).reason == "without b (BUDGET_EXCEEDED)"


def test_what_attempts_below_may_still_use_stays_reserved_above() -> None:
    """The child run fails while two of its attempts work on. They use 20 more; another child run, which gets all the
    rest, must not get these 20 too."""
    below = [step("x"), step("y"), step("z")]
    books = tree(below=below, budget={"tokens": 100}, attempts=2)
    first = child(books)
    assert books_of(books, first) == (0, 30, 0)
    say(books, ended("x", code="INTERNAL", run=first, usage=tokens(10), attempt=1))
    for attempt in (2, 3):
        say(books, ended("x", code="INTERNAL", run=first, usage=tokens(10), attempt=attempt))
    assert books.of(first).end == "FAILED"
    assert books_of(books, first) == (30, 20, 0)
    assert books_of(books) == (30, 20, 0), "30 used, and 20 that y and z may still use"


def test_another_attempt_gets_only_what_nobody_may_still_use() -> None:
    below = [step("x", attempts=1), step("y")]
    books = tree(below=below, attempts=2)
    first = child(books)
    say(books, ended("x", code="TOOL_DOWN", run=first, usage=tokens(10)))
    assert books.of(first).end == "FAILED_RETRYABLE"
    second = child(books)
    assert second != first
    assert books.of(second).budget == Limits(80)
    assert books_of(books) == (10, 90, 0)
    say(books, ended("y", {"y": 1}, run=first, usage=tokens(10)))
    assert books_of(books, first) == (20, 0, 0)
    assert books_of(books) == (10, 90, 0), "the late end is booked below; above it stays charged in full"


def test_kept_share_is_an_event_before_the_end_that_it_explains() -> None:
    books = tree(below=[step("x"), step("y")], attempts=1)
    first = child(books)
    books.say(ended("x", code="INVALID_INPUT", run=first, usage=tokens(4)))
    books.say(next(books._due())).then(
        event("share_kept", task="a", attempt=1, held={"tokens": 10}),
        event("task_ended", task="a", code="INVALID_INPUT", usage=tokens(4)),
        event("fact_missing"),
        event("run_ended"),
    )


def test_share_of_a_child_run_that_its_parent_gave_up_stays_reserved() -> None:
    steps = [
        step("a", team="u", budget={"tokens": 60}, deadline_s=5, attempts=1, missing="allow"),
        step("b", needs=["a"]),
    ]
    books = tree(steps=steps)
    first = child(books)
    say(books, Due("task.a"))
    assert (books.of(first).end, books_of(books)) == ("CANCELLED", (0, 70, 0))
    say(books, ended("x", {"x": 1}, run=first, usage=tokens(10)))
    assert books_of(books, first) == (10, 0, 0)
    assert books_of(books) == (0, 70, 0)
    say(books, ended("b", {"b": 1}))
    assert books.of(RUN).end == "DEGRADED"


def test_cancel_above_keeps_what_is_in_flight_below() -> None:
    books = tree()
    first = child(books)
    say(books, cancel())
    assert (books.of(RUN).end, books.of(first).end) == ("CANCELLED", "CANCELLED")
    assert (books_of(books), books_of(books, first)) == ((0, 100, 0), (0, 10, 0))


def test_specialist_named_like_a_team_has_nothing_to_do_with_its_child_runs() -> None:
    """It released the share of the child run, with usage of its own; and its breaker stopped the team."""
    steps = [step("a", missing="allow", attempts=1), step("b", team="u", needs=["a"])]
    taught = [teach(step("x", "other"), team="u"), teach(*steps, breaker=1, budget={"tokens": 100})]
    books = Books(
        offer("u", "work", budget={"tokens": 10}), offer("v", "other", budget={"tokens": 10}), *taught, goal()
    )
    say(books, ended("a", code="TOOL_DOWN", by="u"))
    assert books.of(RUN).breakers["u"].open
    assert books_of(books) == (0, 100, 0)
    books.when(ended("b", {"b": 1}, by="u", usage=tokens(3))).then(
        event("input_late", author="u", reason="the task is with a child run", usage={}, task="")
    )
    assert books_of(books) == (0, 100, 0)
    say(books, ended("x", {"x": 1}, by="v", run=child(books, "b"), usage=tokens(6)))
    assert (books.of(RUN).end, books_of(books)) == ("DEGRADED", (6, 0, 0))


def test_child_runs_side_by_side_share_one_budget() -> None:
    steps = [step("a", team="u", for_each="['p','q','r']", fact="a.{item}", budget={"tokens": 40})]
    books = tree(steps=steps)
    assert [name for name, task in books.of(RUN).tasks.items() if task.status == "dispatched"] == ["a-0", "a-1"]
    say(books, ended("x", {"x": 1}, run=child(books, "a-0"), usage=tokens(10)))
    assert books.of(RUN).tasks["a-2"].status == "dispatched"
    assert books_of(books) == (10, 80, 0)


def test_end_of_a_child_run_that_the_run_cannot_take_is_booked() -> None:
    """Its result would make the state too large: the run ends with that, and what was used is not forgotten."""
    taught = [
        teach(step("x"), team="u", returns={"x": "facts.x"}),
        teach(step("a", team="u", for_each="input.n", fact="a.{index}"), budget={"tokens": 1_000}),
    ]
    books = Books(offer("w", "work", budget={"tokens": 10}), *taught, goal({"n": list(range(20))}))
    books.follow()
    ended_runs = 0
    while not books.of(RUN).end:
        below = child(books, f"a-{ended_runs}")
        say(books, ended("x", {"x": "y" * 60_000}, run=below, usage=tokens(10)))
        ended_runs += 1
    assert (books.of(RUN).code, books.of(RUN).usage.input_tokens) == ("BUDGET_EXCEEDED", 10 * ended_runs)
    assert "the state would have" in books.of(RUN).reason
    assert 10 < ended_runs < 20
