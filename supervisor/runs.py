"""The runs that a supervisor holds in memory, each as folded from the log.

Unfinished runs stay; finished ones are kept while there is room, and are read again when an input names them.

A message on the subject of a run that is no fact message of it changes nothing but where the next one is appended.
Where a run ends with one it may be a fact message that was damaged: then the inputs behind the run's cursor are decided
again, and the same events stored behind it.
"""

import logging
from collections import OrderedDict
from collections.abc import AsyncIterator, Iterator, Sequence

from blackboard.board import Board, floor_of
from blackboard.log import Message
from projections.history import Folded, fold, passed_over, unwritten
from schemas.codec import NotAFactMessage, facts_of
from schemas.subjects import BOARD_RUN

log = logging.getLogger(__name__)

FINISHED_KEPT = 1_000
"""Finished runs in memory."""


class Runs:
    def __init__(self, board: Board, log_id: str) -> None:
        self._board, self._log_id = board, log_id
        self._open: dict[str, Folded] = {}
        self._finished: OrderedDict[str, Folded] = OrderedDict()
        self._said: set[int] = set()

    def get(self, run: str) -> Folded | None:
        return self._open.get(run) or self._finished.get(run)

    def put(self, folded: Folded) -> None:
        run = folded.state.run
        if folded.state.end:
            self._open.pop(run, None)
            self._finished[run] = folded
            self._finished.move_to_end(run)
        else:
            self._open[run] = folded

    def is_over(self, run: str) -> bool:
        """Whether the run has ended, as far as is known here: what is not in memory is not going on."""
        return run not in self._open

    @property
    def unfinished_count(self) -> int:
        return sum(folded.state.version > 0 and run != BOARD_RUN for run, folded in self._open.items())

    def trim(self) -> None:
        """Forget the finished runs that are too many. Not while inputs are being decided: one may name any of them."""
        while len(self._finished) > FINISHED_KEPT:
            self._finished.popitem(last=False)

    def unwritten(self, run: str) -> Folded:
        return unwritten(self._log_id, run)

    def unfinished(self) -> Iterator[Folded]:
        return iter(list(self._open.values()))

    def drop(self, run: str) -> None:
        self._open.pop(run, None)
        self._finished.pop(run, None)

    async def load(self, run: str) -> Folded:
        """The run as the log has it; one of which the log has nothing is not kept. Raises BrokenHistory,
        UnknownEvent."""
        folded, subject = self.unwritten(run), self._board.subjects.fact(run)
        if await self._board.log.last(subject) is None:
            return folded
        async for messages in self._board.log.scan([subject]):
            for message in messages:
                folded = self.further(folded, message)
        self.put(folded)
        return folded

    async def reload(self, run: str) -> Folded:
        """The run with what the leader has beyond what is known here. Raises as `load`."""
        folded = self.get(run) or self.unwritten(run)
        async for message in self._board.log.read(self._board.subjects.fact(run), after=folded.seq):
            folded = self.further(folded, message)
        self.put(folded)
        return folded

    def further(self, folded: Folded, message: Message) -> Folded:
        """The run with one more message of the log; what is no fact message of it is passed over, and told once. Raises
        BrokenHistory, UnknownEvent."""
        run = folded.state.run
        try:
            facts = facts_of(message.data, self._log_id, run)
        except NotAFactMessage as error:
            if message.seq not in self._said:
                log.error("passed over at sequence %d, on the subject of run %s: %s", message.seq, run, error)
                self._said.add(message.seq)
            return passed_over(folded, message.seq)
        return fold(folded, facts, message.seq)

    def floor_of(self, message: Message | None) -> int:
        """What a fact message of a run says is decided and stored; 0 of what is no such message."""
        address = self._board.subjects.address(message.subject) if message else None
        try:
            facts_of(message.data if message else b"", self._log_id, address.run if address else "")
        except NotAFactMessage:
            return 0
        return floor_of(message)

    async def stored_floor(self) -> int:
        """The floor of the last fact message. Where that is none, of those that are the last of their runs."""
        every = self._board.subjects.every("fact")
        last = await self._board.log.last(every)
        if last is None or (floor := self.floor_of(last)):
            return floor if last else 0
        return max([self.floor_of(message) async for message in self._board.log.last_per_subject(every)], default=0)

    async def behind(self, upto: int) -> AsyncIterator[Sequence[Message]]:
        """What may have brought about events that are lost: of each run in memory that ends with a message that is none
        of it, what lies behind its cursor, up to sequence `upto`. Of a run at a time."""
        for folded in [*self._open.values(), *self._finished.values()]:
            if folded.passed:
                run = folded.state.run
                chosen = () if run == BOARD_RUN else self._board.subjects.of_run(run)
                async for messages in self._board.log.scan(chosen, after=folded.cursor, upto=upto):
                    yield messages
