"""The task queue on JetStream: a work-queue stream in memory and one durable pull consumer a specialist.

Pulling stands in `jetstream_pull`. Source: the promises in `queue`.
"""

import asyncio
import contextlib
import secrets
from collections.abc import AsyncIterator, Iterable, Sequence
from typing import Any

import msgspec
from nats.aio.msg import Msg

from blackboard import jetstream_wire as wire
from blackboard.jetstream_pull import JetStreamDelivery, Puller, task_key
from blackboard.jetstream_streams import make_stream, subjects_of, task_config
from blackboard.log import LogFull, LogUnavailable
from blackboard.nats_connection import Connection
from blackboard.nats_errors import ApiError, Disconnected, refusal, status_of
from blackboard.nats_heard import heard, say
from blackboard.queue import ACK_WAIT_S, Entry, QueueGone, QueueUnavailable, TaskKey
from schemas.subjects import Subjects

MAX_IN_FLIGHT = 100_000
MAX_PULLS = 10_000
SEQUENCE_BITS = 50
"""The first sequence of a queue is drawn among so many. A clock may be set back to where it was."""
ATTEMPT_DIGITS = 10
"""Workers of one specialist that may wait at the same time."""
_NANOSECONDS = 1_000_000_000


class JetStreamQueue:
    """One board's task queue over one connection. It lies on as many servers as the log: on one alone, the work of a
    whole board would wait for that one."""

    def __init__(
        self,
        connection: Connection,
        subjects: Subjects,
        *,
        ack_wait_s: float = ACK_WAIT_S,
        deadline_s: float | None = None,
    ) -> None:
        self._connection, self._subjects = connection, subjects
        self._stream = subjects.task_stream
        self._ack_wait_s = ack_wait_s
        self._deadline_s = connection.patience_s if deadline_s is None else deadline_s
        self._replicas = 0
        self._puller = Puller(connection, self._stream)

    async def ensure(self, specialists: Iterable[str]) -> None:
        try:
            # Sequences start where hardly an earlier queue of that name has been: else a late ack, which names nothing
            # but a sequence, would take another task out of the queue that follows a lost one.
            await make_stream(
                self._connection,
                task_config(self._subjects),
                fixed={"first_seq": 1 + secrets.randbits(SEQUENCE_BITS)},
                replicas=await self._replicas_of_log(),
                deadline_s=self._deadline_s,
            )
            await asyncio.gather(*(self._ensure_place(specialist) for specialist in specialists))
        except LogUnavailable as error:
            raise QueueUnavailable(str(error)) from error

    async def _replicas_of_log(self) -> int:
        if not self._replicas:
            try:
                info = await self._connection.api(f"STREAM.INFO.{self._subjects.log_stream}", None, self._deadline_s)
            except ApiError as error:
                if error.err_code != wire.NO_STREAM:
                    raise
                return 1
            self._replicas = int(info["config"]["num_replicas"])
        return self._replicas

    async def _ensure_place(self, specialist: str) -> None:
        config: dict[str, Any] = {
            "durable_name": specialist,
            "filter_subject": self._subjects.tasks_of(specialist),
            "deliver_policy": "all",
            "ack_policy": "explicit",
            "ack_wait": int(self._ack_wait_s * _NANOSECONDS),
            "max_deliver": -1,
            "max_ack_pending": MAX_IN_FLIGHT,
            "max_waiting": MAX_PULLS,
            "replay_policy": "instant",
        }
        subject = f"CONSUMER.CREATE.{self._stream}.{specialist}.{config['filter_subject']}"
        await self._connection.api(subject, {"stream_name": self._stream, "config": config}, self._deadline_s)

    async def put(self, entries: Sequence[Entry]) -> None:
        asked: list[tuple[str, asyncio.Future[Msg]]] = []
        try:
            for entry in entries:
                key = entry.key
                headers = {**(entry.headers or {}), "Nats-Msg-Id": f"{key.run}.{key.task}.{key.attempt}"}
                asked.append(await self._connection.ask(self._subjects.task(*key), entry.data, headers))
            if asked:
                await asyncio.wait([future for _, future in asked], timeout=self._deadline_s)
            for _, future in asked:
                _check_put(future)
        except Disconnected as error:
            raise QueueUnavailable(str(error)) from error
        finally:
            for token, _ in asked:
                self._connection.answers.forget(token)

    async def keys(self) -> set[TaskKey]:
        subjects = await subjects_of(self._api, self._stream, self._subjects.tasks)
        return {key for subject in subjects if (key := task_key(subject))}

    async def remove(self, keys: Iterable[TaskKey]) -> None:
        await asyncio.gather(*(self._remove(self._subjects.task(*key)) for key in keys))

    async def _remove(self, subject: str) -> None:
        """Delete by sequence. A purge of the subject would do in one request, but it moves the consumer's floor past
        what others hold below it: if they die, that is never delivered again, and lies there (nats-server 2.15.1)."""
        try:
            there = await self._api(f"STREAM.MSG.GET.{self._stream}", {"last_by_subj": subject})
            body = {"seq": there["message"]["seq"], "no_erase": True}
            await self._api(f"STREAM.MSG.DELETE.{self._stream}", body)
        except ApiError as error:
            if error.err_code not in (wire.NOT_FOUND, wire.SEQUENCE_NOT_FOUND):
                raise

    async def pull(self, specialist: str, timeout_s: float) -> JetStreamDelivery | None:
        return await self._puller.pull(specialist, timeout_s)

    async def cancel(self, key: TaskKey) -> None:
        with contextlib.suppress(Disconnected):  # best effort: the task's own limits end it too
            subject = self._subjects.cancel(key.specialist, key.run, key.task)
            await say(self._connection, subject, str(key.attempt).encode())

    def cancels(self, specialist: str) -> AsyncIterator[TaskKey]:
        return self._cancelled(heard(self._connection, self._subjects.cancels_of(specialist)))

    async def _cancelled(self, messages: AsyncIterator[tuple[str, bytes]]) -> AsyncIterator[TaskKey]:
        async for subject, data in messages:
            specialist, run, task = subject.split(".")[-3:]
            if data.isdigit() and len(data) < ATTEMPT_DIGITS:
                yield TaskKey(specialist, run, task, int(data))

    async def _api(self, subject: str, body: dict[str, Any]) -> dict[str, Any]:
        try:
            return await self._connection.api(subject, body, self._deadline_s)
        except ApiError as error:
            if error.err_code == wire.NO_STREAM:
                raise QueueGone("the task queue does not exist") from error
            raise
        except LogUnavailable as error:
            raise QueueUnavailable(str(error)) from error


def _check_put(future: "asyncio.Future[Msg]") -> None:
    """Raise unless the entry is in the queue."""
    if not future.done():
        raise QueueUnavailable("the task queue did not answer in time")
    message = future.result()
    if status_of(message) == "503":
        raise QueueGone("the task queue does not exist")
    error = msgspec.json.decode(message.data).get("error")
    if error is None or wire.is_there(error):
        return  # stored now, or there already
    if error.get("code") == 503 or isinstance(refused := refusal("task", error), LogFull):
        raise QueueUnavailable(error.get("description", ""))
    raise refused
