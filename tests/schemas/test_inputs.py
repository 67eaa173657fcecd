"""Inputs: what cannot be read has a reason, in words that stay the same, since they end up on the log."""

from typing import Any

import msgspec
import pytest

from schemas import inputs as i
from schemas.codec import encode, sha256
from schemas.events import Claim
from schemas.goals import GOAL_LIMIT, Goal
from schemas.subjects import Address
from schemas.usage import Usage

ENDED = b'{"type":"ended","task":"a","attempt":1,"execution":"x","usage":{}'


def body(family: str, data: bytes) -> Any:
    read = i.read_input(7, f"bb.main.{family}.w.r1", Address(family, "w", "r1"), 1_000, data)
    assert (read.seq, read.time_ms, read.sha256) == (7, 1_000, sha256(data))
    return read.body


@pytest.mark.parametrize(
    ("family", "said"),
    [
        ("obs", i.Started(task="a", attempt=1, execution="x")),
        ("obs", i.Progress(task="a", attempt=1, execution="x", message="half", fraction=0.5)),
        ("obs", i.ToolCalled(task="a", attempt=1, execution="x", tool="t", input="00")),
        ("obs", i.Ended(task="a", attempt=1, execution="x", usage=Usage(1), claims=(Claim("a", {"n": [1.5, None]}),))),
        ("signal", i.Cancel(reason="why")),
        ("wake", i.TimerDue(timer="task.a", armed=4)),
        ("wake", i.CapabilityCame(capability="c")),
        ("wake", i.ParentEnded(parent="r0")),
    ],
)
def test_what_is_written_is_read(family: str, said: msgspec.Struct) -> None:
    assert body(family, encode(said)) == said


@pytest.mark.parametrize(
    ("family", "data", "reason"),
    [
        ("obs", b"", "not JSON"),
        ("obs", b"{", "not JSON"),
        ("obs", b"\xff", "not JSON"),
        ("obs", b'{"type":"started"} {}', "not JSON"),
        ("obs", b'{"x":1e999}', "not JSON"),
        ("obs", b"null", "not a JSON object"),
        ("obs", b'"started"', "not a JSON object"),
        ("obs", b"[" * 101, "nested deeper than 100"),
        ("signal", b"[" * 1_000_000, "nested deeper than 100"),
        ("obs", b"{}", "unknown type 'None' of obs"),
        ("obs", b'{"type":7}', "unknown type '7' of obs"),
        ("obs", b'{"type":["started"]}', "unknown type \"['started']\" of obs"),
        ("obs", b'{"type":"cancel"}', "unknown type 'cancel' of obs"),
        ("signal", b'{"type":"started"}', "unknown type 'started' of signal"),
        ("signal", b"{}", "unknown type 'None' of signal"),
        ("signal", b'{"reason":"stop"}', "unknown type 'None' of signal"),
        ("wake", b'{"type":"ended"}', "unknown type 'ended' of wake"),
        ("obs", b'{"type":"' + b"x" * 1_000 + b'"}', f"unknown type '{'x' * 64}' of obs"),
        ("obs", b'{"type":"started","v":2}', "unknown version '2' of started"),
        ("obs", b'{"type":"started","v":"1"}', "unknown version '1' of started"),
        ("obs", b'{"type":"started"}', "does not fit the form of started"),
        ("obs", ENDED + b',"claims":[{"key":1,"value":2}]}', "does not fit the form of ended at $.claims[0].key"),
        ("obs", ENDED + b',"code":"TIRED"}', "does not fit the form of ended at $.code"),
        ("obs", ENDED + b',"more":1}', "does not fit the form of ended"),
        ("obs", b'{"type":"ended","task":"a","attempt":1,"execution":"x"}', "does not fit the form of ended"),
        (
            "obs",
            b'{"type":"started","task":"a","attempt":-1,"execution":"x"}',
            "does not fit the form of started at $.attempt",
        ),
        (
            "obs",
            b'{"type":"started","task":"a","attempt":' + b"9" * 100 + b',"execution":"x"}',
            "does not fit the form of started at $.attempt",
        ),
        (
            "obs",
            b'{"type":"ended","task":"a","attempt":1,"execution":"x","usage":{"input_tokens":-1}}',
            "does not fit the form of ended at $.usage.input_tokens",
        ),
        ("wake", b'{"type":"timer_due","timer":"task.a","armed":"4"}', "does not fit the form of timer_due at $.armed"),
        ("goal", b"{", "not JSON"),
        ("goal", b"[]", "is not allowed (model_type)"),
        ("goal", b"{}", "team: is missing"),
        ("goal", b'{"team":"a b"}', "team: is not allowed (string_pattern_mismatch)"),
        ("goal", b'{"team":"t","v":2}', "v: unknown version '2'"),
        ("goal", b'{"team":"t","type":"wish"}', "type: unknown type 'wish'"),
        ("goal", b'{"team":"t","more":1}', "more: is not a known field"),
        ("goal", b'{"team":"t","input":[]}', "input: is not allowed (dict_type)"),
        ("goal", b'{"team":"t","input":{"x":Infinity}}', "input: a number that is not finite"),
        ("goal", b'{"team":"t","input":{"x":1e999}}', "input: a number that is not finite"),
        ("goal", b'{"team":"t","input":{"x":1' + b"0" * 30 + b"}}", "input: a whole number of more than 64 bits"),
        ("goal", b'{"team":"t","input":{"x":"\\ud800"}}', "not JSON"),
        (
            "goal",
            b'{"team":"t","parent":{"run":"r","task":"a","depth":0}}',
            "parent.depth: is not allowed (greater_than_equal)",
        ),
        ("goal", b" " * (GOAL_LIMIT + 1), f"a goal of {GOAL_LIMIT + 1} bytes; the limit is {GOAL_LIMIT}"),
        (
            "goal",
            b'{"team":"t","input":' + b'{"x":' * 70 + b"1" + b"}" * 71,
            "input: more than 64 lists and objects inside each other",
        ),
    ],
)
def test_what_cannot_be_read_says_why(family: str, data: bytes, reason: str) -> None:
    assert body(family, data) == i.Unreadable(reason)


def test_values_beyond_what_can_be_hashed_are_for_the_contract_to_refuse() -> None:
    read = body("obs", ENDED + b',"claims":[{"key":"a","value":1' + b"0" * 30 + b"}]}")
    assert read.claims[0].value == 10**30


def test_goal_is_read_with_its_defaults() -> None:
    assert body("goal", b'{"team":"t"}') == Goal(team="t")
