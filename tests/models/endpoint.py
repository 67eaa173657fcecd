"""An OpenAI-compatible endpoint that says what a test wants, and a proxy that spoils what a real one says.

Both count: `used` is what they told that calls have used, by which the books of a run are compared.
"""

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import uvicorn
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import JSONResponse, Response, StreamingResponse
from starlette.routing import Route

Asked = dict[str, Any]
"""The body of a request."""


@dataclass(frozen=True)
class Say:
    """A good answer. `usage` None: the endpoint does not say. `chunks`: pieces of a streamed one."""

    content: str = ""
    finish: str = "stop"
    usage: tuple[int, int] | None = (10, 5)
    cached: int = 0
    reasoning: int = 0
    tool_calls: tuple[dict[str, Any], ...] = ()
    refusal: str = ""
    after_s: float = 0.0


@dataclass(frozen=True)
class Status:
    """A refusal by a status."""

    status: int
    message: str = "no"
    code: str | None = None
    headers: dict[str, str] = field(default_factory=dict)


@dataclass(frozen=True)
class Raw:
    """Bytes, as they are; `cut`: the connection ends before they do."""

    data: bytes
    cut: bool = False
    media_type: str = "application/json"


Answer = Say | Status | Raw | Callable[[Asked], Say | Status | Raw]


class Endpoint:
    """Answers one after the other, the last one for all that follow."""

    def __init__(self, *answers: Answer) -> None:
        self.answers = list(answers) or [Say("fine")]
        self.asked: list[Asked] = []
        self.headers: list[dict[str, str]] = []
        self.used = [0, 0]
        self.url = ""

    async def handle(self, request: Request) -> Response:
        body = await request.json()
        self.asked.append(body)
        self.headers.append(dict(request.headers))
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if callable(answer):
            answer = answer(body)
        match answer:
            case Status(status, message, code, headers):
                error = {"error": {"message": message, "code": code, "type": "t", "param": None}}
                return JSONResponse(error, status, headers)
            case Raw(data, cut, media_type):
                return (
                    StreamingResponse(_cut(data), media_type=media_type)
                    if cut
                    else Response(data, 200, None, media_type)
                )
        await asyncio.sleep(answer.after_s)
        if answer.usage:
            self.used[0] += answer.usage[0]
            self.used[1] += answer.usage[1]
        if body.get("stream"):
            return StreamingResponse(_streamed(answer), media_type="text/event-stream")
        return JSONResponse(_whole(answer))


async def _cut(data: bytes) -> AsyncIterator[bytes]:
    yield data
    await asyncio.sleep(0.01)
    raise ConnectionAbortedError


def _usage(answer: Say) -> dict[str, Any] | None:
    if answer.usage is None:
        return None
    given, made = answer.usage
    return {
        "prompt_tokens": given,
        "completion_tokens": made,
        "total_tokens": given + made,
        "prompt_tokens_details": {"cached_tokens": answer.cached},
        "completion_tokens_details": {"reasoning_tokens": answer.reasoning},
    }


def _message(answer: Say) -> dict[str, Any]:
    message: dict[str, Any] = {"role": "assistant", "content": answer.content or None}
    if answer.tool_calls:
        message["tool_calls"] = list(answer.tool_calls)
    if answer.refusal:
        message["refusal"] = answer.refusal
    return message


def _whole(answer: Say) -> dict[str, Any]:
    choice = {"index": 0, "message": _message(answer), "finish_reason": answer.finish}
    return _frame("chat.completion") | {"choices": [choice], "usage": _usage(answer)}


def _frame(kind: str) -> dict[str, Any]:
    return {"id": "c1", "object": kind, "created": 1, "model": "scripted"}


async def _streamed(answer: Say) -> AsyncIterator[bytes]:
    frame = _frame("chat.completion.chunk")
    for start in range(0, len(answer.content), 8):
        delta = {"role": "assistant", "content": answer.content[start : start + 8]}
        yield event(frame | {"choices": [{"index": 0, "delta": delta, "finish_reason": None}]})
    for index, call in enumerate(answer.tool_calls):
        yield event(
            frame
            | {"choices": [{"index": 0, "delta": {"tool_calls": [call | {"index": index}]}, "finish_reason": None}]}
        )
    yield event(frame | {"choices": [{"index": 0, "delta": {}, "finish_reason": answer.finish}]})
    if answer.usage:
        yield event(frame | {"choices": [], "usage": _usage(answer)})
    yield b"data: [DONE]\n\n"


def event(value: dict[str, Any]) -> bytes:
    """One piece of a stream."""
    return b"data: " + json.dumps(value).encode() + b"\n\n"


@contextlib.contextmanager
def served(handle: Callable[[Request], Any]) -> Iterator[str]:
    """The base URL at which `handle` answers, from a thread and loop of its own."""
    app = Starlette(routes=[Route("/v1/chat/completions", handle, methods=["POST"])])
    listening = socket.socket()
    listening.bind(("127.0.0.1", 0))
    config = uvicorn.Config(app, log_level="critical", lifespan="off", timeout_graceful_shutdown=0)
    server = uvicorn.Server(config)
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listening]}, daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}/v1"
    finally:
        server.should_exit = True
        thread.join()
        listening.close()


@contextlib.contextmanager
def endpoint(*answers: Answer) -> Iterator[Endpoint]:
    made = Endpoint(*answers)
    with served(made.handle) as url:
        made.url = url
        yield made
