"""A planted corpus is found, this repository's own texts are not, and nothing that was found is told."""

import random
import string
import time
from pathlib import Path
from typing import Any

import pytest

from schemas.codec import encode
from specialists.detectors import find
from specialists.findings import redact, redact_text, tell
from tests.plugins.figures import Figures
from tests.safety.corpus import FORMS, Planted, planted

ROOT = Path(__file__).parents[2]
FLAGGED_PER_10_000_LINES = 2
"""Of clean texts, at most."""
FUZZED = 10_000


@pytest.mark.parametrize("one", list(planted()), ids=lambda one: one.kind)
def test_each_planted_secret_is_taken_out_whole(one: Planted) -> None:
    made = redact_text(one.text, "here")
    assert one.secret not in made.value
    assert one.kind in {finding.kind for finding in made.findings}
    assert one.secret not in tell(made.findings)
    assert "[redacted: " in made.value


def test_the_rest_of_a_text_stays_as_it_is(figures: Figures) -> None:
    found = total = 0
    for seed in range(20):
        for one in planted(seed):
            total += 1
            spans = find(one.text)
            found += any(one.secret in one.text[span.start : span.end] for span in spans)
            before, _, after = one.text.partition(one.secret)
            left = redact_text(one.text).value
            assert left.startswith(before.split("//")[0])
            assert left.endswith(after.lstrip("`,")), one.kind
    figures.say(f"planted secrets: {found} of {total} found")
    assert found == total


def test_texts_of_this_repository_are_clean(figures: Figures) -> None:
    files = [*ROOT.glob("*.md"), *ROOT.glob("docs/**/*.md"), *ROOT.glob("docs/**/*.json")]
    files += [
        path for name in ("blackboard", "schemas", "projections", "supervisor") for path in ROOT.glob(f"{name}/*.py")
    ]
    texts = {path: path.read_text() for path in files}
    lines = sum(text.count("\n") for text in texts.values())
    flagged = {path.name: [span.kind for span in find(text)] for path, text in texts.items() if find(text)}
    count = sum(map(len, flagged.values()))
    figures.say(f"clean texts: {count} flagged in {lines} lines of {len(files)} files")
    assert count * 10_000 <= FLAGGED_PER_10_000_LINES * lines, flagged


@pytest.mark.parametrize(
    "text",
    [
        "4fbe09836e2b7e43850c9d1f6a2b7e43850c9d1f6a2b7e43850c9d1f6a2b7e43",
        "nats://127.0.0.1:4222 and http://localhost:8080/path",
        "tokens=50000,usd=2 password: <your password> api_key = os.environ['API_KEY']",
        "version 1.2.3-45-6789, 2026-11-30 12:00:00, 1764466000000000000, port 4222",
        "password = get_password(name)",
        "3fa85f64-5717-4562-b3fc-2c963f66afa6",
        "see ann@localhost or @mention",
    ],
)
def test_what_only_looks_like_one_is_left(text: str) -> None:
    assert find(text) == []


def test_a_field_gives_away_what_its_value_does_not() -> None:
    made = redact({"user": "ann", "password": "correcthorse", "colour": "correcthorse"})
    assert made.value == {"user": "ann", "password": "[redacted: password]", "colour": "correcthorse"}
    assert [(one.place, one.kind) for one in made.findings] == [("/password", "password")]


def test_names_of_fields_and_numbers_are_looked_at() -> None:
    card = FORMS["card-number"](random.Random(3))
    made = redact({card: 1, "n": int(card), "list": [{"deep": card}]})
    assert card not in str(made.value)
    assert [one.place for one in made.findings] == ["", "/n", "/list/0/deep"]
    assert made.value["n"] == "[redacted: card-number]"


def test_fields_that_get_the_same_name_stay_two() -> None:
    draw = random.Random(4)
    made = redact({FORMS["github-token"](draw): 1, FORMS["github-token"](draw): 2})
    assert sorted(made.value.values()) == [1, 2]


@pytest.mark.parametrize("length", [500, 1_790, 2_047, 2_048, 2_049, 4_000, 60_000])
@pytest.mark.parametrize("filler", ["x", "x ", "\n"])
def test_a_secret_is_found_wherever_it_stands(length: int, filler: str) -> None:
    secret = FORMS["github-token"](random.Random(5))
    text = f"{(filler * length)[:length]} {secret} {filler * 3_000}"
    assert secret not in redact_text(text).value


@pytest.mark.parametrize("length", range(1_980, 2_060, 5))
def test_a_secret_is_found_over_the_end_of_what_is_looked_at_in_one_go(length: int) -> None:
    secret = FORMS["github-token"](random.Random(5))
    dense = f"{'x;' * (length // 2)};{secret};{'x;' * 3_000}"
    assert secret not in redact_text(dense).value
    named = f"{'word ' * (length // 5)}{'x' * (length % 5)} password = 'Tr0ub4dor3xyz' {'word ' * 1_000}"
    assert "Tr0ub4dor3xyz" not in redact_text(named).value


def _fuzzed(draw: random.Random, depth: int = 0) -> Any:
    kinds = ["text", "text", "number", "flag", "planted", "odd"] + (["list", "object"] if depth < 4 else [])
    match draw.choice(kinds):
        case "number":
            return draw.choice([draw.randint(-(2**63), 2**63), draw.random() * 10 ** draw.randint(-300, 300), 0, -0.0])
        case "flag":
            return draw.choice([True, False, None])
        case "planted":
            return FORMS[draw.choice(list(FORMS))](draw)
        case "odd":
            pieces = [
                "password=",
                '"',
                "'",
                "://",
                "@",
                "eyJ",
                ".",
                "+1",
                "-----BEGIN",
                "PRIVATE KEY-----",
                "\0",
                "🙂",
                "a" * 50,
            ]
            return "".join(draw.choices(pieces, k=draw.randint(0, 12)))
        case "list":
            return [_fuzzed(draw, depth + 1) for _ in range(draw.randint(0, 4))]
        case "object":
            return {_fuzzed_name(draw): _fuzzed(draw, depth + 1) for _ in range(draw.randint(0, 4))}
    return "".join(
        chr(draw.choice([draw.randint(0, 127), draw.randint(128, 0xD7FF)])) for _ in range(draw.randint(0, 60))
    )


def _fuzzed_name(draw: random.Random) -> str:
    return draw.choice(["password", "a/b", "~", "", "token", "".join(draw.choices(string.printable, k=5))])


def test_fuzzed_values_never_break_it(figures: Figures) -> None:
    """What is found is gone, what is not found is untouched, and what was made clean is clean."""
    draw, found = random.Random(6), 0
    for _ in range(FUZZED):
        value = _fuzzed(draw)
        made = redact(value)
        encode(made.value)
        found += bool(made.findings)
        if not made.findings:
            assert made.value == value
        else:
            assert redact(made.value).findings == [], made.value
    figures.say(f"fuzzed values: {FUZZED}, {found} with findings, 0 crashes")
    assert found > FUZZED / 10


@pytest.mark.parametrize(
    "text",
    [
        "a" * 65_536,
        "://" * 20_000,
        "password" * 8_000,
        "1 " * 30_000,
        'secret="' * 8_000,
        "eyJ." * 16_000,
        "+1" * 30_000,
        "a@" * 30_000,
        "sk-" * 20_000,
        "-----BEGIN PRIVATE KEY-----" * 2_000,
        "bearer " * 9_000,
        "AIza" * 16_000,
    ],
    ids=lambda text: text[:8],
)
def test_no_text_of_64_kib_takes_long(text: str) -> None:
    began = time.process_time()
    redact_text(text)
    assert time.process_time() - began < 10
