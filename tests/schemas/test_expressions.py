"""Expressions and templates: what they give, and that nothing but BadExpression comes out of them."""

from typing import Any

import jmespath
import pytest

from schemas.codec import VALUE_DEPTH
from schemas.expressions import (
    EXPRESSION_LIMIT,
    NESTING_LIMIT,
    BadExpression,
    check_expression,
    check_template,
    evaluate,
    fill,
    produce,
    truth,
)

DOCUMENT: dict[str, Any] = {
    "n": [3, 1, 2],
    "text": "text",
    "mixed": [{"x": 1}, {"x": "a"}, {}],
    "deep": {"a": {"b": None}},
    "yes": True,
    "many": 7,
}


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("n[0]", 3),
        ("sort(n)", [1, 2, 3]),
        ("deep.a.b", None),
        ("nothing.at.all", None),
        ("length(n) == `3` && text", "text"),
        ("{a: n, b: text}", {"a": [3, 1, 2], "b": "text"}),
        ("mixed[?x == `1`] | [0].x", 1),
    ],
)
def test_evaluate(expression: str, value: Any) -> None:
    assert evaluate(check_expression(expression), DOCUMENT) == value


@pytest.mark.parametrize(
    "expression",
    [
        "sum(text)",
        "length(many)",
        "nix(n)",
        "contains(text, `5`)",
        "n[::0]",
        "merge(deep, n)",
        "min_by(mixed, &x)",
        "max_by(mixed, &x)",
        "ceil(to_number('inf'))",
        "floor(to_number('nan'))",
        "keys(n)",
        "join(n, n)",
        "not_null()",
    ],
)
def test_what_cannot_be_evaluated(expression: str) -> None:
    with pytest.raises(BadExpression, match=r"cannot be evaluated here$"):
        evaluate(expression, DOCUMENT)


@pytest.mark.parametrize(
    ("expression", "reason"),
    [
        ("to_number('nan')", "a number that is not finite"),
        ("[to_number('inf')]", "a number that is not finite"),
        ("`1e999`", "a number that is not finite"),
        (f"to_number('{'9' * 30}')", "a whole number of more than 64 bits"),
        ('`"\\ud800"`', "half of a character"),
    ],
)
def test_what_gives_a_value_that_cannot_be_stored(expression: str, reason: str) -> None:
    with pytest.raises(BadExpression, match=f"gives {reason} here$"):
        produce(expression, DOCUMENT)


@pytest.mark.parametrize(
    "expression",
    [
        "a[",
        "a b",
        "`",
        "'",
        "a..b",
        "!",
        "(" * 5_000,
        "!" * 5_000 + "a",
        "[" * 99,
        "a" + "|a" * 300,
        "a" + ".*" * 200,
        "x" * (EXPRESSION_LIMIT + 1),
        "&" * 300,
    ],
)
def test_what_is_no_expression(expression: str) -> None:
    with pytest.raises(BadExpression) as failure:
        check_expression(expression)
    assert len(str(failure.value)) < 300


@pytest.mark.parametrize(
    "expression", ["!" * (NESTING_LIMIT - 1) + "a", "(" * 100 + "a" + ")" * 100, "a" + "[0]" * 100]
)
def test_what_is_just_short_enough_is_evaluated_within_the_stack(expression: str) -> None:
    evaluate(check_expression(expression), DOCUMENT)


def test_empty_expression_is_none() -> None:
    assert check_expression("") == ""


def test_template() -> None:
    assert fill(check_template("v.{text}.{many}-x"), DOCUMENT) == "v.text.7-x"
    assert fill("plain", DOCUMENT) == "plain"
    with pytest.raises(BadExpression):
        check_template("v.{a..b}")


@pytest.mark.parametrize("template", ["{yes}", "{n}", "{nothing}", "{deep}", "{avg(n)}"])
def test_template_takes_text_and_whole_numbers(template: str) -> None:
    with pytest.raises(BadExpression, match="neither text nor a whole number"):
        fill(template, DOCUMENT)


@pytest.mark.parametrize("value", [None, False, "", [], {}])
def test_false(value: Any) -> None:
    assert not truth(value)


@pytest.mark.parametrize("value", [0, 0.0, -1, True, " ", [None], {"": None}])
def test_true(value: Any) -> None:
    assert truth(value)


@pytest.mark.parametrize(
    "path", ["a", "a.b", "a.b.c", "a.missing", "missing.b", "text.b", "list.b", "none.x", "a_1.B2"]
)
def test_a_path_of_plain_names_gives_what_the_library_gives(path: str) -> None:
    document = {"a": {"b": {"c": 0}}, "text": "b", "list": [{"b": 1}], "none": None, "a_1": {"B2": [1, None]}}
    assert evaluate(path, document) == jmespath.search(path, document)


def test_a_path_to_what_cannot_be_stored_is_refused_like_any_expression() -> None:
    deep: Any = 1
    for _ in range(VALUE_DEPTH + 1):
        deep = [deep]
    with pytest.raises(BadExpression, match="inside each other"):
        produce("facts.a", {"facts": {"a": deep}})


def test_literal_that_is_no_json_is_a_text_and_warns_nobody() -> None:
    """The library keeps it for older expressions; warnings are errors here."""
    assert evaluate("`plain, without quotes`", {}) == "plain, without quotes"
