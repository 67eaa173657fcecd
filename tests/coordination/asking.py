"""Runs that ask a person, one of each kind, and what people may say to them."""

from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple

from projections.canonical import Gate
from schemas.codec import digest
from tests.supervisor.scenario import LOG, RUN, Said, Scenario, ended, failed, given, goal, offer, step, teach

WHO = "ann"
"""Who may answer, where the one who asks can say so."""
NUMBER = {"type": "integer"}
CONFIRMATION = {"ask": "may w call rm?", "action": {"tool": "rm", "arguments": {"path": "/srv/x"}}}
ASKS = {"ask": "how many?", "schema": NUMBER, "action": {"of": "x"}}


class Kind(NamedTuple):
    """A kind of request: how a run comes to it, the name of its gate, how it is answered."""

    name: str
    gate: str
    ask: Callable[[str], list[Said]]
    value: Any = None
    who: tuple[str, ...] = ()

    def scenario(self, *others: Said, run: str = RUN) -> Scenario:
        return given(*catalogue(), *self.ask(run), *others)

    def yes(self, cited: str, by: str = WHO, run: str = RUN, gate: str = "") -> Said:
        """The kind of answer that is asked for."""
        if self.value is None:
            return approve(cited, gate or self.gate, by, run)
        return answer(cited, gate or self.gate, self.value, by, run)

    def other(self, cited: str) -> Said:
        """The kind of answer that is not asked for."""
        return answer(cited, self.gate, 1) if self.value is None else approve(cited, self.gate)


def approve(cited: str, gate: str, by: str = WHO, run: str = RUN) -> Said:
    return Said("signal", by, {"type": "approve", "gate": gate, "digest": cited}, run)


def deny(cited: str, gate: str, by: str = WHO, reason: str = "", run: str = RUN) -> Said:
    return Said("signal", by, {"type": "deny", "gate": gate, "digest": cited, "reason": reason}, run)


def answer(cited: str, gate: str, value: Any, by: str = WHO, run: str = RUN) -> Said:
    return Said("signal", by, {"type": "answer", "gate": gate, "digest": cited, "value": value}, run)


def needs_input(task: str, question: Any, attempt: int = 1, by: str = "w", run: str = RUN, **fields: Any) -> Said:
    return failed(task, "NEEDS_INPUT", attempt, by, run=run, question=question, **fields)


def tool_called(task: str, call: int = 0, by: str = "w", run: str = RUN, **fields: Any) -> Said:
    """A call of a tool in vain; `call` is its number in its execution."""
    body = {
        "task": task,
        "attempt": 1,
        "execution": "x",
        "tool": "t",
        "input": "00",
        "code": "TOOL_DOWN",
        "call": call,
    } | fields
    return Said("obs", by, {"type": "tool_called", **body}, run)


def catalogue() -> list[Said]:
    return [
        offer("w", "work"),
        teach(
            step("a"), step("b", needs=["a"], input={"x": "facts.a"}, gate={"ask": "do it?", "who": [WHO]}), team="t"
        ),
        teach(
            step("a"),
            {
                "id": "b",
                "needs": ["a"],
                "input": {"x": "facts.a"},
                "question": {"ask": "n?", "answer": NUMBER, "who": [WHO]},
            },
            returns={"b": "facts.b"},
            team="q",
        ),
        teach(step("a", input={"x": "input.x"}), returns={"a": "facts.a"}, repeats=1, on_loop="ask", team="s"),
    ]


def _after_a(team: str) -> Callable[[str], list[Said]]:
    return lambda run: [goal(team=team, run=run), ended("a", {"a": 7}, run=run)]


def _in_the_middle(*said: Callable[[str], Said]) -> Callable[[str], list[Said]]:
    return lambda run: [goal(team="s", run=run), *(one(run) for one in said)]


def _in_vain(call: int, run: str) -> Said:
    return tool_called("a", call, run=run)


KINDS = (
    Kind("step with a gate", "b", _after_a("t"), who=(WHO,)),
    Kind("step that is a question", "b", _after_a("q"), value=3, who=(WHO,)),
    Kind("question of a specialist", "a.1", _in_the_middle(lambda run: needs_input("a", ASKS, run=run)), value=3),
    Kind("confirmation of a tool", "a.1", _in_the_middle(lambda run: needs_input("a", CONFIRMATION, run=run))),
    Kind("loop", "run.loop.1", _in_the_middle(*(partial(_in_vain, call) for call in (1, 2)))),
)
OF_THE_RUN = KINDS[:2]
OF_A_TASK = KINDS[2:4]


def signed(gate: Gate, name: str, run: str = RUN) -> str:
    """The digest of a request, as docs/protocol.md has it."""
    by = [[voice.specialist, voice.contract] for voice in gate.voices]
    said = {"action": gate.action, "ask": gate.ask, "by": by, "schema": gate.schema}
    return digest({"gate": name, "log": LOG, "run": run} | said)
