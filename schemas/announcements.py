"""What supervisors say of themselves on core NATS, several times a second: who decides, who stands by, and how far.

Nothing of it is stored and nothing is decided on it: it only keeps supervisors from doing each other's work, and tells
people which one is active. Pure.
"""

from typing import Literal

import msgspec
from msgspec import Struct

from schemas.codec import encode

LEFT_NAMED = 200
"""Runs left alone that an announcement names at most."""
ANNOUNCEMENT_LIMIT = 64 * 1024
"""Bytes of an announcement at most."""

Role = Literal["starting", "standby", "active", "leaving"]
"""starting: it reads what there is; standby: it folds along and does not decide; leaving: it stops, or has begun to."""


class Announcement(Struct, frozen=True, omit_defaults=True):
    """`name` tells supervisors apart, `log` is the id of the log that they serve, `rules` those that this one decides
    by. `term` rises with each takeover: its own while it is active, else the highest that it has heard of. `beat`
    counts its announcements. `held_ms`: for how long it has had its role.

    `position`: every input at or below it is decided and stored, as far as it knows. `read`: as far as it has read.
    `left`: the runs that it leaves alone, the first LEFT_NAMED of `left_count`. `unfinished`: runs that it holds.
    `queued`: tasks that wait or are in work, as it last looked (-1: it has not).
    """

    name: str
    log: str
    role: Role
    rules: int
    term: int
    beat: int
    position: int = 0
    read: int = 0
    held_ms: int = 0
    host: str = ""
    pid: int = 0
    unfinished: int = 0
    queued: int = -1
    left: tuple[str, ...] = ()
    left_count: int = 0

    @property
    def leaves(self) -> frozenset[str] | None:
        """The runs that it leaves alone; None where not all of them are named."""
        return frozenset(self.left) if len(self.left) == self.left_count else None


def encode_announcement(announcement: Announcement) -> bytes:
    return encode(announcement)


def read_announcement(data: bytes) -> Announcement | None:
    """The announcement that `data` is; None for anything else."""
    if len(data) > ANNOUNCEMENT_LIMIT:
        return None
    try:
        return msgspec.json.decode(data, type=Announcement)
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
        return None
