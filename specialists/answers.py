"""How an answer of a model is asked for, and how it is read."""

import json
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Literal

from schemas.conversations import Message
from schemas.events import StopCode
from specialists.llm import Completion
from specialists.models import Model
from specialists.stop import bounded
from specialists.strict import Calls, Form
from specialists.tools import Described

Mode = Literal["schema", "tool", "json"]
MODES: tuple[Mode, ...] = ("schema", "tool", "json")
"""In the order in which `auto` tries them."""


@dataclass(frozen=True)
class Offer:
    """Tools that the model may call before it answers; not `open`: that it may not call any more."""

    tools: Sequence[Described]
    open: bool = True

    def parameters(self) -> dict[str, Any]:
        functions = [{"name": one.name, "description": one.description, "parameters": one.schema} for one in self.tools]
        tools = [{"type": "function", "function": one} for one in functions]
        return {"tools": tools, "tool_choice": "auto" if self.open else "none"} if tools else {}


Wanted = Form | Calls[Any] | Offer | None
"""What an answer has to be; None: a text."""


def parameters(model: Model, wanted: Wanted, mode: Mode | None) -> dict[str, Any]:
    """How the model is asked, beside the messages. `instruction` is for a message after the others."""
    made: dict[str, Any] = {}
    if model.temperature is not None:
        made["temperature"] = model.temperature
    if model.seed is not None:
        made["seed"] = model.seed
    match wanted:
        case None:
            return made
        case Calls():
            return made | {"tools": wanted.tools, "tool_choice": "required"}
        case Offer():
            return made | wanted.parameters()
    form = wanted
    match mode:
        case "schema":
            schema = {"name": "answer", "schema": form.schema, "strict": form.is_strict}
            made["response_format"] = {"type": "json_schema", "json_schema": schema}
        case "tool":
            function = {"name": "answer", "description": "Gives the answer.", "parameters": form.schema}
            made["tools"] = [{"type": "function", "function": function | {"strict": form.is_strict}}]
            made["tool_choice"] = {"type": "function", "function": {"name": "answer"}}
        case _:
            text = json.dumps(form.schema, ensure_ascii=False)
            made["instruction"] = (
                f"Answer with one JSON object that satisfies this JSON Schema, and nothing else: {text}"
            )
    return made


def refusal_of(answer: Completion) -> tuple[str, StopCode]:
    """Why the answer is none, and the code where it stays like that."""
    if refusal := answer.message.get("refusal"):
        return f"it refuses: {bounded(str(refusal))}", "POLICY_BLOCKED"
    if answer.finish == "content_filter":
        return "the endpoint's filter held the answer back", "POLICY_BLOCKED"
    if answer.finish == "length":
        return "the answer was cut because it is too long; it has to be shorter", "INVALID_OUTPUT"
    return "", "INVALID_OUTPUT"


def value_of(message: Message, form: Form | Calls[Any]) -> Any:
    """Raises ValueError, as pydantic's ValidationError too."""
    calls = message.get("tool_calls", [])
    if isinstance(form, Calls):
        return form.read(calls)
    text = calls[0]["function"]["arguments"] if calls else message["content"]
    try:
        value = json.loads(_without_fence(text))
    except json.JSONDecodeError as error:
        raise ValueError(f"it is not JSON: {error}") from None
    return form.read(value)


def _without_fence(text: str) -> str:
    """What stands in a fence of Markdown, as models like to answer; else the text from its first brace to its last."""
    begin, end = text.find("{"), text.rfind("}")
    return text[begin : end + 1] if 0 <= begin < end else text
