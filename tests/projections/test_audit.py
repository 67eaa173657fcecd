"""Each way in which a history can be wrong is found, at the event where it is wrong, and named."""

from collections.abc import Callable, Sequence
from typing import Any

import orjson
import pytest
from msgspec.structs import replace

from blackboard.board import Board
from blackboard.log import Message
from projections.audit import Audited, Cited, Ledger, Violation, audit, cited
from projections.canonical import State
from projections.history import BrokenHistory
from schemas.codec import chain_next, chain_start, decode_facts, encode_facts, sha256
from schemas.events import Cause, RunOpened, TaskEnded
from schemas.subjects import Subjects
from schemas.usage import Amount, Limits, Usage
from tests.projections.coordination import SPECIALISTS, TEAMS
from tests.projections.scripted import at_work
from tests.projections.world import ended, finished_board, memory_board, messages_of

Events = dict[int, dict[str, Any]]
OPENED: dict[str, Any] = {"rules": 1, "publisher": "me", "team": "t", "playbook": 1, "input": {}}


class History:
    """The messages of one run, to be spoilt."""

    def __init__(self, board: Board, messages: Sequence[Message]) -> None:
        self.log, self.run, self.subjects = board.log.id, "one", board.subjects
        self.facts = [m for m in messages if m.subject == board.subjects.fact("one")]
        self.inputs = {m.seq: cited(m) for m in messages if m.subject not in {f.subject for f in self.facts}}

    def verdict(self) -> Audited | Violation:
        return audit(self.log, self.run, self.subjects, self.facts, self.inputs.get)

    def reseal(self, change: Callable[[Events], object]) -> None:
        """Change events, numbered from 1, and write a chain that fits, as a forger would who can also compute."""
        events: Events = {}
        for message in self.facts:
            for raw in decode_facts(message.data).events:
                events[len(events) + 1] = orjson.loads(bytes(raw))
        change(events)
        h, sealed = chain_start(self.log, self.run), []
        for message in self.facts:
            first, count = decode_facts(message.data).first, len(decode_facts(message.data).events)
            stored = [orjson.dumps(events[first + number]) for number in range(count)]
            sealed.append(replace(message, data=encode_facts(self.log, self.run, first, h, stored), headers=None))
            for data in stored:
                h = chain_next(h, data)
        self.facts = sealed

    def version_of(self, kind: str) -> int:
        events = [orjson.loads(bytes(raw)) for m in self.facts for raw in decode_facts(m.data).events]
        return next(number for number, event in enumerate(events, 1) if event["type"] == kind)


@pytest.fixture
async def history() -> History:
    board = await finished_board("one", "two")
    return History(board, await messages_of(board))


@pytest.fixture
async def budgeted() -> History:
    """Of a run that may use 120 tokens: its one task reserves 100 and uses 150."""
    board = memory_board()
    async with at_work(board, SPECIALISTS, TEAMS) as client:
        await client.publish("eaten", {}, "one")
        await ended(board, "one")
    return History(board, await messages_of(board))


def test_history_of_a_supervisor_is_sound(history: History) -> None:
    verdict = history.verdict()
    assert isinstance(verdict, Audited)
    assert verdict.version == sum(len(decode_facts(m.data).events) for m in history.facts)
    assert verdict.inputs == 1 + 10, "the goal and the end of each task"
    assert verdict.states >= 1


def violation(history: History) -> Violation:
    verdict = history.verdict()
    assert isinstance(verdict, Violation), verdict
    assert verdict.run == "one"
    assert f"event {verdict.version}" in str(verdict)
    assert f"sequence {verdict.seq}" in str(verdict)
    return verdict


def test_first_message_lost(history: History) -> None:
    second = history.facts[1]
    del history.facts[0]
    found = violation(history)
    assert (found.version, found.seq) == (1, second.seq)
    assert "missing; the next message begins at" in found.problem


def test_message_twice(history: History) -> None:
    history.facts.insert(1, replace(history.facts[0], seq=history.facts[0].seq + 1))
    assert violation(history).version == len(decode_facts(history.facts[0].data).events) + 1


def test_author_that_the_subject_of_the_input_does_not_name(history: History) -> None:
    """It needs no broken chain."""
    first = history.facts[0]
    history.facts[0] = replace(first, data=first.data.replace(b'"publisher":"me"', b'"publisher":"mE"'))
    found = violation(history)
    assert (found.version, found.seq) == (1, first.seq)
    assert "says that mE said it" in found.problem
    assert f"sequence {found.cause} was said by me" in found.problem


def test_bytes_of_an_event_changed(history: History) -> None:
    first = history.facts[0]
    history.facts[0] = replace(first, data=first.data.replace(b'"team":"survey"', b'"team":"surveY"', 1))
    assert history.facts[0] != first
    found = violation(history)
    assert found.version == decode_facts(history.facts[1].data).first
    assert "chain" in found.problem


def test_bytes_of_the_last_message_changed(history: History) -> None:
    last = history.facts[-1]
    assert b'"total":3' in last.data
    history.facts[-1] = replace(last, data=last.data.replace(b'"total":3', b'"total":4'))
    assert "held another state" in violation(history).problem


def test_state_header_changed(history: History) -> None:
    history.facts[-1] = replace(history.facts[-1], headers={"state": "0" * 64})
    found = violation(history)
    assert (found.version, found.seq) == (history_end(history), history.facts[-1].seq)


def history_end(history: History) -> int:
    return sum(len(decode_facts(message.data).events) for message in history.facts)


def test_chain_cut(history: History) -> None:
    last = history.facts[-1]
    facts = decode_facts(last.data)
    stored = [bytes(raw) for raw in facts.events]
    history.facts[-1] = replace(last, data=encode_facts(facts.log, facts.run, facts.first, "0" * 64, stored))
    assert (violation(history).version, violation(history).seq) == (facts.first, last.seq)


@pytest.mark.parametrize(("log", "run"), [("another", "one"), (None, "two")])
def test_message_of_another_history(history: History, log: str | None, run: str) -> None:
    last = history.facts[-1]
    facts = decode_facts(last.data)
    stored = [bytes(raw) for raw in facts.events]
    forged = encode_facts(log or facts.log, run, facts.first, facts.prev, stored)
    history.facts[-1] = replace(last, data=forged)
    assert "belongs to run" in violation(history).problem


def test_no_fact_message(history: History) -> None:
    history.facts[-1] = replace(history.facts[-1], data=b"{}")
    assert "not a fact message" in violation(history).problem


def test_cause_falls(history: History) -> None:
    end = history.version_of("run_ended")
    history.reseal(lambda events: events[end]["cause"].update(seq=events[1]["cause"]["seq"]))
    assert (violation(history).version, "out of order" in violation(history).problem) == (end, True)


def test_cause_comes_after_the_message(history: History) -> None:
    end = history.version_of("run_ended")
    history.reseal(lambda events: events[end]["cause"].update(seq=history.facts[-1].seq))
    assert violation(history).version == end


def test_cited_input_lost(history: History) -> None:
    fact = history.version_of("task_ended")
    lost = orjson.loads(bytes(decode_facts(history.facts[1].data).events[0]))["cause"]["seq"]
    del history.inputs[lost]
    found = violation(history)
    assert found.version == fact
    assert f"sequence {lost}, where the log has no message" in found.problem


def test_cited_input_changed(history: History) -> None:
    goal = min(seq for seq, there in history.inputs.items() if ".goal." in there.subject)
    history.inputs[goal] = Cited(history.inputs[goal].subject, sha256(b"another goal"))
    found = violation(history)
    assert found.version == 1
    assert "another digest" in found.problem


def test_cited_digest_changed(history: History) -> None:
    history.reseal(lambda events: events[2]["cause"].update(sha256="0" * 64))
    assert isinstance(history.verdict(), Audited), "one look at each input is enough"
    history.reseal(lambda events: events[1]["cause"].update(sha256="0" * 64))
    assert violation(history).version == 1


@pytest.mark.parametrize("subject", ["bb.main.goal.me.two", "bb.main.contract.alice", "bb.main.fact.one", "other"])
def test_cited_message_is_no_input_of_the_run(history: History, subject: str) -> None:
    goal = min(seq for seq, there in history.inputs.items() if ".goal." in there.subject)
    history.inputs[goal] = Cited(subject, history.inputs[goal].sha256)
    assert "no input of this run" in violation(history).problem


def test_violation_before_a_later_one_in_the_same_message(history: History) -> None:
    """A cause that is wrong is named before an event further on that cannot be read."""
    history.facts = history.facts[:1]
    last = history_end(history)
    history.reseal(lambda events: (events[1]["cause"].update(sha256="0" * 64), events[last].update(type="nonsense")))
    assert violation(history).version == 1


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"type": "nonsense"}, "unknown event type 'nonsense'"),
        ({"v": 99}, "version 99, this release knows up to 2"),
        ({"task": "nobody"}, "speaks of what the run does not have"),
        ({"claims": 1}, "claims"),
    ],
    ids=["type", "version", "task", "form"],
)
def test_event_that_cannot_be_folded(history: History, change: dict[str, Any], problem: str) -> None:
    version = history.version_of("task_ended")
    history.reseal(lambda events: events[version].update(change))
    found = violation(history)
    assert found.version == version
    assert problem in found.problem


# --- the budget of a run ----------------------------------------------------------------------------------------------


def test_budget_that_is_kept(budgeted: History) -> None:
    verdict = budgeted.verdict()
    assert isinstance(verdict, Audited)
    assert verdict.version == history_end(budgeted)


def test_more_is_reserved_than_the_run_has(budgeted: History) -> None:
    version = budgeted.version_of("task_dispatched")
    budgeted.reseal(lambda events: events[version].update(reserve={"tokens": 121}))
    found = violation(budgeted)
    assert found.version == version
    assert found.problem == "the budget is not kept: tokens: 0 charged and 121 reserved, the limit is 120"


def test_more_is_charged_than_the_run_has(budgeted: History) -> None:
    plan = budgeted.version_of("plan_committed")
    budgeted.reseal(lambda events: events[plan].update(budget={"tokens": 99}))
    assert violation(budgeted).version == budgeted.version_of("task_dispatched")
    assert "0 charged and 100 reserved, the limit is 99" in violation(budgeted).problem


@pytest.mark.parametrize(
    ("booked", "problem"),
    [
        ({"charged": Amount(tokens=10)}, "tokens: 11 reported, 10 charged, 0 overrun, 0 reserved"),
        ({"charged": Amount(tokens=10), "overrun": Amount(tokens=2)}, "11 reported, 10 charged, 2 overrun"),
        ({"charged": Amount(11, tool_calls=1)}, "tool_calls: 0 reported, 1 charged"),
        ({"charged": Amount(11), "reserved": Amount(micro_usd=-1)}, "micro_usd: 0 reported"),
        ({"charged": Amount(11), "budget": Limits(tokens=10)}, "tokens: 11 charged and 0 reserved, the limit is 10"),
        ({"charged": Amount(10), "overrun": Amount(1), "budget": Limits(tokens=10)}, ""),
    ],
)
def test_all_that_was_reported_is_booked(booked: dict[str, Any], problem: str) -> None:
    cause, used = Cause(1, sha256(b"")), Usage(input_tokens=6, output_tokens=5)
    end = TaskEnded(at=1, cause=cause, task="t", attempt=1, specialist="w", execution="x", usage=used)
    ledger = Ledger()
    ledger.see(State("log", "run", version=1), RunOpened(at=1, cause=cause, **OPENED))
    if not problem:
        ledger.see(State("log", "run", version=2, **booked), end)
        return
    with pytest.raises(BrokenHistory, match="event 2: the budget is not kept: ") as raised:
        ledger.see(State("log", "run", version=2, **booked), end)
    assert problem in raised.value.problem


def test_board_may_cite_anything() -> None:
    subjects = Subjects("main")
    event = orjson.dumps(
        {
            "type": "input_rejected",
            "at": 1,
            "cause": {"seq": 1, "sha256": sha256(b"x")},
            "author": "a",
            "subject": "bb.main.contract.a",
            "reason": "not JSON",
        }
    )
    data = encode_facts("log", "_board", 1, chain_start("log", "_board"), [event])
    message = Message(2, subjects.fact("_board"), 1, data)
    found = audit("log", "_board", subjects, [message], {1: Cited("bb.main.contract.a", sha256(b"x"))}.get)
    assert isinstance(found, Audited)
