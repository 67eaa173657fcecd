"""A specialist asks people in the middle of its work, and goes on when they have answered exactly that."""

import asyncio
from typing import Any

import pytest

from schemas.codec import VALUE_LIMIT, digest, encode
from schemas.inputs import Ended, Question, read_input
from schemas.subjects import Subjects
from schemas.tasks import Answered, Item
from schemas.usage import Usage
from specialists.context import LocalContext
from specialists.signature import BadSpecialist
from specialists.specialist import Context, NeedsInput, Stop
from specialists.stop import MESSAGE_CHARACTERS
from specialists.worker_events import Finished
from tests.specialists.bench import Bench, Word, named

COUNT = {"type": "integer", "minimum": 1}


async def orders(item: Word, context: Context) -> dict[str, Any]:
    context.use(input_tokens=1)
    count = await context.ask(f"how many {item.word}?", COUNT)
    context.use(input_tokens=1)
    return {"word": item.word, "count": count}


def answered(ask: str, value: Any = None, schema: dict[str, Any] | None = None, action: Any = None) -> Answered:
    """What the supervisor makes of an answer."""
    return Answered(ask, action, Question(ask=ask, schema=schema, action=action).digest, "ann", value)


# --- asking -----------------------------------------------------------------------------------------------------------


async def test_question_ends_the_task(bench: Bench) -> None:
    await bench.put(Item("key", {"word": "apples"}))
    async with bench.working(named(orders)):
        end = await bench.end()
    assert (end.code, end.message, end.claims) == ("NEEDS_INPUT", "how many apples?", ())
    assert end.question == Question(ask="how many apples?", schema=COUNT)
    assert end.usage == Usage(1)
    assert [(one.how, one.code) for one in bench.told if isinstance(one, Finished)] == [("stored", "NEEDS_INPUT")]


async def test_work_goes_on_with_the_answer(bench: Bench) -> None:
    await bench.put(Item("key", {"word": "apples"}), answers=(answered("how many apples?", 7, COUNT),), attempt=2)
    async with bench.working(named(orders)):
        end = await bench.end()
    assert (end.code, end.claims[0].value) == ("", {"word": "apples", "count": 7})
    assert end.usage == Usage(2)


@pytest.mark.parametrize(
    "other",
    [
        answered("how many pears?", 7, COUNT),
        answered("how many apples?", 7, {"type": "integer"}),
        answered("how many apples?", 7, COUNT, {"of": "apples"}),
        answered("how many apples?", 7),
    ],
    ids=["question", "schema", "action", "approval"],
)
async def test_answer_to_something_else_is_no_answer(bench: Bench, other: Answered) -> None:
    await bench.put(Item("key", {"word": "apples"}), answers=(other,), attempt=2)
    async with bench.working(named(orders)):
        assert (await bench.end()).code == "NEEDS_INPUT"


@pytest.mark.parametrize("value", [0, "", None, False, [], {}])
async def test_empty_answers_are_answers(bench: Bench, value: Any) -> None:
    async def asks(item: Word, context: Context) -> dict[str, Any]:
        return {"said": await context.ask("what?", {})}

    await bench.put(answers=(answered("what?", value, {}),))
    async with bench.working(named(asks)):
        assert (await bench.end()).claims[0].value == {"said": value}


async def test_without_a_schema_an_action_is_approved(bench: Bench) -> None:
    async def acts(item: Word, context: Context) -> dict[str, Any]:
        return {"approved": await context.ask("delete it?", action={"delete": item.word})}

    approval = answered("delete it?", action={"delete": "hello"})
    for name, answers in (("a", ()), ("b", (approval,))):
        await bench.put(name=name, answers=answers)
        async with bench.working(named(acts)):
            await bench.until(bench.idle)
    first, second = await bench.observations()
    assert (first.code, first.question.schema, first.question.action) == ("NEEDS_INPUT", None, {"delete": "hello"})
    assert second.claims[0].value == {"approved": True}


async def test_one_question_after_the_other(bench: Bench) -> None:
    async def chats(item: Word, context: Context) -> dict[str, Any]:
        name = await context.ask("who?", {"type": "string"})
        return {"said": await context.ask(f"where is {name}?", {"type": "string"})}

    first = answered("who?", "ann", {"type": "string"})
    second = answered("where is ann?", "Ulm", {"type": "string"})
    for number, answers in enumerate([(), (first,), (first, second)]):
        await bench.put(name=f"step-{number}", answers=answers)
        async with bench.working(named(chats)):
            await bench.until(bench.idle)
    asked = [end.question and end.question.ask for end in await bench.observations()]
    assert asked == ["who?", "where is ann?", None]


async def test_question_of_one_item_ends_the_task_of_several(bench: Bench) -> None:
    await bench.put(*(Item(f"key.{word}", {"word": word}) for word in ("apples", "pears", "plums")))
    async with bench.working(named(orders)):
        end = await bench.end()
    assert (end.code, end.message) == ("NEEDS_INPUT", "key.apples: how many apples?")
    assert (end.claims, end.silences, end.usage) == ((), (), Usage(1))
    answers = tuple(answered(f"how many {word}?", 3, COUNT) for word in ("apples", "plums"))
    items = [Item(f"key.{word}", {"word": word}) for word in ("apples", "pears", "plums")]
    await bench.put(*items, attempt=2, answers=answers)
    async with bench.working(named(orders)):
        await bench.until(bench.idle)
    again = (await bench.observations())[-1]
    assert again.question is not None
    assert (again.question.ask, again.usage) == ("how many pears?", Usage(3))


async def test_question_comes_out_of_a_task_group(bench: Bench) -> None:
    async def grouped(item: Word, context: Context) -> dict[str, Any]:
        async with asyncio.TaskGroup() as group:
            group.create_task(context.ask("who?", {"type": "string"}))
            group.create_task(asyncio.sleep(30))
        return {}

    await bench.put()
    async with bench.working(named(grouped)):
        end = await bench.end()
    assert (end.code, end.message) == ("NEEDS_INPUT", "who?")


async def test_defect_beside_a_question_is_a_defect(bench: Bench, caplog: pytest.LogCaptureFixture) -> None:
    async def breaks() -> None:
        raise KeyError("x")

    async def grouped(item: Word, context: Context) -> dict[str, Any]:
        async with asyncio.TaskGroup() as group:
            group.create_task(context.ask("who?", {"type": "string"}))
            group.create_task(breaks())
        return {}

    await bench.put()
    async with bench.working(named(grouped)):
        end = await bench.end()
    assert (end.code, end.question) == ("INTERNAL", None)
    assert "KeyError: 'x'" in caplog.text


async def test_plain_function_asks_by_raising(bench: Bench) -> None:
    def plain(item: Word, context: Context) -> dict[str, Any]:
        raise NeedsInput("who?", {"type": "string"})

    await bench.put()
    async with bench.working(named(plain)):
        end = await bench.end()
    assert end.question == Question(ask="who?", schema={"type": "string"})


async def test_who_asks_for_ever_what_is_answered_is_stopped(bench: Bench) -> None:
    def plain(item: Word, context: Context) -> dict[str, Any]:
        raise NeedsInput("who?", {"type": "string"})

    await bench.put(answers=(answered("who?", "ann", {"type": "string"}),), attempt=2)
    async with bench.working(named(plain)):
        end = await bench.end()
    assert (end.code, end.question) == ("INTERNAL", None)
    assert end.message == "asks what was answered already, take it from context.ask(): who?"


# --- what can be asked ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("question", "problem"),
    [
        ({"ask": ""}, "a question has 1 to 1000 characters, not 0"),
        ({"ask": " "}, "a question has 1 to 1000 characters"),
        ({"ask": "x" * 1001}, "not 1001; what it is about goes into action="),
        ({"ask": "\ud800"}, "half of a character"),
        ({"schema": {"type": "number or so"}}, "the schema of the answer is not a JSON Schema at /type"),
        ({"schema": {"$ref": "https://example.com/x.json"}}, "the schema of the answer is not a JSON Schema at /"),
        ({"schema": int}, "the schema of the answer cannot be exact JSON"),
        ({"schema": {"enum": [float("nan")]}}, "a number that is not finite"),
        ({"action": object()}, "an object of type object"),
        ({"action": "x" * VALUE_LIMIT}, f"over {VALUE_LIMIT}; name a blob in it"),
        ({"expires_s": 0}, "expires_s=0: a question waits"),
        ({"expires_s": float("nan")}, "expires_s=nan: a question waits"),
        ({"expires_s": 400 * 86_400}, "a question waits at most"),
    ],
)
def test_what_cannot_be_asked_is_refused_at_once(question: dict[str, Any], problem: str) -> None:
    with pytest.raises(ValueError, match=r"question|schema|JSON") as error:
        NeedsInput(**{"ask": "what?"} | question)
    assert problem in str(error.value)


async def test_bad_question_is_a_mistake_of_the_specialist(bench: Bench) -> None:
    async def asks(item: Word, context: Context) -> dict[str, Any]:
        return {"said": await context.ask("what?", {"type": "number or so"})}

    await bench.put()
    async with bench.working(named(asks)):
        end = await bench.end()
    assert (end.code, end.question) == ("INTERNAL", None)
    assert end.message == "ValueError: the schema of the answer is not a JSON Schema at /type"


def test_digest_is_that_of_what_goes_over_the_wire() -> None:
    """The supervisor takes it from what it reads; the worker, from what it asks."""
    asked = NeedsInput("what?", {"enum": (1, 2.0, "é")}, action={"b": {3, 1}, "a": 1e22}, expires_s=0.5).question
    ended = Ended(task="t", attempt=1, execution="e", usage=Usage(), code="NEEDS_INPUT", question=asked)
    subject = "bb.main.obs.worker.run"
    read = read_input(1, subject, Subjects().parse(subject), 0, encode(ended)).body
    assert isinstance(read, Ended)
    assert read.question is not None
    assert read.question == asked
    assert read.question.digest == asked.digest
    assert asked.digest == digest({"ask": "what?", "schema": asked.schema, "action": asked.action})
    assert asked.expires_ms == 500


def test_a_question_is_never_cut() -> None:
    """Two that begin alike would have one answer."""
    asked = [NeedsInput("x" * (MESSAGE_CHARACTERS - 1) + end).question for end in "ab"]
    assert asked[0].digest != asked[1].digest


def test_stop_leaves_questions_and_hand_offs_to_their_own() -> None:
    with pytest.raises(ValueError, match="raise NeedsInput, which says more"):
        Stop("NEEDS_INPUT", "what?")
    with pytest.raises(ValueError, match="raise HandOff, which says more"):
        Stop("HANDED_OFF", "to ann")


# --- with no board ----------------------------------------------------------------------------------------------------


async def test_test_of_a_specialist_gives_answers_by_the_text_of_the_question() -> None:
    made = named(orders)
    context = LocalContext(made, answers={"how many apples?": 4})
    assert await made(Word(word="apples"), context) == {"word": "apples", "count": 4}
    with pytest.raises(NeedsInput, match=r"how many pears\?"):
        await made(Word(word="pears"), context)


def test_who_may_not_ask_is_told_where_it_is_made() -> None:
    with pytest.raises(BadSpecialist, match="stops= has 'GAVE_UP'; the codes are BUDGET_EXCEEDED, "):
        named(orders, stops=["GAVE_UP"])


async def test_who_asks_and_may_not_is_internal(bench: Bench) -> None:
    await bench.put(Item("key", {"word": "apples"}))
    async with bench.working(named(orders, stops=["LOW_CONFIDENCE"])):
        end = await bench.end()
    assert (end.code, end.question) == ("INTERNAL", None)
    assert end.message == "ended with NEEDS_INPUT, which is not in its stops=: how many apples?"
