"""Recorded histories are decided today as they were; what is decided otherwise is found, with both versions."""

import json
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from msgspec.structs import replace

from blackboard.history_file import BadHistoryFile, HistoryFile
from blackboard.log import Message
from schemas import events as e
from schemas.codec import chain_next, decode_event, decode_facts, encode_facts
from schemas.event_kinds import EVENT_VERSIONS
from schemas.steps import Merge
from schemas.subjects import BOARD_RUN, Subjects
from supervisor import merge
from supervisor.cli import replay
from supervisor.compare import Comparison, Divergence, Equal, Verdict, compare
from supervisor.merge import Merged
from tests.histories.record import TOPOLOGIES, path_of

FILES = sorted(Path(path_of("x")).parent.glob("*.jsonl"))
RUNS, BYTES = 50, 1_500_000


def messages_in(path: Path) -> list[Message]:
    return list(HistoryFile(path))


def verdicts_on(path: Path) -> dict[str, Verdict]:
    file = HistoryFile(path)
    return compare(file.header.log, list(file), board=file.header.board)


def events_in(messages: Sequence[Message]) -> list[e.Event]:
    facts = [decode_facts(message.data) for message in messages if ".fact." in message.subject]
    return [decode_event(memoryview(raw)) for message in facts for raw in message.events]


def call(*words: str) -> tuple[int, str, str]:
    result = CliRunner().invoke(replay, words)
    assert not result.exception or isinstance(result.exception, SystemExit), result.exception
    return result.exit_code, result.stdout, result.stderr


# --- recorded histories -----------------------------------------------------------------------------------------------


def test_each_topology_is_recorded() -> None:
    assert [path.stem for path in FILES] == sorted(TOPOLOGIES)
    assert sum(path.stat().st_size for path in FILES) < BYTES


def test_all_kinds_of_events_and_ends_are_recorded() -> None:
    events = [event for path in FILES for event in events_in(messages_in(path))]
    kinds = Counter(event.__struct_config__.tag for event in events)
    assert set(kinds) == set(EVENT_VERSIONS) - {"rules_changed"}
    ends = Counter(event.end for event in events if isinstance(event, e.RunEnded))
    assert set(ends) == {"DONE", "DEGRADED", "FAILED", "FAILED_RETRYABLE", "POLICY_BLOCKED", "CANCELLED"}


def test_over_fifty_recorded_runs_are_decided_as_they_were() -> None:
    runs = events = 0
    for path in FILES:
        for verdict in verdicts_on(path).values():
            assert isinstance(verdict, Equal), (path.name, verdict)
            assert verdict.waiting == 0
            events += verdict.version
            runs += verdict.run != BOARD_RUN
    print(f"{runs} recorded runs decided again: {events} events equal")
    assert runs >= RUNS


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_command_says_so_file_by_file(path: Path) -> None:
    code, out, err = call(str(path), "--json")
    records = [json.loads(line) for line in out.splitlines()]
    assert (code, {record["equal"] for record in records}) == (0, {True}), out
    assert f"{len(records)} runs decided again: {len(records)} equal, 0 not" in err


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_floors_let_verdicts_come_early_and_runs_be_forgotten(path: Path) -> None:
    """With where each run ends known, a finished run is not kept until the log ends."""
    file, subjects = HistoryFile(path), Subjects()
    last = {subjects.parse(one.subject).run: one.seq for one in file if "." in one.subject}
    comparison = Comparison(file.header.log, subjects, last=last)
    early: list[Verdict] = []
    for message in file:
        floor = int((message.headers or {}).get("floor", 0))
        early += comparison.add([message], floor)
    late = list(comparison.finish())
    assert all(isinstance(verdict, Equal) for verdict in early + late), early + late
    assert {verdict.run for verdict in early + late} == set(verdicts_on(path))
    assert early


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_one_run_alone(path: Path) -> None:
    """Decided from its own messages and the catalogue, whatever else is on the log."""
    file, subjects, whole = HistoryFile(path), Subjects(), verdicts_on(path)
    for run in set(whole) - {BOARD_RUN}:
        kept = [one for one in file if subjects.parse(one.subject).run in {"", run}]
        assert compare(file.header.log, kept, only=run) == {run: whole[run]}


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.stem)
def test_messages_cut_otherwise_are_the_same_history(path: Path) -> None:
    """A message for each input, or few messages for all of a run: how events are packed says nothing."""
    messages, log, expected = messages_in(path), HistoryFile(path).header.log, verdicts_on(path)
    assert compare(log, [part for message in messages for part in _split(message)]) == expected
    joined = _joined(messages)
    assert len(joined) < len(messages)
    assert compare(log, joined) == expected


def _split(message: Message) -> Iterator[Message]:
    if ".fact." not in message.subject:
        yield message
        return
    facts = decode_facts(message.data)
    first, h = facts.first, facts.prev
    for _, group in groupby(facts.events, lambda raw: decode_event(memoryview(raw)).cause.seq):
        stored = [bytes(raw) for raw in group]
        yield replace(message, data=encode_facts(facts.log, facts.run, first, h, stored))
        first, h = first + len(stored), reduce(chain_next, stored, h)


def _joined(messages: Sequence[Message]) -> list[Message]:
    """With each run's history in one message, where its last one lies."""
    whole: dict[str, list[bytes]] = {}
    opening = {one.subject: one for one in reversed(messages) if ".fact." in one.subject}
    closing = {one.subject: one for one in messages if ".fact." in one.subject}
    for message in messages:
        if message.subject in opening:
            whole.setdefault(message.subject, []).extend(map(bytes, decode_facts(message.data).events))
    found: list[Message] = []
    for message in messages:
        if message.subject not in opening:
            found.append(message)
        elif message == closing[message.subject]:
            facts = decode_facts(opening[message.subject].data)
            data = encode_facts(facts.log, facts.run, 1, facts.prev, whole[message.subject])
            found.append(replace(message, data=data, headers=None))
    return found


# --- what is decided otherwise ----------------------------------------------------------------------------------------


@pytest.fixture
def reversed_priority(monkeypatch: pytest.MonkeyPatch) -> None:
    """A merge rule that changed: who came last in the order comes first."""
    before = merge._POLICIES["priority"]

    def policy(said: Merge, accepted: list[Any]) -> Merged:
        return before(Merge(said.policy, said.order[::-1], said.version), accepted)

    monkeypatch.setitem(merge._POLICIES, "priority", policy)


@pytest.mark.usefixtures("reversed_priority")
def test_changed_merge_rule_is_found_with_run_version_and_both_events() -> None:
    verdicts = verdicts_on(path_of("priorities"))
    found = {run: one for run, one in verdicts.items() if isinstance(one, Divergence)}
    assert "claims-1" in found
    assert "claims-0" not in found, "where all say the same, the order decides nothing"
    divergence = found["claims-1"]
    recorded, decided = divergence.recorded, divergence.decided
    assert isinstance(recorded, e.FactCommitted)
    assert isinstance(decided, e.FactCommitted)
    assert (recorded.key, recorded.by, decided.by) == ("p.sure", "u", "v")
    assert (recorded.at, recorded.cause) == (decided.at, decided.cause)
    stored = [event for event in events_in(messages_in(path_of("priorities"))) if event.cause.seq == divergence.seq]
    assert recorded in stored
    assert {one.field for one in divergence.fields} >= {"by", "task", "value.by"}
    versions = events_in([one for one in messages_in(path_of("priorities")) if one.subject.endswith(".fact.claims-1")])
    assert versions[divergence.version - 1] == recorded


@pytest.mark.usefixtures("reversed_priority")
def test_command_shows_the_first_event_that_differs() -> None:
    code, out, err = call(str(path_of("priorities")))
    assert code == 1
    assert "claims-1  event " in out
    assert "is another today: fact_committed, about the input at sequence" in out
    assert '    recorded  "u"\n    decided   "v"' in out
    assert out.count("recorded event  {") == out.count("decided event  {") > 0
    print(err, out[:2000])

    code, out, _ = call(str(path_of("priorities")), "--json")
    records = {record["run"]: record for record in map(json.loads, out.splitlines())}
    record = records["claims-1"]
    assert (code, record["equal"], records["claims-0"]["equal"]) == (1, False, True)
    assert (record["recorded"]["by"], record["decided"]["by"]) == ("u", "v")
    assert {"field": "by", "recorded": "u", "decided": "v"} in record["fields"]


# --- files ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda data: data.replace(b"FAILED", b"DONE__", 1), "digest is another one"),
        (lambda data: data[: len(data) // 2], "cut off"),
        (lambda data: b"\n".join(data.split(b"\n")[:-2]) + b"\n", "cut off"),
        (lambda data: b"{}\n" + data, "not that of a recorded history"),
        (lambda data: b"", "not that of a recorded history"),
        (lambda data: data + b"\n", "cut off"),
        (lambda data: data.replace(b'"history":1', b'"history":2', 1), "not that of a recorded history"),
    ],
)
def test_file_that_is_not_as_it_was_written_is_not_read(
    change: Callable[[bytes], bytes], said: str, tmp_path: Path
) -> None:
    path = tmp_path / "history.jsonl"
    path.write_bytes(change(path_of("retries").read_bytes()))
    with pytest.raises(BadHistoryFile, match=said):
        HistoryFile(path)
    code, out, err = call(str(path))
    assert (code, out) == (1, "")
    assert err.startswith(f"blackboard: {path}: ")


def test_file_that_is_not_there() -> None:
    code, _, err = call("./nowhere.jsonl")
    assert code == 1
    assert "nowhere.jsonl" in err


@pytest.mark.parametrize("words", [(), ("r1", "--all")])
def test_wrong_call(words: tuple[str, ...]) -> None:
    code, _, err = call(*words)
    assert code == 2
    assert "name a RUN or a FILE, or --all" in err
