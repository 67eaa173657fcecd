"""Following one run while it goes on."""

import asyncio
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import aclosing

from blackboard.board import Board
from blackboard.log import LogUnavailable, Message
from projections.audit import Recorded, recorded, take
from projections.canonical import State
from projections.history import Folded, unwritten
from schemas.events import InputRejected
from schemas.subjects import BOARD_RUN


class GoalRejected(Exception):
    """The run will have no history: its goal was not accepted. `reason` is what `_board` records."""

    exit_code = 4

    def __init__(self, run: str, seq: int, reason: str) -> None:
        super().__init__(f"the goal of run {run} (sequence {seq}) was rejected: {reason}")
        self.run, self.seq, self.reason = run, seq, reason


async def follow(
    board: Board, run: str, on_event: Callable[[Recorded], None] | None = None
) -> AsyncGenerator[Folded, None]:
    """The run each time that it has gone further, from its first event on, until it ends (`state.end` of the last one).
    `on_event` is called for each event that took it there, before.

    A run that has no events yet is waited for. Raises GoalRejected, Violation when its history is not what was
    written, LogError when the log is gone. Who stops before the end closes it (`contextlib.aclosing`).
    """
    folded, fact = unwritten(board.log.id, run), board.subjects.fact(run)
    async with aclosing(messages(board, [fact, board.subjects.fact(BOARD_RUN)])) as reading:
        async for batch in reading:
            before = folded.state.version
            for message in batch:
                if message.subject == fact:
                    folded = take(folded, message)
                    if on_event:
                        for item in recorded(message, board.log.id, run):
                            on_event(item)
                elif not folded.state.version:
                    await _check_rejected(board, run, message)
            if folded.state.version > before:
                yield folded
            if folded.state.end:
                return


async def follow_to(
    board: Board, run: str, seq: int, enough: Callable[[State], bool], timeout_s: float = 15.0
) -> Folded:
    """The run once it has decided about an input at or above `seq`, or its state is `enough`. Raises LogUnavailable
    after `timeout_s` seconds: no supervisor is there, or the input changed nothing; Violation, LogError as `follow`."""
    folded = unwritten(board.log.id, run)
    try:
        async with asyncio.timeout(timeout_s), aclosing(messages(board, [board.subjects.fact(run)])) as reading:
            async for batch in reading:
                for message in batch:
                    folded = take(folded, message)
                if folded.cursor >= seq or enough(folded.state):
                    break
    except TimeoutError:
        raise LogUnavailable(f"nothing was decided about sequence {seq}: is there a supervisor?") from None
    return folded


async def messages(board: Board, subjects: Sequence[str], after: int = 0) -> AsyncGenerator[Sequence[Message], None]:
    """What is stored on `subjects` above `after`, and what follows, live, without end."""
    arrived: asyncio.Queue[Sequence[Message]] = asyncio.Queue(1)  # one, so that a slow reader holds the log up
    subscription = await board.log.subscribe(arrived.put, subjects, after)
    ended = asyncio.ensure_future(subscription.wait())
    try:
        while True:
            coming = asyncio.ensure_future(arrived.get())
            try:
                await asyncio.wait([coming, ended], return_when=asyncio.FIRST_COMPLETED)
            finally:
                if not coming.done():
                    coming.cancel()
            if not coming.done():
                ended.result()
                raise LogUnavailable("reading the log ended; ask again")
            yield coming.result()
    finally:
        await subscription.close()
        await asyncio.gather(ended, return_exceptions=True)


async def _check_rejected(board: Board, run: str, message: Message) -> None:
    """Raise GoalRejected when a message of `_board` records the newest goal of the run. An older one does not matter:
    a run's goal is its first valid one."""
    if f".{run}".encode() not in message.data:
        return
    goals = board.subjects.goal("*", run)
    for item in recorded(message, board.log.id, BOARD_RUN):
        event = item.event
        if isinstance(event, InputRejected) and event.subject.split(".")[2:3] == ["goal"]:
            newest = await board.log.last(goals)
            if newest and newest.seq == event.cause.seq:
                raise GoalRejected(run, newest.seq, event.reason)
