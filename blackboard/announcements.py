"""Announcements: what the supervisors of a board tell each other, and whoever looks, on core NATS. Promises only.

Nothing is stored: what nobody hears at once is gone. So nothing may be decided on it. Two implementations,
`memory_announcements` and `nats_announcements`; one suite, tests/blackboard/test_announcements_contract.py.
"""

from collections.abc import AsyncIterator
from typing import Protocol


class Announcements(Protocol):
    async def announce(self, data: bytes) -> None:
        """Tell whoever listens now, this process too. Best effort: raises nothing when the connection is away."""
        ...

    def heard(self) -> AsyncIterator[bytes]:
        """What anybody announces from the call on, in the order of each; ends when the connection is closed."""
        ...
