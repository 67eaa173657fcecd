"""Forms in which a model gives a plan, made of the specialists that there are: whatever fits one is a plan that can be
carried out, so even a small model that is held to the form makes no other.

Pure. Two forms: stages of tasks, for models that are held to a JSON Schema, and calls of functions, one a specialist,
for those that call tools. Either is read as `Task`s, of which `proposed` makes the proposal.
"""

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Annotated, Any, NamedTuple

from pydantic import AfterValidator, BaseModel, Field, WithJsonSchema, conlist

from schemas.proposals import VALUE_CHARACTERS, Given, Left, Offer, Planning, Proposal, ProposedStep, Share
from schemas.validation import violation
from specialists.strict import closed, either, one_of

STAGES, WIDTH = 5, 4
"""Stages of a plan, and tasks of one stage, at most."""
TEXT_CHARACTERS = 300
"""Of a text that a model writes into a field."""
KNOWN_SHOWN = 40
"""Values of the run that a field may take."""
GOAL, PREVIOUS = "goal", "previous"
"""What a field may take beside values of the run: the goal, and what the tasks before have given."""
_COUNTED = frozenset({"integer", "number", "boolean"})


@dataclass(frozen=True)
class Task:
    """A task that a model has chosen. `input` is as it was filled: `{"text": ...}`, `{"value": ...}`, `{"take": ...}`
    or `{"call": number}` by field. `after` are the places, from 0, of the tasks that come before it."""

    offer: Offer
    capability: str
    input: Mapping[str, dict[str, Any]]
    after: Sequence[int]


def stages(planning: Planning, goal: Any) -> Any:
    """The type of a plan in stages: the tasks of one go side by side, those of `then` after those of the stage before.
    None where nobody can begin: each waits for what others give."""
    wide = min(WIDTH, math.isqrt(planning.steps))
    long = min(STAGES, planning.steps // wide)
    first = [one for one in _tasks("First", planning, goal, ()) if one is not None]
    others = [one for one in _tasks("Later", planning, goal, (PREVIOUS,)) if one is not None]
    if not first:
        return None
    began = conlist(either(first, by="specialist"), min_length=1, max_length=wide)
    after = conlist(conlist(either(others, by="specialist"), min_length=1, max_length=wide), max_length=long - 1)
    return closed("Plan", first=(began, ...), then=(after, ...))


def tasks_in(plan: Any, planning: Planning) -> list[Task]:
    """The tasks of a plan in stages."""
    offers = {offer.specialist: offer for offer in planning.offers}
    found: list[Task] = []
    before: list[int] = []
    for stage in (plan.first, *plan.then):
        placed = range(len(found), len(found) + len(stage))
        found += [Task(offers[one.specialist], one.capability, _filled(one.input), before) for one in stage]
        before = list(placed)
    return found


def functions(planning: Planning, goal: Any) -> dict[str, tuple[str, Any]]:
    """Each specialist as a function: what it does, and the type of its arguments. `after` are numbers of calls, from 1;
    a field may take what a call gives."""
    found: dict[str, tuple[str, Any]] = {}
    for number, offer in enumerate(planning.offers):
        input = _input(f"Input{number}", offer, _Takes(goal, planning.known, calls=True))
        arguments = closed(
            f"Call{number}",
            capability=(one_of(offer.offers), ...),
            after=(list[int], Field(description="numbers of the calls that have to come before, from 1")),
            input=(input, ...),
        )
        found[offer.specialist] = (offer.description or f"offers {', '.join(offer.offers)}", arguments)
    return found


def tasks_called(calls: Sequence[tuple[str, Any]], planning: Planning) -> list[Task]:
    """The tasks that functions were called for. Raises ValueError where a call comes after one that is not before it,
    or there are too many."""
    offers = {offer.specialist: offer for offer in planning.offers}
    if len(calls) > planning.steps:
        raise ValueError(f"{len(calls)} calls; a plan has {planning.steps} steps at most")
    found: list[Task] = []
    for place, (name, said) in enumerate(calls):
        filled = _filled(said.input)
        after = [*said.after, *(one["call"] for one in filled.values() if "call" in one)]
        if odd := [number for number in after if not 1 <= number <= place]:
            raise ValueError(f"call {place + 1} comes after call {odd[0]}, which is not before it")
        found.append(Task(offers[name], said.capability, filled, sorted({number - 1 for number in after})))
    return found


# --- types ------------------------------------------------------------------------------------------------------------


class _Takes(NamedTuple):
    """What fields may take. `others` is what comes of tasks before: PREVIOUS, or nothing; with `calls` it is the value
    of a call, by its number."""

    goal: Any
    known: Sequence[str]
    others: tuple[str, ...] = ()
    calls: bool = False

    def of(self, schema: Any) -> list[str]:
        """The names that a field of this schema may take. What others give is seldom a number."""
        kind = schema.get("type") if isinstance(schema, dict) else None
        fits = [GOAL] if _fits(schema, self.goal) else []
        return [*fits, *(() if kind in _COUNTED else self.others), *self.known[:KNOWN_SHOWN]]


def _tasks(name: str, planning: Planning, goal: Any, others: tuple[str, ...]) -> list[Any]:
    """The type of a task for each specialist; None for who needs what nothing gives."""
    found: list[Any] = []
    for number, offer in enumerate(planning.offers):
        input = _input(f"{name}Input{number}", offer, _Takes(goal, planning.known, others))
        task = input and closed(
            f"{name}{number}",
            specialist=(one_of([offer.specialist]), ...),
            capability=(one_of(offer.offers), ...),
            input=(input, ...),
        )
        found.append(task)
    return found


def _input(name: str, offer: Offer, takes: _Takes) -> Any:
    """The fields that a specialist takes, each in the ways in which it can be filled; None where one that it needs
    cannot be."""
    fields: dict[str, Any] = {}
    for place, (field, schema) in enumerate(_fields(offer).items()):
        ways = _ways(f"{name}Field{place}", schema, takes)
        needed = field in (offer.input or {}).get("required", [])
        if not ways and needed:
            return None
        about = schema.get("description") if isinstance(schema, dict) else None
        kind = either([*ways, *([] if needed else [type(None)])])
        default: Any = ... if needed else None
        fields[f"field_{place}"] = (kind, Field(default, alias=field, description=about))
    return closed(name, **fields)


def _fields(offer: Offer) -> dict[str, Any]:
    """The schema of each field; one text where a specialist does not say what it takes."""
    schema = offer.input or {}
    fields = schema.get("properties")
    if isinstance(fields, dict) and (fields or schema.get("additionalProperties") is False):
        return fields
    return {"text": {"type": "string"}}


def _ways(name: str, schema: Any, takes: _Takes) -> list[Any]:
    """How a field can be filled: with a text or another plain value, where it is one, or with what it takes."""
    kind = schema.get("type") if isinstance(schema, dict) else None
    ways: list[Any] = []
    if kind == "string" or (kind is None and not (isinstance(schema, dict) and "enum" in schema)):
        ways.append(closed(f"{name}Text", text=(_like(_text(schema if isinstance(schema, dict) else {})), ...)))
    elif kind in _COUNTED or kind is None:
        ways.append(closed(f"{name}Value", value=(_like(_plain(schema)), ...)))
    if taken := takes.of(schema):
        ways.append(closed(f"{name}Take", take=(one_of(taken), ...)))
    if takes.calls:
        about = Field(ge=1, description="the number of a call before this one, whose value it is")
        ways.append(closed(f"{name}Call", call=(int, about)))
    return ways


def _like(schema: dict[str, Any]) -> Any:
    """The type of values that satisfy a schema."""

    def check(value: Any) -> Any:
        if problem := violation(schema, value):
            raise ValueError(problem)
        return value

    return Annotated[Any, AfterValidator(check), WithJsonSchema(schema)]


def _fits(schema: Any, value: Any) -> bool:
    try:
        return violation(schema if isinstance(schema, dict) else {}, value) is None
    except Exception:  # it names what stands elsewhere in the contract
        return False


def _text(schema: Mapping[str, Any]) -> dict[str, Any]:
    kept = {word: schema[word] for word in ("enum", "minLength", "maxLength", "pattern") if word in schema}
    return {"type": "string", "maxLength": TEXT_CHARACTERS} | kept


def _plain(schema: Mapping[str, Any]) -> dict[str, Any]:
    words = ("type", "enum", "minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf")
    return {word: schema[word] for word in words if word in schema}


def _filled(input: BaseModel) -> dict[str, dict[str, Any]]:
    """By field how it was filled; what was left out is not there."""
    return {field: way for field, way in input.model_dump(by_alias=True).items() if way is not None}


# --- the proposal -----------------------------------------------------------------------------------------------------


def proposed(tasks: Sequence[Task], planning: Planning, goal: Any) -> Proposal:
    """The plan as the supervisor wants it. Whoever may change the world is asked about first; where a budget holds for
    all and a contract sets no limit, each step gets an equal share."""
    names = [f"s{number}_{task.offer.specialist}"[:32] for number, task in enumerate(tasks, 1)]
    steps = [
        ProposedStep(
            id=name,
            needs=[names[place] for place in task.after],
            capability=task.capability,
            specialist=task.offer.specialist,
            input=[_given(field, way, task, names, planning, goal) for field, way in task.input.items()],
            fact="",
            budget=_share(task.offer, planning.budget, len(tasks)),
            gate=f"May {task.offer.specialist} do {task.capability}?" if task.offer.authority == "effect" else "",
            missing="fail",
        )
        for name, task in zip(names, tasks, strict=True)
    ]
    return Proposal(steps=steps)


def _given(field: str, way: dict[str, Any], task: Task, names: Sequence[str], planning: Planning, goal: Any) -> Given:
    match way:
        case {"text": str() as text}:
            return Given(field=field, kind="text", value=text[:VALUE_CHARACTERS])
        case {"call": int() as number}:
            return Given(field=field, kind="step", value=names[number - 1])
        case {"take": "previous"} if task.after:
            return _before(field, [names[place] for place in task.after], planning)
        case {"take": "goal" | "previous"}:
            return _literal(field, goal)
        case {"take": str() as known}:
            return Given(field=field, kind="expression", value=known)
    return _literal(field, way.get("value", way.get("text")))


def _before(field: str, names: Sequence[str], planning: Planning) -> Given:
    """What the tasks before have given: of one its value, of several a list."""
    if len(names) == 1:
        return Given(field=field, kind="step", value=names[0])
    values = ", ".join(f'{planning.facts}."{name}"' for name in names)
    return Given(field=field, kind="expression", value=f"[{values}]")


def _literal(field: str, value: Any) -> Given:
    if isinstance(value, str):
        return Given(field=field, kind="text", value=value[:VALUE_CHARACTERS])
    text = json.dumps(value, ensure_ascii=False)
    return Given(field=field, kind="json" if len(text) <= VALUE_CHARACTERS else "text", value=text[:VALUE_CHARACTERS])


def _share(offer: Offer, left: Left, steps: int) -> Share:
    shares: dict[str, int | None] = {}
    for name in Share.model_fields:
        limit, own = getattr(left, name), getattr(offer.budget, name)
        shares[name] = None if limit is None or (own is not None and own * steps <= limit) else limit // steps
        if shares[name] is not None and own is not None:
            shares[name] = min(limit // steps, own)
    return Share(**shares)
