"""Calls of models, over the openai SDK: one request, one answer or one failure with a code.

Nothing is tried again here, and the SDK is told not to: what it does by itself is neither budgeted nor recorded.
Source of the failures: openai 3.57, `openai/_exceptions.py`, and what endpoints answer.
"""

import asyncio
import email.utils
import importlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime
from functools import lru_cache
from typing import Any
from weakref import WeakKeyDictionary

from schemas.conversations import Message
from schemas.events import StopCode
from specialists.models import BadModels, Model
from specialists.stop import bounded, describe

PERMANENT_QUOTA = "insufficient_quota"
NO_KEY = "no-key"
"""Endpoints on one's own machine ask for none, the SDK does."""
_FORM_WORDS = (
    "response_format",
    "json_schema",
    "schema",
    "grammar",
    "tool",
    "function",
    "strict",
    "not supported",
    "(501)",
)
_REFUSED: dict[int, tuple[StopCode, str]] = {
    400: ("INVALID_INPUT", "the endpoint does not take the request"),
    401: ("POLICY_BLOCKED", "the endpoint does not take the key: set OPENAI_API_KEY, or api_key_env of the model"),
    403: ("POLICY_BLOCKED", "the endpoint does not allow it"),
    404: ("INVALID_INPUT", "the endpoint has no such model or address"),
    413: ("INVALID_INPUT", "the request is too large for the endpoint"),
    422: ("INVALID_INPUT", "the endpoint does not take the request"),
}
"""What asking again does not change."""


@dataclass(frozen=True)
class Counted:
    """What the endpoint says that a call used. Cached tokens are among the input's, reasoning among the output's."""

    input_tokens: int
    output_tokens: int
    cached_tokens: int = 0
    reasoning_tokens: int = 0


NOTHING = Counted(0, 0)
TRANSIENT = frozenset({"TOOL_DOWN", "TIMEOUT"})
"""Codes of failures after which another call may bring an answer, and of no others."""


@dataclass(frozen=True)
class Completion:
    """An answer: the message, why it ends (`stop`, `length`, `tool_calls`, `content_filter`), what it used (None: the
    endpoint does not say)."""

    message: Message
    finish: str
    counted: Counted | None


@dataclass(frozen=True)
class Failed:
    """No answer. `transient`: another call may bring one, after `retry_after_s` where the endpoint says so. `form`: it
    seems to be the form of the answer that the endpoint does not take. `counted` None: the endpoint may have worked,
    and count something that nobody knows."""

    code: StopCode
    message: str
    transient: bool = False
    retry_after_s: float | None = None
    form: bool = False
    counted: Counted | None = None


@dataclass
class Request:
    """`parameters` are those of a chat completion beside the messages. `on_text` is told how many characters of a
    streamed answer are there; `max_tokens` is the limit of the answer."""

    messages: list[Message]
    parameters: dict[str, Any]
    max_tokens: int
    on_text: Callable[[int], None] | None = field(default=None, repr=False)


async def complete(model: Model, request: Request) -> Completion | Failed:
    """Ask once."""
    client, openai = _client(_Endpoint.of(model)), _openai()
    arguments: dict[str, Any] = request.parameters | {"messages": request.messages, "max_tokens": request.max_tokens}
    try:
        if request.on_text is None:
            answer = await client.chat.completions.create(**arguments, **_extras(model))
            return _completion(answer.model_dump(exclude_none=True))
        return await _streamed(client, arguments, model, request.on_text)
    except openai.APIStatusError as error:
        return _status_failure(error)
    except openai.APITimeoutError:
        return Failed("TIMEOUT", f"no byte of an answer within {model.timeout_s:g} s", transient=True)
    except openai.APIConnectionError as error:
        return Failed("TOOL_DOWN", f"the endpoint does not answer: {_cause(error)}", transient=True)
    except openai.APIError as error:  # an error in the middle of a stream
        return Failed("TOOL_DOWN", f"the answer broke off: {bounded(str(error))}", transient=True)
    except (json.JSONDecodeError, UnicodeDecodeError, AttributeError, TypeError, ValueError) as error:
        return Failed("TOOL_DOWN", f"what the endpoint answers is no completion: {describe(error)}", transient=True)


def _extras(model: Model) -> dict[str, Any]:
    return {"extra_headers": model.extra_headers or None, "extra_body": model.extra_body or None}


async def _streamed(
    client: Any, arguments: dict[str, Any], model: Model, on_text: Callable[[int], None]
) -> Completion | Failed:
    """The pieces of a streamed answer, put together. One that ends without a reason was cut."""
    content, finish, length = [], "", 0
    calls: dict[int, dict[str, Any]] = {}
    counted = None
    options = {"stream": True, "stream_options": {"include_usage": True}}
    async with await client.chat.completions.create(**arguments, **options, **_extras(model)) as stream:
        async for chunk in stream:
            piece = chunk.model_dump(exclude_none=True)
            counted = _counted(piece.get("usage")) or counted
            for choice in piece.get("choices", [])[:1]:
                delta, finish = choice.get("delta", {}), choice.get("finish_reason") or finish
                if text := delta.get("content"):
                    content.append(text)
                    length += len(text)
                    on_text(length)
                for call in delta.get("tool_calls", []):
                    _add_call(calls, call)
    if not finish:
        return Failed("TOOL_DOWN", "the stream of the answer was cut", transient=True, counted=counted)
    message: Message = {"role": "assistant", "content": "".join(content)}
    if calls:
        message["tool_calls"] = [calls[index] for index in sorted(calls)]
    return Completion(message, finish, counted)


def _add_call(calls: dict[int, dict[str, Any]], piece: dict[str, Any]) -> None:
    known = calls.setdefault(piece["index"], {"id": "", "type": "function", "function": {"name": "", "arguments": ""}})
    known["id"] = piece.get("id") or known["id"]
    for name, text in piece.get("function", {}).items():
        known["function"][name] += text


def _completion(answer: dict[str, Any]) -> Completion | Failed:
    counted = _counted(answer.get("usage"))
    choices = answer.get("choices")
    if not choices or not isinstance(choices[0].get("message"), dict):
        return Failed("TOOL_DOWN", "the endpoint answered without a choice", transient=True, counted=counted)
    message = {
        key: choices[0]["message"][key]
        for key in ("content", "tool_calls", "refusal")
        if choices[0]["message"].get(key)
    }
    message = {"role": "assistant", "content": message.pop("content", ""), **message}
    return Completion(message, choices[0].get("finish_reason") or "stop", counted)


def _counted(usage: dict[str, Any] | None) -> Counted | None:
    if not usage:
        return None
    given, made = usage.get("prompt_tokens_details") or {}, usage.get("completion_tokens_details") or {}
    return Counted(
        int(usage["prompt_tokens"]),
        int(usage["completion_tokens"]),
        int(given.get("cached_tokens") or 0),
        int(made.get("reasoning_tokens") or 0),
    )


def _status_failure(error: Any) -> Failed:
    status, said = error.status_code, bounded(str(error.message))
    if status == 429 and error.code == PERMANENT_QUOTA:
        return Failed("BUDGET_EXCEEDED", f"the account at the endpoint is used up: {said}", counted=NOTHING)
    if status in _REFUSED:
        code, meaning = _REFUSED[status]
        form = status in (400, 422) and about_form(said)
        return Failed(code, f"{meaning} ({status}): {said}", form=form, counted=NOTHING)
    if status == 501:
        return Failed("INVALID_INPUT", f"the endpoint cannot do that (501): {said}", form=True, counted=NOTHING)
    return Failed(
        "TIMEOUT" if status in (408, 504) else "TOOL_DOWN",
        f"the endpoint answered {status}: {said}",
        transient=True,
        retry_after_s=_retry_after_s(error.response.headers),
        counted=None if status >= 500 else NOTHING,
    )


def about_form(said: str) -> bool:
    """Whether a refusal seems to be about the form that was asked for."""
    return any(word in said.lower() for word in _FORM_WORDS)


def _retry_after_s(headers: Any) -> float | None:
    """In seconds from now, as `Retry-After` (a number or a date) or `retry-after-ms` say."""
    try:
        if text := headers.get("retry-after-ms"):
            return max(float(text) / 1000, 0.0)
        if not (text := headers.get("retry-after")):
            return None
        if text.strip().replace(".", "", 1).isdigit():
            return float(text)
        until = email.utils.parsedate_to_datetime(text)
        return max((until - datetime.now(until.tzinfo)).total_seconds(), 0.0)
    except (ValueError, TypeError):
        return None


def _cause(error: BaseException) -> str:
    return describe(error.__cause__ or error)


@dataclass(frozen=True)
class _Endpoint:
    base_url: str | None
    api_key_env: str | None
    timeout_s: float

    @classmethod
    def of(cls, model: Model) -> "_Endpoint":
        return cls(model.base_url, model.api_key_env, model.timeout_s)


_clients: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[_Endpoint, Any]] = WeakKeyDictionary()


def _client(endpoint: _Endpoint) -> Any:
    """One client an endpoint and event loop. Raises BadModels."""
    known = _clients.setdefault(asyncio.get_running_loop(), {})
    if endpoint not in known:
        known[endpoint] = _connected(endpoint)
    return known[endpoint]


def _connected(endpoint: _Endpoint) -> Any:
    """A client that keeps no connection open after a call: nobody would close it, and beside what a model takes a new
    one costs nothing."""
    openai = _openai()
    variable = endpoint.api_key_env or "OPENAI_API_KEY"
    key = os.environ.get(variable)
    if not key and endpoint.api_key_env:
        raise BadModels(f"api_key_env names {variable}, which is not set")
    if not key and not (endpoint.base_url or os.environ.get("OPENAI_BASE_URL")):
        raise BadModels("set OPENAI_API_KEY, or OPENAI_BASE_URL (base_url of the model) for an endpoint of your own")
    limits = importlib.import_module("httpx2").Limits(max_keepalive_connections=0)
    return openai.AsyncOpenAI(
        base_url=endpoint.base_url,
        api_key=key or NO_KEY,
        max_retries=0,
        timeout=endpoint.timeout_s,
        http_client=openai.DefaultAsyncHttpxClient(limits=limits, timeout=endpoint.timeout_s),
    )


@lru_cache(maxsize=1)
def _openai() -> Any:
    """Importing it takes a second."""
    return importlib.import_module("openai")
