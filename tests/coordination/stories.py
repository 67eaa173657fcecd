"""Runs from their goal to their end, one for each way in which work is coordinated: what is said, message by message.
For tests that cut them off, say everything twice or put something else in between."""

from collections.abc import Callable, Iterator
from typing import Any

from supervisor import effects
from tests.coordination.asking import ASKS, CONFIRMATION, KINDS, answer, approve, catalogue, needs_input
from tests.supervisor.scenario import Due, Said, Scenario, came, ended, failed, goal, offer, started, step, teach

Line = Said | Due | Callable[[Scenario], Said]
"""What comes next; a function where it depends on what the run has come to."""

STORIES: dict[str, list[Line]] = {}


def yes(gate: str, value: Any = None) -> Callable[[Scenario], Said]:
    """The answer to an open gate."""

    def said(scenario: Scenario) -> Said:
        cited = scenario.state.gates[gate].digest
        return approve(cited, gate) if value is None else answer(cited, gate, value)

    return said


def child_goal(scenario: Scenario) -> Said:
    (child,) = effects.child_goals(scenario.state)
    return Said("goal", "_supervisor", child.data, child.run)


def of_the_child(*arguments: Any, **fields: Any) -> Callable[[Scenario], Said]:
    """The end of a task of the child run."""
    return lambda scenario: ended(*arguments, run=effects.children(scenario.state)[0], **fields)


USED = {"input_tokens": 2, "micro_usd": 3}
"""What an execution has used, where a story tells of it."""


def told(scenario: Scenario) -> Said:
    """What the parent is told of its child."""
    (child,) = effects.children(scenario.state)
    return Said("wake", "", effects.wake_for_parent(scenario.of(child), scenario.folded[child].h, scenario.state))


def tell(name: str, *lines: Line) -> None:
    STORIES[name] = list(lines)


for kind in KINDS:
    after = {
        "step with a gate": [ended("b", {"b": 1})],
        "step that is a question": [],
        "question of a specialist": [ended("a", {"a": 1}, attempt=2)],
        "confirmation of a tool": [ended("a", {"a": 1}, attempt=2)],
        "loop": [ended("a", {"a": 1})],
    }
    tell(kind.name, *catalogue(), *kind.ask("r1"), yes(kind.gate, kind.value), *after[kind.name])

WORK, OTHER = offer("w", "work", attempts=2, backoff_s=1), offer("v", "other", attempts=1)
FACTS = [
    step("a"),
    step("b", needs=["a"], reads=["a"], stale="again"),
    step("r", "other", needs=["a"], fact="a", replaces=True),
]
tell(
    "facts that change",
    *(WORK, OTHER, teach(*FACTS, returns={"b": "facts.b"}), goal()),
    *(
        started("a"),
        ended("a", {"a": 1}),
        ended("r", {"a": 2}, by="v"),
        ended("b", {"b": 1}, usage=USED),
        ended("b", {"b": 2}, attempt=2),
    ),
)
tell(
    "attempts",
    *(WORK, OTHER, teach(step("a", fallback=["v"]), step("b", needs=["a"]), returns={"a": "facts.a"}), goal()),
    *(started("a"), failed("a", "TOOL_DOWN", usage=USED), Due("retry.a"), failed("a", "INTERNAL", 2), Due("task.a")),
    *(ended("a", {"a": 1}, attempt=4, by="v"), Due("task.b"), ended("b", {"b": 1}, attempt=2)),
)
JUDGED = step("b", specialist="all", merge={"policy": "reconcile", "specialist": "judge"})
tell(
    "claims that differ",
    *(offer("u", "work"), offer("w", "work"), offer("judge", "judging", attempts=2, backoff_s=0)),
    *(teach(JUDGED, returns={"b": "facts.b"}), goal(), ended("b-0", {"b": 1}, by="u"), ended("b-1", {"b": 2})),
    *(failed("b-2", "TOOL_DOWN", by="judge"), ended("b-2", {"b": 2}, attempt=2, by="judge")),
)
RACE = step("b", specialist="all", merge={"policy": "first"}, for_each="input.n", fact="b.k{index}", tasks=2)
tell(
    "the first claim",
    *(offer("u", "work"), offer("w", "work"), teach(RACE), goal({"n": [1, 2]})),
    *(
        ended("b-1", {"b.k0": 1}, usage=USED),
        ended("b-0", {"b.k0": 2}, by="u", usage=USED),
        ended("b-2", {"b.k1": 1}, by="u"),
    ),
)
tell(
    "another plan",
    *(WORK, OTHER, teach(step("a"), step("b"), replans=[{"step": "b", "steps": [step("c", "other")]}]), goal()),
    *(failed("b", "LOW_CONFIDENCE"), ended("c", {"c": 1}, by="v"), ended("a", {"a": 1})),
)
tell(
    "a child run",
    *(WORK, teach(step("c"), returns={"c": "facts.c"}, team="inner")),
    *(teach(step("b", team="inner"), returns={"b": "facts.b"}), goal(), child_goal),
    *(of_the_child("c", {"c": 1}), told),
)
tell(
    "an open call",
    *(WORK, offer("v", "work"), teach(step("a", call={}), returns={"a": "facts.a"}), goal()),
    *(
        ended("a_bids-0", {"a_bids": {"can": True}}, by="v"),
        Due("task.a_bids-1"),
        failed("a", "LOW_CONFIDENCE", by="v"),
    ),
)
REVIEWED = step("a", critique={"capability": "other", "accept": "critique.good", "rounds": 2})
tell(
    "propose and critique",
    *(WORK, OTHER, teach(REVIEWED, returns={"a": "facts.a"}), goal()),
    *(ended("a_1", {"a_1": 1}), ended("a_review_1", {"a_review_1": {"good": False}}, by="v"), ended("a_2", {"a_2": 2})),
    ended("a_review_2", {"a_review_2": {"good": True}}, by="v"),
)
tell(
    "handing on",
    *(
        offer("w", "work", authority="propose"),
        OTHER,
        teach(step("a", hand_to=["other"]), returns={"a": "facts.a"}),
        goal(),
    ),
    *(failed("a", "HANDED_OFF", to="other"), ended("a", {"a": 1}, attempt=2, by="v")),
)
tell(
    "waking",
    *(WORK, offer("eve", "watching", wakes_on=["a"]), teach(step("a"), step("b", needs=["a"]), wakes=True), goal()),
    *(ended("a", {"a": 1}), ended("woken_1", {"woken.eve.1": 1}, by="eve"), ended("b", {"b": 1})),
)
tell(
    "waiting for somebody",
    *(teach(step("a"), returns={"a": "facts.a"}), goal(), offer("w", "work"), came("work"), ended("a", {"a": 1})),
)
tell(
    "asking twice",
    *(WORK, teach(step("a"), returns={"a": "facts.a"}), goal(), needs_input("a", ASKS), yes("a.1", 3)),
    *(needs_input("a", CONFIRMATION, attempt=2), yes("a.2"), ended("a", {"a": 1}, attempt=3)),
)


def played(name: str, upto: int | None = None) -> Scenario:
    """The story as far as its line number `upto`."""
    return play(Scenario(), STORIES[name][:upto])


def play(scenario: Scenario, lines: list[Line]) -> Scenario:
    for line in lines:
        scenario.say(line(scenario) if callable(line) else line)
    return scenario


def places() -> Iterator[tuple[str, int]]:
    """Each story and each line after which its run is there and goes on."""
    for name, lines in STORIES.items():
        for upto in range(1, len(lines) + 1):
            scenario = played(name, upto)
            if scenario.state.goal and not scenario.state.end:
                yield name, upto
