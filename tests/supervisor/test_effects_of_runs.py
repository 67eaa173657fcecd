"""What a run makes of intents and receipts, whenever they come, and how it undoes what it has done."""

from typing import Any

import pytest

from schemas.effects import ANSWER, question_about
from supervisor import intents
from tests.coordination.asking import answer, deny
from tests.supervisor.scenario import (
    Due,
    Said,
    Scenario,
    cancel,
    ended,
    event,
    failed,
    given,
    goal,
    offer,
    step,
    teach,
)

KEY, OTHER = "a" * 32, "b" * 32
PAYS = {
    "authority": "effect",
    "tools": [{"tool": "pay", "effect": {"probe": True, "undo": "refund"}}, {"tool": "mail", "effect": {}}],
}


def intent(task: str = "a", key: str = KEY, round_: int = 1, by: str = "w", tool: str = "pay", **fields: Any) -> Said:
    body = {"type": "effect_intended", "task": task, "attempt": 1, "execution": "x", "tool": tool, "key": key}
    return Said("intent", by, body | {"round": round_, "arguments": {"amount": 5}} | fields)


def receipt(
    task: str = "a", key: str = KEY, round_: int = 1, done: bool = True, by: str = "w", tool: str = "pay", **fields: Any
) -> Said:
    body = {"type": "effect_receipt", "task": task, "attempt": 1, "execution": "x", "tool": tool, "key": key}
    return Said("obs", by, body | {"round": round_, "done": done, "result": {"booked": 5} if done else None} | fields)


def unknown(task: str = "a", key: str = KEY, round_: int = 1, attempt: int = 1) -> Said:
    ask, action = question_about("pay", key, round_, {"amount": 5})
    question = {"ask": ask, "schema": ANSWER, "action": action}
    return failed(task, "EFFECT_UNKNOWN", attempt, question=question)


def paying(*said: Said | Due, steps: int = 1, **contract: Any) -> Scenario:
    """A run of `a`, which may pay, and of steps that follow it, `b` and so on."""
    more = [step(name, "other", needs=["a"]) for name in "bcd"[: steps - 1]]
    playbook = teach(step("a", gate={}), *more, returns={"a": "facts.a"})
    return given(offer("w", "work", **PAYS | contract), offer("v", "other"), playbook, goal(approve=True), *said)


# --- what is recorded -------------------------------------------------------------------------------------------------


def test_intent_and_receipt_are_in_the_history() -> None:
    run = paying(intent()).then(event("effect_intended", task="a", key=KEY, round=1, undo="refund", contract=1))
    assert run.state.effects[KEY].unknown
    run.when(receipt()).then(event("effect_receipt", task="a", key=KEY, done=True, source="call"))
    effect = run.state.effects[KEY]
    assert (effect.unknown, effect.times) == (False, 1)
    run.when(intent(), receipt()).then()
    run.when(ended("a", {"a": 1}))
    assert run.state.end == "DONE"


def test_what_comes_after_the_end_is_recorded_all_the_same() -> None:
    run = paying(ended("a", {"a": 1}))
    assert run.state.end == "DONE"
    run.when(intent()).then(event("effect_intended"))
    run.when(receipt()).then(event("effect_receipt"))
    assert run.state.effects[KEY].done


def test_what_was_done_twice_says_so() -> None:
    run = paying(intent(), receipt(done=False), intent(round_=2), receipt(round_=2), receipt())
    assert run.state.effects[KEY].times == 2


@pytest.mark.parametrize(
    "said",
    [
        intent(by="eve"),
        intent(task="z"),
        receipt(by="eve"),
        receipt(key=OTHER),
    ],
)
def test_what_is_said_by_others_or_of_nothing_is_late(said: Said) -> None:
    run = paying(intent()).when(said)
    run.then(event("input_late", author=said.author))


def test_intent_on_the_subject_of_another_effect_is_refused() -> None:
    class Elsewhere(Said):
        @property
        def data(self) -> bytes:
            return super().data.replace(KEY.encode(), OTHER.encode())

    run = paying().when(Elsewhere(*intent()))
    assert run.rejections() == ["names another effect than its subject"]


def test_effects_have_a_limit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(intents, "EFFECTS_LIMIT", 3)
    run = paying(*(intent(key=f"{number:032x}") for number in range(3)))
    run.when(intent()).then(event("input_late", author="w"))
    run.when(receipt(key=f"{0:032x}")).then(event("effect_receipt"))
    assert len(run.state.effects) == 3


# --- nobody knows -----------------------------------------------------------------------------------------------------


def test_people_are_asked_and_their_answer_goes_with_the_task() -> None:
    run = paying(intent()).when(unknown())
    run.then(event("attempt_failed", code="EFFECT_UNKNOWN", lost=False), event("gate_opened", gate="a.1", task="a"))
    assert run.state.phase == "NEEDS_INPUT"
    said = {"done": True, "result": 7}
    run.when(answer(run.state.gates["a.1"].digest, "a.1", said))
    [task] = run.tasks_in_flight()
    assert (task.attempt, [one.value for one in task.answers]) == (2, [said])


def test_an_answer_out_of_schema_is_none() -> None:
    run = paying(intent(), unknown())
    run.when(answer(run.state.gates["a.1"].digest, "a.1", {"result": 7})).then(event("input_late"))


def test_a_receipt_that_came_meanwhile_gives_the_task_out_again() -> None:
    run = paying(intent(), receipt()).when(unknown())
    run.then(event("attempt_failed", code="EFFECT_UNKNOWN", lost=False), event("task_dispatched", attempt=2))
    [task] = run.tasks_in_flight()
    assert [(one.key, one.round, one.done, one.result) for one in task.effects] == [(KEY, 1, True, {"booked": 5})]
    run.when(unknown(attempt=2))
    assert run.state.open_gates, "it was told, and asks all the same"


def test_a_task_in_flight_keeps_its_bytes_when_a_receipt_comes() -> None:
    run = paying(intent())
    before = run.tasks_in_flight()
    assert run.when(receipt()).tasks_in_flight() == before


def test_a_late_receipt_answers_the_question() -> None:
    run = paying(intent(), unknown()).when(receipt())
    run.then(
        event("effect_receipt"),
        event("gate_answered", gate="a.1", by="w", value={"done": True, "result": {"booked": 5}}),
        event("task_dispatched", attempt=2),
    )


def test_who_does_not_say_of_which_effect_asks_nothing() -> None:
    run = paying(intent()).when(failed("a", "EFFECT_UNKNOWN", question={"ask": "well?", "action": {}}))
    assert [one.code for one in run.last if hasattr(one, "code")][:1] == ["INVALID_OUTPUT"]


# --- undoing ----------------------------------------------------------------------------------------------------------


def in_vain(steps: int = 2) -> Scenario:
    """A run that has paid, and whose next step has failed."""
    run = paying(intent(), receipt(), ended("a", {"a": 1}), steps=steps)
    return run.when(failed("b", "LOW_CONFIDENCE", by="v"))


def undo_done(number: int, by: str = "w") -> list[Said]:
    name = f"undo_{number}"
    key = f"{number:032x}"
    return [
        intent(name, key, tool="refund", by=by),
        receipt(name, key, tool="refund", by=by),
        ended(name, {f"undo.pay.{number}": {"undone": True}}, by=by),
    ]


def test_the_run_ends_when_it_is_undone() -> None:
    run = in_vain()
    assert (run.state.phase, run.state.end) == ("UNDO", "")
    [task] = run.tasks_in_flight()
    assert (task.kind, task.specialist, task.items[0].input["key"]) == ("undo", "w", KEY)
    assert task.effects[0].result == {"booked": 5}
    run.when(*undo_done(1))
    assert (run.state.end, run.state.code) == ("FAILED", "LOW_CONFIDENCE")
    assert run.state.reason.endswith("; undone: pay of a")
    assert run.state.effects[KEY].undone


def test_the_newest_first_and_one_after_the_other() -> None:
    run = paying(intent(), receipt(), intent(key=OTHER), receipt(key=OTHER), ended("a", {"a": 1}), steps=2)
    run.when(failed("b", "LOW_CONFIDENCE", by="v"))
    assert [task.items[0].input["key"] for task in run.tasks_in_flight()] == [OTHER]
    run.when(*undo_done(1))
    assert [task.items[0].input["key"] for task in run.tasks_in_flight()] == [KEY]
    run.when(*undo_done(2))
    assert run.state.reason.endswith("; undone: pay of a, pay of a")


def test_what_else_is_in_flight_is_dropped_and_its_end_is_late() -> None:
    run = in_vain(steps=3)
    assert [task.kind for task in run.tasks_in_flight()] == ["undo"]
    run.when(ended("c", {"c": 1}, by="v", usage={"input_tokens": 3})).then(
        event("input_late", reason="the run is ending")
    )
    assert run.state.usage.input_tokens == 3


def test_who_may_be_in_the_middle_of_an_effect_is_heard_out() -> None:
    run = paying().when(cancel())
    run.then(event("run_ending", end="CANCELLED", waits=["a"]))
    assert run.tasks_in_flight() == [], "nobody else begins"
    run.when(intent(), receipt()).when(failed("a", "TIMEOUT"))
    assert [task.kind for task in run.tasks_in_flight()] == ["undo"]
    run.when(*undo_done(1))
    assert (run.state.end, run.state.effects[KEY].undone) == ("CANCELLED", True)


def test_who_is_not_heard_of_in_its_time_is_not_waited_for() -> None:
    run = paying().when(cancel())
    assert run.state.timers["task.a"].delay_ms == 30_000, "of its work: it has begun by now, or never will"
    run.when(Due("task.a"))
    assert (run.state.end, run.state.reason) == ("CANCELLED", "ann")


def test_what_nobody_knows_of_is_looked_up_by_who_undoes() -> None:
    run = paying(intent()).when(cancel(), Due("task.a"))
    [task] = run.tasks_in_flight()
    assert (task.kind, task.effects) == ("undo", ())
    run.when(receipt("undo_1", KEY, done=False, source="probe"), ended("undo_1", {"undo.pay.1": {"undone": False}}))
    assert (run.state.end, run.state.reason) == ("CANCELLED", "ann")


def test_what_cannot_be_undone_is_named() -> None:
    run = in_vain().when(failed("undo_1", "POLICY_BLOCKED", message="the till is closed"))
    assert (run.state.end, run.state.code) == ("FAILED", "LOW_CONFIDENCE")
    assert run.state.reason.endswith("; not undone: pay of a")


def test_what_no_tool_undoes_is_named() -> None:
    said = [intent(tool="mail"), receipt(tool="mail"), ended("a", {"a": 1}), failed("b", "LOW_CONFIDENCE", by="v")]
    run = paying(*said, steps=2)
    assert (run.state.end, run.state.reason[-21:]) == ("FAILED", "not undone: mail of a")


def test_attempts_and_people_hold_for_undoing_as_for_any_task() -> None:
    run = in_vain()
    run.when(failed("undo_1", "TOOL_DOWN"))
    [task] = run.tasks_in_flight()
    assert (task.task, task.attempt) == ("undo_1", 2)
    run.when(unknown("undo_1", OTHER, attempt=2))
    assert run.state.phase == "NEEDS_INPUT"
    run.when(deny(run.state.gates["undo_1.2"].digest, "undo_1.2"))
    assert (run.state.end, run.state.reason[-20:]) == ("FAILED", "not undone: pay of a")


def test_a_second_cancel_changes_nothing() -> None:
    in_vain().when(cancel()).then(event("input_late", author="ann", reason="the run is ending already"))


def test_undoing_is_never_refused_for_want_of_budget() -> None:
    playbook = teach(step("a", gate={}), step("b", "other", needs=["a"]), budget={"tool_calls": 1})
    run = given(offer("w", "work", **PAYS), offer("v", "other"), playbook, goal(approve=True))
    run.say(intent(), receipt(), ended("a", {"a": 1}, usage={"tool_calls": 1}))
    assert run.state.phase == "UNDO", "b cannot be paid for"
    run.when(*undo_done(1)[:2], ended("undo_1", {"undo.pay.1": {"undone": True}}, usage={"tool_calls": 1}))
    assert (run.state.end, run.state.code) == ("FAILED", "BUDGET_EXCEEDED")
    assert (run.state.charged.tool_calls, run.state.overrun.tool_calls) == (1, 1)


def test_a_run_that_is_done_undoes_nothing() -> None:
    run = paying(intent(), receipt()).when(ended("a", {"a": 1}))
    assert (run.state.end, run.state.effects[KEY].undone) == ("DONE", False)
