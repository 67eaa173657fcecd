"""Recorded answers of models: what `blackboard conversation RUN --export FILE` writes, read in place of an endpoint.

`BLACKBOARD_RECORDING` names the file. Each call of a run is answered as it was when the same model was asked in the
same way, with the same messages; where this happened several times, in that order, and with the last from then on. What
was never asked has no answer, and nothing goes out to an endpoint; with `BLACKBOARD_RECORDING_ELSE=ask` it does: so a
run is had again up to where it differs, and goes on from there.
"""

import os
from collections import Counter, defaultdict
from functools import lru_cache
from pathlib import Path

import msgspec

from schemas.conversations import RecordedCall
from schemas.events import StopCode
from specialists.llm import NOTHING, TRANSIENT, Completion, Counted, Failed, about_form
from specialists.models import BadModels

RECORDING, ELSE = "BLACKBOARD_RECORDING", "BLACKBOARD_RECORDING_ELSE"


class Recording:
    """The answers of a file, and how many of them each run was given."""

    def __init__(self, calls: list[RecordedCall]) -> None:
        self._answers: dict[tuple[str, str], list[RecordedCall]] = defaultdict(list)
        for call in calls:
            self._answers[call.request, call.messages].append(call)
        self._given: Counter[tuple[str, str, str]] = Counter()

    def answer(self, run: str, request: str, messages: str) -> Completion | Failed | None:
        """The next answer to exactly this; None where there is none."""
        known = self._answers.get((request, messages))
        if not known:
            return None
        number = self._given[run, request, messages]
        self._given[run, request, messages] += 1
        return _outcome(known[min(number, len(known) - 1)])


def _outcome(call: RecordedCall) -> Completion | Failed:
    usage = call.usage
    counted = Counted(usage.input_tokens, usage.output_tokens, call.cached_tokens, call.reasoning_tokens)
    known = None if call.uncounted else counted
    if call.message is not None:
        return Completion(call.message, call.finish or "stop", known)
    code: StopCode = call.code or "TOOL_DOWN"
    return Failed(code, call.said, transient=code in TRANSIENT, form=about_form(call.said), counted=known)


def recorded(run: str, request: str, messages: str) -> Completion | Failed | None:
    """The recorded answer; None where an endpoint is to be asked. Raises BadModels."""
    path, otherwise = os.environ.get(RECORDING), os.environ.get(ELSE, "stop")
    if otherwise not in ("stop", "ask"):
        raise BadModels(f"{ELSE} is stop or ask, not {otherwise!r}")
    if not path:
        return None
    found = _read(path).answer(run, request, messages)
    if found or otherwise == "ask":
        return found
    said = f"the recording has no answer to this request ({request[:12]}) with these messages ({messages[:12]})"
    return Failed("INVALID_INPUT", said, counted=NOTHING)


def rewind() -> None:
    """Begin every recording anew."""
    _read.cache_clear()


@lru_cache(maxsize=4)
def _read(path: str) -> Recording:
    try:
        lines = Path(path).read_bytes().splitlines()
        return Recording([msgspec.json.decode(line, type=RecordedCall) for line in lines if line.strip()])
    except OSError as error:
        raise BadModels(f"{RECORDING} names {path}, which cannot be read: {error.strerror}") from None
    except msgspec.MsgspecError as error:
        raise BadModels(f"{RECORDING} names {path}, which is no recording: {error}") from None
