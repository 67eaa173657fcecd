"""The command in a process whose wall clock jumps: `python -m tests.durability.shifted VERB ...`.

Every 0.1 to 0.5 s it is set to another time, up to a year before or after the true one. What counts monotonically does
not change.
"""

import os
import random
import time

_true_ns, _since = time.time_ns, time.monotonic
_drawn = random.Random(os.getpid())
_next_at = _shift_ns = 0
JUMPS_S = (60, 3_600, 86_400, 31_536_000)


def shifted_ns() -> int:
    global _next_at, _shift_ns  # noqa: PLW0603 - a clock is one for all
    if _since() >= _next_at:
        _next_at = _since() + _drawn.uniform(0.1, 0.5)
        _shift_ns = int(_drawn.choice(JUMPS_S) * _drawn.uniform(-1, 1) * 1e9)
    return _true_ns() + _shift_ns


def main() -> None:
    time.time_ns = shifted_ns
    time.time = lambda: shifted_ns() / 1e9
    from blackboard.cli import main as command

    command()


if __name__ == "__main__":
    main()
