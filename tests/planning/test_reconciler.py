"""The reconciler: it sees a key and the values that differ, and answers with one of them, or not at all."""

import json
from typing import Any

import pytest
from pydantic import BaseModel

from schemas.playbooks import MergePolicy, Playbook, Step
from specialists.context import LocalContext
from specialists.models import MODEL
from specialists.reconciler import SHOWN_BYTES, VALUES_LIMIT, reconciler, reconciling
from specialists.specialist import Specialist, Team, specialist
from tests.models.endpoint import Endpoint, Say, Status, endpoint
from tests.topologies.casts import at_work, board_in_memory

VALUES: list[Any] = [{"price": 5}, {"price": 7}, "free"]


class Price(BaseModel):
    price: int


def verdict(**fields: Any) -> Say:
    return Say(json.dumps({"verdict": fields}))


def taken(number: int, confidence: str = "high") -> Say:
    return verdict(kind="value", number=number, confidence=confidence)


async def said(
    at: Endpoint, monkeypatch: pytest.MonkeyPatch, values: list[Any] | None = None, by: Specialist = reconciler
) -> Any:
    monkeypatch.setenv(MODEL, "scripted")
    monkeypatch.setenv("OPENAI_BASE_URL", at.url)
    given = VALUES if values is None else values
    return await by.invoke({"key": "lamp.price", "values": given}, LocalContext(by, kind="reconcile"))


@pytest.mark.parametrize("number", [1, 2, 3])
async def test_it_answers_with_one_of_the_values(number: int, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(taken(number)) as at:
        result = await said(at, monkeypatch)
    assert (result.code, result.value) == ("", VALUES[number - 1])


async def test_the_model_sees_the_key_and_the_values_and_is_not_left_to_chance(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(taken(1)) as at:
        await said(at, monkeypatch)
    (asked,) = at.asked
    assert (asked["temperature"], asked["seed"]) == (0, 0)
    system, user = asked["messages"]
    assert user["content"] == (
        'Key: lamp.price\nValues:\n1: {"price": 5}\n2: {"price": 7}\n3: "free"\nWhich one is right?'
    )
    assert "data" in system["content"]
    schema = asked["response_format"]["json_schema"]
    assert schema["strict"] is True
    assert schema["schema"]["$defs"]["Taken"]["properties"]["number"]["enum"] == [1, 2, 3]
    assert set(schema["schema"]["$defs"]) == {"Taken", "Unsure"}


@pytest.mark.parametrize(
    "answer", [verdict(kind="unsure"), taken(1, "low")], ids=["it cannot tell", "it is not sure enough"]
)
async def test_where_it_cannot_it_stops(answer: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(answer) as at:
        result = await said(at, monkeypatch)
    assert result.code == "LOW_CONFIDENCE"


@pytest.mark.parametrize(
    "values", [[], [1], list(range(VALUES_LIMIT + 1)), ["x" * SHOWN_BYTES, "y"]], ids=["none", "one", "many", "large"]
)
async def test_what_it_does_not_compare_costs_nothing(values: list[Any], monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(taken(1)) as at:
        result = await said(at, monkeypatch, values)
    assert (result.code, at.asked) == ("LOW_CONFIDENCE", [])


@pytest.mark.parametrize(
    "answer",
    [taken(4), taken(0), verdict(kind="own", value={"price": 6}, confidence="high"), Say("lamp"), taken(1, "sure")],
    ids=["no such value", "none", "a value of its own", "words", "another word"],
)
async def test_it_cannot_say_anything_else(answer: Say, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(answer) as at:
        result = await said(at, monkeypatch)
    assert result.code == "INVALID_OUTPUT"
    assert len(at.asked) == 3


async def test_where_its_contract_allows_it_may_give_a_value_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    free = reconciling("prices", Price, free=True)
    values = [{"price": 5}, {"price": 7}]
    with endpoint(verdict(kind="own", value={"price": 6}, confidence="medium")) as at:
        result = await said(at, monkeypatch, values, free)
        assert result.value == {"price": 6}
        at.answers = [taken(2)]
        assert (await said(at, monkeypatch, values, free)).value == {"price": 7}
    assert free.contract().output["required"] == ["price"]


async def test_a_claim_that_its_contract_does_not_allow_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(taken(3)) as at:
        result = await said(at, monkeypatch, by=reconciling("prices", Price))
    assert result.code == "INVALID_OUTPUT"


async def test_more_confidence_may_be_wanted(monkeypatch: pytest.MonkeyPatch) -> None:
    strict = reconciling("strict", least="high")
    with endpoint(taken(1, "medium")) as at:
        assert (await said(at, monkeypatch, by=strict)).code == "LOW_CONFIDENCE"
        at.answers = [taken(1, "high")]
        assert (await said(at, monkeypatch, by=strict)).value == VALUES[0]


async def test_an_endpoint_that_is_down(monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(Status(503)) as at:
        assert (await said(at, monkeypatch)).code == "TOOL_DOWN"


# --- on a board -------------------------------------------------------------------------------------------------------


@specialist("low", offers="price")
async def low(item: dict[str, str]) -> dict[str, int]:
    return {"price": 5}


@specialist("high", offers="price")
async def high(item: dict[str, str]) -> dict[str, int]:
    return {"price": 7}


@pytest.mark.parametrize(
    ("answer", "end", "value"),
    [(taken(2), "DONE", {"price": 7}), (verdict(kind="unsure"), "DEGRADED", None)],
    ids=["it can", "it cannot"],
)
async def test_claims_that_differ_become_one_fact(
    answer: Say, end: str, value: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    merge = MergePolicy(policy="reconcile", specialist="reconciler")
    step = Step(id="price", capability="price", specialist="all", merge=merge, missing="allow")
    playbook = Playbook(team="prices", steps=[step], returns={"price": "facts.price"})
    monkeypatch.setenv(MODEL, "scripted")
    with endpoint(answer) as at:
        monkeypatch.setenv("OPENAI_BASE_URL", at.url)
        async with at_work(board_in_memory(), [Team(playbook, [low, high, reconciler])]) as cast:
            state = await cast.ended(await cast.publish("prices"))
    assert (state.end, state.result) == (end, {"price": value})
    if value:
        fact = state.facts["price"]
        assert (fact.by, fact.task) == ("reconciler", "price-2")
        assert {loser.by: loser.reason for loser in fact.losers} == {"low": "reconciled", "high": ""}
    else:
        assert state.missing["price"].code == "LOW_CONFIDENCE"
    assert (state.usage.input_tokens, state.usage.output_tokens) == tuple(at.used)
