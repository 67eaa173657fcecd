"""Random runs in which all ways of coordinating meet: gates, questions, facts that get newer values, claims that
differ, steps that take the place of others, specialists that are woken, contracts that change in between."""

from random import Random
from typing import Any

from projections.canonical import State, TaskState
from schemas import events as e
from tests.coordination.asking import answer, approve, deny, needs_input
from tests.supervisor.scenario import Due, Said, Scenario, came, cancel, ended, failed, goal, offer, teach

NAMES = ("u", "v", "w")
CAPABILITIES = ("work", "other")
VALUES = (1, 2, 2, "x", [1, 2], [2, 1], {"n": 1}, 1.5, None, False)
POLICIES: tuple[dict[str, Any], ...] = (
    {"policy": "only"},
    {"policy": "first"},
    {"policy": "newest"},
    {"policy": "reject"},
    {"policy": "union"},
    {"policy": "concat"},
    {"policy": "quorum", "n": 2},
    {"policy": "priority", "order": ["v", "value == `2`"]},
    *2 * ({"policy": "reconcile", "specialist": "judge"},),
)
PATIENCE = 160
"""Inputs after which a run is cancelled."""


def contract(random: Random, name: str) -> Said:
    offers = [one for one in CAPABILITIES if random.random() < 0.8]
    authority = random.choice(("propose", "propose", "observe", "effect"))
    wakes = random.choice(([], [], ["a"], ["a.*", "b"]))
    return offer(name, *offers, authority=authority, attempts=random.choice((1, 2, 3)), wakes_on=wakes)


def _step(random: Random, name: str, before: list[dict[str, Any]], replaces: list[str]) -> dict[str, Any]:
    needs = [one["id"] for one in before if random.random() < 0.4]
    made: dict[str, Any] = {"id": name, "needs": needs, "missing": random.choice((*["allow"] * 8, "fail"))}
    if needs and random.random() < 0.7:
        seen = random.choice(needs)
        made["input"] = {"x": random.choice((f"facts.{seen}", f"claims.{seen}", "missing", "input.n[0]"))}
    if random.random() < 0.3:
        made["when"] = random.choice(("input.n", "!missing", "facts || `true`"))
    if replaces and random.random() < 0.6:
        key = random.choice(replaces)
        made |= {"fact": key, "replaces": True, "needs": sorted({*needs, key} & {one["id"] for one in before})}
    kind = random.random()
    if kind < 0.12:
        return made | {"question": {"ask": "n?", "answer": random.choice(({}, {"type": "integer"}))}}
    if kind < 0.2:
        return made | {"value": random.choice(("input.n", "facts", "missing"))}
    made |= {"capability": random.choice(CAPABILITIES), "stale": random.choice(("commit", "mark", "again", "again"))}
    made["reads"] = random.choice(([], needs, needs, ["a.*", "b", "c", "d"]))
    made["gate"] = random.choice((None, None, {}, {"who": ["ann"]}))
    return {key: value for key, value in (made | _doers(random)).items() if value is not None}


def _doers(random: Random) -> dict[str, Any]:
    kind = random.random()
    if kind < 0.35:
        accept = random.choice(("", "", "value != `null`"))
        return {"specialist": "all", "merge": random.choice(POLICIES), "accept": accept, "silent": ["LOW_CONFIDENCE"]}
    if kind < 0.5:
        return {"call": {}}
    if kind < 0.6:
        return {"critique": {"capability": random.choice(CAPABILITIES), "accept": "critique", "rounds": 2}}
    hand_to = random.choice(([], [*NAMES, *CAPABILITIES]))
    return {
        "fallback": random.sample(NAMES, random.randrange(3)),
        "hand_to": hand_to,
        "backoff_s": random.choice((0, 0, 1)),
    }


def _fan_out(random: Random, made: dict[str, Any]) -> dict[str, Any]:
    alone = made.keys() & {"call", "critique", "question", "replaces"}
    if alone or random.random() < 0.7:
        return made
    each = random.choice(["input.n", *(f"[facts.{need}][]" for need in made["needs"])])
    return made | {"for_each": each, "fact": f"{made['id']}.k{{index}}", "tasks": random.choice((1, 2, 9))}


def _behind(random: Random) -> list[dict[str, Any]]:
    """A fact, a step that gives it a newer value, and one that reads it in the meantime."""
    work = {"capability": "work", "missing": "allow"}
    newer = {"id": "newer", "needs": ["old"], "fact": "old", "replaces": True}
    reader = {"id": "reader", "needs": ["old"], "input": {"x": "facts.old"}, "reads": ["old"]}
    return [
        {"id": "old"} | work,
        newer | work,
        reader | work | {"stale": random.choice(("commit", "mark", "again"))},
    ]


def playbook(random: Random) -> Said:
    made: list[dict[str, Any]] = []
    for name in "abcde"[: random.randrange(2, 6)]:
        taken = [one["id"] for one in made if "for_each" not in one and "replaces" not in one]
        made.append(_fan_out(random, _step(random, name, made, taken)))
    if random.random() < 0.4:
        made += _behind(random)
    replans = []
    for one in made:
        if random.random() < 0.3:
            other = _step(random, f"{one['id']}x", [], [one["id"]] if "for_each" not in one else [])
            replans.append({"step": one["id"], "steps": [other]})
    returns = {name: f"facts.{name}" for name in "abcde"}
    return teach(
        *made,
        replans=replans,
        revisions=random.choice((1, 5)),
        returns=returns,
        parallel=random.choice((1, 2, 32)),
        repeats=random.choice((0, 3)),
        wakes=random.random() < 0.3,
    )


def begun(random: Random) -> Scenario:
    """A run of a random playbook; a playbook that is no good is drawn again."""
    while True:
        scenario = Scenario(*(contract(random, name) for name in NAMES), offer("judge", "judging", attempts=2))
        taught = playbook(random)
        if scenario.catalogue.add(10_000, taught.address, taught.data) is None:
            return scenario.say(taught, goal({"n": [1, 2, 3]}, approve=random.random() < 0.2))


class Life:
    """What happens to a run, input by input, and what is looked at after each."""

    def __init__(self, random: Random) -> None:
        self.random, self.scenario = random, begun(random)
        self.events: list[e.Event] = [*self.scenario.last]
        self._look()

    @property
    def state(self) -> State:
        return self.scenario.state

    def live(self) -> State:
        for _ in range(PATIENCE):
            if self.state.end:
                break
            self._say(self._next())
        if not self.state.end:
            self._say(cancel())
        return self.state

    def _say(self, said: Said | Due) -> None:
        self.scenario.say(said)
        if not (isinstance(said, Said) and said.family == "contract"):
            self.events += self.scenario.last
            self._look()

    def _next(self) -> Said | Due:
        random, state = self.random, self.state
        going = [name for name, task in state.tasks.items() if task.status == "dispatched"]
        if going and random.random() < (0.6 if state.open_gates else 0.85):
            newer = [name for name in going if state.step(state.tasks[name].step).replaces]
            name = random.choice(newer if newer and random.random() < 0.8 else going)
            return self._end(name, state.tasks[name])
        if state.open_gates and random.random() < 0.95:
            return self._answer(random.choice([*state.open_gates]))
        if random.random() < 0.2:
            return contract(random, random.choice(NAMES))
        if random.random() < 0.1:
            return came(random.choice(CAPABILITIES))
        soon = [name for name in state.timers if not name.startswith(("gate.", "await."))]
        return Due(random.choice(soon if soon and random.random() < 0.9 else [*state.timers]))

    def _end(self, name: str, task: TaskState) -> Said:
        random, (message,) = self.random, [one for one in self.scenario.tasks_in_flight() if one.task == name]
        kind, attempt, by = random.random(), task.attempt, task.specialist
        used: dict[str, Any] = {"usage": {"input_tokens": 1}, "execution": f"{name}/{attempt}/{random.randrange(2)}"}
        if kind < 0.06:
            code = random.choice(("TOOL_DOWN", "INTERNAL", "LOW_CONFIDENCE", "POLICY_BLOCKED"))
            return failed(name, code, attempt, by, **used)
        if kind < 0.11:
            question = random.choice(({"ask": "n?", "schema": {"type": "integer"}}, {"ask": "?", "action": {"rm": 1}}))
            return needs_input(name, question, attempt, by, **used)
        if kind < 0.15:
            return failed(name, "HANDED_OFF", attempt, by, to=random.choice((*NAMES, *CAPABILITIES)), **used)
        if message.kind == "bid":
            return ended(
                name, {item.key: {"can": random.random() < 0.8} for item in message.items}, attempt, by, **used
            )
        return ended(name, {item.key: random.choice(VALUES) for item in message.items}, attempt, by, **used)

    def _answer(self, name: str) -> Said:
        random, gate = self.random, self.state.open_gates[name]
        digest = gate.digest if random.random() < 0.9 else "0" * 64
        by = random.choice(("ann", "ann", "bob"))
        if random.random() < 0.05:
            return deny(digest, name, by)
        return approve(digest, name, by) if gate.schema is None else answer(digest, name, random.choice((3, "x")), by)

    # -- what holds --

    def _look(self) -> None:
        for event in self.scenario.last:
            match event:
                case e.TaskDispatched(task=task):
                    self._approved(event, self.state.tasks[task])
                case e.AttemptStale(task=task):
                    assert self.state.tasks[task].stale <= 3
                case e.GateAnswered(gate=gate, approved=True, by=by):
                    who = self.state.gates[gate].who
                    assert not who or by in who
        revised = [event.instead_of for event in self.events if isinstance(event, e.PlanRevised) and event.instead_of]
        assert len(revised) == len(set(revised))

    def _approved(self, given: e.TaskDispatched, task: TaskState) -> None:
        """What a step with a gate gives out is what was approved last, by whom it was approved for."""
        step = self.state.step(task.step)
        if step.gate is None or task.index >= 0:
            return
        gate = self.state.gates[step.id]
        assert gate.approved
        assert (given.specialist, given.contract) in [(voice.specialist, voice.contract) for voice in gate.voices]
        if self.state.end or task.status != "dispatched" or task.attempt != given.attempt:
            return
        for message in self.scenario.tasks_in_flight():
            if message.task == given.task:
                asked = [{"key": item.key, "input": item.input} for item in message.items]
                assert all(one in gate.action for one in asked), (asked, gate.action)
