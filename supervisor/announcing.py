"""Announcing one supervisor on core NATS and hearing the others: the shell around `standby`."""

import asyncio
import logging
import os
import platform
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager

from msgspec import Struct
from msgspec.structs import asdict

from blackboard.announcements import Announcements
from schemas.announcements import LEFT_NAMED, Announcement, Role, encode_announcement, read_announcement
from supervisor.standby import BEAT_S, Standing

log = logging.getLogger(__name__)


class Progress(Struct, frozen=True):
    """What a supervisor says of its work; see `Announcement`. `left` are all runs that it leaves alone."""

    log: str
    position: int
    read: int
    unfinished: int
    queued: int
    left: frozenset[str]


class Announcing:
    """`progress` is asked before each announcement, `changed` is called when this one became active or stands by.
    Without `announcements` it is always active."""

    def __init__(
        self,
        announcements: Announcements | None,
        standing: Standing,
        progress: Callable[[], Progress],
        changed: Callable[[], None],
        clock_s: Callable[[], float],
    ) -> None:
        self._announcements, self._standing = announcements, standing
        self._progress, self._changed, self._clock_s = progress, changed, clock_s
        self._role: Role = standing.role
        self._since_s = self._next_beat_s = clock_s()
        self._host = platform.node()

    @property
    def active(self) -> bool:
        return self._announcements is None or self._standing.active

    def ready(self) -> None:
        """This supervisor has read what there is."""
        self._standing.ready()
        self._note()

    @asynccontextmanager
    async def going(self) -> AsyncIterator[None]:
        """Announce and hear until the end of the block, and say so then."""
        if self._announcements is None:
            yield
            return
        tasks = [asyncio.create_task(self._hear(self._announcements)), asyncio.create_task(self._beat())]
        for task in tasks:
            task.add_done_callback(_say_defect)
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
            await self._announce("leaving")

    async def _hear(self, announcements: Announcements) -> None:
        async for data in announcements.heard():
            said, progress = read_announcement(data), self._progress()
            if said and said.log == progress.log:
                self._standing.left = progress.left
                self._standing.heard(said, self._clock_s())
                if self._note():
                    await self._announce(self._role)

    async def _beat(self) -> None:
        while True:
            now_s = self._clock_s()
            self._standing.left = self._progress().left
            self._standing.look(now_s)
            if self._note() or now_s >= self._next_beat_s:
                await self._announce(self._role)
            await asyncio.sleep(self._standing.next_s(self._clock_s()))

    def _note(self) -> bool:
        """Whether the role is another one than it was."""
        before, self._role = self._role, self._standing.role
        if before == self._role:
            return False
        self._since_s = self._clock_s()
        log.info("is %s, was %s, term %d", self._role, before, self._standing.term)
        self._changed()
        return True

    async def _announce(self, role: Role) -> None:
        progress = self._progress()
        if self._announcements is None or not progress.log:
            return
        now_s = self._clock_s()
        self._next_beat_s = now_s + BEAT_S
        beat, term = self._standing.beat(now_s)
        said = Announcement(
            name=self._standing.name,
            role=role,
            rules=self._standing.rules,
            term=term,
            beat=beat,
            held_ms=round(1000 * (now_s - self._since_s)),
            host=self._host,
            pid=os.getpid(),
            left_count=len(progress.left),
            **asdict(progress) | {"left": tuple(sorted(progress.left)[:LEFT_NAMED])},
        )
        await self._announcements.announce(encode_announcement(said))


def _say_defect(task: "asyncio.Task[None]") -> None:
    if not task.cancelled() and (defect := task.exception()):
        log.error("announcements ended: %s: %s", type(defect).__name__, defect)
