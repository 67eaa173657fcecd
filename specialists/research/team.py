"""The reference team `research`: a question is answered from a folder of documents, every sentence with its citation.

passages -> answer, proposed and reviewed until its citations hold -> safety -> report

Without a model the answer is made of sentences of the documents. With one (specialists.models: `reasoner`, and `critic`
for the review) its sentences are held against what they cite; a sentence that does not hold is left out, and named.
"""

from collections import Counter
from typing import Literal

from schemas.playbooks import Critique, Playbook, Step
from specialists.context import WorkContext
from specialists.findings import redact
from specialists.models import model_of
from specialists.research import index
from specialists.research.answers import (
    PASSAGES,
    Closed,
    Dropped,
    Passage,
    Passages,
    Proposal,
    Review,
    Sentence,
)
from specialists.research.documents import NotAllowed, NothingToRead
from specialists.research.drafting import draft, judged
from specialists.research.extraction import extract
from specialists.research.report import Hidden, Report, assembled, kept
from specialists.research.scenarios import SCENARIOS
from specialists.research.support import reviewed
from specialists.safety import Safety, safety
from specialists.specialist import Specialist, Stop, Team, specialist

RETRIEVED = 8
"""Passages of an answer."""
ROUNDS = 3
"""Of proposing; in the last one what does not hold is left out."""
INLINE_BYTES = 4_000
"""Of the text of a passage; a longer one is a blob."""
NEAR = 0.5
"""Of the score of the best passage: what another one must have to be shown to a model."""
PASSED_NAMES = 20
"""Names of what was passed over that are told."""
NAME_CHARACTERS = 300
SHOW = ("redact", "report", "refuse")
"""What becomes of secrets and personal data in an answer: the input `safety`."""

Texts = dict[str, tuple[str, str]]
"""Heading and text of each passage, by its id."""


class Search(Closed):
    """`path`: absolute path of a folder on the worker's machine."""

    question: str
    path: str


class Asked(Closed):
    """From the second round on there are the proposal before and its review."""

    question: str
    passages: Passages
    previous: Proposal | None = None
    critique: Review | None = None


class Proposed(Closed):
    proposal: Proposal
    passages: Passages


class Materials(Closed):
    """All that a report is made of. `safety` is what the safety check found in the answer, `show` one of SHOW."""

    question: str
    passages: Passages
    answer: Proposal
    review: Review | None = None
    safety: Safety
    show: Literal["redact", "report", "refuse"] | None = None


@specialist("retriever", offers="document-retrieval", deadline_s=600, stops=["TOOL_DOWN", "POLICY_BLOCKED"])
async def retriever(search: Search, context: WorkContext) -> Passages:
    """Finds the passages of a folder that speak of a question."""
    context.outside("documents")  # whoever wrote them may have written orders to models
    try:
        found = await context.in_thread(index.search, search.path, search.question, RETRIEVED)
    except NothingToRead as why:
        raise Stop("INVALID_INPUT", str(why)) from None
    except NotAllowed as why:
        raise Stop("POLICY_BLOCKED", str(why)) from None
    context.outside("documents")
    names = sorted(name for passed in found.passed.values() for name in passed)
    return Passages(
        folder=search.path,
        digest=found.digest,
        files=found.files,
        chunks=found.chunks,
        passed={why: len(passed) for why, passed in found.passed.items()},
        passed_names=[name[:NAME_CHARACTERS] for name in names[:PASSED_NAMES]],
        weights=found.weights,
        passages=[await _passage(hit, context) for hit in found.hits],
    )


async def _passage(hit: index.Hit, context: WorkContext) -> Passage:
    chunk = hit.chunk
    data = chunk.text.encode("utf-8", "replace")
    blob = await context.blob(data, "text/plain") if len(data) > INLINE_BYTES else None
    return Passage(
        id=chunk.id,
        heading=chunk.heading[:NAME_CHARACTERS],
        text="" if blob else chunk.text,
        blob=blob,
        score=hit.score,
        coverage=hit.coverage,
    )


async def _texts(passages: Passages, context: WorkContext) -> Texts:
    found: Texts = {}
    for one in passages.passages:
        text = (await context.read_blob(one.blob)).decode() if one.blob else one.text
        found[one.id] = (one.heading, text)
    return found


@specialist("reasoner", offers="answer-proposal", deadline_s=600, stops=["TOOL_DOWN", "POLICY_BLOCKED"])
async def reasoner(asked: Asked, context: WorkContext) -> Proposal:
    """Answers from passages: with a model, else with their own sentences."""
    texts = await _texts(asked.passages, context)
    passages = [(one, texts[one.id][1]) for one in asked.passages.passages]
    model = model_of("reasoner")
    if model is None or not passages:
        return extract(passages, asked.passages.weights)
    held, dropped, number = _before(asked)
    note = ""
    if number < ROUNDS:
        try:
            rejected = asked.critique.rejected if asked.critique else []
            shown = [one for one in passages if one[0].score >= NEAR * passages[0][0].score]
            said = await draft(context, model, asked.question, shown, rejected)
        except Stop as stop:
            if stop.code != "INVALID_OUTPUT":
                raise
            said, note = [], f"{model.name} gave no answer in the form that was asked for."
        known = {sentence.text for sentence in held}
        held = [*held, *(sentence for sentence in said if sentence.text not in known)]
    if held or not (dropped or note):
        final = number == ROUNDS
        return Proposal(
            sentences=held, dropped=dropped, mode="model", model=model.name, round=number, final=final, note=note
        )
    note = note or f"No sentence of {model.name} is supported by what it cites."
    own = extract(passages, asked.passages.weights, f"{note} These are sentences of the documents, word for word.")
    return own.model_copy(update={"dropped": dropped, "model": model.name, "round": number})


def _before(asked: Asked) -> tuple[list[Sentence], list[Dropped], int]:
    """What of the proposal before holds, what does not, and the number of this round."""
    if asked.previous is None or asked.critique is None:
        return [], [], 1
    refused = {one.sentence: one.reason for one in asked.critique.rejected}
    said = asked.previous.sentences
    held = [sentence for number, sentence in enumerate(said) if number not in refused]
    dropped = [Dropped(text=said[number].text, reason=why) for number, why in refused.items() if number < len(said)]
    return held, [*asked.previous.dropped, *dropped], asked.previous.round + 1


@specialist("critic", offers="answer-review", deadline_s=600, stops=["TOOL_DOWN", "POLICY_BLOCKED"])
async def critic(proposed: Proposed, context: WorkContext) -> Review:
    """Holds each sentence against what it cites: by code, and what that lets pass by a model, where there is one."""
    said = proposed.proposal.sentences
    rejected = reviewed(said, await _texts(proposed.passages, context))
    model = model_of("critic") if proposed.proposal.mode == "model" else None
    if model is not None:
        refused = {one.sentence for one in rejected}
        passing = [number for number in range(len(said)) if number not in refused]
        doubted = await judged(context, model, [said[number] for number in passing])
        rejected += [one.model_copy(update={"sentence": passing[one.sentence]}) for one in doubted]
    by = model.name if model else "code"
    return Review(round=proposed.proposal.round, checked=len(said), rejected=rejected, by=by)


@specialist("reporter", offers="research-report", deadline_s=60)
async def reporter(materials: Materials, context: WorkContext) -> Report:
    """Assembles the report from facts, and leaves out what does not hold or is not to be shown."""
    held, dropped = kept(materials.answer, materials.review, await _texts(materials.passages, context))
    hides = materials.show in (None, "redact")
    held_made, dropped_made = ([one.model_dump() for one in part] for part in (held, dropped))
    made = redact({"sentences": held_made, "dropped": dropped_made})
    if hides:
        held = [Sentence.model_validate(one) for one in made.value["sentences"]]
        dropped = [Dropped.model_validate(one) for one in made.value["dropped"]]
    counted = Counter(one.kind for one in materials.safety.findings)
    hidden = [Hidden(kind=kind, count=count, redacted=hides) for kind, count in sorted(counted.items())]
    return assembled(materials.question, materials.passages, materials.answer, held, dropped, hidden)


_LAST_REVIEW = " || ".join(f"facts.answer_review_{number}" for number in range(ROUNDS, 0, -1))
_TEXT = {"type": "string"}
_LIST = {"type": "array"}

PLAYBOOK = Playbook(
    team="research",
    description="Answers a question from the documents of a folder; every sentence cites where it stands.",
    input={
        "type": "object",
        "additionalProperties": False,
        "required": ["question", "path"],
        "properties": {
            "question": {"type": "string", "pattern": r"\S", "maxLength": 4_000},
            "path": {"type": "string", "format": "path", "minLength": 1},
            "safety": {"enum": [*SHOW, None], "description": "what becomes of secrets and personal data in the answer"},
        },
    },
    result={
        "type": "object",
        "required": ["answer", "sentences", "sources", "dropped", "mode", "documents", "markdown"],
        "properties": {
            "answer": _TEXT,
            "sentences": _LIST,
            "sources": _LIST,
            "dropped": _LIST,
            "mode": {"enum": ["extractive", "model"]},
            "documents": {"type": "object"},
            "markdown": _TEXT,
        },
    },
    returns={name: f"facts.report.{name}" for name in Report.model_fields},
    steps=[
        Step(
            id=PASSAGES,
            capability="document-retrieval",
            input={"question": "input.question", "path": "input.path"},
        ),
        Step(
            id="answer",
            needs=[PASSAGES],
            capability="answer-proposal",
            input={"question": "input.question", "passages": "facts.passages"},
            critique=Critique(
                capability="answer-review",
                input={"passages": "facts.passages"},
                accept="length(critique.rejected) == `0` || proposal.final",
                rounds=ROUNDS,
            ),
        ),
        Step(
            id="safety",
            needs=["answer"],
            capability="safety-check",
            input={
                "value": "facts.answer.sentences[].text",
                "refuse": '(input.safety == \'refuse\' && `["secret", "personal"]`) || `[]`',
                "ask": "`[]`",
            },
        ),
        Step(
            id="report",
            needs=["safety"],
            capability="research-report",
            input={
                "question": "input.question",
                "passages": "facts.passages",
                "answer": "facts.answer",
                "review": _LAST_REVIEW,
                "safety": "facts.safety",
                "show": "input.safety",
            },
        ),
    ],
)

SPECIALISTS: list[Specialist] = [retriever, reasoner, critic, safety, reporter]
TEAM = Team(PLAYBOOK, SPECIALISTS, SCENARIOS)
