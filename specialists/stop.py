"""How a specialist ends its work without a value: it stops, asks people, or hands its task on.

Pure.
"""

import json
from typing import Any

import msgspec
from pydantic import BaseModel

from schemas.codec import VALUE_LIMIT, encode, unstorable
from schemas.contracts import STOP_CODES
from schemas.events import StopCode
from schemas.inputs import Question
from schemas.subjects import token
from schemas.validation import check_schema

MESSAGE_CHARACTERS = 1_000
"""Of a message that goes onto the log; longer ones are cut. A question is never cut, but refused."""
WEEK_S = 7 * 86_400
EXPIRY_LIMIT_S = 366 * 86_400
"""How long a question may wait for its answer."""


def bounded(text: str) -> str:
    """`text` as it may stand on the log: cut, and without characters that UTF-8 cannot hold."""
    return text[:MESSAGE_CHARACTERS].encode("utf-8", "backslashreplace").decode()[:MESSAGE_CHARACTERS]


def describe(error: BaseException) -> str:
    """`ExceptionType: text`, bounded."""
    try:
        text = str(error)
    except Exception:  # a broken __str__ must not hide which error it was
        text = "(its text cannot be made)"
    return bounded(f"{type(error).__name__}: {text}" if text else type(error).__name__)


class Stop(Exception):
    """Ends the work on one item without a value. `code` says why (schemas.events.StopCode), `message` says it to
    people; it is cut after MESSAGE_CHARACTERS. Raises ValueError when there is no such code, and for those that have an
    exception of their own."""

    def __init__(self, code: StopCode, message: str = "") -> None:
        if code not in STOP_CODES:
            raise ValueError(f"{code!r} is no stop code; choose one of {', '.join(sorted(STOP_CODES))}")
        if code in _OTHERS:
            raise ValueError(f"{code}: {_OTHERS[code]}")
        super().__init__(code, message)
        self.code, self.message = code, bounded(message)

    def __str__(self) -> str:
        return f"{self.code}: {self.message}" if self.message else self.code


_OTHERS = {
    "NEEDS_INPUT": "raise NeedsInput, which says more",
    "HANDED_OFF": "raise HandOff, which says more",
    "EFFECT_UNKNOWN": "the tools that are effects say so themselves",
}


class NotDone(Stop):
    """A tool that is an effect says that nothing has happened, for sure: it may be tried again."""

    def __init__(self, message: str = "", code: StopCode = "TOOL_DOWN") -> None:
        super().__init__(code, message)


class NeedsInput(Exception):
    """Ends the execution with a question to people; when it is answered, the task is done again, from its beginning.
    `context.ask` raises this, and gives the answer when there is one. It is no Stop: who catches those to do without a
    tool does not do without the question.

    ask: the question, at most MESSAGE_CHARACTERS. schema: JSON Schema of the answer; without one people approve
    `action` or deny it, which ends the run. action: what will be done, as JSON; sets and keys are sorted.
    expires_s: how long an answer is waited for. Raises ValueError.
    """

    code: StopCode = "NEEDS_INPUT"

    def __init__(
        self, ask: str, schema: dict[str, Any] | None = None, *, action: Any = None, expires_s: float = WEEK_S
    ) -> None:
        self.question = _question(ask, schema, action, expires_s)
        super().__init__(self.question.ask)


class EffectUnknown(NeedsInput):
    """Nobody knows whether an effect was done, and people are asked."""

    code: StopCode = "EFFECT_UNKNOWN"


class HandOff(Exception):
    """Ends the execution: who is named should have the whole task, with all of its items. `to` is a specialist or a
    capability; the step says to whom its tasks may go. Raises ValueError where it is no such name."""

    code: StopCode = "HANDED_OFF"

    def __init__(self, to: str, reason: str = "") -> None:
        self.to, self.message = token(to, "the specialist or capability"), bounded(reason)
        super().__init__(to, self.message)

    def __str__(self) -> str:
        return f"to {self.to}: {self.message}" if self.message else f"to {self.to}"


ENDS = (Stop, NeedsInput, HandOff)


def _question(ask: str, schema: dict[str, Any] | None, action: Any, expires_s: float) -> Question:
    if not ask.strip() or len(ask) > MESSAGE_CHARACTERS:
        raise ValueError(
            f"a question has 1 to {MESSAGE_CHARACTERS} characters, not {len(ask)}; what it is about goes into action="
        )
    if not 0 < expires_s <= EXPIRY_LIMIT_S:
        raise ValueError(f"expires_s={expires_s!r}: a question waits at most {EXPIRY_LIMIT_S} seconds, and not none")
    if schema is not None:
        try:
            schema = check_schema(exact(schema))
        except ValueError as error:
            raise ValueError(f"the schema of the answer {error}") from None
    question = Question(ask=exact(ask), schema=schema, action=exact(action), expires_ms=max(round(expires_s * 1000), 1))
    if (size := len(encode(question))) > VALUE_LIMIT:
        raise ValueError(f"the question has {size} bytes with its action, over {VALUE_LIMIT}; name a blob in it")
    return question


def exact(value: Any) -> Any:
    """`value` as JSON that is the same in every process, so that its digest stands for just this. Raises ValueError
    where there is none."""
    try:
        plain = msgspec.to_builtins(value, order="deterministic", str_keys=True, enc_hook=_plain)
        found = json.loads(json.dumps(plain))
    except (TypeError, ValueError, RecursionError) as error:
        raise ValueError(f"cannot be exact JSON: {describe(error)}") from None
    if problem := unstorable(found):
        raise ValueError(f"cannot be exact JSON: {problem}")
    return found


def _plain(value: Any) -> Any:
    """Not in the mode JSON: that would show stars for every secret, and sets in any order."""
    if isinstance(value, BaseModel):
        return value.model_dump()
    if hasattr(value, "__fspath__"):
        return value.__fspath__()
    raise TypeError(f"an object of type {type(value).__name__}")
