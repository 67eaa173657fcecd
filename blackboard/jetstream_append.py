"""How messages get onto the log: pipelined one by one, or as one atomic batch from a number on that was measured.

A lone message costs less than a batch, which is staged on disk first; under load each lone message costs an fsync of
its own and a batch only one. With `sync_interval: always` a batch wins from about 16 messages on. A refused batch
stored nothing, so its messages go again one by one. Whatever was not answered is looked up at the leader.
Source: NATS architecture decision record 50 (batches), and the promises of `append` in `log`.
"""

import asyncio
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
from nats.aio.msg import Msg

from blackboard import jetstream_wire as wire
from blackboard.log import Append, Conflict, LogError, LogUnavailable, Message, Stored, TooLarge
from blackboard.nats_connection import ApiError, Connection, Disconnected, status_of

BATCH_FROM = 16
BATCH_LIMIT = 1000
"""The server takes no more messages in one batch."""
PAUSE_S = 0.05
IN_FLIGHT_TRIES = 20
"""Looks after a conflict with a message that is still under way, PAUSE_S apart, before it counts as a conflict."""

_Answer = tuple[str, "asyncio.Future[Msg]"]


class _Acknowledgement(msgspec.Struct):
    seq: int = 0
    error: dict[str, Any] | None = None


class Appender:
    """Appends to one stream.

    `batch_from` is the number of messages from which an atomic batch is used. After `ack_timeout_s` without an answer
    to anything a message is looked up, and after `deadline_s` without any result LogUnavailable is raised.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        *,
        batch_from: int = BATCH_FROM,
        ack_timeout_s: float = 2.0,
        deadline_s: float = 5.0,
    ) -> None:
        self._connection = connection
        self._stream = stream
        self._batch_from = max(batch_from, 2)
        self._ack_timeout_s = ack_timeout_s
        self._deadline_s = deadline_s

    async def append(self, appends: Sequence[Append]) -> list[Stored | Conflict]:
        """See `Log.append`."""
        for item in appends:
            self._check(item)
        outcomes: list[Stored | Conflict] = []
        for start in range(0, len(appends), BATCH_LIMIT):
            part = appends[start : start + BATCH_LIMIT]
            stored = await self._batch(part) if len(part) >= self._batch_from else None
            outcomes += stored if stored is not None else await self._singles(part)
        return outcomes

    async def find(self, body: dict[str, Any]) -> dict[str, Any] | None:
        """The leader's answer of STREAM.MSG.GET, or None when there is no such message."""
        try:
            return await self._connection.api(f"STREAM.MSG.GET.{self._stream}", body, self._deadline_s)
        except ApiError as error:
            if error.err_code == wire.NOT_FOUND:
                return None
            raise

    async def get(self, body: dict[str, Any]) -> Message | None:
        """The message that `find` finds."""
        answer = await self.find(body)
        return wire.stored(answer) if answer else None

    def _check(self, item: Append) -> None:
        size = len(item.data)
        for name, value in (item.headers or {}).items():
            if name.startswith(wire.SERVER_HEADERS):
                raise LogError(f"header {name!r} speaks to the server and may not be set")
            size += len(name) + len(value.encode()) + 4
        limit = self._connection.max_payload - 512  # room for the headers of the protocol
        if size > limit:
            raise TooLarge(f"{item.subject}: {size} bytes with headers; the log takes {limit}")

    # One by one

    async def _singles(self, appends: Sequence[Append]) -> list[Stored | Conflict]:
        """Append each message on its own, all under way at once, and again what was not answered."""
        loop = asyncio.get_running_loop()
        outcomes: dict[int, Stored | Conflict] = {}
        last_result_at = loop.time()
        looks = 0
        while waiting := [number for number in range(len(appends)) if number not in outcomes]:
            answers = await self._send_all([appends[number] for number in waiting])
            results = await self._results([appends[number] for number in waiting], answers, looks >= IN_FLIGHT_TRIES)
            failure: LogUnavailable | None = None
            for number, result in zip(waiting, results, strict=True):
                if isinstance(result, LogUnavailable):
                    failure = result
                elif result is not None:
                    outcomes[number] = result
                    last_result_at = loop.time()
            if len(outcomes) == len(appends):
                break
            looks += 1
            if failure and (self._connection.is_closed or loop.time() - last_result_at >= self._deadline_s):
                raise LogUnavailable(f"{appends[waiting[0]].subject}: not known to be stored: {failure}") from failure
            await asyncio.sleep(PAUSE_S)
        return [outcomes[number] for number in range(len(appends))]

    async def _send_all(self, appends: Sequence[Append]) -> list["asyncio.Future[Msg] | None"]:
        """Send all and wait for the answers; None where the message did not leave."""
        asked: list[_Answer | None] = []
        try:
            for item in appends:
                headers = dict(item.headers or {})
                if item.expected is not None:
                    headers[wire.EXPECTED] = str(item.expected)
                try:
                    asked.append(await self._connection.ask(item.subject, item.data, headers or None))
                except Disconnected:
                    asked.append(None)
            await self._wait([answer[1] for answer in asked if answer])
        finally:
            for answer in asked:
                if answer:
                    self._connection.forget(answer[0])
        return [answer[1] if answer else None for answer in asked]

    async def _wait(self, futures: Sequence["asyncio.Future[Msg]"]) -> None:
        """Return when all are answered, or when answers stopped coming in. While others still get theirs the server is
        only busy: then up to `deadline_s`."""
        loop = asyncio.get_running_loop()
        sent_at = loop.time()
        pending = set(futures)
        while pending:
            _, pending = await asyncio.wait(pending, timeout=self._ack_timeout_s)
            silent_s = loop.time() - max(sent_at, self._connection.last_answer_at)
            if silent_s >= self._ack_timeout_s or loop.time() - sent_at >= self._deadline_s:
                return

    async def _results(
        self, appends: Sequence[Append], answers: Sequence["asyncio.Future[Msg] | None"], last_look: bool
    ) -> list[Stored | Conflict | LogUnavailable | None]:
        """What became of each message: None when it is not stored and must be sent again, LogUnavailable when it must
        for want of an answer. Raises LogError when the log refuses one for good."""
        results: list[Stored | Conflict | LogUnavailable | None] = [_stored(answer) for answer in answers]
        doubtful = [number for number, result in enumerate(results) if result is None]
        looked_up = await asyncio.gather(
            *(self._result(appends[number], answers[number], last_look) for number in doubtful), return_exceptions=True
        )
        for number, found in zip(doubtful, looked_up, strict=True):
            if isinstance(found, BaseException) and not isinstance(found, LogUnavailable):
                raise found
            results[number] = found
        return results

    async def _result(
        self, item: Append, answer: "asyncio.Future[Msg] | None", last_look: bool
    ) -> Stored | Conflict | None:
        """What became of a message that was not simply stored."""
        if answer is None:
            raise Disconnected("no connection")
        if not answer.done():
            return await self._look_up(item, LogUnavailable("no acknowledgement"))
        try:
            message = answer.result()
        except Disconnected as lost:
            return await self._look_up(item, lost)
        if status_of(message) == "503":
            raise LogUnavailable("the log has no leader, or does not exist")
        error = ApiError(item.subject, msgspec.json.decode(message.data)["error"])
        if item.expected is not None and error.err_code == wire.WRONG_SEQUENCE:
            return await self._follower(item) or Conflict(item.subject, item.expected)
        if item.expected is not None and error.err_code == wire.SEQUENCE_IN_FLIGHT:
            return await self._follower(item) or (Conflict(item.subject, item.expected) if last_look else None)
        if error.code == 503:
            raise LogUnavailable(error.description)
        if error.err_code == wire.TOO_LARGE:
            raise TooLarge(str(error))
        raise error

    async def _look_up(self, item: Append, why: LogUnavailable) -> Stored | Conflict:
        """Find out at the leader what became of a message without an answer. Raises `why` when it is not there."""
        found = await self._follower(item) if item.expected is not None else None
        if found is None:
            raise why
        return found

    async def _follower(self, item: Append) -> Stored | Conflict | None:
        """Whether the message that follows the expected one on the subject is `item`; None when none follows."""
        assert item.expected is not None
        follower = await self.get({"seq": item.expected + 1, "next_by_subj": item.subject})
        if follower is None:
            return None
        return Stored(follower.seq) if follower.data == item.data else Conflict(item.subject, item.expected)

    # As one batch

    async def _batch(self, appends: Sequence[Append]) -> list[Stored] | None:
        """Append all or nothing; None when it was refused, or when it is not known to be stored."""
        batch_id = secrets.token_hex(16)
        asked: list[_Answer] = []
        try:
            for number, item in enumerate(appends, start=1):
                headers = {**(item.headers or {}), "Nats-Batch-Id": batch_id, "Nats-Batch-Sequence": str(number)}
                if item.expected is not None:
                    headers[wire.EXPECTED] = str(item.expected)
                if number == len(appends):
                    headers["Nats-Batch-Commit"] = "1"
                if number in (1, len(appends)):
                    asked.append(await self._connection.ask(item.subject, item.data, headers))
                else:
                    await self._connection.publish(item.subject, item.data, headers=headers)
            await self._wait([asked[-1][1]])
            message = asked[-1][1].result() if asked[-1][1].done() else None
        except Disconnected:
            message = None
        finally:
            for token, _ in asked:
                self._connection.forget(token)
        if message is None:
            return await self._look_up_batch(appends, batch_id)
        answered = msgspec.json.decode(message.data) if message.data else {"error": {}}
        return _numbered(answered["seq"], len(appends)) if "error" not in answered else None

    async def _look_up_batch(self, appends: Sequence[Append], batch_id: str) -> list[Stored] | None:
        """Find a batch without an answer by its id, which the server stores with each message."""
        item = next((one for one in appends if one.expected is not None), appends[-1])
        follower = {"seq": (item.expected or 0) + 1, "next_by_subj": item.subject}
        last = {"last_by_subj": item.subject}
        try:
            answer = await self.find(last if item.expected is None else follower)
        except LogUnavailable:
            return None  # each message alone finds out, or says so
        headers = wire.stored_headers(answer) if answer else {}
        if answer is None or headers.get("Nats-Batch-Id") != batch_id:
            return None
        first = int(answer["message"]["seq"]) - int(headers["Nats-Batch-Sequence"]) + 1
        return _numbered(first + len(appends) - 1, len(appends))


def _stored(answer: "asyncio.Future[Msg] | None") -> Stored | None:
    """The place of the message, when it was simply stored."""
    if answer is None or not answer.done() or answer.exception():
        return None
    message = answer.result()
    if not message.data:
        return None
    acknowledged = msgspec.json.decode(message.data, type=_Acknowledgement)
    return Stored(acknowledged.seq) if acknowledged.error is None else None


def _numbered(last: int, count: int) -> list[Stored]:
    """A batch stands without a gap, so the last sequence gives all."""
    return [Stored(seq) for seq in range(last - count + 1, last + 1)]
