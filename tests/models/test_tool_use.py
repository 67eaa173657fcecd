"""Models that call tools: by the gateway alone, told what is refused, for so many rounds."""

from typing import Any

import pytest

from schemas.goals import Budget
from schemas.inputs import ModelCalled, ToolCalled
from specialists.chat import Chat
from specialists.context import LocalContext
from specialists.models import Model, model_of
from specialists.scripted_models import Calls, scripted
from specialists.specialist import Specialist, specialist, tool
from specialists.stop import NeedsInput, Stop
from tests.models.endpoint import Say, endpoint

ADDED: list[int] = []


async def add(a: int, b: int = 1) -> int:
    """The sum of two numbers."""
    ADDED.append(a + b)
    return a + b


async def pay(amount: int) -> str:
    """Pay."""
    raise AssertionError("nobody has approved it")


@pytest.fixture(autouse=True)
def _nothing_added() -> None:
    ADDED.clear()


def counter(**more: Any) -> Specialist:
    @specialist("counter", offers="count", tools=[add, tool(pay, confirm=True)], **more)
    async def made(item: dict[str, Any]) -> dict[str, Any]:
        return item

    return made


async def worked(*answers: Any, output: Any = None, rounds: int = 3, **more: Any) -> tuple[Any, LocalContext]:
    context = LocalContext(counter(**more))
    with scripted({"counter": list(answers)}):
        return await Chat(context, model_of("counter")).work("count", output, rounds=rounds), context


def codes(context: LocalContext) -> list[str]:
    return [one.code for one in context.observations if isinstance(one, ToolCalled)]


async def test_tool_is_called_and_its_result_read() -> None:
    said, context = await worked(Calls("add", {"a": 2, "b": 3}), Calls("add", {"a": 5}), "it is 6")
    assert said == "it is 6"
    assert ADDED == [5, 6]
    assert codes(context) == ["", ""]
    assert context.usage.tool_calls == 2
    assert len([one for one in context.observations if isinstance(one, ModelCalled)]) == 3


async def test_value_is_asked_for_after_the_calls() -> None:
    value, _ = await worked(Calls("add", {"a": 2}), "I have it", [3], output=list[int])
    assert value == [3]


async def test_what_is_refused_is_read_by_the_model() -> None:
    answers = (Calls("steal"), Calls("add", {"a": "x"}), Calls("add", "{"), "I give up")
    said, context = await worked(*answers, rounds=5)
    assert said == "I give up"
    assert codes(context) == ["POLICY_BLOCKED", "INVALID_INPUT", "INVALID_INPUT"]
    assert ADDED == []


async def test_budget_of_calls_holds_for_the_model_too() -> None:
    _, context = await worked(Calls("add", {"a": 1}), Calls("add", {"a": 2}), "done", budget=Budget(tool_calls=1))
    assert codes(context) == ["", "BUDGET_EXCEEDED"]
    assert ADDED == [2]


async def test_model_that_does_not_stop_is_stopped() -> None:
    with pytest.raises(Stop, match="it calls tools after 3 rounds of them"):
        await worked(Calls("add", {"a": 1}))
    assert ADDED == [2, 2, 2]


async def test_person_is_asked_before_the_call() -> None:
    with pytest.raises(NeedsInput) as raised:
        await worked(Calls("pay", {"amount": 5}))
    assert raised.value.question.action == {"tool": "pay", "arguments": {"amount": 5}}


@pytest.mark.parametrize("stream", [False, True])
async def test_endpoint_sees_the_tools_and_their_results(stream: bool) -> None:
    call = {"id": "1", "type": "function", "function": {"name": "add", "arguments": '{"a": 4}'}}
    with endpoint(Say(tool_calls=(call,), finish="tool_calls"), Say("five")) as at:
        context = LocalContext(counter())
        made = Model(name="m", base_url=at.url, stream=stream)
        assert await Chat(context, made).work("count", rounds=1) == "five"
        first, second = at.asked
    assert [one["function"]["name"] for one in first["tools"]] == ["add", "pay"]
    assert first["tools"][0]["function"]["description"] == "The sum of two numbers."
    assert first["tools"][0]["function"]["parameters"]["properties"]["a"] == {"title": "A", "type": "integer"}
    assert (first["tool_choice"], second["tool_choice"]) == ("auto", "none")
    assert second["messages"][-1] == {"role": "tool", "tool_call_id": "1", "content": "5"}
