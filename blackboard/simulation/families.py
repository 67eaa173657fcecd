"""Families of random worlds: `any` has a little of everything, each of the others is about one thing that a world of
any kind rarely comes to.

A seed draws the family too, so all of them are simulated but `failing`, which is a measure: of worlds as teams are
meant to be, how many end well although every specialist fails one time in five. A test may ask for one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from blackboard.simulation.faults import Faults
from blackboard.simulation.graph_steps import NAMES, RETRIED, Raw, Source, planning
from blackboard.simulation.graphs import Graph, graph, planners
from blackboard.simulation.parts import Person, Published
from blackboard.simulation.scripted import OneOf
from schemas.events import StopCode
from schemas.goals import Budget
from schemas.playbooks import Playbook


def world(source: Source, family: str = "") -> Graph:
    """A world of `family`, or of one that is drawn."""
    return FAMILIES[family or source.pick(DRAWN)](source)


def _loops(source: Source) -> Graph:
    """Rounds of propose and critique that mostly lead nowhere."""
    rounds = {"capability": "review", "accept": "critique.ok", "rounds": source.number(3, 5)}
    step: Raw = {"id": "s0", "capability": "write", "critique": rounds, "input": {"x": "input.x"}, "missing": "allow"}
    playbook: Raw = {"team": "t0", "steps": [step], "repeats": source.number(1, 3)}
    if source.chance(0.3):
        playbook |= {"on_loop": "ask", "deadline_s": source.number(20, 200)}
    no: list[Any] = [{"ok": False, "say": 1}, {"ok": False, "say": 2}, {"ok": True}]
    specialists = (
        _specialist(source, "u", "write", source.pick(({"draft": 1}, OneOf([{"draft": 1}, {"draft": 2}])))),
        _specialist(source, "v", "review", source.pick((no[0], OneOf(no[:2]), OneOf(no)))),
    )
    return _graph(source, playbook, specialists)


def _breakers(source: Source) -> Graph:
    """Many tasks for few specialists who often fail."""
    work: Raw = {"capability": "read", "for_each": "input.l", "input": {"x": "item"}, "missing": "allow"}
    work |= {"tasks": 256, "attempts": source.number(1, 4), "backoff_s": 0, "specialist": source.pick(("", "all"))}
    steps = [work | {"id": name} for name in ("s0", "s1")[: source.number(1, 2)]]
    playbook = {"team": "t0", "steps": steps, "breaker": source.number(2, 4), "parallel": source.pick((1, 2, 32))}
    specialists = tuple(
        _specialist(source, name, "read", 7, failure_rate=source.pick((0.4, 0.6)), codes=[source.pick(RETRIED)])
        for name in NAMES[: source.number(1, 3)]
    )
    return _graph(source, playbook, specialists, items=source.number(3, 6))


def _voices(source: Source) -> Graph:
    """Several voices who do not quite agree, and every policy that makes one value of what they say."""
    count = source.number(3, 5)
    policy = source.pick(("union", "quorum", "concat", "median", "highest_confidence", "priority", "reject"))
    merge: Raw = {"policy": policy}
    if policy == "quorum":
        merge["n"] = source.number(2, count)
    if policy == "priority":
        merge["order"] = [NAMES[1], "value.sure"]
    said: dict[str, list[Any]] = {
        "union": [[1, 2], ["a", 2, "b"], ["c"]],
        "concat": [[1], ["a", 2]],
        "median": [1, 2, 3],
    }
    answers: list[Any] = said.get(policy, [{"sure": True}, {"sure": False, "confidence": 0.7}, {"sure": 1}])
    step: Raw = {"id": "s0", "capability": "read", "specialist": "all", "merge": merge, "missing": "allow"}
    step |= {"input": {"x": "input.x"}, "attempts": 1, "deadline_s": source.number(2, 10)}
    playbook = {"team": "t0", "steps": [step], "returns": {"all": "facts"}}
    specialists = tuple(
        _specialist(source, name, "read", OneOf(answers), failure_rate=source.pick((0.0, 0.2)))
        for name in NAMES[:count]
    )
    return _graph(source, playbook, specialists)


def _plans(source: Source) -> Graph:
    """Plans that specialists propose, often such as cannot be committed, and what needs them."""
    step: Raw = {"id": "s0"} | planning(source, (), ())
    after: Raw = {"id": "s1", "capability": "read", "needs": ["s0"], "input": {"x": "facts.s0_facts"}}
    playbook: Raw = {"team": "t0", "steps": [step, after | {"missing": "allow"}], "returns": {"all": "facts"}}
    playbook |= {"parallel": source.pick((32, 1)), "wakes": source.chance(0.3)}
    if source.chance(0.3):
        playbook["budget"] = {"tokens": source.pick((1_000, 100, 30))}
    if source.chance(0.3):
        playbook["replans"] = [{"step": "s0", "steps": [after | {"id": "s2", "needs": []}]}]
    limits = source.pick(({}, {"tokens": 20}))
    specialists = tuple(
        _specialist(
            source, name, capability, {"ok": True}, tokens=source.pick((0, 10)), budget=Budget(**limits), **more
        )
        for name, capability, more in (
            ("u", "read", {}),
            ("v", "write", {"authority": source.pick(("observe", "effect")), "wakes_on": ["s0"]}),
            ("w", "write", {"tools": ("look",), "uses": ("look",)}),
        )
    )
    made = _graph(source, playbook, specialists)
    return replace(made, specialists=made.specialists + planners(source, made.playbooks, bad=1.0))


def _losses(source: Source) -> Graph:
    """The queue is lost again and again, processes are killed, and there is time enough to mend all of it."""
    step: Raw = {"capability": "read", "for_each": "input.l", "input": {"x": "item"}, "missing": "allow"}
    step |= {"tasks": 256, "wait_s": 90, "deadline_s": 60, "attempts": 1}
    steps = [step | {"id": name, "needs": needs} for name, needs in (("s0", []), ("s1", ["s0"]))]
    playbook = {"team": "t0", "steps": steps[: source.number(1, 2)], "parallel": source.pick((32, 1, 2))}
    specialists = (_specialist(source, "u", "read", 7, delay_s=(0.0, float(source.pick((1, 4, 8))))),)
    faults = Faults(queue_lost=0.08, crash=0.005, slow=0.05).without("pause", "clock_back")
    return _graph(source, playbook, specialists, items=source.number(2, 4), faults=faults, punctual=True)


def _failing(source: Source) -> Graph:
    """Steps that need each other, and two specialists for each capability, each of whom fails one attempt in five; all
    else is as it stands where nobody sets it. What may fail for good has a fallback, all else has five attempts."""
    steps: list[Raw] = []
    for number in range(source.number(1, 6)):
        needs = [one["id"] for one in steps if source.chance(0.4)]
        work = source.pick((_covered, _retried))(source)
        steps.append({"id": f"s{number}", "needs": needs, "input": {"x": "input.x"}} | work)
    specialists = tuple(
        _specialist(source, name, capability, {"ok": True}, failure_rate=0.2, codes=codes, bid={}, delay_s=(0.0, 0.5))
        for capability, codes in FAILING.items()
        for name in (f"{capability}-1", f"{capability}-2")
    )
    return _graph(source, {"team": "t0", "steps": steps}, specialists, items=source.number(1, 4))


def _covered(source: Source) -> Raw:
    work: Raw = {"capability": "read", "fallback": ["read-1", "read-2"]}
    return work | source.pick(({}, {"for_each": "input.l", "input": {"x": "item"}}))


def _retried(source: Source) -> Raw:
    every: Raw = {"specialist": "all", "merge": {"policy": "first"}}
    critique: Raw = {"critique": {"capability": "review", "accept": "critique.ok", "rounds": 2}}
    return {"capability": "write", "attempts": 5} | source.pick(({}, every, {"call": {}}, critique))


def _specialist(source: Source, name: str, offers: str, answers: Any, **more: Any) -> Raw:
    delay_s = float(source.pick((0, 0, 2)))
    raw: Raw = {"name": name, "offers": [offers], "answers": answers, "delay_s": (0.0, delay_s), "backoff_s": 0.0}
    return raw | {"workers": source.pick((1, 2)), "concurrency": source.pick((2, 1))} | more


def _graph(
    source: Source,
    playbook: Raw,
    specialists: tuple[Raw, ...],
    items: int = 0,
    faults: Faults | None = None,
    punctual: bool = False,
) -> Graph:
    return Graph(
        playbooks=(Playbook.model_validate(playbook),),
        specialists=specialists,
        goals=(Published("t0", {"x": 1, "l": list(range(items))}, "r1"),),
        people=(Person("bob", source.pick(("approve", "deny")), (0.5, 20.0)),),
        supervisors=source.pick((2, 1)),
        faults=faults or Faults().times(source.pick((1.0, 0.0, 2.0))),
        punctual=punctual,
    )


FAMILIES: Mapping[str, Callable[[Source], Graph]] = {
    "any": graph,
    "loops": _loops,
    "breakers": _breakers,
    "voices": _voices,
    "losses": _losses,
    "plans": _plans,
    "failing": _failing,
}
_AGAIN: tuple[StopCode, ...] = ("TOOL_DOWN", "INTERNAL", "INVALID_OUTPUT")
FAILING: Mapping[str, Sequence[StopCode]] = {
    "read": ("LOW_CONFIDENCE", *_AGAIN),
    "write": _AGAIN,
    "review": _AGAIN,
}
DRAWN = ("any",) * 8 + ("loops", "breakers", "voices", "losses", "plans")
"""Of thirteen seeds, eight are of any kind."""
