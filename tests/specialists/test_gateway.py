"""The gateway: limits of time and size of each tool, and calls that a model asked for."""

import asyncio
import threading
from typing import Any

import pytest

from schemas.codec import digest
from schemas.inputs import ToolCalled
from schemas.usage import Usage
from specialists.context import LocalContext
from specialists.signature import BadSpecialist
from specialists.specialist import Budget, Context, NeedsInput, Stop, tool
from tests.specialists.bench import Bench, Word, echo, named


def with_tools(*tools: Any, **options: Any) -> LocalContext:
    return LocalContext(named(echo, tools=tools), **options)


def calls(context: LocalContext) -> list[ToolCalled]:
    return [one for one in context.observations if isinstance(one, ToolCalled)]


async def stopped(context: Context, name: Any, **arguments: Any) -> Stop:
    with pytest.raises(Stop) as stop:
        await context.tool(name, **arguments)
    return stop.value


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"timeout_s": 0}, "timeout_s= of tool 'echoes' is more than 0"),
        ({"timeout_s": float("nan")}, "timeout_s= of tool 'echoes' is more than 0"),
        ({"timeout_s": 1e9}, "at most 86400 seconds"),
        ({"output_limit": 0}, "output_limit= of tool 'echoes' is a number of bytes, at least 1"),
    ],
)
def test_limits_that_are_none_are_errors(options: dict[str, Any], advice: str) -> None:
    with pytest.raises(BadSpecialist, match=advice):
        tool(echoes, **options)


# --- time -------------------------------------------------------------------------------------------------------------


async def test_coroutine_is_cancelled_at_the_time_out_of_its_tool() -> None:
    ended = asyncio.Event()

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.set()

    context = with_tools(tool(hangs, timeout_s=0.02))
    stop = await stopped(context, hangs)
    assert str(stop) == "TIMEOUT: tool hangs did not answer within 0.02 s"
    assert ended.is_set()
    assert (calls(context)[0].code, calls(context)[0].output) == ("TIMEOUT", "")
    assert (context.unrecorded, context.threads, context.usage) == ([], set(), Usage(tool_calls=1))


@pytest.mark.parametrize("which", ["stubborn", "blocks"])
async def test_what_cannot_be_cancelled_keeps_its_place_until_it_ends(which: str) -> None:
    may, released = threading.Event(), asyncio.Event()

    async def stubborn() -> None:
        while not released.is_set():
            try:
                await released.wait()
            except asyncio.CancelledError:
                continue

    def blocks() -> None:
        may.wait(20)

    context = with_tools(tool(stubborn, timeout_s=0.02), tool(blocks, timeout_s=0.02))
    assert (await stopped(context, which)).code == "TIMEOUT"
    assert len(context.threads) == 1
    released.set()
    may.set()
    await asyncio.wait([*context.threads])
    assert [one.code for one in calls(context)] == ["TIMEOUT"]


async def test_tool_in_time_gives_what_it_gives_or_raises() -> None:
    async def fails() -> None:
        raise TimeoutError("its own")

    context = with_tools(tool(echoes, timeout_s=20), tool(fails, timeout_s=20))
    assert await context.tool(echoes, text="a") == "a"
    assert str(await stopped(context, fails)) == "TOOL_DOWN: tool fails: TimeoutError: its own"


async def test_interrupted_call_with_a_time_out_is_kept_for_the_end(bench: Bench) -> None:
    ended: list[str] = []

    async def hangs() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            ended.append("cancelled")

    async def calling(item: Word, context: Context) -> dict[str, str]:
        return {"text": await context.tool(hangs)}

    await bench.put(work_ms=50)
    async with bench.working(named(calling, tools=[tool(hangs, timeout_s=20)])):
        assert (await bench.end()).code == "TIMEOUT"
    (called,) = await bench.observations(ToolCalled)
    assert (called.message, ended) == ("interrupted before it answered", ["cancelled"])


# --- size -------------------------------------------------------------------------------------------------------------


async def echoes(text: str, times: int = 1) -> str:
    return text * times


async def zeros(size: int) -> bytes:
    return bytes(size)


async def test_output_over_the_limit_is_a_typed_error_for_code() -> None:
    context = with_tools(echoes, tool(zeros, output_limit=10))
    assert len(await context.tool(echoes, text="x", times=64 * 1024 - 2)) == 64 * 1024 - 2  # with two quotes
    stop = await stopped(context, echoes, text="x", times=64 * 1024 - 1)
    assert str(stop).startswith(
        "INVALID_OUTPUT: tool echoes gave 65537 bytes, over its limit of 65536: it should store"
    )
    assert await context.tool(zeros, size=10) == bytes(10)
    assert (await stopped(context, zeros, size=11)).code == "INVALID_OUTPUT"
    assert [one.code for one in calls(context)] == ["", "INVALID_OUTPUT", "", "INVALID_OUTPUT"]
    assert calls(context)[1].output == digest("x" * (64 * 1024 - 1))


async def test_model_reads_the_beginning_of_what_is_too_long_and_all_of_it_is_a_blob() -> None:
    context = with_tools(tool(echoes, output_limit=10))
    reply = await context.requested("echoes", {"text": "aé", "times": 100})
    assert reply.blob is not None
    assert reply.text == (
        f"aéaéaéa\n[cut: 300 bytes in all, over the limit of 10; all of it is blob {reply.blob.sha256}]"
    )
    assert await context.read_blob(reply.blob) == ("aé" * 100).encode()
    assert [one.code for one in calls(context)] == [""]


# --- what a model asks for --------------------------------------------------------------------------------------------


async def add(a: int, b: int = 2) -> dict[str, int]:
    return {"sum": a + b}


@pytest.mark.parametrize("arguments", [{"a": 1}, '{"a": 1, "b": 2}', {"a": "1"}])
async def test_model_asks_for_a_call(arguments: Any) -> None:
    context = with_tools(add)
    reply = await context.requested("add", arguments)
    assert (reply.text, reply.code, reply.value) == ('{"sum":3}', "", {"sum": 3})
    assert calls(context)[0].input == digest({"a": 1, "b": 2})


@pytest.mark.parametrize(
    ("name", "arguments", "code", "text"),
    [
        ("add", {"a": "one"}, "INVALID_INPUT", "INVALID_INPUT: tool add: a: Input should be a valid integer"),
        ("add", {}, "INVALID_INPUT", "INVALID_INPUT: missing a required argument: 'a'"),
        ("add", "{", "INVALID_INPUT", "INVALID_INPUT: tool add: its arguments are not JSON"),
        ("add", "[1]", "INVALID_INPUT", "INVALID_INPUT: tool add: its arguments are an object, not list"),
        ("add", "[" * 100_000, "INVALID_INPUT", "INVALID_INPUT: tool add: its arguments are not JSON"),
        ("shell", {"a": 1}, "POLICY_BLOCKED", "POLICY_BLOCKED: tool 'shell' is not among those of this specialist"),
        ("shell", "{", "POLICY_BLOCKED", "POLICY_BLOCKED: tool 'shell' is not among those"),
        ("Add", {"a": 1}, "POLICY_BLOCKED", "POLICY_BLOCKED: tool 'Add' is not among those"),
        ("add ", {"a": 1}, "POLICY_BLOCKED", "POLICY_BLOCKED: tool 'add ' is not among those"),
        ("\N{FULLWIDTH LATIN SMALL LETTER A}dd", {"a": 1}, "POLICY_BLOCKED", "POLICY_BLOCKED: tool "),
        ("\ud800", {"a": 1}, "POLICY_BLOCKED", "POLICY_BLOCKED: tool "),
        ("x" * 10_000, {"a": 1}, "POLICY_BLOCKED", "POLICY_BLOCKED: tool "),
        ("breaks", {}, "TOOL_DOWN", "TOOL_DOWN: tool breaks: ConnectionError: no route"),
    ],
)
async def test_what_a_model_did_wrong_is_a_reply_and_recorded(name: str, arguments: Any, code: str, text: str) -> None:
    async def breaks() -> None:
        raise ConnectionError("no route")

    context = with_tools(add, breaks)
    reply = await context.requested(name, arguments)
    assert (reply.code, reply.value) == (code, None)
    assert reply.text.startswith(text)
    assert [one.code for one in calls(context)] == [code]


async def test_model_is_refused_what_its_budget_does_not_hold() -> None:
    context = LocalContext(named(echo, tools=[add], budget=Budget(tool_calls=1)))
    assert (await context.requested("add", {"a": 1})).code == ""
    assert (await context.requested("add", {"a": 1})).text == (
        "BUDGET_EXCEEDED: the budget is 1 calls of tools, all are used"
    )


async def test_model_does_not_do_without_the_approval() -> None:
    context = with_tools(tool(add, confirm=True))
    with pytest.raises(NeedsInput, match="may worker call add"):
        await context.requested("add", {"a": 1})


async def test_tool_that_calls_another_through_the_context_passes_the_same_gateway() -> None:
    async def outer(name: str) -> Any:
        return await context.tool(name, a=1)

    context = with_tools(outer, add)
    assert await context.tool(outer, name="add") == {"sum": 3}
    reply = await context.requested("outer", {"name": "shell"})
    assert reply.code == "POLICY_BLOCKED"
    assert [(one.tool, one.code) for one in calls(context)] == [
        ("add", ""),
        ("outer", ""),
        ("shell", "POLICY_BLOCKED"),
        ("outer", "POLICY_BLOCKED"),
    ]
