"""Scenarios: what they expect is looked at, each kind of it, simulated and live."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

from schemas.goals import Budget
from specialists.cli import eval_
from specialists.evaluation import play
from specialists.loading import load_team
from specialists.scenarios import Expect, Limits, Scenario
from specialists.stop import Stop
from tests.models.endpoint import Say, endpoint
from tests.models.evals import targets

EXAMPLE = str(Path(__file__).parents[2] / "examples" / "judging_team.py")
TEAM = load_team(EXAMPLE)
BROKEN, THANKS, UNSURE = TEAM.scenarios
PRAISE = {"kind": "praise", "sure": True}


def changed(scenario: Scenario, **fields: Any) -> Scenario:
    return Scenario.model_validate(dict(scenario) | {"seeds": 3} | fields)


@pytest.mark.parametrize("target", targets(), ids=lambda target: Path(target).stem)
def test_shipped_scenarios_pass(target: str) -> None:
    result = CliRunner().invoke(eval_, [target, "--runs", "6"])
    assert result.exit_code == 0, result.output
    assert "FAILS" not in result.output
    assert " s of 120 " in result.output


@pytest.mark.parametrize(
    ("expect", "said"),
    [
        ({"end": "DEGRADED"}, "ended DONE, not DEGRADED"),
        ({"routed_to": ["judge"]}, "gave no task to judge"),
        ({"not_routed_to": ["clerk"]}, "gave a task to clerk"),
        ({"called": ["open_ticket"]}, "never called open_ticket"),
        ({"facts": {"answer": "No."}}, "answer is 'Thank you!', not 'No.'"),
        ({"result": {}}, "the result is"),
        ({"true": ["result.answer == 'No.'"]}, "not true: result.answer"),
        ({"budget": Budget(tokens=10)}, "tokens, over 10"),
    ],
)
def test_what_is_expected_is_looked_at(expect: dict[str, Any], said: str) -> None:
    verdict = play(TEAM, changed(THANKS, expect=Expect(**expect)), live=False)
    assert not verdict.passed
    assert said in verdict.problems[0]


def test_tool_that_was_called() -> None:
    verdict = play(TEAM, changed(BROKEN, expect=Expect(never_called=["open_ticket"])), live=False)
    assert "called open_ticket" in verdict.problems[0]


@pytest.mark.parametrize(
    ("limits", "said"),
    [
        ({"p50_s": 0.001}, "p50 of the latency"),
        ({"p95_s": 0.001}, "p95 of the latency"),
        ({"tokens": 1}, "tokens of a run"),
        ({"retry_rate": 0}, "share of attempts after the first"),
    ],
)
def test_what_is_beyond_its_limits_fails(limits: dict[str, Any], said: str) -> None:
    fails_once = [Stop("TOOL_DOWN"), Stop("TOOL_DOWN"), Stop("TOOL_DOWN"), PRAISE]
    calls = {"n": 0}

    def answers(messages: list[dict[str, Any]]) -> Any:
        calls["n"] += 1
        return fails_once[min(calls["n"], 4) - 1]

    scenario = changed(THANKS, models={"sorter": answers}, limits=Limits(**limits), seeds=1, faults=0)
    verdict = play(TEAM, scenario, live=False)
    assert said in verdict.problems[0]


def test_answer_that_changes_is_not_stable() -> None:
    kinds = iter(["praise", "refund", "praise", "refund", "praise"])
    scenario = changed(
        THANKS, models={"sorter": lambda _: {"kind": next(kinds), "sure": True}}, expect=Expect(), faults=0
    )
    assert "not stable: result" in play(TEAM, scenario, live=False).problems[0]


def test_live_asks_the_model_that_is_configured(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(Say(json.dumps(PRAISE), usage=(300, 20))) as at:
        monkeypatch.setenv("OPENAI_BASE_URL", at.url)
        monkeypatch.setenv("BLACKBOARD_MODEL", "m")
        verdict = play(TEAM, changed(THANKS, runs=2), live=True)
        assert (verdict.passed, len(at.asked), verdict.tokens) == (True, 2, 320), verdict.problems


def test_command_says_what_fails_and_exits_with_1(tmp_path: Path) -> None:
    path = tmp_path / "team.py"
    path.write_text(Path(EXAMPLE).read_text(encoding="utf-8").replace("Thank you!", "Thanks."), encoding="utf-8")
    text = path.read_text(encoding="utf-8").replace('result={"answer": "Thanks."}', 'result={"answer": "Thank you!"}')
    path.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(eval_, [str(path), "--runs", "2", "--json"])
    assert result.exit_code == 1
    told = json.loads(result.stdout)
    assert [one["passed"] for one in told["scenarios"]] == [True, False, True]
    assert "the result is {'answer': 'Thanks.'}" in told["scenarios"][1]["problems"][0]


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ([EXAMPLE, "nope"], "there is no scenario 'nope'; there are broken-handle, thanks, unsure"),
        (["nowhere.py"], "there is no file nowhere.py"),
        (["examples/topologies/fan_out.py"], "ships no scenario"),
    ],
)
def test_bad_words_are_a_sentence(words: list[str], said: str) -> None:
    result = CliRunner().invoke(eval_, words)
    assert result.exit_code == 2
    assert said in result.output


def test_script_without_an_answer_says_so() -> None:
    verdict = play(TEAM, changed(THANKS, models={"sorter/other": [PRAISE]}), live=False)
    assert "the script has no answers for sorter, task kind" in verdict.problems[0]
    nobody = replace(TEAM, scenarios=())
    assert "no model is configured" in play(nobody, changed(THANKS, models={}), live=False).problems[0]
