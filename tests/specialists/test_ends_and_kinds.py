"""How else a task ends: handed on, with a code that the contract does not list; and tasks that are no work: bids and
conflicts."""

import asyncio
from typing import Any

import pytest
from pydantic import BaseModel

from schemas.bids import BID_SCHEMA, Bid
from schemas.contracts import ALWAYS, read_contract
from schemas.events import Claim, Silence
from schemas.tasks import Item
from schemas.usage import Limits, Usage
from schemas.validation import violation
from specialists.context import LocalContext
from specialists.signature import BadSpecialist
from specialists.specialist import Context, HandOff, NeedsInput, Stop
from specialists.worker_events import Finished
from tests.specialists.bench import Bench, Word, echo, named

# --- handing on -------------------------------------------------------------------------------------------------------


async def hands_on(item: Word, context: Context) -> dict[str, str]:
    context.use(input_tokens=3)
    if item.word == "legal":
        raise HandOff("lawyers", "about a contract")
    return {"word": item.word}


async def test_task_is_handed_on(bench: Bench) -> None:
    await bench.put(Item("key", {"word": "legal"}))
    async with bench.working(named(hands_on, authority="propose")):
        end = await bench.end()
    assert (end.code, end.to, end.message, end.usage) == ("HANDED_OFF", "lawyers", "about a contract", Usage(3))
    assert [one.to for one in bench.told if isinstance(one, Finished)] == ["lawyers"]


async def test_task_of_several_items_is_handed_on_whole(bench: Bench) -> None:
    await bench.put(*(Item(f"key.{word}", {"word": word}) for word in ("tax", "legal", "rent")))
    async with bench.working(named(hands_on, authority="propose")):
        end = await bench.end()
    assert (end.code, end.to, end.message) == ("HANDED_OFF", "lawyers", "key.legal: about a contract")
    assert (end.claims, end.silences, end.usage) == ((), (), Usage(6))


async def test_who_only_observes_may_not_hand_on(bench: Bench) -> None:
    await bench.put(Item("key", {"word": "legal"}))
    async with bench.working(named(hands_on)):
        end = await bench.end()
    assert (end.code, end.to) == ("POLICY_BLOCKED", "")
    assert end.message == ('it may not hand its task on (to lawyers: about a contract): that takes authority="propose"')


@pytest.mark.parametrize("to", ["", "two words", "a.b", "x" * 65, "café", "*", None, 7])
async def test_hand_off_to_what_is_no_name_is_a_mistake_of_the_specialist(bench: Bench, to: Any) -> None:
    async def hands(item: Word) -> dict[str, str]:
        raise HandOff(to)

    await bench.put()
    async with bench.working(named(hands, authority="propose")):
        end = await bench.end()
    assert (end.code, end.to) == ("INTERNAL", "")
    assert end.message.startswith(("BadName: the specialist or capability ", "TypeError: "))


async def test_reason_of_a_hand_off_is_bounded(bench: Bench) -> None:
    async def hands(item: Word) -> dict[str, str]:
        raise HandOff("lawyers", "x" * 5_000 + "\ud800")

    await bench.put()
    async with bench.working(named(hands, authority="propose")):
        assert len((await bench.end()).message) == 1_000


async def test_hand_off_comes_out_of_a_task_group(bench: Bench) -> None:
    async def leaves() -> None:
        raise HandOff("lawyers")

    async def grouped(item: Word) -> dict[str, str]:
        async with asyncio.TaskGroup() as outer, asyncio.TaskGroup() as inner:
            inner.create_task(leaves())
            outer.create_task(asyncio.sleep(30))
        return {}

    await bench.put()
    async with bench.working(named(grouped, authority="effect")):
        assert (await bench.end()).to == "lawyers"


# --- codes that the contract does not list ----------------------------------------------------------------------------


def test_contract_lists_all_codes_unless_it_says_otherwise() -> None:
    assert len(named(echo).contract().stops) == 11
    assert named(echo, stops=["LOW_CONFIDENCE"]).contract().stops == ["LOW_CONFIDENCE"]
    assert named(echo, stops=[]).contract().stops == []


@pytest.mark.parametrize("code", ["LOW_CONFIDENCE", "TOOL_DOWN", "POLICY_BLOCKED"])
async def test_code_that_is_not_listed_is_internal(bench: Bench, code: str) -> None:
    await bench.put(Item("key", {"code": code}))
    async with bench.working(named(echo, stops=[])):
        end = await bench.end()
    assert (end.code, end.message) == ("INTERNAL", f"ended with {code}, which is not in its stops=: told to")


@pytest.mark.parametrize("code", sorted(ALWAYS))
async def test_every_task_may_end_with_these(bench: Bench, code: str) -> None:
    await bench.put(Item("key", {"code": code}))
    async with bench.working(named(echo, stops=[])):
        assert (await bench.end()).code == code


async def test_of_several_items_a_code_that_is_not_listed_ends_the_task(bench: Bench) -> None:
    await bench.put(Item("key.0", {"code": "LOW_CONFIDENCE"}), Item("key.1", {"code": "POLICY_BLOCKED"}))
    async with bench.working(named(echo, stops=["LOW_CONFIDENCE"])):
        end = await bench.end()
    assert (end.code, end.claims, end.silences) == ("INTERNAL", (), ())
    assert end.message == "key.1: ended with POLICY_BLOCKED, which is not in its stops=: told to"


async def test_listed_code_stays(bench: Bench) -> None:
    await bench.put(Item("key.0", {"code": "LOW_CONFIDENCE"}), Item("key.1", {"word": "x"}))
    async with bench.working(named(echo, stops=["LOW_CONFIDENCE"])):
        end = await bench.end()
    assert end.silences == (Silence("key.0", "LOW_CONFIDENCE", "told to"),)


# --- bids -------------------------------------------------------------------------------------------------------------


def bids(item: Word, context: Context) -> Bid:
    context.use(input_tokens=2)
    if item.word == "no":
        return Bid(can=False)
    return Bid(confidence=0.8, micro_usd=len(item.word), seconds=2)


async def bid_of(bench: Bench, bid: Any, word: str = "hello", **options: Any) -> Any:
    await bench.put(Item("key", {"word": word}), kind="bid")
    async with bench.working(named(echo, bid=bid, **options)):
        return await bench.end()


async def test_bid_is_the_claim(bench: Bench) -> None:
    end = await bid_of(bench, bids)
    value = {"can": True, "confidence": 0.8, "micro_usd": 5, "seconds": 2.0}
    assert end.claims == (Claim("key", value, 0.8),)
    assert violation(BID_SCHEMA, value) is None
    assert end.usage == Usage(2)


async def test_who_cannot_says_so(bench: Bench) -> None:
    assert (await bid_of(bench, bids, "no")).claims[0].value["can"] is False


async def test_without_a_function_the_contract_bids(bench: Bench) -> None:
    end = await bid_of(bench, None, typical_usd=0.02, typical_s=7)
    assert end.claims[0].value == {"can": True, "confidence": 1.0, "micro_usd": 20_000, "seconds": 7.0}
    assert end.usage == Usage()


async def test_coroutine_function_bids_too_and_of_the_item_alone(bench: Bench) -> None:
    async def later(item: Word) -> Bid:
        await asyncio.sleep(0)
        return Bid(seconds=len(item.word))

    assert (await bid_of(bench, later)).claims[0].value["seconds"] == 5.0


class Sure(float):
    """Looks like a confidence."""


@pytest.mark.parametrize(
    ("bid", "problem"),
    [
        (Bid(confidence=7), "/confidence breaks"),
        (Bid(confidence=-0.1), "/confidence breaks"),
        (Bid(confidence=float("nan")), "a number that is not finite"),
        (Bid(confidence="sure"), "/confidence breaks"),  # type: ignore[arg-type]
        (Bid(confidence=None), "/confidence breaks"),  # type: ignore[arg-type]
        (Bid(micro_usd=-5), "/micro_usd breaks"),
        (Bid(micro_usd=0.5), "/micro_usd breaks"),  # type: ignore[arg-type]
        (Bid(micro_usd=2**70), "more than 64 bits"),
        (Bid(seconds=float("inf")), "a number that is not finite"),
        (Bid(can="yes"), "/can breaks"),  # type: ignore[arg-type]
        (Bid(can=object()), "TypeError"),  # type: ignore[arg-type]
        ({"can": True}, "a Bid is wanted, not an object of type dict"),
        (True, "a Bid is wanted, not an object of type bool"),
        (None, "a Bid is wanted, not an object of type NoneType"),
    ],
)
async def test_bid_that_is_none_is_an_invalid_output(bench: Bench, bid: Any, problem: str) -> None:
    end = await bid_of(bench, lambda item: bid)
    assert (end.code, end.claims) == ("INVALID_OUTPUT", ())
    assert end.message.startswith("the bid: ")
    assert problem in end.message


async def raises(item: Word) -> Bid:
    raise KeyError("no price list")


async def declines(item: Word) -> Bid:
    raise Stop("LOW_CONFIDENCE", "cannot say")


async def asks(item: Word) -> Bid:
    raise NeedsInput("how much?", {"type": "integer"})


async def hands(item: Word) -> Bid:
    raise HandOff("others")


async def overspends(item: Word, context: Context) -> Bid:
    context.use(input_tokens=100)
    return Bid()


@pytest.mark.parametrize(
    ("bid", "code", "message"),
    [
        (raises, "INTERNAL", "KeyError: 'no price list'"),
        (declines, "LOW_CONFIDENCE", "cannot say"),
        (asks, "INTERNAL", "NEEDS_INPUT is no answer to a call for bids"),
        (hands, "INTERNAL", "HANDED_OFF is no answer to a call for bids"),
    ],
)
async def test_bid_that_does_not_come_is_a_code(bench: Bench, bid: Any, code: str, message: str) -> None:
    end = await bid_of(bench, bid, authority="propose")
    assert (end.code, end.message, end.question, end.to) == (code, message, None, "")


async def test_bid_is_work_within_the_budget(bench: Bench) -> None:
    await bench.put(kind="bid", budget=Limits(tokens=99))
    async with bench.working(named(echo, bid=overspends)):
        end = await bench.end()
    assert (end.code, end.usage) == ("BUDGET_EXCEEDED", Usage(100))


async def test_bid_for_an_input_out_of_schema_is_none(bench: Bench) -> None:
    await bench.put(Item("key", {"word": 7}), kind="bid")
    async with bench.working(named(echo, bid=bids)):
        assert (await bench.end()).code == "INVALID_INPUT"


def no_item() -> Bid:
    return Bid()


def three_items(item: Word, context: Context, more: int) -> Bid:
    return Bid()


@pytest.mark.parametrize("bid", [no_item, three_items, Bid(), dict])
def test_function_that_cannot_bid_is_an_error_where_it_is_made(bid: Any) -> None:
    with pytest.raises(BadSpecialist, match="the item and, if it wants, the context"):
        named(echo, bid=bid)


# --- conflicts --------------------------------------------------------------------------------------------------------


class Conflict(BaseModel):
    key: str
    values: list[dict[str, float]]


async def settle(case: Conflict) -> dict[str, float]:
    return max(case.values, key=lambda value: value["rank"])


async def test_different_values_are_reconciled_like_any_work(bench: Bench) -> None:
    values = [{"rank": 1}, {"rank": 3}, {"rank": 2}]
    await bench.put(Item("price.tea", {"key": "price.tea", "values": values}), kind="reconcile")
    async with bench.working(named(settle)):
        end = await bench.end()
    assert end.claims == (Claim("price.tea", {"rank": 3.0}),)


async def test_who_cannot_read_the_values_does_not_reconcile_them(bench: Bench) -> None:
    values = [{"rank": "high"}]
    await bench.put(Item("price.tea", {"key": "price.tea", "values": values}), kind="reconcile")
    async with bench.working(named(settle)):
        assert (await bench.end()).code == "INVALID_INPUT"


async def test_task_of_an_unknown_kind_is_taken_out(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    await bench.put(kind="dream")
    async with bench.working(named(echo)):
        await bench.until(bench.idle)
    assert await bench.observations(object) == []
    assert "cannot be read" in caplog.text


# --- the rest of the contract -----------------------------------------------------------------------------------------


def test_contract_carries_back_off_and_what_wakes_it() -> None:
    made = named(echo, backoff_s=2, backoff_max_s=9, wakes_on=["price.*", "title"])
    contract = made.contract()
    assert (contract.backoff_s, contract.backoff_max_s, contract.wakes_on) == (2, 9, ["price.*", "title"])
    assert named(echo, wakes_on="price.*").contract().wakes_on == ["price.*"]
    assert read_contract(contract.model_dump_json(exclude_none=True).encode(), "worker") == contract


def test_longest_pause_is_no_shorter_than_the_first() -> None:
    assert named(echo, backoff_s=120).contract().backoff_max_s == 120
    assert named(echo).contract().backoff_max_s == 60
    with pytest.raises(BadSpecialist, match="backoff_max_s= is less than backoff_s="):
        named(echo, backoff_s=2, backoff_max_s=1)


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"wakes_on": ["a b"]}, "wakes_on: 'a b' is neither a fact key nor `prefix.*`"),
        ({"backoff_s": -1}, "backoff_s: is not allowed"),
        ({"authority": "rule"}, "authority: "),
        ({"stops": "TIMEOUT"}, "stops= has 'T'"),
    ],
)
def test_bad_promise_is_an_error_that_names_it(options: dict[str, Any], advice: str) -> None:
    with pytest.raises(BadSpecialist) as error:
        named(echo, **options)
    assert str(error.value).startswith("specialist 'worker': ")
    assert advice in str(error.value)


async def test_local_context_takes_a_kind_and_an_attempt() -> None:
    context = LocalContext(named(echo), kind="bid", attempt=3)
    assert (context.task.kind, context.task.attempt) == ("bid", 3)
