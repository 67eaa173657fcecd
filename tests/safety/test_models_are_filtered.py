"""What a filtered specialist says to a model, and what the model answers, goes through the filter as well."""

import random
from typing import Literal

import pytest
from pydantic import BaseModel

from schemas.inputs import Ended, ModelCalled
from schemas.tasks import Item
from specialists.chat import Chat
from specialists.context import WorkContext
from specialists.filtering import Filter
from specialists.models import Model
from tests.models.endpoint import Endpoint, Raw, Say, Status, served
from tests.safety.corpus import FORMS
from tests.specialists.bench import Bench, named

SECRET = FORMS["github-token"](random.Random(31))
OTHER = FORMS["slack-token"](random.Random(32))


class Ask(BaseModel):
    url: str
    say: str


async def asker(ask: Ask, context: WorkContext) -> str:
    model = Model(name="m", base_url=ask.url, attempts=1)
    return await Chat(context, model, system=f"You know {ask.say}.").ask(f"What is {ask.say}?")


async def asked(
    bench: Bench, mode: Literal["redact", "refuse"], say: str, answer: Say | Status | Raw
) -> tuple[Ended, Endpoint]:
    endpoint = Endpoint(answer)
    with served(endpoint.handle) as url:
        await bench.put(Item("key", {"url": url, "say": say}))
        async with bench.working(named(asker, attempts=1), filter=Filter(mode)):
            return await bench.end(), endpoint


async def stored(bench: Bench) -> bytes:
    blobs = bench.board.blobs
    calls = await bench.observations(ModelCalled)
    names = [name for call in calls for name in (call.request, call.messages, call.answer) if name]
    return b"".join([await blobs.get(name) for name in names])


async def test_neither_the_model_nor_the_record_sees_a_secret() -> None:
    ended, endpoint = await asked(bench := Bench(), "redact", SECRET, Say(f"It is {OTHER}, I think."))
    assert SECRET not in str(endpoint.asked)
    assert str(endpoint.asked).count("[redacted: github-token]") == 2
    assert [claim.value for claim in ended.claims] == ["It is [redacted: slack-token], I think."]
    kept = await stored(bench)
    assert b"[redacted: slack-token]" in kept
    assert SECRET.encode() not in kept
    assert OTHER.encode() not in kept


async def test_a_message_that_is_refused_is_not_sent() -> None:
    ended, endpoint = await asked(Bench(), "refuse", SECRET, Say("fine"))
    assert (ended.code, endpoint.asked) == ("POLICY_BLOCKED", [])
    assert "1 github-token at /content" in ended.message


async def test_an_answer_that_is_refused_is_booked_all_the_same() -> None:
    ended, endpoint = await asked(bench := Bench(), "refuse", "that", Say(OTHER))
    assert ended.code == "POLICY_BLOCKED"
    assert (ended.usage.input_tokens, ended.usage.output_tokens) == tuple(endpoint.used) == (10, 5)
    (called,) = await bench.observations(ModelCalled)
    assert (called.code, called.answer) == ("POLICY_BLOCKED", "")
    assert OTHER not in str(called)


@pytest.mark.parametrize("mode", ["redact", "refuse"])
async def test_what_an_endpoint_says_of_a_key_is_not_shown(mode: Literal["redact", "refuse"]) -> None:
    ended, _ = await asked(bench := Bench(), mode, "that", Status(401, f"Incorrect API key provided: {OTHER}"))
    said = b"".join([one.data async for one in bench.log.read("bb.main.obs.worker.run")]).decode()
    assert OTHER not in said
    assert "[redacted: slack-token]" in said
    assert ended.code == "POLICY_BLOCKED"


async def test_a_conversation_without_secrets_is_stored_as_it_was_sent() -> None:
    _, endpoint = await asked(bench := Bench(), "redact", "that", Say("fine"))
    assert endpoint.asked[0]["messages"][1]["content"] == "What is that?"
    assert b"What is that?" in await stored(bench)
