"""What models were asked in a run, and what they answered: read from the observations and the blobs that they cite."""

from collections.abc import AsyncIterator
from dataclasses import dataclass, field
from typing import Any

import orjson

from blackboard.blobs import BlobDamaged, BlobMissing
from blackboard.board import Board
from schemas.conversations import Message, RecordedCall
from schemas.inputs import ModelCalled, read_input


@dataclass(frozen=True)
class ModelCall:
    """One call: who made it, what it was given (the oldest message first) and what came of it. `missing` names the
    first blob that is not there or damaged, where one is; the messages before it are not known then."""

    seq: int
    specialist: str
    called: ModelCalled
    messages: tuple[Message, ...] = ()
    answer: Message | None = None
    missing: str = ""

    def recorded(self) -> RecordedCall:
        called = self.called
        return RecordedCall(
            request=called.request,
            messages=called.messages,
            message=self.answer,
            finish=called.finish,
            usage=called.usage,
            cached_tokens=called.cached_tokens,
            reasoning_tokens=called.reasoning_tokens,
            uncounted=called.uncounted,
            code=called.code,
            said=called.message,
        )


@dataclass
class _Reader:
    board: Board
    _read: dict[str, dict[str, Any]] = field(default_factory=dict)

    async def blob(self, sha256: str) -> dict[str, Any]:
        """Raises BlobMissing, BlobDamaged."""
        if sha256 not in self._read:
            self._read[sha256] = orjson.loads(await self.board.blobs.get(sha256))
        return self._read[sha256]

    async def messages(self, head: str) -> tuple[Message, ...]:
        found: list[Message] = []
        while head:
            blob = await self.blob(head)
            found.append(blob["message"])
            head = str(blob.get("after", ""))
        return tuple(reversed(found))


async def model_calls(board: Board, run: str, task: str = "") -> AsyncIterator[ModelCall]:
    """The calls of models in `run`, or in one of its tasks, in the order of the log. Each counts once, however often it
    was told of."""
    reader, told = _Reader(board), set[tuple[str, int]]()
    async for messages in board.log.scan([board.subjects.observation("*", run)]):
        for message in messages:
            address = board.subjects.parse(message.subject)
            body = read_input(message.seq, message.subject, address, message.time_ms, message.data).body
            if not isinstance(body, ModelCalled) or (task and body.task != task):
                continue
            if (body.execution, body.call) in told:
                continue
            told.add((body.execution, body.call))
            yield await _call(reader, message.seq, address.author, body)


async def _call(reader: _Reader, seq: int, specialist: str, called: ModelCalled) -> ModelCall:
    try:
        given = await reader.messages(called.messages)
        answer = (await reader.blob(called.answer))["message"] if called.answer else None
    except (BlobMissing, BlobDamaged) as error:
        return ModelCall(seq, specialist, called, missing=str(error))
    return ModelCall(seq, specialist, called, given, answer)
