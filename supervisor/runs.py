"""The runs that a supervisor holds in memory, each as folded from the log.

Unfinished runs stay; finished ones are kept while there is room, and are read again when an input names them.
"""

from collections import OrderedDict
from collections.abc import Iterator

from blackboard.board import Board
from blackboard.log import Message
from projections.history import Folded, fold, unwritten
from schemas.codec import decode_facts
from schemas.subjects import BOARD_RUN

FINISHED_KEPT = 1_000
"""Finished runs in memory."""


class Runs:
    def __init__(self, board: Board, log_id: str) -> None:
        self._board, self._log_id = board, log_id
        self._open: dict[str, Folded] = {}
        self._finished: OrderedDict[str, Folded] = OrderedDict()

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
        return len(self._open.keys() - {BOARD_RUN})

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
        """The run as the log has it; a run without events is not kept. Raises BrokenHistory, NotAFactMessage,
        UnknownEvent."""
        folded, subject = self.unwritten(run), self._board.subjects.fact(run)
        if await self._board.log.last(subject) is None:
            return folded
        async for messages in self._board.log.scan([subject]):
            for message in messages:
                folded = fold_stored(folded, message)
        self.put(folded)
        return folded

    async def reload(self, run: str) -> Folded:
        """The run with what the leader has beyond what is known here. Raises as `load`."""
        folded = self.get(run) or self.unwritten(run)
        async for message in self._board.log.read(self._board.subjects.fact(run), after=folded.seq):
            folded = fold_stored(folded, message)
        self.put(folded)
        return folded


def fold_stored(folded: Folded, message: Message) -> Folded:
    """The run with one more message of the log. Raises BrokenHistory, NotAFactMessage, UnknownEvent."""
    return fold(folded, decode_facts(message.data), message.seq)
