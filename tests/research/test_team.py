"""The team at work: real supervisor, real workers, a board in memory; the model is an endpoint that says what a test
wants, also the worst."""

import json
from pathlib import Path
from random import Random
from typing import Any

import pytest

from projections.canonical import State
from schemas.codec import VALUE_LIMIT, encode
from specialists.filtering import Filter
from specialists.research.answers import Citation, Proposal, Sentence
from specialists.research.team import SPECIALISTS, TEAM, Asked
from specialists.specialist import Specialist, Team, specialist
from specialists.worker import Worker
from tests.models.endpoint import Answer, Endpoint, Say, Status, served
from tests.research.conftest import Folder
from tests.safety.corpus import FORMS
from tests.topologies.casts import at_work, board_in_memory

DOCS: dict[str, str | bytes] = {
    "leases.md": "# Leases\n\nA lease lasts nine days. It may be renewed once.\n",
    "boards.md": "# Boards\n\nA board is green. Every board has one log.\n",
    "notes.bin": b"\0\1\2",
}
QUESTION = "How long does a lease last?"
WITHIN_S = 30


def draft(*sentences: tuple[str, list[int]]) -> Say:
    return Say(json.dumps({"sentences": [{"text": text, "passages": numbers} for text, numbers in sentences]}))


def verdict(supported: bool, reason: str = "so") -> Say:
    return Say(json.dumps({"supported": supported, "reason": reason}))


async def run_of(root: Path, question: str = QUESTION, team: Team = TEAM, **input: Any) -> State:
    async with at_work(board_in_memory(), [team]) as cast:
        return await cast.ended(await cast.publish("research", question=question, path=str(root), **input), WITHIN_S)


async def run_with(
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
    root: Path,
    *answers: Answer,
    critic: tuple[Answer, ...] = (),
    **input: Any,
) -> tuple[State, Endpoint]:
    """A run whose reasoner asks an endpoint with these answers, and whose critic another one."""
    endpoint, judge = Endpoint(*answers), Endpoint(*(critic or (verdict(True),)))
    with served(endpoint.handle) as url, served(judge.handle) as other:
        tables = f'[reasoner]\nname = "big"\nbase_url = "{url}"\nattempts = 1\n'
        tables += f'[critic]\nname = "judge"\nbase_url = "{other}"\nattempts = 1\n' if critic else ""
        (tmp_path / "models.toml").write_text(tables)
        monkeypatch.setenv("BLACKBOARD_MODELS", str(tmp_path / "models.toml"))
        state = await run_of(root, **input)
    used = [endpoint.used[side] + (judge.used[side] if critic else 0) for side in (0, 1)]
    assert [state.usage.input_tokens, state.usage.output_tokens] == used, "the books say what the endpoints counted"
    return state, endpoint


def checked(state: State) -> dict[str, Any]:
    """The result; every citation of it is in the fact that it names, and no fact is too large."""
    assert state.end == "DONE", (state.code, state.reason)
    assert state.result is not None
    passages = {one["id"]: one["text"] for one in state.facts["passages"].value["passages"]}
    for sentence in state.result["sentences"]:
        for citation in sentence["citations"]:
            assert citation["fact"] == "passages"
            assert not passages[citation["id"]] or citation["quote"] in passages[citation["id"]]
    assert all(len(encode(fact.value)) <= VALUE_LIMIT for fact in state.facts.values())
    return state.result


async def test_all_that_rests_on_documents_says_so(folder: Folder) -> None:
    state = await run_of(folder(DOCS))
    assert {fact.taint for fact in state.facts.values()} == {("documents",)}


async def test_without_a_model_it_answers_word_for_word_and_says_so(folder: Folder) -> None:
    result = checked(await run_of(folder(DOCS)))
    assert result["answer"] == "A lease lasts nine days. [1]"
    assert result["sources"] == [
        {"number": 1, "fact": "passages", "id": "leases.md:1-3", "quote": "A lease lasts nine days."}
    ]
    assert (result["mode"], result["model"]) == ("extractive", "")
    assert "No model was asked" in result["note"]
    assert "No model was asked" in result["markdown"]
    assert result["documents"]["passed"] == {"binary": 1}


async def test_where_the_documents_say_nothing_it_is_done_with_an_empty_answer(folder: Folder) -> None:
    result = checked(await run_of(folder(DOCS), "What is the capital of Mongolia?"))
    assert (result["answer"], result["sentences"], result["sources"], result["dropped"]) == ("", [], [], [])
    assert "The documents say nothing about this." in result["markdown"]


async def test_what_documents_say_is_content_from_outside_to_the_end(folder: Folder) -> None:
    state = await run_of(folder(DOCS))
    assert {key: fact.taint for key, fact in state.facts.items()} == dict.fromkeys(state.facts, ("documents",))


@pytest.mark.parametrize(
    ("files", "reason"),
    [({}, "there is nothing to read in"), ({"a.bin": b"\0"}, "passed over: 1 binary"), (None, "there is no folder")],
)
async def test_a_folder_without_documents_ends_the_run_with_a_sentence(
    folder: Folder, files: dict[str, str | bytes] | None, reason: str
) -> None:
    state = await run_of(Path("/nowhere/at/all") if files is None else folder(files))
    assert (state.end, state.code) == ("FAILED", "INVALID_INPUT")
    assert reason in state.reason


async def test_only_folders_that_may_be_read_are(folder: Folder, monkeypatch: pytest.MonkeyPatch) -> None:
    root, other = folder(DOCS), folder(DOCS, "other")
    (root / "way-out").symlink_to(other)
    monkeypatch.setenv("BLACKBOARD_DOCS", f"/nowhere:{root}")
    assert (await run_of(root)).end == "DONE"
    for forbidden in (other, root / "way-out", root / ".." / "other", root.parent):
        state = await run_of(forbidden)
        assert (state.end, state.code) == ("POLICY_BLOCKED", "POLICY_BLOCKED"), forbidden
        assert "is not among those that may be read here (BLACKBOARD_DOCS)" in state.reason


async def test_a_passage_that_is_too_long_for_a_fact_is_a_blob(folder: Folder) -> None:
    long = f"{'word ' * 100_000}. A lease lasts nine days. {'More. ' * 1_000}"
    state = await run_of(folder({"long.txt": long, "other.md": "nothing"}))
    result = checked(state)
    (passage,) = state.facts["passages"].value["passages"]
    assert (passage["text"], passage["id"]) == ("", "long.txt:1-1")
    assert passage["blob"]["size"] == len(long.encode())
    assert result["answer"] == "A lease lasts nine days. [1]"


async def test_sentences_of_a_model_that_hold_are_the_answer(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    said = draft(("A lease lasts nine days.", [1]), ("It may be renewed once.", [1]))
    state, endpoint = await run_with(monkeypatch, tmp_path, folder(DOCS), said)
    result = checked(state)
    assert result["answer"] == "A lease lasts nine days. [1] It may be renewed once. [2]"
    assert (result["mode"], result["model"], result["note"], result["dropped"]) == ("model", "big", "", [])
    assert len(endpoint.asked) == 1
    assert "Passage 1 (Leases):" in endpoint.asked[0]["messages"][1]["content"]


async def test_what_does_not_hold_is_proposed_again_with_the_reason(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = draft(("A lease lasts nine days.", [1]), ("A lease costs 70 dollars.", [1]))
    second = draft(("A lease may be renewed once.", [1]))
    state, endpoint = await run_with(monkeypatch, tmp_path, folder(DOCS), first, second)
    result = checked(state)
    assert [one["text"] for one in result["sentences"]] == ["A lease lasts nine days.", "A lease may be renewed once."]
    assert [one["text"] for one in result["dropped"]] == ["A lease costs 70 dollars."]
    assert "A lease costs 70 dollars. (70 is not in what it cites)" in endpoint.asked[1]["messages"][1]["content"]
    assert "- A lease costs 70 dollars.: 70 is not in what it cites" in result["markdown"]


async def test_where_nothing_of_a_model_holds_the_documents_speak(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, endpoint = await run_with(monkeypatch, tmp_path, folder(DOCS), draft(("Leases are blue and cost 7.", [1])))
    result = checked(state)
    assert result["answer"] == "A lease lasts nine days. [1]"
    assert (result["mode"], result["model"]) == ("extractive", "big")
    assert result["note"].startswith("No sentence of big is supported by what it cites.")
    assert [one["text"] for one in result["dropped"]] == ["Leases are blue and cost 7."]
    assert len(endpoint.asked) == 2


async def test_a_model_may_say_that_there_is_nothing(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = checked((await run_with(monkeypatch, tmp_path, folder(DOCS), draft()))[0])
    assert (result["answer"], result["mode"], result["dropped"]) == ("", "model", [])


async def test_a_second_model_may_reject_what_code_lets_pass(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    first = draft(("Nine days a lease lasts.", [1]), ("A lease lasts nine days.", [1]))
    state, _ = await run_with(monkeypatch, tmp_path, folder(DOCS), first, draft(), critic=(verdict(False, "no verb"),))
    result = checked(state)
    assert [one["text"] for one in result["sentences"]] == ["A lease lasts nine days."], (
        "what is quoted is not asked about"
    )
    assert [one["reason"] for one in result["dropped"]] == ["judge finds it not supported: no verb"]
    assert result["mode"] == "model"
    assert state.facts["answer_review_1"].value["by"] == "judge"


async def test_an_answer_without_form_leaves_the_documents(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = checked((await run_with(monkeypatch, tmp_path, folder(DOCS), Say("I do not do JSON.")))[0])
    assert (result["mode"], result["answer"]) == ("extractive", "A lease lasts nine days. [1]")
    assert result["note"].startswith("big gave no answer in the form that was asked for.")


async def test_too_much_for_a_model_is_tried_with_less(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def small(body: dict[str, Any]) -> Say | Status:
        shown = body["messages"][1]["content"].count("Passage ")
        return draft(("A lease lasts nine days.", [1])) if shown <= 1 else Status(400, "the context is exceeded")

    files = {f"{number}.md": f"A lease lasts nine days. Number {number}." for number in range(4)}
    state, endpoint = await run_with(monkeypatch, tmp_path, folder(files), small)
    assert checked(state)["mode"] == "model"
    assert [one["messages"][1]["content"].count("Passage ") for one in endpoint.asked] == [4, 2, 1]


async def test_a_model_is_shown_what_comes_near_the_best_passage(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    files: dict[str, str | bytes] = {f"{number}.md": f"Something may last, says {number}." for number in range(5)}
    state, endpoint = await run_with(
        monkeypatch, tmp_path, folder(files | DOCS), draft(("A lease lasts nine days.", [1]))
    )
    assert checked(state)["mode"] == "model"
    assert len(state.facts["passages"].value["passages"]) > 1
    assert endpoint.asked[0]["messages"][1]["content"].count("Passage ") == 1


async def test_an_endpoint_that_is_down_is_no_answer(
    folder: Folder, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state, _ = await run_with(monkeypatch, tmp_path, folder(DOCS), Status(401, "no"))
    assert (state.end, state.code) == ("POLICY_BLOCKED", "POLICY_BLOCKED")
    assert "does not take the key" in state.reason


def liar(*sentences: Sentence) -> Team:
    """The team with a reasoner that says what it likes, and swears that it is final."""

    @specialist("reasoner", offers="answer-proposal")
    async def reasoner(asked: Asked) -> Proposal:
        return Proposal(sentences=list(sentences), mode="model", model="liar", final=True)

    return _with(reasoner)


def _with(*others: Specialist) -> Team:
    names = {one.name for one in others}
    return Team(TEAM.playbook, [*(one for one in SPECIALISTS if one.name not in names), *others])


@pytest.mark.parametrize(
    "citation",
    [
        Citation(id="nowhere.md:1-9", quote="A lease lasts nine days."),
        Citation(id="leases.md:1-3", quote="A lease lasts for ever."),
        Citation(id="leases.md:1-4", quote="A lease lasts nine days."),
        Citation(fact="secrets", id="leases.md:1-9", quote="A lease lasts nine days."),
    ],
)
async def test_no_citation_that_does_not_exist_gets_into_a_result(folder: Folder, citation: Citation) -> None:
    good = Sentence(
        text="A lease lasts nine days.", citations=[Citation(id="leases.md:1-3", quote="A lease lasts nine days.")]
    )
    bad = Sentence(text="A lease lasts nine days", citations=[citation])
    result = checked(await run_of(folder(DOCS), team=liar(bad, good)))
    assert [one["text"] for one in result["sentences"]] == [good.text]
    assert [one["text"] for one in result["dropped"]] == [bad.text]


SECRET = FORMS["iban"](Random(1))


@pytest.mark.parametrize("show", ["redact", "report", "refuse", None])
async def test_what_becomes_of_secrets_in_an_answer(folder: Folder, show: str | None) -> None:
    root = folder({"a.md": f"The account of the lease is {SECRET} for all nine days."})
    state = await run_of(root, "Which account has the lease?", safety=show)
    if show == "refuse":
        assert (state.end, state.code) == ("POLICY_BLOCKED", "POLICY_BLOCKED")
        assert "1 iban at /value/0" in state.reason
        assert SECRET not in state.reason
        return
    assert state.result is not None
    assert (SECRET in json.dumps(state.result)) == (show == "report")
    assert state.result["hidden"] == [{"kind": "iban", "count": 1, "redacted": show != "report"}]
    assert state.facts["safety"].value["findings"] == [{"place": "/value/0", "kind": "iban", "family": "personal"}]


async def test_behind_a_filter_no_secret_of_the_documents_lies_on_the_log(folder: Folder) -> None:
    """And the answer still holds: quotes and passages are redacted alike."""
    root = folder({"a.md": f"The account of the lease is {SECRET} for all nine days."})
    board = board_in_memory()
    async with at_work(board, []) as cast:
        worker = Worker(board, SPECIALISTS, filter=Filter("redact"))
        await worker.offer()
        await cast.client.teach(TEAM.playbook)
        cast._keep(worker.run(cast._stop))
        state = await cast.ended(
            await cast.publish("research", question="Which account has the lease?", path=str(root)), WITHIN_S
        )
        said = b"".join([one.data async for one in board.log.read("bb.main.>")])
    assert checked(state)["answer"] == "The account of the lease is [redacted: iban] for all nine days. [1]"
    assert SECRET.encode() not in said


async def test_two_runs_of_one_question_have_one_outcome(folder: Folder) -> None:
    root = folder(DOCS)
    first, second = [(await run_of(root)).result for _ in range(2)]
    assert first == second
