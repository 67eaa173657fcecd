"""Subjects say who wrote what about which run; everything else is no subject of the board."""

import pytest

from schemas.subjects import KEY_SEGMENTS, Address, BadName, Subjects, is_key, is_token, matches, token

MAIN = Subjects()


@pytest.mark.parametrize("text", ["a", "A-z_09", "x" * 64, "-", "_board"])
def test_token(text: str) -> None:
    assert is_token(text)
    assert token(text) == text


@pytest.mark.parametrize("text", ["", "x" * 65, "a.b", "a b", "a*", ">", "é", "a\n", "\x00", "a/b"])
def test_no_token(text: str) -> None:
    assert not is_token(text)
    with pytest.raises(BadName, match="is not 1 to 64 letters, digits, '_' or '-'"):
        token(text)


@pytest.mark.parametrize(
    ("text", "key"),
    [
        ("a", True),
        ("a.b-c.d_e", True),
        (".".join("k" * KEY_SEGMENTS), True),
        (".".join("k" * (KEY_SEGMENTS + 1)), False),
        ("", False),
        (".", False),
        ("a.", False),
        (".a", False),
        ("a..b", False),
        ("a.b\n", False),
    ],
)
def test_key(text: str, key: bool) -> None:
    assert is_key(text) == key


@pytest.mark.parametrize(
    ("pattern", "subject", "matched"),
    [
        ("bb.main.goal.>", "bb.main.goal.me.r1", True),
        ("bb.main.goal.>", "bb.main.goal", False),
        ("bb.main.goal.*.r1", "bb.main.goal.me.r1", True),
        ("bb.main.goal.*.r1", "bb.main.goal.me.x.r1", False),
        ("bb.main.goal.me.r1", "bb.main.goal.me.r1", True),
        ("bb.main.goal.me.r1", "bb.main.goal.me.r2", False),
        (">", "x", True),
    ],
)
def test_matches(pattern: str, subject: str, matched: bool) -> None:
    assert matches(pattern, subject) == matched


@pytest.mark.parametrize(
    ("subject", "address"),
    [
        (MAIN.goal("me", "r1"), Address("goal", "me", "r1")),
        (MAIN.signal("ann", "r1"), Address("signal", "ann", "r1")),
        (MAIN.observation("w", "r1"), Address("obs", "w", "r1")),
        (MAIN.wake("r1"), Address("wake", "", "r1")),
        (MAIN.fact("r1"), Address("fact", "", "r1")),
        (MAIN.contract("w"), Address("contract", "w", "")),
        (MAIN.playbook("t"), Address("playbook", "t", "")),
    ],
)
def test_parse_gives_back_what_a_subject_was_made_of(subject: str, address: Address) -> None:
    assert MAIN.parse(subject) == address
    assert any(matches(pattern, subject) for pattern in MAIN.log)


@pytest.mark.parametrize(
    "subject",
    [
        "bb.other.goal.me.r1",
        "bb.main",
        "bb.main.goal.me",
        "bb.main.goal.me.r1.x",
        "bb.main.goal.m e.r1",
        "bb.main.wake.me.r1",
        "bb.main.fact",
        "bb.main.contract.w.r1",
        "bb.main.task.w.r1.a.1",
        "bb.main.cancel.w.r1.a",
        "bb.mainx.goal.me.r1",
    ],
)
def test_parse_refuses_everything_else(subject: str) -> None:
    with pytest.raises(BadName):
        MAIN.parse(subject)
    assert MAIN.address(subject) is None


def test_tasks_cancels_and_announcements_are_not_on_the_log() -> None:
    for subject in (MAIN.task("w", "r1", "a", 1), MAIN.cancels_of("w"), MAIN.tasks_of("w"), MAIN.lead):
        assert not any(matches(pattern, subject) for pattern in MAIN.log)


def test_boards_share_nothing() -> None:
    other = Subjects("other")
    assert not set(other.log) & set(MAIN.log)
    assert other.log_stream != MAIN.log_stream
    with pytest.raises(BadName, match="board 'a b' is not"):
        Subjects("a b")


def test_all_that_belongs_to_a_run() -> None:
    mine = [MAIN.goal("c", "r1"), MAIN.signal("p", "r1"), MAIN.observation("w", "r1"), MAIN.wake("r1"), MAIN.fact("r1")]
    assert all(any(matches(pattern, subject) for pattern in MAIN.of_run("r1")) for subject in mine)
    assert not any(matches(pattern, MAIN.fact("r2")) for pattern in MAIN.of_run("r1"))
