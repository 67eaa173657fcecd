"""A terminal for tests: the command with a person in front of it, who reads and types."""

import asyncio
import os
import pty
import re
import signal
import subprocess
import sys
import time
from collections.abc import Sequence

from tests.end_to_end.support import environment_with

PATIENCE_S = 20.0
_HEED = "import signal; signal.signal(signal.SIGINT, signal.default_int_handler)"
HEEDING = [sys.executable, "-c", f"{_HEED}; from blackboard.cli import main; main()"]
"""The command, which heeds Ctrl-C also where whatever started the tests has told its children not to."""
_STYLE = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


class Terminal:
    """`blackboard WORDS...` in a terminal of 200 columns."""

    def __init__(self, words: Sequence[str]) -> None:
        self._ours, theirs = pty.openpty()
        os.set_blocking(self._ours, False)
        environment = environment_with(COLUMNS="200", LINES="50", TERM="xterm")
        self._process = subprocess.Popen(
            [*HEEDING, *words], stdin=theirs, stdout=theirs, stderr=theirs, env=environment, start_new_session=True
        )
        os.close(theirs)
        self.raw = ""

    @property
    def shown(self) -> str:
        """All that was printed and typed, without colours."""
        return _STYLE.sub("", self.raw).replace("\r\n", "\n")

    async def shows(self, text: str, times: int = 1) -> None:
        """Return once `text` was printed `times` times."""
        deadline = time.monotonic() + PATIENCE_S
        while self.shown.count(text) < times:
            self._read()
            assert time.monotonic() < deadline, f"waited for {text!r}: {self.shown}"
            await asyncio.sleep(0.02)

    def types(self, line: str) -> None:
        os.write(self._ours, f"{line}\n".encode())

    async def ended(self) -> int:
        """The exit code, once it has ended."""
        deadline = time.monotonic() + PATIENCE_S
        while self._process.poll() is None:
            self._read()
            assert time.monotonic() < deadline, f"it did not end: {self.shown}"
            await asyncio.sleep(0.02)
        self._read()
        return self._process.returncode

    def interrupt(self) -> None:
        self._process.send_signal(signal.SIGINT)

    def close(self) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._ours)

    def _read(self) -> None:
        try:
            while data := os.read(self._ours, 65_536):
                self.raw += data.decode(errors="replace")
        except (BlockingIOError, OSError):
            pass
