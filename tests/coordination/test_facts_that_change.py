"""A task carries the facts that it may read with their versions. When one changed before its result is committed, the
policy of its step says: commit it, mark it, or ask again for just what depended on it."""

from typing import Any

import pytest

from projections.canonical import State
from schemas import events as e
from schemas.expressions import BadExpression
from schemas.inputs import ChildEnded
from supervisor import decide as deciding
from supervisor import effects
from tests.supervisor.scenario import Due, Said, Scenario, ended, event, failed, given, goal, offer, step, teach

NEWER = 5
"""Steps that may give `a` a newer value, one after the other."""


def reading(
    stale: str, *others: dict[str, Any], then: tuple[Said, ...] = (), newer: int = 1, playbook: Any = None, **b: Any
) -> Scenario:
    """A run whose step `b` rests on the fact `a`, as input or because it reads it; both are in flight when `a` may get
    newer values, by `r1`, `r2`, ..."""
    fixing = [
        step(f"r{n}", "fix", needs=["a" if n == 1 else f"r{n - 1}"], fact="a", replaces=True, missing="allow")
        for n in range(1, newer + 1)
    ]
    own = {"reads": ["a"]} if "input" not in b and "reads" not in b else {}
    steps = [step("a"), step("b", needs=["a"], stale=stale, **own, **b), *fixing, *others]
    voices = (offer("w", "work"), offer("v", "fix"))
    return given(
        *voices, teach(*steps, returns={"b": "facts.b"}, **(playbook or {})), goal(), ended("a", {"a": 10}), *then
    )


def newer_a(value: Any, n: int = 1) -> Said:
    return ended(f"r{n}", {"a": value}, by="v")


def versions(scenario: Scenario, task: str = "b") -> dict[str, tuple[Any, int]]:
    """What the task in flight may read."""
    (found,) = (one for one in scenario.tasks_in_flight() if one.task == task)
    return {key: (fact.value, fact.version) for key, fact in found.facts.items()}


# --- what a task carries ----------------------------------------------------------------------------------------------


def test_task_carries_facts_with_their_versions() -> None:
    scenario = reading("commit")
    assert versions(scenario) == {"a": (10, scenario.state.facts["a"].version)}
    assert scenario.state.tasks["b"].read_version >= scenario.state.facts["a"].version


def test_attempt_in_flight_keeps_what_it_was_given_and_the_next_one_gets_the_newer_value() -> None:
    scenario = reading("commit", input={"x": "facts.a", "of": "claims.a[].value"})
    before = scenario.tasks_in_flight()[0]
    scenario.say(newer_a(99))
    assert scenario.tasks_in_flight()[0] == before
    scenario.say(failed("b", "TOOL_DOWN"))
    (after,) = scenario.tasks_in_flight()
    assert (before.items[0].input, after.items[0].input) == ({"x": 10, "of": [10]}, {"x": 99, "of": [99]})


def test_losers_of_an_earlier_value_are_still_seen_by_who_saw_them() -> None:
    """`claims` of the earlier version, after the fact has got another one."""
    steps = [
        step("a", specialist="all", merge={"policy": "priority", "order": ["u", "w"]}),
        step("b", "judge", needs=["a"], input={"others": "claims.a[?!won].value", "n": "length(claims.a)"}),
        step("r", "fix", needs=["a"], fact="a", replaces=True),
    ]
    voices = (offer("u", "work"), offer("w", "work"), offer("v", "fix"), offer("j", "judge"))
    scenario = given(*voices, teach(*steps), goal(), ended("a-0", {"a": 1}, by="u"), ended("a-1", {"a": 2}))
    (task,) = (one for one in scenario.tasks_in_flight() if one.task == "b")
    assert task.items[0].input == {"others": [2], "n": 2}
    scenario.say(ended("r", {"a": 3}, by="v"))
    (same,) = scenario.tasks_in_flight()
    assert same == task


def test_what_was_missing_is_still_missing_for_who_saw_that() -> None:
    """Another step had no value for the key either."""
    steps = [
        step("a", missing="allow"),
        step("b", needs=["a"], input={"gone": "missing"}),
        step("r", "fix", needs=["a"], fact="a", replaces=True, missing="allow"),
    ]
    scenario = given(offer("w", "work"), offer("v", "fix"), teach(*steps), goal(), failed("a", "LOW_CONFIDENCE"))
    (task,) = (one for one in scenario.tasks_in_flight() if one.task == "b")
    assert task.items[0].input == {"gone": ["a"]}
    scenario.say(failed("r", "LOW_CONFIDENCE", by="v"))
    assert scenario.tasks_in_flight() == [task]
    scenario.say(ended("b", {"b": 1}))
    assert (scenario.state.end, scenario.state.reason) == ("DEGRADED", "without a (LOW_CONFIDENCE)")


def test_items_stay_those_of_the_expansion() -> None:
    """The list itself gets a newer value while its items are worked on."""
    steps = [
        step("a"),
        step("b", needs=["a"], for_each="facts.a", fact="b.k{index}", input={"x": "item"}, tasks=3, stale="mark"),
        step("r", "fix", needs=["a"], fact="a", replaces=True),
    ]
    scenario = given(
        offer("w", "work"), offer("v", "fix"), teach(*steps, parallel=2), goal(), ended("a", {"a": [1, 2, 3]})
    )
    scenario.say(ended("b-0", {"b.k0": 1}), ended("b-1", {"b.k1": 2}))
    assert [task.items[0].input for task in scenario.tasks_in_flight()] == [{"x": 3}, {}]
    scenario.say(ended("r", {"a": [1, 2, 4]}, by="v"), ended("b-2", {"b.k2": 3}))
    assert {key: fact.stale for key, fact in scenario.state.facts.items() if key != "a"} == {
        "b.k0": (),
        "b.k1": (),
        "b.k2": ("for_each",),
    }


def test_steps_that_a_revision_brings_may_replace_what_steps_before_it_rest_on() -> None:
    """No step of the plan replaces anything when `c` begins; the one that takes the place of `x` does."""
    steps = [
        step("a"),
        step("c", needs=["a"], for_each="facts.a", fact="c.k{index}", input={"n": "item", "all": "facts.a"}, tasks=2),
        step("x", "fix", needs=["a"], missing="fail"),
    ]
    replans = [{"step": "x", "steps": [step("y", "fix", needs=["a"], fact="a", replaces=True)]}]
    scenario = given(
        offer("w", "work"), offer("v", "fix"), teach(*steps, replans=replans), goal(), ended("a", {"a": [1, 2]})
    )
    before = [task for task in scenario.tasks_in_flight() if task.task.startswith("c")]
    assert [task.items[0].input for task in before] == [{"n": 1, "all": [1, 2]}, {"n": 2, "all": [1, 2]}]
    scenario.say(failed("x", "LOW_CONFIDENCE", by="v"), ended("y", {"a": [7, 8]}, by="v"))
    assert scenario.tasks_in_flight() == before
    scenario.say(ended("c-0", {"c.k0": 1}), ended("c-1", {"c.k1": 2}))
    assert scenario.state.end == "DONE"


# --- the three policies -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "rests", [{"reads": ["a"]}, {"input": {"x": "facts.a"}}, {"reads": ["a"], "input": {"x": "facts.a"}}]
)
def test_commit_takes_the_result_as_it_is(rests: dict[str, Any]) -> None:
    scenario = reading("commit", then=(newer_a(99),), **rests)
    scenario.when(ended("b", {"b": 1})).then(
        event("task_ended"), event("fact_committed", key="b", stale=[]), event("run_ended", end="DONE")
    )


@pytest.mark.parametrize(
    ("rests", "keys"),
    [
        ({"reads": ["a"]}, ["a"]),
        ({"input": {"x": "facts.a"}}, ["input"]),
        ({"reads": ["a"], "input": {"x": "facts.a"}}, ["a", "input"]),
    ],
)
def test_mark_says_which_newer_facts_the_result_does_not_know_of(rests: dict[str, Any], keys: list[str]) -> None:
    scenario = reading("mark", then=(newer_a(99),), **rests)
    scenario.when(ended("b", {"b": 1})).then(
        event("task_ended"), event("fact_committed", key="b", stale=keys), event("run_ended", end="DONE")
    )


@pytest.mark.parametrize(
    ("rests", "keys"),
    [
        ({"reads": ["a"]}, ["a"]),
        ({"input": {"x": "facts.a"}}, ["input"]),
        ({"reads": ["a"], "input": {"x": "facts.a"}}, ["a", "input"]),
    ],
)
def test_again_asks_once_more_with_the_newer_facts(rests: dict[str, Any], keys: list[str]) -> None:
    scenario = reading("again", then=(newer_a(99),), **rests)
    scenario.when(ended("b", {"b": 1}, usage={"input_tokens": 3})).then(
        event("attempt_stale", task="b", attempt=1, keys=keys, usage={"input_tokens": 3}),
        event("task_dispatched", task="b", attempt=2),
    )
    (task,) = scenario.tasks_in_flight()
    if "input" in rests:
        assert task.items[0].input == {"x": 99}
    if "reads" in rests:
        assert versions(scenario) == {"a": (99, scenario.state.facts["a"].version)}
    scenario.when(ended("b", {"b": 2}, attempt=2, usage={"input_tokens": 4})).then(
        event("task_ended"), event("fact_committed", key="b", value=2, stale=[]), event("run_ended", end="DONE")
    )
    assert (scenario.state.usage.input_tokens, scenario.state.tasks["b"].lost) == (7, 0)


@pytest.mark.parametrize("stale", ["commit", "mark", "again"])
def test_nothing_is_behind_while_nothing_changed(stale: str) -> None:
    scenario = reading(stale)
    scenario.when(ended("b", {"b": 1})).then(event("task_ended"), event("fact_committed", stale=[]))


def test_the_same_value_again_is_a_newer_version_and_no_other_input() -> None:
    read, given_ = reading("mark", then=(newer_a(10),)), reading("mark", then=(newer_a(10),), input={"x": "facts.a"})
    read.when(ended("b", {"b": 1})).then(event("task_ended"), event("fact_committed", stale=["a"]), event("run_ended"))
    given_.when(ended("b", {"b": 1})).then(event("task_ended"), event("fact_committed", stale=[]), event("run_ended"))


def test_again_is_bounded_and_then_the_result_is_marked() -> None:
    scenario = reading("again", newer=NEWER)
    for n in range(1, 4):
        scenario.say(newer_a(n, n))
        scenario.when(ended("b", {"b": n}, attempt=n)).then(event("attempt_stale", attempt=n), event("task_dispatched"))
    scenario.say(newer_a(4, 4))
    scenario.when(ended("b", {"b": 4}, attempt=4)).then(
        event("task_ended"), event("fact_committed", value=4, stale=["a"])
    )
    assert scenario.state.tasks["b"].stale == 3


def test_just_what_depended_on_it_is_asked_again() -> None:
    """`c` rests on another fact; its result is committed as it is."""
    scenario = reading(
        "again", step("d"), step("c", needs=["d"], reads=["d"], stale="again"), then=(ended("d", {"d": 1}),)
    )
    scenario.say(newer_a(99))
    scenario.when(ended("c", {"c": 1})).then(event("task_ended", task="c"), event("fact_committed", key="c", stale=[]))
    scenario.when(ended("b", {"b": 1})).then(event("attempt_stale", task="b"), event("task_dispatched", task="b"))


def test_an_end_that_fails_is_no_result_to_be_behind() -> None:
    scenario = reading("again", then=(newer_a(99),), attempts=1)
    scenario.when(failed("b", "INTERNAL")).then(
        event("task_ended", code="INTERNAL"), event("fact_missing"), event("run_ended")
    )


def test_result_out_of_schema_is_rejected_before_it_is_called_behind() -> None:
    scenario = reading("again", then=(newer_a(99), offer("w", "work", output={"type": "integer"})))
    scenario.when(ended("b", {"c": 1})).then(event("attempt_failed", code="INVALID_OUTPUT"), event("task_dispatched"))


def test_newer_value_from_which_no_input_can_be_made() -> None:
    """The result is marked; asked again, the task would have no input, so it ends with that."""
    marked = reading("mark", then=(newer_a("a text"),), input={"x": "abs(facts.a)"})
    marked.when(ended("b", {"b": 1})).then(
        event("task_ended"), event("fact_committed", stale=["input"]), event("run_ended")
    )
    again = reading("again", then=(newer_a("a text"),), input={"x": "abs(facts.a)"}, missing="allow")
    again.when(ended("b", {"b": 1})).then(
        event("attempt_stale"),
        event("task_ended", code="INVALID_INPUT", message="'abs(facts.a)' cannot be evaluated here"),
        event("fact_missing", code="INVALID_INPUT"),
        event("run_ended", end="DEGRADED"),
    )


def test_newer_value_that_no_task_can_carry() -> None:
    """The next attempt would be over the limit of a message: it is not put into the queue, it ends the task."""
    many = [step(f"f{n}", fact=f"f.k{n}") for n in range(8)]
    grown = [
        step(f"g{n}", "fix", needs=[f"f{n}"], fact=f"f.k{n}", replaces=True, input={"n": f"`{n}`"}) for n in range(8)
    ]
    b = step(
        "b", needs=[f"f{n}" for n in range(8)], reads=["f.*"], stale="again", missing="allow", input={"x": "facts.f"}
    )
    scenario = given(offer("w", "work"), offer("v", "fix"), teach(*many, *grown, b, returns={"b": "facts.b"}), goal())
    scenario.say(*(ended(f"f{n}", {f"f.k{n}": n}) for n in range(8)))
    assert [task.task for task in scenario.tasks_in_flight()][-1] == "b"
    scenario.say(*(ended(f"g{n}", {f"f.k{n}": "x" * 40_000}, by="v") for n in range(8)))
    scenario.say(ended("b", {"b": 1}))
    assert (scenario.state.end, scenario.state.missing["b"].code) == ("DEGRADED", "BUDGET_EXCEEDED")
    assert "bytes of input, facts and answers" in scenario.state.missing["b"].message


# --- between the end of one voice and the settling --------------------------------------------------------------------


def voices(stale: str, policy: str = "priority", **b: Any) -> Scenario:
    """Both `u` and `w` do `b`; `a` gets a newer value after `u` has ended and before `w` has."""
    merge = {"policy": policy} | ({"order": ["u", "w"]} if policy == "priority" else {})
    steps = [
        step("a", "first"),
        step("b", needs=["a"], reads=["a"], specialist="all", stale=stale, merge=merge, **b),
        step("r", "fix", needs=["a"], fact="a", replaces=True),
    ]
    offers = (offer("f", "first"), offer("u", "work"), offer("w", "work"), offer("v", "fix"))
    return given(*offers, teach(*steps, returns={"b": "facts.b"}), goal(), ended("a", {"a": 10}, by="f"))


def newer(value: Any) -> Said:
    return ended("r", {"a": value}, by="v")


def test_fact_that_changes_between_a_voice_and_the_settling_is_marked() -> None:
    scenario = voices("mark").say(ended("b-0", {"b": 1}, by="u"), newer(99))
    scenario.when(ended("b-1", {"b": 2})).then(
        event("task_ended"), event("fact_committed", key="b", value=1, by="u", stale=["a"]), event("run_ended")
    )


def test_fact_that_changes_between_a_voice_and_the_settling_is_asked_again() -> None:
    """The voice that ended first is asked once more, when the other has caught up: its claim was never committed."""
    scenario = voices("again").say(ended("b-0", {"b": 1}, by="u", usage={"input_tokens": 1}), newer(99))
    assert scenario.state.tasks["b-0"].status == "ended"
    scenario.when(ended("b-1", {"b": 2})).then(event("attempt_stale", task="b-1"), event("task_dispatched", task="b-1"))
    scenario.when(ended("b-1", {"b": 3}, attempt=2)).then(
        event("task_ended", task="b-1"),
        event("attempt_stale", task="b-0", attempt=1, keys=["a"], execution="", usage={}),
        event("task_delayed", task="b-0", delay_ms=0),
        event("task_dispatched", task="b-0", attempt=2),
    )
    assert versions(scenario, "b-0")["a"][0] == 99
    assert scenario.state.tasks["b-0"].claims == (), "what it claimed before is void"
    scenario.when(ended("b-0", {"b": 4}, attempt=2, by="u", usage={"input_tokens": 2})).then(
        event("task_ended"), event("fact_committed", key="b", value=4, by="u", stale=[]), event("run_ended", end="DONE")
    )
    assert [loser.value for loser in scenario.state.facts["b"].losers] == [3]
    assert scenario.state.usage.input_tokens == 3


def test_voice_that_is_asked_again_after_its_end_fails() -> None:
    scenario = voices("again", attempts=1, silent=["INTERNAL"]).say(ended("b-0", {"b": 1}, by="u"), newer(99))
    scenario.say(
        ended("b-1", {"b": 2}), ended("b-1", {"b": 3}, attempt=2), failed("b-0", "INTERNAL", attempt=2, by="u")
    )
    fact = scenario.state.facts["b"]
    assert (fact.value, fact.by, [one.by for one in fact.declined], scenario.state.end) == (3, "w", ["u"], "DONE")


def test_value_made_of_several_claims_is_behind_where_one_of_them_is() -> None:
    scenario = voices("mark", policy="union").say(ended("b-0", {"b": [1]}, by="u"), newer(99))
    scenario.when(ended("b-1", {"b": [2]})).then(
        event("task_ended"), event("fact_committed", key="b", value=[1, 2], by="", stale=["a"]), event("run_ended")
    )


def test_winner_that_is_not_behind_is_not_marked() -> None:
    """`w` is given the task again after the change, so that its claim knows of it; the loser's does not matter."""
    scenario = voices("mark", policy="newest").say(
        ended("b-0", {"b": 1}, by="u"), newer(99), failed("b-1", "TOOL_DOWN")
    )
    scenario.when(ended("b-1", {"b": 2}, attempt=2)).then(
        event("task_ended"), event("fact_committed", value=2, by="w", stale=[]), event("run_ended")
    )


# --- child runs -------------------------------------------------------------------------------------------------------


def with_child(stale: str) -> Scenario:
    inner = teach(step("c", input={"x": "input.x"}), returns={"c": "facts.c"}, team="inner")
    steps = [
        step("a"),
        {"id": "b", "needs": ["a"], "team": "inner", "input": {"x": "facts.a"}, "stale": stale},
        step("r", "fix", needs=["a"], fact="a", replaces=True),
    ]
    scenario = given(offer("w", "work"), offer("v", "fix"), inner, teach(*steps, returns={"b": "facts.b"}), goal())
    return scenario.say(ended("a", {"a": 10}))


def child_of(scenario: Scenario) -> str:
    """Opens the child run that the parent asks for."""
    (child,) = effects.child_goals(scenario.state)
    scenario.say(Said("goal", "_supervisor", child.data, child.run))
    return child.run


def tell(scenario: Scenario, child: str) -> Scenario:
    wake = effects.wake_for_parent(scenario.of(child), scenario.folded[child].h, scenario.state)
    assert isinstance(wake, ChildEnded)
    return scenario.say(Said("wake", "", wake))


@pytest.mark.parametrize(("stale", "marked"), [("commit", []), ("mark", ["input"])])
def test_child_run_behind_its_input(stale: str, marked: list[str]) -> None:
    scenario = with_child(stale)
    child = child_of(scenario)
    scenario.say(ended("r", {"a": 99}, by="v"), ended("c", {"c": 1}, run=child))
    tell(scenario, child).then(event("task_ended"), event("fact_committed", key="b", stale=marked), event("run_ended"))


def test_child_run_behind_its_input_is_asked_for_again() -> None:
    scenario = with_child("again")
    child = child_of(scenario)
    scenario.say(ended("r", {"a": 99}, by="v"), ended("c", {"c": 1}, run=child, usage={"input_tokens": 2}))
    tell(scenario, child).then(
        event("attempt_stale", task="b", keys=["input"], usage={"input_tokens": 2}), event("task_dispatched", attempt=2)
    )
    other = child_of(scenario)
    assert other != child
    assert scenario.of(other).input == {"x": 99}
    scenario.say(ended("c", {"c": 2}, run=other, usage={"input_tokens": 3}))
    tell(scenario, other).then(
        event("task_ended"), event("fact_committed", value={"c": 2}, stale=[]), event("run_ended", end="DONE")
    )
    assert scenario.state.usage.input_tokens == 5


def test_what_an_end_has_used_is_booked_though_the_run_ends_before_it_is_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """An expression of the playbook fails where nobody thought of it."""

    def fails(*_: Any) -> None:
        raise BadExpression("no such thing here")

    scenario = reading("commit")
    with monkeypatch.context() as broken:
        broken.setattr(deciding, "breach", fails)
        scenario.say(ended("b", {"b": 1}, usage={"input_tokens": 6}))
    scenario.forked = True  # by other rules than those that would decide it again
    scenario.then(
        event("input_late", task="b", usage={"input_tokens": 6}, reason="no such thing here"),
        event("run_ended", end="FAILED", code="INVALID_INPUT"),
    )
    assert scenario.state.usage.input_tokens == 6


def test_parent_waits_as_long_as_its_child_may_ask_a_person() -> None:
    """Its own time for the child run must not be over before anybody has had the time to answer."""
    inner = teach(step("c", gate={"expires_s": 366 * 86_400}), team="inner")
    scenario = given(offer("w", "work"), inner, teach({"id": "b", "team": "inner"}), goal())
    child = child_of(scenario)
    assert scenario.state.timers["task.b"].delay_ms > scenario.of(child).timers["gate.c"].delay_ms


# --- how facts get newer values ---------------------------------------------------------------------------------------


def test_each_version_of_a_fact_stays_with_it() -> None:
    scenario = reading("commit", newer=3)
    scenario.say(*(newer_a(n * 11, n) for n in (1, 2, 3)))
    fact = scenario.state.facts["a"]
    assert [(old.value, old.step) for old in fact.previous] == [(10, "a"), (11, "r1"), (22, "r2")]
    assert (fact.value, fact.step, scenario.state.replaced) == (33, "r3", 3)
    replaced = [one.replaces for one in scenario.last if isinstance(one, e.FactCommitted)]
    assert replaced == [fact.previous[-1].version]


def test_step_that_does_not_say_so_replaces_nothing() -> None:
    steps = [step("a"), step("r", "fix", needs=["a"], fact="a")]
    scenario = given(offer("w", "work"), offer("v", "fix"), teach(*steps), goal(), ended("a", {"a": 1}))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "INVALID_INPUT")
    assert "names the key 'a', which another step has decided" in scenario.state.reason


def test_question_whose_key_was_decided_meanwhile_replaces_nothing() -> None:
    """It asked before the other step had decided the key."""
    asks = {"id": "q", "question": {"ask": "n?"}, "fact": "a"}
    scenario = given(offer("w", "work"), teach(asks, step("r", fact="a", replaces=True)), goal(), ended("r", {"a": 1}))
    body = {"type": "answer", "gate": "q", "digest": scenario.state.gates["q"].digest, "value": 2}
    scenario.say(Said("signal", "ann", body))
    assert (scenario.state.end, scenario.state.code, scenario.state.facts["a"].value) == ("FAILED", "INVALID_INPUT", 1)


def ends(state: State) -> tuple[str, str]:
    return state.end, state.code


def test_wake_of_an_attempt_that_was_asked_again_is_void() -> None:
    scenario = reading("again", then=(newer_a(99),))
    armed = scenario.state.timers["task.b"].armed
    scenario.say(ended("b", {"b": 1}))
    scenario.when(Due("task.b", armed)).then()
    scenario.when(ended("b", {"b": 5}, execution="other")).then(event("input_late"))
    assert scenario.state.tasks["b"].attempt == 2
