"""Models whose answers are written down: for scenarios, and for tests of specialists.

    with scripted({"judge": [{"keep": True}]}):
        ...  # Chat answers from the script in here; nothing goes out to an endpoint

Pure but for the context variable. Tokens are counted as one for four bytes, so budgets are exercised.
"""

import contextlib
import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from schemas.codec import canonical
from schemas.conversations import Message
from schemas.tasks import Task
from specialists.llm import NOTHING, TRANSIENT, Completion, Counted, Failed
from specialists.models import SCRIPT
from specialists.stop import Stop, exact
from specialists.strict import WRAPPED

BYTES_A_TOKEN = 4
Answers = Sequence[Any] | Callable[..., Any]


@dataclass(frozen=True)
class Calls:
    """An answer that calls a tool; `arguments` as a model gives them, a text where it gives no object."""

    tool: str
    arguments: Mapping[str, Any] | str = field(default_factory=dict)


class ScriptedModels:
    """`answers` by specialist, or by `specialist/step` or `specialist/task`: a list of the answers to the calls of one
    execution, the last for all that follow, or a function of the messages. An answer is a text, a value, Calls of a
    tool, or a Stop, which stands for a failure of the endpoint with its code."""

    def __init__(self, answers: Mapping[str, Answers]) -> None:
        self._answers = dict(answers)

    def knows(self, specialist: str) -> bool:
        return any(name.partition("/")[0] == specialist for name in self._answers)

    def answer(
        self, task: Task, number: int, messages: Sequence[Message], parameters: Mapping[str, Any]
    ) -> Completion | Failed:
        """The answer to call `number` of an execution."""
        answers = self._of(task)
        try:
            said = answers(list(messages)) if callable(answers) else answers[min(number, len(answers)) - 1]
        except Stop as stop:
            said = stop
        if isinstance(said, Stop):
            return Failed(said.code, said.message, transient=said.code in TRANSIENT, counted=NOTHING)
        if isinstance(said, Calls):
            return _calling(said, messages)
        text = said if isinstance(said, str) and not _wants_value(parameters) else _as_value(said, parameters)
        used = Counted(_tokens(canonical(list(messages))), _tokens(text.encode()))
        return Completion({"role": "assistant", "content": text}, "stop", used)

    def _of(self, task: Task) -> Answers:
        step = task.task.rpartition("-")[0] or task.task
        for name in (f"{task.specialist}/{task.task}", f"{task.specialist}/{step}", task.specialist):
            if name in self._answers:
                return self._answers[name]
        raise Stop("INVALID_INPUT", f"the script has no answers for {task.specialist}, task {task.task}")


@contextlib.contextmanager
def scripted(answers: Mapping[str, Answers]) -> Iterator[ScriptedModels]:
    """Within it, models answer from the script."""
    made = ScriptedModels(answers)
    token = SCRIPT.set(made)
    try:
        yield made
    finally:
        SCRIPT.reset(token)


def _calling(said: Calls, messages: Sequence[Message]) -> Completion:
    arguments = said.arguments if isinstance(said.arguments, str) else json.dumps(exact(dict(said.arguments)))
    function = {"name": said.tool, "arguments": arguments}
    call = {"id": f"call-{len(messages)}", "type": "function", "function": function}
    used = Counted(_tokens(canonical(list(messages))), _tokens(arguments.encode()))
    return Completion({"role": "assistant", "content": "", "tool_calls": [call]}, "tool_calls", used)


def _schema(parameters: Mapping[str, Any]) -> dict[str, Any] | None:
    found: dict[str, Any] | None = parameters.get("response_format", {}).get("json_schema", {}).get("schema")
    return found


def _wants_value(parameters: Mapping[str, Any]) -> bool:
    return _schema(parameters) is not None


def _as_value(said: Any, parameters: Mapping[str, Any]) -> str:
    """As an endpoint would give it: an answer that is no object stands in one. A text that is JSON is left alone, so
    that a script can answer in the wrong form."""
    if isinstance(said, str):
        with contextlib.suppress(ValueError):
            json.loads(said)
            return said
    value = exact(said)
    wrapped = list((_schema(parameters) or {}).get("properties", {})) == [WRAPPED]
    return json.dumps({WRAPPED: value} if wrapped else value, ensure_ascii=False)


def _tokens(data: bytes) -> int:
    return -(-len(data) // BYTES_A_TOKEN)
