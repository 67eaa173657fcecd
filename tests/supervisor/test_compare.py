"""What a comparison finds in records that are not what is decided today, and what it leaves open."""

from typing import Any

import pytest
from msgspec.structs import replace

from blackboard.log import Message
from projections.history import unwritten
from schemas import events as e
from schemas.codec import chain_next, decode_event, decode_facts, encode, encode_facts, sha256
from supervisor import decide as deciding
from supervisor.compare import Divergence, Equal, NotDecidable, Verdict, compare
from supervisor.decide import KNOWN_RULES, RULES
from tests.supervisor.scenario import LOG, RUN, Said, ended, goal, offer, step, teach
from tests.supervisor.table import board_in_memory

TEAM = (offer("w", "work"), teach(step("a"), step("b", needs=["a"]), returns={"b": "facts.b"}))
INPUTS = (*TEAM, goal(), ended("a", {"a": 1}), ended("b", {"b": 2}))
THESE, NEXT = RULES, RULES + 1
KNOWN = ", ".join(map(str, sorted(KNOWN_RULES)))


async def recorded(*said: Said, rules: int | None = None) -> list[Message]:
    """The log after a supervisor decided about these, one after the other."""
    async with board_in_memory() as table:
        supervising = table.supervise(rules=rules)
        for one in said:
            (seq,) = await table.say(one)
            await supervising.reached(seq)
        return [message for message in await table.messages() if ".wake." not in message.subject]


def rewritten(messages: list[Message], change: Any, run: str = RUN) -> list[Message]:
    """The log had its supervisor written other events: `change` takes the list of all events of the run and returns
    another one; the chain is made anew, each message keeps its place, and one more takes what is too much."""
    mine = [message for message in messages if message.subject.endswith(f".fact.{run}")]
    events = [decode_event(memoryview(raw)) for message in mine for raw in decode_facts(message.data).events]
    h, first, data = unwritten(LOG, run).h, 1, dict[int, bytes]()
    changed: list[e.Event] = change(events)
    for message in mine:
        here = [event for event in changed if event.cause.seq < message.seq]
        changed = [event for event in changed if event.cause.seq >= message.seq]
        if here:
            stored = [encode(event) for event in here]
            data[message.seq] = encode_facts(LOG, run, first, h, stored)
            first += len(stored)
            for one in stored:
                h = chain_next(h, one)
    return [replace(one, data=data.get(one.seq, one.data)) for one in messages if one not in mine or one.seq in data]


def only(verdicts: dict[str, Verdict]) -> Verdict:
    (verdict,) = verdicts.values()
    return verdict


async def test_record_that_nobody_changed() -> None:
    verdict = only(compare(LOG, await recorded(*INPUTS)))
    assert isinstance(verdict, Equal)
    assert (verdict.run, verdict.version, verdict.rules, verdict.inputs, verdict.waiting) == (RUN, 11, (THESE,), 3, 0)


@pytest.mark.parametrize(
    ("field", "change"),
    [
        ("at", {"at": 1_000_001}),
        ("value", {"value": 3}),
        ("value", {"value": 1.0}),
        ("by", {"by": "v"}),
        ("cause.sha256", {"cause": e.Cause(5, "0" * 64)}),
    ],
)
async def test_field_that_differs(field: str, change: dict[str, Any]) -> None:
    """Also the time, the cause, and a number of another kind."""

    def other(events: list[e.Event]) -> list[e.Event]:
        place = next(place for place, one in enumerate(events) if isinstance(one, e.FactCommitted))
        return [*events[:place], replace(events[place], **change), *events[place + 1 :]]

    messages = await recorded(*INPUTS)
    verdict = only(compare(LOG, rewritten(messages, other)))
    assert isinstance(verdict, Divergence)
    assert (verdict.run, verdict.version) == (RUN, 6)
    assert [one.field for one in verdict.fields] == [field]


async def test_event_that_is_not_recorded() -> None:
    messages = rewritten(await recorded(*INPUTS), lambda events: events[:-1])
    verdict = only(compare(LOG, messages))
    assert isinstance(verdict, Divergence)
    assert (verdict.version, verdict.recorded) == (11, None)
    assert isinstance(verdict.decided, e.RunEnded)
    assert verdict.fields == []


async def test_event_that_is_not_decided() -> None:
    """The last input twice as far as the record says: what stands at its end has no cause in the rules."""

    def more(events: list[e.Event]) -> list[e.Event]:
        late = e.InputLate(at=events[-1].at, cause=events[-1].cause, author="w", reason="of no rule")
        return [*events, late]

    verdict = only(compare(LOG, rewritten(await recorded(*INPUTS), more)))
    assert isinstance(verdict, Divergence)
    assert (verdict.version, verdict.decided) == (12, None)
    assert isinstance(verdict.recorded, e.InputLate)


async def test_event_about_what_is_no_input() -> None:
    """It cites the message of a fact: no input, so nothing is decided about it."""

    def about_a_fact(events: list[e.Event]) -> list[e.Event]:
        return [*events[:4], replace(events[4], cause=e.Cause(4, sha256(b""))), *events[5:]]

    verdict = only(compare(LOG, rewritten(await recorded(*INPUTS), about_a_fact)))
    assert isinstance(verdict, Divergence)
    assert verdict.version == 5
    assert {one.field for one in verdict.fields} == {"cause.seq", "cause.sha256"}


async def test_run_without_the_inputs_that_it_cites() -> None:
    messages = await recorded(*INPUTS)
    verdict = only(compare(LOG, [one for one in messages if ".obs." not in one.subject]))
    assert isinstance(verdict, Divergence)
    assert (verdict.version, verdict.seq, verdict.decided) == (5, 5, None)


async def test_goal_that_would_be_rejected_today(monkeypatch: pytest.MonkeyPatch) -> None:
    """Both are found: the run that was opened, and the rejection that `_board` does not have. What follows in that run
    is not reported again."""
    messages = await recorded(*INPUTS)
    monkeypatch.setattr(deciding, "violation", lambda schema, value: "not today" if value == {} else "")
    assert set(compare(LOG, messages)) == {RUN}, "how far `_board` was decided is not known"
    verdicts = compare(LOG, messages, floor=messages[-1].seq)
    assert set(verdicts) == {RUN, "_board"}
    run, board = verdicts[RUN], verdicts["_board"]
    assert isinstance(run, Divergence)
    assert isinstance(board, Divergence)
    assert (run.version, run.decided, board.version, board.recorded) == (1, None, 1, None)


async def test_rejection_is_compared_too() -> None:
    messages = await recorded(*INPUTS, Said("goal", "me", b"{", "odd"), Said("obs", "w", b"[]", RUN))
    verdicts = compare(LOG, messages)
    assert {run: type(one) for run, one in verdicts.items()} == {RUN: Equal, "_board": Equal}
    verdicts = compare(
        LOG, rewritten(messages, lambda events: [replace(events[0], reason="dull"), *events[1:]], "_board")
    )
    assert isinstance(verdicts[RUN], Equal)
    assert isinstance(verdicts["_board"], Divergence)


async def test_rule_that_fails_today_is_a_finding_about_its_run(monkeypatch: pytest.MonkeyPatch) -> None:
    messages = await recorded(*INPUTS, goal(run="r2"))

    def fail(*_: Any) -> None:
        raise ZeroDivisionError("by nothing")

    monkeypatch.setattr(deciding, "succeeded", fail)
    verdicts = compare(LOG, messages)
    assert isinstance(verdicts["r2"], Equal)
    verdict = verdicts[RUN]
    assert isinstance(verdict, NotDecidable)
    assert (verdict.version, verdict.reason) == (5, "the input at sequence 5 raises ZeroDivisionError: by nothing")


async def test_record_that_was_changed_is_no_record() -> None:
    messages = await recorded(*INPUTS)
    changed = [
        one if ".obs." in one.subject else replace(one, data=one.data.replace(b":1}", b":7}")) for one in messages
    ]
    assert changed != messages
    assert isinstance(only(compare(LOG, changed)), NotDecidable)
    cut = [one for one in messages if one.seq != 6]
    verdict = only(compare(LOG, cut))
    assert isinstance(verdict, NotDecidable)
    assert verdict.version == 5
    assert verdict.reason == "not as written: missing; the next message begins at 9"


def _with_other_value(message: Message) -> Message:
    return replace(message, data=message.data.replace(b":1}", b":7}"))


async def test_message_that_cannot_be_read() -> None:
    messages = await recorded(*INPUTS)
    broken = [replace(one, data=b"{}") if one.seq == 6 else one for one in messages]
    verdict = only(compare(LOG, broken))
    assert isinstance(verdict, NotDecidable)
    assert (verdict.version, verdict.reason[:16]) == (5, "not as written: ")


async def test_inputs_that_no_supervisor_has_seen_yet() -> None:
    messages = await recorded(*INPUTS[:-1])
    head = messages[-1].seq
    more = [Message(head + 1, INPUTS[-1].subject, 1_000_000, INPUTS[-1].data)]
    verdict = only(compare(LOG, [*messages, *more]))
    assert isinstance(verdict, Equal)
    assert (verdict.version, verdict.waiting) == (8, 1)


# --- rules of several versions ----------------------------------------------------------------------------------------


async def test_run_by_newer_rules_alone() -> None:
    messages = await recorded(*INPUTS, rules=NEXT)
    verdict = only(compare(LOG, messages))
    assert verdict == NotDecidable(RUN, 1, f"rules {NEXT} decided it, and this release knows {KNOWN}")
    verdict = only(compare(LOG, messages, known={THESE, NEXT}))
    assert isinstance(verdict, Equal)
    assert verdict.rules == (NEXT,)


async def test_run_that_newer_rules_took_over() -> None:
    """Each input is decided by the rules that the record says decided it."""
    async with board_in_memory(*TEAM) as table:
        older = table.supervise(rules=THESE)
        await table.say(goal(), goal(run="r2"))
        await older.reached(4)
        await older.kill()
        newer = table.supervise(rules=NEXT)
        await table.say(*INPUTS[3:])
        await table.ended(RUN)
        await newer.kill()
        messages = await table.messages()
    verdicts = compare(LOG, messages, known={THESE, NEXT})
    assert {run: isinstance(one, Equal) and one.rules for run, one in verdicts.items()} == {
        RUN: (THESE, NEXT),
        "r2": (THESE,),
    }
    verdicts = compare(LOG, messages)
    assert isinstance(verdicts["r2"], Equal)
    assert verdicts[RUN] == NotDecidable(RUN, 5, f"rules {NEXT} decided it, and this release knows {KNOWN}")


async def test_later_release_decides_what_an_earlier_one_recorded(monkeypatch: pytest.MonkeyPatch) -> None:
    """What the version before decided is decided by that version again."""
    messages = await recorded(*INPUTS)
    monkeypatch.setattr(deciding, "RULES", NEXT)
    verdict = only(compare(LOG, messages, known={THESE, NEXT}))
    assert isinstance(verdict, Equal)
    assert verdict.rules == (THESE,)
