"""Secrets and personal data to be planted, made when they are needed: none of them stands in a file.

They have the form of real ones and belong to nobody: letters drawn from a seed, numbers that are published as examples.
"""

import base64
import json
import random
import string
from collections.abc import Callable, Iterator
from typing import NamedTuple

LETTERS = string.ascii_letters + string.digits


class Planted(NamedTuple):
    """`text` holds `secret`, which must not be seen in what is made of it."""

    kind: str
    text: str
    secret: str


def _drawn(draw: random.Random, count: int, letters: str = LETTERS) -> str:
    return "".join(draw.choices(letters, k=count))


def _token(draw: random.Random) -> str:
    def part(value: dict[str, str]) -> str:
        return base64.urlsafe_b64encode(json.dumps(value).encode()).decode().rstrip("=")

    return f"{part({'alg': 'HS256'})}.{part({'sub': _drawn(draw, 12)})}.{_drawn(draw, 43)}"


def _key(draw: random.Random) -> str:
    lines = "\n".join(_drawn(draw, 64) for _ in range(3))
    return f"-----BEGIN RSA PRIVATE {'KEY'}-----\n{lines}\n-----END RSA PRIVATE {'KEY'}-----"


def _card(draw: random.Random) -> str:
    digits = "4" + _drawn(draw, 14, string.digits)
    doubled = [int(digit) * 2 if place % 2 == 0 else int(digit) for place, digit in enumerate(digits)]
    total = sum(one - 9 if one > 9 else one for one in doubled)
    return digits + str(-total % 10)


FORMS: dict[str, Callable[[random.Random], str]] = {
    "aws-access-key": lambda draw: "AKIA" + _drawn(draw, 16, string.ascii_uppercase + string.digits),
    "github-token": lambda draw: "ghp_" + _drawn(draw, 36),
    "gitlab-token": lambda draw: "glpat-" + _drawn(draw, 20),
    "slack-token": lambda draw: "xoxb-" + _drawn(draw, 12, string.digits) + "-" + _drawn(draw, 24),
    "stripe-access-key": lambda draw: "sk_live_" + _drawn(draw, 24),
    "anthropic-token": lambda draw: "sk-ant-" + "api03-" + _drawn(draw, 60),
    "openai-token": lambda draw: "sk-" + "proj-" + _drawn(draw, 48),
    "google-api-key": lambda draw: "AIza" + _drawn(draw, 35),
    "sendgrid-api-key": lambda draw: "SG." + _drawn(draw, 22) + "." + _drawn(draw, 43),
    "npm-tokens": lambda draw: "//packages.example.com/:_authToken=npm_" + _drawn(draw, 36),
    "json-web-token": _token,
    "private-key": _key,
    "card-number": _card,
    "iban": lambda draw: draw.choice(
        ["DE89 3704 0044 0532 0130 00", "GB82 WEST 1234 5698 7654 32", "NL91ABNA0417164300"]
    ),
    "email-address": lambda draw: (
        f"{_drawn(draw, 8, string.ascii_lowercase)}@{_drawn(draw, 6, string.ascii_lowercase)}.org"
    ),
    "phone-number": lambda draw: "+49 30 90" + _drawn(draw, 6, string.digits),
    "social-security-number": lambda draw: (
        f"{draw.randint(100, 650)}-{draw.randint(10, 99)}-{draw.randint(1000, 9999)}"
    ),
}
"""Kind, and what draws one."""
SENTENCES = (
    "{}",
    "Use {} for the staging account.",
    "The value is `{}`, keep it.",
    "- first\n- {}\n- last",
    "äöü ☃ {} 漢字",
)
NAMED = ('password = "{}"', "api_key: {}", "export DB_PASSWORD='{}'", '{{"client_secret": "{}"}}', "access_token={}")
"""Secrets that only their names give away."""


def planted(seed: int = 1) -> Iterator[Planted]:
    """Each kind in each sentence, and values that are named."""
    draw = random.Random(seed)
    for kind, form in FORMS.items():
        for sentence in SENTENCES:
            secret = form(draw)
            yield Planted(kind, sentence.format(secret), secret.rpartition("=")[2])
    for sentence in NAMED:
        secret = _drawn(draw, 11) + "7x"
        yield Planted("password", sentence.format(secret), secret)
    password = _drawn(draw, 12)
    yield Planted("basic-auth-credentials", f"postgres://ann:{password}@db.internal:5432/shop", password)
    bearer = _drawn(draw, 30)
    yield Planted("authorization-header", f"Authorization: Bearer {bearer}", bearer)
