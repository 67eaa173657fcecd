"""How messages come off the log: a push consumer without acknowledgements, made anew from the last position whenever
anything about it is in doubt.

The server sends as fast as it can, asks now and then whether we still keep up (flow control), and sends heartbeats
while there is nothing to send. Flow control is answered only when what came before it has been handled: this is the
back-pressure. A consumer numbers its deliveries, so a gap there is ours or the connection's, and reading again mends
it; a gap in the log's own sequence is damage, when all subjects are read and the leader has no message there either.
Source: NATS architecture decision record 17 (ordered consumers).
"""

import asyncio
import contextlib
import secrets
from collections.abc import Sequence
from typing import Any

from nats.aio.msg import Msg

from blackboard import jetstream_wire as wire
from blackboard.log import LogDamaged, LogError, LogUnavailable, Message, NotPermitted
from blackboard.nats_connection import Connection, Listener
from blackboard.nats_errors import ApiError, status_of

HEARTBEAT_S = 1.0
MISSED_HEARTBEATS = 3
BATCH = 1000
"""Messages handed over at once when many wait."""
RETRY_S = 0.2
_FLOW_CONTROL = "FlowControl"
_NANOSECONDS = 1_000_000_000


class _Doubt(Exception):
    """The consumer may have missed something: make it anew."""


class Reader:
    """Reads `subjects` (none: all) of a stream above sequence `after`, without end.

    `last_only` gives the last message of each subject first, then what follows; `headers_only` gives all without their
    data, which the server reads and checks all the same. One task at a time may read.
    """

    def __init__(
        self,
        connection: Connection,
        stream: str,
        subjects: Sequence[str] = (),
        after: int = 0,
        *,
        last_only: bool = False,
        headers_only: bool = False,
        heartbeat_s: float = HEARTBEAT_S,
    ) -> None:
        self.position = after
        """The sequence of the last message handed over, or where reading began."""
        self._connection, self._stream, self._subjects = connection, stream, list(subjects)
        self._last_only, self._headers_only, self._heartbeat_s = last_only, headers_only, heartbeat_s
        self._name = ""
        self._listener: Listener | None = None
        self._arrived: list[Msg] = []
        self._something = asyncio.Event()
        self._doubt: _Doubt | LogError | None = None
        self._number = 0
        self._replies: list[str] = []
        self.pending = 0
        """How many messages the server had for us, beyond what was handed over, when it last said so."""
        self.idle = False
        """Whether the server has said, since the last message, that it has nothing more."""
        self._forget_reconnect = connection.on_reconnect(self._on_reconnect)

    async def open(self) -> None:
        """Make the consumer; `pending` is exact afterwards. Raises LogUnavailable, LogError."""
        await self._close_consumer()
        self._name = f"read-{secrets.token_hex(8)}"
        self._arrived, self._replies, self._number, self._doubt, self.idle = [], [], 0, None, False
        inbox = self._connection.client.new_inbox()
        arrived, something = self._arrived, self._something

        async def on_message(message: Msg) -> None:
            arrived.append(message)
            something.set()

        self._listener = await self._connection.listen(inbox, on_message, self._on_refused)
        subject = f"CONSUMER.CREATE.{self._stream}.{self._name}"
        if len(self._subjects) == 1:
            subject += f".{self._subjects[0]}"  # so that permissions can name the filter
        answer = await self._connection.api(
            subject, {"stream_name": self._stream, "config": self._config(inbox), "action": "create"}
        )
        self.pending = int(answer["num_pending"]) + int(answer["delivered"]["consumer_seq"])

    def _config(self, inbox: str) -> dict[str, Any]:
        config: dict[str, Any] = {
            "name": self._name,
            "deliver_subject": inbox,
            "deliver_policy": "by_start_sequence",
            "opt_start_seq": self.position + 1,
            "ack_policy": "none",
            "replay_policy": "instant",
            "max_deliver": 1,
            "flow_control": True,
            "idle_heartbeat": int(self._heartbeat_s * _NANOSECONDS),
            "inactive_threshold": 30 * _NANOSECONDS,
            "mem_storage": True,
            "num_replicas": 1,
            "headers_only": self._headers_only,
        }
        if self._last_only:
            config["deliver_policy"] = "last_per_subject"
            del config["opt_start_seq"]
        if len(self._subjects) == 1:
            config["filter_subject"] = self._subjects[0]
        elif self._subjects:
            config["filter_subjects"] = self._subjects
        return config

    async def next(self) -> list[Message]:
        """The next messages; none when the server said that there are no more at the moment. To call it again says
        that those before have been handled. Raises LogDamaged, NotPermitted, or LogError when the stream is gone."""
        while True:
            try:
                await self._answer_flow_control()
                if not self._arrived:
                    await self._wait()
                messages = await self._take()
                if not messages and self.idle and self.pending and not self._subjects and not self._last_only:
                    await self._check_tail()
            except _Doubt:
                await self._reopen()
                continue
            if messages or self.idle:
                return messages

    async def close(self) -> None:
        self._forget_reconnect()
        self._forget_reconnect = lambda: None
        await self._close_consumer()

    async def _wait(self) -> None:
        self._something.clear()
        self._raise_doubt()
        try:
            await asyncio.wait_for(self._something.wait(), self._heartbeat_s * MISSED_HEARTBEATS)
        except TimeoutError:
            raise _Doubt from None
        if not self._arrived:
            self._raise_doubt()

    def _raise_doubt(self) -> None:
        if self._doubt is not None:
            raise self._doubt

    async def _take(self) -> list[Message]:
        """Turn what arrived into messages, up to the first doubt, which stays for the next call."""
        taken, self._arrived[:BATCH] = self._arrived[:BATCH], []
        messages: list[Message] = []
        for raw in taken:
            try:
                if raw.reply.startswith(wire.PLACE):  # whatever its headers say: anybody may have written them
                    messages.append(await self._on_message(raw))
                elif status_of(raw) == "100":
                    self._on_control(raw)
            except (_Doubt, LogError) as doubt:
                if not messages:
                    raise
                self._doubt = doubt
                self._arrived.clear()
                break
        return messages

    async def _on_message(self, raw: Msg) -> Message:
        place = wire.place_of(raw.reply)
        if place.number != self._number + 1 or place.seq <= self.position:
            raise _Doubt
        if not self._subjects and not self._last_only and place.seq != self.position + 1:
            await self._check_gap()
        self._number, self.position, self.pending, self.idle = place.number, place.seq, place.pending, False
        return wire.delivered(raw, place)

    def _on_control(self, raw: Msg) -> None:
        headers = raw.headers or {}
        if headers.get("Description", "").startswith(_FLOW_CONTROL):
            self._replies.append(raw.reply)
            return
        if stalled := headers.get("Nats-Consumer-Stalled"):
            self._replies.append(stalled)
            return
        if int(headers.get("Nats-Last-Consumer", self._number)) != self._number:
            raise _Doubt
        self.idle = True

    async def _check_gap(self) -> None:
        with contextlib.suppress(LogUnavailable):
            await self.require(self.position + 1)
        raise _Doubt  # the leader has it, so reading again gives it

    async def _check_tail(self) -> None:
        """The server counts more messages than it delivers: see whether the next one is lost, once a position."""
        self.pending = 0
        with contextlib.suppress(LogUnavailable):
            await self.require(self.position + 1)

    async def require(self, seq: int) -> None:
        """Raise LogDamaged unless the leader has a message at `seq`."""
        try:
            await self._connection.api(f"STREAM.MSG.GET.{self._stream}", {"seq": seq})
        except ApiError as error:
            raise LogDamaged(seq, f"the log does not give the message back ({error.description})") from error

    async def _answer_flow_control(self) -> None:
        replies, self._replies = self._replies, []
        try:
            for reply in replies:
                await self._connection.publish(reply)
        except LogUnavailable:
            raise _Doubt from None

    async def _reopen(self) -> None:
        """Make the consumer anew, however long the server stays away."""
        while True:
            try:
                await self.open()
                return
            except LogUnavailable:
                if self._connection.is_closed:
                    raise
                await asyncio.sleep(RETRY_S)

    async def _close_consumer(self) -> None:
        if self._listener is None:
            return
        listener, self._listener = self._listener, None
        await listener.close()
        if self._connection.is_up:
            with contextlib.suppress(LogUnavailable):  # the server takes it away by itself when nobody listens
                subject = f"CONSUMER.DELETE.{self._stream}.{self._name}"
                await self._connection.publish(self._connection.api_subject(subject))

    def _on_reconnect(self) -> None:
        self._doubt = self._doubt or _Doubt()
        self._something.set()

    def _on_refused(self, error: NotPermitted) -> None:
        self._doubt = error
        self._something.set()
