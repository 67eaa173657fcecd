"""Playing scenarios, and what came of it: measured from the log alone, simulated and live alike."""

import asyncio
import math
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from typing import Any

from blackboard.log import Message
from blackboard.testing import Faults, Person, Published, Simulation, SimulationFailed
from schemas import events as e
from schemas.codec import decode_event, decode_facts, digest
from schemas.expressions import evaluate, truth
from schemas.inputs import Ended, ToolCalled, read_input
from schemas.subjects import Subjects
from schemas.usage import Usage
from specialists.budget import usd_text
from specialists.recording import RECORDING, rewind
from specialists.scenarios import Expect, Limits, Scenario
from specialists.scripted_models import scripted
from specialists.specialist import Team

RUN = "scenario"
REFUSED = {"POLICY_BLOCKED", "BUDGET_EXCEEDED"}
"""Codes of calls of tools that were not made."""


@dataclass
class Played:
    """One playing, as its log tells it. `place` says which: a seed, or a live run. `problems` is what was expected
    otherwise."""

    place: str
    end: str = ""
    code: str = ""
    reason: str = ""
    result: dict[str, Any] | None = None
    facts: dict[str, Any] = field(default_factory=dict)
    latency_s: float = 0.0
    usage: Usage = field(default_factory=Usage)
    routed: set[str] = field(default_factory=set)
    attempts: int = 0
    retries: int = 0
    called: list[str] = field(default_factory=list)
    refused: int = 0
    tool_errors: int = 0
    problems: list[str] = field(default_factory=list)

    @property
    def outcome(self) -> str:
        return digest([self.end, self.code, self.result, self.facts])


@dataclass
class Verdict:
    """A scenario, all of its playings, and what is beyond its limits."""

    scenario: Scenario
    played: list[Played]
    problems: list[str] = field(default_factory=list)

    @property
    def passed(self) -> bool:
        return not self.problems

    def latency_s(self, share: float) -> float:
        """The latency that so many of the runs have at most."""
        ordered = sorted(one.latency_s for one in self.played)
        return ordered[max(math.ceil(share * len(ordered)) - 1, 0)] if ordered else 0.0

    @property
    def tokens(self) -> int:
        """The most that one run has used."""
        return max((one.usage.input_tokens + one.usage.output_tokens for one in self.played), default=0)

    @property
    def micro_usd(self) -> int:
        return max((one.usage.micro_usd for one in self.played), default=0)

    @property
    def retry_rate(self) -> float:
        return _share(sum(one.retries for one in self.played), sum(one.attempts for one in self.played))

    @property
    def tool_error_rate(self) -> float:
        return _share(sum(one.tool_errors for one in self.played), sum(len(one.called) for one in self.played))


def play(team: Team, scenario: Scenario, live: bool, told: Callable[[], None] = lambda: None) -> Verdict:
    """Simulate a scenario in all its seeds, or play it `live`, with the models that are configured. `told` is called
    after each playing."""
    played: list[Played] = []
    with nullcontext() if live else _models(scenario):
        for one in _lived(team, scenario) if live else _simulated(team, scenario):
            one.problems += list(_broken(scenario.expect, one)) if one.end else []
            played.append(one)
            told()
    verdict = Verdict(scenario, played)
    verdict.problems += [f"{one.place}: {problem}" for one in played for problem in one.problems]
    if scenario.expect.stable and not live and (other := _unstable(played)):
        verdict.problems.append(other)
    verdict.problems += _beyond(scenario.limits, verdict)
    return verdict


def _simulated(team: Team, scenario: Scenario) -> Iterator[Played]:
    faults = Faults().times(scenario.faults) if scenario.faults else Faults.none()
    world = _world(team, scenario, faults)
    for seed in range(scenario.seeds):
        rewind()
        try:
            report = world.seeded(seed).run(shrink=False)
        except SimulationFailed as failure:
            yield Played(f"seed {seed}", problems=[f"{failure.invariant}: {failure.problem}"])
        else:
            yield measured(f"seed {seed}", report.messages)


def _lived(team: Team, scenario: Scenario) -> Iterator[Played]:
    world = _world(team, scenario, Faults.none())
    for number in range(1, scenario.runs + 1):
        try:
            yield measured(f"run {number}", asyncio.run(world.live()))
        except TimeoutError:
            yield Played(f"run {number}", problems=["it has not ended within 600 s"])


def _world(team: Team, scenario: Scenario, faults: Faults) -> Simulation:
    goal = Published(team.name, scenario.input, RUN, budget=scenario.budget)
    person = Person("eval", scenario.people, value=scenario.answer)
    return Simulation([team], goals=[goal], people=[person], faults=faults)


@contextmanager
def _models(scenario: Scenario) -> Iterator[None]:
    if scenario.recording is None:
        with scripted(scenario.models):
            yield
        return
    before = os.environ.get(RECORDING)
    os.environ[RECORDING] = scenario.recording
    try:
        yield
    finally:
        if before is None:
            del os.environ[RECORDING]
        else:
            os.environ[RECORDING] = before


# --- measuring --------------------------------------------------------------------------------------------------------


def measured(place: str, messages: Sequence[Message]) -> Played:
    """What a log tells of the run of a scenario and of its child runs."""
    played, subjects, seen = Played(place), Subjects(), set[tuple[str, ...]]()
    opened_ms = 0
    for message in messages:
        address = subjects.address(message.subject)
        if address is None:
            continue
        if address.family == "fact" and not address.run.startswith("_"):
            for raw in decode_facts(message.data).events:
                event = decode_event(memoryview(raw))
                if isinstance(event, e.RunOpened) and address.run == RUN:
                    opened_ms = event.at
                _add_event(played, event, address.run == RUN, opened_ms)
        elif address.family == "obs":
            body = read_input(message.seq, message.subject, address, message.time_ms, message.data).body
            _add_observation(played, address.author, body, seen)
    return played


def _add_event(played: Played, event: e.Event, own: bool, opened_ms: int) -> None:
    match event:
        case e.TaskDispatched(specialist=specialist, attempt=attempt):
            played.routed.add(specialist)
            played.attempts += 1
            played.retries += attempt > 1
        case e.FactCommitted(key=key, value=value) if own:
            played.facts[key] = value
        case e.RunEnded() if own:
            played.end, played.code, played.reason, played.result = event.end, event.code, event.reason, event.result
            played.latency_s = (event.at - opened_ms) / 1000


def _add_observation(played: Played, author: str, body: Any, seen: set[tuple[str, ...]]) -> None:
    """Each end and each call once, however often it was told of."""
    if isinstance(body, Ended) and _new(seen, author, body.task, body.execution):
        played.usage += body.usage
    if isinstance(body, ToolCalled) and _new(seen, author, body.task, body.execution, str(body.call)):
        if body.code in REFUSED:
            played.refused += 1
        else:
            played.called.append(body.tool)
            played.tool_errors += bool(body.code)


def _new(seen: set[tuple[str, ...]], *name: str) -> bool:
    count = len(seen)
    seen.add(name)
    return len(seen) > count


# --- judging ----------------------------------------------------------------------------------------------------------


def _broken(expect: Expect, played: Played) -> Iterator[str]:
    if (played.end, played.code) != (expect.end, expect.code or played.code):
        wanted = f"{expect.end} {expect.code}".strip()
        yield f"ended {played.end} {played.code}".strip() + f", not {wanted}: {played.reason}"
    yield from (f"gave no task to {name}" for name in expect.routed_to if name not in played.routed)
    yield from (f"gave a task to {name}" for name in expect.not_routed_to if name in played.routed)
    yield from (f"never called {name}" for name in expect.called if name not in played.called)
    yield from (f"called {name}" for name in expect.never_called if name in played.called)
    for key, value in expect.facts.items():
        if key not in played.facts or played.facts[key] != value:
            yield f"{key} is {played.facts.get(key, 'missing')!r}, not {value!r}"
    if expect.result is not None and played.result != expect.result:
        yield f"the result is {played.result!r}, not {expect.result!r}"
    yield from _untrue(expect, played)
    yield from _over_budget(expect, played)


def _untrue(expect: Expect, played: Played) -> Iterator[str]:
    usage = {name: getattr(played.usage, name) for name in Usage.__struct_fields__}
    document = {"end": played.end, "code": played.code, "result": played.result, "usage": usage, "facts": played.facts}
    for expression in expect.true:
        if not truth(evaluate(expression, document)):
            yield f"not true: {expression}"


def _over_budget(expect: Expect, played: Played) -> Iterator[str]:
    used, limits = played.usage, expect.budget
    tokens = used.input_tokens + used.output_tokens
    sums = (("tokens", tokens, limits.tokens), ("tool calls", used.tool_calls, limits.tool_calls))
    for what, count, limit in (*sums, ("millionths of a dollar", used.micro_usd, limits.micro_usd)):
        if limit is not None and count > limit:
            yield f"used {count} {what}, over {limit}"


def _unstable(played: Sequence[Played]) -> str:
    ended = [one for one in played if one.end]
    other = next((one for one in ended if one.outcome != ended[0].outcome), None)
    if other is None:
        return ""
    for what in ("end", "code", "result", "facts"):
        mine, theirs = getattr(ended[0], what), getattr(other, what)
        if mine != theirs:
            return f"not stable: {what} is {mine!r} in {ended[0].place}, {theirs!r} in {other.place}"[:400]
    return ""


def _beyond(limits: Limits, verdict: Verdict) -> list[str]:
    measures = (
        ("p50 of the latency", verdict.latency_s(0.5), limits.p50_s, "s"),
        ("p95 of the latency", verdict.latency_s(0.95), limits.p95_s, "s"),
        ("tokens of a run", verdict.tokens, limits.tokens, ""),
        ("share of attempts after the first", verdict.retry_rate, limits.retry_rate, ""),
        ("share of failed calls of tools", verdict.tool_error_rate, limits.tool_error_rate, ""),
    )
    found = [
        f"{what}: {value:.6g} {unit}".rstrip() + f", over {limit:g}"
        for what, value, limit, unit in measures
        if limit is not None and value > limit
    ]
    if limits.usd is not None and verdict.micro_usd > limits.usd * 1_000_000:
        found.append(f"cost of a run: {usd_text(verdict.micro_usd)}, over {limits.usd:g} USD")
    return found


def _share(part: int, whole: int) -> float:
    return part / whole if whole else 0.0
