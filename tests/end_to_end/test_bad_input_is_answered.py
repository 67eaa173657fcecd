"""Bad input gets an answer: through the client a sentence and an exit code, past it a record on the log that cites it.

Meanwhile the supervisor stays the same process, and good runs end.
"""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from blackboard.board import Board
from blackboard.client import BadInput, Client
from schemas import events as e
from schemas.contracts import Contract
from schemas.inputs import Ended
from schemas.playbooks import Playbook, Step
from schemas.usage import Usage
from tests.end_to_end import teams
from tests.end_to_end.support import (
    Program,
    Start,
    call,
    call_each,
    ended,
    events_of,
    history_of,
    offered,
    past_the_client,
    publish_packets,
    publish_raw,
    run_until,
    until,
    verdict_on,
)

GOOD = {"numbers": [1, 2, 3]}
USAGE, NO_RUN = 2, 1


@pytest.fixture
async def squares(shared: Board, there: list[str], start: Start, tmp_path: Path) -> Program:
    """A supervisor on a board where the team `squares` works."""
    supervisor = start("supervise", *there)
    start("attach", teams.write(tmp_path, "squares", teams.SQUARES), *there)
    await supervisor.says("took over")
    await offered(shared, "squares", "squarer", "adder")
    return supervisor


async def require_good_run(board: Board, supervisor: Program, run: str) -> None:
    """A run that ends DONE, decided by the process that was there all the time."""
    await Client(board, "publisher").publish("squares", GOOD, run)
    assert (await ended(board, run)).result == {"total": 14}
    assert supervisor.code is None, supervisor.said
    _, told = await history_of(board, run)
    assert {(message.headers or {})["writer"].partition("-")[0] for message, _ in told} == {str(supervisor.pid)}


# --- through the client -----------------------------------------------------------------------------------------------


def deep(levels: int) -> str:
    return "[" * levels + "]" * levels


async def test_the_command_says_what_is_wrong(
    shared: Board, there: list[str], squares: Program, tmp_path: Path
) -> None:
    large = tmp_path / "large.json"
    large.write_text(json.dumps({"numbers": [1], "text": "x" * 300_000}))
    abyss = tmp_path / "abyss.json"
    abyss.write_text('{"numbers": [1], "more": ' + deep(90_000) + "}")
    broken = tmp_path / "broken.json"
    broken.write_bytes(b'{"numbers": [1], "text": "\xff"}')
    assert (await call("publish", "squares", "numbers=[1,2,3]", "--run", "taken", *there)).code == 0
    cases: list[tuple[list[str], str]] = [
        (["publish", "nobody"], "no team 'nobody' on this board (teams: squares)"),
        (["publish", "squares", "--input", '{"numbers": [1'], "is not JSON"),
        (["publish", "squares", "--input", "[1]"], "the input of a goal is a JSON object"),
        (["publish", "squares", "numbers=one,two"], "the input of team 'squares': /numbers/0 breaks"),
        (["publish", "squares", "numbers"], "'numbers' is not key=value"),
        (["publish", "squares"], "the input of team 'squares': numbers: is missing; `blackboard schema squares`"),
        (["publish", "squares", "--input", f"@{large}"], "the limit is 262144"),
        (["publish", "squares", "--input", f"@{broken}"], "is not JSON"),
        (["publish", "squares", "--input", f"@{tmp_path}/none.json"], "No such file"),
        (["publish", "squares", "--input", '{"numbers": [NaN]}'], "not finite"),
        (["publish", "squares", "--input", '{"numbers": [1e999]}'], "not finite"),
        (["publish", "squares", "--input", '{"numbers": [1' + "0" * 30 + "]}"], "64 bits"),
        (["publish", "squares", "--input", '{"numbers": [' + "9" * 5000 + "]}"], "not JSON"),
        (["publish", "squares", "--input", '{"numbers": [1], "more": ' + deep(90) + "}"], "inside each other"),
        (["publish", "squares", "--input", f"@{abyss}"], "is not JSON"),
        (["publish", "squares", "numbers=[1]", "text=\udcff"], "half of a character"),
        (["publish", "squares", "numbers=[1]", "--run", "no spaces"], "run id 'no spaces' is not 1 to 64"),
        (["publish", "squares", "numbers=[1]", "--run", "x" * 65], "is not 1 to 64"),
        (["publish", "squares", "numbers=[1]", "--run", "_board"], "_board"),
        (["publish", "squares", "numbers=[1]", "--run", "taken"], "run taken has another goal already"),
        (["publish", "squares", "numbers=[1,2,3]", "--run", "taken", "--name", "other"], "by another client"),
        (["publish", "squares", "numbers=[1]", "--name", "no.dots"], "name: is not allowed"),
        (["schema", "none"], "'none' is no team, specialist or message"),
        (["detach", "none"], "no specialist 'none'"),
    ]
    lost = "no run on this board begins with 'none'"
    no_run = [([verb, "none"], lost) for verb in ("cancel", "show", "watch", "rebuild")]
    answers = await call_each([[*words, *there] for words, _ in (*cases, *no_run)])
    wrong = [
        (" ".join(words)[:100], told.code, told.out[-200:], told.err[-300:])
        for (words, expected), told in zip((*cases, *no_run), answers, strict=True)
        if told.code != (NO_RUN if expected == lost else USAGE)
        or told.out
        or expected not in told.err
        or told.err.count("\n") > 1
    ]
    assert not wrong, "\n".join(map(repr, wrong))
    again = await call("publish", "squares", "numbers=[1,2,3]", "--run", "taken", *there)
    assert (again.code, again.out) == (0, "taken\n")
    await require_good_run(shared, squares, "good")
    assert await events_of(shared, "_board") == []


STEP: dict[str, Any] = {"id": "one", "capability": "c"}
PLAYBOOKS: list[tuple[list[dict[str, Any]], str]] = [
    ([STEP | {"deadline_s": -1}], "steps.0.deadline_s: is not allowed"),
    ([STEP, STEP], "step 'one' stands twice"),
    ([STEP | {"needs": ["two"]}, STEP | {"id": "two", "needs": ["one"]}], "steps need each other in a circle"),
    ([STEP | {"needs": ["three"]}], "step 'one' needs 'three', which is no step"),
    ([{"id": "one"}], "needs one of capability, team, value and question"),
    ([STEP | {"when": "not [an expression"}], "is not a JMESPath expression"),
    ([], "steps: is not allowed"),
]


@pytest.mark.parametrize(("steps", "expected"), PLAYBOOKS[:3])
async def test_a_file_with_a_bad_playbook_is_not_attached(
    there: list[str], tmp_path: Path, steps: list[dict[str, Any]], expected: str
) -> None:
    source = teams.SQUARES[: teams.SQUARES.index("NUMBER =")] + f"PLAYBOOK = Playbook(team='bad', steps={steps!r})\n"
    with pytest.raises(ValidationError):
        Playbook.model_validate({"team": "bad", "steps": steps})
    told = await call("attach", teams.write(tmp_path, "bad", source), *there)
    assert (told.code, told.out) == (USAGE, "")
    assert "bad.py cannot be loaded" in told.err
    assert expected.rpartition(": ")[2].removeprefix("is not allowed") in told.err


async def test_an_environment_that_does_not_exist_fails_with_a_reason(
    shared: Board, there: list[str], start: Start, tmp_path: Path
) -> None:
    supervisor = start("supervise", *there)
    start("attach", "licences", *there)
    await offered(shared, "licences", "licence-inventory")
    told = await call("publish", "licences", f"path={tmp_path}/nowhere", "--run", "lost", "--wait", *there)
    assert told.code == 4, told
    assert "lost" in told.out.splitlines()
    assert f"{tmp_path}/nowhere is not a folder" in told.err
    state = await ended(shared, "lost")
    assert (state.end, state.code) == ("FAILED", "INVALID_INPUT")
    assert f"{tmp_path}/nowhere is not a folder" in state.reason
    assert supervisor.code is None


async def test_a_run_that_nobody_can_do_waits_and_says_for_what(
    shared: Board, there: list[str], squares: Program
) -> None:
    client = Client(shared, "publisher")
    await client.teach(Playbook(team="unheard", steps=[Step(id="one", capability="unheard-of")]))
    await client.publish("unheard", {}, "waiting")
    await run_until(shared, "waiting", lambda state: state.timers)
    shown = await call("show", "waiting", *there)
    assert (shown.code, "unheard-of" in shown.out) == (0, True), shown
    await require_good_run(shared, squares, "good")


# --- past the client --------------------------------------------------------------------------------------------------


def goal(**fields: Any) -> bytes:
    return json.dumps({"team": "squares", "input": GOOD} | fields).encode()


def playbook(steps: list[dict[str, Any]]) -> bytes:
    return json.dumps({"team": "bad", "steps": steps}).encode()


REJECTED: list[tuple[str, bytes, str]] = [
    ("goal.stranger.r1", b"a wish", "not JSON"),
    ("goal.stranger.r1", b"", "not JSON"),
    ("goal.stranger.r1", b"\xff\xfe\x00", "not JSON"),
    ("goal.stranger.r1", b'{"team": "\xff"}', "not JSON"),
    ("goal.stranger.r1", b"[]", "is not allowed"),
    ("goal.stranger.r1", goal(type="wish"), "unknown type 'wish'"),
    ("goal.stranger.r1", goal(v=2), "unknown version '2'"),
    ("goal.stranger.r1", goal(colour="red"), "colour: is not a known field"),
    ("goal.stranger.r1", goal(input=GOOD | {"text": "x" * 300_000}), "the limit is 262144"),
    ("goal.stranger.r1", goal(team="nobody"), "no playbook 'nobody'"),
    ("goal.stranger.r1", goal(input={"numbers": ["one"]}), "input: /numbers/0 breaks"),
    ("goal.stranger.r1", goal(parent={"run": "r", "task": "t", "depth": 1}), "only the supervisor asks for child runs"),
    ("goal.stranger.r1", goal(input=GOOD | {"more": json.loads(deep(90))}), "inside each other"),
    ("goal.stranger.r1", b'{"team":' * 20_000, "nested deeper than 100"),
    ("goal.stranger.r1", b'{"team": "squares", "input": {"numbers": [' + b"9" * 5_000 + b"]}}", ""),
    ("goal.stranger.r1", b'{"team": "squares", "input": {"numbers": [1' + b"0" * 30 + b"]}}", "64 bits"),
    ("goal.stranger.r1", b'{"team": "squares", "input": {"numbers": [NaN]}}', ""),
    ("goal.stranger.r1", b'{"team": "squares", "input": {"numbers": [1e999]}}', ""),
    ("goal.stranger.r1", b'{"team": "squares", "input": {"numbers": [1], "half": "\\ud800"}}', ""),
    ("goal.stranger._board", goal(), "takes no input"),
    ("goal.stranger.bad$id", goal(), "does not name an author and a run by tokens"),
    ("goal.stranger." + "x" * 65, goal(), "does not name an author and a run by tokens"),
    ("goal.stranger.too.long", goal(), "does not name an author and a run by tokens"),
    ("goal.stranger", goal(), "does not name an author and a run by tokens"),
    ("contract.stranger", b"a promise", "contract: not JSON"),
    ("contract.stranger", b'{"specialist": "squarer", "offers": ["square"]}', "the subject names 'stranger'"),
    ("contract.stranger", b'{"specialist": "stranger", "offers": ["a"], "input": {"type": 7}}', "not a JSON Schema"),
    ("contract.stranger.more", b"{}", "does not name an author and a run by tokens"),
    ("playbook.bad", b"\xff", "playbook: not JSON"),
    ("playbook.bad", b"{" * 200, "playbook: nested deeper"),
    ("playbook.bad", b" " * 300_000, "playbook: 300000 bytes; the limit is 262144"),
    *((("playbook.bad", playbook(steps), expected)) for steps, expected in PLAYBOOKS),
    ("obs.squarer.unknown", b'{"type": "ended", "task": "t", "attempt": 1, "execution": "e", "usage": {}}', "no goal"),
    ("obs.squarer.unknown", b'{"type": "progress", "task": "t", "attempt": 1, "execution": "e", "message": ""}', ""),
    ("obs.squarer.unknown", b'{"type": "guess"}', "unknown type 'guess' of obs"),
    ("obs.squarer.unknown", b'{"type": "ended", "v": 9}', "unknown version '9' of ended"),
    ("obs.squarer.unknown", b'{"type": "ended"}', "does not fit the form of ended"),
    ("obs.squarer.unknown", b"[" * 100_000, "nested deeper than 100"),
    ("signal.stranger.unknown", b'{"type": "cancel"}', "no goal came before it"),
    ("signal.stranger.unknown", b'"stop"', "not a JSON object"),
    ("wake.unknown", b'{"type": "timer_due", "timer": "x", "armed": 1}', "no goal came before it"),
    ("wake.unknown", b"\x00", "not JSON"),
]
"""(subject below that of the board, bytes, what the record says)"""

UNRECORDED: list[tuple[str, bytes, dict[str, str] | None]] = [
    ("fact.ghost", b"a lie", None),
    ("fact.ghost", b'{"log":"x","run":"ghost","first":1,"prev":"","events":[]}', {"floor": "many"}),
    ("fact.ghost.more", b"a lie", {"floor": "-1"}),
    ("fact.ghost-2", b'{"log":"x","run":"ghost-2","first":1,"prev":"00","events":[{}]}', {"floor": "99999999"}),
    ("task.nobody.ghost.t.1", b"a lie", None),
    ("task.squarer", b"", None),
    ("task.squarer.ghost.t.x", b"", None),
    ("task.squarer.ghost.t.1", b"a lie", None),
]
"""What only the supervisor writes: there is nobody to answer, and nothing may come of it."""


async def test_each_message_past_the_client_is_recorded_under_its_sequence(
    shared: Board, there: list[str], squares: Program, start: Start
) -> None:
    subjects, sent = shared.subjects, dict[int, tuple[str, str]]()
    prefix = subjects.every("goal").removesuffix("goal.>")
    async with past_the_client(there[1]) as stranger:
        for place, data, headers in UNRECORDED:
            await publish_raw(shared, stranger, prefix + place, data, headers)
        for place, data, expected in REJECTED:
            sent[await publish_raw(shared, stranger, prefix + place, data)] = (place, expected)
        await verdict_on(shared, max(sent), "_board")
        recorded = {event.cause.seq: event for event in await events_of(shared, "_board")}
        assert set(recorded) >= set(sent), {sent[seq] for seq in set(sent) - set(recorded)}
        for seq, (place, expected) in sent.items():
            event = recorded[seq]
            assert isinstance(event, e.InputRejected)
            assert (event.subject, expected in event.reason) == ((prefix + place)[:256], True), (place, event.reason)
        await squares.says("on the subject of run ghost: ")  # once it looks at who has a task
        await require_good_run(shared, squares, "good")
        for place, data, headers in UNRECORDED[:4]:  # the last words before another supervisor takes over
            await publish_raw(shared, stranger, prefix + place, data, headers)
    await squares.stop()
    await require_good_run(shared, start("supervise", *there), "r2")
    for words in (["runs"], ["schema"], ["doctor"], ["show", "r2"], ["rebuild", "r2", "--check"]):
        told = await call(*words, *there)
        assert told.code == 0, (words, told)


HEADERS = [
    b"NATS/1.0\r\nA\xff: \xfe\r\n\r\n",
    b"NATS/1.0\r\nno colon\r\n\r\n",
    b"NATS/1.0 503\r\n\r\n",
    b"NATS/1.0 \xff\xff\xff \xff\r\n\r\n",
    b"NATS/1.0 100 Idle Heartbeat\r\nNats-Last-Consumer: 77\r\n\r\n",
    b"NATS/1.0 100 FlowControl Request\r\n\r\n",
    b"NATS/1.0\r\nStatus: 100\r\nNats-Last-Consumer: many\r\n\r\n",
]
"""What a server says of its own accord, and what is no text."""


async def test_bytes_that_are_no_text_stop_nobody(
    shared: Board, there: list[str], squares: Program, start: Start
) -> None:
    """In a subject, and in headers that look like a word of the server to its consumers."""
    prefix = shared.subjects.every("goal").removesuffix("goal.>").encode()
    packets = [(prefix + b"goal.stranger.r1", headers, b"") for headers in HEADERS]
    packets += [(prefix + place, b"", b"") for place in (b"goal.stranger.\xff\xfe", b"obs.\xc3.r1", b"fact.\xff")]
    packets += [(prefix + place, b"", b"") for place in (b"task.squarer.r.\xff.1", b"cancel.squarer.\xff.t")]
    head = await shared.log.head()
    await publish_packets(there[1], *packets)
    await require_good_run(shared, squares, "good")
    recorded = {event.cause.seq for event in await events_of(shared, "_board")}
    assert recorded == {*range(head + 1, head + len(HEADERS) + 4)}
    await squares.stop()
    await require_good_run(shared, start("supervise", *there), "again")
    for words in (["runs"], ["schema"], ["doctor"], ["show", "again"], ["rebuild", "again", "--check"]):
        told = await call(*words, *there)
        assert told.code == 0, (words, told)


async def test_garbage_in_the_history_of_the_board_itself_stops_nobody(
    shared: Board, there: list[str], squares: Program
) -> None:
    async with past_the_client(there[1]) as stranger:
        await publish_raw(shared, stranger, shared.subjects.fact("_board"), b"a lie")
        await publish_raw(shared, stranger, shared.subjects.goal("stranger", "r1"), b"a wish")
    await require_good_run(shared, squares, "r2")
    await squares.says("on the subject of run _board: ")


# --- runs that are there ----------------------------------------------------------------------------------------------


def an_end(task: str, value: Any, attempt: int = 1, **fields: Any) -> dict[str, Any]:
    claims = [{"key": task, "value": value}]
    return {
        "type": "ended",
        "task": task,
        "attempt": attempt,
        "execution": "e1",
        "usage": {},
        "claims": claims,
    } | fields


@pytest.fixture
async def guessing(shared: Board, squares: Program) -> Callable[[str], Any]:
    """Opens a run with one task, which waits for what this test says in the name of the specialist `guesser`."""
    client = Client(shared, "publisher")
    contract = Contract(specialist="guesser", offers=["guess"], output={"type": "number"}, attempts=1)
    await client.offer(contract)
    await client.teach(
        Playbook(team="guess", steps=[Step(id="guess", capability="guess")], returns={"is": "facts.guess"})
    )

    async def open_run(run: str) -> None:
        await client.publish("guess", {}, run)
        await run_until(shared, run, lambda state: state.in_flight)

    return open_run


FOR_A_RUN: list[tuple[str, dict[str, Any], str]] = [
    ("guesser", an_end("guess", "seven"), "INVALID_OUTPUT"),
    ("guesser", an_end("guess", 7, claims=[]), "INVALID_OUTPUT"),
    ("guesser", an_end("guess", 7, claims=[{"key": "licence.x", "value": 1}]), "INVALID_OUTPUT"),
    ("guesser", an_end("guess", 10**30), "INVALID_OUTPUT"),
    ("guesser", an_end("guess", 7, claims=[{"key": "guess", "value": "x" * 70_000}]), "INVALID_OUTPUT"),
    ("squarer", an_end("guess", 7), "the task is not with squarer"),
    ("nobody", an_end("guess", 7), "the task is not with nobody"),
    ("guesser", an_end("guess", 7, attempt=2), "attempt 2 of guess has ended, or was never made"),
    ("guesser", an_end("guess", 7, attempt=2**53), "has ended, or was never made"),
    ("guesser", an_end("other", 7), "the run has no task 'other'"),
]


@pytest.mark.parametrize("by_client", [True, False])
async def test_an_end_that_may_not_count_is_recorded_in_the_run(
    shared: Board, there: list[str], squares: Program, guessing: Callable[[str], Any], by_client: bool
) -> None:
    async with past_the_client(there[1]) as stranger:
        sent: dict[str, int] = {}
        for number, (author, end, _) in enumerate(FOR_A_RUN):
            run = f"guess-{number}"
            await guessing(run)
            if by_client:
                claims = tuple(e.Claim(claim["key"], claim["value"]) for claim in end["claims"])
                body = Ended(task=end["task"], attempt=end["attempt"], execution="e1", usage=Usage(), claims=claims)
                sent[run] = await Client(shared, author).observe(run, body)
            else:
                data = json.dumps(end).encode()
                sent[run] = await publish_raw(shared, stranger, shared.subjects.observation(author, run), data)
        for number, (_, _, expected) in enumerate(FOR_A_RUN):
            run = f"guess-{number}"
            event = await verdict_on(shared, sent[run], run)
            said = event.code if isinstance(event, e.TaskEnded) else getattr(event, "reason", "")
            assert expected in said, (run, event)
            state = (await history_of(shared, run))[0].state
            assert state.facts == {}
            assert state.end == ("FAILED" if expected == "INVALID_OUTPUT" else "")
    await require_good_run(shared, squares, "good")


async def test_what_comes_for_a_finished_run_is_late(
    shared: Board, there: list[str], squares: Program, guessing: Callable[[str], Any]
) -> None:
    await guessing("run")
    subjects, end = shared.subjects, json.dumps(an_end("guess", 7)).encode()
    async with past_the_client(there[1]) as stranger:
        await publish_raw(shared, stranger, subjects.observation("guesser", "run"), end)
        assert (await ended(shared, "run")).result == {"is": 7}
        again = await publish_raw(shared, stranger, subjects.observation("guesser", "run"), end)
        other = end.replace(b'"e1"', b'"e2"')
        late = [
            await publish_raw(shared, stranger, subjects.observation("guesser", "run"), other),
            await publish_raw(shared, stranger, subjects.goal("stranger", "run"), goal()),
            await publish_raw(shared, stranger, subjects.signal("stranger", "run"), b'{"type": "cancel"}'),
        ]
        same = await shared.log.last(subjects.goal("publisher", "run"))
        assert same is not None
        await publish_raw(shared, stranger, subjects.goal("stranger", "run"), same.data)
        await verdict_on(shared, late[-1], "run")
        await require_good_run(shared, squares, "good")
    events = await events_of(shared, "run")
    assert [event.cause.seq for event in events if isinstance(event, e.InputLate)] == late
    assert again not in {event.cause.seq for event in events}
    assert events[-1].cause.seq == late[-1]


async def test_a_client_that_is_told_no_appends_nothing(shared: Board, squares: Program) -> None:
    client, head = Client(shared, "publisher"), await shared.log.head()
    for steps, expected in PLAYBOOKS:
        with pytest.raises((BadInput, ValidationError)) as refused:
            await client.teach(Playbook.model_validate({"team": "bad", "steps": steps}))
        assert expected.rpartition(": ")[2].removeprefix("is not allowed") in str(refused.value)
    for input in ({"numbers": [float("nan")]}, {"numbers": [10**30]}, {"numbers": [1], "half": "\ud800"}):
        with pytest.raises(BadInput):
            await client.publish("squares", input)
    assert await shared.log.head() == head
    await until(lambda: squares.code is None, "the supervisor to be there")
