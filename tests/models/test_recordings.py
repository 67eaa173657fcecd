"""What models said is on the board, and a run can be had again from it without them."""

from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace

from projections.cli_conversation import _lines
from projections.conversations import ModelCall, model_calls
from projections.history import outcome_digest
from schemas.codec import encode
from schemas.conversations import RecordedCall
from specialists.llm import Completion
from specialists.recording import ELSE, RECORDING, Recording
from tests.models.endpoint import Endpoint, Say, Status, endpoint
from tests.models.faults import team
from tests.topologies.casts import at_work, board_in_memory


async def played(url: str, **fields: Any) -> tuple[Any, list[ModelCall]]:
    async with at_work(board_in_memory(), [team(url, **fields)]) as cast:
        run = await cast.publish("judges", ns=[1])
        state = await cast.ended(run)
        return state, [one async for one in model_calls(cast.board, run)]


def answers(at: Endpoint) -> Endpoint:
    at.answers = [Status(500), Say("no"), Say('{"keep": true}', usage=(30, 7), cached=8)]
    return at


async def test_recorded_run_is_had_again_without_the_model(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint() as at:
        first, calls = await played(answers(at).url)
    assert [one.called.code for one in calls] == ["TOOL_DOWN", "", ""]
    assert [one["role"] for one in calls[2].messages] == ["system", "user", "assistant", "user"]
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b"".join(encode(one.recorded()) + b"\n" for one in calls))
    monkeypatch.setenv(RECORDING, str(path))
    again, same = await played("http://127.0.0.1:1/v1")
    assert outcome_digest(again) == outcome_digest(first)
    assert again.usage == first.usage
    assert [replace(one.called, task="", execution="", duration_ms=0) for one in same] == [
        replace(one.called, task="", execution="", duration_ms=0) for one in calls
    ]


async def test_what_was_never_asked_is_not_asked_of_an_endpoint(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b"")
    monkeypatch.setenv(RECORDING, str(path))
    with endpoint() as at:
        state, calls = await played(at.url)
        assert at.asked == []
    assert state.end == "DEGRADED"
    assert all("no answer to this request" in one.called.message for one in calls)


async def test_run_goes_on_from_where_it_differs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with endpoint(Say('{"keep": false}')) as at:
        first, calls = await played(at.url)
    path = tmp_path / "recording.jsonl"
    path.write_bytes(b"".join(encode(one.recorded()) + b"\n" for one in calls))
    monkeypatch.setenv(RECORDING, str(path))
    monkeypatch.setenv(ELSE, "ask")
    with endpoint(Say('{"keep": true}')) as at:
        again, _ = await played(at.url)
        assert (again.result, at.asked) == (first.result, [])
        other, calls = await played(at.url, temperature=1)
        assert len(at.asked) == len(calls) == 1
    assert other.result != first.result
    monkeypatch.setenv(ELSE, "perhaps")
    state, calls = await played("http://127.0.0.1:1/v1")
    assert "is stop or ask, not 'perhaps'" in calls[0].called.message
    assert state.end == "DEGRADED"


def test_recording_of_a_run_is_given_to_each_run_from_its_beginning() -> None:
    said = [{"content": "no"}, {"content": "yes"}]
    recording = Recording([RecordedCall(request="r", messages="m", message=one) for one in said])
    given = [recording.answer(run, "r", "m") for run in ("a", "a", "a", "b")]
    assert [one.message["content"] for one in given if isinstance(one, Completion)] == ["no", "yes", "yes", "no"]
    assert recording.answer("a", "r", "other") is None


@pytest.mark.parametrize(("content", "said"), [(None, "cannot be read"), (b"nope\n", "is no recording")])
async def test_bad_recording_is_said(
    content: bytes | None, said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "recording.jsonl"
    if content is not None:
        path.write_bytes(content)
    monkeypatch.setenv(RECORDING, str(path))
    state, calls = await played("http://127.0.0.1:1/v1")
    assert state.end == "DEGRADED"
    assert said in calls[0].called.message


async def test_conversation_is_shown_once_where_it_goes_on() -> None:
    with endpoint() as at:
        _, calls = await played(answers(at).url)
    shown = "\n".join(_lines(calls[2], (*calls[1].messages, calls[1].answer or {})))
    assert "after 3 messages as above" in shown
    assert "That does not fit" in shown
    assert "30 + 7 tokens (8 cached)" in shown
    assert "TOOL_DOWN" in "\n".join(_lines(calls[0], ()))
