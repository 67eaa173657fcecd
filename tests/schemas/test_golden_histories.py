"""Histories that earlier releases wrote are read as they were meant: each rebuilds to its recorded digests.

A folder holds `run.facts`, a line for each fact message, its sequence before it, and `digests.json`. Neither may ever
be changed; a new version of an event brings a folder of its own.
"""

import json
from pathlib import Path

import pytest

from projections.history import BrokenHistory, Folded, decoded, fold, outcome_digest, state_digest, unwritten
from schemas.codec import NotAFactMessage, UnknownEvent, decode_facts, facts_of
from schemas.usage import Usage

HISTORIES = sorted(path.parent for path in (Path(__file__).parents[1] / "histories").glob("*/run.facts"))


def stored(folder: Path) -> list[tuple[int, bytes]]:
    rows = (line.split(b" ", 1) for line in (folder / "run.facts").read_bytes().splitlines())
    return [(int(seq), data) for seq, data in rows]


def rebuilt(messages: list[tuple[int, bytes]]) -> Folded:
    folded = unwritten("log-1", "r1")
    for seq, data in messages:
        folded = fold(folded, decode_facts(data), seq)
    return folded


def test_there_are_histories() -> None:
    assert [folder.name for folder in HISTORIES] == ["golden-v1"]


@pytest.mark.parametrize("folder", HISTORIES, ids=lambda folder: folder.name)
def test_history_rebuilds_to_its_digests(folder: Path) -> None:
    folded = rebuilt(stored(folder))
    assert json.loads((folder / "digests.json").read_text()) == {
        "events": folded.state.version,
        "head": folded.h,
        "state": state_digest(folded.state),
        "outcome": outcome_digest(folded.state),
    }


def test_first_version_counted_tokens_as_one_number() -> None:
    folder = HISTORIES[0]
    assert b'"tokens":7' in (folder / "run.facts").read_bytes()
    state = rebuilt(stored(folder)).state
    assert (state.end, state.usage) == ("DEGRADED", Usage(input_tokens=26))
    assert all(b'"v":2' not in data for _, data in stored(folder))


def test_history_at_every_version_is_the_same_however_it_is_cut_into_messages() -> None:
    messages = stored(HISTORIES[0])
    folded = unwritten("log-1", "r1")
    for seq, data in messages:
        message = decode_facts(data)
        for upto in range(message.first, message.first + len(message.events)):
            part = fold(folded, message, seq, upto)
            assert part.state.version == upto
        folded = fold(folded, message, seq)


def broken(messages: list[tuple[int, bytes]]) -> BrokenHistory:
    with pytest.raises(BrokenHistory) as failure:
        rebuilt(messages)
    return failure.value


@pytest.mark.parametrize("dropped", [0, 1, 2])
def test_message_that_is_missing_is_named_by_its_first_event(dropped: int) -> None:
    messages = stored(HISTORIES[0])
    failure = broken(messages[:dropped] + messages[dropped + 1 :])
    assert failure.version == decode_facts(messages[dropped][1]).first
    assert "missing" in failure.problem


def test_message_that_stands_twice() -> None:
    messages = stored(HISTORIES[0])
    assert broken([*messages[:2], messages[1]]).version == 15


def test_changed_byte_breaks_the_chain_at_the_next_message() -> None:
    messages = stored(HISTORIES[0])
    seq, data = messages[0]
    changed = data.replace(b'"x":"item"', b'"x":"Item"')
    assert changed != data
    failure = broken([(seq, changed), *messages[1:]])
    assert (failure.version, failure.problem) == (10, "the chain does not continue what is stored before it")


@pytest.mark.parametrize(("mark", "other"), [(b'"run":"r1"', b'"run":"r2"'), (b'"log":"log-1"', b'"log":"log-2"')])
def test_message_of_another_run_or_log(mark: bytes, other: bytes) -> None:
    (seq, data), *_ = stored(HISTORIES[0])
    foreign = data.replace(mark, other, 1)
    with pytest.raises(NotAFactMessage, match="it belongs to run"):
        facts_of(foreign, "log-1", "r1")
    assert "belongs to another run or log" in broken([(seq, foreign)]).problem, "and who folds it all the same stops"


def test_causes_rise_lie_below_their_message_and_are_not_split() -> None:
    (first, data), (second, more), *_ = stored(HISTORIES[0])
    assert "out of order" in broken([(5, data)]).problem  # the goal itself stands at 5
    last = [event.cause.seq for _, event in decoded(decode_facts(data))][-1]
    split = more.replace(b'"seq":8,', f'"seq":{last},'.encode())
    failure = broken([(first, data), (second, split)])
    assert (failure.version, failure.problem) == (10, f"caused by sequence {last}, out of order")


def test_event_about_a_task_that_the_run_does_not_have() -> None:
    (seq, data), *_ = stored(HISTORIES[0])
    assert broken([(seq, data.replace(b'"task":"each-2"', b'"task":"each-9"'))]).problem == (
        "speaks of what the run does not have"
    )


def test_event_of_a_newer_release_is_named() -> None:
    (seq, data), *_ = stored(HISTORIES[0])
    with pytest.raises(UnknownEvent, match="unknown event type 'task_teleported'; a newer release may know it"):
        rebuilt([(seq, data.replace(b'"type":"task_started"', b'"type":"task_teleported"'))])
