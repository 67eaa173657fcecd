"""Which spans this supervisor tells, out of what it reads on the log.

The writer of a fact message, which its header names, tells what the message holds, so each span is told once however
many supervisors serve the board. A run of which others wrote a part is told by the writer of its end, whole, from the
log. A supervisor that takes over tells the runs again that ended just before, whose spans may have died with another.
What is told twice has the same ids and the same content.
"""

import asyncio
import contextlib
import logging
from collections import OrderedDict
from itertools import groupby

from msgspec.structs import replace

from blackboard import telemetry
from blackboard.board import Board
from blackboard.log import LogError, Message
from blackboard.queue import Entry, TaskKey
from projections.history import decoded
from schemas import events as e
from schemas.codec import NotAFactMessage, UnknownEvent, facts_of
from schemas.inputs import Input
from schemas.spans import trace_id
from schemas.subjects import BOARD_RUN
from supervisor.policy import span_id
from supervisor.spans import RunSpans, decision

log = logging.getLogger(__name__)

INPUTS_KEPT = 20_000
"""Inputs whose events have not been read back; most bring none about."""
ENDS_KEPT = 10_000
"""Ends by other supervisors that are remembered, for a takeover."""
SETTLE_S = 5.0
"""Seconds that telling may take once the supervisor stops."""
RECENT_MS = 60_000
"""Age of a run's end up to which a takeover tells the run again."""


class Traces:
    """`writer` is the name of this supervisor in headers. All of it does nothing while tracing is off."""

    def __init__(self, board: Board, log_id: str, writer: str) -> None:
        self._board, self._log, self._writer = board, log_id, writer
        self._live: dict[str, RunSpans] = {}
        self._inputs: OrderedDict[int, Input] = OrderedDict()
        self._ending: set[str] = set()
        self._elsewhere: OrderedDict[str, int] = OrderedDict()
        self._telling: set[asyncio.Task[None]] = set()

    def heard(self, cause: Input) -> None:
        """An input was read."""
        if telemetry.on():
            self._inputs[cause.seq] = cause
            if len(self._inputs) > INPUTS_KEPT:
                self._inputs.popitem(last=False)

    def stored(self, run: str, message: Message, ended: bool) -> None:
        """A fact message of `run` was read; `ended` tells whether the run is over as far as is known."""
        if not telemetry.on() or run == BOARD_RUN:
            return
        try:
            facts = facts_of(message.data, self._log, run)
            events = [event for _, event in decoded(facts)]
        except (NotAFactMessage, UnknownEvent):
            return
        over = any(isinstance(event, e.RunEnded) for event in events)
        if over:
            self._ending.discard(run)
        spans = self._live.pop(run, None) or RunSpans(self._log, run)
        if (message.headers or {}).get("writer") != self._writer:
            if over:
                self.ended_elsewhere(run, message.time_ms)
            return
        self._decisions(run, message, events)
        if spans.version == facts.first - 1:
            for event in events:
                telemetry.record(*spans.add(event))
            if not spans.ended:
                self._live[run] = spans
        elif over:
            self.tell(run)
        elif ended:
            for event in events:
                telemetry.record(*spans.add(event))

    def _decisions(self, run: str, message: Message, events: list[e.Event]) -> None:
        for seq, group in groupby(events, lambda event: event.cause.seq):
            if cause := self._inputs.pop(seq, None):
                telemetry.record(decision(self._log, run, cause, list(group), message.time_ms))

    def carried(self, entries: list[Entry]) -> list[Entry]:
        """Tasks for the queue, with their place in the trace as the header that other programs know. Workers of ours
        derive it."""
        if not telemetry.on():
            return entries
        return [replace(entry, headers={"traceparent": self._traceparent(entry.key)}) for entry in entries]

    def _traceparent(self, key: TaskKey) -> str:
        return f"00-{trace_id(self._log, key.run)}-{span_id(key.run, key.task, key.attempt)}-01"

    def ended_elsewhere(self, run: str, at_ms: int) -> None:
        """Another supervisor wrote the end of `run`, at `at_ms` by the log's clock."""
        if telemetry.on():
            self._elsewhere[run] = at_ms
            self._elsewhere.move_to_end(run)
            if len(self._elsewhere) > ENDS_KEPT:
                self._elsewhere.popitem(last=False)

    def took_over(self, now_ms: float) -> None:
        """This supervisor decides from now on, and who did before may not have lived to tell the last runs."""
        for run, at_ms in self._elsewhere.items():
            if now_ms - at_ms < RECENT_MS:
                self.tell(run)
        self._elsewhere.clear()

    def tell(self, run: str) -> None:
        """Tell all of a run, read from the log meanwhile."""
        telling = asyncio.create_task(self._tell(run))
        self._telling.add(telling)
        telling.add_done_callback(self._telling.discard)

    async def _tell(self, run: str) -> None:
        spans = RunSpans(self._log, run)
        try:
            async for messages in self._board.log.scan([self._board.subjects.fact(run)]):
                for message in messages:
                    with contextlib.suppress(NotAFactMessage):
                        for _, event in decoded(facts_of(message.data, self._log, run)):
                            telemetry.record(*spans.add(event))
        except (LogError, UnknownEvent) as error:
            log.warning("the trace of the run is not whole: %s", error, extra={"run": run})

    def ended(self, run: str) -> None:
        """The end of `run` was written; it is told once it is read back."""
        if telemetry.on():
            self._ending.add(run)

    async def settle(self) -> None:
        """Before the process ends: tell the runs whose end was not read back."""
        for run in sorted(self._ending):
            self.tell(run)
        if self._telling:
            await asyncio.wait(self._telling, timeout=SETTLE_S)
