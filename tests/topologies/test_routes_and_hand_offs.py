"""Routers: an expression says who does a step, and who has a task may hand it on to those whom the step allows."""

from typing import Any

import pytest

from tests.supervisor.scenario import Due, Said, Scenario, ended, event, failed, given, goal, offer, step, teach

DESKS = ("billing", "delivery", "legal")
OFFERS = tuple(offer(f"{name}-desk", name, "desk", authority="propose") for name in DESKS)


def desk(
    *said: Said | Due, asks: dict[str, Any] | None = None, playbook: dict[str, Any] | None = None, **fields: Any
) -> Scenario:
    """A letter that the billing desk gets first; the goal asks for `asks`."""
    letter = step("letter", "desk", **{"route": "input.to", "hand_to": ["delivery", "billing"]} | fields)
    taught = teach(letter, returns={"letter": "facts.letter"}, **playbook or {})
    return given(*OFFERS, taught, goal({"to": "billing-desk"} if asks is None else asks), *said)


def handed(to: str, attempt: int = 1, by: str = "billing-desk", why: str = "not ours") -> Said:
    return ended("letter", None, attempt, by, code="HANDED_OFF", to=to, message=why)


def answered(attempt: int, by: str) -> Said:
    return ended("letter", {"letter": f"from {by}"}, attempt, by)


# --- routes -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("route", "to", "voice", "fallback"),
    [
        ("input.to", "legal-desk", "legal-desk", ()),
        ("input.to", ["legal-desk", "billing-desk"], "legal-desk", ("billing-desk",)),
        ("join('-', [input.to, 'desk'])", "legal", "legal-desk", ()),
        ("input.to || 'delivery-desk'", "", "delivery-desk", ()),
        ("input.to", ["nobody", "legal-desk", "legal-desk"], "legal-desk", ()),
    ],
)
def test_route_says_who_does_it_and_who_takes_over(route: str, to: Any, voice: str, fallback: tuple[str, ...]) -> None:
    state = desk(asks={"to": to}, route=route).state
    assert [one.specialist for one in state.steps["letter"].voices] == [voice]
    assert state.steps["letter"].fallback == fallback


def test_route_is_over_what_the_step_sees() -> None:
    steps = [step("sort", "sorting"), step("letter", "desk", needs=["sort"], route="facts.sort.desk")]
    scenario = given(*OFFERS, offer("sorter", "sorting"), teach(*steps), goal())
    scenario.when(ended("sort", {"sort": {"desk": "legal-desk"}}, by="sorter")).then(
        event("task_ended"),
        event("fact_committed", key="sort"),
        event("step_expanded", step="letter", voices=[{"specialist": "legal-desk", "contract": 3}]),
        event("task_dispatched", specialist="legal-desk"),
    )


def test_route_to_nobody_says_so() -> None:
    state = desk(asks={}).state
    assert (state.end, state.reason) == ("FAILED", "no value for letter: input.to names nobody")


def test_route_to_somebody_who_is_not_there_waits_for_just_this_one() -> None:
    scenario = desk(asks={"to": "press-desk"})
    assert scenario.state.steps["letter"].awaiting == "desk@press-desk"
    assert desk(Due("await.letter"), asks={"to": "press-desk"}).state.reason == (
        "nobody offered 'desk@press-desk' within 3600000 ms"
    )
    scenario.say(offer("press-desk", "desk"), Said("wake", "", {"type": "capability_came", "capability": "desk"}))
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["press-desk"]


def test_route_that_is_no_name_is_wrong() -> None:
    state = desk(asks={"to": {"desk": 1}}).state
    assert (state.end, state.code) == ("FAILED", "INVALID_INPUT")
    assert state.reason == "route 'input.to' is neither a name nor a list of names here"


def test_first_choice_is_down() -> None:
    scenario = desk(asks={"to": ["legal-desk", "billing-desk"]})
    scenario.when(Due("task.letter")).then(
        event("attempt_failed", code="TIMEOUT", lost=False, to="billing-desk"),
        event("task_dispatched", specialist="billing-desk"),
    )
    assert scenario.say(answered(2, "billing-desk")).state.end == "DONE"


def test_only_choice_is_down() -> None:
    scenario = desk()
    while not scenario.state.end:
        scenario.say(Due("task.letter"))
    assert (scenario.state.end, scenario.state.reason) == (
        "FAILED_RETRYABLE",
        "no value for letter: billing-desk: not begun within 90000 ms, 3 times",
    )


# --- hand-offs --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("to", ["delivery", "delivery-desk"], ids=["capability", "specialist"])
def test_task_is_handed_on_with_its_input_and_costs_no_attempt(to: str) -> None:
    scenario = desk(asks={"to": "billing-desk", "text": "where is it?"}, hand_to=[to], input={"t": "input.text"})
    scenario.when(handed(to, why="about a parcel")).then(
        event("attempt_failed", code="HANDED_OFF", message="about a parcel", lost=False, to="delivery-desk"),
        event("task_dispatched", task="letter", attempt=2, specialist="delivery-desk"),
    )
    (task,) = scenario.tasks_in_flight()
    assert task.items[0].input == {"t": "where is it?"}
    assert scenario.say(answered(2, "delivery-desk")).state.result == {"letter": "from delivery-desk"}
    assert scenario.state.tasks["letter"].lost == 0


@pytest.mark.parametrize("to", ["legal", "legal-desk", "nowhere", "delivery-desk"])
def test_others_are_refused(to: str) -> None:
    """What the step does not name, also a specialist of a capability that it names."""
    state = desk(handed(to)).state
    assert (state.end, state.code) == ("POLICY_BLOCKED", "POLICY_BLOCKED")
    assert state.reason == f"no value for letter: billing-desk: step 'letter' does not let a task be handed to {to!r}"


def test_who_only_observes_hands_nothing_on() -> None:
    observer = offer("a-desk", "desk")
    scenario = given(observer, *OFFERS, teach(step("letter", "desk", hand_to=["legal"])), goal())
    scenario.say(handed("legal", by="a-desk"))
    assert scenario.state.end == "POLICY_BLOCKED"
    assert scenario.state.reason.endswith("a-desk has the authority to observe, not to hand a task on")


def test_nobody_offers_what_it_is_handed_to() -> None:
    state = desk(handed("press"), hand_to=["press"], attempts=1).state
    assert (state.end, state.reason) == (
        "FAILED_RETRYABLE",
        "no value for letter: billing-desk: nobody who may do it offers 'press', to which it was handed",
    )


def test_hops_are_bounded() -> None:
    scenario = desk(handoffs=2)
    scenario.say(handed("delivery"), handed("billing", 2, "delivery-desk"), handed("delivery", 3))
    assert (scenario.state.end, scenario.state.code) == ("FAILED", "BUDGET_EXCEEDED")
    assert scenario.state.reason == "no value for letter: billing-desk: it was handed on 2 times; 2 at most"


def ping_pong(scenario: Scenario, most: int) -> Scenario:
    for attempt in range(1, most):
        if scenario.state.end or scenario.state.open_gates:
            break
        by = scenario.state.tasks["letter"].specialist
        scenario.say(handed("delivery" if by == "billing-desk" else "billing", attempt, by))
    return scenario


def test_ping_pong_is_found_as_a_loop() -> None:
    scenario = ping_pong(desk(handoffs=20), 20)
    what = 'billing-desk handed it to delivery, 4 times with the same input; 3 are allowed; the last: "not ours"'
    scenario.then(
        event("attempt_failed", code="HANDED_OFF", attempt=7),
        event("loop_found", task="letter", times=4, what=what),
        event("run_ended", end="FAILED", code="LOOP", reason=f"letter: {what}"),
    )


def test_person_may_be_asked_whether_the_ping_pong_goes_on() -> None:
    scenario = ping_pong(desk(handoffs=20, playbook={"on_loop": "ask"}), 20)
    (gate,) = scenario.state.open_gates
    digest = scenario.state.gates[gate].digest
    scenario.say(Said("signal", "ann", {"type": "approve", "gate": gate, "digest": digest}))
    assert [task.specialist for task in scenario.tasks_in_flight()] == ["delivery-desk"]
    assert scenario.say(answered(8, "delivery-desk")).state.end == "DONE"


def test_ping_pong_without_a_detector_ends_by_the_limit_of_hops() -> None:
    scenario = ping_pong(desk(handoffs=20, playbook={"repeats": 0}), 30)
    assert scenario.state.reason == "no value for letter: billing-desk: it was handed on 20 times; 20 at most"


def test_who_gets_it_by_hand_off_is_down() -> None:
    scenario = desk(handed("delivery"))
    while not scenario.state.end:
        scenario.say(Due("task.letter"))
    assert (scenario.state.end, scenario.state.reason) == (
        "FAILED_RETRYABLE",
        "no value for letter: delivery-desk: not begun within 90000 ms, 3 times",
    )


@pytest.mark.parametrize(
    "said",
    [
        ended("letter", None, 1, "billing-desk", code="HANDED_OFF", to="robot"),
        failed("letter", "LOW_CONFIDENCE", by="billing-desk"),
        Due("task.letter"),
    ],
    ids=["handed", "failed", "never-begun"],
)
def test_without_a_gate_nobody_who_may_change_the_world_gets_it(said: Said | Due) -> None:
    """Neither by hand-off nor as the one who takes over."""
    robot = offer("robot", "desk", authority="effect")
    letter = step("letter", "desk", specialist="billing-desk", hand_to=["robot"], fallback=["robot"])
    scenario = given(robot, *OFFERS, teach(letter), goal())
    scenario.say(said)
    assert "robot" not in [task.specialist for task in scenario.tasks_in_flight()]
