"""What became of one item: a value as JSON, checked as the supervisor will check it, or a code that says why not.

Pure.
"""

import math
from dataclasses import dataclass
from typing import Any, Literal

import msgspec
from pydantic import ValidationError

from schemas.bids import BID_SCHEMA, Bid
from schemas.codec import VALUE_LIMIT, encode, unstorable
from schemas.events import StopCode
from schemas.goals import explain
from schemas.inputs import Question
from schemas.validation import violation
from specialists.signature import Signature
from specialists.stop import bounded, describe


@dataclass(frozen=True)
class Result:
    """What became of one item: a JSON-like value, or with `code` none. `question` is what is asked, `to` names who
    should have the task."""

    value: Any = None
    confidence: float | None = None
    code: StopCode | Literal[""] = ""
    message: str = ""
    question: Question | None = None
    to: str = ""


def value_of(signature: Signature, output: Any) -> Result:
    """What a specialist returned."""
    try:
        adapter = signature.output
        raw = adapter.dump_python(adapter.validate_python(output), mode="json", by_alias=True, warnings="error")
        problem = unstorable(raw)
        data = encode(raw)
    except ValidationError as error:
        return _invalid(f"the value: {explain(error)}")
    except Exception as error:  # what is raised while a foreign object is turned into JSON can be anything
        return _invalid(f"the value cannot be JSON: {describe(error)}")
    if len(data) > VALUE_LIMIT:
        return _invalid(f"the value has {len(data)} bytes, over {VALUE_LIMIT}; store it with context.blob()")
    value = msgspec.json.decode(data)
    if problem := problem or violation(signature.output_schema, value) or "":
        return _invalid(f"the value: {problem}")
    return Result(value, _confidence(value, output))


def bid_of(output: Any) -> Result:
    """What a specialist bids. A Struct does not check what it is made of."""
    if not isinstance(output, Bid):
        return _invalid(f"the bid: a Bid is wanted, not an object of type {type(output).__name__}")
    try:
        value = msgspec.to_builtins(output)
        if problem := unstorable(value) or violation(BID_SCHEMA, value):
            return _invalid(f"the bid: {problem}")
        bid = msgspec.convert(value, Bid)
    except Exception as error:  # a field can be anything
        return _invalid(f"the bid: {describe(error)}")
    return Result(msgspec.to_builtins(bid), bid.confidence)


def _invalid(message: str) -> Result:
    return Result(code="INVALID_OUTPUT", message=bounded(message))


def _confidence(value: Any, output: Any) -> float | None:
    found = value.get("confidence") if isinstance(value, dict) else getattr(output, "confidence", None)
    if isinstance(found, bool) or not isinstance(found, int | float) or not math.isfinite(found):
        return None
    return float(found)
