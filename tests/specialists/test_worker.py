"""The worker over the ports in memory: what it takes, what it says at the end, and what it leaves to others."""

import asyncio
import logging
import threading
from dataclasses import replace
from typing import Any

import pytest

from blackboard.client import Client
from blackboard.log import NotPermitted
from schemas.contracts import EXECUTIONS_LIMIT
from schemas.events import Claim, Silence
from schemas.inputs import Observation, Progress, Started, ToolCalled
from schemas.tasks import Item, ReadFact
from schemas.usage import Usage
from specialists.signature import BadSpecialist
from specialists.specialist import Context, Specialist
from specialists.worker import Timing
from specialists.worker_events import Begun, Finished, Offered
from tests.specialists.bench import ACK_WAIT_S, NAME, PATIENCE_S, TIMING, Bench, Word, echo, named


class Gate:
    """A specialist's body that tells when it began and goes on when it may."""

    def __init__(self) -> None:
        self.began, self.may, self.calls, self.cancelled = asyncio.Event(), asyncio.Event(), 0, False

    async def __call__(self, item: Word, context: Context) -> dict[str, str]:
        self.calls += 1
        self.began.set()
        try:
            await self.may.wait()
        finally:
            self.cancelled = context.cancelled
        return {"word": item.word}

    def specialist(self, **options: Any) -> Specialist:
        async def gate(item: Word, context: Context) -> dict[str, str]:
            return await self(item, context)

        return named(gate, **options)


# --- what the end says ------------------------------------------------------------------------------------------------


async def test_contract_task_claim_and_acknowledgement(bench: Bench) -> None:
    await bench.put()
    async with bench.working(named(echo)):
        end = await bench.end()
    assert end.claims == (Claim("key", {"word": "hello", "confidence": 0.5}, 0.5),)
    assert (end.task, end.attempt, end.code, end.usage) == ("step", 1, "", Usage(2))
    assert len(end.execution) == 16
    offered, begun, finished = bench.told
    assert isinstance(offered, Offered)
    assert isinstance(begun, Begun)
    assert isinstance(finished, Finished)
    assert (finished.how, finished.code, finished.usage) == ("stored", "", Usage(2))
    found = (await Client(bench.board, "x").catalogue()).contract(NAME)
    assert found == (offered.seq, offered.contract)


async def test_contract_is_offered_once(bench: Bench) -> None:
    for _ in range(2):
        async with bench.working(named(echo)):
            await bench.until(lambda: bool(bench.told))
        bench.told.clear()
    assert len([one async for one in bench.log.read("bb.main.contract.worker")]) == 1


async def test_facts_come_with_the_task(bench: Bench) -> None:
    async def reads(item: Word, context: Context) -> dict[str, int]:
        return {"value": context.facts["a.b"], "version": context.facts.versions["a.b"]}

    await bench.put(facts={"a.b": ReadFact(7, 2)})
    async with bench.working(named(reads)):
        assert (await bench.end()).claims[0].value == {"value": 7, "version": 2}


@pytest.mark.parametrize("code", ["LOW_CONFIDENCE", "TOOL_DOWN"])
async def test_stop_of_an_only_item_is_the_end(bench: Bench, code: str) -> None:
    await bench.put(Item("key", {"code": code}))
    async with bench.working(named(echo)):
        end = await bench.end()
    assert (end.code, end.message, end.claims, end.silences) == (code, "told to", (), ())


@pytest.mark.parametrize("codes", [("", "LOW_CONFIDENCE"), ("LOW_CONFIDENCE", "LOW_CONFIDENCE")])
async def test_of_several_items_those_without_a_value_are_silent(bench: Bench, codes: tuple[str, ...]) -> None:
    await bench.put(*(Item(f"key.{index}", {"code": code}) for index, code in enumerate(codes)))
    async with bench.working(named(echo)):
        end = await bench.end()
    assert end.code == ""
    silent = [f"key.{index}" for index, code in enumerate(codes) if code]
    assert end.silences == tuple(Silence(key, "LOW_CONFIDENCE", "told to") for key in silent)
    assert [claim.key for claim in end.claims] == [f"key.{index}" for index, code in enumerate(codes) if not code]


async def test_item_that_may_do_better_next_time_ends_the_task(bench: Bench) -> None:
    calls = []

    async def counts(item: Word, context: Context) -> dict[str, str | float]:
        calls.append(item.word)
        return await echo(item, context)

    items = [Item("key.0", {"word": "a"}), Item("key.1", {"word": "b", "code": "TOOL_DOWN"}), Item("key.2", {})]
    await bench.put(*items)
    async with bench.working(named(counts)):
        end = await bench.end()
    assert (end.code, end.message, end.claims, end.silences) == ("TOOL_DOWN", "key.1: told to", (), ())
    assert calls == ["a", "b"]
    assert end.usage == Usage(2)


async def test_values_too_large_together_are_an_invalid_output(bench: Bench) -> None:
    async def long(item: Word) -> dict[str, str]:
        return {"word": "x" * 60_000}

    await bench.put(*(Item(f"key.{index}", {}) for index in range(20)))
    async with bench.working(named(long)):
        end = await bench.end()
    assert (end.code, end.claims) == ("INVALID_OUTPUT", ())
    assert "context.blob()" in end.message


async def test_work_limit_holds_for_all_items_together(bench: Bench) -> None:
    async def slow(item: Word, context: Context) -> Word:
        await asyncio.sleep(0.2)
        context.use(input_tokens=1)
        return item

    await bench.put(*(Item(f"key.{index}", {}) for index in range(100)), work_ms=500)
    async with bench.working(named(slow)):
        end = await bench.end()
    assert (end.code, end.message, end.claims) == ("TIMEOUT", "not ended within 500 ms of work", ())
    assert 1 <= end.usage.input_tokens <= 2


async def test_coroutine_that_will_not_be_cancelled_is_left_behind_and_keeps_its_place(bench: Bench) -> None:
    may, calls = asyncio.Event(), []

    async def stubborn(item: Word) -> Word:
        calls.append(item.word)
        while not may.is_set():
            try:
                await may.wait()
            except asyncio.CancelledError:
                continue
        return item

    await bench.put(work_ms=50)
    async with bench.working(named(stubborn), concurrency=1):
        assert (await bench.end()).code == "TIMEOUT"
        await bench.put(name="next")
        await asyncio.sleep(5 * TIMING.pull_s)
        assert len(calls) == 1
        may.set()
        await bench.until(bench.idle)
    assert len(calls) == 2


async def test_plain_function_past_its_limit_keeps_its_place(bench: Bench) -> None:
    may, saw = threading.Event(), []

    def blocks(item: Word, context: Context) -> Word:
        may.wait(PATIENCE_S)
        saw.append(context.cancelled)
        return item

    await bench.put(work_ms=50)
    async with bench.working(named(blocks), concurrency=1):
        assert (await bench.end()).code == "TIMEOUT"
        await bench.put(name="next")
        await asyncio.sleep(5 * TIMING.pull_s)
        assert saw == []
        may.set()
        await bench.until(bench.idle)
    assert saw == [True, False]


async def test_specialist_that_cancels_itself_is_internal(bench: Bench) -> None:
    async def cancels(item: Word) -> Word:
        raise asyncio.CancelledError

    await bench.put()
    async with bench.working(named(cancels)):
        assert (await bench.end()).code == "INTERNAL"


class Panic(BaseException):
    """As libraries in Rust raise it."""


async def panics(item: Word) -> Word:
    raise Panic("index out of bounds")


def panics_in_its_thread(item: Word) -> Word:
    raise Panic("index out of bounds")


@pytest.mark.parametrize("function", [panics, panics_in_its_thread])
async def test_panic_of_a_library_ends_the_task_and_not_the_worker(
    bench: Bench, function: Any, caplog: pytest.LogCaptureFixture
) -> None:
    await bench.put()
    async with bench.working(named(function)):
        assert (await bench.end()).message == "Panic: index out of bounds"
        await bench.put(name="next")
        await bench.until(bench.idle)
    assert [one.code for one in await bench.observations()] == ["INTERNAL"] * 2
    assert all(one.exc_info for one in caplog.records if one.levelno == logging.ERROR)


def test_one_name_is_one_specialist(bench: Bench) -> None:
    with pytest.raises(BadSpecialist, match="two specialists have the name 'worker'"):
        bench.worker(named(echo), named(echo))


# --- while it works ---------------------------------------------------------------------------------------------------


async def test_heartbeat_keeps_a_long_task(bench: Bench) -> None:
    gate = Gate()
    await bench.put()
    async with bench.working(gate.specialist()):
        await gate.began.wait()
        await asyncio.sleep(2.5 * ACK_WAIT_S)
        assert await bench.queue.pull(NAME, 0) is None
        gate.may.set()
        await bench.end()
    assert gate.calls == 1


async def test_board_hears_of_long_work_and_only_of_that(bench: Bench) -> None:
    gate = Gate()
    await bench.put()
    timing = Timing(**(vars(TIMING) | {"started_after_s": 0.05}))
    async with bench.working(gate.specialist(), timing=timing):
        await bench.until(lambda: _any(bench, Started))
        gate.may.set()
        end = await bench.end()
    (started,) = await bench.observations(Started)
    assert (started.task, started.attempt, started.execution) == (end.task, end.attempt, end.execution)
    await bench.put(name="quick")
    async with bench.working(named(echo)):
        await bench.until(bench.idle)
    assert len(await bench.observations(Started)) == 1


async def _any(bench: Bench, kind: type[Observation]) -> bool:
    return bool(await bench.observations(kind))


async def test_progress_tools_and_blobs_reach_the_board(bench: Bench) -> None:
    async def shout(word: str) -> str:
        return word.upper()

    async def busy(item: Word, context: Context) -> dict[str, str]:
        await context.progress("half", 0.5)
        blob = await context.blob((await context.tool(shout, word=item.word)).encode())
        return {"sha256": blob.sha256}

    await bench.put()
    async with bench.working(named(busy, tools=[shout])):
        end = await bench.end()
    assert await bench.board.blobs.get(end.claims[0].value["sha256"]) == b"HELLO"
    (progress,), (called,) = await bench.observations(Progress), await bench.observations(ToolCalled)
    assert (progress.message, progress.fraction, called.tool) == ("half", 0.5, "shout")
    assert called.execution == progress.execution == end.execution
    assert end.usage == Usage(tool_calls=1)


async def test_tool_that_was_interrupted_is_recorded_with_the_end(bench: Bench) -> None:
    async def hangs() -> str:
        await asyncio.Event().wait()
        return ""

    async def busy(item: Word, context: Context) -> dict[str, str]:
        return {"text": await context.tool(hangs)}

    await bench.put(work_ms=50)
    async with bench.working(named(busy, tools=[hangs])):
        assert (await bench.end()).code == "TIMEOUT"
    (called,) = await bench.observations(ToolCalled)
    assert (called.tool, called.code) == ("hangs", "TIMEOUT")


async def test_as_many_at_once_as_allowed(bench: Bench) -> None:
    gate, peak = Gate(), []

    async def counted(item: Word, context: Context) -> dict[str, str]:
        peak.append(len(peak))
        return await gate(item, context)

    for number in range(5):
        await bench.put(name=f"step-{number}")
    async with bench.working(named(counted), concurrency=3):
        await bench.until(lambda: len(peak) == 3)
        await asyncio.sleep(2 * TIMING.pull_s)
        assert len(peak) == 3
        gate.may.set()
        await bench.until(bench.idle)
    assert len(await bench.observations()) == 5


# --- what is not executed ---------------------------------------------------------------------------------------------


async def test_task_that_cannot_be_read_is_taken_out(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    await bench.put_bytes(b"{")
    async with bench.working(named(echo)):
        await bench.until(bench.idle)
    assert await bench.observations(object) == []
    assert "cannot be read" in caplog.text


async def test_task_of_another_log_is_left_to_others(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    key = await bench.put(log="another")
    async with bench.working(named(echo)):
        await bench.until(lambda: "another is not ours" in caplog.text)
    assert await bench.queue.keys() == {key}
    assert await bench.observations(object) == []


async def test_task_that_kills_its_workers_ends(bench: Bench) -> None:
    gate = Gate()
    await bench.put()
    for _ in range(EXECUTIONS_LIMIT):
        delivery = await bench.queue.pull(NAME, 1)
        assert delivery is not None
        await delivery.release()
    async with bench.working(gate.specialist()):
        end = await bench.end()
    assert (end.code, end.message, gate.calls) == ("INTERNAL", f"killed its worker {EXECUTIONS_LIMIT} times", 0)


async def test_task_of_a_worker_that_died_is_done_by_another(bench: Bench) -> None:
    gate = Gate()
    await bench.put()
    dying = asyncio.create_task(bench.worker(gate.specialist()).run(asyncio.Event()))
    await gate.began.wait()
    dying.cancel()
    await asyncio.wait([dying])
    async with bench.working(named(echo)):
        end = await bench.end()
    assert end.claims[0].value["word"] == "hello"


async def test_task_that_comes_again_while_in_work_is_done_once(bench: Bench) -> None:
    """The queue was lost, and the supervisor filled it again."""
    gate = Gate()
    await bench.put()
    async with bench.working(gate.specialist()):
        await gate.began.wait()
        bench.queue.lose()
        await bench.put()
        await bench.until(lambda: _is_held(bench))
        gate.may.set()
        await bench.end()
    assert gate.calls == 1


async def _is_held(bench: Bench) -> bool:
    waiting = next(iter(bench.queue._entries.values()))
    return waiting.count > 0


async def test_cancelled_task_says_nothing(bench: Bench) -> None:
    gate, other = Gate(), Gate()
    key = await bench.put()

    async def either(item: Word, context: Context) -> dict[str, str]:
        return await (gate if context.task.task == "step" else other)(item, context)

    await bench.put(name="other")
    async with bench.working(named(either)):
        await gate.began.wait()
        await other.began.wait()
        await bench.queue.cancel(key)
        await bench.until(lambda: any(isinstance(one, Finished) for one in bench.told))
        assert gate.cancelled
        assert await bench.observations(object) == []
        other.may.set()
        assert (await bench.end()).task == "other"
    assert [one.how for one in bench.told if isinstance(one, Finished)] == ["cancelled", "stored"]


# --- when things go away ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("queue_s", "levels"), [(60, [logging.INFO]), (0.1, [logging.INFO, logging.WARNING])])
async def test_queue_that_goes_and_comes_back(
    bench: Bench, caplog: pytest.LogCaptureFixture, queue_s: float, levels: list[int]
) -> None:
    """Its absence is no news at first: the supervisor makes it anew after each start of the server."""
    caplog.set_level(logging.INFO)

    def said(text: str) -> list[int]:
        return [one.levelno for one in caplog.records if text in one.getMessage()]

    async with bench.working(named(echo), timing=replace(TIMING, queue_s=queue_s)):
        await bench.until(lambda: len(said("the queue of worker is away")) == len(levels))
        await asyncio.sleep(10 * TIMING.backoff_s[1])
        await bench.put()
        await bench.end()
        await bench.until(lambda: "the queue of worker is back" in caplog.text)
    assert said("is away") == levels
    assert said("is back") == levels[-1:]


async def test_end_waits_for_the_log(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    gate = Gate()
    await bench.put()
    async with bench.working(gate.specialist()):
        await gate.began.wait()
        bench.log.down, asked = True, bench.log.asked
        gate.may.set()
        await bench.until(lambda: bench.log.asked > asked + 3)
        assert not await bench.idle()
        bench.log.down = False
        assert (await bench.end()).claims != ()
    assert caplog.text.count("the log is away") == caplog.text.count("the log is back") == 1


async def test_end_that_is_stored_twice_has_the_same_bytes(bench: Bench) -> None:
    await bench.put()
    bench.log.deaf = 2
    async with bench.working(named(echo)):
        await bench.until(bench.idle)
    stored = [one.data async for one in bench.log.read("bb.main.obs.worker.run")]
    assert len(stored) == 3
    assert len(set(stored)) == 1


async def test_progress_does_not_wait_for_the_log_and_tools_do(bench: Bench) -> None:
    async def tool() -> int:
        return 1

    async def busy(item: Word, context: Context) -> dict[str, int]:
        bench.log.down = True
        await context.progress("lost")
        asyncio.get_running_loop().call_later(0.1, setattr, bench.log, "down", False)
        return {"one": await context.tool(tool)}

    await bench.put()
    async with bench.working(named(busy, tools=[tool])):
        assert (await bench.end()).claims[0].value == {"one": 1}
    assert await bench.observations(Progress) == []
    assert len(await bench.observations(ToolCalled)) == 1


async def test_log_that_refuses_ends_the_worker(bench: Bench) -> None:
    await bench.put()
    bench.log.refuses = True
    with pytest.raises(NotPermitted):
        await asyncio.wait_for(bench.worker(named(echo)).run(asyncio.Event()), PATIENCE_S)
    assert not await bench.idle()


# --- stopping ---------------------------------------------------------------------------------------------------------


async def test_task_in_work_may_end(bench: Bench) -> None:
    gate = Gate()
    await bench.put()
    async with bench.working(gate.specialist()) as stop:
        await gate.began.wait()
        stop.set()
        later = await bench.put(name="later")
        await asyncio.sleep(2 * TIMING.pull_s)
        gate.may.set()
    assert len(await bench.observations()) == 1
    assert await bench.queue.keys() == {later}


async def test_task_that_does_not_end_in_time_is_released(bench: Bench) -> None:
    gate = Gate()
    key = await bench.put()
    async with bench.working(gate.specialist(), drain_s=0.1) as stop:
        await gate.began.wait()
        stop.set()
    assert gate.cancelled
    assert await bench.observations(object) == []
    delivery = await bench.queue.pull(NAME, 0)
    assert delivery is not None
    assert (delivery.key, delivery.count) == (key, 2)
    assert [one.how for one in bench.told if isinstance(one, Finished)] == ["released"]


async def test_end_that_cannot_be_stored_in_time_is_released(bench: Bench) -> None:
    gate = Gate()
    await bench.put()
    async with bench.working(gate.specialist(), drain_s=0.1) as stop:
        await gate.began.wait()
        bench.log.down, asked = True, bench.log.asked
        gate.may.set()
        await bench.until(lambda: bench.log.asked > asked)
        stop.set()
    assert await bench.queue.pull(NAME, 0) is not None


async def test_thread_that_does_not_return_does_not_hold_up_the_worker(bench: Bench) -> None:
    may, began = threading.Event(), threading.Event()

    def blocks(item: Word) -> Word:
        began.set()
        may.wait(PATIENCE_S)
        return item

    await bench.put()
    async with bench.working(named(blocks), drain_s=0.05) as stop:
        await bench.until(began.is_set)
        stop.set()
    may.set()
    assert await bench.queue.pull(NAME, 0) is not None


async def test_nothing_is_left_running(bench: Bench) -> None:
    before = asyncio.all_tasks()
    for number in range(20):
        await bench.put(name=f"step-{number}")
    async with bench.working(named(echo)):
        await bench.until(bench.idle)
    assert asyncio.all_tasks() == before
