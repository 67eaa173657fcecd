"""What a person typed becomes a value: JSON is JSON, and a plain text needs no quotes where a text is asked for."""

from typing import Any

import pytest

from blackboard.client import BadInput
from projections.cli_answer import checked

TEXT: dict[str, Any] = {"type": "string"}
OPTIONAL: dict[str, Any] = {"anyOf": [{"type": "string"}, {"type": "null"}]}
COLOUR: dict[str, Any] = {"$ref": "#/$defs/Colour", "$defs": {"Colour": {"enum": ["red", "green"], "type": "string"}}}
LISTED: dict[str, Any] = {"type": "array", "items": {"type": "object", "properties": {"n": {"minimum": 1}}}}


@pytest.mark.parametrize(
    ("schema", "text", "value"),
    [
        (TEXT, "plain", "plain"),
        (TEXT, '"quoted"', "quoted"),
        (TEXT, "5", "5"),
        (TEXT, "null", "null"),
        (TEXT, '{"a": 1}', '{"a": 1}'),
        (TEXT, "[sic]", "[sic]"),
        (TEXT, "Infinity", "Infinity"),
        (OPTIONAL, "5", "5"),
        (TEXT, "", ""),
        (TEXT, "  two words ", "  two words "),
        (OPTIONAL, "null", None),
        (OPTIONAL, "nullify", "nullify"),
        (COLOUR, "red", "red"),
        ({}, "5", 5),
        ({}, "fine by me", "fine by me"),
        ({}, '{"a": [1, null]}', {"a": [1, None]}),
        ({"enum": ["1", 2]}, "1", "1"),
        ({"enum": ["1", 1]}, "1", 1),
        ({"type": ["integer", "string"]}, "7", 7),
        ({"type": "boolean"}, "true", True),
        ({"type": "number"}, "-1.5e3", -1500.0),
        (LISTED, '[{"n": 1}]', [{"n": 1}]),
    ],
)
def test_value(schema: dict[str, Any], text: str, value: Any) -> None:
    found = checked(text, schema)
    assert (found, type(found)) == (value, type(value))


@pytest.mark.parametrize(
    ("schema", "text", "problem"),
    [
        ({}, '{"a": 1', "it is not JSON: "),
        ({}, "[1, 2", "it is not JSON: "),
        ({"type": "boolean"}, "yes", '/ breaks /type, which says "boolean"'),
        (COLOUR, "blue", "/ breaks /"),
        (LISTED, '[{"n": 1}, {"n": 0}]', "/1/n breaks /items/properties/n/minimum, which says 1"),
        ({"const": "a"}, '"b"', '/ breaks /const, which says "a"'),
        ({"type": "integer"}, "1.5", '/ breaks /type, which says "integer"'),
        ({"type": "object"}, "{}x", "it is not JSON: "),
        ({}, "[" * 65 + "]" * 65, "more than 64 lists and objects inside each other"),
        ({}, "[" * 5_000 + "]" * 5_000, "it is nested too deep"),
        ({"type": ["integer", "string"]}, "1.5", '/ breaks /type, which says ["integer","string"]'),
        ({}, "Infinity", "a number that is not finite"),
        ({}, '"' + "x" * 65_536 + '"', "it has 65538 bytes, the limit is 65536"),
        ({"enum": ["\x1b[2J"]}, "\x1b[31m", "\\x1b[31m"),
    ],
)
def test_no_value(schema: dict[str, Any], text: str, problem: str) -> None:
    with pytest.raises(BadInput) as raised:
        checked(text, schema)
    assert problem in str(raised.value)
    assert str(raised.value).isprintable(), "a terminal obeys nothing of it"
    assert len(str(raised.value)) < 500
