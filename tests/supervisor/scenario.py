"""Scenarios for the deciding core, without an event loop or a server: `given(inputs).when(input).then(events)`.

Every decision on the way is checked against what always holds: it can be repeated, it leaves the state alone, its
events survive being stored, and the run that they lead to can go on or has ended.
"""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import msgspec
from msgspec.structs import astuple

from projections.bookings import set_aside
from projections.canonical import State
from projections.evolve import evolve
from projections.history import Folded, state_digest, unwritten
from schemas import events as e
from schemas.catalogue import Catalogue
from schemas.codec import INPUT_EVENTS_LIMIT, STATE_LIMIT, canonical, chain_next, decode_event, encode
from schemas.contracts import Contract
from schemas.inputs import Input, TimerDue, read_input
from schemas.subjects import Address, Subjects
from schemas.tasks import Task, decode_task
from schemas.usage import COUNT_LIMIT, Amount, amount
from supervisor import effects
from supervisor.briefings import ContractAt
from supervisor.decide import Rejected, decide, decide_board

LOG, RUN = "log-1", "r1"
SUBJECTS = Subjects()


class Said(NamedTuple):
    """A message to be appended: `body` is bytes, something JSON-like, or a Struct."""

    family: str
    author: str
    body: Any
    run: str = RUN

    @property
    def data(self) -> bytes:
        if isinstance(self.body, bytes):
            return self.body
        return encode(self.body) if isinstance(self.body, msgspec.Struct) else json.dumps(self.body).encode()

    @property
    def subject(self) -> str:
        return self.subject_on(SUBJECTS)

    def subject_on(self, subjects: Subjects) -> str:
        """The subject on the board of `subjects`."""
        if self.family == "intent":
            return subjects.intent(self.author, self.run, self.body["key"], self.body["round"])
        middle = "" if self.family in {"wake", "fact"} else f".{self.author}"
        run = "" if self.family in {"contract", "playbook"} else f".{self.run}"
        return f"bb.{subjects.board}.{self.family}{middle}{run}"

    @property
    def address(self) -> Address:
        return SUBJECTS.parse(self.subject)


class Due(NamedTuple):
    """The wake of a timer as it is armed when the scenario comes to it, or as `armed` says."""

    timer: str
    armed: int | None = None
    run: str = RUN


def offer(specialist: str, *offers: str, **fields: Any) -> Said:
    """A contract; another attempt follows at once, unless `backoff_s` says otherwise."""
    return Said("contract", specialist, {"specialist": specialist, "offers": offers, "backoff_s": 0, **fields})


def step(name: str, capability: str = "work", **fields: Any) -> dict[str, Any]:
    doer = {} if "team" in fields else {"capability": capability}
    return {"id": name, **doer, **fields}


def teach(*steps: dict[str, Any], team: str = "t", **fields: Any) -> Said:
    return Said("playbook", team, {"team": team, "steps": steps, **fields})


def goal(input: dict[str, Any] | None = None, team: str = "t", by: str = "me", run: str = RUN, **fields: Any) -> Said:
    return Said("goal", by, {"team": team, "input": input or {}, **fields}, run)


def started(task: str, attempt: int = 1, by: str = "w", execution: str = "", run: str = RUN) -> Said:
    body = {"type": "started", "task": task, "attempt": attempt, "execution": execution or f"{task}/{attempt}"}
    return Said("obs", by, body, run)


def ended(
    task: str,
    claims: dict[str, Any] | None = None,
    attempt: int = 1,
    by: str = "w",
    run: str = RUN,
    **fields: Any,
) -> Said:
    """The end of an attempt with claims by key, or with `code`; `silences` by key are codes."""
    silences = [{"key": key, "code": code} for key, code in fields.pop("silences", {}).items()]
    confidence = fields.pop("confidence", None)
    body = {
        "type": "ended",
        "task": task,
        "attempt": attempt,
        "execution": f"{task}/{attempt}/{by}",
        "usage": {},
        "claims": [
            {"key": key, "value": value} | ({} if confidence is None else {"confidence": confidence})
            for key, value in (claims or {}).items()
        ],
        **({"silences": silences} if silences else {}),
        **fields,
    }
    return Said("obs", by, body, run)


def failed(task: str, code: str, attempt: int = 1, by: str = "w", **fields: Any) -> Said:
    return ended(task, None, attempt, by, code=code, **fields)


def cancel(by: str = "ann", reason: str = "", run: str = RUN) -> Said:
    return Said("signal", by, {"type": "cancel", "reason": reason}, run)


def came(capability: str, run: str = RUN) -> Said:
    return Said("wake", "", {"type": "capability_came", "capability": capability}, run)


def event(kind: str, **fields: Any) -> tuple[str, dict[str, Any]]:
    """What an event looks like: its type, and the fields that matter, as JSON has them."""
    return kind, fields


class Scenario:
    """A board whose inputs are decided one by one. `last` are the events of the last input, of all runs."""

    def __init__(self, *said: Said | Due) -> None:
        self.catalogue = Catalogue()
        self.folded: dict[str, Folded] = {}
        self.last: list[e.Event] = []
        self.seq, self.time_ms = 0, 1_000_000
        self.inputs: list[Input] = []
        for one in said:
            self.say(one)

    def say(self, *said: Said | Due) -> "Scenario":
        for one in said:
            self.last = self._take(one)
        return self

    when = say

    def then(self, *expected: tuple[str, dict[str, Any]]) -> "Scenario":
        """The last input brought exactly these events about, in this order; each as far as it is described."""
        have = [json.loads(encode(event)) for event in self.last]
        shown = [(event["type"], event) for event in have]
        assert [kind for kind, _ in shown] == [kind for kind, _ in expected], have
        for (_, found), (_, fields) in zip(shown, expected, strict=True):
            assert {name: found[name] for name in fields} == fields, found
        return self

    @property
    def state(self) -> State:
        return self.of(RUN)

    def of(self, run: str) -> State:
        return self._run(run).state

    def rejections(self) -> list[str]:
        """The reasons that the last input was rejected for."""
        return [event.reason for event in self.last if isinstance(event, e.InputRejected)]

    def later(self, ms: int) -> "Scenario":
        self.time_ms += ms
        return self

    def contract_at(self, seq: int) -> Contract | None:
        return self.catalogue.below(0).contract_at(seq)

    def tasks_in_flight(self, run: str = RUN) -> list[Task]:
        """The task messages that workers would get, in the order of the plan."""
        state = self.of(run)
        return [decode_task(entry.data) for entry in effects.entries(state, effects.in_flight(state), self.contract_at)]

    def wake(self, due: Due) -> Said:
        """What the supervisor appends when the timer is due."""
        armed = self.of(due.run).timers[due.timer].armed if due.armed is None else due.armed
        return Said("wake", "", TimerDue(timer=due.timer, armed=armed), due.run)

    def _run(self, run: str) -> Folded:
        return self.folded.get(run) or unwritten(LOG, run)

    def _take(self, said: Said | Due) -> list[e.Event]:
        if isinstance(said, Due):
            said = self.wake(said)
        self.seq += 1
        if said.family in {"contract", "playbook"}:
            problem = self.catalogue.add(self.seq, said.address, said.data)
            assert problem is None, problem
            return []
        cause = read_input(self.seq, said.subject, said.address, self.time_ms, said.data)
        self.inputs.append(cause)
        return self._decide(cause)

    def _decide(self, cause: Input) -> list[e.Event]:
        run, view = cause.address.run, self.catalogue.below(cause.seq)
        before = self.of(run)
        was = state_digest(before)
        decided = decide(before, cause, view)
        assert decided == decide(before, cause, view), "the same three give the same events"
        assert was == state_digest(before), "a decision leaves the state alone"
        if isinstance(decided, Rejected):
            run, before = "_board", self.of("_board")
            decided = decide_board(before, cause, view, decided.reason)
        self._store(run, before, decided, cause)
        return decided

    def _store(self, run: str, state: State, decided: list[e.Event], cause: Input) -> None:
        folded = self._run(run)
        h = folded.h
        for number, one in enumerate(decided, state.version + 1):
            stored = encode(one)
            assert decode_event(stored) == one, "what is stored is what was decided"
            assert (one.cause.seq, one.cause.sha256) == (cause.seq, cause.sha256)
            assert one.at >= state.now, "the time of a run never goes back"
            was = encode(state) if len(state.tasks) < 50 else b""
            after, h = evolve(state, decode_event(stored)), chain_next(h, stored)
            assert was in (b"", encode(state)), "an event leaves the state before it alone"
            state = after
            assert state.version == number
        if decided:
            self.folded[run] = Folded(state, h, cause.seq, 0)
            assert sum(len(encode(one)) for one in decided) <= INPUT_EVENTS_LIMIT + 2_048
            check_state(state, self.contract_at)


def check_state(state: State, contract_at: ContractAt = lambda _: None) -> None:
    """What holds of every stored state of a run, at every version that an input ends at."""
    assert len(canonical(state)) <= STATE_LIMIT + 2_048
    if state.end or not state.goal:
        assert not state.timers
        assert not effects.in_flight(state)
        return
    assert state.in_flight or state.timers, "an unfinished run waits for something"
    dispatched = {name for name, task in state.tasks.items() if task.status == "dispatched"}
    waiting = {} if state.ending else state.steps
    awaited = {f"await.{name}" for name, one in waiting.items() if one.awaiting and one.items < 0}
    asked = {f"gate.{name}" for name in state.open_gates}
    delayed = {name for name in state.timers if name.startswith("retry.")}
    deadline = {"run.deadline"} & set(state.timers)
    assert set(state.timers) == {f"task.{name}" for name in dispatched} | awaited | asked | delayed | deadline
    assert all(state.tasks[name.partition(".")[2]].status == "planned" for name in delayed)
    assert all(state.tasks[name].status == "planned" for name in state.ready)
    assert state.in_flight == len(dispatched) <= state.parallel
    for name, one in state.steps.items():
        tasks = [task for task in state.tasks.values() if task.step == name and task.index < 0]
        assert one.tasks == len(tasks)
        assert one.dispatched == sum(task.attempt > 0 or task.status == "ended" for task in tasks)
        assert one.ended == sum(task.status == "ended" for task in tasks)
        versions = [old.step for fact in state.facts.values() for old in (*fact.previous, fact)]
        missing = [by for gone in state.missing.values() for by in (*gone.before, gone.step)]
        assert one.settled == [*versions, *missing].count(name)
    check_budget(state)
    some = set(sorted(effects.in_flight(state))[:20])
    for entry in effects.entries(state, some, contract_at):
        assert len(entry.data) < 512 * 1024
    assert all(len(child.data) <= 256 * 1024 for child in effects.child_goals(state))


def check_budget(state: State) -> None:
    """Nothing is charged or reserved beyond the budget, and all that was reported is booked."""
    for name in ("tokens", "tool_calls", "micro_usd"):
        limit = getattr(state.budget, name)
        charged, reserved = getattr(state.charged, name), getattr(state.reserved, name)
        assert min(charged, reserved) >= 0
        assert limit is None or charged + reserved <= limit
    if max(astuple(state.usage)) < COUNT_LIMIT:
        assert amount(state.usage) == state.charged + state.overrun
    opened = [one.limits for task in state.tasks.values() for one in task.open]
    assert sum((set_aside(state.budget, limits) for limits in opened), Amount()) == state.reserved


def given(*said: Said | Due) -> Scenario:
    return Scenario(*said)


def task_ends(scenario: Scenario) -> Iterator[str]:
    """The tasks in flight, as they stand."""
    yield from sorted(name for name, task in scenario.state.tasks.items() if task.status == "dispatched")


def run_with(*said: Said | Due, **playbook: Any) -> Scenario:
    """A run of the usual team: `w` offers `work`, one step `a`, its fact `a`, in flight."""
    steps = playbook.pop("steps", [step("a")])
    return given(offer("w", "work"), teach(*steps, **playbook), goal(), *said)
