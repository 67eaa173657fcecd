"""Processes that are kept running: started again with back-off when they end, given up when they end too often or when
their call is wrong."""

import asyncio
import signal
import time
from collections.abc import AsyncIterator, Callable, Sequence

from blackboard.options import USAGE
from blackboard.server import die_with_parent

DEATHS, WITHIN_S = 5, 60.0
"""A process that ends DEATHS times within WITHIN_S seconds is given up."""
FIRST_PAUSE_S, LONGEST_PAUSE_S = 0.2, 5.0
LINE_BYTES = 1 << 20
"""Of a line that is longer only the end is shown."""
LAST_WORDS_S = 1.0
STOP_S = 15.0
"""Seconds that a process has to drain before it is killed."""


class KeptProcess:
    """`command`, kept running under `name`. `say(name, line)` receives each line that it prints and what happens."""

    def __init__(self, name: str, command: Sequence[str], say: Callable[[str, str], None]) -> None:
        self.name, self._command, self._say = name, list(command), say
        self._process: asyncio.subprocess.Process | None = None
        self.given_up = self.called_wrongly = False

    @property
    def pid(self) -> int | None:
        """The process id; None while it does not run."""
        running = self._process is not None and self._process.returncode is None
        return self._process.pid if self._process and running else None

    async def keep_running(self) -> None:
        """Run until cancelled, or until the process is given up."""
        deaths: list[float] = []
        while True:
            code = await self._run_once()
            if code == USAGE and not deaths:  # later its file may be what somebody is just writing
                self.called_wrongly = True
                self._say(self.name, f"given up: ended with code {code}, and would again")
                return
            now = time.monotonic()
            deaths = [at for at in deaths if now - at < WITHIN_S] + [now]
            if len(deaths) >= DEATHS:
                self.given_up = True
                self._say(self.name, f"given up: ended {DEATHS} times within {WITHIN_S:g} s, last with code {code}")
                return
            pause_s = min(LONGEST_PAUSE_S, FIRST_PAUSE_S * 2 ** (len(deaths) - 1))
            self._say(self.name, f"ended with code {code}; started again in {pause_s:g} s")
            await asyncio.sleep(pause_s)

    async def _run_once(self) -> int:
        self._process = await asyncio.create_subprocess_exec(
            *self._command,
            stdin=asyncio.subprocess.DEVNULL,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.STDOUT,
            start_new_session=True,  # Ctrl-C is for the parent, which stops its processes in order
            preexec_fn=die_with_parent(),
            limit=LINE_BYTES,
        )
        self._say(self.name, f"pid {self._process.pid}")
        assert self._process.stdout is not None
        telling = asyncio.create_task(self._tell(self._process.stdout))
        try:
            code = await self._process.wait()
            await asyncio.wait({telling}, timeout=LAST_WORDS_S)
        finally:
            telling.cancel()  # a process that it started may hold its output open and live on
        return code

    async def _tell(self, output: asyncio.StreamReader) -> None:
        async for line in _lines(output):
            self._say(self.name, line)

    async def stop(self) -> None:
        """Ask it to stop; kill it when it takes longer than STOP_S."""
        process = self._process
        if process is None or process.returncode is not None:
            return
        process.send_signal(signal.SIGTERM)
        try:
            await asyncio.wait_for(process.wait(), STOP_S)
        except TimeoutError:
            process.kill()
            await process.wait()


async def _lines(output: asyncio.StreamReader) -> AsyncIterator[str]:
    while True:
        try:
            line = await output.readline()
        except ValueError:  # too long; what was read of it is dropped
            continue
        if not line:
            return
        yield line.decode(errors="replace").rstrip("\n")
