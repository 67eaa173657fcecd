"""`blackboard conversation`: what models were asked in a run and what they answered; or the same as a recording."""

from pathlib import Path
from typing import Any

import click
import msgspec
from msgspec.structs import asdict

from blackboard.find import find_run
from blackboard.options import BoardOptions
from projections.cli_text import clean, count, lasting
from projections.conversations import ModelCall, model_calls
from schemas.codec import encode
from schemas.conversations import Message


async def show_conversation(options: BoardOptions, text: str, task: str) -> None:
    settings = options.settings()
    async with settings.open("conversation") as board:
        run = await find_run(board, text)
        calls = 0
        shown: tuple[Message, ...] = ()
        async for call in model_calls(board, run, task):
            calls += 1
            options.say(_record(call), "\n".join(_lines(call, shown)))
            shown = (*call.messages, *([call.answer] if call.answer else []))
    if not calls and not options.as_json:
        options.say({}, f"No model was asked in {run}{f', task {task}' if task else ''}.")


async def export_recording(options: BoardOptions, text: str, task: str, path: str) -> None:
    """The calls as lines that BLACKBOARD_RECORDING reads. A blob that is missing ends it: with a hole in it a recording
    answers otherwise than the models did."""
    settings = options.settings()
    lines: list[bytes] = []
    async with settings.open("conversation") as board:
        run = await find_run(board, text)
        async for call in model_calls(board, run, task):
            if call.missing:
                raise click.ClickException(f"call {call.called.call} of {call.specialist}: {call.missing}")
            lines.append(encode(call.recorded()))
    _write(path, lines)
    options.say({"run": run, "file": path, "calls": len(lines)}, f"{count(len(lines), 'call')} of models in {path}")


def _write(path: str, lines: list[bytes]) -> None:
    Path(path).write_bytes(b"".join(line + b"\n" for line in lines))


def _record(call: ModelCall) -> dict[str, Any]:
    called: dict[str, Any] = msgspec.to_builtins(asdict(call.called))
    record = {"seq": call.seq, "specialist": call.specialist, **called}
    return record | {"messages_read": list(call.messages), "answer_read": call.answer, "missing": call.missing}


def _lines(call: ModelCall, shown: tuple[Message, ...]) -> list[str]:
    """A call for people; of a conversation that goes on, what is new."""
    called = call.called
    used = f"{called.usage.input_tokens} + {called.usage.output_tokens} tokens"
    cached = f" ({called.cached_tokens} cached)" if called.cached_tokens else ""
    head = f"{call.specialist}  {called.task}, attempt {called.attempt}, call {called.call}: {called.model}"
    made = [clean(f"{head}, {used}{cached}, {lasting(called.duration_ms)}")]
    if call.missing:
        made.append(f"  {clean(call.missing)}")
    known = _same(call.messages, shown)
    if known:
        made.append(f"  after {count(known, 'message')} as above")
    made += [line for message in call.messages[known:] for line in _message(message)]
    made += _message(call.answer) if call.answer else [clean(f"  {called.code}: {called.message}")]
    return [*made, ""]


def _same(messages: tuple[Message, ...], shown: tuple[Message, ...]) -> int:
    """With how many of the same messages both begin."""
    pairs = zip(messages, shown, strict=False)
    return next((number for number, (one, other) in enumerate(pairs) if one != other), min(len(messages), len(shown)))


def _message(message: Message) -> list[str]:
    role = str(message.get("role", "?"))
    texts = [clean(line) for line in str(message.get("content") or "").splitlines()]
    lines = [f"  {'' if number else role:<10} {text}" for number, text in enumerate(texts)]
    calls = [one.get("function", {}) for one in message.get("tool_calls") or []]
    return lines + [f"  {role:<10} calls {clean(one.get('name'))} {clean(one.get('arguments'))}" for one in calls]
