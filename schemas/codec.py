"""Bytes and digests of what stands on the log: one encoding, one chain, one place where old versions are lifted.

Pure. Messages are JSON. Digests are SHA-256 in lower-case hex; `canonical` bytes (keys sorted) are what digests of
values and states are taken over, stored bytes what the chain is taken over.
"""

import hashlib
import math
import re
from collections.abc import Callable, Sequence
from typing import Any

import msgspec
import orjson

from schemas.event_kinds import EVENT_VERSIONS, EventUnion
from schemas.events import Event, RunEnded

MESSAGE_LIMIT = 512 * 1024
"""Bytes of one fact message."""
INPUT_EVENTS_LIMIT = 256 * 1024
"""Bytes of the events that one input may bring about."""
VALUE_LIMIT = 64 * 1024
"""Bytes of one value inline; larger ones are blobs."""
STATE_LIMIT = 1_000_000
"""Bytes of the canonical state of one run."""


VALUE_DEPTH = 64
"""Lists and objects inside each other in one value."""
MESSAGE_DEPTH = 100
"""The same in one message."""
_TEXT = re.compile(rb'"(?:[^"\\]|\\.)*"', re.DOTALL)
_BRACKET = re.compile(rb"[\[\]{}]")
_HALF_CHARACTER = re.compile("[\ud800-\udfff]")


class UnknownEvent(Exception):
    """A type or version of event that this release does not know. Read the run with a release that does."""


class NotAFactMessage(ValueError):
    """Bytes on a fact subject that are no fact message."""


def canonical(value: Any) -> bytes:
    """The one byte form of a JSON-like value or a msgspec Struct: UTF-8, no blanks, keys sorted."""
    return orjson.dumps(msgspec.to_builtins(value), option=orjson.OPT_SORT_KEYS)


def unstorable(value: Any, depth: int = VALUE_DEPTH) -> str:
    """Why a value read from JSON has no canonical bytes that every reader agrees on; empty when it has."""
    if isinstance(value, dict | list):
        if depth == 0:
            return f"more than {VALUE_DEPTH} lists and objects inside each other"
        inner = value.values() if isinstance(value, dict) else value
        return next((reason for item in inner if (reason := unstorable(item, depth - 1))), "")
    if isinstance(value, int) and not -(2**63) <= value < 2**64:
        return "a whole number of more than 64 bits"
    if isinstance(value, float) and not -math.inf < value < math.inf:
        return "a number that is not finite"
    if isinstance(value, str) and not value.isascii() and _HALF_CHARACTER.search(value):
        return "half of a character"
    return ""


def too_deep(data: bytes) -> bool:
    """Whether a JSON text is nested deeper than MESSAGE_DEPTH. Seen before it is read: at which depth a reader gives up
    depends on the machine."""
    if data.count(b"[") + data.count(b"{") <= MESSAGE_DEPTH:
        return False
    depth = 0
    for bracket in _BRACKET.finditer(_TEXT.sub(b"", data)):
        depth += 1 if bracket[0] in b"[{" else -1
        if depth > MESSAGE_DEPTH:
            return True
    return False


def sha256(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def digest(value: Any) -> str:
    """SHA-256 of the canonical bytes of `value`."""
    return sha256(canonical(value))


def chain_start(log: str, run: str) -> str:
    """h0 of a run."""
    return sha256(f"{log}\n{run}".encode())


def chain_next(h: str, stored: bytes | memoryview) -> str:
    """hn from hn-1 and the stored bytes of event n."""
    return chain_link(bytes.fromhex(h), stored).hex()


def chain_link(link: bytes, stored: bytes | memoryview) -> bytes:
    """The same on the 32 bytes that h spells."""
    digest = hashlib.sha256(link)
    digest.update(stored)
    return digest.digest()


class FactMessage(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """What lies on `fact.<run>`: events `first` .. `first + len(events) - 1`, each as its stored bytes; `prev` is the
    chain before `first`."""

    log: str
    run: str
    first: int
    prev: str
    events: list[msgspec.Raw]


_encoder = msgspec.json.Encoder()
_fact_message = msgspec.json.Decoder(FactMessage)
_event: msgspec.json.Decoder[Event] = msgspec.json.Decoder(EventUnion)

encode: Callable[[Any], bytes] = _encoder.encode
"""Bytes of a Struct for the log; fields in the order of their declaration."""


def encode_facts(log: str, run: str, first: int, prev: str, events: Sequence[bytes]) -> bytes:
    """A fact message around already encoded events, whose bytes it keeps."""
    return encode(FactMessage(log, run, first, prev, [msgspec.Raw(event) for event in events]))


def decode_facts(data: bytes) -> FactMessage:
    """Raises NotAFactMessage."""
    try:
        message = _fact_message.decode(data)
    except msgspec.MsgspecError as error:
        raise NotAFactMessage(str(error)) from None
    if not message.events or message.first < 1:
        raise NotAFactMessage("it holds no events, or numbers them below 1")
    return message


def facts_of(data: bytes, log: str, run: str) -> FactMessage:
    """The fact message of `run` in this log: all readers pass over what raises here, and none trusts what is in it.

    Raises NotAFactMessage for bytes that are none, and for a fact message of another run or log.
    """
    message = decode_facts(data)
    if (message.log, message.run) != (log, run):
        raise NotAFactMessage(f"it belongs to run {message.run!r} of log {message.log!r}, not to this one")
    return message


def ends_run(data: bytes, log: str = "", run: str = "") -> bool:
    """Whether a stored fact message, of `run` in this log where they are given, holds the end of its run. What cannot
    be read holds none."""
    if b'"type":"run_ended"' not in data:  # a value may hold these bytes too
        return False
    try:
        facts = facts_of(data, log, run) if run else decode_facts(data)
        return any(isinstance(decode_event(memoryview(event)), RunEnded) for event in facts.events)
    except (NotAFactMessage, UnknownEvent):
        return False


Upcaster = Callable[[dict[str, Any]], dict[str, Any]]
_upcasters: dict[tuple[str, int], Upcaster] = {}


def upcasts(event_type: str, version: int) -> Callable[[Upcaster], Upcaster]:
    """Register the pure function that lifts `event_type` from `version` to the next."""

    def register(function: Upcaster) -> Upcaster:
        _upcasters[event_type, version] = function
        return function

    return register


@upcasts("task_ended", 1)
def _task_ended_tokens_to_usage(event: dict[str, Any]) -> dict[str, Any]:
    """Version 1 counted tokens as one number; version 2 tells input from output and counts tool calls."""
    tokens = event.pop("tokens", 0)
    return event | {"usage": {"input_tokens": tokens}}


def decode_event(stored: bytes | memoryview) -> Event:
    """One event, lifted to its current version. Raises UnknownEvent."""
    try:
        return _event.decode(stored)
    except msgspec.MsgspecError as error:
        return _decode_older(stored, error)


def _decode_older(stored: bytes | memoryview, failure: Exception) -> Event:
    try:
        raw = msgspec.json.decode(stored, type=dict[str, Any])
    except msgspec.MsgspecError:
        raise UnknownEvent(f"not an event: {failure}") from None
    name, version = str(raw.get("type")), raw.get("v")
    current = EVENT_VERSIONS.get(name)
    if current is None:
        raise UnknownEvent(f"unknown event type {name!r}; a newer release may know it")
    if not isinstance(version, int) or version > current:
        raise UnknownEvent(f"event {name!r} has version {version!r}, this release knows up to {current}")
    while version < current:
        lift = _upcasters.get((name, version))
        if lift is None:
            raise UnknownEvent(f"event {name!r} version {version} can no longer be read")
        version += 1
        raw = lift(raw) | {"v": version}
    try:
        lifted: Event = msgspec.convert(raw, EventUnion)
    except msgspec.MsgspecError as error:
        raise UnknownEvent(f"event {name!r} version {version}: {error}") from None
    return lifted
