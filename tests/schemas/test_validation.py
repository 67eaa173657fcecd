"""Validation: reasons are made of paths and keywords, never of the validator's sentences."""

from pathlib import Path
from typing import Any

import pytest

from schemas.validation import check_schema, in_words, violation

PERSON = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"type": "string", "minLength": 2}, "ages": {"items": {"$ref": "#/$defs/age"}}},
    "additionalProperties": False,
    "$defs": {"age": {"type": "integer", "minimum": 0}},
}


@pytest.mark.parametrize(
    ("value", "reason"),
    [
        ({"name": "ab"}, None),
        ({"name": "ab", "ages": [1, 2.0]}, None),
        ([], "/ breaks /type"),
        ({}, "/ breaks /required"),
        ({"name": "a"}, "/name breaks /properties/name/minLength"),
        ({"name": 5}, "/name breaks /properties/name/type"),
        ({"name": "ab", "x": 1}, "/ breaks /additionalProperties"),
        ({"name": "ab", "ages": [1, -1]}, "/ages/1 breaks /$defs/age/minimum"),
    ],
)
def test_first_violation_in_order_of_paths(value: Any, reason: str | None) -> None:
    assert violation(PERSON, value) == reason


MEMBER = {
    "type": "object",
    "required": ["name"],
    "properties": {"name": {"minLength": 2}},
    "additionalProperties": False,
}
TEAM = {"type": "object", "required": ["lead", "place"], "properties": {"lead": MEMBER, "others": {"items": MEMBER}}}


@pytest.mark.parametrize(
    ("value", "said"),
    [
        ({"lead": {"name": "ab"}, "place": ""}, None),
        ({}, "lead: is missing"),
        ({"lead": {"name": "ab"}}, "place: is missing"),
        ({"lead": {}, "place": ""}, "lead.name: is missing"),
        ({"lead": {"name": "ab"}, "place": "", "others": [{"name": "ab"}, {}]}, "others.1.name: is missing"),
        ({"lead": {"name": "ab", "naem": ""}, "place": ""}, "lead.naem: is not a known field"),
        ({"lead": {"name": "a"}, "place": ""}, "/lead/name breaks /properties/lead/properties/name/minLength"),
    ],
)
def test_people_read_the_name_of_the_field(value: Any, said: str | None) -> None:
    assert in_words(TEAM, value) == said
    assert (violation(TEAM, value) is None) == (said is None)


def test_several_violations_give_one_reason_whatever_the_order_of_keys() -> None:
    one = violation(PERSON, {"ages": ["x"], "name": 5, "y": 1})
    assert one == "/ breaks /additionalProperties"
    assert one == violation(dict(reversed(PERSON.items())), {"y": 1, "name": 5, "ages": ["x"]})


@pytest.mark.parametrize("schema", [{}, {"type": ["string", "null"]}, {"$ref": "#"}, {"not": {}}, PERSON])
def test_schema(schema: dict[str, Any]) -> None:
    assert check_schema(schema) is schema


@pytest.mark.parametrize(
    ("schema", "reason"),
    [
        ({"type": "nix"}, "is not a JSON Schema at /type"),
        ({"properties": {"a": {"minimum": "x"}}}, "is not a JSON Schema at /properties/a/minimum"),
        ({"pattern": "("}, "is not a JSON Schema at /pattern"),
        ({"maximum": 10**30}, "is not a JSON Schema, or refers to one outside of itself"),
    ],
)
def test_no_schema(schema: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=f"^{reason}$"):
        check_schema(schema)


def test_schema_reads_no_file_and_asks_no_server(tmp_path: Path) -> None:
    """What another file or server says is not on the log, so no two supervisors need agree on it."""
    (tmp_path / "integer.json").write_text('{"type": "integer"}')
    for place in ((tmp_path / "integer.json").as_uri(), "http://127.0.0.1:9/integer.json"):
        with pytest.raises(ValueError, match="is not a JSON Schema"):
            check_schema({"$ref": place})


def test_schema_of_itself_ends() -> None:
    assert violation({"$ref": "#"}, {"x": 1}) is None
    assert violation({"properties": {"x": {"$ref": "#"}}, "type": "object"}, {"x": {"x": 1}}) is not None
