"""Bytes and digests: one encoding, one chain, one limit of depth."""

import hashlib
import json
from typing import Any

import msgspec
import pytest

from schemas import events as e
from schemas.codec import (
    MESSAGE_DEPTH,
    VALUE_DEPTH,
    NotAFactMessage,
    UnknownEvent,
    canonical,
    chain_next,
    chain_start,
    decode_event,
    decode_facts,
    digest,
    encode,
    encode_facts,
    ends_run,
    sha256,
    too_deep,
    unstorable,
)
from schemas.event_kinds import EVENT_VERSIONS, EventUnion
from schemas.usage import Usage

CAUSE = e.Cause(7, "ab" * 32)
ENDED = e.RunEnded(at=5, cause=CAUSE, end="DONE", result={"x": 1})
STARTED = e.TaskStarted(at=5, cause=CAUSE, task="a", attempt=1, execution="x")


def test_canonical_bytes_do_not_know_the_order_of_keys() -> None:
    assert canonical({"b": 1, "a": [{"d": 2, "c": "é"}]}) == '{"a":[{"c":"é","d":2}],"b":1}'.encode()
    assert digest({"a": 1, "b": 2}) == digest({"b": 2, "a": 1}) == sha256(b'{"a":1,"b":2}')


@pytest.mark.parametrize(("one", "other"), [(1, 1.0), (0, False), (None, "null"), ([], {}), ("a", ["a"]), (0.0, -0.0)])
def test_canonical_bytes_tell_values_apart(one: Any, other: Any) -> None:
    assert canonical(one) != canonical(other)


def test_chain_starts_with_log_and_run_and_goes_on_with_stored_bytes() -> None:
    assert chain_start("l", "r") == hashlib.sha256(b"l\nr").hexdigest()
    assert chain_start("l", "r") != chain_start("l", "s")
    h = chain_start("l", "r")
    assert chain_next(h, b"one") == hashlib.sha256(bytes.fromhex(h) + b"one").hexdigest()
    assert chain_next(chain_next(h, b"one"), b"two") != chain_next(chain_next(h, b"two"), b"one")


def test_fact_message_keeps_the_bytes_of_its_events() -> None:
    spaced = b'{"type": "run_ended",  "at": 5, "cause": {"seq": 7, "sha256": "%s"}, "end": "DONE"}' % (b"ab" * 32)
    message = decode_facts(encode_facts("l", "r", 3, "00", [encode(STARTED), spaced]))
    assert [bytes(memoryview(event)) for event in message.events] == [encode(STARTED), spaced]
    assert (message.log, message.run, message.first, message.prev) == ("l", "r", 3, "00")


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"[]",
        b"{}",
        b"\xff",
        b"[" * 100_000,
        b'{"log":"l","run":"r","first":1,"prev":"","events":[]}',
        b'{"log":"l","run":"r","first":0,"prev":"","events":[{}]}',
        b'{"log":"l","run":"r","first":1,"prev":"","events":[{}],"more":1}',
        b'{"log":"l","run":"r","first":"1","prev":"","events":[{}]}',
    ],
)
def test_bytes_that_are_no_fact_message(data: bytes) -> None:
    with pytest.raises(NotAFactMessage):
        decode_facts(data)
    assert not ends_run(data)


@pytest.mark.parametrize("name", EVENT_VERSIONS)
def test_every_event_says_type_and_version(name: str) -> None:
    assert f'"v":{EVENT_VERSIONS[name]}' in msgspec.json.encode(minimal(name)).decode()
    assert decode_event(encode(minimal(name))) == minimal(name)


def minimal(name: str) -> e.Event:
    """Some event of that type."""
    values: dict[str, Any] = {"at": 1, "cause": {"seq": 7, "sha256": "ab" * 32}, "type": name}
    (info,) = [kind for kind in msgspec.inspect.type_info(EventUnion).types if kind.tag == name]
    for field in info.fields:
        if field.required and field.name not in values:
            values[field.name] = some(field.type)
    return msgspec.convert(values, EventUnion)


EXAMPLES: dict[str, Any] = {
    "StrType": "ab" * 32,
    "DictType": {},
    "VarTupleType": [],
    "ListType": [],
    "BoolType": True,
    "AnyType": None,
    "NoneType": None,
}


def some(kind: Any) -> Any:
    match type(kind).__name__:
        case "IntType":
            return kind.ge or 1
        case "LiteralType":
            return kind.values[0]
        case "StructType":
            return {field.name: some(field.type) for field in kind.fields if field.required}
        case "UnionType":
            return some(kind.types[0])
        case other:
            return EXAMPLES[other]


@pytest.mark.parametrize(
    ("stored", "says"),
    [
        (b'{"type":"run_exploded","v":1}', "unknown event type 'run_exploded'; a newer release may know it"),
        (b'{"v":1}', "unknown event type 'None'"),
        (b'{"type":"task_ended","v":3}', "event 'task_ended' has version 3, this release knows up to 2"),
        (b'{"type":"run_ended","v":2}', "event 'run_ended' has version 2, this release knows up to 1"),
        (b'{"type":"run_ended","v":"x"}', "event 'run_ended' has version 'x'"),
        (b'{"type":"task_ended","v":0}', "event 'task_ended' version 0 can no longer be read"),
        (b'{"type":"run_ended","v":1}', "event 'run_ended' version 1: "),
        (b"[1]", "not an event"),
        (b"{", "not an event"),
    ],
)
def test_event_that_is_not_known_is_named(stored: bytes, says: str) -> None:
    with pytest.raises(UnknownEvent) as failure:
        decode_event(stored)
    assert str(failure.value).startswith(says)


def test_first_version_of_task_ended_is_lifted() -> None:
    first = {"type": "task_ended", "v": 1, "at": 1, "cause": {"seq": 7, "sha256": "ab" * 32}}
    lifted = decode_event(json.dumps(first | {"task": "a", "attempt": 2, "specialist": "w", "tokens": 12}).encode())
    assert lifted == e.TaskEnded(at=1, cause=CAUSE, task="a", attempt=2, specialist="w", usage=Usage(12))


@pytest.mark.parametrize(
    ("events", "ends"),
    [
        ([STARTED, ENDED], True),
        ([ENDED, e.InputLate(at=5, cause=CAUSE, author="w", reason="")], True),
        ([STARTED], False),
        ([e.InputLate(at=5, cause=CAUSE, author="w", reason='"type":"run_ended"')], False),
    ],
)
def test_message_that_holds_the_end_of_its_run(events: list[e.Event], ends: bool) -> None:
    assert ends_run(encode_facts("l", "r", 1, "00", [encode(event) for event in events])) == ends


def test_value_that_looks_like_the_end_of_a_run_is_none() -> None:
    fact = e.FactCommitted(
        at=5, cause=CAUSE, step="a", key="a", value={"type": "run_ended"}, task="a", by="w", policy="only"
    )
    data = encode_facts("l", "r", 1, "00", [encode(fact)])
    assert b'"type":"run_ended"' in data
    assert not ends_run(data)


def nested(depth: int) -> Any:
    value: Any = []
    for _ in range(depth - 1):
        value = {"x": value}
    return value


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        (nested(VALUE_DEPTH), ""),
        (nested(VALUE_DEPTH + 1), "more than 64 lists and objects inside each other"),
        (2**64 - 1, ""),
        (2**64, "a whole number of more than 64 bits"),
        (-(2**63), ""),
        ([-(2**63) - 1], "a whole number of more than 64 bits"),
        ({"x": float("nan")}, "a number that is not finite"),
        (float("-inf"), "a number that is not finite"),
        (["\ud800"], "half of a character"),
        ("\U0001f600\u0000", ""),
        (True, ""),
        (None, ""),
    ],
)
def test_what_has_no_bytes_that_every_reader_agrees_on(value: Any, reason: str) -> None:
    assert unstorable(value) == reason
    if not reason:
        assert json.loads(canonical(value)) == value


@pytest.mark.parametrize(
    ("data", "deep"),
    [
        (b"[" * MESSAGE_DEPTH + b"]" * MESSAGE_DEPTH, False),
        (b"[" * (MESSAGE_DEPTH + 1) + b"]" * (MESSAGE_DEPTH + 1), True),
        (b"[" * (MESSAGE_DEPTH + 1), True),
        (b"[]" * 5_000, False),
        (b'{"a":' * (MESSAGE_DEPTH + 1), True),
        (b'"' + b"[" * 5_000 + b'"', False),
        (b'"\\"' + b"[" * 5_000 + b'"', False),
        (b'"\\\\"' + b"[" * 5_000, True),
        (b"]" * 200 + b"[" * 201, False),
    ],
)
def test_depth_is_seen_before_the_text_is_read(data: bytes, deep: bool) -> None:
    assert too_deep(data) == deep
