"""Who waits for which answer on a connection: a table of futures behind one inbox."""

import asyncio
from collections.abc import Callable

from nats.aio.msg import Msg

from blackboard.log import LogError


class Answers:
    """Each entry has a token, the last part of the reply subject, and the subject that was asked."""

    def __init__(self) -> None:
        self._asked = 0
        self._waiting: dict[str, tuple[str, asyncio.Future[Msg]]] = {}

    def expect(self, subject: str, future: "asyncio.Future[Msg] | None" = None) -> tuple[str, "asyncio.Future[Msg]"]:
        """A token and the future of the answer. Whoever stops waiting must call `forget`."""
        self._asked += 1
        token = f"{self._asked:x}"
        future = future or asyncio.get_running_loop().create_future()
        self._waiting[token] = (subject, future)
        return token, future

    def forget(self, token: str) -> None:
        """Wait no longer."""
        self._waiting.pop(token, None)

    def give(self, token: str, message: Msg) -> None:
        """The answer came; nobody may wait for it any more."""
        _, future = self._waiting.pop(token, ("", None))
        if future is not None and not future.done():
            future.set_result(message)

    def fail(self, why: Callable[[str], LogError | None]) -> None:
        """There will be no answer to what was asked on the subjects for which `why` has an error."""
        for token, (subject, future) in list(self._waiting.items()):
            if error := why(subject):
                del self._waiting[token]
                if not future.done():
                    future.set_exception(error)
                    future.exception()  # whoever stopped waiting need not look at it
