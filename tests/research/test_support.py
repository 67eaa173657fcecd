"""When a citation holds: a table, and what is done with sentences whose citations do not."""

import pytest

from specialists.research.answers import Citation, Dropped, Passage, Passages, Proposal, Rejected, Review, Sentence
from specialists.research.report import EXTRACTIVE, NOTHING, Hidden, assembled, kept
from specialists.research.support import best_quote, holds

TEXT = """A lease lasts nine days. It cannot be renewed more than 3 times.

Workers send a heartbeat every two seconds; after five seconds of silence
somebody else gets the task."""
TEXTS = {"docs/a.md:1-4": ("Leases > Time", TEXT)}
ID = "docs/a.md:1-4"


def sentence(text: str, quote: str = "A lease lasts nine days.", id: str = ID) -> Sentence:
    return Sentence(text=text, citations=[Citation(id=id, quote=quote)])


@pytest.mark.parametrize(
    ("said", "why"),
    [
        (sentence("A lease lasts nine days."), ""),
        (sentence("The leases last nine days"), ""),
        (sentence("The time of a lease is nine days."), ""),
        (
            sentence(
                "After silence somebody else gets the task.",
                "after five seconds of silence somebody else gets the task.",
            ),
            "",
        ),
        (sentence("It cannot be renewed more than 3 times.", "It cannot be renewed more than 3 times."), ""),
        (sentence("A lease lasts nine days.", id="docs/b.md:1-4"), "it cites docs/b.md:1-4, which was not retrieved"),
        (sentence("A lease lasts ten days.", "A lease lasts ten days."), "its quote does not stand in docs/a.md:1-4"),
        (sentence("A lease lasts nine days.", ""), "its quote does not stand in docs/a.md:1-4"),
        (sentence("A lease lasts nine days.", "a"), "its quote does not stand in docs/a.md:1-4"),
        (sentence("A lease lasts 9 days, 12 at most."), "12 is not in what it cites"),
        (
            sentence("Bananas ripen quickly in warm lease days."),
            "what it cites does not speak of banana, ripen, quick, warm",
        ),
        (sentence("A lease does not last nine days."), "it denies what it cites does not deny, or the other way round"),
        (
            sentence("It can be renewed 3 times.", "It cannot be renewed more than 3 times."),
            "it denies what it cites does not deny, or the other way round",
        ),
        (Sentence(text="A lease lasts nine days.", citations=[]), "it cites nothing"),
        (sentence("..."), "it says nothing"),
    ],
)
def test_a_sentence_holds_or_it_is_said_why(said: Sentence, why: str) -> None:
    assert holds(said, TEXTS).replace("9 is not", "9 is not") == why


def test_all_citations_of_a_sentence_must_hold() -> None:
    good, bad = (
        Citation(id=ID, quote="A lease lasts nine days."),
        Citation(id="gone:1-1", quote="A lease lasts nine days."),
    )
    assert holds(Sentence(text="A lease lasts nine days.", citations=[good, good]), TEXTS) == ""
    assert "not retrieved" in holds(Sentence(text="A lease lasts nine days.", citations=[good, bad]), TEXTS)


def test_the_quote_that_is_looked_up_is_the_one_that_says_it() -> None:
    assert best_quote("How long a lease lasts", TEXT) == "A lease lasts nine days."
    assert best_quote("heartbeats come every two seconds", TEXT).startswith("Workers send a heartbeat")
    assert best_quote("anything", "") == ""


PASSAGES = Passages(folder="docs", digest="d" * 64, files=1, chunks=1, passages=[Passage(id=ID, text=TEXT)])


def test_what_does_not_hold_is_left_out_and_named_whoever_let_it_pass() -> None:
    said = [
        sentence("A lease lasts nine days."),
        sentence("Leases are blue.", id="gone:1-1"),
        sentence("It lasts 12 days."),
    ]
    earlier = [
        Dropped(text="Older.", reason="it cites nothing"),
        Dropped(text="A lease lasts nine days.", reason="was mended"),
    ]
    proposal = Proposal(sentences=said, dropped=earlier, mode="model", model="m", final=True)
    held, dropped = kept(proposal, Review(round=1, checked=3), TEXTS)
    assert held == said[:1]
    assert [(one.text, one.reason) for one in dropped] == [
        ("Older.", "it cites nothing"),
        ("Leases are blue.", "it cites gone:1-1, which was not retrieved"),
        ("It lasts 12 days.", "12 is not in what it cites"),
    ]


def test_a_review_can_take_out_more_than_code_does() -> None:
    said = [sentence("A lease lasts nine days.")]
    review = Review(round=1, checked=1, rejected=[Rejected(sentence=0, text=said[0].text, reason="no")], by="m")
    assert kept(Proposal(sentences=said), review, TEXTS) == ([], [Dropped(text=said[0].text, reason="no")])


def test_a_report_numbers_its_sources_and_says_how_it_came_about() -> None:
    said = [sentence("A lease lasts nine days."), sentence("The leases last nine days.")]
    hidden = [Hidden(kind="iban", count=2, redacted=True)]
    report = assembled(
        "How long?", PASSAGES, Proposal(sentences=said), said, [Dropped(text="No.", reason="why")], hidden
    )
    assert report.answer == "A lease lasts nine days. [1]\nThe leases last nine days. [1]"
    assert [(one.number, one.fact, one.id) for one in report.sources] == [(1, "passages", ID)]
    assert report.note == EXTRACTIVE
    for part in (
        "# How long?",
        EXTRACTIVE,
        f"1. `{ID}` (fact `passages`)",
        "- No.: why",
        "- 2 iban, redacted",
        "digest dddd",
    ):
        assert part in report.markdown


def test_an_empty_answer_is_said() -> None:
    report = assembled("How long?", PASSAGES, Proposal(), [], [], [])
    assert (report.answer, report.note) == ("", "No model was asked.")
    assert NOTHING in report.markdown
