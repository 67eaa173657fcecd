"""The filter between a specialist and the board: nothing that it observes is appended with a secret or somebody's data.

`redact` puts a marker in the place of what is found; the value is then held against its schema once more. `refuse` lets
an item have no value: its code is POLICY_BLOCKED, and the message says what kind was found where. What must be recorded
all the same, such as that a tool was called, is recorded with markers. Where the filter itself fails nothing passes.
"""

import asyncio
import dataclasses
import logging
from collections.abc import Callable
from typing import Any, Literal, TypeVar

import msgspec
from msgspec.structs import replace

from schemas.bids import BID_SCHEMA
from schemas.codec import VALUE_LIMIT, encode
from schemas.events import Claim, Silence
from schemas.inputs import EffectIntended, EffectReceipt, Ended, ModelCalled, Observation, Progress, ToolCalled
from schemas.validation import violation
from specialists.findings import Finding, Redaction, redact, redact_text, tell
from specialists.specialist import Specialist
from specialists.stop import Stop, bounded

T = TypeVar("T")
S = TypeVar("S", bound=Observation | EffectIntended)
R = TypeVar("R")
Mode = Literal["redact", "refuse"]
MODES: tuple[Mode, ...] = ("redact", "refuse")
INLINE_BYTES = 8_192
"""What is larger is looked at in a thread: it would hold up the heartbeat of other tasks."""
_NEVER_SHOWN = "its text is not shown: it could not be looked at"


class Filter:
    """`mode` is what happens to an observation in which something is found."""

    def __init__(self, mode: Mode) -> None:
        if mode not in MODES:
            raise ValueError(f"a filter does one of {', '.join(MODES)}, not {mode!r}; leave it out to filter nothing")
        self.mode = mode

    def stops(self, specialist: Specialist) -> Specialist:
        """The specialist as one that may also end with POLICY_BLOCKED, where this filter lets it."""
        if self.mode == "redact" or "POLICY_BLOCKED" in specialist.stops:
            return specialist
        return dataclasses.replace(specialist, stops=(*specialist.stops, "POLICY_BLOCKED"))

    async def screen(self, observation: S, noted: list[Finding]) -> S:
        """What of an observation that is no end may be appended; what was found in it is added to `noted`. Raises Stop
        POLICY_BLOCKED for an effect whose arguments may not be shown: what undoes it would be called with markers."""
        if isinstance(observation, EffectIntended):
            await self._check_arguments(observation)
            return observation
        if isinstance(observation, EffectReceipt):  # it was done, so it is recorded
            result = await self._passed_on(observation.result)
            noted += result.findings
            observation = replace(observation, result=result.value)
            made = _message(observation.message, f"the receipt of {observation.tool}")
            noted += made.findings
            return replace(observation, message=made.value)
        if isinstance(observation, Progress):
            made = _message(observation.message, "progress")
        elif isinstance(observation, ToolCalled):
            name = _message(observation.tool, "").value[:64]
            made = _message(observation.message, f"the message of tool {name}")
            observation = replace(observation, tool=name)
        elif isinstance(observation, ModelCalled):  # what an endpoint says of an error may hold its key
            made = _message(observation.message, "the message of a model")
        else:
            return observation
        noted += made.findings
        return replace(observation, message=made.value)

    async def end(self, ended: Ended, specialist: Specialist, kind: str, noted: list[Finding]) -> Ended:
        """The end of a task of this kind as it may be appended, after what was `noted` while it was worked on."""
        try:
            return await _aside(lambda one: self._end(one, specialist, kind, noted), ended, len(encode(ended)))
        except Exception as error:  # a filter that fails lets nothing pass, and its error may hold what it looked at
            return _without_value(ended, "INTERNAL", f"the filter failed with {type(error).__name__}; nothing passes")

    async def bytes(self, data: bytes) -> bytes:
        """The content of a blob as it may be stored; what is no text passes. Raises Stop POLICY_BLOCKED."""
        try:
            text = data.decode()
        except UnicodeDecodeError:
            return data
        screened = await self._passed(redact_text, text, len(data), "a blob was not stored")
        return data if screened is text else str(screened).encode()

    async def value(self, value: Any) -> Any:
        """A value as a model may be told it, or its answer be kept. Raises Stop POLICY_BLOCKED."""
        return await self._passed(redact, value, len(encode(value)), "a message for a model or of one is held back")

    async def _check_arguments(self, intent: EffectIntended) -> None:
        made = await self._passed_on(intent.arguments)
        if made.findings:
            told = tell(made.findings)
            raise Stop(
                "POLICY_BLOCKED", f"{intent.tool} was not called: its arguments, which the log keeps, hold {told}"
            )

    async def _passed_on(self, value: Any) -> Redaction:
        """A value with markers in the place of what is found. Raises Stop where it cannot be looked at."""
        try:
            return await _aside(redact, value, len(encode(value)))
        except Exception as error:
            raise Stop("INTERNAL", f"the filter failed with {type(error).__name__}; nothing passes") from None

    async def _passed(self, look: Callable[[T], Redaction], value: T, size: int, refused: str) -> Any:
        try:
            made = await _aside(look, value, size)
        except Exception as error:
            raise Stop("INTERNAL", f"the filter failed with {type(error).__name__}; nothing passes") from None
        if made.findings and self.mode == "refuse":
            raise Stop("POLICY_BLOCKED", f"{refused}, it holds {tell(made.findings)}")
        return made.value if made.findings else value

    def _end(self, ended: Ended, specialist: Specialist, kind: str, noted: list[Finding]) -> Ended:
        said = redact_text(ended.message, "the message")
        # A question that was changed has another digest, under which its answer would never be found.
        asked = redact(msgspec.to_builtins(ended.question), "the question").findings if ended.question else []
        handed = redact_text(ended.to, "who should have the task").findings
        if found := [*asked, *handed, *((*noted, *said.findings) if self.mode == "refuse" else ())]:
            return _without_value(ended, "POLICY_BLOCKED", f"not to be shown: {tell(found)}")
        silences = [self._silence(one) for one in ended.silences]
        claims: list[Claim] = []
        alone = len(ended.claims) + len(silences) == 1
        for claim in ended.claims:
            made = redact(claim.value)
            problem = self._problem(made, specialist, kind)
            if problem is None:
                claims.append(replace(claim, value=made.value) if made.findings else claim)
            elif alone or problem[0] == "INVALID_OUTPUT":  # that code ends all of a task
                return _without_value(ended, *problem)
            else:
                silences.append(Silence(claim.key, *problem))
        return replace(ended, message=bounded(said.value), claims=tuple(claims), silences=tuple(silences))

    def _silence(self, silence: Silence) -> Silence:
        made = redact_text(silence.message, "the message")
        if made.findings and self.mode == "refuse":
            return Silence(silence.key, "POLICY_BLOCKED", f"not to be shown: {tell(made.findings)}")
        return replace(silence, message=bounded(made.value))

    def _problem(
        self, made: Redaction, specialist: Specialist, kind: str
    ) -> tuple[Literal["POLICY_BLOCKED", "INVALID_OUTPUT"], str] | None:
        """Why a value may not be claimed: a code and a message."""
        if not made.findings:
            return None
        told = tell(made.findings)
        if self.mode == "refuse":
            return "POLICY_BLOCKED", bounded(f"the value holds {told}")
        schema = BID_SCHEMA if kind == "bid" else specialist.signature.output_schema
        size = len(encode(made.value))
        broken = violation(schema, made.value) or (size > VALUE_LIMIT and f"{size} bytes, over {VALUE_LIMIT}")
        return ("INVALID_OUTPUT", bounded(f"{told} was redacted, and then the value: {broken}")) if broken else None


class RedactingFormatter(logging.Formatter):
    """Another formatter, without what its lines would show."""

    def __init__(self, inner: logging.Formatter | None) -> None:
        super().__init__()
        self._inner = inner or logging.Formatter()

    def format(self, record: logging.LogRecord) -> str:
        try:
            return str(redact_text(self._inner.format(record)).value)
        except Exception as error:
            return f"a line of {record.name} cannot be shown: {type(error).__name__}"


def _message(text: str, place: str) -> Redaction:
    """A message is not worth a failure: what cannot be looked at is not shown."""
    try:
        made = redact_text(text, place)
    except Exception:
        return Redaction(_NEVER_SHOWN)
    return Redaction(bounded(made.value), made.findings)


def _without_value(ended: Ended, code: Literal["POLICY_BLOCKED", "INVALID_OUTPUT", "INTERNAL"], message: str) -> Ended:
    return Ended(
        task=ended.task,
        attempt=ended.attempt,
        execution=ended.execution,
        usage=ended.usage,
        code=code,
        message=bounded(message),
    )


async def _aside(function: Callable[[T], R], value: T, size: int) -> R:
    return function(value) if size <= INLINE_BYTES else await asyncio.to_thread(function, value)
