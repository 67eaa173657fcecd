"""Numbers of a benchmark: medians, spreads, and how they are said."""

import math
import os
from collections.abc import Sequence
from pathlib import Path
from statistics import median

_TICKS = os.sysconf("SC_CLK_TCK") if hasattr(os, "sysconf") else 100


def percentile(values: Sequence[float], share: float) -> float:
    """The smallest value that `share` of them do not exceed; nan without values."""
    ordered = sorted(values) or [math.nan]
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]


def spread(values: Sequence[float], form: str = "{:.0f}") -> str:
    """`median (smallest..largest)`."""
    shown = [form.format(value) for value in (median(values), min(values), max(values))]
    return shown[0] if len(values) == 1 else f"{shown[0]} ({shown[1]}..{shown[2]})"


def verdict(met: bool) -> str:
    return "met" if met else "MISSED"


def bytes_of(count: float) -> str:
    return f"{count / 1024:.1f} KiB" if count < 10 * 1024 * 1024 else f"{count / 1024 / 1024:.0f} MiB"


def cpu_s(pid: int) -> float:
    """Seconds of processor time that a process has used; 0 where the system does not tell (elsewhere than on Linux)."""
    try:
        fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0
    return (int(fields[11]) + int(fields[12])) / _TICKS


def load() -> str:
    """How busy the machine is: processes that ran or waited over the last minute, and processors."""
    return f"load {os.getloadavg()[0]:.1f} on {os.cpu_count()} processors"
