"""The runner: feeds a view of runs from the log, in batches, from where the view is.

It reads fact messages alone and folds what it reads, trusting nothing; a run whose history is broken gets a row that
says so, and the others go on. States of runs are in memory while they go on; one that is not is read again from the
log. Fed twice, or by two processes at once, a view holds the same rows.
"""

from collections import OrderedDict
from collections.abc import Callable, Sequence

from eventsourcing.persistence import IntegrityError, Tracking
from msgspec import Struct

from blackboard.board import Board
from blackboard.log import Message
from projections.audit import Violation, recorded, take
from projections.history import Folded, unwritten
from projections.run_row import BROKEN, RunRow, row_of
from projections.views import RunsView
from schemas.codec import NotAFactMessage, chain_next, facts_of
from schemas.events import RunEnded

FINISHED_KEPT = 1_000
"""Finished runs of which the state is kept, for late inputs."""


class _Run(Struct, frozen=True):
    """`ended_ms` is the run's time when it ended."""

    folded: Folded
    ended_ms: int = 0


class Runner:
    """Feeds `view` from the log of `board`. `on_batch(position)` is called after each batch."""

    def __init__(self, board: Board, view: RunsView, on_batch: Callable[[int], None] | None = None) -> None:
        self._board, self._view, self._on_batch = board, view, on_batch
        self._log = board.log.id
        self._subject = board.subjects.every("fact")
        self._begin()

    def _begin(self) -> None:
        self._going: dict[str, _Run] = {}
        self._finished: OrderedDict[str, _Run] = OrderedDict()
        self._broken: set[str] = set()

    async def catch_up(self) -> int:
        """Take the view up to the head of the log, and return its position. Raises ViewUnusable, LogError."""
        await self._check_position()
        while True:
            try:
                async for messages in self._board.log.scan([self._subject], after=self._view.position(self._log)):
                    await self.feed(messages)
                return self._view.position(self._log)
            except IntegrityError:  # another process has taken the view further: go on from there
                self._begin()

    async def follow(self) -> None:
        """Catch up, then keep the view up to date until cancelled. Raises ViewUnusable, LogError."""
        position = await self.catch_up()
        subscription = await self._board.log.subscribe(self._feed_live, [self._subject], after=position)
        try:
            await subscription.wait()
        finally:
            await subscription.close()

    async def _feed_live(self, messages: Sequence[Message]) -> None:
        try:
            await self.feed(messages)
        except IntegrityError:
            self._begin()
            await self.catch_up()

    async def feed(self, messages: Sequence[Message]) -> None:
        """Fold fact messages that follow each other on the log; those at or below the view's position change nothing.
        Raises IntegrityError when another process was faster, ViewUnusable, LogError."""
        position = self._view.position(self._log)
        news = [message for message in messages if message.seq > position]
        if not news:
            return
        rows: dict[str, RunRow] = {}
        for message in news:
            if address := self._board.subjects.address(message.subject):
                row = await self._row(address.run, message)
                if row.version or row.phase == BROKEN:  # else nothing but what is no fact message of it
                    rows[address.run] = row
        self._view.write(list(rows.values()), Tracking(self._log, news[-1].seq))
        if self._on_batch:
            self._on_batch(news[-1].seq)

    async def _row(self, run: str, message: Message) -> RunRow:
        if run in self._broken:
            return self._broken_row(run, message)
        try:
            known = self._going.pop(run, None) or self._finished.pop(run, None) or await self._load(run, message.seq)
            now = known if known.folded.seq >= message.seq else _further(known, message)
        except Violation as violation:
            self._broken.add(run)
            return self._broken_row(run, message, str(violation))
        self._keep(run, now)
        return row_of(now.folded, now.ended_ms)

    def _broken_row(self, run: str, message: Message, problem: str = "") -> RunRow:
        before = self._view.row(self._log, run) or RunRow(run)
        return RunRow(
            run=run,
            team=before.team,
            publisher=before.publisher,
            parent=before.parent,
            phase=BROKEN,
            opened_ms=before.opened_ms,
            version=before.version,
            reason=problem or before.reason,
            seq=message.seq,
        )

    def _keep(self, run: str, now: _Run) -> None:
        if not now.folded.state.end:
            self._going[run] = now
            return
        self._finished[run] = now
        if len(self._finished) > FINISHED_KEPT:
            self._finished.popitem(last=False)

    async def _load(self, run: str, upto: int) -> _Run:
        """The run as it stands on the log at `upto`. Without a row in the view it is new. Raises Violation."""
        loaded = _Run(unwritten(self._log, run))
        if self._view.row(self._log, run) is None:
            return loaded
        async for messages in self._board.log.scan([self._board.subjects.fact(run)], upto=upto):
            for message in messages:
                loaded = _further(loaded, message)
        return loaded

    async def _check_position(self) -> None:
        """The log must hold at the view's position what was read there; where it was set back, the view is made anew.
        So it is for a view that lacks the row of the message there."""
        position = self._view.position(self._log)
        if not position:
            return
        message = await self._board.log.get(position)
        if message is None or not self._is_row_of(message):
            self._begin()
            self._view.clear(self._log)

    def _is_row_of(self, message: Message) -> bool:
        address = self._board.subjects.address(message.subject)
        if address is None:
            return True
        row = self._view.row(self._log, address.run)
        try:
            facts = facts_of(message.data, self._log, address.run)
        except NotAFactMessage:
            return row is None or row.seq == message.seq
        h = facts.prev
        for raw in facts.events:
            h = chain_next(h, memoryview(raw))
        return row is not None and row.seq == message.seq and (row.head == h or row.phase == BROKEN)


def _further(run: _Run, message: Message) -> _Run:
    folded = take(run.folded, message)
    state = folded.state
    if not folded.state.end or run.folded.state.end:
        return _Run(folded, run.ended_ms)
    return _Run(folded, _ended_ms(message, state.log, state.run))


def _ended_ms(message: Message, log: str, run: str) -> int:
    return next(item.event.at for item in recorded(message, log, run) if isinstance(item.event, RunEnded))
