"""Who of several supervisors is active: silence makes active, the higher claim stays, and nothing flaps."""

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from schemas.announcements import Announcement, Role
from supervisor.standby import BEAT_S, DEAF_S, SILENCE_S, STAGGER_S, START_S, Standing
from tests.plugins.figures import Figures
from tests.supervisor.standing import DELAY_S, TURN_S, Network

NAMES = ("a", "b", "c", "d")
QUIET_S = DEAF_S + SILENCE_S + len(NAMES) * STAGGER_S + 4 * (BEAT_S + DELAY_S + TURN_S)
"""Seconds without disturbance after which nothing may change any more."""
WATCHED_S = 20.0
DISTURBED_S = 20.0


def network(names: str, seed: int = 1, settle_s: float = 5.0, **rules: int) -> Network:
    """Supervisors that were started one after the other, once one of them is active."""
    world = Network(seed)
    for number, name in enumerate(names):
        world.at(number * 0.01, lambda name=name: world.start(name, rules.get(name, 1)))  # type: ignore[misc]
    world.run(settle_s)
    return world


# --- one case each ----------------------------------------------------------------------------------------------------


def test_one_that_is_alone_is_active_at_once() -> None:
    world = Network(1)
    node = world.start("a")
    world.run(START_S + DELAY_S + 2 * TURN_S)
    assert node.changes[-1][1] == "active"


@pytest.mark.parametrize("names", ["ab", "ba", "dcba"])
def test_of_several_that_start_at_once_one_is_active(names: str) -> None:
    for seed in range(20):
        world = network(names, seed)
        assert len(world.active) == 1
        assert sum(role == "active" for _, _, role in world.changes_since(0)) == 1, "no other has tried"


def test_newcomer_stands_by_whatever_its_name_and_rules() -> None:
    world = network("b", settle_s=2)
    world.start("a", rules=9)
    world.run(10)
    assert world.active == ["b"]
    assert world.changes_since(2) == []


def test_takeover_after_a_kill_is_quick(figures: Figures) -> None:
    took: list[float] = []
    for seed in range(200):
        world = network("abc", seed)
        world.run(5 + seed / 200)
        (first,) = world.active
        world.kill(first)
        killed_s = world.now_s
        world.run(killed_s + 3)
        assert len(world.active) == 1
        ((_, at_s, role),) = world.changes_since(killed_s)
        assert role == "active"
        took.append(at_s - killed_s)
    assert max(took) <= SILENCE_S + BEAT_S + DELAY_S + 2 * TURN_S
    figures.say(f"standby: 200 kills, takeover p95 {sorted(took)[190]:.2f} s, at most {max(took):.2f} s")


def test_clean_stop_is_followed_by_a_takeover_at_once() -> None:
    world = network("abc")
    (first,) = world.active
    world.stop(first)
    world.run(5 + DELAY_S + BEAT_S + TURN_S)
    assert len(world.active) == 1
    world.run(10)
    assert len(world.changes_since(5)) == 1


def test_stop_of_one_that_stands_by_changes_nothing() -> None:
    world = network("ab")
    (first,) = world.active
    world.stop("b" if first == "a" else "a")
    world.run(10)
    assert world.changes_since(5) == []


def test_one_that_was_paused_steps_back_before_it_hears_anybody() -> None:
    world = network("ab")
    (first,) = world.active
    (second,) = {"a", "b"} - {first}
    world.pause(first, 7.0)
    world.run(11.9)
    assert world.active == ["a", "b"], "it does not know yet"
    world.run(12 + 2 * TURN_S)
    assert world.active == [second]
    world.run(30)
    assert [(name, role) for name, _, role in world.changes_since(5)] in (
        [(first, "standby"), (second, "active")],
        [(second, "active"), (first, "standby")],
    )


def test_short_pause_changes_nothing() -> None:
    world = network("ab")
    (first,) = world.active
    world.pause(first, SILENCE_S - BEAT_S - DELAY_S - TURN_S)
    world.run(10)
    assert world.changes_since(5) == []


def test_paused_one_with_an_older_claim_that_is_higher_steps_back_too() -> None:
    """While it was paused all others were started anew, and count from the beginning."""
    world = network("a")
    for _ in range(5):
        world.put("a", None)
        world.run(world.now_s + 2)
        world.put("a", 0)
        world.run(world.now_s + 2)
    assert world.nodes["a"].standing.term == 6
    world.pause("a", 5)
    world.run(world.now_s + 2)
    world.start("b")
    world.run(world.now_s + 2)
    assert world.nodes["b"].standing.term == 1
    world.run(world.now_s + 10)
    assert world.active == ["b"]


def test_network_cut_in_two_has_one_on_each_side_and_one_again_afterwards() -> None:
    world = network("abcd")
    (first,) = world.active
    for name in "abcd":
        world.put(name, 0 if name in {first, "d"} else 1)
    world.run(10)
    assert first in world.active
    assert len(world.active) == 2
    for name in "abcd":
        world.put(name, 0)
    world.run(10 + BEAT_S + DELAY_S + TURN_S)
    assert len(world.active) == 1
    assert first not in world.active, "the newer claim stays"
    healed_s = world.now_s
    world.run(40)
    assert world.changes_since(healed_s) == []


def test_one_that_hears_nobody_not_even_itself_decides_all_the_same() -> None:
    world = Network(1)
    world.start("a")
    world.put("a", None)
    world.run(SILENCE_S + DEAF_S + 2 * (BEAT_S + TURN_S))
    assert world.active == ["a"]
    world.start("b")
    world.run(20)
    assert world.active == ["a", "b"]
    world.put("a", 0)
    world.run(20 + SILENCE_S)
    assert world.active == ["b"], "it had no claim"


def test_one_that_leaves_runs_alone_is_joined_by_one_that_does_not_and_steps_back() -> None:
    world = network("a", settle_s=2)
    world.start("b", rules=2)
    world.run(5)
    world.leave("a", "r1")
    world.run(5 + SILENCE_S + 2 * (BEAT_S + DELAY_S + TURN_S))
    assert world.active == ["b"]
    world.run(30)
    assert len(world.changes_since(5)) == 2


def test_of_two_that_leave_the_same_run_alone_one_stands_by() -> None:
    world = network("a", settle_s=2)
    world.start("b")
    world.run(5)
    world.leave("a", "r1")
    world.run(10)
    assert world.active == ["b"]
    world.leave("b", "r1")
    world.run(30)
    assert len(world.active) == 1
    assert world.changes_since(15) == []


def test_two_that_leave_different_runs_alone_are_both_active() -> None:
    world = network("a", settle_s=2)
    world.start("b")
    world.run(5)
    world.leave("a", "r1")
    world.run(10)
    world.leave("b", "r2")
    world.run(15)
    assert world.active == ["a", "b"]
    world.start("c")
    world.run(20)
    assert world.active == ["c"]


def said(role: Role, **more: object) -> Announcement:
    fields = {"name": "x", "log": "log-1", "role": role, "rules": 1, "term": 3, "beat": 1} | more
    return Announcement(**fields)  # type: ignore[arg-type]


def active_one(name: str, rules: int = 1) -> Standing:
    """Active since 0.0, with the term 1."""
    standing = Standing(name, rules, -1.0)
    standing.ready()
    for at_s in (-0.9, -0.5, -0.1, 0.0):
        beat, _ = standing.beat(at_s)
        standing.heard(said("standby", name=name, beat=beat), at_s)
        standing.look(at_s)
    assert (standing.active, standing.term) == (True, 1)
    return standing


@pytest.mark.parametrize(
    ("other", "stays"),
    [
        ({"name": "n", "rules": 1, "term": 1}, True),
        ({"name": "l", "rules": 1, "term": 1}, False),
        ({"name": "n", "rules": 1, "term": 2}, False),
        ({"name": "l", "rules": 1, "term": 0}, True),
        ({"name": "n", "rules": 2, "term": 0}, False),
        ({"name": "l", "rules": 0, "term": 9}, True),
    ],
    ids=["higher name", "lower name", "newer term", "older term", "newer rules", "older rules"],
)
def test_of_two_that_are_active_the_higher_claim_stays(other: dict[str, object], stays: bool) -> None:
    standing = active_one("m")
    standing.heard(said("active", **other), 0.1)
    assert standing.active == stays


def test_what_it_said_before_a_pause_says_nothing_of_now() -> None:
    standing = Standing("a", 1, 0.0)
    standing.ready()
    beat, _ = standing.beat(DEAF_S - 0.1)
    standing.look(DEAF_S + 2)
    assert standing.active, "it has heard nobody"
    standing.heard(said("standby", name="a", beat=beat), DEAF_S + 2)
    standing.heard(said("active"), DEAF_S + 2.1)
    standing.look(DEAF_S + 2.2)
    assert not standing.active
    standing.look(2 * DEAF_S + 2.2)
    assert standing.active, "it has not heard itself, and the other one is gone"
    assert standing.term == 0


def test_one_that_does_not_name_all_runs_that_it_leaves_alone_keeps_nobody_standing_by() -> None:
    standing = Standing("a", 1, 0.0)
    standing.ready()
    for tenth in range(30):
        beat, _ = standing.beat(tenth / 10)
        standing.heard(said("standby", name="a", beat=beat), tenth / 10)
        standing.heard(said("active", left=("r1",), left_count=7), tenth / 10)
        standing.look(tenth / 10)
    assert standing.active
    assert standing.term == 4


# --- whatever happens -------------------------------------------------------------------------------------------------

Disturbance = Callable[[Network], None]


@st.composite
def disturbances(draw: st.DrawFn) -> tuple[float, str, Disturbance]:
    name, run = draw(st.sampled_from(NAMES)), draw(st.sampled_from(["r1", "r2"]))
    kind = draw(st.sampled_from(["kill", "stop", "start", "pause", "part", "leave"]))
    seconds, side = draw(st.floats(0.1, 8.0)), draw(st.sampled_from([None, 0, 1]))
    acts: dict[str, Disturbance] = {
        "kill": lambda world: world.kill(name),
        "stop": lambda world: world.stop(name),
        "start": lambda world: None if name in world.nodes else _start(world, name),
        "pause": lambda world: world.pause(name, seconds),
        "part": lambda world: world.put(name, side),
        "leave": lambda world: world.leave(name, run),
    }
    return draw(st.floats(0.0, DISTURBED_S)), kind, acts[kind]


def _start(world: Network, name: str) -> None:
    world.start(name, 1 + NAMES.index(name) % 2)


@settings(max_examples=150, deadline=None)
@given(seed=st.integers(0, 2**16), what=st.lists(disturbances(), max_size=25), lossy=st.sampled_from([0.0, 0.2]))
def test_whatever_happened_somebody_is_active_and_nothing_flaps(
    seed: int, what: list[tuple[float, str, Disturbance]], lossy: float
) -> None:
    world = Network(seed, lossy)
    for name in NAMES[: 1 + seed % len(NAMES)]:
        _start(world, name)
    for at_s, _, act in what:
        world.at(at_s, lambda act=act: act(world))  # type: ignore[misc]
    world.run(DISTURBED_S)
    for name in [*world.nodes]:
        world.put(name, 0)
    if not world.nodes:
        _start(world, "a")
    world.lossless()
    awake_s = max(DISTURBED_S, *(node.wakes_s for node in world.nodes.values()))
    world.run(awake_s + QUIET_S)
    assert world.active
    assert world.unserved() == []
    world.run(awake_s + QUIET_S + WATCHED_S)
    assert world.changes_since(awake_s + QUIET_S) == []
    assert world.unserved() == []
