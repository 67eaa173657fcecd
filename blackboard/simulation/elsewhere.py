"""Deciding a log again in another process, in which sets and hashes have another order than in this one.

`python -m blackboard.simulation.elsewhere module:function` reads calls of that function on stdin and answers on stdout,
until stdin ends, as it does when the process that asks is gone.
"""

import contextlib
import importlib
import os
import pickle
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import Any

from blackboard.log import Message


class Failed(Exception):
    """What was raised there."""


class Elsewhere:
    """`function`, `module:name`, in a process of its own. Close it after use."""

    def __init__(self, function: str) -> None:
        seed = os.environ.get("PYTHONHASHSEED", "random")
        other = str((int(seed) + 1) % 2**32) if seed.isdecimal() else "1"
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, function],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=os.environ | {"PYTHONHASHSEED": other},
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._asks, self._answers = self._process.stdin, self._process.stdout

    def chains(self, log_id: str, messages: Sequence[Message], batch: int) -> Mapping[str, str]:
        """The chain of each run, as the function decides it. Raises Failed; SystemExit when the process is gone, for
        that says nothing about what it was asked."""
        try:
            pickle.dump((log_id, list(messages), batch), self._asks)
            self._asks.flush()
            answer: Mapping[str, str] | str = pickle.load(self._answers)
        except (BrokenPipeError, EOFError):
            raise SystemExit("the process that decides logs again is gone, see what it says above") from None
        if isinstance(answer, str):
            raise Failed(answer)
        return answer

    def close(self) -> None:
        with contextlib.suppress(BrokenPipeError):
            self._asks.close()
        self._process.wait()
        self._answers.close()


def main(function: str) -> None:
    module, _, name = function.partition(":")
    decide: Any = getattr(importlib.import_module(module), name)
    answer: Mapping[str, str] | str
    while True:
        try:
            log_id, messages, batch = pickle.load(sys.stdin.buffer)
        except EOFError:
            return
        try:
            answer = {run: one.h for run, one in decide(log_id, messages, batch).items()}
        except Exception as error:
            answer = f"{type(error).__name__}: {error}"
        pickle.dump(answer, sys.stdout.buffer)
        sys.stdout.buffer.flush()


if __name__ == "__main__":
    main(sys.argv[1])
