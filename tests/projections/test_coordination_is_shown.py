"""What people and auditors see of budgets, open calls, hand-offs, conflicts, revisions, breakers and newer values: the
verbs against runs on a real server in which all of these came about."""

import asyncio
import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from blackboard.board import open_board
from blackboard.server import EmbeddedServer
from tests.projections.called import Call
from tests.projections.coordination import RUNS, populate

BOARD = "coordination"


@pytest.fixture(scope="module")
def coordinated(server: EmbeddedServer) -> str:
    """The server's address, with all runs on the board."""

    async def make() -> None:
        async with open_board(server.url, BOARD, create=True) as board, asyncio.timeout(50):
            await populate(board)

    asyncio.run(make())
    return server.url


@pytest.fixture
def told(coordinated: str, blackboard: Callable[..., Call], monkeypatch: pytest.MonkeyPatch) -> Callable[..., Call]:
    """Calls a verb that has to go well."""
    monkeypatch.setenv("BLACKBOARD_NATS", coordinated)
    monkeypatch.setenv("BLACKBOARD_BOARD", BOARD)

    def call(*words: str, code: int = 0) -> Call:
        called = blackboard(*words)
        assert called.code == code, called
        assert "\x1b" not in called.out + called.err, "a terminal obeys nothing of it"
        return called

    return call


Told = Callable[..., Call]


# --- show -------------------------------------------------------------------------------------------------------------


def test_budget_is_shown_where_there_is_something_to_say(told: Told) -> None:
    assert (
        "budget  limit  charged  reserved  overrun\ntokens  120    100      0         50     \n"
        in told("show", "eaten").out
    )
    assert "tokens  100    0        60        0      \n" in told("show", "crowded").out
    assert "used 90 input tokens, 60 output tokens, 0 tool calls, $1.5\n" in told("show", "eaten").out
    assert "reserved" not in told("show", "called").out
    budget = told("show", "eaten", "--json").record["budget"]
    assert budget["tokens"] == {"limit": 120, "charged": 100, "reserved": 0, "overrun": 50}
    assert budget["micro_usd"] == {"limit": None, "charged": 1_500_000, "reserved": 0, "overrun": 0}


def test_task_that_waits_for_room(told: Told) -> None:
    assert "1 task waits for room in `parallel` or in the budget: doze-1\n" in told("show", "crowded").out
    assert told("show", "crowded", "--json").record["ready"] == ["doze-1"]


def test_task_that_goes_on_later(told: Told) -> None:
    record = told("show", "later", "--json").record
    (delayed,) = record["delayed"]
    (timer,) = record["timers"]
    assert delayed == {"task": "reach", "until_ms": timer["armed_at_ms"] + timer["delay_ms"]}
    assert 300_000 <= timer["delay_ms"] <= 600_000
    assert "task reach goes on at 20" in told("show", "later").out
    assert record["tasks"] == {"total": 1, "ended": 0, "in_flight": 0, "delayed": 1, "ready": 0}


def test_breaker_and_revision(told: Told) -> None:
    out = told("show", "repaired").out
    assert "clumsy is given nothing more: it failed 2 times in a row, last with INTERNAL (event " in out
    assert re.search(r"\nstep carry was replaced by haul because no value for carry: clumsy: .* \(event \d+\)\n", out)
    record = told("show", "repaired", "--json").record
    assert record["breakers"] == {"clumsy": {"failures": 2, "open": True}}
    (revision,) = record["revisions"]
    assert (revision["number"], revision["instead_of"], revision["steps"]) == (1, "carry", ["haul"])


def test_plans_that_were_refused_and_committed(told: Told) -> None:
    out = told("show", "planned").out
    refused = "plan 1 of plan was refused: step 'fly': nobody offers 'fly'"
    assert f"\n{refused}; thinker is asked for another (event " in out
    assert re.search(r"\nstep plan was planned by thinker: plan_carry, plan_count \(event \d+\)\n", out)
    first, second = told("show", "planned", "--json").record["plans"]
    assert (first["refused"], first["steps"]) == (["step 'fly': nobody offers 'fly'"], [])
    assert (second["by"], second["refused"], second["steps"]) == ("thinker", [], ["plan_carry", "plan_count"])
    out = told("show", "refused").out
    assert "\nbecause: PLAN_REFUSED no value for plan: 2 plans were refused, the last because step 'fly'" in out
    assert "plan 2 of plan was refused: step 'fly': nobody offers 'fly'; no other is asked for (event " in out


def test_stale_fact(told: Told) -> None:
    assert "stale report: rests on older values of input\n" in told("show", "corrected").out
    assert told("show", "corrected", "--json").record["stale"] == {"report": ["input"]}


def test_gate_and_who_may_answer(told: Told) -> None:
    out = told("show", "asked").out
    assert "gate say waits for ann or bob: \\x1b[31mred? `blackboard answer asked`\n" in out
    assert "\ngate say: open for ann or bob; digest " in out
    assert "\ngate say: answered by bob; digest " in told("show", "said").out
    gate = told("show", "said", "--json").record["gates"]["say"]
    assert (gate["kind"], gate["who"], gate["by"], gate["value"]) == ("answer", ["ann", "bob"], "bob", "\x1b[31mred")


def test_ranking_of_bids_is_no_dispute(told: Told) -> None:
    assert "2 facts, 0 disputed: dig, dig_bids\n" in told("show", "called").out
    assert told("show", "argued", "--json").record["conflicts"] == 1


# --- why --------------------------------------------------------------------------------------------------------------


def test_open_call_and_hand_off(told: Told) -> None:
    out = told("why", "called", "dig").out
    assert "  claimed by dear, task dig attempt 2\n" in out
    assert "    before, attempt 1 of cheap, at event 13: HANDED_OFF: too deep; handed on to dear\n" in out
    assert out.endswith(
        "  open call, event 10: the 2 that can do it, best first\n"
        "    cheap: score 0.86 (confidence 0.9, $0.02, 2 s), granted\n"
        "    dear: score 0.3 (confidence 0.8, $0.5, 0 s)\n"
        "    unable: cannot do it\n"
    )
    record = told("why", "called", "dig", "--json").record
    assert record["granted"] == "cheap"
    assert [row["by"] for row in record["bids"]["value"]] == ["cheap", "dear"]
    assert [one["to"] for one in record["winner"]["before"]] == ["dear"]


def test_conflict_and_who_reconciled_it(told: Told) -> None:
    out = told("why", "argued", "sum").out
    assert out.startswith("sum = 2\n  decided by reconcile version 1, event ")
    conflict = told("why", "argued", "sum", "--json").record["conflict"]
    assert (conflict["specialist"], conflict["task"]) == ("judge", "sum-2")
    assert (
        f"  claims differed, at event {conflict['version']}: judge was asked to reconcile them, in task sum-2\n" in out
    )
    assert "  claimed by judge, task sum-2 attempt 1\n" in out
    assert "  lost one, task sum-0 attempt 1: 1: reconciled\n" in out


def test_policy_with_its_terms(told: Told) -> None:
    out = told("why", "argued", "both").out
    assert "both has no value: LOW_CONFIDENCE no value has 2 tasks; the most that one has is 1\n" in out
    assert "  decided by quorum version 1 (2 tasks), event " in out


def test_earlier_values_with_their_provenance(told: Told) -> None:
    record = told("why", "corrected", "text", "--json").record
    (before,) = record["others"]
    assert (record["value"], record["step"], record["replaces"]) == ("new", "correct", before["version"])
    assert (before["value"], before["step"], before["winner"]["task"]) == ("old", "draft", "draft")
    out = told("why", "corrected", "text").out
    assert f"  it took the place of version {before['version']}\n" in out
    assert f'  before, at event {before["version"]}: "old"\n    decided by only version 1, event ' in out
    assert "      on sequence " in out, "what the earlier value rests on"


def test_stale_mark(told: Told) -> None:
    out = told("why", "corrected", "report").out
    assert "  stale: there were newer values of input than the claim knows of\n" in out


def test_value_that_nobody_claimed(told: Told) -> None:
    out = told("why", "corrected", "size").out
    assert "  decided by an expression, event " in out
    assert "  it is length(facts.report)\n" in out
    answered = told("why", "said", "say")
    assert answered.out.startswith('say = "\\u001b[31mred"\n  decided by an answer, event ')
    assert "  answered by bob at gate say, event " in answered.out
    record = told("why", "said", "say", "--json").record
    assert record["answer"]["digest"] == told("show", "said", "--json").record["gates"]["say"]["digest"]
    said = told("tail", "--run", "said", "--json").records
    (signal,) = [one for one in said if one["family"] == "signal"]
    assert record["answer"]["said"]["seq"] == signal["seq"]


def test_plan_and_what_was_refused_before_it(told: Told) -> None:
    out = told("why", "planned", "plan").out
    assert re.search(
        r"\n    before, attempt 1 of thinker, at event \d+: the plan .*fly.* was refused: step 'fly': nobody offers",
        out,
    )
    (before,) = told("why", "planned", "plan", "--json").record["winner"]["before"]
    assert before["refused"] == ["step 'fly': nobody offers 'fly'"]
    assert before["value"]["steps"][0]["id"] == "fly"
    out = told("why", "refused", "plan").out
    assert out.startswith("plan has no value: INVALID_OUTPUT 2 plans were refused, the last because step 'fly'")
    assert re.search(r"\n  lost thinker, task plan attempt 2: .*: refused: step 'fly': nobody offers 'fly'\n", out)
    assert told("why", "planned", "plan_facts.carry", "--json").record["step"] == "plan_carry"


def test_missing_key_and_all_that_was_tried(told: Told) -> None:
    out = told("why", "repaired", "carry").out
    assert out.count("INTERNAL: \\x1b[31mred\n") == 2
    assert "    before, attempt 2 of clumsy, at event 7: INTERNAL" in out


# --- watch, tail, runs ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "note"),
    [
        ("called", "task dig is handed to dear: too deep"),
        ("argued", "claims for sum differ: judge reconciles them in task sum-2"),
        ("corrected", "text takes the place of version 6"),
        ("corrected", "report rests on older values of input"),
        ("repaired", "clumsy is given nothing more: it failed 2 times in a row, last with INTERNAL"),
        ("repaired", "step carry was replaced by haul because no value for carry: clumsy: "),
        ("planned", "plan 1 of plan was refused: step 'fly': nobody offers 'fly'; thinker is asked for another"),
        ("planned", "step plan was planned by thinker: plan_carry, plan_count"),
        ("said", 'gate say: answered by bob: "\\u001b[31mred"'),
    ],
)
def test_watch_tells_what_was_not_to_be_expected(told: Told, run: str, note: str) -> None:
    code = {"argued": 3}.get(run, 0)
    assert any(line.startswith(note) for line in told("watch", run, code=code).err.splitlines())
    notes = [line for record in told("watch", run, "--json", code=code).records for line in record["notes"]]
    assert any(line.startswith(note) for line in notes)


def test_tail_is_short_and_readable(told: Told) -> None:
    out = told("tail").out
    for words in (
        "conflict_found sum for judge",
        "plan_asked plan of ",
        "plan_refused plan 1 of thinker",
        "plan_extended plan 1 by thinker: plan_carry, plan_count",
        "task_delayed sum-2 when there is room",
        "task_delayed reach after ",
        "attempt_failed dig HANDED_OFF to dear",
        "breaker_opened clumsy 2 times INTERNAL",
        "gate_opened say for ann, bob",
        'gate_answered say answered by bob: "\\u001b[31mred"',
        "fact_committed text takes the place of version 6",
        "fact_committed report rests on older values of input",
        "answer  gate say  value \\x1b[31mred",
        "ended  task dig  attempt 1  code HANDED_OFF  to dear  message too deep",
    ):
        assert words in out, words
    assert max(map(len, out.splitlines())) < 300


def test_runs_with_cost_and_who_is_asked(told: Told) -> None:
    rows = {row["run"]: row for row in told("runs", "--json").records}
    assert set(rows) == set(RUNS)
    assert (rows["eaten"]["micro_usd"], rows["called"]["tool_calls"]) == (1_500_000, 2)
    assert (rows["asked"]["phase"], rows["asked"]["waiting_for"]) == ("NEEDS_INPUT", "gate say (ann or bob)")
    lines = told("runs").out.splitlines()
    assert lines[0].split()[-7:-4] == ["tokens", "tools", "dollars"]
    assert next(line for line in lines if line.startswith("eaten")).split()[-3:] == ["150", "0", "1.5"]


def test_columns_that_nothing_stands_in_are_left_out(blackboard: Callable[..., Call]) -> None:
    assert "dollars" not in blackboard("runs").out


# --- rebuild ----------------------------------------------------------------------------------------------------------


def test_budget_is_kept_at_every_version(told: Told) -> None:
    for words in (["--all", "--check"], ["--all"]):
        called = told("rebuild", *words)
        assert called.out.count("budget kept at ") == len(RUNS)
    version = told("rebuild", "eaten", "--json").record["version"]
    assert f"budget kept at {version} versions\n" in told("rebuild", "eaten").out
    assert "budget kept at 3 versions\n" in told("rebuild", "eaten", "--version", "3").out


def test_whole_action_of_a_gate_is_there_for_programs(told: Told) -> None:
    gates: dict[str, Any] = told("show", "asked", "--json").record["gates"]
    assert gates["say"]["action"] == [{"key": "say", "input": {}}]
    assert json.dumps(gates["say"]["schema"]) == '{"type": "string"}'
