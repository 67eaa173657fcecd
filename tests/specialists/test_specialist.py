"""A function with annotations is a specialist: what it promises, what it accepts, and how it ends."""

import asyncio
import logging
import threading
from dataclasses import dataclass
from datetime import date
from typing import Annotated, Any

import pytest
from pydantic import BaseModel, ConfigDict, Field
from typing_extensions import TypedDict

from blackboard.blobs import BlobsUnavailable
from blackboard.memory import MemoryBlobs
from schemas.blobs import Blob
from schemas.codec import VALUE_LIMIT, digest
from schemas.contracts import read_contract
from schemas.inputs import Progress, ToolCalled
from schemas.usage import Usage
from schemas.validation import violation
from specialists.context import PROGRESS_LIMIT, LocalContext
from specialists.signature import BadSpecialist
from specialists.specialist import Context, Result, Specialist, Stop, specialist


class Distribution(BaseModel):
    name: str
    description: str = ""


class Evidence(BaseModel):
    expression: str
    confidence: float = 0.5


@dataclass
class Point:
    x: int
    day: date = date(2026, 1, 2)


class Place(TypedDict):
    city: str


@specialist("from-readme", offers="licence-evidence", deadline_s=10, attempts=2, version=3)
async def from_readme(dist: Distribution, context: Context) -> Evidence:
    """The licence that the long description names.

    Nothing of this paragraph is in the contract.
    """
    if "MIT License" not in dist.description:
        raise Stop("LOW_CONFIDENCE", "the description names no licence")
    return Evidence(expression="MIT", confidence=0.3)


def made(function: Any, **options: Any) -> Specialist:
    return specialist("someone", offers="something", **options)(function)


async def invoked(function: Any, input: dict[str, Any] | None = None, **options: Any) -> Result:
    someone = made(function, **options)
    return await someone.invoke({"name": "x"} if input is None else input, LocalContext(someone))


# --- the contract -----------------------------------------------------------------------------------------------------


def test_annotations_and_docstring_give_the_contract() -> None:
    contract = from_readme.contract()
    assert (contract.specialist, contract.offers, contract.version) == ("from-readme", ["licence-evidence"], 3)
    assert (contract.deadline_s, contract.attempts, contract.authority) == (10, 2, "observe")
    assert contract.description == "The licence that the long description names."
    assert contract.input["required"] == ["name"]
    assert contract.output["properties"].keys() == {"expression", "confidence"}
    assert read_contract(contract.model_dump_json(exclude_none=True).encode(), "from-readme") == contract


async def test_dataclasses_typed_dicts_and_lists_are_annotations() -> None:
    async def points(item: Point) -> list[Point]:
        return [item, Point(item.x + 1)]

    async def city(item: Place) -> Place:
        return item

    assert (await invoked(points, {"x": 1, "day": "2026-03-04"})).value == [
        {"x": 1, "day": "2026-03-04"},
        {"x": 2, "day": "2026-01-02"},
    ]
    assert (await invoked(city, {"city": "Ulm"})).value == {"city": "Ulm"}


async def test_schema_and_value_use_the_same_aliases() -> None:
    class Aliased(BaseModel):
        model_config = ConfigDict(populate_by_name=True)
        from_: Annotated[str, Field(alias="from")]

    async def f(item: dict[str, str]) -> Aliased:
        return Aliased(from_=item["name"])

    result = await invoked(f)
    assert result.value == {"from": "x"}
    assert violation(made(f).contract().output, result.value) is None


async def no_input(item) -> Evidence:  # type: ignore[no-untyped-def]
    return Evidence(expression=str(item))


async def no_output(item: Distribution):  # type: ignore[no-untyped-def]
    return item


async def returns_none(item: Distribution) -> None:
    return None


async def takes_text(item: str) -> Evidence:
    return Evidence(expression=item)


async def takes_anything(item: Any) -> Evidence:
    return Evidence(expression=item)


async def takes_nothing() -> Evidence:
    return Evidence(expression="")


async def takes_three(item: Distribution, context: Context, more: int) -> Evidence:
    return Evidence(expression=str(more))


async def takes_unknown(item: "Nowhere") -> Evidence:  # type: ignore[name-defined]  # noqa: F821
    return Evidence(expression=str(item))


async def returns_thread(item: Distribution) -> threading.Thread:
    return threading.Thread()


class NotCallable:
    """Has no __call__."""


@pytest.mark.parametrize(
    ("function", "advice"),
    [
        (no_input, "does not say what it takes: annotate 'item'"),
        (no_output, "does not say what it returns: add `-> ` and a type"),
        (returns_none, "does not say what it returns"),
        (takes_text, "receives an object"),
        (takes_anything, "receives an object"),
        (takes_nothing, r"must take the item and, if it wants, the context"),
        (takes_three, r"must take the item and, if it wants, the context"),
        (takes_unknown, "define its type at the top level"),
        (returns_thread, "gives no schema"),
        (NotCallable, "class NotCallable has no `async def __call__"),
    ],
)
def test_missing_annotation_is_an_error_that_says_what_to_add(function: Any, advice: str) -> None:
    with pytest.raises(BadSpecialist, match=advice) as error:
        made(function)
    assert str(error.value).startswith("specialist 'someone': ")


@pytest.mark.parametrize(
    ("options", "advice"),
    [
        ({"offers": []}, "it offers nothing"),
        ({"offers": "two words"}, "offers"),
        ({"deadline_s": 0}, "deadline_s"),
        ({"attempts": 0}, "attempts"),
        ({"concurrency": 0}, "concurrency"),
        ({"tools": [lambda: 1]}, "functions that have a name"),
        ({"tools": [returns_none, returns_none]}, "two of its tools"),
    ],
)
def test_bad_option_is_an_error_that_names_it(options: dict[str, Any], advice: str) -> None:
    async def f(item: Distribution) -> Evidence:
        return Evidence(expression=item.name)

    with pytest.raises(BadSpecialist, match=advice):
        specialist("someone", **({"offers": "x"} | options))(f)


def test_stop_knows_its_codes() -> None:
    with pytest.raises(ValueError, match="'GAVE_UP' is no stop code; choose one of BUDGET_EXCEEDED, "):
        Stop("GAVE_UP", "because")  # type: ignore[arg-type]
    assert len(Stop("INTERNAL", "x" * 5000).message) == 1000
    assert str(Stop("TIMEOUT", "too late")) == "TIMEOUT: too late"


# --- calling ----------------------------------------------------------------------------------------------------------


async def test_it_is_still_a_function() -> None:
    dist = Distribution(name="x", description="MIT License")
    assert await from_readme(dist, LocalContext(from_readme)) == Evidence(expression="MIT", confidence=0.3)
    with pytest.raises(Stop, match="names no licence"):
        await from_readme(Distribution(name="x"), LocalContext(from_readme))


async def test_value_and_its_confidence() -> None:
    result = await from_readme.invoke({"name": "x", "description": "MIT License"}, LocalContext())
    assert result == Result({"expression": "MIT", "confidence": 0.3}, confidence=0.3)


async def test_stop_is_a_code() -> None:
    result = await from_readme.invoke({"name": "x"}, LocalContext())
    assert result == Result(code="LOW_CONFIDENCE", message="the description names no licence")


async def test_input_out_of_schema() -> None:
    result = await from_readme.invoke({"description": "x"}, LocalContext())
    assert result == Result(code="INVALID_INPUT", message="name: is missing")


async def wrong_type(item: Distribution) -> Evidence:
    return "MIT"  # type: ignore[return-value]


async def unchecked(item: Distribution) -> Evidence:
    return Evidence.model_construct(expression=7)


async def too_large(item: Distribution) -> Evidence:
    return Evidence(expression="x" * VALUE_LIMIT)


async def past_64_bits(item: Distribution) -> dict[str, int]:
    return {"n": 2**70}


async def not_utf8(item: Distribution) -> dict[str, str]:
    return {"text": "\udcff"}


async def not_finite(item: Distribution) -> dict[str, float]:
    return {"x": float("nan")}


@pytest.mark.parametrize(
    ("function", "message"),
    [
        (wrong_type, "the value: is not allowed (model_type)"),
        (unchecked, "the value cannot be JSON: "),
        (too_large, "over 65536; store it with context.blob()"),
        (past_64_bits, "the value: a whole number of more than 64 bits"),
        (not_utf8, "the value cannot be JSON: "),
        (not_finite, "the value: a number that is not finite"),
    ],
)
async def test_output_out_of_schema(function: Any, message: str) -> None:
    result = await invoked(function)
    assert (result.code, result.value) == ("INVALID_OUTPUT", None)
    assert message in result.message


async def raises(item: Distribution) -> Evidence:
    raise KeyError("caf\udce9" + "x" * 3000)


async def leaves(item: Distribution) -> Evidence:
    raise SystemExit(3)


def stops_iteration(item: Distribution) -> Evidence:
    return next(iter(()))


@pytest.mark.parametrize(
    ("function", "message"),
    [(raises, "KeyError: "), (leaves, "SystemExit: 3"), (stops_iteration, "RuntimeError: Stop")],
)
async def test_any_other_exception_is_internal_and_its_traceback_stays_here(
    function: Any, message: str, caplog: pytest.LogCaptureFixture
) -> None:
    result = await invoked(function)
    assert result.code == "INTERNAL"
    assert result.message.startswith(message)
    assert len(result.message) <= 1000
    result.message.encode()
    record = next(one for one in caplog.records if one.levelno == logging.ERROR)
    assert record.exc_info is not None
    assert record.specialist == "someone"  # type: ignore[attr-defined]


async def test_plain_function_runs_in_a_thread() -> None:
    def where(item: Distribution) -> dict[str, str]:
        return {"thread": threading.current_thread().name}

    assert (await invoked(where)).value == {"thread": "someone-try"}


async def test_each_fresh_class_has_an_instance_of_its_own() -> None:
    class Counter:
        """Counts its calls."""

        def __init__(self) -> None:
            self.calls = 0

        async def __call__(self, item: Distribution, context: Context) -> dict[str, int]:
            self.calls += 1
            return {"calls": self.calls}

    counter = made(Counter)
    assert counter.description == "Counts its calls."
    one, other = counter.fresh(), counter.fresh()
    counts = [(await each.invoke({"name": "x"}, LocalContext())).value["calls"] for each in (one, one, other)]
    assert counts == [1, 2, 1]


async def test_only_cancellation_is_raised() -> None:
    async def waits(item: Distribution) -> Evidence:
        await asyncio.Event().wait()
        raise AssertionError

    work = asyncio.create_task(invoked(waits))
    await asyncio.sleep(0)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work


# --- the context ------------------------------------------------------------------------------------------------------


async def test_facts_and_their_versions() -> None:
    facts = LocalContext(facts={"a.b": 1}).facts
    assert dict(facts) == {"a.b": 1}
    assert facts.versions == {"a.b": 1}


async def fetch(url: str) -> dict[str, str]:
    return {"body": url}


def read(path: str) -> bytes:
    return path.encode() + b"\xff"


async def breaks() -> None:
    raise ConnectionError("no route")


async def refuses() -> None:
    raise Stop("BUDGET_EXCEEDED", "enough")


def tools_of(context: LocalContext) -> list[ToolCalled]:
    return [one for one in context.observations if isinstance(one, ToolCalled)]


def with_tools(*tools: Any) -> LocalContext:
    return LocalContext(made(no_tools, tools=tools))


async def no_tools(item: Distribution) -> Evidence:
    return Evidence(expression=item.name)


async def test_tools_by_name_or_as_functions_are_recorded() -> None:
    context = with_tools(fetch, read)
    assert await context.tool("fetch", url="u") == {"body": "u"}
    assert await context.tool(read, path="p") == b"p\xff"
    first, second = tools_of(context)
    assert (first.tool, first.input, first.output, first.code) == (
        "fetch",
        digest({"url": "u"}),
        digest({"body": "u"}),
        "",
    )
    assert len(second.output) == 64
    assert context.usage == Usage(tool_calls=2)


async def test_tool_that_was_not_granted_is_blocked_and_recorded() -> None:
    context = with_tools(fetch)

    async def impostor() -> None:
        raise AssertionError

    impostor.__name__ = "fetch"
    for tool in ("shell", impostor):
        with pytest.raises(Stop) as stop:
            await context.tool(tool)
        assert stop.value.code == "POLICY_BLOCKED"
    assert [(one.tool, one.code) for one in tools_of(context)] == [
        ("shell", "POLICY_BLOCKED"),
        ("fetch", "POLICY_BLOCKED"),
    ]
    assert context.usage == Usage()


async def test_tool_that_fails_is_down_unless_it_says_why() -> None:
    context = with_tools(breaks, refuses)
    with pytest.raises(Stop) as down:
        await context.tool(breaks)
    with pytest.raises(Stop) as stopped:
        await context.tool(refuses)
    assert str(down.value) == "TOOL_DOWN: tool breaks: ConnectionError: no route"
    assert str(stopped.value) == "BUDGET_EXCEEDED: enough"
    assert [one.code for one in tools_of(context)] == ["TOOL_DOWN", "BUDGET_EXCEEDED"]


async def test_wrong_arguments_are_the_callers_mistake() -> None:
    context = with_tools(fetch)
    with pytest.raises(TypeError, match="url"):
        await context.tool(fetch, uri="u")
    assert tools_of(context) == []


async def test_interrupted_tool_is_kept_for_the_end() -> None:
    began = asyncio.Event()

    async def hangs() -> None:
        began.set()
        await asyncio.Event().wait()

    context = with_tools(hangs)
    call = asyncio.create_task(context.tool(hangs))
    await began.wait()
    call.cancel()
    await asyncio.wait([call])
    assert [one.code for one in context.unrecorded if isinstance(one, ToolCalled)] == ["TIMEOUT"]


async def test_blobs_go_round() -> None:
    context = LocalContext()
    blob = await context.blob(b"long", "text/plain")
    assert (blob.size, blob.media_type) == (4, "text/plain")
    assert await context.read_blob(blob) == await context.read_blob(blob.sha256) == b"long"
    assert Blob.model_validate_json(blob.model_dump_json()) == blob


async def test_blob_that_is_not_there() -> None:
    class Away(MemoryBlobs):
        async def put(self, data: bytes, author: str) -> str:
            raise BlobsUnavailable("no answer")

        async def get(self, digest: str) -> bytes:
            raise BlobsUnavailable("no answer")

    with pytest.raises(Stop, match="INVALID_INPUT: no blob"):
        await LocalContext().read_blob("0" * 64)
    for call in (LocalContext(blobs=Away()).blob(b"x"), LocalContext(blobs=Away()).read_blob("0" * 64)):
        with pytest.raises(Stop, match=r"TOOL_DOWN: .*no answer"):
            await call


async def test_progress_is_bounded() -> None:
    context = LocalContext()
    await context.progress("x" * 5000, 7)
    for _ in range(PROGRESS_LIMIT + 5):
        await context.progress("again", float("nan"))
    first, second, *_ = context.observations
    assert isinstance(first, Progress)
    assert isinstance(second, Progress)
    assert (len(first.message), first.fraction, second.fraction) == (1000, 1.0, None)
    assert len(context.observations) == PROGRESS_LIMIT


def test_usage_adds_up() -> None:
    context = LocalContext()
    context.use(input_tokens=3)
    context.use(input_tokens=4, output_tokens=5)
    assert context.usage == Usage(7, 5)
    with pytest.raises(ValueError, match="never less than 0"):
        context.use(output_tokens=-1)
