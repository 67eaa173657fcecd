"""The supervisor: reads the log, decides, commits, and sees to it that what follows from the state is done.

One loop: take what was read, fold what others committed, decide and commit the rest (`commit`), then derive effects
(`effects`) and due timers (`timers`). Any number of supervisors may do this at once: they write the same history.

Of several that hear each other (`announcing`) one is active; the others stand by: they fold what it commits and do not
decide, so that one of them takes over where it was, without reading anything again but the last inputs.
"""

import asyncio
import logging
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from blackboard.board import Board
from blackboard.log import Append, LogDamaged, LogUnavailable, Message
from blackboard.queue import Entry, QueueGone, QueueUnavailable, TaskKey
from projections.history import Folded
from schemas.catalogue import Catalogue, View
from schemas.codec import encode, ends_run, sha256
from schemas.contracts import Contract
from schemas.inputs import Ended, Input, TimerDue, Wake
from schemas.subjects import SUPERVISOR
from supervisor import decide, effects
from supervisor.announcing import Announcing, Progress
from supervisor.answer import read_message
from supervisor.commit import UNREADABLE, Committer
from supervisor.inbox import Inbox
from supervisor.merge import Policy
from supervisor.runs import Runs
from supervisor.standby import Standing
from supervisor.timers import Timers
from supervisor.traces import Traces

log = logging.getLogger(__name__)

BATCH = 500
"""Messages that one turn takes at most."""
MEND_S = 3.0
"""Seconds between two looks at whether the queue holds what it should."""
GRACE_S = 2.0
"""Added to the rest of a timer after a takeover, for workers that were cut off as well."""


class PositionLost(Exception):
    """The log is another one, or was set back: what was read of it is void."""


class Supervisor:
    """One supervisor of one board. `name` tells it from others in headers; `rules` is the version of the rules that it
    decides by (None: this release's); `policies` are the installed merge policies by name and version; `clock_s` counts
    seconds, never back."""

    def __init__(
        self,
        board: Board,
        *,
        name: str = "",
        rules: int | None = None,
        policies: Mapping[tuple[str, int], Policy] | None = None,
        batch: int = BATCH,
        mend_s: float = MEND_S,
        grace_s: float = GRACE_S,
        clock_s: Callable[[], float] = time.monotonic,
    ) -> None:
        self._board, self.name = board, name or f"{os.getpid()}-{secrets.token_hex(3)}"
        self._batch, self._mend_s, self._grace_s, self._clock_s = batch, mend_s, grace_s, clock_s
        self._rules, self._policies = rules, policies
        self._news = asyncio.Event()
        self._reconnected = False
        self._begin()
        standing = Standing(self.name, decide.RULES if rules is None else rules, clock_s())
        self.announcing = Announcing(board.announcements, standing, self._progress, self._news.set, clock_s)
        board.log.on_reconnect(self._on_reconnect)

    def _begin(self, log_id: str = "") -> None:
        """Forget everything that came from the log."""
        self._log_id = log_id
        self.catalogue = Catalogue(self._policies)
        self.runs = Runs(self._board, log_id)
        self.committer = Committer(self._board, self.runs, self.catalogue, self.name, self._rules)
        self.position = 0
        """Every input at or below it is decided and stored, as far as is known here."""
        self._read_seq, self._read_sha256 = 0, ""
        """The last message that was handled: decided while this one is active, folded while it stands by."""
        self._deciding = False
        self._queued = -1
        self._inbox = Inbox(self._news)
        self._timers = Timers(self._clock_s)
        self._traces = Traces(self._board, log_id, self.name)
        self._mend_at = self._clock_s()
        self._mending: effects.Look | None = None

    # -- the loop --

    async def run(self, stop: asyncio.Event) -> None:
        """Serve until `stop`. Raises LogDamaged where the log cannot be trusted any more."""
        async with self.announcing.going():
            while not stop.is_set():
                try:
                    await self._serve(stop)
                except PositionLost as lost:
                    log.warning("starting anew: %s", lost)
                except LogUnavailable as away:
                    log.warning("waiting for the server: %s", away)
                    await asyncio.sleep(0.2)

    async def _serve(self, stop: asyncio.Event) -> None:
        await self._recover()
        self.announcing.ready()
        reading = await self._board.log.subscribe(self._inbox.on_messages, after=self.position)
        ended = asyncio.ensure_future(reading.wait())
        stopped = asyncio.ensure_future(stop.wait())
        try:
            while not stop.is_set():
                if ended.done():
                    ended.result()
                    raise PositionLost("reading ended")
                await self._wait_for_work(ended, stopped)
                await self._turn()
        finally:
            stopped.cancel()
            await reading.close()
            await asyncio.gather(ended, return_exceptions=True)
            await self._traces.settle()

    async def _wait_for_work(self, *ending: asyncio.Future[Any]) -> None:
        if self._inbox or self._reconnected or self.announcing.active != self._deciding:
            return
        timer_s, mend_s = self._timers.next_s(), max(0.0, self._mend_at - self._clock_s())
        if self._mending:  # it goes on with the messages up to the head that was noted, and not before
            mend_s = self._mend_s
        news = asyncio.create_task(self._news.wait())
        due_s = mend_s if timer_s is None else min(timer_s, mend_s)
        timeout = due_s if self._deciding else None  # else timers and queue are the active one's
        await asyncio.wait([news, *ending], timeout=timeout, return_when=asyncio.FIRST_COMPLETED)
        news.cancel()

    async def _turn(self) -> None:
        """Everything that is due now. What fails because the server is away is due again in the next turn."""
        try:
            if self._reconnected:
                await self._check_position()
            if self.announcing.active != self._deciding:
                await self._change()
            messages = self._take()
            if not self._deciding:
                self._follow(messages)
                return
            await self._handle(messages, len(messages))
            await self._wake_timers()
            await self._mend()
        except (LogUnavailable, QueueGone, QueueUnavailable) as away:
            log.warning("waiting for the server: %s", away)
            if isinstance(away, QueueGone):  # what was seen of it is void: look again, which makes it anew
                self._mending = None
            self._mend_at = self._clock_s()
            await asyncio.sleep(0.2)

    # -- reading --

    def _on_reconnect(self) -> None:
        self._reconnected = True
        self._mend_at = self._clock_s()
        self._news.set()

    def _take(self) -> list[Message]:
        """The next messages; they stay in the inbox until they are handled."""
        self._news.clear()
        return self._inbox.first(self._batch)

    async def _recover(self) -> None:
        """Take over: the floor of the last fact message, unfinished runs, the catalogue."""
        board, subjects = self._board, self._board.subjects
        self._begin(await board.log.current_id())
        self._reconnected = False
        floor = await self.runs.stored_floor()
        head = await board.log.head()  # after `floor`: what lies at or below it is read now or never
        at_head = await board.log.get(head) if head else None
        async for messages in board.log.scan([subjects.every("contract"), subjects.every("playbook")], upto=head):
            for message in messages:
                if address := subjects.address(message.subject):
                    self.catalogue.add(message.seq, address, message.data)
        await self._load_unfinished(head, at_head.time_ms if at_head else 0)
        await self._set_position(floor)
        self._deciding = self.announcing.active
        if self._deciding:
            await self._decide_again()
            self._traces.took_over(time.time() * 1000)
        log.info("%s at position %d of %d", "took over" if self._deciding else "stands by", self.position, head)

    async def _load_unfinished(self, head: int, head_ms: int) -> None:
        """What was stored above `head` is new: its timers have everything before them, whatever the clock says."""
        open_runs: list[str] = []
        async for message in self._board.log.last_per_subject(self._board.subjects.every("fact")):
            if address := self._board.subjects.address(message.subject):
                if ends_run(message.data, self._log_id, address.run):
                    self._traces.ended_elsewhere(address.run, message.time_ms)
                else:
                    open_runs.append(address.run)
        for run in open_runs:
            try:
                folded = await self.runs.load(run)
            except UNREADABLE as error:
                self.committer.leave(run, 0, str(error))
                continue
            self._timers.see(folded.state, head_ms if folded.seq <= head else 0, self._grace_s)

    async def _set_position(self, seq: int) -> None:
        message = await self._board.log.get(seq) if seq else None
        if seq and message is None:
            raise LogDamaged(seq, "no message is stored there, and facts say that it was decided")
        self.position = self._read_seq = seq
        self._read_sha256 = sha256(message.data) if message else ""

    async def _check_position(self) -> None:
        """After a reconnect: the log must be the same, and hold what was read of it last."""
        if await self._board.log.current_id() != self._log_id:
            raise PositionLost("the log was created anew")
        message = await self._board.log.get(self._read_seq) if self._read_seq else None
        if self._read_seq and (message is None or sha256(message.data) != self._read_sha256):
            raise PositionLost(f"the log was set back below {self._read_seq}")
        self._reconnected = False

    async def _decide_again(self) -> None:
        """What runs lost at their end, before anything else: inputs at or below the position are not read again."""
        position = self.position
        async for messages in self.runs.behind(position):
            await self._handle(messages, 0)
        self.position = position

    # -- standing by --

    async def _change(self) -> None:
        """Be what this supervisor now is: the active one, or one that stands by."""
        if not self.announcing.active:
            self._deciding, self._mending = False, None
            return
        self._follow(self._inbox.first())
        self.position = min(await self.runs.stored_floor(), self._read_seq)
        await self._decide_again()
        log.info("took over at position %d of %d", self.position, self._read_seq)
        async for messages in self._board.log.scan(after=self.position, upto=self._read_seq):
            await self._handle(messages, 0)
        self._deciding, self._mending, self._mend_at = True, None, self._clock_s()
        self._traces.took_over(time.time() * 1000)

    def _follow(self, messages: Sequence[Message]) -> None:
        """Fold what the active one committed. What it did not decide is read again at a takeover."""
        for message in messages:
            self._read(message)
        self.runs.trim()
        self._passed(messages, len(messages))

    def _passed(self, messages: Sequence[Message], taken: int) -> None:
        """These were handled, and the first `taken` of the inbox were among them."""
        if messages and messages[-1].seq > self._read_seq:
            self._read_seq, self._read_sha256 = messages[-1].seq, sha256(messages[-1].data)
        self._inbox.drop(taken)

    def _progress(self) -> Progress:
        return Progress(
            log=self._log_id,
            position=self.position,
            read=self._read_seq,
            unfinished=self.runs.unfinished_count,
            queued=self._queued,
            left=frozenset(self.committer.left),
        )

    # -- handling --

    async def _handle(self, messages: Sequence[Message], taken: int) -> None:
        """Decide and commit, and do what follows; the first `taken` of the inbox are these messages."""
        if not messages:
            return
        inputs: list[Input] = []
        for message in messages:
            inputs += self._read(message)
        before = {cause.address.run: self.runs.get(cause.address.run) for cause in inputs}
        await self.committer.commit(inputs, self.floor)
        self.position = messages[-1].seq
        self._passed(messages, taken)
        ended = {key for cause in inputs if (key := _ended_by_worker(cause))}
        further = [
            (was, now)
            for run, was in before.items()
            if (now := self.runs.get(run)) is not None and (was is None or now.seq != was.seq)
        ]
        for was, now in further:
            self._timers.see(now.state)
            if now.state.end and not (was and was.state.end):
                self._traces.ended(now.state.run)
        try:
            await self._effects(further, ended)
        except (QueueGone, QueueUnavailable) as gone:  # mending makes it anew, and comes before more messages
            log.warning("waiting for the queue: %s", gone)
            self._mending, self._mend_at = None, self._clock_s()

    @property
    def floor(self) -> int:
        """Every input at or below it is decided and stored, by whomever."""
        return max(0, min([self.position, *(seq - 1 for seq in self.committer.left.values())]))

    def _read(self, message: Message) -> list[Input]:
        """The input that a message is, if it is one; facts and the catalogue are folded on the way."""
        cause = read_message(message, self._board.subjects, self.catalogue)
        if cause is not None:
            self._traces.heard(cause)
            return [cause]
        address = self._board.subjects.parse(message.subject)
        if address.family == "fact":
            self._traces.stored(address.run, message, self.runs.is_over(address.run))
            self._fold(address.run, message)
            if not self._deciding:
                self.position = max(self.position, self.runs.floor_of(message))
        else:
            self._mend_at = self._clock_s()
        return []

    def _fold(self, run: str, message: Message) -> None:
        """What another supervisor committed; what this one did is known already."""
        known = self.runs.get(run)
        if run in self.committer.left or (known and message.seq <= known.seq):
            return
        try:
            folded = self.runs.further(known or self.runs.unwritten(run), message)
        except UNREADABLE as error:
            if known is None:
                return  # a finished run that is not in memory; it is loaded when an input names it
            self.committer.leave(run, message.seq, str(error))
            return
        if known or folded.state.version:
            self.runs.put(folded)
            self._timers.see(folded.state)

    # -- effects --

    async def _effects(self, further: Sequence[tuple[Folded | None, Folded]], ended: set[TaskKey]) -> None:
        """Facts first, then what follows from them, for runs that were just taken further, each as it was and is now.
        `ended` are the attempts whose workers take them out of the queue themselves."""
        entries: list[Entry] = []
        given_up: set[TaskKey] = set()
        for was, now in further:
            before, after = effects.in_flight(was.state) if was else set(), effects.in_flight(now.state)
            entries += self._traces.carried(effects.entries(now.state, after - before, self._contract_at))
            given_up |= before - after - ended
        await self._board.queue.put(entries)
        for _, now in further:
            await self._relatives(now)
        await self._take_out(given_up)

    async def _take_out(self, keys: Iterable[TaskKey]) -> None:
        keys = sorted(keys)
        if keys:
            await self._board.queue.remove(keys)
            for key in keys:
                await self._board.queue.cancel(key)

    async def _relatives(self, folded: Folded) -> None:
        """Child runs that should exist, and what parents and children must be told."""
        state = folded.state
        for goal in effects.child_goals(state):
            child = await self._known(goal.run)
            if child and not child.state.goal:
                subject = self._board.subjects.goal(SUPERVISOR, goal.run)
                await self._board.log.append(Append(subject, goal.data, expected=0))
            elif child and (wake := effects.wake_about_child(goal, child.state, child.h, state)):
                await self._wake(state.run, wake)
        if state.over:
            for run in effects.children(state):
                child = await self._known(run)
                if child and child.state.goal and (wake := effects.wake_for_child(state, child.state)):
                    await self._wake(run, wake)
        parent = await self._known(state.parent.run) if state.parent else None
        if parent and (wake := effects.wake_for_parent(state, folded.h, parent.state)):
            await self._wake(parent.state.run, wake)
        if parent and (wake := effects.wake_for_child(parent.state, state)):
            await self._wake(state.run, wake)

    async def _known(self, run: str) -> Folded | None:
        """The run; None where it cannot be read, so that it is left alone."""
        if run in self.committer.left:
            return None
        try:
            return self.runs.get(run) or await self.runs.load(run)
        except UNREADABLE as error:
            self.committer.leave(run, self.position + 1, str(error))
            return None

    async def _wake(self, run: str, wake: Wake) -> None:
        await self._board.log.append(Append(self._board.subjects.wake(run), encode(wake)))

    async def _wake_timers(self) -> None:
        due = [one for one in self._timers.take_due() if one[0] not in self.committer.left]
        subjects = self._board.subjects
        appends = [Append(subjects.wake(run), encode(TimerDue(timer=name, armed=armed))) for run, name, armed in due]
        if appends:
            await self._board.log.append(*appends)

    # -- mending --

    async def _mend(self) -> None:
        """Bring queue, wakes and child runs to what the state says. In this order: look at the queue, note the head of
        the log, handle all up to it; only then enqueue what was in flight and not there, and remove what has ended.

        So an attempt that is still in flight then, and was not in the queue before, cannot have ended: its worker
        stores the end before it takes the entry out.
        """
        if self._mending is None and self._clock_s() >= self._mend_at:
            self._mend_at = self._clock_s() + self._mend_s  # before it looks: a contract that comes now is due again
            self._mending = await self._look()
            self._queued = len(self._mending.there)
        if self._mending is None or self.position < self._mending.head:
            return
        for folded in self.runs.unfinished():
            absent = effects.in_flight(folded.state) & self._mending.absent
            await self._board.queue.put(self._traces.carried(effects.entries(folded.state, absent, self._contract_at)))
            await self._relatives(folded)
            if wake := effects.wake_for_capability(folded.state, self._view()):
                await self._wake(folded.state.run, wake)
        await self._take_out([key for key in sorted(self._mending.there) if await self._is_over(key)])
        self._mending = None

    async def _look(self) -> effects.Look:
        wanted = {key for folded in self.runs.unfinished() for key in effects.in_flight(folded.state)}
        await self._board.queue.ensure(contract.specialist for contract in self._view().contracts())
        there = await self._board.queue.keys()
        return effects.Look(wanted - there, there, await self._board.log.head())

    async def _is_over(self, key: TaskKey) -> bool:
        """Whether the run is known and has no such attempt in flight. What is unknown stays."""
        folded = await self._known(key.run)
        return folded is not None and bool(folded.state.goal) and key not in effects.in_flight(folded.state)

    def _contract_at(self, seq: int) -> Contract | None:
        return self._view().contract_at(seq)

    def _view(self) -> View:
        """The catalogue as far as it was read."""
        return self.catalogue.below(self.position + 1)


def _ended_by_worker(cause: Input) -> TaskKey | None:
    """The attempt whose end this input is: its worker takes it out of the queue."""
    end = cause.body
    return TaskKey(cause.address.author, cause.address.run, end.task, end.attempt) if isinstance(end, Ended) else None
