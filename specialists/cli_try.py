"""`blackboard try`: one specialist on one input, with no board. What it asks is asked on the terminal."""

import json
import sys
from contextlib import redirect_stdout
from dataclasses import dataclass, field
from typing import Any

import click
from msgspec import to_builtins

from blackboard.arguments import goal_input
from blackboard.client import BadInput
from blackboard.options import BoardOptions
from schemas.inputs import Ended, Question, ToolCalled
from schemas.usage import Usage
from schemas.validation import in_words
from specialists.budget import usd_text
from specialists.context import LocalContext
from specialists.execution import Execution
from specialists.loading import LoadError, load_specialist
from specialists.mcp_tools import serving
from specialists.signature import BadSpecialist
from specialists.specialist import Specialist

EXIT_CODES = {"": 0, "POLICY_BLOCKED": 5, "NEEDS_INPUT": 7}
STOPPED = 4
"""The exit code of all other codes: docs/protocol.md."""
_ANY = {"type": ["string", "number"]}
"""The schema of a fact: JSON where it is JSON, else the word itself."""


@dataclass
class Trial:
    """What is tried. `answers` by the digest of the question; `calls` and `usage` are those of all executions."""

    specialist: Specialist
    input: dict[str, Any]
    facts: dict[str, Any]
    bid: bool
    answers: dict[str, Any] = field(default_factory=dict)
    calls: list[ToolCalled] = field(default_factory=list)
    usage: Usage = field(default_factory=Usage)

    async def execute(self) -> Ended:
        context = LocalContext(
            self.specialist,
            self.facts,
            input=self.input,
            answers=self.answers,
            kind="bid" if self.bid else "work",
            attempt=len(self.answers) + 1,
        )
        async with serving(self.specialist):
            ended = await Execution(self.specialist, context).run()
        assert ended is not None, "nobody interrupts it"
        self.usage += ended.usage
        self.calls += [one for one in (*context.observations, *context.unrecorded) if isinstance(one, ToolCalled)]
        return ended


def try_specialist(
    options: BoardOptions, target: str, words: tuple[str, ...], facts: tuple[str, ...], bid: bool
) -> int:
    """The exit code."""
    asked, denied = sys.stdin.isatty() and not options.as_json, False
    try:
        with redirect_stdout(sys.stderr):  # what the specialist prints is no result of ours
            trial = _prepare(target, words, facts, bid)
            ended = options.run(trial.execute())
            while asked and ended.question and not denied:
                denied = not _ask(trial, ended.question)
                ended = ended if denied else options.run(trial.execute())
    except (BadInput, BadSpecialist, LoadError) as error:
        options.fail(error)
    if denied:
        ended = Ended(
            task=ended.task,
            attempt=ended.attempt,
            execution=ended.execution,
            usage=ended.usage,
            code="POLICY_BLOCKED",
            message=f"denied: {ended.message}",
        )
    _say_end(options, trial, ended)
    return EXIT_CODES.get(ended.code, STOPPED)


def _prepare(target: str, words: tuple[str, ...], facts: tuple[str, ...], bid: bool) -> Trial:
    """Raises LoadError, BadSpecialist, BadInput."""
    chosen = load_specialist(target).fresh()
    whole = words[0] if words and words[0][:1] in ("@", "{", "[") else None
    given = goal_input(words[1:] if whole else words, whole, chosen.signature.input_schema)
    known = goal_input(facts, None, {"properties": {fact.partition("=")[0]: _ANY for fact in facts}})
    return Trial(chosen, given, known, bid)


# --- what it asks -----------------------------------------------------------------------------------------------------


def _ask(trial: Trial, question: Question) -> bool:
    """Ask whoever sits at the terminal; False when the action is denied."""
    for line in _question_lines(question):
        click.echo(line, err=True)
    if question.schema is None:
        trial.answers[question.digest] = True
        return click.confirm("approve?", err=True)
    while True:
        text = click.prompt("answer", err=True)
        try:
            trial.answers[question.digest] = _answer(question.schema, text)
            return True
        except BadInput as error:
            click.echo(str(error), err=True)


def _answer(schema: dict[str, Any], text: str) -> Any:
    """Raises BadInput."""
    about = schema if "type" in schema else _ANY
    value = goal_input([f"answer={text}"], None, {"properties": {"answer": about}})["answer"]
    if problem := in_words(schema, value):
        raise BadInput(f"the answer: {problem}")
    return value


def _question_lines(question: Question) -> list[str]:
    lines = [question.ask]
    if question.action is not None:
        lines.append(f"  action {json.dumps(question.action, ensure_ascii=False)}")
    if question.schema is not None:
        lines.append(f"  answer {json.dumps(question.schema, ensure_ascii=False)}")
    return lines


# --- how it ended -----------------------------------------------------------------------------------------------------


def _say_end(options: BoardOptions, trial: Trial, ended: Ended) -> None:
    claim = ended.claims[0] if ended.claims else None
    usage = {name: getattr(trial.usage, name) for name in trial.usage.__struct_fields__}
    question = {**to_builtins(ended.question), "digest": ended.question.digest} if ended.question else None
    record: dict[str, Any] = {
        "value": claim.value if claim else None,
        "confidence": claim.confidence if claim else None,
        "code": ended.code,
        "message": ended.message,
        "question": question,
        "to": ended.to,
        "usage": usage,
        "tools": [{**to_builtins(one), "code": one.code} for one in trial.calls],
    }
    lines = [_bid_text(claim.value)] if claim and trial.bid else _outcome(ended)
    lines += [f"tool {one.tool}: {one.code or 'ok'}  {one.duration_ms} ms" for one in trial.calls]
    counts = [f"{name} {count}" for name, count in usage.items() if count and name != "micro_usd"]
    if used := counts + ([f"cost {usd_text(trial.usage.micro_usd)}"] if trial.usage.micro_usd else []):
        lines.append("  ".join(used))
    options.say(record, "\n".join(lines))


def _outcome(ended: Ended) -> list[str]:
    if ended.question:
        first, *rest = _question_lines(ended.question)
        return [f"{ended.code}: {first}", *rest]
    if ended.code:
        code = f"{ended.code} to {ended.to}" if ended.to else ended.code
        return [f"{code}: {ended.message}" if ended.message else code]
    claim = ended.claims[0]
    confidence = [] if claim.confidence is None else [f"confidence {claim.confidence:g}"]
    return [json.dumps(claim.value, indent=2, ensure_ascii=False), *confidence]


def _bid_text(bid: dict[str, Any]) -> str:
    if not bid["can"]:
        return "bid: cannot do it"
    return f"bid: confidence {bid['confidence']:g}, {usd_text(bid['micro_usd'])}, {bid['seconds']:g} s"
