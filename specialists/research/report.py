"""The report, assembled by code from facts: what holds of an answer, where it stands, and what was left out.

Pure. Nothing is in it that the facts do not hold. A citation that is not among the retrieved passages, or whose quote
is not there, takes its sentence with it, whoever let it pass before.
"""

from collections.abc import Mapping

from specialists.research.answers import Closed, Dropped, Passages, Proposal, Review, Sentence
from specialists.research.support import reviewed

NOTHING = "The documents say nothing about this."
UNASKED = "No model was asked."
EXTRACTIVE = "No model was asked: these are sentences of the documents, word for word."


class Source(Closed):
    """What `[number]` in the answer stands for: a quote from the passage `id` of the fact `fact`."""

    number: int
    fact: str
    id: str
    quote: str


class Documents(Closed):
    folder: str
    digest: str
    files: int
    chunks: int
    passed: dict[str, int]
    passed_names: list[str]


class Hidden(Closed):
    """Something of this kind stood in the answer, and was replaced where `redacted`."""

    kind: str
    count: int
    redacted: bool


class Report(Closed):
    """`answer` is empty where the documents say nothing; `sentences` are its parts, each with the numbers of `sources`.
    `note` says what a reader should know of how it came about."""

    question: str
    answer: str
    sentences: list[Sentence]
    sources: list[Source]
    dropped: list[Dropped]
    mode: str
    model: str
    note: str
    documents: Documents
    hidden: list[Hidden]
    markdown: str


def kept(
    proposal: Proposal, review: Review | None, texts: Mapping[str, tuple[str, str]]
) -> tuple[list[Sentence], list[Dropped]]:
    """The sentences that hold, and those that do not: by the last review, and once more by the passages."""
    refused = {one.sentence: one.reason for one in review.rejected} if review else {}
    refused |= {one.sentence: one.reason for one in reviewed(proposal.sentences, texts)}
    held = [sentence for number, sentence in enumerate(proposal.sentences) if number not in refused]
    dropped = [Dropped(text=proposal.sentences[number].text, reason=why) for number, why in sorted(refused.items())]
    said = {sentence.text for sentence in held}
    return held, [one for one in dict.fromkeys([*proposal.dropped, *dropped]) if one.text not in said]


def assembled(
    question: str,
    passages: Passages,
    proposal: Proposal,
    held: list[Sentence],
    dropped: list[Dropped],
    hidden: list[Hidden],
) -> Report:
    """The report of what was `kept`."""
    sources = _sources(held)
    numbers = {(source.id, source.quote): source.number for source in sources}
    parts = [
        sentence.text + "".join(f" [{numbers[one.id, one.quote]}]" for one in sentence.citations) for sentence in held
    ]
    documents = Documents(**passages.model_dump(include=set(Documents.model_fields)))
    unasked = proposal.mode == "extractive" and not proposal.model
    note = " ".join(filter(None, [(EXTRACTIVE if held else UNASKED) if unasked else "", proposal.note]))
    report = Report(
        question=question,
        answer=("\n" if proposal.mode == "extractive" else " ").join(parts),
        sentences=held,
        sources=sources,
        dropped=dropped,
        mode=proposal.mode,
        model=proposal.model,
        note=note,
        documents=documents,
        hidden=hidden,
        markdown="",
    )
    return report.model_copy(update={"markdown": rendered(report)})


def rendered(report: Report) -> str:
    """The report in Markdown."""
    lines = [f"# {_line(report.question)}", ""]
    lines += [f"> {report.note}", ""] if report.note else []
    said = report.answer.split("\n") if report.answer else [NOTHING]
    lines += [f"- {line}" for line in said] if len(said) > 1 else said
    lines += [""]
    if report.sources:
        lines += ["## Sources", ""]
        lines += [f"{one.number}. `{_line(one.id)}` (fact `{one.fact}`): {_line(one.quote)}" for one in report.sources]
        lines += [""]
    if report.dropped:
        lines += ["## Left out, for want of support", ""]
        lines += [*(f"- {_line(one.text)}: {_line(one.reason)}" for one in report.dropped), ""]
    if report.hidden:
        lines += ["## Not to be shown", ""]
        lines += [*(f"- {one.count} {one.kind}{', redacted' if one.redacted else ''}" for one in report.hidden), ""]
    told = [
        f"{report.documents.files} files, {report.documents.chunks} passages, digest {report.documents.digest[:12]}"
    ]
    told += [f"{count} {why}" for why, count in sorted(report.documents.passed.items())]
    return "\n".join([*lines, f"Read: {'; '.join(told)}.", ""])


def _sources(held: list[Sentence]) -> list[Source]:
    cited = dict.fromkeys((one.fact, one.id, one.quote) for sentence in held for one in sentence.citations)
    return [Source(number=number, fact=fact, id=id, quote=quote) for number, (fact, id, quote) in enumerate(cited, 1)]


def _line(text: str) -> str:
    return " ".join(text.split())
