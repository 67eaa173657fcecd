"""Pulling tasks: one inbox for all pulls of a connection, and who waits for what.

A status (nothing there, no such place) comes back under the inbox of its own request. A task comes under its own
subject, so it goes to whoever has waited longest for that specialist; when nobody waits any more, it is given back at
once, instead of lying in nobody's hands until its time is up.
Source: NATS architecture decision record 37 (pull requests).
"""

import asyncio
import contextlib
from typing import Any

import msgspec
from nats.aio.msg import Msg

from blackboard import jetstream_wire as wire
from blackboard.log import LogUnavailable
from blackboard.nats_connection import Connection, Listener
from blackboard.nats_errors import Disconnected, status_of
from blackboard.queue import QueueGone, QueueUnavailable, TaskKey

GRACE_S = 0.5
"""How much longer than the server we wait for the end of a pull."""
ANSWER_TIMEOUT_S = 1.0
_NANOSECONDS = 1_000_000_000


def task_key(subject: str) -> TaskKey | None:
    """The key that a subject of the task stream spells; None where somebody else than the supervisor wrote it."""
    match subject.split("."):
        case [_, _, _, specialist, run, task, attempt] if attempt.isascii() and attempt.isdecimal():
            return TaskKey(specialist, run, task, int(attempt[:9]))
    return None


class JetStreamDelivery:
    """One task in the hands of one worker; see `queue.Delivery`."""

    def __init__(self, connection: Connection, key: TaskKey, message: Msg) -> None:
        self._connection, self._reply = connection, message.reply
        self.key = key
        self.data = message.data
        self.headers = wire.own_headers(message.headers) or {}
        self.count = wire.place_of(message.reply).tries

    async def extend(self) -> None:
        await self._say(b"+WPI")

    async def ack(self) -> None:
        await self._say(b"+ACK")

    async def release(self, delay_s: float = 0) -> None:
        delay = b" " + msgspec.json.encode({"delay": int(delay_s * _NANOSECONDS)}) if delay_s > 0 else b""
        await self._say(b"-NAK" + delay)

    async def _say(self, word: bytes) -> None:
        """Tell the server and wait until it has heard, so that what is asked next sees it."""
        with contextlib.suppress(LogUnavailable):
            await self._connection.request(self._reply, word, ANSWER_TIMEOUT_S)


class Puller:
    """The pulls of one connection from one task stream."""

    def __init__(self, connection: Connection, stream: str) -> None:
        self._connection, self._stream = connection, stream
        self._inbox = connection.client.new_inbox()
        self._opening: asyncio.Future[Listener] | None = None
        self._asked = 0
        self._waiting: dict[str, tuple[str, asyncio.Future[Msg]]] = {}

    async def pull(self, specialist: str, timeout_s: float) -> JetStreamDelivery | None:
        """See `Queue.pull`."""
        self._asked += 1
        token = f"{self._asked:x}"
        future: asyncio.Future[Msg] = asyncio.get_running_loop().create_future()
        self._waiting[token] = (specialist, future)
        subject = self._connection.api_subject(f"CONSUMER.MSG.NEXT.{self._stream}.{specialist}")
        guard, _ = self._connection.answers.expect(subject, future)  # fails it when refused or disconnected
        try:
            await self._ask(subject, token, timeout_s)
            message = await asyncio.wait_for(future, timeout_s + GRACE_S)
        except TimeoutError:
            return None
        except Disconnected as error:
            raise QueueUnavailable(str(error)) from error
        finally:
            self._waiting.pop(token, None)
            self._connection.answers.forget(guard)
        if message.reply and (key := task_key(message.subject)):
            return JetStreamDelivery(self._connection, key, message)
        _check_nothing(specialist, message)
        return None

    async def _ask(self, subject: str, token: str, timeout_s: float) -> None:
        self._connection.check_inbox()
        if self._opening is None:
            self._opening = asyncio.ensure_future(self._connection.listen(f"{self._inbox}.*", self._on_message))
        await asyncio.shield(self._opening)
        body: dict[str, Any] = {"batch": 1, "expires": max(int(timeout_s * _NANOSECONDS), 1_000_000)}
        await self._connection.publish(subject, msgspec.json.encode(body), f"{self._inbox}.{token}")

    async def _on_message(self, message: Msg) -> None:
        if not message.reply:
            _, future = self._waiting.get(message.subject.rpartition(".")[2], ("", None))
            if future is not None and not future.done():
                future.set_result(message)
            return
        key = task_key(message.subject)
        if key is None:
            await self._connection.publish(message.reply, b"+TERM")  # out of the queue: nobody can do that
            return
        for waits_for, future in self._waiting.values():
            if waits_for == key.specialist and not future.done():
                future.set_result(message)
                return
        await JetStreamDelivery(self._connection, key, message).release()


def _check_nothing(specialist: str, message: Msg) -> None:
    """Return when there was no task; raise when that is no answer. Codes: 404 and 408 nothing there, 409 the pull was
    ended, 503 nobody takes it."""
    status, why = status_of(message), (message.headers or {}).get("Description", "")
    if status in ("404", "408"):
        return
    if status == "503" or "Deleted" in why:
        raise QueueGone(f"the task queue has no place for specialist {specialist!r} at the moment")
    raise QueueUnavailable(f"the pull for {specialist!r} ended: {status} {why}")
