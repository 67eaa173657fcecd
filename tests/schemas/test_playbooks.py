"""Playbooks, each way to be wrong, and the plan that a run commits."""

import json
from typing import Any

import pytest

from schemas.plans import plan_steps
from schemas.playbooks import STEP_NAME_LIMIT, Playbook, read_playbook
from schemas.steps import Merge

STEP: dict[str, Any] = {"id": "a", "capability": "work"}


def read(*steps: dict[str, Any], **fields: Any) -> Playbook | str:
    return read_playbook(json.dumps({"team": "t", "steps": steps or [STEP], **fields}).encode(), "t")


def sound(*steps: dict[str, Any], **fields: Any) -> Playbook:
    playbook = read(*steps, **fields)
    assert isinstance(playbook, Playbook), playbook
    return playbook


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"id": "a b"}, "steps.0.id: is not allowed (string_pattern_mismatch)"),
        ({"id": "a" * (STEP_NAME_LIMIT + 1)}, "steps.0.id: is not allowed (string_too_long)"),
        ({"needs": ["b"]}, "steps: step 'a' needs 'b', which is no step"),
        ({"needs": ["a"]}, "steps: steps need each other in a circle: a -> a"),
        ({"capability": ""}, "steps.0: step 'a' needs one of capability, team, value and question"),
        ({"team": "u"}, "steps.0: step 'a' needs one of capability, team, value and question"),
        ({"wait_s": 0}, "steps.0.wait_s: is not allowed (greater_than)"),
        ({"wait_s": -5}, "steps.0.wait_s: is not allowed (greater_than)"),
        ({"deadline_s": -1}, "steps.0.deadline_s: is not allowed (greater_than)"),
        ({"deadline_s": 1e9}, "steps.0.deadline_s: is not allowed (less_than_equal)"),
        ({"await_s": -1}, "steps.0.await_s: is not allowed (greater_than)"),
        ({"attempts": 0}, "steps.0.attempts: is not allowed (greater_than_equal)"),
        ({"tasks": 0}, "steps.0.tasks: is not allowed (greater_than_equal)"),
        ({"tasks": 2_001}, "steps.0.tasks: is not allowed (less_than_equal)"),
        ({"missing": "ignore"}, "steps.0.missing: is not allowed (literal_error)"),
        ({"silent": ["SLEEPY"]}, "steps.0.silent.0: is not allowed (literal_error)"),
        ({"when": "a ="}, "steps.0.when: 'a =' is not a JMESPath expression"),
        ({"when": "(" * 5_000}, None),
        ({"for_each": "[?"}, "steps.0.for_each: '[?' is not a JMESPath expression"),
        ({"accept": "value >"}, "steps.0.accept: 'value >' is not a JMESPath expression"),
        ({"input": {"x": "`"}}, "steps.0.input: '`' is not a JMESPath expression"),
        ({"fact": "v.{item..}"}, "steps.0.fact: 'item..' is not a JMESPath expression"),
        ({"merge": {"policy": "a vote"}}, "steps.0.merge.policy: is not allowed (string_pattern_mismatch)"),
        ({"merge": {"policy": "priority"}}, "steps.0.merge: order: `priority` needs one, the other policies have none"),
        ({"merge": {"order": ["w"]}}, "steps.0.merge: order: `priority` needs one, the other policies have none"),
        (
            {"merge": {"policy": "priority", "order": ["by =="]}},
            "steps.0.merge.order: 'by ==' is not a JMESPath expression",
        ),
        ({"color": "red"}, "steps.0.color: is not a known field"),
    ],
)
def test_step_that_is_wrong(fields: dict[str, Any], reason: str | None) -> None:
    found = read(STEP | fields)
    assert found == reason if reason else isinstance(found, str)
    assert len(str(found)) < 400


@pytest.mark.parametrize(
    ("steps", "reason"),
    [
        ([STEP, STEP], "steps: step 'a' stands twice"),
        (
            [STEP | {"needs": ["b"]}, {"id": "b", "capability": "c", "needs": ["a"]}],
            "steps: steps need each other in a circle: ",
        ),
        ([STEP, {"id": "a-0", "capability": "c"}], "steps: step 'a-0' is named like a task of step 'a'"),
        ([{"id": "a-17", "capability": "c"}, STEP], "steps: step 'a-17' is named like a task of step 'a'"),
    ],
)
def test_steps_that_do_not_go_together(steps: list[dict[str, Any]], reason: str) -> None:
    assert str(read(*steps)).startswith(reason)


def test_steps_that_only_look_like_tasks_go_together() -> None:
    sound(STEP, STEP | {"id": "a-b"}, STEP | {"id": "a-"}, STEP | {"id": "b-0"})


@pytest.mark.parametrize(
    ("fields", "reason"),
    [
        ({"team": "u"}, "team: names 'u', the subject names 't'"),
        ({"steps": []}, "steps: is not allowed (too_short)"),
        ({"steps": [STEP | {"id": f"s{n}"} for n in range(201)]}, "steps: is not allowed (too_long)"),
        ({"parallel": 0}, "parallel: is not allowed (greater_than_equal)"),
        ({"parallel": 501}, "parallel: is not allowed (less_than_equal)"),
        ({"input": {"type": "nix"}}, "input: is not a JSON Schema at /type"),
        ({"result": {"minimum": "x"}}, "result: is not a JSON Schema at /minimum"),
        ({"returns": {"x": "a["}}, "returns: 'a[' is not a JMESPath expression"),
        ({"v": 2}, "v: unknown version '2'"),
        ({"version": 0}, "version: is not allowed (greater_than_equal)"),
    ],
)
def test_playbook_that_is_wrong(fields: dict[str, Any], reason: str) -> None:
    data = {"team": "t", "steps": [STEP]} | fields
    assert read_playbook(json.dumps(data).encode(), "t") == reason


def test_steps_stand_after_what_they_need() -> None:
    steps = [
        STEP | {"id": "d", "needs": ["b", "c"]},
        STEP | {"id": "c", "needs": ["a"]},
        STEP | {"id": "b", "needs": ["a"]},
        STEP | {"id": "a"},
    ]
    order = [step.id for step in sound(*steps).steps]
    assert order[0] == "a"
    assert order[-1] == "d"


def test_plan_in_milliseconds_with_the_keys_that_the_author_left_out() -> None:
    priority = {"policy": "priority", "order": ["w", "confidence > `0.5`"]}
    plan = plan_steps(
        sound(
            STEP | {"wait_s": 1.5, "deadline_s": 0.25, "await_s": 2, "merge": priority},
            {"id": "b", "team": "u", "for_each": "input.n"},
            {"id": "c", "capability": "x", "fact": "v.{item}", "for_each": "input.n"},
        )
    )
    a, b, c = plan
    assert (a.wait_ms, a.work_ms, a.await_ms, a.fact) == (1_500, 250, 2_000, "a")
    assert a.merge == Merge("priority", ("w", "confidence > `0.5`"))
    assert (b.fact, b.work_ms, b.attempts) == ("b.{index}", None, None)
    assert c.fact == "v.{item}"
