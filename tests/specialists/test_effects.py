"""Effects as a worker does them: the right to each, what comes of those that somebody else began, what is refused."""

import asyncio
import contextlib
import threading
from typing import Any

import pytest

from blackboard.log import Append
from schemas.codec import encode
from schemas.effects import effect_key
from schemas.inputs import EffectIntended, EffectReceipt, Ended, ToolCalled
from schemas.tasks import Item, Receipt
from specialists.context import LocalContext
from specialists.signature import BadSpecialist
from specialists.specialist import Context, Done, NotDone, Specialist, Stop, specialist, tool
from specialists.stop import EffectUnknown
from tests.specialists.bench import NAME, Bench, Word


class Till:
    """Counts what was paid, by key; raises what it is told to, before or after that."""

    def __init__(self) -> None:
        self.paid: list[tuple[str, int]] = []
        self.before: list[Exception] = []
        self.after: list[Exception] = []

    async def pay(self, amount: int, idempotency_key: str) -> dict[str, int]:
        if self.before:
            raise self.before.pop()
        self.paid.append((idempotency_key, amount))
        if self.after:
            raise self.after.pop()
        return {"paid": amount}

    async def look(self, key: str, arguments: dict[str, Any]) -> Done | bool:
        return Done({"paid": 5}) if any(one == key for one, _ in self.paid) else False


def paying(till: Till, *, probe: bool = False, catches: bool = False, times: int = 1) -> Specialist:
    pays = tool(till.pay, effect=True, probe=till.look if probe else None, settle_s=0.0)

    @specialist(NAME, offers="words", authority="effect", tools=[pays])
    async def payer(item: Word, context: Context) -> dict[str, int]:
        """Pays, and where it `catches` what is raised, tries once more."""
        for _ in range(times):
            try:
                paid = await context.tool("pay", amount=5)
            except Exception:
                if not catches:
                    raise
                paid = await context.tool("pay", amount=5)
        return dict(paid)

    return payer


def key_of(bench: Bench, number: int = 1) -> str:
    return effect_key(bench.log.id, "run", "step", "key", "pay", {"amount": 5}, number)


async def begun_by_another(bench: Bench, round_: int = 1, by: str = "other") -> None:
    key = key_of(bench)
    intent = EffectIntended(task="step", attempt=1, execution="gone", tool="pay", key=key, round=round_)
    await bench.log.append(Append(bench.board.subjects.intent(by, "run", key, round_), encode(intent), expected=0))


async def intents(bench: Bench) -> list[str]:
    found = [one.subject async for one in bench.log.read("bb.main.obs.*.run.*.*")]
    return [subject.split(".")[-1] for subject in found]


async def end_of(bench: Bench, payer: Specialist, **task: Any) -> Ended:
    await bench.put(Item("key", {"word": "x"}), **task)
    async with bench.working(payer):
        return await bench.end()


# --- done here --------------------------------------------------------------------------------------------------------


async def test_intent_effect_receipt(bench: Bench) -> None:
    till = Till()
    end = await end_of(bench, paying(till))
    assert end.claims[0].value == {"paid": 5}
    assert till.paid == [(key_of(bench), 5)]
    [receipt] = await bench.observations(EffectReceipt)
    assert (receipt.done, receipt.result, receipt.source) == (True, {"paid": 5}, "call")
    assert await intents(bench) == ["1"]
    assert [one.code for one in await bench.observations(ToolCalled)] == [""]


async def test_equal_calls_are_told_apart(bench: Bench) -> None:
    till = Till()
    await end_of(bench, paying(till, times=2))
    assert till.paid == [(key_of(bench, 1), 5), (key_of(bench, 2), 5)]


async def test_call_that_is_made_again_because_nothing_happened_is_the_same(bench: Bench) -> None:
    till = Till()
    till.before = [NotDone("too little")]
    end = await end_of(bench, paying(till, catches=True))
    assert end.code == ""
    assert till.paid == [(key_of(bench), 5)]
    assert await intents(bench) == ["1", "2"]


async def test_answer_that_is_lost_is_no_second_claim(bench: Bench) -> None:
    """The intent is stored, and asked for again: it is still the same worker's."""
    till, bench.log.deaf = Till(), 1
    end = await end_of(bench, paying(till))
    assert (end.code, len(till.paid)) == ("", 1)


async def test_nothing_happened_for_sure(bench: Bench) -> None:
    till = Till()
    till.before = [NotDone("the account is closed", "POLICY_BLOCKED")]
    end = await end_of(bench, paying(till))
    assert (end.code, end.message, till.paid) == ("POLICY_BLOCKED", "the account is closed", [])
    [receipt] = await bench.observations(EffectReceipt)
    assert not receipt.done


@pytest.mark.parametrize("catches", [False, True])
async def test_error_without_a_probe_is_not_known(bench: Bench, catches: bool) -> None:
    """Also where the specialist catches it, and comes to a value by another call."""
    till = Till()
    till.after = [ConnectionError("lost")]
    payer = paying(till, catches=catches)
    end = await end_of(bench, payer)
    assert end.code == "EFFECT_UNKNOWN"
    assert end.question is not None
    assert end.question.action == {"effect": key_of(bench), "round": 1, "tool": "pay", "arguments": {"amount": 5}}
    assert len(till.paid) == 1


@pytest.mark.parametrize("probe", [False, True])
async def test_specialist_that_loses_patience_pays_once(bench: Bench, probe: bool) -> None:
    """It waits for a call no longer than so, and makes it again."""
    till = Till()

    async def pay(amount: int, idempotency_key: str) -> dict[str, int]:
        await till.pay(amount, idempotency_key)
        await asyncio.sleep(60 if len(till.paid) == 1 else 0)
        return {"paid": amount}

    pays = tool(pay, effect=True, probe=till.look if probe else None, settle_s=0.0)

    @specialist(NAME, offers="words", authority="effect", tools=[pays])
    async def payer(item: Word, context: Context) -> dict[str, int]:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await context.tool("pay", amount=5)
        return dict(await context.tool("pay", amount=5))

    end = await end_of(bench, payer)
    assert (end.code, len(till.paid)) == ("" if probe else "EFFECT_UNKNOWN", 1)


@pytest.mark.parametrize("probe", [False, True])
async def test_specialist_that_goes_on_without_knowing_has_no_value(bench: Bench, probe: bool) -> None:
    till = Till()

    async def pay() -> None:
        await asyncio.sleep(60)

    pays = tool(pay, effect=True, probe=till.look if probe else None, settle_s=0.0)

    @specialist(NAME, offers="words", authority="effect", tools=[pays])
    async def payer(item: Word, context: Context) -> str:
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(0.05):
                await context.tool("pay")
        return "all is well"

    assert (await end_of(bench, payer)).code == ("TIMEOUT" if probe else "EFFECT_UNKNOWN")


async def test_error_with_a_probe_is_looked_up(bench: Bench) -> None:
    till = Till()
    till.after = [ConnectionError("lost")]
    end = await end_of(bench, paying(till, probe=True))
    assert (end.claims[0].value, len(till.paid)) == ({"paid": 5}, 1)
    [receipt] = await bench.observations(EffectReceipt)
    assert receipt.source == "probe"


async def test_error_before_it_was_done_is_raised(bench: Bench) -> None:
    till = Till()
    till.before = [Stop("TIMEOUT", "slow")]
    end = await end_of(bench, paying(till, probe=True))
    assert (end.code, till.paid) == ("TIMEOUT", [])


# --- begun by somebody else -------------------------------------------------------------------------------------------


async def test_what_another_has_begun_is_not_done_without_a_probe(bench: Bench) -> None:
    till = Till()
    await begun_by_another(bench)
    end = await end_of(bench, paying(till))
    assert (end.code, till.paid) == ("EFFECT_UNKNOWN", [])


async def test_what_another_has_done_is_taken_over(bench: Bench) -> None:
    till = Till()
    till.paid.append((key_of(bench), 5))
    await begun_by_another(bench)
    end = await end_of(bench, paying(till, probe=True))
    assert (end.claims[0].value, len(till.paid)) == ({"paid": 5}, 1)


async def test_what_another_has_not_done_is_done_in_the_next_round(bench: Bench) -> None:
    till = Till()
    await begun_by_another(bench, 1)
    await begun_by_another(bench, 2, by=NAME)
    end = await end_of(bench, paying(till, probe=True))
    assert (end.code, len(till.paid)) == ("", 1)
    assert await intents(bench) == ["1", "2", "3"]


@pytest.mark.parametrize("done", [True, False])
async def test_receipts_that_the_task_carries_decide(bench: Bench, done: bool) -> None:
    till = Till()
    await begun_by_another(bench)
    known = (Receipt(key_of(bench), 1, done, {"paid": 7} if done else None),)
    end = await end_of(bench, paying(till), effects=known, attempt=2)
    assert end.claims[0].value == ({"paid": 7} if done else {"paid": 5})
    assert len(till.paid) == (0 if done else 1)


async def test_cancelled_task_begins_no_effect() -> None:
    till = Till()
    context = LocalContext(paying(till))
    context.cancelled = True
    with pytest.raises(Stop, match="TIMEOUT: pay was not begun"):
        await context.tool("pay", amount=5)
    assert (till.paid, [type(one) for one in context.observations]) == ([], [ToolCalled])


async def test_right_that_came_too_late_is_given_back(monkeypatch: pytest.MonkeyPatch) -> None:
    till = Till()
    context = LocalContext(paying(till))
    monkeypatch.setattr("specialists.effects.CLAIM_S", -1.0)
    with pytest.raises(Stop, match="not begun: it took"):
        await context.tool("pay", amount=5)
    assert till.paid == []
    assert [one.done for one in context.observations if isinstance(one, EffectReceipt)] == [False]


async def test_what_is_cut_off_in_the_middle_says_nothing_of_it() -> None:
    begun = asyncio.Event()

    async def pay() -> None:
        begun.set()
        await asyncio.sleep(60)

    async def payer(item: Word, context: Context) -> str:
        return "x"

    made = specialist(NAME, offers="words", authority="effect", tools=[tool(pay, effect=True)])(payer)
    context = LocalContext(made)
    call = asyncio.create_task(context.tool("pay"))
    await begun.wait()
    call.cancel()
    await asyncio.wait({call})
    told = [*context.observations, *context.unrecorded]
    assert [type(one) for one in told] == [EffectIntended, ToolCalled]


class Cut(LocalContext):
    """A context in which the first appends of one kind hang, after they were stored or before."""

    def __init__(self, made: Specialist, kind: type[Any], stored: bool) -> None:
        super().__init__(made)
        self._kind, self._stored, self._hung = kind, stored, False
        self.record = self._record_or_hang

    async def _record_or_hang(self, observation: Any) -> bool:
        if isinstance(observation, self._kind) and not self._hung:
            self._hung = True
            if self._stored:
                self.observations.append(observation)
            await asyncio.sleep(60)
        self.observations.append(observation)
        return True


@pytest.mark.parametrize("kind", [EffectIntended, EffectReceipt])
@pytest.mark.parametrize("stored", [True, False])
async def test_what_is_cut_off_while_it_is_recorded_is_done_once(kind: type[Any], stored: bool) -> None:
    till = Till()
    context = Cut(paying(till), kind, stored)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(0.05):
            await context.tool("pay", amount=5)
    assert await context.tool("pay", amount=5) == {"paid": 5}
    assert len(till.paid) == 1
    told = [one for one in (*context.observations, *context.unrecorded) if isinstance(one, EffectReceipt)]
    assert {(one.round, one.done) for one in told} == {(1, True)}


async def test_thread_that_cannot_be_stopped_is_waited_for() -> None:
    till, returned = Till(), threading.Event()

    def pay(idempotency_key: str) -> str:
        returned.wait(5)
        till.paid.append((idempotency_key, 5))
        return "paid"

    async def payer(item: Word, context: Context) -> str:
        return "x"

    pays = tool(pay, effect=True, probe=till.look, settle_s=0.0, timeout_s=0.05)
    context = LocalContext(specialist(NAME, offers="words", authority="effect", tools=[pays])(payer))
    asyncio.get_running_loop().call_later(0.2, returned.set)
    assert await context.tool("pay") == {"paid": 5}
    assert len(till.paid) == 1


# --- arguments and definitions ----------------------------------------------------------------------------------------


async def test_arguments_that_cannot_be_named_exactly_are_refused() -> None:
    till = Till()

    async def pay(what: object) -> None:
        till.paid.append(("", 0))

    async def payer(item: Word, context: Context) -> str:
        return "x"

    made = specialist(NAME, offers="words", authority="effect", tools=[tool(pay, effect=True)])(payer)
    for odd in (object(), "x" * 20_000):
        with pytest.raises(Stop, match="INVALID_INPUT"):
            await LocalContext(made).tool("pay", what=odd)
    assert till.paid == []


async def test_key_is_not_the_callers_to_choose() -> None:
    with pytest.raises(TypeError, match="idempotency_key is given by the board"):
        await LocalContext(paying(Till())).tool("pay", amount=5, idempotency_key="mine")


async def test_unknown_is_no_stop() -> None:
    till = Till()
    till.after = [ConnectionError("lost")]
    with pytest.raises(EffectUnknown, match="Was pay done"):
        await LocalContext(paying(till)).tool("pay", amount=5)


async def _pay(amount: int) -> int:
    return amount


async def _other(sum: int) -> int:
    return sum


@pytest.mark.parametrize(
    ("given", "problem"),
    [
        ({"probe": _other}, "say effect=True"),
        ({"effect": True, "undo": _other}, "takes 'sum', which is none of"),
        ({"effect": True, "undo": tool(_other)}, "takes a function, or an effect"),
    ],
)
def test_tools_that_do_not_fit_together(given: dict[str, Any], problem: str) -> None:
    with pytest.raises(BadSpecialist, match=problem):
        tool(_pay, **given)


@pytest.mark.parametrize(
    ("given", "problem"),
    [({}, 'takes authority="effect"'), ({"authority": "effect", "stops": ["TOOL_DOWN"]}, "list EFFECT_UNKNOWN")],
)
def test_specialists_that_may_not(given: dict[str, Any], problem: str) -> None:
    async def payer(item: Word, context: Context) -> str:
        return "x"

    with pytest.raises(BadSpecialist, match=problem):
        specialist(NAME, offers="words", tools=[tool(_pay, effect=True)], **given)(payer)


def test_contract_says_what_a_tool_promises() -> None:
    async def payer(item: Word, context: Context) -> str:
        return "x"

    paying = tool(_pay, effect=True, probe=_other, undo=_pay)
    contract = specialist(NAME, offers="words", authority="effect", tools=[paying])(payer).contract()
    assert contract.tools[0].model_dump()["effect"] == {"probe": True, "undo": "_pay"}
