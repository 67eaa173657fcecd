"""What in a text is a secret or names a person, as detect-secrets, phonenumbers, email-validator and stdnum know it.

Nothing here keeps, prints or raises what it found. Detectors that need a guess are left out: of entropy alone every
digest would be a secret, and without its separators every tenth number is somebody's. What libraries do not know yet
stands in `NEWER`.
"""

import re
from collections.abc import Callable, Iterator
from functools import lru_cache
from typing import Literal, NamedTuple, cast

import phonenumbers
from detect_secrets.core.plugins.util import get_mapping_from_secret_type_to_class
from detect_secrets.filters import heuristic
from detect_secrets.plugins.base import BasePlugin, RegexBasedDetector
from detect_secrets.plugins.keyword import DENYLIST
from email_validator import EmailNotValidError, validate_email
from stdnum import iban, luhn
from stdnum.us import ssn

Family = Literal["secret", "personal"]

WINDOW, OVERLAP = 2_048, 256
"""Characters looked at in one go, and how many of them again in the next: some patterns need quadratic time."""
SHORTEST = 8
"""Characters of a secret that stands in a group of a pattern."""
_GUESSES = {"Base64HighEntropyString", "HexHighEntropyString", "IPPublicDetector"}


class Span(NamedTuple):
    """`text[start:end]` is of this kind."""

    start: int
    end: int
    kind: str
    family: Family


class _Newer(NamedTuple):
    kind: str
    pattern: re.Pattern[str]


NEWER = (
    _Newer("anthropic-token", re.compile(r"sk-ant-[A-Za-z0-9_-]{20,}")),
    _Newer("openai-token", re.compile(r"sk-(?:proj|svcacct|admin)-[A-Za-z0-9_-]{20,}")),
    _Newer("google-api-key", re.compile(r"(?<![A-Za-z0-9_-])AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])")),
    _Newer("github-token", re.compile(r"github_pat_[A-Za-z0-9_]{22,}")),
    _Newer("hugging-face-token", re.compile(r"(?<![A-Za-z0-9_])hf_[A-Za-z0-9]{30,}")),
    _Newer("authorization-header", re.compile(r"(?i:\bbearer)\s+([A-Za-z0-9._~+/-]{20,}=*)")),
    _Newer("aws-secret-access-key", re.compile(r"(?i:secret_?access_?key)\W{1,5}([A-Za-z0-9/+]{40})(?![A-Za-z0-9/+])")),
)
_NAMES = rf"(?:{'|'.join(DENYLIST)}|(?:access|api|auth|bot|refresh)[_-]?token)\w{{0,40}}"
_NAME = re.compile(rf"{_NAMES}$", re.IGNORECASE)
_ASSIGNED = re.compile(
    rf"{_NAMES}[\"']?\s{{0,3}}[:=]\s{{0,3}}"
    r"(?P<quote>[\"'`]?)(?P<value>[^\s\"'`,;]{6,})",
    re.IGNORECASE,
)
_BLANK = re.compile(r"\s")
_REST = re.compile(r"[A-Za-z0-9_=-]{0,2000}")
"""What belongs to a secret behind what its pattern names."""
_KEY_BLOCK = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_EMAIL = re.compile(r"(?<![\w.+-])[\w.+-]{1,64}@[\w-]+(?:\.[\w-]+)+")
_IN_ADDRESS = re.compile(r"://[^\s/@]*:$")
_IBAN = re.compile(r"(?<![A-Za-z0-9])[A-Z]{2}\d{2}(?: ?[A-Z0-9]{4}){2,7}(?: ?[A-Z0-9]{1,4})?(?![A-Za-z0-9])")
_CARD = re.compile(r"(?<![\d.-])\d(?:[ -]?\d){12,18}(?![\d.]?\d)")
_CARD_ISSUERS = re.compile(
    r"(?:4\d{12}(?:\d{3}){0,2}|(?:5[1-5]|2[2-7])\d{14}|3[47]\d{13}|6(?:011|5\d\d)\d{12}|3[068]\d{12})"
)
_SSN = re.compile(r"(?<![\d-])\d{3}-\d{2}-\d{4}(?![\d-])")


def find(text: str) -> list[Span]:
    """What `text` holds, in order. Of those that overlap a secret, or else the longest, counts for all."""
    if len(text) < 6:
        return []
    found = [*_key_blocks(text)]
    for start, window in _windows(text):
        found += (Span(start + one.start, start + one.end, *one[2:]) for one in _in_window(window))
    return _apart(found)


def named(name: str, text: str) -> bool:
    """Whether `text` is the secret of a field called `name`, such as `password`."""
    plain = len(text) >= 6 and not _BLANK.search(text) and "[redacted: " not in text
    return plain and _NAME.search(name) is not None and _is_value(text)


def _windows(text: str) -> Iterator[tuple[int, str]]:
    """Parts of the text, each with where it begins. They are cut between words, where there are words, and overlap, so
    that a name stands in the same part as its value."""
    begin = 0
    while True:
        end = begin + WINDOW
        if end < len(text):
            blank = max(text.rfind(mark, begin + OVERLAP + 1, end) for mark in " \n\t")
            end = blank if blank > 0 else end
        yield begin, text[begin:end]
        if end >= len(text):
            return
        begin = end - OVERLAP


def _in_window(window: str) -> Iterator[Span]:
    for kind, pattern, holds in _patterns():
        for match in pattern.finditer(window):
            start, end = max(
                (match.span(number) for number in range(1, pattern.groups + 1)), key=_length, default=(0, 0)
            )
            if end - start < SHORTEST:  # a group that is only the prefix of what is secret
                start, end = match.span()
            if (blank := _BLANK.search(window, start + SHORTEST, end)) and pattern.groups:
                end = blank.start()
            rest = _REST.match(window, end)
            if holds(match[0]):
                yield Span(start, rest.end() if rest else end, kind, "secret")
    yield from _assigned(window)
    for kind, look in _PERSONAL:
        for start, end in look(window):
            yield Span(start, end, kind, "personal")


def _length(span: tuple[int, int]) -> int:
    return span[1] - span[0]


# --- secrets ----------------------------------------------------------------------------------------------------------


def _name_of(plugin: type[BasePlugin]) -> str:
    return plugin.__name__


@lru_cache(maxsize=1)
def _patterns() -> tuple[tuple[str, re.Pattern[str], Callable[[str], bool]], ...]:
    """Kind, pattern and a last check: those of detect-secrets that know the form of what they look for, and ours. The
    patterns themselves, since its detectors tell what they found and not where."""
    known = cast("dict[str, type[BasePlugin]]", get_mapping_from_secret_type_to_class())
    every = [plugin for plugin in known.values() if plugin.__name__ not in _GUESSES]
    found = [
        (_kind_of(str(plugin.secret_type)), pattern, getattr(plugin, "is_formally_valid", bool))
        for plugin in sorted(every, key=_name_of)
        if issubclass(plugin, RegexBasedDetector)
        for pattern in plugin().denylist
    ]
    return (*found, *((newer.kind, newer.pattern, bool) for newer in NEWER))


def _kind_of(secret_type: str) -> str:
    return re.sub(r"[^a-z0-9]+", "-", secret_type.lower()).strip("-")


def _assigned(window: str) -> Iterator[Span]:
    """Values of what is called a password, a key or a token."""
    for match in _ASSIGNED.finditer(window):
        value = match["value"]
        mixed = re.search(r"\d", value) and re.search(r"[A-Za-z]", value)
        if (mixed or match["quote"]) and _is_value(value):
            yield Span(*match.span("value"), "password", "secret")


_PLACEHOLDER = re.compile(
    r"^[<{\[(%$]|[>})\]]$|\.\.\.|^(?:x+|\*+|none|null|true|false|string|your[_-].*|changeme)$", re.I
)


def _is_value(secret: str) -> bool:
    """Whether it looks like a value, and not like a name, a template, a call or a path to one."""
    return not (
        _PLACEHOLDER.search(secret)
        or re.search(r"[(\[{]", secret)
        or heuristic.is_sequential_string(secret)
        or heuristic.is_potential_uuid(secret)
        or heuristic.is_not_alphanumeric_string(secret)
    )


def _key_blocks(text: str) -> Iterator[Span]:
    """From the first to the last line of a private key, or to the end of the text where the last one is missing."""
    end = 0
    for match in _KEY_BLOCK.finditer(text):
        if match.start() >= end:
            last = _KEY_END.search(text, match.end())
            end = last.end() if last else len(text)
            yield Span(match.start(), end, "private-key", "secret")


# --- people -----------------------------------------------------------------------------------------------------------


def _emails(window: str) -> Iterator[tuple[int, int]]:
    for match in _EMAIL.finditer(window):
        if _IN_ADDRESS.search(window, max(match.start() - 200, 0), match.start()):
            continue  # the password of a URL
        try:
            validate_email(match[0].rstrip("."), check_deliverability=False)
        except EmailNotValidError:
            continue
        yield match.start(), match.start() + len(match[0].rstrip("."))


def _phones(window: str) -> Iterator[tuple[int, int]]:
    """In the international form: which other digits are somebody's number depends on the country."""
    if "+" in window:
        for match in phonenumbers.PhoneNumberMatcher(window, None):
            yield match.start, match.end


def _ibans(window: str) -> Iterator[tuple[int, int]]:
    return (match.span() for match in _IBAN.finditer(window) if iban.is_valid(match[0]))


def _cards(window: str) -> Iterator[tuple[int, int]]:
    for match in _CARD.finditer(window):
        digits = re.sub(r"[ -]", "", match[0])
        if _CARD_ISSUERS.fullmatch(digits) and luhn.is_valid(digits):
            yield match.span()


def _ssns(window: str) -> Iterator[tuple[int, int]]:
    return (match.span() for match in _SSN.finditer(window) if ssn.is_valid(match[0]))


_PERSONAL: tuple[tuple[str, Callable[[str], Iterator[tuple[int, int]]]], ...] = (
    ("email-address", _emails),
    ("phone-number", _phones),
    ("iban", _ibans),
    ("card-number", _cards),
    ("social-security-number", _ssns),
)


def _apart(found: list[Span]) -> list[Span]:
    kept: list[Span] = []
    for span in sorted(found, key=lambda one: (one.start, one.start - one.end, one.kind)):
        if kept and span.start < kept[-1].end:
            last = kept[-1]
            longest = max(last, span, key=lambda one: (one.family == "secret", one.end - one.start))
            kept[-1] = Span(last.start, max(last.end, span.end), longest.kind, longest.family)
        else:
            kept.append(span)
    return kept
