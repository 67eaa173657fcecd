"""How a wave of messages gets onto the log: pipelined one by one, or as one atomic batch.

A refused batch stored nothing, so its messages go again one by one. Whatever was not answered is looked up at the
leader: the message that follows the expected one on the subject is ours, somebody else's, or not there yet.
Source: NATS architecture decision record 50 (batches), and the promises of `append` in `log`.
"""

import asyncio
import secrets
from collections.abc import Sequence
from typing import Any

import msgspec
from nats.aio.msg import Msg

from blackboard import jetstream_wire as wire
from blackboard.jetstream_direct import Gets
from blackboard.log import Append, Conflict, LogError, LogFull, LogUnavailable, NotPermitted, Stored, TooLarge
from blackboard.nats_connection import Connection
from blackboard.nats_errors import Disconnected, refusal, status_of

PAUSE_S = 0.05
IN_FLIGHT_TRIES = 20
"""Looks after a conflict with a message that is still under way, PAUSE_S apart, before it counts as a conflict."""

SILENT = "no acknowledgement: the server is busy, or cannot write to its disk, which its own log then says"

Outcome = Stored | Conflict | LogError
"""What became of one message; a LogError is for its caller to raise."""

_Answer = tuple[str, "asyncio.Future[Msg]"]


class _Acknowledgement(msgspec.Struct):
    seq: int = 0
    error: dict[str, Any] | None = None


class Waves:
    """Stores waves of messages on one stream.

    After `ack_timeout_s` without an answer to anything a message is looked up, and after `deadline_s` without any
    result what is left of the wave is LogUnavailable.
    """

    def __init__(self, connection: Connection, stream: str, ack_timeout_s: float, deadline_s: float) -> None:
        self._connection, self._stream = connection, stream
        self.gets = Gets(connection, stream, deadline_s)
        self._ack_timeout_s, self._deadline_s = ack_timeout_s, deadline_s

    # One by one

    async def singles(self, appends: Sequence[Append], since: float) -> list[Outcome]:
        """Append each message on its own, all under way at once, and again what was not answered. `since` is the loop
        time from which they wait for a result."""
        loop = asyncio.get_running_loop()
        outcomes: dict[int, Outcome] = {}
        looks = 0
        while waiting := [number for number in range(len(appends)) if number not in outcomes]:
            answers = await self._send_all([appends[number] for number in waiting])
            results = await self._results([appends[number] for number in waiting], answers, looks >= IN_FLIGHT_TRIES)
            silent: dict[int, Outcome] = {}
            for number, result in zip(waiting, results, strict=True):
                if isinstance(result, LogUnavailable):
                    silent[number] = _unavailable(appends[number], result)
                elif result is not None:
                    outcomes[number] = result
                    since = loop.time()
            if silent and (self._connection.is_closed or loop.time() - since >= self._deadline_s):
                outcomes |= silent
            looks += 1
            if len(outcomes) < len(appends):
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
                    if item.among:
                        headers[wire.EXPECTED_AMONG] = item.among
                try:
                    asked.append(await self._connection.ask(item.subject, item.data, headers or None))
                except Disconnected:
                    asked.append(None)
            await self._wait([answer[1] for answer in asked if answer])
        finally:
            for answer in asked:
                if answer:
                    self._connection.answers.forget(answer[0])
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
    ) -> list[Outcome | None]:
        """What became of each message: None when it is not stored and must be sent again, LogUnavailable when it must
        for want of an answer, another LogError when the log refuses it for good."""
        results: list[Outcome | None] = [_stored(answer) for answer in answers]
        doubtful = [number for number, result in enumerate(results) if result is None]
        looked_up = await asyncio.gather(
            *(self._result(appends[number], answers[number], last_look) for number in doubtful), return_exceptions=True
        )
        for number, found in zip(doubtful, looked_up, strict=True):
            if isinstance(found, BaseException) and not isinstance(found, LogError):
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
            return await self._look_up(item, LogUnavailable(SILENT))
        try:
            message = answer.result()
        except Disconnected as lost:
            return await self._look_up(item, lost)
        if status_of(message) == "503":
            raise LogUnavailable("the log has no leader, or does not exist")
        error = refusal(item.subject, msgspec.json.decode(message.data)["error"])
        if item.expected is not None and error.err_code == wire.WRONG_SEQUENCE:
            return await self._follower(item) or Conflict(item.subject, item.expected)
        if item.expected is not None and error.err_code == wire.SEQUENCE_IN_FLIGHT:
            return await self._follower(item) or (Conflict(item.subject, item.expected) if last_look else None)
        if error.code == 503 and not isinstance(error, LogFull):
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
        try:
            follower = await self.gets.next_message(item.expects_on, item.expected)
        except NotPermitted:  # a specialist's identity reads nothing but what it wrote itself
            follower = await self.gets.last_of(item.subject)
        if follower is None:
            return None
        is_it = (follower.subject, follower.data) == (item.subject, item.data)
        return Stored(follower.seq) if is_it else Conflict(item.subject, item.expected)

    # As one batch

    async def batch(self, appends: Sequence[Append]) -> list[Stored] | None:
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
        except LogError:  # the connection is down, or the identity may not: each message alone says so
            message = None
        finally:
            for token, _ in asked:
                self._connection.answers.forget(token)
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
            answer = await self.gets.find(last if item.expected is None else follower)
        except (LogUnavailable, NotPermitted):
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


def _unavailable(item: Append, why: LogUnavailable) -> LogUnavailable:
    if isinstance(why, LogFull):  # the server said that it has not stored it
        return why
    error = LogUnavailable(f"{item.subject}: not known to be stored: {why}")
    error.__cause__ = why
    return error


def _numbered(last: int, count: int) -> list[Stored]:
    """A batch stands without a gap, so the last sequence gives all."""
    return [Stored(seq) for seq in range(last - count + 1, last + 1)]
