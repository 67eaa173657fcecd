"""`blackboard tail`: the log, message by message."""

import base64
from collections.abc import Sequence
from typing import Any

import msgspec
import orjson

from blackboard.find import find_run
from blackboard.log import Message
from blackboard.options import BoardOptions
from projections.cli_events import words
from projections.cli_text import clean, when
from schemas.codec import NotAFactMessage, UnknownEvent, decode_event, decode_facts
from schemas.subjects import Address, BadName, Subjects

EVENTS_SHOWN = 4


async def tail_log(options: BoardOptions, text: str | None, after: int, follow: bool) -> None:
    settings = options.settings()
    async with settings.open("tail") as board:
        chosen = board.subjects.of_run(await find_run(board, text)) if text else []

        async def on_messages(messages: Sequence[Message]) -> None:
            for message in messages:
                if options.as_json:
                    options.say(message_record(message, board.subjects))
                else:
                    options.say({}, message_line(message, board.subjects))

        if follow:
            subscription = await board.log.subscribe(on_messages, chosen, after)
            try:
                await subscription.wait()
            finally:
                await subscription.close()
        else:
            async for messages in board.log.scan(chosen, after):
                await on_messages(messages)


def message_record(message: Message, subjects: Subjects) -> dict[str, Any]:
    """A message for programs; bytes that are no JSON stand under `body_base64`."""
    address = _address(message, subjects)
    record: dict[str, Any] = {"seq": message.seq, "time_ms": message.time_ms, "subject": message.subject}
    record |= address._asdict() | {"headers": message.headers or {}}
    try:
        return record | {"body": orjson.loads(message.data)}
    except orjson.JSONDecodeError:
        return record | {"body_base64": base64.b64encode(message.data).decode()}


def message_line(message: Message, subjects: Subjects) -> str:
    """A message for people."""
    address = _address(message, subjects)
    told = _facts(message.data) if address.family == "fact" else _input(address.family, message.data)
    who = f"{address.author or '-':<20} {address.run or '-':<28}"
    return clean(f"{message.seq:>8}  {when(message.time_ms)}  {address.family:<8} {who} {told}").rstrip()


def _address(message: Message, subjects: Subjects) -> Address:
    try:
        return subjects.parse(message.subject)
    except BadName:
        return Address("unknown", "", "")


def _facts(data: bytes) -> str:
    try:
        facts = decode_facts(data)
    except NotAFactMessage as error:
        return f"not a fact message: {error}"
    told = [_event(raw) for raw in facts.events[:EVENTS_SHOWN]]
    more = [f"{len(facts.events) - EVENTS_SHOWN} more"] if len(facts.events) > EVENTS_SHOWN else []
    return f"{facts.first}..{facts.first + len(facts.events) - 1}: {', '.join(told + more)}"


def _event(raw: msgspec.Raw) -> str:
    try:
        return words(decode_event(memoryview(raw)))
    except UnknownEvent as error:
        return str(error)


_TOLD = {
    "goal": ("team", "budget"),
    "obs": ("type", "task", "attempt", "tool", "done", "code", "to", "message"),
    "intent": ("type", "task", "attempt", "tool", "round", "arguments"),
    "signal": ("type", "gate", "value", "reason"),
    "wake": ("type", "timer", "capability", "child", "parent", "end"),
    "contract": ("version", "offers"),
    "playbook": ("version",),
}
"""Which fields of a message are told, by family."""


def _input(family: str, data: bytes) -> str:
    try:
        body = orjson.loads(data)
    except orjson.JSONDecodeError:
        return f"{len(data)} bytes that are no JSON"
    if not isinstance(body, dict):
        return f"JSON that is no object: {str(body)[:60]}"
    told = [(name, body[name]) for name in _TOLD.get(family, ("type",)) if body.get(name) not in (None, "", [], {})]
    keys = [claim.get("key", "") for claim in body.get("claims") or () if isinstance(claim, dict)]
    told += [("claims", keys)] if keys else []
    if isinstance(question := body.get("question"), dict):
        told.append(("asks", question.get("ask", "")))
    return "  ".join(_told(name, content) for name, content in told)


def _told(name: str, content: Any) -> str:
    if isinstance(content, list):
        shown = ", ".join(map(str, content[:EVENTS_SHOWN]))
        content = f"{shown} and {len(content) - EVENTS_SHOWN} more" if len(content) > EVENTS_SHOWN else shown
    text = content if isinstance(content, str) else orjson.dumps(content).decode()
    return text if name == "type" else f"{name} {text[:120]}"
