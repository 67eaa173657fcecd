"""A budget holds while the work goes on, and what was used is reported to the last millionth of a dollar."""

import asyncio
import threading
from decimal import Decimal
from fractions import Fraction
from typing import Any

import pytest

from blackboard.log import Append, Conflict, Stored
from schemas import goals
from schemas.contracts import read_contract
from schemas.events import Claim, Silence
from schemas.inputs import ToolCalled
from schemas.playbooks import Playbook, Step
from schemas.tasks import Item
from schemas.usage import COUNT_LIMIT, Limits, Usage
from specialists.budget import exact_micro_usd, in_micro_usd, usd_text
from specialists.context import LocalContext
from specialists.ledger import Ledger
from specialists.signature import BadSpecialist
from specialists.specialist import Budget, Context, Specialist, Stop, specialist, tool
from specialists.worker_events import Finished
from tests.specialists.bench import PATIENCE_S, Bench, Word, named

# --- money ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("usd", "micro_usd"),
    [
        (0, 0),
        (1, 1_000_000),
        (1.25, 1_250_000),
        (0.1 + 0.2, 300_000),
        (0.0000004, 0),
        (0.0000006, 1),
        (2.675, 2_675_000),
        (Decimal("0.000001"), 1),
        (1e-30, 0),
    ],
)
def test_dollars_are_rounded_to_the_nearest_millionth(usd: float, micro_usd: int) -> None:
    assert in_micro_usd(usd) == micro_usd


@pytest.mark.parametrize(
    ("usd", "advice"),
    [
        (-0.01, "less than nothing"),
        (float("nan"), "no amount of dollars"),
        (float("inf"), "no amount of dollars"),
        ("1.25", "a number is wanted"),
        (True, "a number is wanted"),
        (None, "a number is wanted"),
    ],
)
def test_what_is_no_amount_is_refused(usd: Any, advice: str) -> None:
    with pytest.raises(ValueError, match=advice):
        exact_micro_usd(usd)


@pytest.mark.parametrize(
    ("micro_usd", "text"),
    [(0, "0 USD"), (1, "0.000001 USD"), (1_250_000, "1.25 USD"), (10**13 + 1, "10000000.000001 USD")],
)
def test_money_is_shown_exactly(micro_usd: int, text: str) -> None:
    assert usd_text(micro_usd) == text


# --- what a budget is made of -----------------------------------------------------------------------------------------


def test_one_budget_for_specialists_steps_playbooks_and_goals() -> None:
    budget = Budget(tokens=1_000, usd=0.1 + 0.2)
    assert (budget.micro_usd, budget.usd, budget.tool_calls) == (300_000, 0.3, None)
    playbook = Playbook(team="t", budget=budget, steps=[Step(id="a", capability="c", budget=budget)])
    goal = goals.Goal(team="t", budget=budget)
    plain = goals.Budget(tokens=1_000, micro_usd=300_000)
    for written in (playbook, goal):
        again = type(written).model_validate_json(written.model_dump_json())
        assert again.budget == plain
    assert playbook.model_dump(mode="json")["steps"][0]["budget"] == plain.model_dump(mode="json")


@pytest.mark.parametrize(
    ("fields", "advice"),
    [
        ({"tokens": -1}, "budget: tokens: is not allowed"),
        ({"tokens": 1.5}, "budget: tokens: is not allowed"),
        ({"tool_calls": COUNT_LIMIT + 1}, "budget: tool_calls: is not allowed"),
        ({"usd": -1}, "-1 dollars: less than nothing"),
        ({"usd": 1, "micro_usd": 1}, "not both"),
    ],
)
def test_bad_budget_is_one_sentence(fields: dict[str, Any], advice: str) -> None:
    with pytest.raises(ValueError, match=advice) as error:
        Budget(**fields)
    assert "\n" not in str(error.value)


async def spends(item: Word, context: Context) -> dict[str, str]:
    context.use(usd=0.1)
    context.use(usd=0.2, output_tokens=7)
    return {"word": item.word}


def test_contract_carries_it() -> None:
    made = named(spends, budget=Budget(tokens=9, usd=1.5), typical_usd=0.1 + 0.2, typical_s=2.5)
    contract = made.contract()
    assert contract.budget == goals.Budget(tokens=9, micro_usd=1_500_000)
    assert (contract.typical_micro_usd, contract.typical_s) == (300_000, 2.5)
    assert read_contract(contract.model_dump_json(exclude_none=True).encode(), "worker") == contract


@pytest.mark.parametrize("options", [{"typical_usd": -1}, {"typical_usd": float("nan")}, {"typical_s": -1}])
def test_typical_cost_and_time_are_no_less_than_nothing(options: dict[str, Any]) -> None:
    with pytest.raises(BadSpecialist, match="specialist 'worker': "):
        named(spends, **options)


# --- the ledger -------------------------------------------------------------------------------------------------------


def test_a_thousand_calls_for_less_than_a_millionth_are_not_free() -> None:
    ledger = Ledger(Limits())
    for _ in range(1_000):
        ledger.book(input_tokens=3, usd=3 * 0.15e-6)
    assert ledger.usage == Usage(3_000, 0, 0, 450)


@pytest.mark.parametrize(
    ("used", "error"),
    [
        ({"input_tokens": -1}, ValueError),
        ({"output_tokens": -1, "input_tokens": 5}, ValueError),
        ({"micro_usd": -1}, ValueError),
        ({"usd": -0.1}, ValueError),
        ({"usd": None}, ValueError),
        ({"usd": ""}, ValueError),
        ({"usd": float("nan"), "input_tokens": 5}, ValueError),
        ({"usd": 1, "micro_usd": 1}, ValueError),
        ({"input_tokens": 1.5}, TypeError),
        ({"micro_usd": 0.5}, TypeError),
        ({"input_tokens": "5"}, TypeError),
    ],
)
def test_what_is_no_usage_is_refused_whole(used: dict[str, Any], error: type[Exception]) -> None:
    context = LocalContext()
    with pytest.raises(error):
        context.use(**used)
    assert context.usage == Usage()


def test_counts_stop_at_what_the_log_takes() -> None:
    context = LocalContext()
    context.use(input_tokens=2**60, micro_usd=2**60)
    context.use(input_tokens=1, micro_usd=1)
    assert context.usage == Usage(COUNT_LIMIT, 0, 0, COUNT_LIMIT)


def test_nothing_is_lost_when_threads_book_at_once() -> None:
    ledger, ready = Ledger(Limits()), threading.Barrier(8)

    def book() -> None:
        ready.wait(PATIENCE_S)
        for _ in range(2_000):
            ledger.book(input_tokens=1, micro_usd=Fraction(1, 2))

    threads = [threading.Thread(target=book) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert ledger.usage == Usage(16_000, 0, 0, 8_000)


# --- what is left -----------------------------------------------------------------------------------------------------


async def look_up(number: int) -> int:
    return number


def of_budget(**limits: Any) -> LocalContext:
    return LocalContext(named(spends, budget=Budget(**limits), tools=[look_up, tool(paid, usd=0.25)]))


async def paid() -> str:
    return "bought"


async def test_context_knows_what_is_left() -> None:
    assert of_budget().budget == Budget()
    context = of_budget(tokens=10, tool_calls=2, usd=1)
    context.use(input_tokens=3, output_tokens=4, usd=0.5)
    await context.tool(look_up, number=1)
    assert context.budget == Budget(tokens=3, tool_calls=1, usd=0.5)
    with pytest.raises(Stop):
        context.use(output_tokens=100, usd=7)
    assert context.budget == Budget(tokens=0, tool_calls=1, usd=0)


@pytest.mark.parametrize(
    ("limits", "used", "message"),
    [
        ({"tokens": 10}, {"input_tokens": 6, "output_tokens": 5}, "the budget is 10 tokens, 11 are used"),
        ({"usd": 0.3}, {"usd": 0.300001}, "the budget is 0.3 USD, 0.300001 USD are used"),
        ({"tokens": 0}, {"input_tokens": 1}, "the budget is 0 tokens, 1 are used"),
        ({"usd": 0}, {"micro_usd": 1}, "the budget is 0 USD, 0.000001 USD are used"),
    ],
)
def test_use_is_booked_and_then_refused(limits: dict[str, Any], used: dict[str, Any], message: str) -> None:
    context = of_budget(**limits)
    with pytest.raises(Stop) as stop:
        context.use(**used)
    assert (stop.value.code, stop.value.message) == ("BUDGET_EXCEEDED", message)
    assert context.usage != Usage()


def test_all_of_a_budget_may_be_used() -> None:
    context = of_budget(tokens=0, usd=0)
    context.use()
    context = of_budget(tokens=10, usd=0.3)
    context.use(input_tokens=10, usd=0.1)
    context.use(usd=0.2)
    assert context.budget == Budget(tokens=0, usd=0)


async def test_a_call_too_many_is_not_made_and_is_recorded() -> None:
    context = of_budget(tool_calls=1)
    await context.tool(look_up, number=1)
    with pytest.raises(Stop, match="BUDGET_EXCEEDED: the budget is 1 calls of tools, all are used"):
        await context.tool(look_up, number=2)
    assert [one.code for one in context.observations if isinstance(one, ToolCalled)] == ["", "BUDGET_EXCEEDED"]
    assert context.usage == Usage(tool_calls=1)


async def test_price_of_a_tool_is_booked_with_each_call_and_must_be_left() -> None:
    context = of_budget(usd=0.6)
    assert await context.tool(paid) == "bought"
    await context.tool("paid")
    assert context.usage == Usage(0, 0, 2, 500_000)
    with pytest.raises(Stop, match=r"BUDGET_EXCEEDED: the budget has 0\.1 USD left, the call costs 0\.25 USD"):
        await context.tool(paid)
    assert context.usage == Usage(0, 0, 2, 500_000)


async def test_nothing_is_called_any_more_once_too_much_is_used() -> None:
    context = of_budget(tokens=1)
    with pytest.raises(Stop):
        context.use(input_tokens=2)
    with pytest.raises(Stop, match="BUDGET_EXCEEDED: the budget is 1 tokens, 2 are used"):
        await context.tool(look_up, number=1)


# --- the end of a task ------------------------------------------------------------------------------------------------


async def test_end_reports_what_was_used_also_when_it_fails(bench: Bench) -> None:
    await bench.put(budget=Limits(micro_usd=299_999))
    async with bench.working(named(spends)):
        end = await bench.end()
    assert (end.code, end.message) == ("BUDGET_EXCEEDED", "the budget is 0.299999 USD, 0.3 USD are used")
    assert end.usage == Usage(0, 7, 0, 300_000)
    assert [one.usage for one in bench.told if isinstance(one, Finished)] == [end.usage]


async def test_budget_is_that_of_the_task_and_not_of_the_contract(bench: Bench) -> None:
    await bench.put()
    async with bench.working(named(spends, budget=Budget(usd=0))):
        assert (await bench.end()).claims != ()


async def test_values_within_the_budget_stay_and_nothing_is_begun_after_it(bench: Bench) -> None:
    begun = []

    async def costs(item: Word, context: Context) -> dict[str, str]:
        begun.append(item.word)
        context.use(input_tokens=10)
        return {"word": item.word}

    await bench.put(*(Item(f"key.{word}", {"word": word}) for word in "abcd"), budget=Limits(tokens=25))
    async with bench.working(named(costs)):
        end = await bench.end()
    over = "the budget is 25 tokens, 30 are used"
    assert begun == ["a", "b", "c"]
    assert end.claims == (Claim("key.a", {"word": "a"}), Claim("key.b", {"word": "b"}))
    assert end.silences == (
        Silence("key.c", "BUDGET_EXCEEDED", over),
        Silence("key.d", "BUDGET_EXCEEDED", f"not begun: {over}"),
    )
    assert (end.code, end.usage) == ("", Usage(30))


async def test_who_catches_the_stop_has_no_value_all_the_same(bench: Bench) -> None:
    async def greedy(item: Word, context: Context) -> dict[str, str]:
        try:
            context.use(input_tokens=100)
        except Stop:
            return {"word": "too dear"}
        return {"word": "cheap"}

    await bench.put(budget=Limits(tokens=10))
    async with bench.working(named(greedy)):
        end = await bench.end()
    assert (end.code, end.claims, end.usage) == ("BUDGET_EXCEEDED", (), Usage(100))


async def test_who_does_without_a_call_that_was_refused_has_a_value(bench: Bench) -> None:
    async def frugal(item: Word, context: Context) -> dict[str, int]:
        try:
            return {"found": await context.tool(look_up, number=7)}
        except Stop:
            return {"found": -1}

    await bench.put(Item("key.0", {}), Item("key.1", {}), budget=Limits(tool_calls=1))
    async with bench.working(named(frugal, tools=[look_up])):
        end = await bench.end()
    assert [claim.value["found"] for claim in end.claims] == [7, -1]
    assert end.usage == Usage(tool_calls=1)


async def test_plain_function_has_its_budget_in_its_thread(bench: Bench) -> None:
    def plain(item: Word, context: Context) -> dict[str, int | None]:
        left = context.budget.tokens
        context.use(input_tokens=4, usd=Decimal("0.1"))
        return {"left": left}

    await bench.put(budget=Limits(tokens=4, micro_usd=100_000))
    async with bench.working(named(plain)):
        end = await bench.end()
    assert (end.claims[0].value, end.usage) == ({"left": 4}, Usage(4, 0, 0, 100_000))


async def test_what_a_thread_books_after_the_end_is_in_no_report(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """The span and the line of the worker say what the end says, which is all that the run is charged for."""
    may, booked = threading.Event(), threading.Event()

    def late(item: Word, context: Context) -> Word:
        context.use(input_tokens=1)
        may.wait(PATIENCE_S)
        context.use(input_tokens=1_000)
        booked.set()
        return item

    append = bench.log.append

    async def hesitant(*appends: Append) -> list[Stored | Conflict]:
        """Gives the thread its moment between the end and the report."""
        if any(b'"ended"' in one.data for one in appends):
            may.set()
            assert await asyncio.to_thread(booked.wait, PATIENCE_S)
        return await append(*appends)

    monkeypatch.setattr(bench.log, "append", hesitant)
    await bench.put(work_ms=50)
    async with bench.working(named(late)):
        end = await bench.end()
    assert (end.code, end.usage) == ("TIMEOUT", Usage(1))
    assert [one.usage for one in bench.told if isinstance(one, Finished)] == [end.usage]


async def test_what_a_thread_books_after_the_end_is_told_here(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    may, booked = threading.Event(), threading.Event()

    def late(item: Word, context: Context) -> Word:
        may.wait(PATIENCE_S)
        context.use(input_tokens=1_000)
        booked.set()
        return item

    await bench.put(work_ms=50)
    async with bench.working(named(late)):
        assert (await bench.end()).usage == Usage()
        may.set()
        await bench.until(booked.is_set)
    assert "used after its end, which no report holds: Usage(input_tokens=1000" in caplog.text


async def cancelled(bench: Bench, made: Specialist, began: asyncio.Event) -> None:
    key = await bench.put()
    async with bench.working(made):
        await began.wait()
        await bench.queue.cancel(key)
        await bench.until(lambda: any(isinstance(one, Finished) for one in bench.told))
    assert await bench.idle()
    assert [one.how for one in bench.told if isinstance(one, Finished)] == ["cancelled"]


def waiting(began: asyncio.Event, **used: Any) -> Specialist:
    async def waits(item: Word, context: Context) -> Word:
        context.use(**used)
        began.set()
        await asyncio.Event().wait()
        return item

    return named(waits)


async def test_what_a_cancelled_task_has_used_is_told(bench: Bench) -> None:
    began = asyncio.Event()
    await cancelled(bench, waiting(began, input_tokens=5, usd=0.1), began)
    (end,) = await bench.observations()
    assert (end.code, end.message, end.usage) == ("TIMEOUT", "cancelled", Usage(5, 0, 0, 100_000))


async def test_cancelled_task_that_has_used_nothing_says_nothing(bench: Bench) -> None:
    began = asyncio.Event()
    await cancelled(bench, waiting(began), began)
    assert await bench.observations(object) == []


async def test_log_that_is_away_does_not_hold_up_a_cancel(bench: Bench) -> None:
    began = asyncio.Event()
    made = waiting(began, input_tokens=5)
    key = await bench.put()
    async with bench.working(made):
        await began.wait()
        bench.log.down = True
        await bench.queue.cancel(key)
        await bench.until(bench.idle)
    assert [one.how for one in bench.told if isinstance(one, Finished)] == ["cancelled"]


def test_the_decorator_takes_a_budget_from_schemas_too() -> None:
    made = specialist("worker", offers="words", budget=goals.Budget(tokens=3))(spends)
    assert made.contract().budget.tokens == 3
