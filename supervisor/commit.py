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
from projections.history import BrokenHistory, Folded, state_digest
from schemas import events as e
from schemas.catalogue import Catalogue
from schemas.codec import MESSAGE_LIMIT, UnknownEvent, encode, encode_facts
from schemas.goals import Goal
from schemas.inputs import Input, Unreadable
from schemas.subjects import BOARD_RUN
from supervisor.answer import answer
from supervisor.decide import NewerRules
from supervisor.merge import PolicyMissing
from supervisor.replay import taken_further
from supervisor.runs import Runs

log = logging.getLogger(__name__)

UNREADABLE = (BrokenHistory, UnknownEvent)
VAIN_LIMIT = 3
"""Refusals of one run, nothing newer being there, before it is left alone."""
_ENVELOPE = 1_024
"""Bytes of a fact message beside its events, at most."""


class Decided(Struct, frozen=True):
    """What one input brought about: encoded events, and the run after them."""

    cause: Input
    events: tuple[e.Event, ...]
    stored: tuple[bytes, ...]
    after: Folded


class Committer:
    """Decides and commits for all runs of one board, by the rules of that version (None: this release's). `left` are
    the runs that this supervisor leaves alone, with the first input of each that it did not decide."""

    def __init__(self, board: Board, runs: Runs, catalogue: Catalogue, writer: str, rules: int | None = None) -> None:
        self._board, self._runs, self._catalogue, self._writer = board, runs, catalogue, writer
        self._rules = rules
        self.left: dict[str, int] = {}
        self._vain: dict[str, int] = {}

    async def commit(self, inputs: Sequence[Input], floor: int) -> None:
        """Decide `inputs`, in order, and store what they bring about.

        `floor` goes along as a header: every input at or below it is decided and stored.
        """
        self._runs.trim()
        self._looked_up: set[str] = set()
        await self._load_missing(inputs)
        todo = list(inputs)
        while todo:
            pending = self._decide_all(todo)
            if self._unsure:  # of what cannot open a run it must be known whether the run is there
                await self._look_up(self._unsure)
                continue
            refused = await self._store(pending, floor)
            todo = [cause for cause in todo if self._homes.get(cause.seq) in refused]

    async def _load_missing(self, inputs: Sequence[Input]) -> None:
        """Read the runs that inputs name and that are not in memory. The run of a goal is taken to be new: the expected
        sequence tells when it is not."""
        first: dict[str, int] = {}
        for cause in inputs:
            first.setdefault(BOARD_RUN, cause.seq)  # any of them may have to be rejected
            if not isinstance(cause.body, Goal):
                first.setdefault(cause.address.run, cause.seq)
        await self._look_up(first)

    async def _look_up(self, first: dict[str, int]) -> None:
        """Read runs that are not in memory, each with the sequence of the first input that needs it."""
        for run, seq in sorted(first.items()):
            if run not in self.left and self._runs.get(run) is None:
                try:
                    await self._runs.load(run)
                except UNREADABLE as error:
                    self.leave(run, seq, str(error))
            self._looked_up.add(run)

    def leave(self, run: str, seq: int, reason: str) -> None:
        """Leave a run alone from the input at `seq` on: it cannot be read or decided here."""
        self.left.setdefault(run, seq)
        self._runs.drop(run)
        log.error("run %s is left alone from input %d on: %s", run, seq, reason, extra={"run": run})

    # -- deciding --

    def _decide_all(self, inputs: Sequence[Input]) -> dict[str, list[Decided]]:
        """What is to be stored, by run. Remembers in `_homes` which run answers each input, and in `_unsure` the runs
        that goals name in vain and that were not looked up."""
        self._homes: dict[int, str] = {}
        self._unsure: dict[str, int] = {}
        pending: dict[str, list[Decided]] = {}
        for cause in inputs:
            for decided in self._decide(cause, pending):
                pending.setdefault(decided.after.state.run, []).append(decided)
        return pending

    def _decide(self, cause: Input, pending: dict[str, list[Decided]]) -> Iterator[Decided]:
        run, view = cause.address.run, self._catalogue.below(cause.seq)
        if run in self.left and not isinstance(cause.body, Unreadable):
            return
        named, board = self._working(run, pending), self._working(BOARD_RUN, pending)
        try:
            folded, events = answer(named, board, cause, view, self._rules)
        except (NewerRules, PolicyMissing) as beyond:
            self._give_up(cause, pending, str(beyond))
            return
        except Exception as defect:  # one run must not stop the board; it stays undecided, and the floor below it
            log.exception("a defect in the decision about input %d", cause.seq)
            self._give_up(cause, pending, f"defect: {type(defect).__name__}: {defect}")
            return
        home = self._homes[cause.seq] = folded.state.run
        if home == BOARD_RUN and isinstance(cause.body, Goal) and named.cursor == 0 and run not in self._looked_up:
            self._unsure.setdefault(run, cause.seq)
        if events and home not in self.left:
            yield _decided(folded, cause, events)

    def _give_up(self, cause: Input, pending: dict[str, list[Decided]], reason: str) -> None:
        """Leave the run of `cause` alone. What was decided just before and is not stored will not be: so the first
        input of that is the first one that is not decided, and the floor stays below it."""
        before = pending.pop(cause.address.run, [])
        self.leave(cause.address.run, before[0].cause.seq if before else cause.seq, reason)

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
                    _say_end(self._runs.get(run), chunk[-1].after)
                    self._runs.put(replace(chunk[-1].after, seq=outcome.seq))
                else:
                    refused.add(run)
            chunks = {run: waiting for run, waiting in chunks.items() if waiting and run not in refused}
        for run in sorted(refused):
            await self._reload(run, pending[run][0].cause.seq)
        return refused

    async def _reload(self, run: str, seq: int) -> None:
        before = self._runs.get(run)
        try:
            after = await self._runs.reload(run)
        except UNREADABLE as error:
            self.leave(run, seq, str(error))
            return
        if after.seq > (before.seq if before else 0):
            self._vain.pop(run, None)
            return
        self._vain[run] = self._vain.get(run, 0) + 1
        if self._vain[run] >= VAIN_LIMIT:
            self.leave(run, seq, "the log refuses what follows its last message, and has no newer one: it lost some")

    def _append(self, run: str, chunk: Sequence[Decided], floor: int) -> Append:
        before = self._runs.get(run) or self._runs.unwritten(run)
        stored = [event for decided in chunk for event in decided.stored]
        data = encode_facts(before.state.log, run, before.state.version + 1, before.h, stored)
        headers = {"writer": self._writer, "floor": str(floor)}
        if (after := chunk[-1].after.state).end:
            headers["state"] = state_digest(after)
        return Append(self._board.subjects.fact(run), data, expected=before.seq, headers=headers)


def _say_end(before: Folded | None, after: Folded) -> None:
    """A line when the run has just ended."""
    state = after.state
    if state.end and not (before and before.state.end):
        tokens = state.usage.input_tokens + state.usage.output_tokens
        spent = {"tokens": tokens, "micro_usd": state.usage.micro_usd}
        extra = {"run": state.run, "latency_ms": state.now - state.opened, **spent, "code": state.code}
        log.info("run ended %s", state.end, extra=extra)


def _decided(folded: Folded, cause: Input, events: Sequence[e.Event]) -> Decided:
    stored = tuple(encode(event) for event in events)
    return Decided(cause, tuple(events), stored, taken_further(folded, cause, events, stored))


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
