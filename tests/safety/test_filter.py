"""The filter of a worker: what specialists say goes through it before it lies on the log, as bytes."""

import logging
import random
from typing import Any, Literal

import pytest
from pydantic import BaseModel

from schemas.inputs import Ended, Observation, Progress, ToolCalled
from schemas.tasks import Item
from specialists import detectors
from specialists.filtering import Filter, RedactingFormatter
from specialists.specialist import Context, HandOff, Stop, tool
from tests.safety.corpus import FORMS
from tests.specialists.bench import NAME, Bench, named

SECRET = FORMS["github-token"](random.Random(11))
NUMBER = int(FORMS["card-number"](random.Random(12)))
MODES: tuple[Literal["redact"], Literal["refuse"]] = ("redact", "refuse")


class Wish(BaseModel):
    """What to say, and where."""

    where: str
    say: str


class Said(BaseModel):
    text: str = ""
    number: int = 0


async def shout(loud: bool) -> str:
    raise OSError(f"cannot shout {SECRET}")


async def talker(wish: Wish, context: Context) -> Said:
    match wish.where:
        case "progress":
            await context.progress(f"I have {wish.say}")
        case "tool":
            await context.tool(shout, loud=True)
        case "other-tool":
            await context.tool(wish.say)
        case "stop":
            raise Stop("LOW_CONFIDENCE", f"it is {wish.say}")
        case "error":
            raise RuntimeError(f"broke on {wish.say}")
        case "question":
            await context.ask(f"is {wish.say} right?", {"type": "boolean"})
        case "hand-off":
            raise HandOff(wish.say)
        case "blob":
            blob = await context.blob(f"a list: {wish.say}\n".encode(), "text/plain")
            return Said(text=f"{blob.sha256} {blob.size}")
        case "number":
            return Said(number=NUMBER)
        case "claim":
            return Said(text=f"it is {wish.say}")
    return Said(text="nothing")


TALKER = named(
    talker, tools=[tool(shout)], authority="propose", stops=["LOW_CONFIDENCE", "TOOL_DOWN", "NEEDS_INPUT", "HANDED_OFF"]
)


async def worked(bench: Bench, mode: Literal["redact", "refuse"] | None, *wheres: str, say: str = SECRET) -> Ended:
    await bench.put(*(Item(f"key.{n}", {"where": where, "say": say}) for n, where in enumerate(wheres)))
    async with bench.working(TALKER, filter=Filter(mode) if mode else None):
        return await bench.end()


async def on_the_log(bench: Bench) -> str:
    return b"".join([one.data async for one in bench.log.read("bb.main.obs.worker.run")]).decode()


@pytest.mark.parametrize("where", ["progress", "tool", "other-tool", "stop", "error", "question", "hand-off", "claim"])
async def test_without_a_filter_it_would_lie_on_the_log(where: str) -> None:
    bench = Bench()
    await worked(bench, None, where)
    assert SECRET in await on_the_log(bench)


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("where", ["progress", "tool", "other-tool", "stop", "error", "question", "hand-off", "claim"])
async def test_with_one_nothing_of_it_does(where: str, mode: Literal["redact", "refuse"]) -> None:
    bench = Bench()
    await worked(bench, mode, where)
    assert SECRET not in await on_the_log(bench)
    assert SECRET not in str(bench.told)


async def test_a_claim_is_redacted_and_the_rest_of_it_stays() -> None:
    ended = await worked(bench := Bench(), "redact", "claim")
    assert ended.code == ""
    assert [claim.value for claim in ended.claims] == [{"text": "it is [redacted: github-token]", "number": 0}]
    assert len(await bench.observations()) == 1


async def test_what_holds_nothing_is_the_same_bytes() -> None:
    filtered, plain = Bench(), Bench()
    for bench, mode in ((filtered, "redact"), (plain, None)):
        assert (await worked(bench, mode, "nothing", "nothing")).claims  # type: ignore[arg-type]
    one, other = await filtered.observations(), await plain.observations()
    assert [end.claims for end in one] == [end.claims for end in other]


async def test_a_claim_is_refused_with_kind_and_place() -> None:
    ended = await worked(Bench(), "refuse", "claim")
    assert (ended.code, ended.message) == ("POLICY_BLOCKED", "the value holds 1 github-token at /text")
    assert ended.claims == ()


async def test_of_several_items_only_the_one_is_refused() -> None:
    ended = await worked(Bench(), "refuse", "nothing", "claim", "nothing")
    assert [claim.key for claim in ended.claims] == ["key.0", "key.2"]
    assert [(one.key, one.code) for one in ended.silences] == [("key.1", "POLICY_BLOCKED")]


async def test_a_value_that_breaks_its_schema_without_it_is_no_value() -> None:
    ended = await worked(bench := Bench(), "redact", "number")
    assert (ended.code, ended.claims) == ("INVALID_OUTPUT", ())
    assert ended.message.startswith("1 card-number at /number was redacted, and then the value: /number breaks")
    assert str(NUMBER) not in await on_the_log(bench)


async def test_progress_is_shown_with_a_marker_and_then_refused() -> None:
    for mode, code in (("redact", ""), ("refuse", "POLICY_BLOCKED")):
        ended = await worked(bench := Bench(), mode, "progress")  # type: ignore[arg-type]
        (told,) = await bench.observations(Progress)
        assert told.message == "I have [redacted: github-token]"
        assert ended.code == code
    assert ended.message == "not to be shown: 1 github-token at progress"


async def test_a_tool_that_was_called_is_on_record_whatever_it_says() -> None:
    for mode, code in (("redact", "TOOL_DOWN"), ("refuse", "POLICY_BLOCKED")):
        ended = await worked(bench := Bench(), mode, "tool")  # type: ignore[arg-type]
        (called,) = await bench.observations(ToolCalled)
        assert (called.tool, called.code) == ("shout", "TOOL_DOWN")
        assert called.message.endswith("cannot shout [redacted: github-token]")
        assert ended.code == code


@pytest.mark.parametrize("mode", MODES)
async def test_a_question_with_a_secret_is_not_asked(mode: Literal["redact", "refuse"]) -> None:
    """With a marker in it it would be another question, whose answer nobody finds."""
    ended = await worked(Bench(), mode, "question")
    assert (ended.code, ended.question) == ("POLICY_BLOCKED", None)
    assert "1 github-token at the question/ask" in ended.message


async def test_the_content_of_a_blob_is_filtered_too() -> None:
    ended = await worked(bench := Bench(), "redact", "blob")
    sha256, size = ended.claims[0].value["text"].split()
    content = await bench.board.blobs.get(sha256)
    assert content == b"a list: [redacted: github-token]\n"
    assert len(content) == int(size)
    refused = await worked(Bench(), "refuse", "blob")
    assert (refused.code, refused.message) == ("POLICY_BLOCKED", "a blob was not stored, it holds 1 github-token at /")


async def test_large_values_are_filtered_in_a_thread() -> None:
    ended = await worked(bench := Bench(), "redact", "claim", say=f"{'lorem ipsum ' * 4_000}{SECRET}")
    assert ended.claims[0].value["text"].endswith("ipsum [redacted: github-token]")
    assert SECRET not in await on_the_log(bench)


async def test_a_filter_that_fails_lets_nothing_pass(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(text: str) -> Any:
        raise ValueError(f"cannot read {text}")

    monkeypatch.setattr("specialists.findings.find", broken)
    for where in ("claim", "progress", "stop"):
        ended = await worked(bench := Bench(), "redact", where)
        assert (ended.code, ended.message) == ("INTERNAL", "the filter failed with ValueError; nothing passes")
        assert SECRET not in await on_the_log(bench)


def test_a_filter_that_refuses_stands_in_the_contract() -> None:
    assert "POLICY_BLOCKED" not in TALKER.stops
    assert "POLICY_BLOCKED" in Filter("refuse").stops(TALKER).contract().stops
    assert Filter("redact").stops(TALKER) is TALKER
    with pytest.raises(ValueError, match="leave it out to filter nothing"):
        Filter("off")  # type: ignore[arg-type]


def test_log_lines_show_nothing_either() -> None:
    formatter = RedactingFormatter(logging.Formatter("%(message)s"))
    try:
        raise OSError(f"no access with {SECRET}")
    except OSError as error:
        record = logging.LogRecord("x", logging.ERROR, "x.py", 1, "it says %s", (SECRET,), (OSError, error, None))
    line = formatter.format(record)
    assert SECRET not in line
    assert line.count("[redacted: github-token]") == 2


async def test_fuzzed_observations_pass_or_become_a_typed_end() -> None:
    """Whatever a specialist says in any field, an end can be read again and shows nothing."""
    draw = random.Random(13)
    filters = [Filter(mode) for mode in MODES]
    for _ in range(500):
        kind = draw.choice(list(FORMS))
        secret = FORMS[kind](draw)
        message = draw.choice([secret, f"{secret} {secret}", f"x{secret}"[1:], "plain", ""])
        observation: Observation = draw.choice(
            [
                Progress(task="t", attempt=1, execution="e", message=message),
                ToolCalled(task="t", attempt=1, execution="e", tool="a", input="", message=message),
            ]
        )
        for one in filters:
            screened = await one.screen(observation, [])
            assert secret not in screened.message  # type: ignore[union-attr]


def test_the_detectors_are_the_libraries() -> None:
    kinds = {kind for kind, _, _ in detectors._patterns()}
    assert {"aws-access-key", "json-web-token", "private-key", "slack-token"} <= kinds
    assert NAME == "worker"
