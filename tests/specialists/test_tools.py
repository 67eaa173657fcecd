"""Tools: what a contract says of them, what they are called with, and whose approval they need."""

import asyncio
from collections.abc import Callable
from dataclasses import dataclass
from datetime import date
from functools import partial, wraps
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

import pytest
from pydantic import BaseModel, SecretStr

from schemas.codec import VALUE_LIMIT, digest
from schemas.contracts import ToolGrant
from schemas.inputs import Question, ToolCalled
from schemas.tasks import Answered, Item
from schemas.usage import Limits, Usage
from specialists.context import LocalContext
from specialists.signature import BadSpecialist
from specialists.specialist import Context, NeedsInput, Stop, tool
from tests.specialists.bench import Bench, Word, echo, named

if TYPE_CHECKING:
    from nowhere import Unknown  # type: ignore[import-not-found]


class Order(BaseModel):
    what: str
    day: date = date(2026, 1, 2)


class Login(BaseModel):
    """As JSON, each looks like every other."""

    password: SecretStr


@dataclass
class Address:
    street: str


class Till:
    """Not a type of pydantic's."""

    async def open(self, code: int) -> int:
        return code


def with_tools(*tools: Any, **options: Any) -> LocalContext:
    return LocalContext(named(echo, tools=tools), **options)


def calls(context: LocalContext) -> list[ToolCalled]:
    return [one for one in context.observations if isinstance(one, ToolCalled)]


# --- the contract -----------------------------------------------------------------------------------------------------


async def fetch(url: str, retries: int = 3) -> dict[str, Any]:
    return {"url": url, "retries": retries}


async def pay(to: str, amount: float, note: str = "") -> str:
    return f"{to} has {amount}"


def test_contract_says_scopes_and_who_is_asked() -> None:
    contract = named(echo, tools=[fetch, tool(pay, scopes=["money:write", "net:read"], confirm=True)]).contract()
    assert contract.tools == [
        ToolGrant(tool="fetch"),
        ToolGrant(tool="pay", scopes=["money:write", "net:read"], confirm=True),
    ]


def test_one_scope_is_a_word() -> None:
    assert tool(fetch, scopes="net:read").scopes == ("net:read",)


@pytest.mark.parametrize(
    ("make", "advice"),
    [
        (lambda: tool(fetch, scopes=[""]), "scopes= of tool 'fetch' takes words, not ''"),
        (lambda: tool(fetch, scopes=[7]), "takes words, not 7"),  # type: ignore[list-item]
        (lambda: tool(fetch, usd=-1), "usd= of tool 'fetch': -1 dollars: less than nothing"),
        (lambda: tool(tool(fetch)), "'fetch' is a tool already"),
        (lambda: tool(lambda: 1), "functions that have a name"),
        (lambda: tool(partial(fetch, url="u")), "functions that have a name"),
        (lambda: named(echo, tools=[fetch, tool(fetch, confirm=True)]), "two of its tools have the same name"),
        (lambda: named(echo, tools=[tool(fetch, confirm=True)], stops=["TIMEOUT"]), "list NEEDS_INPUT in stops="),
    ],
)
def test_bad_tool_is_an_error_that_says_what_to_change(make: Callable[[], Any], advice: str) -> None:
    with pytest.raises(BadSpecialist, match=advice):
        make()


async def test_tool_is_named_by_its_name_its_function_or_itself() -> None:
    made, till = tool(fetch), Till()
    context = with_tools(made, till.open)
    for name in ("fetch", fetch, made):
        assert (await context.tool(name, url="u"))["url"] == "u"
    assert await context.tool(till.open, code=3) == 3
    assert [one.code for one in calls(context)] == [""] * 4
    with pytest.raises(Stop, match="POLICY_BLOCKED"):
        await context.tool(Till().open, code=3)


# --- arguments --------------------------------------------------------------------------------------------------------


async def typed(
    number: int = 0,
    word: Literal["a", "b"] = "a",
    order: Order | None = None,
    at: Path = Path("."),
    address: Address | None = None,
    till: Till | None = None,
    **more: str,
) -> list[Any]:
    return [number, word, order, at, address, till, more]


@pytest.mark.parametrize(
    ("arguments", "found"),
    [
        ({"number": "3"}, [3, "a", None, Path("."), None, None, {}]),
        ({"order": {"what": "tea"}}, [0, "a", Order(what="tea"), Path("."), None, None, {}]),
        ({"at": "x/y", "colour": "red"}, [0, "a", None, Path("x/y"), None, None, {"colour": "red"}]),
        ({"address": {"street": "Main"}}, [0, "a", None, Path("."), Address("Main"), None, {}]),
    ],
)
async def test_arguments_become_what_the_annotations_say(arguments: dict[str, Any], found: list[Any]) -> None:
    assert await with_tools(typed).tool(typed, **arguments) == found


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"number": "three"}, "tool typed: number: Input should be a valid integer"),
        ({"number": None}, "tool typed: number: "),
        ({"word": "c"}, "tool typed: word: Input should be 'a' or 'b'"),
        ({"order": {"day": "2026-01-02"}}, "tool typed: order.what: Field required"),
        ({"till": 3}, "tool typed: till: Input should be an instance of Till"),
        ({"colour": 7}, "tool typed: colour: Input should be a valid string"),
    ],
)
async def test_argument_of_a_wrong_type_is_the_callers_mistake(arguments: dict[str, Any], message: str) -> None:
    context = with_tools(typed)
    with pytest.raises(TypeError) as error:
        await context.tool(typed, **arguments)
    assert str(error.value).startswith(message)
    assert (calls(context), context.usage) == ([], Usage())


async def test_mistake_of_the_specialist_ends_the_task_internal(bench: Bench) -> None:
    async def mistaken(item: Word, context: Context) -> dict[str, Any]:
        return {"found": await context.tool(fetch, url=["not", "text"])}

    await bench.put()
    async with bench.working(named(mistaken, tools=[fetch])):
        end = await bench.end()
    assert (end.code, end.message) == ("INTERNAL", "TypeError: tool fetch: url: Input should be a valid string")


def unreadable(item: "Unknown", factor: int = 2) -> Any:
    return (item, factor)


async def test_where_annotations_cannot_be_read_names_and_number_are_checked() -> None:
    context = with_tools(unreadable, len)
    assert await context.tool(unreadable, item="anything", factor="x") == ("anything", "x")
    with pytest.raises(TypeError, match="missing a required argument: 'item'"):
        await context.tool(unreadable, itme=1)
    with pytest.raises(NeedsInput) as asked:
        await with_tools(tool(unreadable, confirm=True)).tool(unreadable, item="x")
    assert asked.value.question.action["arguments"] == {"item": "x", "factor": 2}


async def test_tool_cannot_change_what_is_recorded_of_its_arguments() -> None:
    def empties(items: list[int]) -> int:
        items.clear()
        return 0

    context = with_tools(empties)
    await context.tool(empties, items=[1, 2])
    assert calls(context)[0].input == digest({"items": [1, 2]})


def retried(function: Callable[..., Any]) -> Callable[..., Any]:
    @wraps(function)
    def again(**arguments: Any) -> Any:
        return function(**arguments)

    return again


async def test_wrapper_around_a_coroutine_function_is_awaited() -> None:
    wrapped = retried(fetch)
    context = with_tools(wrapped)
    assert await context.tool(wrapped, url="u", retries="4") == {"url": "u", "retries": 4}


# --- approvals --------------------------------------------------------------------------------------------------------

PAID: list[tuple[str, float]] = []


async def transfer(to: str, amount: float = 10.0) -> str:
    PAID.append((to, amount))
    return "done"


TRANSFER = tool(transfer, scopes="money:write", confirm=True)


@pytest.fixture(autouse=True)
def _nothing_paid() -> None:
    PAID.clear()


def approval(specialist: str = "worker", /, call: int = 1, **arguments: Any) -> Answered:
    """What the supervisor makes of the approval of a call."""
    action = {"tool": "transfer", "arguments": arguments} | ({"call": call} if call > 1 else {})
    ask = f"may {specialist} call transfer?"
    return Answered(ask, action, Question(ask=ask, action=action).digest, "ann")


async def transfers(item: Word, context: Context) -> dict[str, str]:
    return {"word": await context.tool(transfer, to=item.word)}


async def test_call_that_needs_an_approval_ends_with_the_question(bench: Bench) -> None:
    await bench.put(Item("key", {"word": "ann"}))
    async with bench.working(named(transfers, tools=[TRANSFER])):
        end = await bench.end()
    assert (end.code, end.message, end.usage) == ("NEEDS_INPUT", "may worker call transfer?", Usage())
    assert end.question is not None
    assert end.question.schema is None
    assert end.question.action == {"tool": "transfer", "arguments": {"to": "ann", "amount": 10.0}}
    assert end.question.digest == approval(to="ann", amount=10.0).digest
    assert PAID == []
    assert await bench.observations(ToolCalled) == []


async def test_call_that_was_approved_goes_through(bench: Bench) -> None:
    await bench.put(Item("key", {"word": "ann"}), answers=(approval(to="ann", amount=10.0),), attempt=2)
    async with bench.working(named(transfers, tools=[TRANSFER])):
        end = await bench.end()
    assert (end.code, end.claims[0].value, end.usage) == ("", {"word": "done"}, Usage(tool_calls=1))
    assert PAID == [("ann", 10.0)]
    assert [one.tool for one in await bench.observations(ToolCalled)] == ["transfer"]


@pytest.mark.parametrize(
    "approved",
    [
        approval(to="ann", amount=9999.0),
        approval(to="bob", amount=10.0),
        approval(to="ann"),
        approval("other", to="ann", amount=10.0),
        approval(call=2, to="ann", amount=10.0),
    ],
    ids=["amount", "receiver", "default", "specialist", "number"],
)
async def test_call_that_is_not_the_approved_one_is_asked_about_anew(bench: Bench, approved: Answered) -> None:
    await bench.put(Item("key", {"word": "ann"}), answers=(approved,), attempt=2)
    async with bench.working(named(transfers, tools=[TRANSFER])):
        end = await bench.end()
    assert (end.code, PAID) == ("NEEDS_INPUT", [])
    assert end.question is not None
    assert end.question.digest == approval(to="ann", amount=10.0).digest


async def test_an_approval_is_for_one_call(bench: Bench) -> None:
    async def twice(item: Word, context: Context) -> dict[str, str]:
        await context.tool(transfer, to="ann")
        return {"word": await context.tool(transfer, to="ann")}

    once = approval(to="ann", amount=10.0)
    for number, (answers, code, paid) in enumerate(
        [((once,), "NEEDS_INPUT", 1), ((once, approval(call=2, to="ann", amount=10.0)), "", 2)]
    ):
        PAID.clear()
        await bench.put(name=f"step-{number}", answers=answers)
        async with bench.working(named(twice, tools=[TRANSFER])):
            await bench.until(bench.idle)
        end = (await bench.observations())[-1]
        assert (end.code, PAID) == (code, [("ann", 10.0)] * paid)
        if end.question:
            assert end.question.action == {
                "tool": "transfer",
                "arguments": {"to": "ann", "amount": 10.0},
                "call": 2,
            }


async def test_approval_is_for_what_the_tool_is_called_with_and_not_for_what_was_written() -> None:
    """What the annotations make of it is shown, approved and called."""
    context = with_tools(TRANSFER)
    with pytest.raises(NeedsInput) as asked:
        await context.tool(transfer, to="ann", amount="10")
    assert asked.value.question.action == {"tool": "transfer", "arguments": {"to": "ann", "amount": 10.0}}


async def test_who_catches_stops_does_not_do_without_the_approval() -> None:
    context = with_tools(TRANSFER)

    async def careless() -> str:
        try:
            return str(await context.tool(transfer, to="ann"))
        except Stop:
            return "done without"

    with pytest.raises(NeedsInput):
        await careless()


async def test_calls_of_a_task_group_ask_too(bench: Bench) -> None:
    async def grouped(item: Word, context: Context) -> dict[str, str]:
        async with asyncio.TaskGroup() as group:
            for name in ("ann", "bob"):
                group.create_task(context.tool(transfer, to=name))
        return {"word": "done"}

    await bench.put()
    async with bench.working(named(grouped, tools=[TRANSFER])):
        end = await bench.end()
    assert (end.code, PAID) == ("NEEDS_INPUT", [])
    assert end.question is not None
    assert end.question.action["arguments"]["to"] == "ann"


async def test_nobody_is_asked_for_a_call_that_the_budget_does_not_hold(bench: Bench) -> None:
    await bench.put(budget=Limits(tool_calls=0))
    async with bench.working(named(transfers, tools=[TRANSFER])):
        end = await bench.end()
    assert (end.code, end.question) == ("BUDGET_EXCEEDED", None)


async def anything(value: Any) -> None:
    raise AssertionError("it is not called")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (object(), "an object of type object"),
        (lambda: 1, "an object of type function"),
        (SecretStr("x"), "an object of type SecretStr"),
        (Login(password=SecretStr("x")), "an object of type SecretStr"),
        ({"at": Till()}, "an object of type Till"),
        (float("nan"), "a number that is not finite"),
        ((1, float("inf")), "a number that is not finite"),
        (2**70, "a whole number of more than 64 bits"),
        ("\ud800", "half of a character"),
        ({(1, 2): 3}, "TypeError"),
        ("x" * VALUE_LIMIT, f"over {VALUE_LIMIT}"),
    ],
)
async def test_arguments_that_cannot_be_shown_are_not_asked_about(value: Any, problem: str) -> None:
    context = with_tools(tool(anything, confirm=True), answers={"may worker call anything?": True})
    with pytest.raises(ValueError, match="tool anything is called with the approval of a person only") as error:
        await context.tool(anything, value=value)
    assert problem in str(error.value)


async def test_circular_arguments_are_not_asked_about() -> None:
    circle: list[Any] = []
    circle.append(circle)
    with pytest.raises(ValueError, match="cannot be exact JSON"):
        await with_tools(tool(anything, confirm=True)).tool(anything, value=circle)


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({f"{number:02}" for number in range(30)}, [f"{number:02}" for number in range(30)]),
        (Order(what="tea"), {"what": "tea", "day": "2026-01-02"}),
        (Address("Main"), {"street": "Main"}),
        (Path("x/y"), "x/y"),
        (b"\xff", "/w=="),
        ((1, {2: "x"}), [1, {"2": "x"}]),
    ],
)
async def test_what_a_person_sees_is_the_same_in_every_process(value: Any, shown: Any) -> None:
    with pytest.raises(NeedsInput) as asked:
        await with_tools(tool(anything, confirm=True)).tool(anything, value=value)
    assert asked.value.question.action["arguments"] == {"value": shown}
