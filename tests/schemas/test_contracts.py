"""Contracts, each way to be wrong."""

import json
from typing import Any

import pytest

from schemas.contracts import CONTRACT_LIMIT, RETRIED, STOP_CODES, Contract, read_contract

SOUND: dict[str, Any] = {"specialist": "w", "offers": ["work"]}


def read(**fields: Any) -> Contract | str:
    return read_contract(json.dumps(SOUND | fields).encode(), "w")


def test_contract_with_its_defaults() -> None:
    contract = read()
    assert isinstance(contract, Contract)
    assert (contract.deadline_s, contract.attempts, contract.authority) == (30, 3, "observe")


@pytest.mark.parametrize(
    "fields",
    [
        {"offers": []},
        {"output": {"type": "integer"}, "input": {"$ref": "#/$defs/x", "$defs": {"x": True}}},
        {"deadline_s": 0.001, "attempts": 100},
        {"tools": [{"tool": "http", "scopes": ["GET example.org"]}]},
        {"stops": ["TOOL_DOWN"]},
    ],
)
def test_sound(fields: dict[str, Any]) -> None:
    assert isinstance(read(**fields), Contract)


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"specialist": "v"}, "specialist: names 'v', the subject names 'w'"),
        ({"specialist": "a b"}, "specialist: is not allowed (string_pattern_mismatch)"),
        ({"offers": ["a b"]}, "offers.0: is not allowed (string_pattern_mismatch)"),
        ({"offers": "work"}, "offers: is not allowed (list_type)"),
        ({"v": 2}, "v: unknown version '2'"),
        ({"type": "promise"}, "type: unknown type 'promise'"),
        ({"deadline_s": 0}, "deadline_s: is not allowed (greater_than)"),
        ({"deadline_s": -1}, "deadline_s: is not allowed (greater_than)"),
        ({"deadline_s": float("nan")}, "deadline_s: is not allowed (less_than_equal)"),
        ({"deadline_s": float("inf")}, "deadline_s: is not allowed (less_than_equal)"),
        ({"attempts": 0}, "attempts: is not allowed (greater_than_equal)"),
        ({"attempts": 101}, "attempts: is not allowed (less_than_equal)"),
        ({"authority": "rule"}, "authority: is not allowed (literal_error)"),
        ({"stops": ["TIRED"]}, "stops.0: is not allowed (literal_error)"),
        ({"price": 1}, "price: is not a known field"),
        ({"output": {"type": "nix"}}, "output: is not a JSON Schema at /type"),
        ({"output": {"properties": {"x": {"pattern": "("}}}}, "output: is not a JSON Schema at /properties/x/pattern"),
        (
            {"output": {"$ref": "https://example.org/schema"}},
            "output: is not a JSON Schema at /",
        ),
        ({"input": {"$ref": "file:///etc/hostname"}}, "input: is not a JSON Schema at /"),
    ],
)
def test_wrong(fields: dict[str, Any], reason: str) -> None:
    assert read(**fields) == reason


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "not JSON"),
        (b"{}", "specialist: is missing"),
        (b"[" * 200_000, "nested deeper than 100"),
        (b" " * (CONTRACT_LIMIT + 1), f"{CONTRACT_LIMIT + 1} bytes; the limit is {CONTRACT_LIMIT}"),
    ],
)
def test_bytes_that_are_no_contract(data: bytes, reason: str) -> None:
    assert read_contract(data, "w") == reason


def test_codes_after_which_another_attempt_may_help_are_codes() -> None:
    assert RETRIED < STOP_CODES
