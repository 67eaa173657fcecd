"""`blackboard answer`: what a person gives is checked before it is sent, and becomes the fact."""

import json
from collections.abc import Sequence
from pathlib import Path

import pytest

from blackboard.board import Board
from blackboard.client import Client
from schemas import events as e
from schemas.playbooks import Playbook
from tests.end_to_end.support import ended, events_of, run_until, verdict_on
from tests.gates.desk import Person, asks

ESCAPE = "\x1b[2J"


# --- taken ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("team", "words", "value"),
    [
        ("choice", ["red"], "red"),
        ("choice", ['"green"'], "green"),
        ("choice", ["3"], 3),
        ("rated", ['{"risk": "high"}'], {"risk": "high"}),
        ("named", ["ann lee"], "ann lee"),
        ("named", ["42"], "42"),
        ("named", ["true"], "true"),
        ("named", ["{sic}"], "{sic}"),
        ("named", ["[" * 10_000], "[" * 10_000),
        ("dug", ["7"], 7),
    ],
)
async def test_value_becomes_the_fact(
    shared: Board, pat: Client, ann: Person, team: str, words: Sequence[str], value: object
) -> None:
    state = await asks(shared, pat, team, "run")
    (gate,) = state.open_gates
    said = await ann("answer", "run", *words, "--json")
    assert said.code == 0, said
    digest = state.gates[gate].digest
    assert said.record | {"seq": 0} == {"run": "run", "gate": gate, "digest": digest, "value": value, "seq": 0}
    assert (await ended(shared, "run")).result == {gate.partition(".")[0]: value}
    (answered,) = [event for event in await events_of(shared, "run") if isinstance(event, e.GateAnswered)]
    assert (answered.by, answered.value) == ("ann", value)


@pytest.mark.parametrize("content", [b'{"risk": "low"}', b'{"risk":\n "low"}\r\n'])
async def test_value_from_a_file_and_from_standard_input(
    shared: Board, pat: Client, ann: Person, tmp_path: Path, content: bytes
) -> None:
    (tmp_path / "answer.json").write_bytes(content)
    for run, words in (("filed", ["--file", str(tmp_path / "answer.json")]), ("piped", ["-"])):
        await asks(shared, pat, "rated", run)
        said = await ann("answer", run, *words, stdin=content.decode())
        assert (said.code, 'is answered with {"risk":"low"}, at sequence' in said.out) == (0, True), said
        assert (await ended(shared, run)).result == {"rate": {"risk": "low"}}


async def test_question_and_schema_are_shown_before(shared: Board, pat: Client, ann: Person) -> None:
    state = await asks(shared, pat, "dug", "run")
    out = (await ann("answer", "run", "9")).out
    assert out.startswith("run run task dig asks at gate dig.1: how deep?\n")
    assert '  {"spade":"big"}\n' in out
    assert '  the answer fits {"type":"integer","minimum":1}\n' in out
    assert f"  digest {state.gates['dig.1'].digest}\n" in out
    assert "dig.1 of run is answered with 9, at sequence " in out
    assert (await ended(shared, "run")).result == {"dig": 9}


# --- not sent ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("team", "words", "problem"),
    [
        ("choice", ["blue"], '/ breaks /enum, which says ["red","green",3]'),
        ("rated", ['{"risk": "medium"}'], '/risk breaks /properties/risk/enum, which says ["low","high"]'),
        ("rated", ["{}"], '/ breaks /required, which says ["risk"]'),
        ("rated", ['{"risk": "low"'], "is not JSON"),
        ("named", ["x"], "/ breaks /minLength, which says 2"),
        ("named", [""], "/ breaks /minLength, which says 2"),
        ("dug", ["0"], "/ breaks /minimum, which says 1"),
        ("dug", ["-5"], "/ breaks /minimum, which says 1"),
        ("dug", ["deep"], '/ breaks /type, which says "integer"'),
        ("dug", ["1e400"], "a number that is not finite"),
        ("dug", ["NaN"], "a number that is not finite"),
        ("dug", [str(2**70)], "a whole number of more than 64 bits"),
        ("named", ['"\\ud800 x"'], "half of a character"),
        ("named", ["y" * 70_000], "70002 bytes, the limit is 65536"),
        ("named", ["--file", "nowhere"], "nowhere: No such file"),
        ("named", ["x", "--file", "f"], "not both"),
        ("named", [], "an answer is needed"),
        ("named", ["--nonsense"], "no such option: --nonsense"),
        ("named", ["--", "-x"], "no such option: -x"),
    ],
)
async def test_value_that_does_not_do_is_named_and_not_sent(
    shared: Board, pat: Client, ann: Person, team: str, words: Sequence[str], problem: str
) -> None:
    state = await asks(shared, pat, team, "run")
    before = await shared.log.head()
    said = await ann("answer", "run", *words)
    assert (said.code, problem in said.err) == (2, True), said
    assert await shared.log.head() == before
    assert list(state.open_gates)


async def test_bytes_that_are_no_text(shared: Board, pat: Client, ann: Person, tmp_path: Path) -> None:
    await asks(shared, pat, "named", "run")
    (tmp_path / "f").write_bytes(b"\xff\xfe")
    said = await ann("answer", "run", "--file", str(tmp_path / "f"))
    assert (said.code, "is not UTF-8" in said.err) == (2, True), said


async def test_control_characters_are_shown_and_not_sent_to_the_terminal(
    shared: Board, pat: Client, ann: Person
) -> None:
    await pat.teach(_playbook_with_ask(f"which{ESCAPE}?"))
    await asks(shared, pat, "odd", "run")
    for said in (
        await ann("answer", "run", f"{ESCAPE}a", "--gate", "name"),
        await ann("inbox"),
        await ann("show", "run"),
        await ann("watch", "run", "--no-input"),
    ):
        assert "\x1b" not in said.out + said.err
        assert "\\x1b[2J" in said.out + said.err
    assert "\x1b" not in (await ann("tail", "--run", "run")).out


def _playbook_with_ask(ask: str) -> Playbook:
    step = {"id": "name", "question": {"ask": ask, "answer": {"type": "string", "pattern": "^a"}}}
    return Playbook.model_validate({"team": "odd", "steps": [step], "returns": {}})


# --- refused ----------------------------------------------------------------------------------------------------------


async def test_who_is_not_asked_is_told_before(shared: Board, pat: Client, ann: Person, carol: Person) -> None:
    await asks(shared, pat, "rated", "run")
    before = await shared.log.head()
    said = await carol("answer", "run", '{"risk": "low"}')
    assert said.code == 1
    assert (
        said.err == "blackboard: gate rate of run run is for ann or bob, and you are carol (--name says who you are)\n"
    )
    assert await shared.log.head() == before
    assert (await ann("answer", "run", '{"risk": "low"}')).code == 0


async def test_run_refuses_who_sends_it_past_the_command(shared: Board, pat: Client) -> None:
    state = await asks(shared, pat, "rated", "run")
    seq = await Client(shared, "carol").answer("run", "rate", state.gates["rate"].digest, {"risk": "low"})
    verdict = await verdict_on(shared, seq, "run")
    assert isinstance(verdict, e.InputLate)
    assert "asks ann, bob, not carol" in verdict.reason


async def test_answer_is_bound_to_the_digest(shared: Board, pat: Client, ann: Person) -> None:
    await asks(shared, pat, "named", "run")
    said = await ann("answer", "run", "ann", "--digest", "0" * 64)
    assert said.code == 1
    assert "not taken: the digest is not that of what gate 'name' asks for (sequence" in said.err
    assert (await ann("answer", "run", "ann")).code == 0
    again = await ann("answer", "run", "bob", "--gate", "name")
    assert (again.code, "not taken: the run has ended" in again.err) == (1, True), again
    assert (await ended(shared, "run")).result == {"name": "ann"}


async def test_each_verb_says_when_the_other_is_meant(shared: Board, pat: Client, ann: Person) -> None:
    await asks(shared, pat, "named", "asked")
    said = await ann("approve", "asked", "--yes")
    use = "gate name of run asked asks for a value: use `blackboard answer asked --gate name VALUE`"
    assert (said.code, said.err) == (2, f"blackboard: {use}\n")
    await asks(shared, pat, "signed", "gated")
    said = await ann("answer", "gated", "yes")
    use = "gate write of run gated asks for an approval: use `blackboard approve gated --gate write`"
    assert (said.code, said.err) == (2, f"blackboard: {use}\n")


async def test_verb_finds_the_gate_that_it_fits(shared: Board, pat: Client, ann: Person) -> None:
    state = await asks(shared, pat, "both", "run")
    assert set(state.open_gates) == {"write", "colour"}
    said = await ann("deny", "run", "--yes")
    assert (said.code, "has 2 open gates: name one of" in said.err) == (1, True), said
    assert json.loads((await ann("approve", "run", "--yes", "--json")).out)["gate"] == "write"
    assert json.loads((await ann("answer", "run", "red", "--json")).out)["gate"] == "colour"
    assert (await ended(shared, "run")).end == "DONE"


# --- what specialists and loops ask -----------------------------------------------------------------------------------


@pytest.mark.parametrize(("verb", "end"), [("approve", "DONE"), ("deny", "POLICY_BLOCKED")])
async def test_specialist_asks_before_it_acts(shared: Board, pat: Client, ann: Person, verb: str, end: str) -> None:
    await asks(shared, pat, "sent", "run")
    assert (await ann("watch", "run", "--no-input")).code == 7
    declined = await ann("approve", "run", stdin="")
    assert declined.code == 1
    assert 'run run task send asks at gate send.1: send it?\n  {"to":"carol","cost":5}\n' in declined.out
    said = await ann(verb, "run", "--yes")
    assert said.code == 0, said
    assert (await ended(shared, "run")).end == end


@pytest.mark.parametrize(("verb", "code"), [("approve", 0), ("deny", 5)])
async def test_loop_goes_on_when_a_person_says_so(
    shared: Board, pat: Client, ann: Person, verb: str, code: int
) -> None:
    await pat.publish("tooled", {}, "run")
    await run_until(shared, "run", lambda state: state.open_gates)
    (asked,) = (await ann("inbox", "--json")).records
    assert (asked["kind"], asked["gate"]) == ("loop", "run.loop.1")
    declined = await ann("approve", "run", stdin="")
    assert "fetch called get in vain (TOOL_DOWN), 3 times" in declined.out
    assert (await ann(verb, "run", "--yes")).code == 0
    assert (await ann("watch", "run")).code == code
    shown = await ann("show", "run")
    assert "a loop in task fetch: fetch called get in vain (TOOL_DOWN), 3 times with the same input; " in shown.out


@pytest.mark.parametrize("team", ["named", "dug", "signed"])
async def test_no_input_is_exit_code_7_for_whatever_is_asked(
    shared: Board, pat: Client, ann: Person, team: str
) -> None:
    await asks(shared, pat, team, "run")
    said = await ann("watch", "run", "--no-input", "--json")
    assert said.code == 7
    assert said.records[-1]["phase"] == "NEEDS_INPUT"
    assert (await ann("publish", team, "--run", "again", "--wait", "--no-input")).code == 7
