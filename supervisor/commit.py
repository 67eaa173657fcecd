"""Deciding a batch of inputs and committing it: compare-and-append, one fact message a run and round.

Headers of a fact message, neither hashed nor decided on: `writer`, `floor`, and once the run has ended `state`, the
digest of the state as this supervisor holds it, for auditors to compare with what they rebuild.

A batch is decided on working copies; what the log stored becomes the run, what it refused is read again and decided
again. Inputs are decided in order of sequence, each with the catalogue below it, so it does not matter how often.
"""

import logging
from collections.abc import Iterator, Sequence

from msgspec import Struct
from msgspec.structs import replace

from blackboard.board import Board
from blackboard.log import Append, Stored
from projections.evolve import evolve
from projections.history import BrokenHistory, Folded, state_digest
from schemas import events as e
from schemas.catalogue import Catalogue
from schemas.codec import MESSAGE_LIMIT, NotAFactMessage, UnknownEvent, chain_next, encode, encode_facts
from schemas.goals import Goal
from schemas.inputs import Input
from schemas.subjects import BOARD_RUN
from supervisor.decide import NewerRules, Rejected, decide, decide_board
from supervisor.runs import Runs

log = logging.getLogger(__name__)

UNREADABLE = (BrokenHistory, NotAFactMessage, UnknownEvent)
_ENVELOPE = 1_024
"""Bytes of a fact message beside its events, at most."""


class Decided(Struct, frozen=True):
    """What one input brought about: encoded events, and the run after them."""

    cause: Input
    events: tuple[e.Event, ...]
    stored: tuple[bytes, ...]
    after: Folded


class Committer:
    """Decides and commits for all runs of one board. `left` are the runs that this supervisor leaves alone, with the
    first input of each that it did not decide."""

    def __init__(self, board: Board, runs: Runs, catalogue: Catalogue, writer: str) -> None:
        self._board, self._runs, self._catalogue, self._writer = board, runs, catalogue, writer
        self.left: dict[str, int] = {}
        self.appended = 0
        self.conflicts = 0

    async def commit(self, inputs: Sequence[Input], floor: int) -> None:
        """Decide `inputs`, in order, and store what they bring about.

        `floor` goes along as a header: every input at or below it is decided and stored.
        """
        await self._load_missing(inputs)
        todo = list(inputs)
        while todo:
            refused = await self._store(self._decide_all(todo), floor)
            todo = [cause for cause in todo if self._homes.get(cause.seq) in refused]

    async def _load_missing(self, inputs: Sequence[Input]) -> None:
        """Read the runs that inputs name and that are not in memory. The run of a goal is taken to be new: the expected
        sequence tells when it is not."""
        first: dict[str, int] = {}
        for cause in inputs:
            first.setdefault(BOARD_RUN, cause.seq)  # any of them may have to be rejected
            if not isinstance(cause.body, Goal):
                first.setdefault(cause.address.run, cause.seq)
        for run, seq in sorted(first.items()):
            if run not in self.left and self._runs.get(run) is None:
                try:
                    await self._runs.load(run)
                except UNREADABLE as error:
                    self.leave(run, seq, str(error))

    def leave(self, run: str, seq: int, reason: str) -> None:
        """Leave a run alone from the input at `seq` on: it cannot be read, or newer rules decide it."""
        self.left.setdefault(run, seq)
        self._runs.drop(run)
        log.error("run %s is left alone from input %d on: %s", run, seq, reason, extra={"run": run})

    # -- deciding --

    def _decide_all(self, inputs: Sequence[Input]) -> dict[str, list[Decided]]:
        """What is to be stored, by run. Remembers in `_homes` to which run each input belongs."""
        self._homes: dict[int, str] = {}
        pending: dict[str, list[Decided]] = {}
        for cause in inputs:
            for decided in self._decide(cause, pending):
                pending.setdefault(decided.after.state.run, []).append(decided)
        return pending

    def _decide(self, cause: Input, pending: dict[str, list[Decided]]) -> Iterator[Decided]:
        run, view = cause.address.run, self._catalogue.below(cause.seq)
        if run in self.left:
            return
        folded = self._working(run, pending)
        self._homes[cause.seq] = run
        if run != BOARD_RUN and cause.seq <= folded.cursor:
            return
        try:
            events = Rejected("`_board` takes no input") if run == BOARD_RUN else decide(folded.state, cause, view)
        except NewerRules as newer:
            self.leave(run, cause.seq, str(newer))
            return
        except Exception as defect:  # one run must not stop the board; it stays undecided, and the floor below it
            log.exception("a defect in the decision about input %d", cause.seq)
            self.leave(run, cause.seq, f"defect: {type(defect).__name__}: {defect}")
            return
        if isinstance(events, Rejected):
            if BOARD_RUN in self.left:
                return
            folded = self._working(BOARD_RUN, pending)
            self._homes[cause.seq] = BOARD_RUN
            if cause.seq <= folded.cursor:
                return
            events = decide_board(folded.state, cause, view, events.reason)
        if events:
            yield _decided(folded, cause, events)

    def _working(self, run: str, pending: dict[str, list[Decided]]) -> Folded:
        if pending.get(run):
            return pending[run][-1].after
        return self._runs.get(run) or self._runs.unwritten(run)

    # -- storing --

    async def _store(self, pending: dict[str, list[Decided]], floor: int) -> set[str]:
        """Append round by round, one message a run and round; the runs of which a message was refused."""
        refused: set[str] = set()
        chunks = {run: list(_chunks(decided)) for run, decided in pending.items()}
        while chunks:
            round_ = {run: waiting.pop(0) for run, waiting in chunks.items()}
            appends = [self._append(run, chunk, floor) for run, chunk in round_.items()]
            outcomes = await self._board.log.append(*appends)
            for (run, chunk), outcome in zip(round_.items(), outcomes, strict=True):
                if isinstance(outcome, Stored):
                    self._runs.put(replace(chunk[-1].after, seq=outcome.seq))
                    self.appended += sum(len(decided.events) for decided in chunk)
                else:
                    self.conflicts += 1
                    refused.add(run)
            chunks = {run: waiting for run, waiting in chunks.items() if waiting and run not in refused}
        for run in sorted(refused):
            await self._reload(run, pending[run][0].cause.seq)
        return refused

    async def _reload(self, run: str, seq: int) -> None:
        try:
            await self._runs.reload(run)
        except UNREADABLE as error:
            self.leave(run, seq, str(error))

    def _append(self, run: str, chunk: Sequence[Decided], floor: int) -> Append:
        before = self._runs.get(run) or self._runs.unwritten(run)
        stored = [event for decided in chunk for event in decided.stored]
        data = encode_facts(before.state.log, run, before.state.version + 1, before.h, stored)
        headers = {"writer": self._writer, "floor": str(floor)}
        if (after := chunk[-1].after.state).end:
            headers["state"] = state_digest(after)
        return Append(self._board.subjects.fact(run), data, expected=before.seq, headers=headers)


def _decided(folded: Folded, cause: Input, events: Sequence[e.Event]) -> Decided:
    state, h = folded.state, folded.h
    stored = tuple(encode(event) for event in events)
    for event, data in zip(events, stored, strict=True):
        state, h = evolve(state, event), chain_next(h, data)
    return Decided(cause, tuple(events), stored, Folded(state, h, cause.seq, folded.seq))


def _chunks(decided: Sequence[Decided]) -> Iterator[list[Decided]]:
    """What fits into one message each; the events of one input stay together."""
    chunk: list[Decided] = []
    size = _ENVELOPE
    for one in decided:
        more = sum(len(event) + 1 for event in one.stored)
        if chunk and size + more > MESSAGE_LIMIT:
            yield chunk
            chunk, size = [], _ENVELOPE
        chunk.append(one)
        size += more
    if chunk:
        yield chunk
