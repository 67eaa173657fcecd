"""`blackboard ask`, typed as a person types it: processes, a real server, files."""

import os
import signal
from pathlib import Path
from random import Random

import pytest

from blackboard.board import Board
from blackboard.server_files import read_state
from tests.end_to_end.conftest import shared, start, there
from tests.end_to_end.support import Program, Start, call, children_of, events_of, is_alive, offered, runs_on, until
from tests.models.endpoint import Endpoint, Status, served
from tests.research.conftest import Folder
from tests.research.test_team import DOCS, QUESTION, draft
from tests.safety.corpus import FORMS

__all__ = ["shared", "start", "there"]
WITHIN_S = 50.0


async def test_a_question_is_answered_on_a_board_of_its_own(folder: Folder, tmp_path: Path, cache: Path) -> None:
    folder(DOCS)
    asked = await call("ask", QUESTION, "--docs", "docs", cwd=tmp_path, within_s=WITHIN_S, BLACKBOARD_CACHE=str(cache))
    assert asked.code == 0, asked
    assert asked.out.startswith("No model was asked: these are sentences of the documents, word for word.\n")
    assert "A lease lasts nine days. [1]" in asked.out
    assert "[1] docs/leases.md:1-3\n    A lease lasts nine days." in asked.out
    for step in ("searching the documents", "answering", "checking what is cited", "assembling the report"):
        assert f"  {step} ...\n" in asked.err
    assert "not read: 1 binary" in asked.err
    board = read_state(tmp_path / ".blackboard")
    assert board is not None
    assert board.pid is None, "the board ended with it"


async def test_on_a_board_that_runs_it_asks_the_team_there(
    folder: Folder, shared: Board, there: list[str], start: Start, cache: Path
) -> None:
    """One JSON document; nothing of the board is started or ended."""
    root = folder(DOCS)
    start("supervise", *there)
    start("attach", "research", *there)
    await offered(shared, "research", "reporter")
    asked = await call("ask", QUESTION, "--docs", str(root), "--json", *there, within_s=WITHIN_S)
    assert (asked.code, asked.json["end"], asked.json["exit_code"]) == (0, "DONE", 0)
    assert asked.json["result"]["answer"] == "A lease lasts nine days. [1]"
    assert await runs_on(shared) == [asked.json["run"]]
    empty = await call("ask", "capital of Mongolia", "--docs", str(root), *there, within_s=WITHIN_S)
    assert (empty.code, empty.out) == (0, "No model was asked.\n\nThe documents say nothing about this.\n")
    elsewhere = await call("ask", QUESTION, "--docs", "/nowhere/on/this/machine", *there, within_s=WITHIN_S)
    assert elsewhere.code == 4
    assert "FAILED: INVALID_INPUT" in elsewhere.err
    assert "there is no folder /nowhere/on/this/machine" in elsewhere.err


async def test_a_model_answers_where_one_is_named(folder: Folder, tmp_path: Path, cache: Path) -> None:
    folder(DOCS)
    endpoint = Endpoint(draft(("A lease lasts nine days.", [1])))
    with served(endpoint.handle) as url:
        environment = {"OPENAI_BASE_URL": url, "BLACKBOARD_CACHE": str(cache), "OPENAI_API_KEY": "none"}
        words = ("ask", QUESTION, "--docs", "docs", "--json")
        asked = await call(*words, "--model", "big-1", cwd=tmp_path, within_s=WITHIN_S, **environment)
        environment["BLACKBOARD_MODEL"] = "big-2"
        without = await call(*words, "--no-model", cwd=tmp_path, within_s=WITHIN_S, **environment)
    assert (asked.code, asked.json["result"]["mode"], asked.json["result"]["model"]) == (0, "model", "big-1")
    assert (without.code, without.json["result"]["mode"]) == (0, "extractive")
    assert [body["model"] for body in endpoint.asked] == ["big-1"]


async def test_an_endpoint_that_refuses_is_said(folder: Folder, tmp_path: Path, cache: Path) -> None:
    folder(DOCS)
    with served(Endpoint(Status(401, "wrong key")).handle) as url:
        environment = {"OPENAI_BASE_URL": url, "OPENAI_API_KEY": "none", "BLACKBOARD_CACHE": str(cache)}
        asked = await call(
            "ask", QUESTION, "--docs", "docs", "--model", "m", cwd=tmp_path, within_s=WITHIN_S, **environment
        )
    assert asked.code == 5
    assert "the endpoint does not take the key" in asked.err


async def test_secrets_of_the_documents_are_on_no_screen_and_on_no_disk(
    folder: Folder, tmp_path: Path, cache: Path
) -> None:
    secret = FORMS["stripe-access-key"](Random(5))
    folder({"a.md": f"The key of the shop is {secret}."})
    words = ("ask", "What is the key of the shop?", "--docs", "docs")
    asked = await call(*words, cwd=tmp_path, within_s=WITHIN_S, BLACKBOARD_CACHE=str(cache))
    assert asked.code == 0, asked
    assert "The key of the shop is [redacted: stripe-access-key]. [1]" in asked.out
    assert "what is redacted is shown with --safety report" in asked.err
    assert secret not in asked.out + asked.err
    board = [path.read_bytes() for path in (tmp_path / ".blackboard").rglob("*") if path.is_file()]
    assert not any(secret.encode() in data for data in board)
    reported = await call(*words, "--safety", "report", cwd=tmp_path, within_s=WITHIN_S, BLACKBOARD_CACHE=str(cache))
    assert secret in reported.out
    assert "the answer holds 1 stripe-access-key" in reported.err


@pytest.fixture
def odd(folder: Folder) -> Path:
    return folder(
        {"a.md": "x", "empty/.keep": "", "binary/a.bin": b"\0\1", "latin/a.txt": "Größe der Häuser".encode("latin-1")}
    )


@pytest.mark.parametrize(
    ("words", "code", "says"),
    [
        (["", "--docs", "."], 2, "the question is empty"),
        (["  \n ", "--docs", "."], 2, "the question is empty"),
        (["x", "--docs", "gone"], 2, "--docs: there is no folder gone"),
        (["x", "--docs", "a.md"], 2, "--docs: a.md is a file; name the folder that it is in"),
        (["x", "--docs", "x" * 300], 2, "--docs: "),
        (["x", "--docs", ".", "--budget", "tokens=many"], 2, "--budget: tokens='many' is no number"),
        (["x", "--docs", ".", "--safety", "maybe"], 2, "--safety"),
        (["x" * 4_001, "--docs", "."], 2, "the input of team 'research': /question breaks"),
        (["x", "--docs", "empty"], 4, "it has no files, or only hidden and ignored ones"),
        (["x", "--docs", "binary"], 4, "passed over: 1 binary"),
        (["x", "--docs", ".", "--nats", "nats://127.0.0.1:9"], 69, "blackboard: "),
    ],
)
async def test_bad_input_is_a_sentence(odd: Path, words: list[str], code: int, says: str, cache: Path) -> None:
    asked = await call("ask", *words, cwd=odd, within_s=WITHIN_S, BLACKBOARD_CACHE=str(cache))
    assert asked.code == code, asked
    assert says in asked.err
    assert "Traceback" not in asked.err
    assert asked.out == ""


async def test_models_that_cannot_be_used_are_said_before_anything_is_started(odd: Path) -> None:
    asked = await call("ask", "x", "--docs", ".", cwd=odd, BLACKBOARD_MODELS="gone.toml")
    assert asked.code == 2
    assert "gone.toml, which cannot be read" in asked.err
    assert not (odd / ".blackboard").exists()


async def test_a_folder_in_another_encoding_is_read(odd: Path, cache: Path) -> None:
    asked = await call(
        "ask", "Größe der Häuser", "--docs", "latin", cwd=odd, within_s=WITHIN_S, BLACKBOARD_CACHE=str(cache)
    )
    assert "Größe der Häuser [1]" in asked.out


async def test_on_ctrl_c_the_run_is_cancelled_and_nothing_is_left(
    folder: Folder, shared: Board, there: list[str], start: Start
) -> None:
    """Nobody is attached: the run waits, until who asked does not."""
    start("supervise", *there)
    teaching = start("attach", "research", *there)
    await offered(shared, "research")
    await teaching.stop()
    asked: Program = start("ask", QUESTION, "--docs", str(folder(DOCS)), *there)
    await asked.says("searching the documents")
    children = children_of(asked.pid)
    os.kill(asked.pid, signal.SIGINT)
    await until(lambda: asked.code is not None, "it to end", WITHIN_S, lambda: asked.said)
    assert asked.code == 130
    (run,) = await runs_on(shared)

    async def cancelled() -> bool:
        return getattr((await events_of(shared, run))[-1], "end", "") == "CANCELLED"

    await until(cancelled, "the run to be cancelled")
    assert not any(is_alive(pid) for pid in children)
