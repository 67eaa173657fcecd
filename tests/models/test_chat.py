"""Conversations with a scripted endpoint: forms, failures, budgets, records."""

import asyncio
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from schemas.goals import Budget
from schemas.inputs import ModelCalled, Progress
from specialists import chat as chat_module
from specialists.chat import Chat
from specialists.context import LocalContext
from specialists.models import Model
from specialists.specialist import specialist
from specialists.stop import Stop
from tests.models.endpoint import Answer, Endpoint, Raw, Say, Status, endpoint, event


class Verdict(BaseModel):
    keep: bool
    reason: str = ""


def model(at: Endpoint, **fields: Any) -> Model:
    return Model(**{"name": "scripted", "base_url": at.url, "timeout_s": 1} | fields)


def context(**budget: int) -> LocalContext:
    @specialist("reasoner", offers="reason", budget=Budget(**budget))
    async def reasoner(item: dict[str, Any]) -> dict[str, Any]:
        return item

    return LocalContext(reasoner)


def calls(of: LocalContext) -> list[ModelCalled]:
    return [one for one in of.observations if isinstance(one, ModelCalled)]


async def stopped(at: Endpoint, of: LocalContext | None = None, output: Any = None, **fields: Any) -> Stop:
    with pytest.raises(Stop) as raised:
        await Chat(of or context(), model(at, **fields)).ask("what?", output)
    return raised.value


async def test_text_is_answered_and_booked() -> None:
    with endpoint(Say("fine", usage=(12, 3), cached=4, reasoning=1)) as at:
        used = context()
        priced = model(at, usd_per_million_input=1, usd_per_million_output=10, usd_per_million_cached=0.1)
        chat = Chat(used, priced, system="Be short.")
        assert await chat.ask("how are you?") == "fine"
        assert [one["role"] for one in chat.messages] == ["system", "user", "assistant"]
        (called,) = calls(used)
        assert (called.usage.input_tokens, called.usage.output_tokens) == (12, 3) == tuple(at.used)
        assert (called.cached_tokens, called.reasoning_tokens, called.finish) == (4, 1, "stop")
        assert called.usage.micro_usd == 8 + 1 + 30  # 0.4 for the cached ones, rounded up
        assert used.usage == called.usage


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize(
    ("structured", "content", "arguments"),
    [
        ("schema", '{"keep": true, "reason": "r"}', ""),
        ("tool", "", '{"keep": true, "reason": "r"}'),
        ("json", '```json\n{"keep": true, "reason": "r"}\n```', ""),
    ],
)
async def test_value_has_the_form(stream: bool, structured: str, content: str, arguments: str) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "answer", "arguments": arguments}}
    with endpoint(Say(content, tool_calls=(call,) if arguments else ())) as at:
        chat = Chat(context(), model(at, structured=structured, stream=stream))
        assert await chat.ask("keep it?", Verdict) == Verdict(keep=True, reason="r")
        (asked,) = at.asked
        assert ("response_format" in asked, "tools" in asked) == (structured == "schema", structured == "tool")
        if structured == "json":
            assert "JSON Schema" in asked["messages"][-1]["content"]


async def test_form_that_the_endpoint_does_not_take_is_left_for_the_next_one() -> None:
    refused = Status(400, "response_format is not supported by this model")
    with endpoint(refused, Status(400, "tools are not supported"), Say('{"keep": false}'), Say('{"keep": true}')) as at:
        used = context()
        assert await Chat(used, model(at)).ask("keep it?", Verdict) == Verdict(keep=False)
        assert await Chat(used, model(at)).ask("keep it?", Verdict) == Verdict(keep=True)
        assert [len(one["messages"]) for one in at.asked] == [1, 1, 2, 2]  # the second one knows already
        assert [one.code for one in calls(used)] == ["INVALID_INPUT", "INVALID_INPUT", "", ""]


async def test_answer_of_another_form_is_given_back_with_what_is_wrong() -> None:
    with endpoint(Say("yes!"), Say('{"keep": "perhaps"}'), Say('{"keep": true}')) as at:
        used = context()
        assert await Chat(used, model(at)).ask("keep it?", Verdict) == Verdict(keep=True)
        assert "keep" in at.asked[2]["messages"][-1]["content"]
        assert used.usage.input_tokens == at.used[0] == 30


async def test_wrapped_values_and_optional_fields() -> None:
    class Odd(BaseModel):
        n: int = 3
        inner: list[Verdict] = []

    with endpoint(Say('{"value": ["a"]}'), Say('{"n": null, "inner": [{"keep": true, "reason": null}]}')) as at:
        chat = Chat(context(), model(at))
        assert await chat.ask("which?", list[Literal["a", "b"]]) == ["a"]  # type: ignore[arg-type]
        assert await chat.ask("odd?", Odd) == Odd(inner=[Verdict(keep=True)])


OVERLOADED = Status(429, "slow down", headers={"retry-after": "0"})
ERRORS: list[tuple[str, tuple[Answer, ...], str, int, str]] = [
    ("rate limit", (OVERLOADED,), "TOOL_DOWN", 3, "slow down"),
    ("used up", (Status(429, "no money", "insufficient_quota"),), "BUDGET_EXCEEDED", 1, "used up"),
    ("server", (Status(500, "oops"),), "TOOL_DOWN", 3, "oops"),
    ("gateway", (Status(504, "late"),), "TIMEOUT", 3, "late"),
    ("key", (Status(401, "bad key"),), "POLICY_BLOCKED", 1, "OPENAI_API_KEY"),
    ("forbidden", (Status(403, "region"),), "POLICY_BLOCKED", 1, "region"),
    ("no model", (Status(404, "no such model"),), "INVALID_INPUT", 1, "no such model"),
    ("too long", (Status(400, "maximum context length"),), "INVALID_INPUT", 1, "maximum context"),
    ("slow", (Say("fine", after_s=3),), "TIMEOUT", 2, "no byte"),
    ("no JSON", (Raw(b"{nope"),), "TOOL_DOWN", 3, "no completion"),
    ("cut", (Raw(b'{"id": "c1", "choi', cut=True),), "TOOL_DOWN", 3, "does not answer"),
    ("nothing", (Raw(b"{}"),), "TOOL_DOWN", 3, "without a choice"),
    ("a list", (Raw(b"[]"),), "TOOL_DOWN", 3, "no completion"),
    ("html", (Raw(b"<html>", media_type="text/html"),), "TOOL_DOWN", 3, "no completion"),
    ("refusal", (Say("", refusal="I will not"),), "POLICY_BLOCKED", 3, "I will not"),
    ("filter", (Say("", finish="content_filter"),), "POLICY_BLOCKED", 3, "filter"),
    ("length", (Say("so much", finish="length"),), "INVALID_OUTPUT", 3, "too long"),
]


@pytest.mark.parametrize(
    ("answers", "code", "count", "said"), [one[1:] for one in ERRORS], ids=[one[0] for one in ERRORS]
)
async def test_failure_has_its_code(answers: tuple[Answer, ...], code: str, count: int, said: str) -> None:
    with endpoint(*answers) as at:
        used = context()
        stop = await stopped(at, used, attempts=2 if code == "TIMEOUT" and said == "no byte" else 3)
        assert stop.code == code
        assert said in stop.message
        assert len(at.asked) == count == len(calls(used))  # each call is on the record, once
        assert (used.usage.input_tokens, used.usage.output_tokens) == tuple(at.used if said != "no byte" else (0, 0))


async def test_stream_that_is_cut_is_no_answer() -> None:
    chunk = {"id": "c", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    begun = event(chunk | {"choices": [{"index": 0, "delta": {"content": "fi"}}]})
    for cut in (True, False):
        with endpoint(Raw(begun, cut, "text/event-stream"), Say("fine")) as at:
            used = context()
            assert await Chat(used, model(at, stream=True)).ask("how?") == "fine"
            assert [one.code for one in calls(used)] == ["TOOL_DOWN", ""]


async def test_retry_after_is_obeyed_unless_the_task_ends_before() -> None:
    with endpoint(Status(429, "later", headers={"retry-after": "3600"}), Say("fine")) as at:
        stop = await stopped(at)
        assert (stop.code, len(at.asked)) == ("TOOL_DOWN", 1)


async def test_call_that_might_exceed_the_budget_is_not_made() -> None:
    with endpoint(Say("fine", usage=(100, 50))) as at:
        assert (await stopped(at, context(tokens=50))).code == "BUDGET_EXCEEDED"
        assert (await stopped(at, context(micro_usd=1), usd_per_million_input=1)).code == "BUDGET_EXCEEDED"
        assert at.asked == []


async def test_answer_may_be_as_long_as_the_budget_bears() -> None:
    with endpoint(Say("fine")) as at:
        await Chat(context(tokens=400), model(at)).ask("how?")
        await Chat(context(micro_usd=3_000), model(at, usd_per_million_output=10)).ask("how?")
        await Chat(context(), model(at)).ask("how?")
        limits = [one["max_tokens"] for one in at.asked]
        assert 200 < limits[0] < 400
        assert 200 < limits[1] <= 300
        assert limits[2] == 4096


async def test_what_nobody_knows_the_price_of_stays_set_aside() -> None:
    with endpoint(Status(500), Status(500), Say("fine")) as at:
        used = context(tokens=1_000)
        stop = await stopped(at, used, max_tokens=300)
        assert stop.code == "BUDGET_EXCEEDED"  # two calls that may have used 460 each
        assert used.usage.input_tokens == 0
        assert len(at.asked) == 2


async def test_chats_at_the_same_time_share_the_budget() -> None:
    with endpoint(Say("fine", after_s=0.2)) as at:
        used = context(tokens=350)
        chats = [Chat(used, model(at, max_tokens=200)).ask("how?") for _ in range(4)]
        outcomes = await asyncio.gather(*chats, return_exceptions=True)
        assert sorted(str(one)[:15] for one in outcomes) == ["BUDGET_EXCEEDED"] * 3 + ["fine"]


async def test_long_conversation_is_stored_once() -> None:
    with endpoint(Say("a" * 900)) as at:
        used = context()
        chat = Chat(used, model(at))
        for number in range(100):
            await chat.ask(f"{number}" + "b" * 900)
        unique = sum(len(str(one["content"])) for one in chat.messages)
        blobs = used._blobs._blobs  # type: ignore[attr-defined]
        stored = sum(map(len, blobs.values()))
        assert len(calls(used)) == 100
        assert stored < 1.2 * unique, stored / unique


async def test_streamed_answer_tells_how_far_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(chat_module, "PROGRESS_S", 0.0)
    with endpoint(Say("a long answer, in pieces")) as at:
        used = context()
        assert await Chat(used, model(at, stream=True)).ask("how?") == "a long answer, in pieces"
    told = [one.message for one in used.observations if isinstance(one, Progress)]
    assert told == [f"scripted: {count} characters of the answer" for count in (8, 16, 24)]


async def test_no_model_is_a_stop_that_says_what_to_do() -> None:
    with pytest.raises(Stop, match="BLACKBOARD_MODEL"):
        Chat(context(), None)


async def test_headers_and_body_go_along_and_headers_are_not_recorded() -> None:
    with endpoint(Say("fine")) as at:
        used = context()
        extras = model(
            at, extra_headers={"x-route": "secret"}, extra_body={"cache_prompt": True}, temperature=0, seed=7
        )
        await Chat(used, extras).ask("how?")
        assert at.headers[0]["x-route"] == "secret"
        assert (at.asked[0]["cache_prompt"], at.asked[0]["seed"]) == (True, 7)
        assert not any(b"secret" in data for data in used._blobs._blobs.values())  # type: ignore[attr-defined]
