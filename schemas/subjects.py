"""Subjects, stream names and tokens: the only place where they are spelled.

The author of a message stands in its subject, so the broker vouches for it; nobody reads an author from a payload.
Source: docs/protocol.md, section Subjects.
"""

import re
from typing import NamedTuple

BOARD_RUN = "_board"
"""The reserved run that records what belongs to no run."""
SUPERVISOR = "_supervisor"
"""The author of the goals of child runs: of nobody else's goal is it believed that it names a parent."""

TOKEN_PATTERN = r"[A-Za-z0-9_-]{1,64}"
KEY_PATTERN = rf"{TOKEN_PATTERN}(\.{TOKEN_PATTERN})*"
_TOKEN = re.compile(TOKEN_PATTERN)
_KEY = re.compile(KEY_PATTERN)
KEY_SEGMENTS = 16
"""Segments of one fact key at most; each is one level in the documents that expressions see."""

INPUT_FAMILIES = frozenset({"goal", "obs", "intent", "signal", "wake"})
CATALOGUE_FAMILIES = frozenset({"contract", "playbook"})


class BadName(ValueError):
    """A name that cannot stand in a subject."""


def is_token(text: str) -> bool:
    return _TOKEN.fullmatch(text) is not None


def is_key(text: str) -> bool:
    """Whether `text` is a fact key: at most KEY_SEGMENTS tokens, joined by dots."""
    return text.count(".") < KEY_SEGMENTS and _KEY.fullmatch(text) is not None


def key_matches(pattern: str, key: str) -> bool:
    """Whether `key` is `pattern`, or lies below `prefix` where the pattern is `prefix.*`."""
    return key == pattern or (pattern.endswith(".*") and key.startswith(pattern[:-1]))


def check_patterns(patterns: list[str]) -> list[str]:
    """`patterns` themselves when each is a key or `prefix.*`. Raises BadName."""
    for pattern in patterns:
        if not is_key(pattern.removesuffix(".*")):
            raise BadName(f"{pattern[:80]!r} is neither a fact key nor `prefix.*`")
    return patterns


def token(text: str, what: str = "name") -> str:
    """`text` itself when it is a token; BadName with the allowed form otherwise."""
    if not is_token(text):
        raise BadName(f"{what} {text[:80]!r} is not 1 to 64 letters, digits, '_' or '-'")
    return text


def matches(pattern: str, subject: str) -> bool:
    """Whether `subject` falls under `pattern`: `*` stands for one token, a last `>` for one or more."""
    wanted, have = pattern.split("."), subject.split(".")
    if wanted[-1] == ">":
        wanted = wanted[:-1]
        if len(have) <= len(wanted):
            return False
        have = have[: len(wanted)]
    return len(wanted) == len(have) and all(one in ("*", other) for one, other in zip(wanted, have, strict=True))


class Address(NamedTuple):
    """What a subject of the log says. `author` is empty where only the supervisor writes; `run` is empty in the
    catalogue, where `author` is the specialist or team. The family of an intent is `intent`, though its subject lies
    below that of its author's observations."""

    family: str
    author: str
    run: str


class Subjects:
    """The subjects of one board."""

    def __init__(self, board: str = "main") -> None:
        self.board = token(board, "board")
        self._prefix = f"bb.{board}."

    @property
    def log_stream(self) -> str:
        return f"BOARD_{self.board}"

    @property
    def task_stream(self) -> str:
        return f"TASKS_{self.board}"

    @property
    def blob_stream(self) -> str:
        return f"BLOB_{self.board}"

    @property
    def blobs(self) -> str:
        return f"{self._prefix}blob.>"

    def blob(self, author: str, sha256: str, part: int | str) -> str:
        """Where a part of what `author` stored under a digest lies. Part 0 says how many there are; `*` stands for
        any author, or any part."""
        return f"{self._prefix}blob.{author}.{sha256}.{part}"

    @property
    def kept(self) -> list[str]:
        """The streams that hold what cannot be worked out again, in the order in which they are copied: a message is
        stored after the blobs that it names, so what is copied of the log lacks none."""
        return [self.log_stream, self.blob_stream]

    @property
    def log(self) -> list[str]:
        """Every family that the log captures, one by one: streams may not overlap, and cancels are not captured."""
        return [
            f"{self._prefix}{family}.>" for family in ("goal", "signal", "contract", "playbook", "obs", "wake", "fact")
        ]

    @property
    def tasks(self) -> str:
        return f"{self._prefix}task.>"

    def goal(self, client: str, run: str) -> str:
        return f"{self._prefix}goal.{client}.{run}"

    def signal(self, person: str, run: str) -> str:
        return f"{self._prefix}signal.{person}.{run}"

    def contract(self, specialist: str) -> str:
        return f"{self._prefix}contract.{specialist}"

    def playbook(self, team: str) -> str:
        return f"{self._prefix}playbook.{team}"

    def observation(self, specialist: str, run: str) -> str:
        return f"{self._prefix}obs.{specialist}.{run}"

    def intent(self, specialist: str, run: str, key: str, round_: int) -> str:
        """Where the right to do a round of an effect is claimed, by the first message: below the author's own
        observations. `*` as specialist: the same of all."""
        return f"{self._prefix}obs.{specialist}.{run}.{key}.{round_}"

    def wake(self, run: str) -> str:
        return f"{self._prefix}wake.{run}"

    def fact(self, run: str) -> str:
        return f"{self._prefix}fact.{run}"

    def every(self, family: str) -> str:
        """All subjects of one family."""
        return f"{self._prefix}{family}.>"

    def of_run(self, run: str) -> list[str]:
        """All subjects on the log that belong to `run`."""
        observed = self.observation("*", run)
        return [self.goal("*", run), self.signal("*", run), observed, f"{observed}.>", self.wake(run), self.fact(run)]

    def task(self, specialist: str, run: str, task: str, attempt: int) -> str:
        return f"{self._prefix}task.{specialist}.{run}.{task}.{attempt}"

    def tasks_of(self, specialist: str) -> str:
        return f"{self._prefix}task.{specialist}.>"

    def cancel(self, specialist: str, run: str, task: str) -> str:
        return f"{self._prefix}cancel.{specialist}.{run}.{task}"

    def cancels_of(self, specialist: str) -> str:
        return self.cancel(specialist, "*", "*")

    @property
    def lead(self) -> str:
        """Where supervisors announce themselves; captured by no stream."""
        return f"{self._prefix}lead"

    def parse(self, subject: str) -> Address:
        """The address of a subject of this board's log. Raises BadName for any other subject."""
        if not subject.startswith(self._prefix):
            raise BadName(f"{subject!r} is not a subject of board {self.board!r}")
        match subject[len(self._prefix) :].split("."):
            case ["goal" | "obs" | "signal" as family, author, run] if is_token(author) and is_token(run):
                return Address(family, author, run)
            case ["obs", author, run, key, round_] if all(map(is_token, (author, run, key, round_))):
                return Address("intent", author, run)
            case ["wake" | "fact" as family, run] if is_token(run):
                return Address(family, "", run)
            case ["contract" | "playbook" as family, author] if is_token(author):
                return Address(family, author, "")
        raise BadName(f"{subject!r} does not name an author and a run by tokens")

    def address(self, subject: str) -> Address | None:
        """The address of a subject; None for one that `parse` refuses, which anybody may have written."""
        try:
            return self.parse(subject)
        except BadName:
            return None
